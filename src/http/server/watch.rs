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
/// For a client that goes on sending after the last answer.
const LINGER: Duration = Duration::from_secs(2);
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
    Lingering,
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
            Phase::Lingering => (LINGER, Order::Cut),
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
            Stage::Lingering => Self::Lingering,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const SECOND: Duration = Duration::from_secs(1);

    const LIMITS: Limits = Limits {
        max_connections: 1,
        header_timeout: Duration::from_secs(10),
        body_idle_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(60),
        max_header_bytes: 8192,
        max_in_flight: 1,
    };

    const IDLE: Reading = Reading {
        stage: Stage::Http1,
        order: Order::GoOn,
        started: 1,
        in_flight: 0,
        ours: 0,
        frames: 0,
        writes: 2,
        reading: false,
    };
    const BUSY: Reading = Reading { in_flight: 1, ours: 1, ..IDLE };
    const UNTAKEN: Reading = Reading { in_flight: 1, ..IDLE };
    const HEAD: Reading = Reading { reading: true, ..IDLE };
    const STARTING: Reading = Reading { stage: Stage::Starting, started: 0, writes: 0, ..IDLE };

    /// Looks every second at what stands then; the first order and its second.
    fn first_order(serving: Serving, at: impl Fn(u32) -> Reading) -> Option<(u32, Order)> {
        let start = clock::now();
        let mut watch = Watch::new(start);
        (0..1000).find_map(|second| {
            let order = watch.look(&at(second), &LIMITS, serving, start + second * SECOND);
            (order != Order::GoOn).then_some((second, order))
        })
    }

    fn order(at: impl Fn(u32) -> Reading) -> Option<(u32, Order)> {
        first_order(Serving::Everyone, at)
    }

    #[test]
    fn each_phase_has_its_limit() {
        assert_eq!(order(|_| STARTING), Some((10, Order::Cut)));
        assert_eq!(order(|_| HEAD), Some((10, Order::Cut)));
        assert_eq!(order(|_| IDLE), Some((60, Order::Close)));
        assert_eq!(order(|_| UNTAKEN), Some((30, Order::Cut)));
        assert_eq!(order(|_| Reading { order: Order::Close, ..IDLE }), Some((10, Order::Cut)));
        assert_eq!(order(|_| Reading { stage: Stage::Lingering, ..IDLE }), Some((2, Order::Cut)));
        assert_eq!(order(|_| BUSY), None);
    }

    #[test]
    fn the_first_head_has_its_time_from_the_start_of_the_connection() {
        let head = Reading { started: 0, ..HEAD };
        let slow = |second| if second < 7 { STARTING } else { head };
        assert_eq!(order(slow), Some((10, Order::Cut)));
    }

    #[test]
    fn requests_between_two_looks_keep_a_connection_alive() {
        assert_eq!(order(|second| Reading { started: second / 50, ..IDLE }), None);
        // The next head begins right after the last answer, every time.
        assert_eq!(order(|second| Reading { started: second, ..HEAD }), None);
    }

    #[test]
    fn a_slow_reader_is_not_one_that_has_stopped() {
        assert_eq!(order(|second| Reading { frames: second / 25, ..UNTAKEN }), None);
        assert_eq!(order(|second| Reading { writes: 2 * (second / 25) + 1, ..BUSY }), None);
        assert_eq!(order(|_| Reading { writes: 3, ..BUSY }), Some((30, Order::Cut)));
        // The end of a long answer is in the buffers only.
        assert_eq!(order(|second| Reading { writes: 2 * (second / 25) + 1, ..IDLE }), None);
    }

    #[test]
    fn frames_of_http_2_that_are_no_request_are_no_head() {
        let reading = Reading { stage: Stage::Http2, ..HEAD };
        assert_eq!(order(|_| reading), Some((60, Order::Close)));
    }

    #[test]
    fn a_stop_waits_a_moment_for_a_first_request() {
        assert_eq!(first_order(Serving::TheLastOnes, |_| STARTING), Some((1, Order::Cut)));
        assert_eq!(first_order(Serving::TheLastOnes, |_| BUSY), None);
    }
}
