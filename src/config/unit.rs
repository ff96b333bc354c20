//! Values with a unit: `5s` and `1MiB` say what a bare number would leave to memory.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A duration as text: a whole number and `ms`, `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span(pub Duration);

/// A number of bytes as text: a whole number and `B`, `KiB`, `MiB` or `GiB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(pub u64);

/// Units of [`Span`] in milliseconds, the largest first.
const SPANS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Units of [`Size`] in bytes, the largest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Span {
    /// Reads `5s`, `200ms`, `1h`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse(text, &SPANS).map(|millis| Self(Duration::from_millis(millis)))
    }
}

impl Size {
    /// Reads `1MiB`, `512KiB`, `4096B`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse(text, &SIZES).map(Self)
    }

    /// The same as a length in memory.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The number in the largest unit that divides it.
fn write(f: &mut fmt::Formatter<'_>, number: u64, units: &[(&str, u64)], zero: &str) -> fmt::Result {
    match units.iter().find(|(_, factor)| number > 0 && number.is_multiple_of(*factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", number / factor),
        None => f.write_str(zero),
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), &SPANS, "0s")
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.0, &SIZES, "0B")
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text { form: "a duration such as `5s`, `200ms` or `1h`", parse: Self::parse })
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text { form: "a size such as `1MiB`, `512KiB` or `4096B`", parse: Self::parse })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads text of a form; anything else is refused with an example.
struct Text<T> {
    form: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.form)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(Span::parse(text), millis.map(|millis| Span(Duration::from_millis(millis))), "{text}");
        };
        check("5s", Some(5000));
        check("200ms", Some(200));
        check(" 1 h ", Some(3_600_000));
        check("15m", Some(900_000));
        check("2d", Some(172_800_000));
        check("0s", Some(0));
        for wrong in ["", "5", "s", "-5s", "1.5s", "5 sec", "5S", "1h30m", "99999999999999999999s", "9999999999999999d"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn a_size_has_a_number_and_a_unit() {
        let check = |text: &str, bytes: Option<u64>| assert_eq!(Size::parse(text), bytes.map(Size), "{text}");
        check("1MiB", Some(1_048_576));
        check("512KiB", Some(524_288));
        check("7B", Some(7));
        for wrong in ["1", "1MB", "1 mib", "MiB"] {
            check(wrong, None);
        }
    }

    #[test]
    fn they_are_written_in_the_largest_unit_that_fits() {
        let check = |text: &str| assert_eq!(Span::parse(text).unwrap().to_string(), text);
        for text in ["5s", "200ms", "90m", "1h", "1d", "0s"] {
            check(text);
        }
        let check = |text: &str| assert_eq!(Size::parse(text).unwrap().to_string(), text);
        for text in ["1MiB", "1000B", "3GiB", "0B"] {
            check(text);
        }
    }
}
