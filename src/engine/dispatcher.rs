//! The dispatcher of a shard: wakes the actor of each entity that has work, and retires idle ones.

use std::collections::{HashMap, VecDeque};
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
    waiting: VecDeque<EntityKey>,
}

/// An actor, and what was sent to it.
struct Slot {
    actor: Addr<EntityActor>,
    wakes: u64,
    idle_since: Option<Instant>,
}

impl Dispatcher {
    pub(super) fn new(running: Arc<Running>, epoch: Epoch, slots_max: usize) -> Self {
        Self { running, epoch, slots: HashMap::new(), slots_max: slots_max.max(1), waiting: VecDeque::new() }
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
        if self.slots.len() >= self.slots_max {
            self.waiting.push_back(key);
            return;
        }
        let actor = EntityActor::start_for(Arc::clone(&self.running), key.clone(), self.epoch, ctx.address());
        let sent = actor.try_send(Wake).is_ok();
        self.slots.insert(key, Slot { actor, wakes: u64::from(sent), idle_since: None });
    }

    /// Gives the places of idle actors to entities that wait for one.
    fn make_room(&mut self, ctx: &Context<Self>) {
        while self.slots.len() < self.slots_max
            && let Some(key) = self.waiting.pop_front()
        {
            self.wake(key, ctx);
        }
    }

    fn retire(&mut self, key: &EntityKey) {
        if let Some(slot) = self.slots.remove(key) {
            // Closed means that it has stopped already; full cannot be, it has taken all its wakes.
            let _ = slot.actor.try_send(Retire);
        }
    }

    fn retire_idle(&mut self) {
        let idle_after = self.running.core.settings.idle_after;
        let old = |slot: &Slot| slot.idle_since.is_some_and(|since| since.elapsed() >= idle_after);
        let keys: Vec<EntityKey> =
            self.slots.iter().filter(|(_, slot)| old(slot)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.retire(&key);
        }
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
        self.waiting.len()
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
        slot.idle_since = Some(Instant::now());
        if !self.waiting.is_empty() {
            self.retire(&idle.key);
            self.make_room(ctx);
        }
    }
}

/// Takes over a shard and hands its arrivals to its dispatcher until the engine stops.
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
        let mut waiting = dispatcher.send(Arrived(keys)).await.unwrap_or(0);
        while waiting > 0 && !running.is_stopping() {
            actix_rt::time::sleep(ROOM_PAUSE).await;
            waiting = dispatcher.send(Arrived(Vec::new())).await.unwrap_or(0);
        }
    }
}
