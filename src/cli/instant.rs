//! Instants on the command line: how they are read, and how they are shown.

use std::fmt;

use chrono::{DateTime, FixedOffset, Local, SecondsFormat, TimeZone};

use crate::domain::Timestamp;

/// The last second of the year 9999.
const SECS_MAX: i64 = 253_402_300_799;

/// Reads RFC 3339 text, or whole seconds since 1970.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    // What is beyond could not be written as RFC 3339; it is milliseconds, most likely.
    let seconds = || text.parse().ok().filter(|secs| (0..=SECS_MAX).contains(secs)).map(Timestamp::from_secs);
    Timestamp::parse_rfc3339(text).or_else(seconds).ok_or_else(|| {
        "expected a time such as `2026-11-30T01:48:50Z`, or seconds since 1970 such as `1796003330`".to_owned()
    })
}

/// An instant of a server's answer for people: UTC, and the local time beside it where that differs.
pub(super) fn with_local(text: &str) -> String {
    beside(text, &Local)
}

fn beside<Z: TimeZone>(text: &str, zone: &Z) -> String
where
    Z::Offset: fmt::Display,
{
    let Ok(at) = DateTime::parse_from_rfc3339(text) else { return text.to_owned() };
    // Digits of nanoseconds hide the rest from the eye; `--json` has them.
    let digits = if at.timestamp_subsec_millis() == 0 { SecondsFormat::Secs } else { SecondsFormat::Millis };
    let text = at.to_utc().to_rfc3339_opts(digits, true);
    let local = at.with_timezone(zone).fixed_offset();
    if local.offset().local_minus_utc() == 0 {
        return text;
    }
    let form = if local.date_naive() == at.naive_utc().date() { "%H:%M:%S %:z" } else { "%Y-%m-%d %H:%M:%S %:z" };
    format!("{text} ({} local)", local.format(form))
}

/// The same for a column: UTC to the second.
pub(super) fn short(text: &str) -> String {
    let at: Result<DateTime<FixedOffset>, _> = DateTime::parse_from_rfc3339(text);
    at.map_or_else(|_| text.to_owned(), |at| at.to_utc().to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_rfc_3339_or_seconds() {
        let check = |text: &str, secs: Option<i64>| {
            assert_eq!(parse(text).ok(), secs.map(Timestamp::from_secs), "{text}");
        };
        check("2026-11-30T01:48:50Z", Some(1_796_003_330));
        check("2026-11-30T02:48:50+01:00", Some(1_796_003_330));
        check("1796003330", Some(1_796_003_330));
        check("0", Some(0));
        for wrong in [
            "",
            "yesterday",
            "2026-11-30",
            "2026-11-30T01:48:50",
            "1796003330.5",
            "99999999999999999999",
            "99999999999999",
            "-1",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn local_time_stands_beside_utc_where_it_differs() {
        let check = |text: &str, hours: i32, expected: &str| {
            let zone = FixedOffset::east_opt(hours * 3600).unwrap();
            assert_eq!(beside(text, &zone), expected);
        };
        check("2026-11-30T01:48:50Z", 0, "2026-11-30T01:48:50Z");
        check("2026-11-30T01:48:50.5Z", 1, "2026-11-30T01:48:50.500Z (02:48:50 +01:00 local)");
        check("2026-11-30T01:48:50.123456789Z", 0, "2026-11-30T01:48:50.123Z");
        check("2026-11-30T01:48:50Z", -5, "2026-11-30T01:48:50Z (2026-11-29 20:48:50 -05:00 local)");
        check("soon", 1, "soon");
    }

    #[test]
    fn a_column_has_whole_seconds() {
        assert_eq!(short("2026-11-30T01:48:50.123456Z"), "2026-11-30T01:48:50Z");
        assert_eq!(short("soon"), "soon");
    }
}
