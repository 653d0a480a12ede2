//! Time, and the only place that asks for it.
//!
//! Leases and expiry are judged by the durable tier's clock, which comes back with every record as
//! a [`Timestamp`]; an instance's own wall clock never decides anything. Waiting and measuring use
//! the monotonic [`now`].

use std::ops::Add;
use std::time::{Duration, Instant};

/// A moment by the durable tier's clock: milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(millis(rhs)))
    }
}

/// Longer than anything is kept; added to any date it still fits into what databases store.
const FOR_EVER_MILLIS: i64 = 100 * 365 * 24 * 3600 * 1000;

/// A duration as whole milliseconds, the unit of every stored time.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(FOR_EVER_MILLIS).min(FOR_EVER_MILLIS)
}

/// That long from now, on the monotonic clock.
pub fn after(duration: Duration) -> Instant {
    now() + Duration::from_millis(millis(duration).unsigned_abs())
}

/// The monotonic clock of this process.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub fn now() -> Instant {
    Instant::now()
}
