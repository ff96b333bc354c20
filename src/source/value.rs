//! Values of an event as they were written, and what they mean: ids, times, versions.

use std::fmt;
use std::sync::Arc;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

use super::spec::TimeUnit;
use crate::domain::Timestamp;
use crate::domain::entity::ENTITY_ID_LEN_MAX;

/// How much of a value is shown in an error.
const SHOWN_MAX: usize = 64;
/// The digits that a decimal holds without rounding.
const DECIMAL_DIGITS: usize = 28;
/// The most digits behind the point of a decimal.
const DECIMAL_SCALE_MAX: i64 = 28;

/// A value of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// Of the body: JSON text.
    Json(&'a str),
    /// Of a header: plain text.
    Header(&'a str),
}

impl Value<'_> {
    /// Whether it is `null`, which is as good as missing.
    pub(super) fn is_null(self) -> bool {
        self == Value::Json("null")
    }

    /// The content of a string.
    pub(super) fn string(self) -> Option<String> {
        match self {
            Self::Json(json) if json.starts_with('"') => serde_json::from_str(json).ok(),
            Self::Json(_) => None,
            Self::Header(text) => Some(text.to_owned()),
        }
    }

    /// An id: the content of a string, or the digits of a whole number; never empty.
    pub(super) fn id(self) -> Option<String> {
        let digits = |json: &str| json.bytes().all(|b| b.is_ascii_digit()).then(|| json.to_owned());
        match self {
            Self::Json(json) => self.string().or_else(|| digits(json)),
            Self::Header(_) => self.string(),
        }
        .filter(|id| !id.is_empty())
    }

    /// An entity's id. One that is there but cannot be used is an error, not silence: its entity would be missed.
    pub(super) fn entity_id(self) -> Result<Arc<str>, String> {
        self.id().filter(|id| id.len() <= ENTITY_ID_LEN_MAX).map(Arc::from).ok_or_else(|| {
            format!("found {self}, expected an id: a string of 1 to {ENTITY_ID_LEN_MAX} bytes, or a whole number")
        })
    }

    /// A version: a whole number, as such or in a string.
    pub(super) fn version(self) -> Result<u64, String> {
        let read = self.id().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        read.and_then(|text| text.parse().ok()).ok_or_else(|| format!("found {self}, expected a whole number"))
    }

    /// Whether this is live traffic: `true` or `false`, as such or in a string.
    pub(super) fn live(self) -> Result<bool, String> {
        match self.string().as_deref().or(match self {
            Self::Json(json) => Some(json),
            Self::Header(_) => None,
        }) {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) | None => Err(format!("found {self}, expected true or false")),
        }
    }

    /// An instant.
    pub(super) fn time(self, unit: TimeUnit) -> Result<Timestamp, String> {
        let text = match self {
            Self::Json(json) if json.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Some(json.to_owned()),
            Self::Json(_) | Self::Header(_) => self.string(),
        };
        let read = |text: &str| match unit {
            TimeUnit::UnixS => decimal(text, 9).map(Timestamp::from_nanos),
            TimeUnit::UnixMs => decimal(text, 6).map(Timestamp::from_nanos),
            TimeUnit::Rfc3339 => Timestamp::parse_rfc3339(text),
            TimeUnit::NaiveUtc => Timestamp::parse_rfc3339(&format!("{text}Z")),
        };
        text.as_deref().and_then(read).ok_or_else(|| {
            let milliseconds = unit == TimeUnit::UnixS && text.as_deref().is_some_and(|t| decimal(t, 6).is_some());
            let near = if milliseconds { " (is it `unix_ms`?)" } else { "" };
            format!("found {self}, expected {}{near}", unit.expected())
        })
    }
}

impl fmt::Display for Value<'_> {
    /// The value between backticks, cut if it is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Json(text) | Self::Header(text)) = self;
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => write!(f, "`{}...` ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
            None => write!(f, "`{text}`"),
        }
    }
}

impl TimeUnit {
    /// What a value of this unit looks like.
    const fn expected(self) -> &'static str {
        match self {
            Self::UnixS => "seconds since 1970 such as 1780586634",
            Self::UnixMs => "milliseconds since 1970 such as 1780586634000",
            Self::Rfc3339 => "a time such as \"2026-06-04T15:23:54.25Z\"",
            Self::NaiveUtc => "a time without a zone such as \"2026-06-04T15:23:54\"",
        }
    }
}

/// Whether a JSON text is an object, or else what it is.
pub(super) fn check_object(json: &str) -> Result<(), String> {
    let what = match json.trim_start().bytes().next() {
        Some(b'{') => return Ok(()),
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    };
    Err(format!("expected an object, found {what}"))
}

/// Reads a decimal number, as JSON writes it, times ten to the power of `places`, rounded towards zero.
///
/// The library rounds what has more digits than it holds, and rounding up makes an instant that was never sent: it
/// is given the digits that it holds, and the power of ten as a number.
fn decimal(text: &str, places: u32) -> Option<i64> {
    let (sign, unsigned) = text.strip_prefix('-').map_or(("", text), |unsigned| ("-", unsigned));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let bare = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    // The library reads more than JSON allows: `.5`, `1_000`, `+1`.
    if [whole, fraction, bare].iter().any(|part| part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let kept = significant.get(..DECIMAL_DIGITS).unwrap_or(significant);
    let cut = i64::try_from(significant.len() - kept.len()).ok()?;
    let shift = i64::from(places) - i64::try_from(fraction.len()).ok()? + cut;
    let power = exponent.parse::<i64>().ok()?.checked_add(shift)?;
    // Nothing is left before the point of a number that has fewer digits than places.
    if kept.is_empty() || power < -DECIMAL_SCALE_MAX {
        return Some(0);
    }
    Decimal::from_scientific(&format!("{sign}{kept}e{power}")).ok()?.trunc().to_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_by_their_digits() {
        let check = |text: &str, expected| assert_eq!(decimal(text, 9), expected, "{text}");
        check("1780586634", Some(1_780_586_634_000_000_000));
        check("1780586634.1", Some(1_780_586_634_100_000_000));
        check("1780586634.123456789999", Some(1_780_586_634_123_456_789));
        check("1.780586634e9", Some(1_780_586_634_000_000_000));
        check("17805866340e-1", Some(1_780_586_634_000_000_000));
        check("-0.5", Some(-500_000_000));
        check("0", Some(0));
        check("9223372036.854775807", Some(i64::MAX));
        check("9223372036.854775808", None);
        check("-9223372036.854775808", Some(i64::MIN));
        check("1780586633.9999999999999999999999999999999999", Some(1_780_586_633_999_999_999));
        check("-0.00000000099999999999999999999999999999999", Some(0));
        check("1e-400", Some(0));
        check("-0e999999", Some(0));
        let zeros = "0".repeat(60);
        check(&format!("{zeros}1780586634"), Some(1_780_586_634_000_000_000));
        check(&format!("0.{zeros}1780586634e70"), Some(1_780_586_634_000_000_000));
        check(&format!("1780586634{zeros}e-60"), Some(1_780_586_634_000_000_000));
        check(&format!("1780586634.{zeros}9"), Some(1_780_586_634_000_000_000));
        check(&format!("1780586634{zeros}"), None);
        check("9223372036.8547758079999999999999999999999", Some(i64::MAX));
        check("0.0000000000000000001780586634123456789999999e28", Some(1_780_586_634_123_456_789));
        check("9999999999999999999999999999e-27", Some(9_999_999_999));
        check("9999999999999999999999999999e-37", Some(0));
        check("9999999999999999999999999999e-38", Some(0));
        check("1e9", Some(1_000_000_000_000_000_000));
        check("-1e9", Some(-1_000_000_000_000_000_000));
        check("1e20", None);
        for wrong in [
            "",
            ".",
            "1.",
            ".5",
            "+1",
            "1e",
            "1e+-1",
            "1e99999999999999999999",
            "1e999999999999",
            "1e30",
            "abc",
            "1_000",
            "0x10",
            " 1",
            "--1",
        ] {
            check(wrong, None);
        }
    }
}
