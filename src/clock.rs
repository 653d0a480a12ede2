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

    /// As `2026-02-28T09:00:00.000Z`.
    pub fn to_rfc3339(self) -> String {
        let (days, millis) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = date(days);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1000 % 60, millis % 1000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
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

/// Year, month and day of a day counted from 1970-01-01. Years are counted from March here, so that
/// the leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_its_date() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_772_269_200_000, "2026-02-28T09:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_rfc3339(), text);
        }
    }
}
