//! Instants: nanoseconds since the Unix epoch, UTC. No clock is read here.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// An instant in nanoseconds since 1970-01-01T00:00:00Z; spans the years 1677 to 2262.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The latest instant that can be written.
    pub const MAX: Self = Self(i64::MAX);

    /// An instant from nanoseconds since the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// An instant from whole seconds since the epoch; saturates at the ends of the range.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// An instant from whole milliseconds since the epoch; saturates at the ends of the range.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// The instant `by` later, or the end of the range.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos_of(by)))
    }

    /// The instant `by` earlier, or the start of the range.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos_of(by)))
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let nanos = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// How far the two instants lie apart.
    #[must_use]
    pub fn distance(self, other: Self) -> Duration {
        self.since(other).max(other.since(self))
    }

    /// Reads RFC 3339 text (with a zone). Digits past nanoseconds are cut off. `None` if malformed or out of range.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().and_then(|at| at.timestamp_nanos_opt()).map(Self)
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at.timestamp_nanos_opt().unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with as many fraction digits as needed: `2026-11-30T01:48:50Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = DateTime::<Utc>::from_timestamp_nanos(self.0).to_rfc3339_opts(SecondsFormat::AutoSi, true);
        f.pad(&text)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A duration in nanoseconds, at most the largest `i64`.
fn nanos_of(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
