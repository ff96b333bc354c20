//! The reconciler: fetches current state, within the limits of each source.
//!
//! The upstream is the scarcest resource. A source has, for live and for test, a rate limit, a bound on fetches under
//! way, and a circuit breaker: after some failures in a row its calls are held back for a while, then one is let
//! through.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::domain::{EntityKey, Mode, OrderKey, Reason, SourceName, Timestamp};
use crate::machine::Reading;
use crate::source::{Request, Source};
use crate::store::Fetched;

use super::clock::Clock;
use super::metrics::Metrics;
use super::settings::Settings;
use super::upstream::{Answered, Upstream};

/// `Date` has whole seconds: the answer may have been true only up to one second before it.
const DATE_GRAIN: Duration = Duration::from_secs(1);

/// The longest that a turn waits for its place in the limits of a source. Past that the call is held back: the actor is
/// needed for other things.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// How much of an answer is kept as evidence; its hash covers all of it.
const EVIDENCE_BYTES_MAX: usize = 64 << 10;

/// The longest that an upstream may tell us to stay away.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// How often an open breaker's rest is doubled.
const TRIPS_MAX: u32 = 3;

/// What came of a fetch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fetch {
    /// An answer to settle by, and the evidence.
    Answered(Reading, Fetched, [u8; 32]),
    /// No answer.
    Failed(Reason),
    /// Not answered, since too much is asked: to be asked again then. This is no attempt.
    HeldBack(Timestamp),
}

/// Fetches current state.
pub struct Reconciler {
    upstream: Arc<dyn Upstream>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    gates: BTreeMap<(SourceName, Mode), Gate>,
}

/// A place within the limits of a source.
pub struct Permit<'a> {
    gate: &'a Gate,
    _under_way: SemaphorePermit<'a>,
}

/// The limits of one source and mode: live and test have keys of their own.
struct Gate {
    under_way: Semaphore,
    rate: Option<DefaultDirectRateLimiter>,
    breaker: Mutex<Breaker>,
    failures_max: u32,
    open_for: Duration,
}

/// A circuit breaker: open while calls are held back.
#[derive(Clone, Copy, Debug, Default)]
struct Breaker {
    failures: u32,
    /// How often in a row it opened: each time for twice as long, so that a long outage costs few tries and few records
    /// of waiting.
    trips: u32,
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
        let both = |(name, source): (&SourceName, &Arc<Source>)| {
            [Mode::Live, Mode::Test].map(|mode| ((name.clone(), mode), gate(source)))
        };
        let gates = sources.iter().flat_map(both).collect();
        Self { upstream, clock, metrics, gates }
    }

    /// Whether the breaker of a source holds calls back now, in either mode.
    #[must_use]
    pub fn is_open(&self, source: &SourceName) -> bool {
        let now = self.clock.now();
        let open = |mode| self.gates.get(&(source.clone(), mode)).is_some_and(|gate| gate.held_until(now).is_some());
        open(Mode::Live) || open(Mode::Test)
    }

    /// Waits for a place within the limits of the entity's source, though not for long.
    ///
    /// # Errors
    /// When to try again.
    pub async fn enter(&self, key: &EntityKey) -> Result<Permit<'_>, Timestamp> {
        let now = self.clock.now();
        let later = now.plus(TURN_WAIT);
        let Some(gate) = self.gates.get(&(key.source.clone(), key.partition.mode)) else { return Err(later) };
        if let Some(until) = gate.held_until(now) {
            return Err(until);
        }
        let place = async {
            let permit = gate.under_way.acquire().await.ok()?;
            if let Some(rate) = &gate.rate {
                rate.until_ready().await;
            }
            Some(permit)
        };
        let place = tokio::time::timeout(TURN_WAIT, place).await.ok().flatten().ok_or(later)?;
        match gate.admit(self.clock.now()) {
            Some(until) => Err(until),
            None => Ok(Permit { gate, _under_way: place }),
        }
    }

    /// Asks the source for an entity.
    pub async fn fetch(&self, permit: Permit<'_>, source: &Source, key: &EntityKey) -> Fetch {
        let Some(request) = source.upstream().and_then(|upstream| upstream.request(key)) else {
            return Fetch::Failed(Reason::UpstreamUnavailable { detail: "the source has no upstream".to_owned() });
        };
        let sent_at = self.clock.now();
        let answer = self.upstream.ask(&request).await;
        let now = self.clock.now();
        let unwell = answer.as_ref().map_or(true, |answered| answered.status >= 500 || answered.status == 429);
        permit.gate.report(unwell, now);
        let fetch = match answer {
            Ok(answered) => match told_to_wait(&answered, now, permit.gate.open_for) {
                Some(until) => Fetch::HeldBack(until),
                None => read(source, key, &request, &answered, sent_at),
            },
            Err(error) => Fetch::Failed(Reason::UpstreamUnavailable { detail: error.to_string() }),
        };
        let outcome = match &fetch {
            Fetch::Answered(..) => "answered",
            Fetch::Failed(_) => "failed",
            Fetch::HeldBack(_) => "held_back",
        };
        self.metrics.fetched(&key.source, outcome);
        fetch
    }
}

impl Gate {
    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.breaker().open_until.filter(|until| self.is_ahead(*until, now))
    }

    /// Whether a breaker stays open until then. A time further off than any rest is of a clock that was set back.
    fn is_ahead(&self, until: Timestamp, now: Timestamp) -> bool {
        until > now && until.since(now) <= self.rest(TRIPS_MAX)
    }

    fn rest(&self, trips: u32) -> Duration {
        self.open_for.saturating_mul(1 << trips.min(TRIPS_MAX))
    }

    /// Until when a call is held back. The first call after that time is let through alone: until it reports, the
    /// breaker stays open for the others.
    fn admit(&self, now: Timestamp) -> Option<Timestamp> {
        let mut breaker = self.breaker();
        let until = breaker.open_until?;
        if self.is_ahead(until, now) {
            return Some(until);
        }
        breaker.open_until = Some(now.plus(self.open_for));
        None
    }

    fn report(&self, unwell: bool, now: Timestamp) {
        let mut breaker = self.breaker();
        if !unwell {
            *breaker = Breaker::default();
            return;
        }
        breaker.failures = breaker.failures.saturating_add(1);
        if breaker.failures >= self.failures_max {
            breaker.open_until = Some(now.plus(self.rest(breaker.trips)));
            breaker.trips = breaker.trips.saturating_add(1);
        }
    }
}

/// Until when the upstream tells us to stay away: 429, or 503 with a time.
fn told_to_wait(answered: &Answered, now: Timestamp, otherwise: Duration) -> Option<Timestamp> {
    let wait = match (answered.status, answered.retry_after) {
        (429 | 503, Some(wait)) => wait,
        (429, None) => otherwise,
        _ => return None,
    };
    Some(now.plus(wait.min(RETRY_AFTER_MAX)))
}

/// Reads an answer by its status.
fn read(source: &Source, key: &EntityKey, request: &Request, answered: &Answered, sent_at: Timestamp) -> Fetch {
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
    let body = answered.body.slice(..answered.body.len().min(EVIDENCE_BYTES_MAX));
    let fetched = Fetched { url: request.url.clone(), status: answered.status, body, sent_at };
    Fetch::Answered(reading, fetched, body_sha256)
}

fn failed(detail: String) -> Fetch {
    Fetch::Failed(Reason::UpstreamUnavailable { detail })
}
