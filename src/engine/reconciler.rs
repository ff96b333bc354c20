//! The reconciler: fetches current state, within the limits of each source.
//!
//! The upstream is the scarcest resource. A source has a rate limit, a bound on fetches under way, and a circuit
//! breaker: after some failures in a row its calls are held back for a while, then one is let through.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::domain::{EntityKey, OrderKey, Reason, SourceName, Timestamp};
use crate::machine::Reading;
use crate::source::{Request, Source};
use crate::store::Fetched;

use super::clock::Clock;
use super::metrics::Metrics;
use super::settings::Settings;
use super::upstream::{Answered, Upstream};

/// What the limits stand off from the moment of asking: `Date` has whole seconds.
const DATE_GRAIN: Duration = Duration::from_secs(1);

/// What came of a fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// An answer to settle by, and the evidence.
    Answered(Reading, Fetched, [u8; 32]),
    /// No answer.
    Failed(Reason),
    /// Not asked: the breaker is open until then. This is no attempt.
    HeldBack(Timestamp),
}

/// Fetches current state.
pub struct Reconciler {
    upstream: Arc<dyn Upstream>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    gates: BTreeMap<SourceName, Gate>,
}

/// The limits of one source.
struct Gate {
    under_way: Semaphore,
    rate: Option<DefaultDirectRateLimiter>,
    breaker: Mutex<Breaker>,
    failures_max: u32,
    open_for: Duration,
}

/// A circuit breaker.
#[derive(Clone, Copy, Debug, Default)]
struct Breaker {
    failures: u32,
    open_until: Option<Timestamp>,
}

impl Reconciler {
    /// A reconciler for these sources.
    #[must_use]
    pub fn new(
        upstream: Arc<dyn Upstream>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        sources: &BTreeMap<SourceName, Arc<Source>>,
        settings: &Settings,
    ) -> Self {
        let gate = |source: &Arc<Source>| {
            let per_second = source.upstream().and_then(|upstream| NonZeroU32::new(upstream.rate_per_s()));
            Gate {
                under_way: Semaphore::new(settings.fetches_max),
                rate: per_second.map(|rate| RateLimiter::direct(Quota::per_second(rate))),
                breaker: Mutex::new(Breaker::default()),
                failures_max: settings.breaker_failures,
                open_for: settings.breaker_open,
            }
        };
        let gates = sources.iter().map(|(name, source)| (name.clone(), gate(source))).collect();
        Self { upstream, clock, metrics, gates }
    }

    /// Whether the breaker of a source lets calls through now.
    #[must_use]
    pub fn is_open(&self, source: &SourceName) -> bool {
        self.gates.get(source).is_some_and(|gate| gate.held_until(self.clock.now()).is_some())
    }

    /// Asks the source for an entity. Waits for its turn under the source's limits.
    pub async fn fetch(&self, source: &Source, key: &EntityKey) -> Fetch {
        let request = source.upstream().and_then(|upstream| upstream.request(key));
        let (Some(request), Some(gate)) = (request, self.gates.get(&key.source)) else {
            return Fetch::Failed(Reason::UpstreamUnavailable { detail: "the source has no upstream".to_owned() });
        };
        // A closed semaphore cannot be: nothing closes it. Going on without a permit is harmless then.
        let _permit = gate.under_way.acquire().await.ok();
        if let Some(until) = gate.admit(self.clock.now()) {
            return Fetch::HeldBack(until);
        }
        if let Some(rate) = &gate.rate {
            rate.until_ready().await;
        }
        let sent_at = self.clock.now();
        let answer = self.upstream.ask(&request).await;
        let fetch = match answer {
            Ok(answered) => read(source, key, &request, answered, sent_at),
            Err(error) => Fetch::Failed(Reason::UpstreamUnavailable { detail: error.to_string() }),
        };
        let failed = matches!(fetch, Fetch::Failed(_));
        gate.report(failed, self.clock.now());
        self.metrics.fetched(&key.source, if failed { "failed" } else { "answered" });
        fetch
    }
}

impl Gate {
    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.breaker().open_until.filter(|until| *until > now)
    }

    /// Until when a call is held back. The first call after that time is let through alone: until it reports, the
    /// breaker stays open for the others.
    fn admit(&self, now: Timestamp) -> Option<Timestamp> {
        let mut breaker = self.breaker();
        let until = breaker.open_until?;
        if until > now {
            return Some(until);
        }
        breaker.open_until = Some(now.plus(self.open_for));
        None
    }

    fn report(&self, failed: bool, now: Timestamp) {
        let mut breaker = self.breaker();
        if !failed {
            *breaker = Breaker::default();
            return;
        }
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.failures >= self.failures_max {
            breaker.open_until = Some(now.plus(self.open_for));
        }
    }
}

/// Reads an answer by its status.
fn read(source: &Source, key: &EntityKey, request: &Request, answered: Answered, sent_at: Timestamp) -> Fetch {
    let clock = answered.date.map_or(sent_at, |date| date.minus(answered.to_headers).minus(DATE_GRAIN));
    let reading = match answered.status {
        200..=299 => match source.read_snapshot(key, &answered.body, clock) {
            Ok(snapshot) => Reading::Found(snapshot),
            Err(reason) => Reading::Invalid(reason),
        },
        404 | 410 => Reading::NotFound(OrderKey::clock(clock)),
        401 | 403 => return failed(format!("status {}: the API key was refused", answered.status)),
        status => return failed(format!("status {status}")),
    };
    let body_sha256 = Sha256::digest(&answered.body).into();
    let fetched = Fetched { url: request.url.clone(), status: answered.status, body: answered.body, sent_at };
    Fetch::Answered(reading, fetched, body_sha256)
}

fn failed(detail: String) -> Fetch {
    Fetch::Failed(Reason::UpstreamUnavailable { detail })
}
