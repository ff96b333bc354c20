//! Instants as texts of a unit: how they are read and written.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

use super::spec::TimeUnit;
use crate::domain::Timestamp;

impl TimeUnit {
    /// Reads an instant.
    pub(super) fn read(self, text: &str) -> Option<Timestamp> {
        match self {
            Self::UnixS => decimal(text, 9).map(Timestamp::from_nanos),
            Self::UnixMs => decimal(text, 6).map(Timestamp::from_nanos),
            Self::Rfc3339 => Timestamp::parse_rfc3339(text),
            Self::NaiveUtc => Timestamp::parse_rfc3339(&format!("{text}Z")),
        }
    }

    /// Reads a signed timestamp: strictly, so that no two readings of one text exist.
    pub(super) fn read_signed(self, text: &str) -> Option<Timestamp> {
        let is_strict = match self {
            Self::UnixS | Self::UnixMs => text.bytes().all(|b| b.is_ascii_digit()),
            Self::Rfc3339 | Self::NaiveUtc => true,
        };
        is_strict.then(|| self.read(text)).flatten()
    }

    /// Writes a timestamp as a sender would.
    pub(super) fn write(self, at: Timestamp) -> String {
        match self {
            Self::UnixS => at.secs().to_string(),
            Self::UnixMs => at.nanos().div_euclid(1_000_000).to_string(),
            Self::Rfc3339 => at.to_string(),
            Self::NaiveUtc => at.to_string().trim_end_matches('Z').to_owned(),
        }
    }

    /// The last instant of this unit that is not later.
    pub(super) fn round_down(self, at: Timestamp) -> Timestamp {
        match self {
            Self::UnixS => Timestamp::from_secs(at.secs()),
            Self::UnixMs => Timestamp::from_millis(at.nanos().div_euclid(1_000_000)),
            Self::Rfc3339 | Self::NaiveUtc => at,
        }
    }

    /// What a value of this unit looks like.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::UnixS => "seconds since 1970 such as 1780586634",
            Self::UnixMs => "milliseconds since 1970 such as 1780586634000",
            Self::Rfc3339 => "a time such as \"2026-06-04T15:23:54.25Z\"",
            Self::NaiveUtc => "a time without a zone such as \"2026-06-04T15:23:54\"",
        }
    }
}

/// The digits that a decimal holds for sure.
const DIGITS_MAX: usize = 28;

/// Reads a decimal number, as JSON writes it, times ten to the power of `places`, rounded towards zero.
fn decimal(text: &str, places: u32) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent = exponent.trim_start_matches(['+', '-']);
    // The library reads more than JSON allows: `.5`, `1_000`, `+1`.
    if [whole, fraction, exponent].iter().any(|part| part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    // What has more digits than the library holds would be rounded, to an instant that nobody sent.
    if whole.len() + fraction.len() > DIGITS_MAX {
        return None;
    }
    let number = if text.contains(['e', 'E']) { Decimal::from_scientific(text) } else { text.parse() };
    number.ok()?.checked_mul(Decimal::from(10_i64.pow(places)))?.trunc().to_i64()
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
        check("1780586633.999999999999999999", Some(1_780_586_633_999_999_999));
        check("1780586633.9999999999999999999", None);
        check(&format!("{}1780586634", "0".repeat(60)), None);
        check("1780586634e99999999999999999999", None);
        for wrong in
            ["", ".", "1.", ".5", "+1", "1e", "1e999999999999", "1e30", "1e-400", "abc", "1_000", "0x10", " 1", "--1"]
        {
            check(wrong, None);
        }
    }
}
