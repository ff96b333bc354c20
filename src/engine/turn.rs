//! A turn: one entity takes all its pending events, decides and commits; if it must, it then asks the upstream, settles
//! by the answer and commits again.
//!
//! This is all of the engine's logic that touches an entity. It knows no actors and no executor: the actor is a
//! shell that runs turns one after the other, and a simulation can run them under its own scheduler.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::domain::{
    Decision, Disposition, Entity, EntityKey, Entry, Flag, FlagChange, Outcome, Pending, Reason, Rule, SourceName,
    Timestamp,
};
use crate::machine::{Asked, Context, Reading, hold_back, postpone};
use crate::source::Source;
use crate::store::{self, Commit, Epoch, Fetched, Scope, Store};

use super::clock::Clock;
use super::decider::Decider;
use super::metrics::Metrics;
use super::reconciler::{Fetch, Reconciler};
use super::room::Room;
use super::settings::Settings;

/// How long a turn waits before it tries a commit again that the store could not take.
const STORE_PAUSE: Duration = Duration::from_millis(50);

/// How many turns may be under way at once, besides those that wait for an upstream: their events are in memory.
pub const TURNS_MAX: usize = 256;

/// What turns need.
pub struct Core {
    /// Where facts are kept.
    pub store: Arc<dyn Store>,
    /// The logic.
    pub decider: Arc<dyn Decider>,
    /// The sources by name.
    pub sources: BTreeMap<SourceName, Arc<Source>>,
    /// Who asks upstreams.
    pub reconciler: Reconciler,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The settings.
    pub settings: Settings,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Spreads a delay, so that what failed together does not come back together.
    pub jitter: Arc<dyn Fn(Duration) -> Duration + Send + Sync>,
    /// Places for turns: each holds the events that it decides.
    pub turns: Semaphore,
    /// Whether decisions wait for room on the disk.
    pub room: Room,
}

/// What follows a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Nothing is left to do.
    Idle,
    /// There may be more.
    Again,
    /// The store could not take it now: again after this long.
    After(Duration),
}

impl Core {
    /// Runs one turn. `held` is the entity as of its last commit, or none if it must be loaded.
    ///
    /// # Errors
    /// What the store cannot recover from.
    pub async fn turn(&self, key: &EntityKey, epoch: Epoch, held: &mut Option<Entity>) -> Result<Next, store::Error> {
        let mut result = self.try_turn(key, epoch, held, self.settings.turn_events_max).await;
        if matches!(result, Err(store::Error::TooLarge { .. })) {
            // Many events with large fields can outgrow a record together; one alone cannot.
            *held = None;
            result = self.try_turn(key, epoch, held, 1).await;
        }
        match result {
            Err(store::Error::Moved { .. } | store::Error::NotPending { .. }) => {
                *held = None;
                Ok(Next::Again)
            }
            Err(error @ (store::Error::Busy | store::Error::Full)) => {
                if matches!(error, store::Error::Full) {
                    self.room.lacks();
                }
                *held = None;
                Ok(Next::After(STORE_PAUSE))
            }
            other => other,
        }
    }

    async fn try_turn(
        &self,
        key: &EntityKey,
        epoch: Epoch,
        held: &mut Option<Entity>,
        limit: usize,
    ) -> Result<Next, store::Error> {
        // A turn that asks the upstream waits long: it gives its place back first.
        let place = self.turns.acquire().await.map_err(|error| store::Error::Stopped { reason: error.to_string() })?;
        let now = self.clock.now();
        let run = self.store.pending(Scope::Entity(key), now, limit).await?;
        let mut entity = match held.take() {
            Some(entity) => entity,
            None => self.store.load(key).await?.unwrap_or_else(|| Entity::unknown(key.clone())),
        };
        let check_due = is_check_due(&entity, now);
        if run.is_empty() && !check_due {
            *held = Some(entity);
            return Ok(Next::Idle);
        }
        let context = self.context(key, now);
        let decision = self.decide(&entity, &run, &context);
        let ambiguity = decision.ambiguity;
        let all_judged = decision.judged.len() == run.len() && run.len() < limit;
        let more = self.commit(epoch, &mut entity, decision, None).await?;
        drop((place, run));
        if ambiguity.is_some() || check_due {
            let rule = ambiguity.map_or(Rule::Check, |ambiguity| ambiguity.rule);
            // Apart, since few turns ask: the room for it would be carried along by all.
            Box::pin(self.ask(epoch, &mut entity, rule, limit)).await?;
        }
        let rests = ambiguity.is_none() && all_judged && !more && !is_check_due(&entity, now);
        *held = Some(entity);
        // Whatever comes from here on is announced: there is no need to look once more.
        Ok(if rests { Next::Idle } else { Next::Again })
    }

    /// Asks the upstream, and settles by its answer everything that was received before the asking.
    async fn ask(&self, epoch: Epoch, entity: &mut Entity, rule: Rule, limit: usize) -> Result<(), store::Error> {
        let key = entity.key.clone();
        let entered = self.reconciler.enter(&key).await;
        // Read only now: what came while we waited for our turn is settled by the same answer.
        let asked_at = self.clock.now();
        // An answer settles also what waits for another try of its own; without one, only what is due was tried. A
        // check speaks for nothing that waits.
        let limit = if rule == Rule::Check { 0 } else { limit };
        let due = self.store.pending(Scope::Entity(&key), asked_at, limit).await?;
        let received = self.store.pending(Scope::Entity(&key), Timestamp::MAX, limit).await?;
        let check = is_check_due(entity, asked_at);
        let fetch = match (entered, self.sources.get(&key.source)) {
            (Ok(permit), Some(source)) => self.reconciler.fetch(permit, source, &key).await,
            (Err(until), Some(_)) => Fetch::HeldBack(until),
            (_, None) => {
                Fetch::Failed(Reason::UpstreamUnavailable { detail: "the source is not configured".to_owned() })
            }
        };
        let context = self.context(&key, self.clock.now());
        let (decision, fetched) = match fetch {
            Fetch::Answered(reading, fetched, body_sha256) => {
                let asked = Asked { rule, check, body_sha256: Some(body_sha256) };
                (self.settle(entity, &received, asked, &reading, &context), Some(fetched))
            }
            Fetch::Failed(reason) => {
                let (mut decision, rest) = self.decide_around(entity, &due, &context);
                decision.join(self.postpone(entity, &rest, Rule::Unavailable, &reason, &context));
                (decision, None)
            }
            Fetch::HeldBack(until) => {
                let (mut decision, rest) = self.decide_around(entity, &due, &context);
                // Later than it was told, each at another time: never before.
                let until = until.plus((self.jitter)(until.since(context.now)));
                decision.join(hold_back(entity, &rest, until, &context));
                (decision, None)
            }
        };
        self.commit(epoch, entity, decision, fetched).await.map(drop)
    }

    /// Nobody could be asked: decides what needs nobody, and answers the events that wait.
    fn decide_around(&self, entity: &Entity, run: &[Pending], context: &Context) -> (Decision, Vec<Pending>) {
        let mut entity = entity.clone();
        let (mut decision, mut rest) = (Decision::default(), Vec::new());
        for pending in run {
            let one = self.decide(&entity, std::slice::from_ref(pending), context);
            if one.ambiguity.is_some() {
                rest.push(pending.clone());
                continue;
            }
            one.entries.iter().for_each(|entry| entry.apply(&mut entity));
            decision.join(one);
        }
        (decision, rest)
    }

    /// Decides, and contains a panic: the event that caused it is put off, and given up in the end.
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
        let decided = catch_unwind(AssertUnwindSafe(|| self.decider.decide(entity, run, context)));
        match (decided, run) {
            (Ok(decision), _) => released(entity, run, decision),
            // One event at a time, so that only the one that fails is put off.
            (Err(_), [first, _, ..]) => self.decide(entity, std::slice::from_ref(first), context),
            (Err(panic), _) => self.contain(entity, run, panic.as_ref(), context),
        }
    }

    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision {
        let settled = catch_unwind(AssertUnwindSafe(|| self.decider.settle(entity, run, asked, reading, context)));
        settled.unwrap_or_else(|panic| self.contain(entity, run, panic.as_ref(), context))
    }

    fn contain(
        &self,
        entity: &Entity,
        run: &[Pending],
        panic: &(dyn std::any::Any + Send),
        context: &Context,
    ) -> Decision {
        self.metrics.panicked();
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let detail = text.unwrap_or("a panic without a text").to_owned();
        tracing::error!(entity = %entity.key, detail, "deciding panicked");
        let mut decision = self.postpone(entity, run, Rule::Panic, &Reason::Panicked { detail }, context);
        for entry in &mut decision.entries {
            if entry.outcome == Outcome::DeadLettered {
                entry.flags.push(FlagChange::Set(Flag::Quarantined));
            }
        }
        decision
    }

    fn postpone(&self, entity: &Entity, run: &[Pending], rule: Rule, reason: &Reason, context: &Context) -> Decision {
        let delay = |tries| context.schedule.delay(tries).map(|delay| (self.jitter)(delay));
        postpone(entity, run, rule, reason, delay, context)
    }

    /// Makes a decision true, and the entity with it. Answers whether more may wait for the entity.
    async fn commit(
        &self,
        epoch: Epoch,
        entity: &mut Entity,
        decision: Decision,
        fetched: Option<Fetched>,
    ) -> Result<bool, store::Error> {
        let Decision { entries, judged, ambiguity: _ } = decision;
        let entries: Arc<[Entry]> = entries.into();
        if entries.is_empty() && judged.is_empty() {
            return Ok(true);
        }
        let retried = judged.iter().filter(|judged| matches!(judged.disposition, Disposition::Retry { .. })).count();
        let commit = Commit {
            entity: entity.key.clone(),
            epoch,
            version: entity.version,
            entries: Arc::clone(&entries),
            judged,
            fetched,
        };
        let committed = self.store.commit(commit).await?;
        self.room.found();
        self.metrics.decided(&entries);
        self.metrics.retried(retried);
        for entry in &*entries {
            entry.apply(entity);
            log(&entity.key, entity.version, entry);
        }
        Ok(committed.more)
    }

    fn context(&self, key: &EntityKey, now: Timestamp) -> Context {
        let upstream = self.sources.get(&key.source).and_then(|source| source.upstream());
        let asks = upstream.is_some_and(|upstream| upstream.request(key).is_some());
        Context {
            now,
            clock_skew: self.settings.clock_skew,
            confirm_after: self.settings.confirm_after,
            schedule: self.settings.schedule(&key.source),
            upstream: asks,
        }
    }
}

fn is_check_due(entity: &Entity, now: Timestamp) -> bool {
    entity.check.as_ref().is_some_and(|check| check.due <= now)
}

/// An operator replayed what broke the entity's decider, and it was decided: it is quarantined no longer.
fn released(entity: &Entity, run: &[Pending], mut decision: Decision) -> Decision {
    let replayed = run.iter().any(|pending| pending.replayed_by.is_some());
    if replayed
        && entity.flags.contains(&Flag::Quarantined)
        && let Some(entry) = decision.entries.first_mut()
    {
        entry.flags.push(FlagChange::Cleared(Flag::Quarantined));
    }
    decision
}

/// One structured line a decision.
fn log(key: &EntityKey, seq: u64, entry: &Entry) {
    let text = |state: &Option<crate::domain::StateName>| state.as_ref().map(ToString::to_string).unwrap_or_default();
    tracing::info!(
        target: "tollgate::decision",
        entity = %key,
        seq,
        machine = entry.machine.as_ref().map(|machine| machine.name.as_str()),
        event = entry.event_id.as_ref().map(tracing::field::display),
        from = text(&entry.states.from),
        to = text(&entry.states.to),
        outcome = entry.outcome.as_str(),
        rule = entry.rule.as_str(),
        reason = entry.reason.as_ref().map(tracing::field::display),
        "decided"
    );
}
