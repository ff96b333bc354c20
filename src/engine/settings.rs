//! What the engine can be told.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::SourceName;
use crate::machine::Schedule;

/// The engine's settings. Defaults live in `config/default.toml` only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How far two clocks may be apart.
    pub clock_skew: Duration,
    /// How long after an answer a check looks again.
    pub confirm_after: Duration,
    /// When to try again what failed.
    pub retry: Schedule,
    /// The same by source, where it differs.
    pub retry_by_source: BTreeMap<SourceName, Schedule>,
    /// How many events of one entity are decided in one turn.
    pub turn_events_max: usize,
    /// How many entities may have an actor at once, over all shards.
    pub actors_max: usize,
    /// How long an actor without work is kept.
    pub idle_after: Duration,
    /// How often due retries and checks are looked for.
    pub tick: Duration,
    /// How many fetches of one source may be under way at once, in live and in test mode each.
    pub fetches_max: usize,
    /// How many failures in a row open a source's circuit breaker.
    pub breaker_failures: u32,
    /// How long an open breaker holds calls back: each further time in a row twice as long, up to eight times.
    pub breaker_open: Duration,
}

impl Settings {
    /// The retry schedule of a source.
    #[must_use]
    pub fn schedule(&self, source: &SourceName) -> Schedule {
        self.retry_by_source.get(source).copied().unwrap_or(self.retry)
    }
}
