//! The dispatcher of a shard: wakes the actor of each entity that has work, and retires idle ones.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::prelude::*;

use crate::domain::{EntityKey, Shard};
use crate::store::Epoch;

use super::actor::{EntityActor, Retire, Wake};
use super::run::Running;

/// How long a dispatcher at its bound waits before it looks again for room.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// How long after a panic an entity's actor starts anew.
const RESPAWN_PAUSE: Duration = Duration::from_secs(1);

/// "These entities have work." Answers how many of them wait for room.
#[derive(Message)]
#[rtype(result = "usize")]
pub(super) struct Arrived(pub(super) Vec<EntityKey>);

/// "I have taken `wakes` wakes, and nothing is left to do."
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Idle {
    pub(super) key: EntityKey,
    pub(super) wakes: u64,
    pub(super) failed: bool,
}

/// The owner of a shard's entities.
pub(super) struct Dispatcher {
    running: Arc<Running>,
    epoch: Epoch,
    slots: HashMap<EntityKey, Slot>,
    slots_max: usize,
    /// Idle actors, the longest idle first. A row is stale once its actor was woken again.
    idle: VecDeque<(EntityKey, Instant)>,
    waiting: Waiting,
}

/// An actor, and what was sent to it.
struct Slot {
    actor: Addr<EntityActor>,
    wakes: u64,
    idle_since: Option<Instant>,
}

/// Entities that wait for room, each once, in their order.
#[derive(Default)]
struct Waiting {
    order: VecDeque<EntityKey>,
    known: HashSet<EntityKey>,
}

impl Dispatcher {
    pub(super) fn new(running: Arc<Running>, epoch: Epoch, slots_max: usize) -> Self {
        let (slots, idle, waiting) = (HashMap::new(), VecDeque::new(), Waiting::default());
        Self { running, epoch, slots, slots_max: slots_max.max(1), idle, waiting }
    }

    fn wake(&mut self, key: EntityKey, ctx: &Context<Self>) {
        if let Some(slot) = self.slots.get_mut(&key) {
            match slot.actor.try_send(Wake) {
                Ok(()) => {
                    slot.wakes += 1;
                    slot.idle_since = None;
                    return;
                }
                // A wake waits there already, and will find this work too.
                Err(SendError::Full(_)) => return,
                Err(SendError::Closed(_)) => {
                    self.slots.remove(&key);
                }
            }
        }
        if self.slots.len() >= self.slots_max && !self.retire_longest_idle() {
            self.waiting.push(key);
            return;
        }
        let actor = EntityActor::start_for(Arc::clone(&self.running), key.clone(), self.epoch, ctx.address());
        let sent = actor.try_send(Wake).is_ok();
        self.slots.insert(key, Slot { actor, wakes: u64::from(sent), idle_since: None });
    }

    /// Gives the places of idle actors to entities that wait for one.
    fn make_room(&mut self, ctx: &Context<Self>) {
        while (self.slots.len() < self.slots_max || self.retire_longest_idle())
            && let Some(key) = self.waiting.pop()
        {
            self.wake(key, ctx);
        }
    }

    /// Whether an idle actor was there to be retired.
    fn retire_longest_idle(&mut self) -> bool {
        while let Some((key, since)) = self.idle.pop_front() {
            if self.is_idle_since(&key, since) {
                self.retire(&key);
                return true;
            }
        }
        false
    }

    /// Retires what has been idle for long, and forgets stale rows.
    fn retire_idle(&mut self) {
        let idle_after = self.running.core.settings.idle_after;
        while let Some((key, since)) = self.idle.front().cloned() {
            let current = self.is_idle_since(&key, since);
            if current && since.elapsed() < idle_after {
                return;
            }
            self.idle.pop_front();
            if current {
                self.retire(&key);
            }
        }
    }

    fn is_idle_since(&self, key: &EntityKey, since: Instant) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.idle_since == Some(since))
    }

    fn retire(&mut self, key: &EntityKey) {
        if let Some(slot) = self.slots.remove(key) {
            // Closed means that it has stopped already; full cannot be, it has taken all its wakes.
            let _ = slot.actor.try_send(Retire);
        }
    }
}

impl Waiting {
    fn push(&mut self, key: EntityKey) {
        if self.known.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<EntityKey> {
        let key = self.order.pop_front()?;
        self.known.remove(&key);
        Some(key)
    }
}

impl Actor for Dispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let every = self.running.core.settings.idle_after.max(Duration::from_millis(100));
        ctx.run_interval(every, |dispatcher, _| dispatcher.retire_idle());
    }
}

impl Handler<Arrived> for Dispatcher {
    type Result = usize;

    fn handle(&mut self, arrived: Arrived, ctx: &mut Self::Context) -> usize {
        for key in arrived.0 {
            self.wake(key, ctx);
        }
        self.make_room(ctx);
        self.waiting.order.len()
    }
}

impl Handler<Idle> for Dispatcher {
    type Result = ();

    fn handle(&mut self, idle: Idle, ctx: &mut Self::Context) {
        if idle.failed {
            self.slots.remove(&idle.key);
            ctx.run_later(RESPAWN_PAUSE, move |dispatcher, ctx| dispatcher.wake(idle.key, ctx));
            return;
        }
        let Some(slot) = self.slots.get_mut(&idle.key) else { return };
        if slot.wakes != idle.wakes {
            return;
        }
        let since = Instant::now();
        slot.idle_since = Some(since);
        self.idle.push_back((idle.key, since));
        // Stale rows must not pile up behind a front that is not old yet.
        if self.idle.len() > self.slots_max.saturating_mul(2) {
            let slots = &self.slots;
            self.idle.retain(|(key, since)| slots.get(key).is_some_and(|slot| slot.idle_since == Some(*since)));
        }
        self.make_room(ctx);
    }
}

/// Hands a shard's arrivals to its dispatcher until the engine stops.
pub(super) async fn run_shard(running: Arc<Running>, shard: Shard, dispatcher: Addr<Dispatcher>) {
    while !running.is_stopping() {
        let arrivals = tokio::select! {
            arrivals = running.core.store.arrivals(shard) => arrivals,
            () = running.stopped() => return,
        };
        let keys = match arrivals {
            Ok(keys) => keys,
            Err(error) => return running.fail(&error.to_string()),
        };
        let mut arrived = Arrived(keys);
        loop {
            match dispatcher.send(arrived).await {
                Ok(0) => break,
                Ok(_) if running.is_stopping() => return,
                Ok(_) => actix_rt::time::sleep(ROOM_PAUSE).await,
                Err(_) => return running.fail(&format!("the dispatcher of shard {} is gone", shard.0)),
            }
            arrived = Arrived(Vec::new());
        }
    }
}
