//! Time, and the only place that asks for it.
//!
//! Leases and expiry are judged by the durable tier's clock, which comes back with every record as
//! a [`Timestamp`]; an instance's own wall clock never decides anything. Waiting and measuring use
//! the monotonic [`now`].

use std::fmt;
use std::ops::Add;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::Deserialize;

/// A moment by the durable tier's clock: milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// From what `Display` wrote, and nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let (year, month_from_march) =
            if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
            + year.div_euclid(400)
            + (153 * month_from_march + 2) / 5
            + day
            - 1
            - MARCH_OF_YEAR_0;
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
        let read = Self(seconds * 1000 + number(20, 23)?);
        (read.to_string() == text).then_some(read)
    }

    /// As the header `Date` has it, to the second.
    pub fn to_http_date(self) -> String {
        let since_1970 = Duration::from_millis(u64::try_from(self.0).unwrap_or(0));
        httpdate::fmt_http_date(UNIX_EPOCH + since_1970.min(LAST_HTTP_DATE))
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The last second of the year 9999, which is as far as such a header can tell.
const LAST_HTTP_DATE: Duration = Duration::from_secs(253_402_300_799);

/// How many days before 1970 the first of March of the year 0 was.
const MARCH_OF_YEAR_0: i64 = 719_468;

/// RFC 3339, in UTC, to the millisecond. The days are counted in eras of 400 years that begin in
/// March, so that a leap day is the last of its year.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let since_march_of_year_0 = days + MARCH_OF_YEAR_0;
        let (era, day) =
            (since_march_of_year_0.div_euclid(146_097), since_march_of_year_0.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year + i64::from(month <= 2);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

impl TryFrom<String> for Timestamp {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a time that is not one of ours")
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(millis(rhs)))
    }
}

/// What this machine's own clock says: for log lines, never for a decision.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub fn wall() -> Timestamp {
    let since_1970 = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp(millis(since_1970.unwrap_or_default()))
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
    fn a_moment_is_written_as_http_does() {
        for (millis, text) in [
            (951_782_400_999, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_795_007_644_250, "Wed, 18 Nov 2026 13:14:04 GMT"),
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_http_date(), text);
        }
    }

    #[test]
    fn a_moment_is_written_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_795_007_644_250, "2026-11-18T13:14:04.250Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(Timestamp::parse(text), Some(Timestamp::from_millis(millis)));
        }
        for text in ["", "2026-11-18", "2026-02-30T00:00:00.000Z", "2026-11-18T13:14:04.250+01:00"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
