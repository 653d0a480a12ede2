//! When a connection has gone too far: pure, the time is passed in.
//!
//! A look says how long things have stood as they stand now. It happens every quarter of the
//! shortest limit, so a limit is kept to within a quarter of itself, never early.

use std::time::{Duration, Instant};

use super::pulse::{Order, Reading, Stage};
use crate::config::Limits;

/// Between two looks, at least.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// Whoever connected just before the stop may still ask something.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
const PAUSE_WHILE_STOPPING: Duration = Duration::from_millis(50);

pub(super) struct Watch {
    phase: Phase,
    since: Instant,
    writes: u32,
    writes_since: Instant,
}

/// The same value means that nothing has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    /// Bytes came and they are no request yet.
    Head {
        started: u32,
    },
    Idle {
        started: u32,
    },
    /// We work, or what we wait for does.
    Busy,
    /// All answers in flight wait for the client to take more of them.
    Untaken {
        started: u32,
        in_flight: u32,
        frames: u32,
    },
    /// It is to end, has nothing in flight, and is still there.
    Closing {
        started: u32,
        writes: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    Everyone,
    /// A soft stop was asked for.
    TheLastOnes,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Self {
        Self { phase: Phase::Starting, since: now, writes: 0, writes_since: now }
    }

    pub(super) fn look(
        &mut self,
        reading: &Reading,
        limits: &Limits,
        serving: Serving,
        now: Instant,
    ) -> Order {
        let phase = Phase::of(reading);
        // The first head has its time from the start of the connection.
        let goes_on = self.phase == Phase::Starting && phase == Phase::Head { started: 0 };
        if self.phase != phase {
            self.phase = phase;
            self.since = if goes_on { self.since } else { now };
        }
        if self.writes != reading.writes {
            self.writes = reading.writes;
            self.writes_since = now;
        }
        let is_write_blocked = self.writes & 1 == 1;
        if is_write_blocked && now - self.writes_since >= limits.body_idle_timeout {
            return Order::Cut;
        }
        let (most, then) = match phase {
            Phase::Starting if serving == Serving::TheLastOnes => {
                (limits.header_timeout.min(FIRST_REQUEST), Order::Cut)
            }
            Phase::Starting | Phase::Head { .. } | Phase::Closing { .. } => {
                (limits.header_timeout, Order::Cut)
            }
            // The end of the last answer is still on its way.
            Phase::Idle { .. } if is_write_blocked => return Order::GoOn,
            Phase::Idle { .. } => (limits.idle_timeout, Order::Close),
            Phase::Untaken { .. } => (limits.body_idle_timeout, Order::Cut),
            Phase::Busy => return Order::GoOn,
        };
        if now - self.since >= most { then } else { Order::GoOn }
    }
}

impl Phase {
    fn of(reading: &Reading) -> Self {
        let &Reading { stage, order, started, in_flight, ours, frames, writes, .. } = reading;
        match stage {
            Stage::Starting => Self::Starting,
            _ if ours > 0 => Self::Busy,
            _ if in_flight > 0 => Self::Untaken { started, in_flight, frames },
            _ if order == Order::Close => Self::Closing { started, writes },
            // HTTP/2 has a lot to say besides requests.
            Stage::Http1 if reading.reading => Self::Head { started },
            Stage::Http1 | Stage::Http2 => Self::Idle { started },
        }
    }
}

/// Until the next look.
pub(super) fn pause(limits: &Limits, serving: Serving) -> Duration {
    let shortest = limits.header_timeout.min(limits.idle_timeout).min(limits.body_idle_timeout);
    let pause = (shortest / 4).max(SHORTEST_PAUSE);
    match serving {
        Serving::Everyone => pause,
        Serving::TheLastOnes => pause.min(PAUSE_WHILE_STOPPING),
    }
}
