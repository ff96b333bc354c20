//! The engine: takes what the door appended, has each entity decide, and answers what is known.
//!
//! `turn`, `work`, `roster` and `feeding` hold the logic; `dispatcher` and `actor` are its shells under actix;
//! `reconciler` asks upstreams.
//! [`Engine`] is the only way in for HTTP and the command line.

mod actor;
pub mod clock;
pub mod decider;
mod dispatcher;
mod error;
mod feeding;
pub mod metrics;
mod ownership;
pub mod reconciler;
pub mod room;
mod roster;
mod run;
pub mod settings;
#[cfg(test)]
pub(crate) mod steps;
pub mod turn;
pub mod upstream;
mod work;

pub use error::Error;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use tokio::sync::Semaphore;

use crate::domain::query::{DeadLetter, EntityCursor, EntityFilter, Page};
use crate::domain::{
    Admission, Admit, Delivery, Entity, EntityKey, Event, Kept, Position, Recorded, Shard, SourceName, Timestamp,
};
use crate::machine::Registry;
use crate::source::Source;
use crate::store::courtesy::step_back;
use crate::store::{self, Action, Command, Store};

use clock::Clock;
use decider::{Decider, Ladder};
use dispatcher::Dispatcher;
use feeding::{feed, owner_of, wake_due};
use metrics::Metrics;
use ownership::Ownership;
use reconciler::Reconciler;
use room::Room;
use run::{Running, guarded};
use settings::Settings;
use turn::{Core, TURNS_MAX};
use upstream::Upstream;

/// How far deciding steps back behind the door: a sender waits for its answer, and nobody for a decision.
const DECIDING_BEHIND: i32 = 3;

/// How often a drain looks whether the turns under way have ended.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// What an engine is made of.
pub struct Parts {
    /// Where facts are kept.
    pub store: Arc<dyn Store>,
    /// The loaded machines.
    pub machines: Registry,
    /// The sources that are on.
    pub sources: BTreeMap<SourceName, Arc<Source>>,
    /// Who asks upstreams.
    pub upstream: Arc<dyn Upstream>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Spreads delays.
    pub jitter: Arc<dyn Fn(Duration) -> Duration + Send + Sync>,
    /// The settings.
    pub settings: Settings,
    /// How many threads run entity actors.
    pub workers: usize,
}

/// A running engine. Clones are handles to the same one.
#[derive(Clone)]
pub struct Engine {
    running: Arc<Running>,
    machines: Arc<Registry>,
    arbiters: Arc<Vec<Arbiter>>,
}

/// Figures of an engine.
#[derive(Clone, Debug)]
pub struct Status {
    /// The store's.
    pub store: store::Status,
    /// Entity actors alive.
    pub actors: i64,
    /// The sources that are on, and whether the circuit breaker of each holds its calls back.
    pub breakers: BTreeMap<SourceName, bool>,
    /// Whether decisions wait for room on the disk.
    pub lacks_room: bool,
    /// Why the engine stopped, if it did by itself.
    pub failure: Option<String>,
}

impl Engine {
    /// Starts the engine on this actix system: takes over all shards, and goes on with what is pending.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn start(parts: Parts) -> Result<Self, Error> {
        let arbiters: Vec<Arbiter> = (0..parts.workers.max(1)).map(|_| Arbiter::new()).collect();
        let decider = Arc::new(Ladder(parts.machines.clone()));
        let engine = Self::assemble(parts, decider, arbiters).await?;
        let (running, shards) = (&engine.running, engine.core().store.shards());
        let count = engine.arbiters.len();
        let mut dispatchers = Vec::new();
        for (number, arbiter) in engine.arbiters.iter().enumerate() {
            let owned: Vec<Shard> = (0..shards).map(Shard).filter(|shard| owner_of(*shard, count) == number).collect();
            let owns = Ownership::take(&*running.core.store, &owned).await?;
            let (shared, slots_max) = (Arc::clone(running), running.core.settings.actors_max / count);
            let dispatcher =
                Dispatcher::start_in_arbiter(&arbiter.handle(), move |_| Dispatcher::new(shared, owns, slots_max));
            let feeding = feed(Arc::clone(running), owned, dispatcher.clone());
            arbiter.spawn(async { step_back(DECIDING_BEHIND) });
            arbiter.spawn(guarded(Arc::clone(running), "the feeding of a dispatcher", feeding));
            dispatchers.push(dispatcher);
        }
        let waking = wake_due(Arc::clone(running), dispatchers);
        actix_rt::spawn(guarded(Arc::clone(running), "the waking of what is due", waking));
        Ok(engine)
    }

    /// An engine that takes deliveries and decides none of them: what it took waits in its store. To measure how fast
    /// it takes them.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn start_undecided(parts: Parts) -> Result<Self, Error> {
        let decider = Arc::new(Ladder(parts.machines.clone()));
        Self::assemble(parts, decider, Vec::new()).await
    }

    /// An engine that records its machines, and whose shards nobody works on yet.
    async fn assemble(parts: Parts, decider: Arc<dyn Decider>, arbiters: Vec<Arbiter>) -> Result<Self, Error> {
        let metrics = Arc::new(Metrics::default());
        let reconciler = Reconciler::new(
            parts.upstream,
            Arc::clone(&parts.clock),
            Arc::clone(&metrics),
            &parts.sources,
            &parts.settings,
        );
        let core = Core {
            store: parts.store,
            decider,
            sources: parts.sources,
            reconciler,
            clock: parts.clock,
            settings: parts.settings,
            metrics,
            jitter: parts.jitter,
            turns: Semaphore::new(TURNS_MAX),
            room: Room::default(),
        };
        record_machines(&core, &parts.machines).await?;
        let (running, machines) = (Running::new(core), Arc::new(parts.machines));
        Ok(Self { running, machines, arbiters: Arc::new(arbiters) })
    }

    /// The engine's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.core().clock.now()
    }

    /// The source of this name, if it is on.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<Arc<Source>> {
        self.core().sources.get(name).cloned()
    }

    /// The loaded machines.
    #[must_use]
    pub fn machines(&self) -> &Registry {
        &self.machines
    }

    /// The id of the store behind it.
    #[must_use]
    pub fn store_id(&self) -> [u8; 16] {
        self.core().store.id()
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.core().metrics)
    }

    /// Takes a verified delivery. Resolves when it is durable. Once it was polled the delivery is the store's: it is
    /// recorded also if nobody waits for the answer any more.
    ///
    /// # Errors
    /// What the store answers; nothing of the delivery was kept then.
    pub async fn accept(&self, delivery: Delivery) -> Result<Vec<Admission>, Error> {
        let began = Instant::now();
        let source = delivery.source.clone();
        let admissions = self.core().store.append(delivery).await?;
        self.core().metrics.acknowledged(began.elapsed().as_secs_f64());
        for admission in &admissions {
            let outcome = match admission {
                Admission::Accepted(_) => "accepted",
                Admission::Duplicate(_) => "duplicate",
                Admission::Conflict { .. } => "conflict",
            };
            self.core().metrics.admitted(&source, outcome);
        }
        Ok(admissions)
    }

    /// Entities that match, by key.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn entities(
        &self,
        filter: &EntityFilter,
        after: Option<&EntityCursor>,
        limit: usize,
    ) -> Result<Page<Entity, EntityCursor>, Error> {
        Ok(self.core().store.entities(filter, after, limit).await?)
    }

    /// Entries of one entity or of all, by position.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn entries(
        &self,
        entity: Option<&EntityKey>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<Recorded, Position>, Error> {
        Ok(self.core().store.entries(entity, after, limit).await?)
    }

    /// The change feed: moves only. Without any it waits up to `wait` for one.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn feed(
        &self,
        after: Option<Position>,
        limit: usize,
        wait: Duration,
    ) -> Result<Page<Recorded, Position>, Error> {
        let deadline = tokio::time::Instant::now() + wait;
        let mut after = after;
        loop {
            let seen = self.core().store.status().synced;
            let page = self.core().store.feed(after, limit).await?;
            let behind = page.next.is_some_and(|next| next.lsn < seen);
            after = page.next.or(after);
            if !page.items.is_empty() || (!behind && tokio::time::Instant::now() >= deadline) {
                return Ok(Page { next: after, items: page.items });
            }
            if behind {
                continue;
            }
            tokio::select! {
                biased;
                () = self.running.stopped() => return Ok(Page { items: Vec::new(), next: after }),
                news = self.core().store.synced_beyond(seen) => { news?; }
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Dead letters by position.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn dead_letters(
        &self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<DeadLetter, Position>, Error> {
        Ok(self.core().store.dead_letters(after, limit).await?)
    }

    /// One dead letter, and the delivery that it came in.
    ///
    /// # Errors
    /// What the store answers.
    pub async fn dead_letter(&self, position: Position) -> Result<Option<(DeadLetter, Option<Kept>)>, Error> {
        let Some(letter) = self.core().store.dead_letter(position).await? else { return Ok(None) };
        let kept = self.core().store.delivery(position).await?;
        Ok(Some((letter, kept)))
    }

    /// Has a dead letter judged again, mapped anew from its raw bytes. Answers the command's position.
    ///
    /// # Errors
    /// [`store::Error::NotDead`], [`Error::NotReplayable`], or what the store answers.
    pub async fn replay(&self, position: Position, by: &str) -> Result<Position, Error> {
        let found = self.dead_letter(position).await?;
        let (letter, kept) = found.ok_or(store::Error::NotDead { position })?;
        let event = self.map_anew(&letter, kept.as_ref())?;
        self.command(by, Action::Replay { dead: position, event }).await
    }

    /// Drops a dead letter. Answers the command's position.
    ///
    /// # Errors
    /// [`store::Error::NotDead`], or what the store answers.
    pub async fn discard(&self, position: Position, by: &str) -> Result<Position, Error> {
        self.command(by, Action::Discard { dead: position }).await
    }

    /// Figures.
    #[must_use]
    pub fn status(&self) -> Status {
        let core = self.core();
        let breaker = |name: &SourceName| (name.clone(), core.reconciler.is_open(name));
        Status {
            store: core.store.status(),
            actors: core.metrics.actors(),
            breakers: core.sources.keys().map(breaker).collect(),
            lacks_room: core.room.is_lacking(),
            failure: self.running.failure(),
        }
    }

    /// Resolves when the engine stops, by itself or because it was told to; answers why if by itself.
    pub async fn stopped(&self) -> Option<String> {
        self.running.stopped().await;
        self.running.failure()
    }

    /// Stops: lets the turns under way end for up to `limit`, then syncs and closes the store. What is pending
    /// waits there.
    ///
    /// # Errors
    /// What the store answers to the last sync.
    pub async fn drain(&self, limit: Duration) -> Result<(), Error> {
        self.running.stop();
        let deadline = tokio::time::Instant::now() + limit;
        while self.running.turns() > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        for arbiter in self.arbiters.iter() {
            arbiter.stop();
        }
        Ok(self.core().store.close().await?)
    }

    fn core(&self) -> &Core {
        &self.running.core
    }

    async fn command(&self, by: &str, action: Action) -> Result<Position, Error> {
        let command = Command { by: Arc::from(by), at: self.now(), action };
        Ok(self.core().store.command(command).await?)
    }

    /// The event of a dead letter under the mapping of today; the stored one if its body was pruned.
    fn map_anew(&self, letter: &DeadLetter, kept: Option<&Kept>) -> Result<Arc<Event>, Error> {
        let source = self.core().sources.get(&letter.event.source);
        let mapped = match (source, kept) {
            (Some(source), Some(kept)) if !kept.delivery.body.is_empty() => {
                let delivery = &kept.delivery;
                let items = source.map(&delivery.headers, &delivery.body, delivery.received_at);
                items.into_iter().nth(kept.item)
            }
            _ => None,
        };
        let not_replayable = |detail: String| Error::NotReplayable { position: letter.position, detail };
        match mapped {
            None if letter.event.entity.is_some() => Ok(Arc::clone(&letter.event)),
            None => Err(not_replayable("it names no entity; discard it".to_owned())),
            Some(item) => match item.admit {
                Admit::Queue => Ok(item.event),
                Admit::DeadLetter(reason) => Err(not_replayable(reason.to_string())),
                Admit::Record => {
                    Err(not_replayable("no rule of its source maps it to an entity; add one, or discard it".to_owned()))
                }
            },
        }
    }
}

/// Records each machine whose file is not the one that was recorded last.
async fn record_machines(core: &Core, machines: &Registry) -> Result<(), Error> {
    let recorded = core.store.machines().await?;
    for machine in machines.iter() {
        let form = (machine.version(), machine.sha256());
        if recorded.get(machine.name()) == Some(&form) {
            continue;
        }
        let action = Action::MachineChanged { machine: machine.name().clone(), version: form.0, sha256: form.1 };
        core.store.command(Command { by: Arc::from("tollgate"), at: core.clock.now(), action }).await?;
    }
    Ok(())
}
