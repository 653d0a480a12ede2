//! What a connection does, for whoever watches over it: a few numbers, and no clock.
//!
//! Requests only add to these. The watch looks at them now and then and keeps the time itself, so
//! that a request costs three additions and neither a timer nor a look at a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::interim::Interims;

/// Three counts in one word, so that one addition changes them together: requests so far (it may
/// wrap), requests in flight, and those of them that wait for us and not for the client.
const ONE_STARTED: u64 = 1 << 40;
const ONE_IN_FLIGHT: u64 = 1 << 20;
const ONE_OURS: u64 = 1;
const COUNT: u64 = (1 << 20) - 1;

#[derive(Default)]
pub(super) struct Pulse {
    requests: AtomicU64,
    /// Parts of answers handed over.
    frames: AtomicU32,
    /// Writes that succeeded, times two; odd while one is blocked.
    writes: AtomicU32,
    /// Something arrived and is no request yet.
    reading: AtomicBool,
    stage: AtomicU8,
    order: AtomicU8,
    pub(super) interims: Interims,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The TLS handshake, and waiting for the first bytes.
    Starting,
    Http1,
    Http2,
    /// Everything was said; what the client still sends is read and thrown away.
    Lingering,
}

/// What the connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    GoOn,
    /// End when nothing is in flight.
    Close,
    /// End now.
    Cut,
}

/// The numbers at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub stage: Stage,
    pub order: Order,
    pub started: u32,
    pub in_flight: u32,
    /// Requests in flight that wait for us.
    pub ours: u32,
    pub frames: u32,
    pub writes: u32,
    pub reading: bool,
}

impl Pulse {
    pub(super) fn read(&self) -> Reading {
        let requests = self.requests.load(Relaxed);
        Reading {
            stage: match self.stage.load(Relaxed) {
                0 => Stage::Starting,
                1 => Stage::Http1,
                2 => Stage::Http2,
                _ => Stage::Lingering,
            },
            order: self.order(),
            started: (requests / ONE_STARTED) as u32,
            in_flight: ((requests / ONE_IN_FLIGHT) & COUNT) as u32,
            ours: (requests & COUNT) as u32,
            frames: self.frames.load(Relaxed),
            writes: self.writes.load(Relaxed),
            reading: self.reading.load(Relaxed),
        }
    }

    pub(super) fn enters(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
    }

    pub(super) fn order(&self) -> Order {
        match self.order.load(Relaxed) {
            0 => Order::GoOn,
            1 => Order::Close,
            _ => Order::Cut,
        }
    }

    /// Never back to a milder one.
    pub(super) fn give(&self, order: Order) {
        self.order.fetch_max(order as u8, Relaxed);
    }

    pub(super) fn something_read(&self) {
        if !self.reading.load(Relaxed) {
            self.reading.store(true, Relaxed);
        }
    }

    // Only the owner of the socket writes these two, so they need not be one step.

    pub(super) fn write_succeeded(&self) {
        self.writes.store((self.writes.load(Relaxed) & !1).wrapping_add(2), Relaxed);
    }

    pub(super) fn write_blocked(&self) {
        self.writes.store(self.writes.load(Relaxed) | 1, Relaxed);
    }

    pub(super) fn is_write_blocked(&self) -> bool {
        self.writes.load(Relaxed) & 1 == 1
    }

    pub(super) fn frame_taken(&self) {
        self.frames.fetch_add(1, Relaxed);
    }
}

/// One request, from its head until its answer is handed over or dropped.
pub(super) struct InFlight {
    pulse: Arc<Pulse>,
    ours: bool,
}

impl InFlight {
    pub(super) fn begin(pulse: &Arc<Pulse>) -> Self {
        pulse.requests.fetch_add(ONE_STARTED + ONE_IN_FLIGHT + ONE_OURS, Relaxed);
        pulse.reading.store(false, Relaxed);
        Self { pulse: pulse.clone(), ours: true }
    }

    pub(super) fn waits_for_us(&mut self) {
        if !self.ours {
            self.ours = true;
            self.pulse.requests.fetch_add(ONE_OURS, Relaxed);
        }
    }

    pub(super) fn waits_for_the_client(&mut self) {
        if self.ours {
            self.ours = false;
            self.pulse.requests.fetch_sub(ONE_OURS, Relaxed);
        }
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let ours = if self.ours { ONE_OURS } else { 0 };
        // What came meanwhile was this request's body.
        self.pulse.reading.store(false, Relaxed);
        self.pulse.requests.fetch_sub(ONE_IN_FLIGHT + ours, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_do_not_spill_into_each_other() {
        let pulse = Arc::new(Pulse::default());
        let mut first = InFlight::begin(&pulse);
        let second = InFlight::begin(&pulse);
        first.waits_for_the_client();
        first.waits_for_the_client();
        let counts = |pulse: &Pulse| {
            let reading = pulse.read();
            (reading.started, reading.in_flight, reading.ours)
        };
        assert_eq!(counts(&pulse), (2, 2, 1));
        drop(second);
        assert_eq!(counts(&pulse), (2, 1, 0));
        first.waits_for_us();
        assert_eq!(counts(&pulse), (2, 1, 1));
        drop(first);
        assert_eq!(counts(&pulse), (2, 0, 0));
    }

    #[test]
    fn an_order_is_never_taken_back() {
        let pulse = Pulse::default();
        pulse.give(Order::Cut);
        pulse.give(Order::Close);
        assert_eq!(pulse.order(), Order::Cut);
    }
}
