//! Durations (`"1h30m"`), sizes (`"64KiB"`) and rates (`"100/s"`).
//!
//! ## Why not a crate
//! Those at hand take more than they should: `5M` as five months, `1k` as who knows what. In a file
//! that says how long a payment is protected, each text has one meaning or is a mistake.

use std::num::NonZeroU32;
use std::time::Duration;

use super::effective::quote;
use super::mistakes::Wrong;
use super::setting::{Reading, Setting, from_text, unexpected};
use super::tree::{Node, Value};

/// The units in the order in which they may follow each other, in milliseconds.
const TIMES: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const SIZES: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];
/// Added to any time of this age, it still fits every clock and column.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);
const DAY: u64 = TIMES[0].1;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub usize);

/// So many in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: NonZeroU32,
    pub period: Duration,
}

impl Setting for Duration {
    const EXPECTED: &'static str = "a duration such as \"500ms\", \"30s\", \"1h30m\" or \"7d\"";

    fn read(value: &Value) -> Reading<Self> {
        match &value.node {
            Node::Integer(number) => {
                let hint = format!("write \"{number}s\" for seconds");
                let wrongs = unexpected::<Self>(value);
                Err(wrongs.into_iter().map(|wrong| wrong.hint(hint.as_str())).collect())
            }
            _ => from_text(value, parse_duration),
        }
    }

    fn write(&self) -> String {
        quote(&duration_text(*self))
    }
}

/// `1h30m` and the like.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut units, mut total) = (text, &TIMES[..], 0_u64);
    while total == 0 && units.len() == TIMES.len() || !rest.is_empty() {
        let (number, unit, after) = split_number(rest)?;
        let place = units.iter().position(|(name, _)| *name == unit)?;
        total = total.checked_add(number.checked_mul(units[place].1)?)?;
        units = &units[place + 1..];
        rest = after;
    }
    Some(Duration::from_millis(total)).filter(|duration| *duration <= LONGEST)
}

/// The digits at the start, the letters behind them, and the rest.
fn split_number(text: &str) -> Option<(u64, &str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (unit, rest) = rest.split_at(letters);
    Some((number.parse().ok()?, unit, rest))
}

/// Days only where there are no hours to speak of: 24h stays 24h.
fn duration_text(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0s".into();
    }
    let in_days = left.is_multiple_of(DAY) && left > DAY;
    let mut text = String::new();
    for (unit, length) in &TIMES[usize::from(!in_days)..] {
        if left >= *length {
            text.push_str(&format!("{}{unit}", left / length));
            left %= length;
        }
    }
    text
}

impl Setting for Size {
    const EXPECTED: &'static str = "a size such as \"64KiB\", \"1MB\" or a number of bytes";

    fn read(value: &Value) -> Reading<Self> {
        match &value.node {
            Node::Integer(bytes) => usize::try_from(*bytes)
                .map(Self)
                .map_err(|_| vec![Wrong::new(format!("{bytes} is not {}", Self::EXPECTED))]),
            _ => from_text(value, parse_size),
        }
    }

    fn write(&self) -> String {
        let bytes = self.0 as u64;
        let unit = SIZES[..3].iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
        unit.map_or(bytes.to_string(), |(name, unit)| quote(&format!("{}{name}", bytes / unit)))
    }
}

fn parse_size(text: &str) -> Option<Size> {
    let (number, unit) = match split_number(text)? {
        (number, unit, "") => (number, unit),
        (number, "", unit) => (number, unit.strip_prefix(' ')?),
        _ => return None,
    };
    let unit = match unit {
        "" => 1,
        _ => SIZES.iter().find(|(name, _)| *name == unit)?.1,
    };
    // A length that memory can hold: more than half of the address space never is.
    let bytes = number.checked_mul(unit).filter(|bytes| i64::try_from(*bytes).is_ok())?;
    usize::try_from(bytes).ok().map(Size)
}

impl Setting for Rate {
    const EXPECTED: &'static str = "a rate above zero such as \"100/s\", \"10/m\" or \"5/h\"";

    fn read(value: &Value) -> Reading<Self> {
        from_text(value, |text| {
            let (count, unit) = text.split_once('/')?;
            let period =
                parse_duration(&format!("1{unit}")).filter(|_| matches!(unit, "s" | "m" | "h"))?;
            count.parse().ok().map(|count| Self { count, period })
        })
    }

    fn write(&self) -> String {
        let unit = match self.period.as_secs() {
            1 => "s",
            60 => "m",
            _ => "h",
        };
        quote(&format!("{}/{unit}", self.count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::mistakes::Origin;
    use super::*;

    fn read<T: Setting>(text: &str) -> Option<T> {
        T::read(&Value { origin: Origin::Nowhere, node: Node::Text(text.into()) }).ok()
    }

    fn reread<T: Setting>(setting: &T) -> Option<T> {
        let table = super::super::tree::parse(&"t".into(), &format!("k = {}", setting.write()));
        T::read(&table.ok()?.get("k")?.value).ok()
    }

    #[test]
    fn a_duration_is_numbers_with_units_from_long_to_short() {
        let seconds = |text: &str| read(text).map(|duration: Duration| duration.as_secs_f64());
        for (text, expected) in [
            ("30s", 30.0),
            ("10m", 600.0),
            ("24h", 86_400.0),
            ("500ms", 0.5),
            ("0s", 0.0),
            ("7d", 604_800.0),
            ("1h30m", 5_400.0),
            ("1m0s500ms", 60.5),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "s",
            "30",
            "5M",
            "1.5s",
            "-1s",
            "30m1h",
            "1s1s",
            "1h 30m",
            " 1s",
            "1w",
            "1sec",
            "36501d",
            "99999999999999999999s",
            "18446744073709551615d",
            "１s",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_size_is_a_number_with_a_binary_or_a_decimal_unit() {
        let bytes = |text: &str| read(text).map(|Size(bytes)| bytes);
        for (text, expected) in
            [("64KiB", 65_536), ("1MiB", 1 << 20), ("1MB", 1_000_000), ("12", 12), ("2 KB", 2_000)]
        {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in ["", "KiB", "1k", "1M", "1mb", "-1", "1.5MiB", "1  KB", "9999999999GiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_rate_of_nothing_or_in_an_odd_unit_is_refused() {
        let rate: Rate = read("10/m").unwrap();
        assert_eq!((rate.count.get(), rate.period), (10, Duration::from_secs(60)));
        for text in ["0/s", "/s", "10", "10/", "10/d", "10/ms", "-1/s", "1.5/s", "10/1s"] {
            assert!(read::<Rate>(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(
            millis in 0..=LONGEST.as_millis() as u64, bytes in 0..=i64::MAX as usize, shift in 0..40,
            count in 1..=u32::MAX, hours in 0..3_u32
        ) {
            let short = Duration::from_millis(millis >> shift);
            prop_assert_eq!(reread(&short), Some(short));
            let days = Duration::from_millis(millis / DAY * DAY);
            prop_assert_eq!(reread(&days), Some(days));
            for size in [Size(bytes), Size(bytes >> shift), Size(bytes >> shift << shift)] {
                prop_assert_eq!(reread(&size), Some(size));
            }
            let count = NonZeroU32::new(count).unwrap();
            let rate = Rate { count, period: Duration::from_secs(60_u64.pow(hours)) };
            prop_assert_eq!(reread(&rate), Some(rate));
        }

        #[test]
        fn no_text_makes_a_reader_panic(text in "\\PC{0,20}|[0-9a-zA-Z/ ]{0,30}") {
            let _ = (read::<Duration>(&text), read::<Size>(&text), read::<Rate>(&text));
        }
    }
}
