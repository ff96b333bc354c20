//! What is counted. The registry is explicit: two engines in one process do not share it.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::domain::{Entry, SourceName};
use crate::store::Status;

/// Counters and gauges of one engine.
pub struct Metrics {
    registry: Registry,
    events: Family<OfSource, Counter>,
    refusals: Family<Refused, Counter>,
    decided: Family<Decided, Counter>,
    fetches: Family<OfSource, Counter>,
    retries: Counter,
    panics: Counter,
    ack_seconds: Histogram,
    actors: Gauge,
    pending: Gauge,
    waiting: Gauge,
    checks: Gauge,
    dead_letters: Gauge,
    entities: Gauge,
    journal_bytes: Gauge,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfSource {
    source: SourceName,
    outcome: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Refused {
    source: SourceName,
    code: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Decided {
    outcome: &'static str,
    rule: &'static str,
}

impl EncodeLabelValue for SourceName {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.write_str(self.as_str())
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("tollgate");
        let events = Family::default();
        registry.register("events", "Events that the door admitted, by what was answered", events.clone());
        let refusals = Family::default();
        registry.register("refusals", "Deliveries that the door refused, by code", refusals.clone());
        let decided = Family::default();
        registry.register("entries", "Entries decided, by outcome and rule", decided.clone());
        let fetches = Family::default();
        registry.register("fetches", "Fetches of current state, by what came of them", fetches.clone());
        let retries = Counter::default();
        registry.register("retries", "Events put off to be tried again", retries.clone());
        let panics = Counter::default();
        registry.register("panics", "Decisions that panicked and were contained", panics.clone());
        let ack_seconds = Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        registry.register("ack_seconds", "Seconds from a verified delivery to its answer", ack_seconds.clone());
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let actors = gauge("actors", "Entity actors alive");
        let pending = gauge("pending", "Events without a decision");
        let waiting = gauge("waiting", "Events that wait to be tried again");
        let checks = gauge("checks", "Checks that are due later");
        let dead_letters = gauge("dead_letters", "Dead letters");
        let entities = gauge("entities", "Entities");
        let journal_bytes = gauge("journal_bytes", "Bytes of the journal on disk");
        Self {
            registry,
            events,
            refusals,
            decided,
            fetches,
            retries,
            panics,
            ack_seconds,
            actors,
            pending,
            waiting,
            checks,
            dead_letters,
            entities,
            journal_bytes,
        }
    }
}

impl Metrics {
    /// Counts what the door answered for one event.
    pub fn admitted(&self, source: &SourceName, outcome: &'static str) {
        self.events.get_or_create(&OfSource { source: source.clone(), outcome }).inc();
    }

    /// Counts a delivery that the door refused, by its code. The source's name is one that is configured.
    pub fn refused(&self, source: &SourceName, code: &'static str) {
        self.refusals.get_or_create(&Refused { source: source.clone(), code }).inc();
    }

    /// Observes how long a verified delivery waited for its answer.
    pub fn acknowledged(&self, seconds: f64) {
        self.ack_seconds.observe(seconds);
    }

    pub(super) fn decided(&self, entries: &[Entry]) {
        for entry in entries {
            let label = Decided { outcome: entry.outcome.as_str(), rule: entry.rule.as_str() };
            self.decided.get_or_create(&label).inc();
        }
    }

    pub(super) fn fetched(&self, source: &SourceName, outcome: &'static str) {
        self.fetches.get_or_create(&OfSource { source: source.clone(), outcome }).inc();
    }

    pub(super) fn retried(&self, count: usize) {
        self.retries.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub(super) fn panicked(&self) {
        self.panics.inc();
    }

    pub(super) fn actors_changed(&self, by: i64) {
        self.actors.inc_by(by);
    }

    /// The actors alive.
    #[must_use]
    pub fn actors(&self) -> i64 {
        self.actors.get()
    }

    /// Everything in the text form that Prometheus reads, with the store's figures as they are now.
    #[must_use]
    pub fn render(&self, status: &Status) -> String {
        let gauge = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        gauge(&self.pending, status.pending);
        gauge(&self.waiting, status.retries);
        gauge(&self.checks, status.checks);
        gauge(&self.dead_letters, status.dead_letters);
        gauge(&self.entities, status.entities);
        gauge(&self.journal_bytes, status.journal_bytes);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
