//! The dispatcher of a shard: a shell under actix that runs what its roster says.

use std::sync::Arc;
use std::time::Duration;

use actix::dev::SendError;
use actix::prelude::*;
use tokio::time::Instant;

use crate::domain::EntityKey;
use crate::store::Epoch;

use super::actor::{EntityActor, Retire, Wake};
use super::feeding::Desk;
use super::roster::{Crew, RESPAWN_PAUSE, Roster, Sent};
use super::run::Running;

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
    roster: Roster<Addr<EntityActor>>,
}

/// Starts actors of a dispatcher and sends to them.
struct Actors {
    running: Arc<Running>,
    epoch: Epoch,
    dispatcher: Addr<Dispatcher>,
}

impl Dispatcher {
    pub(super) fn new(running: Arc<Running>, epoch: Epoch, slots_max: usize) -> Self {
        Self { running, epoch, roster: Roster::new(slots_max) }
    }

    fn crew(&self, ctx: &Context<Self>) -> Actors {
        Actors { running: Arc::clone(&self.running), epoch: self.epoch, dispatcher: ctx.address() }
    }
}

impl Crew for Actors {
    type Actor = Addr<EntityActor>;

    fn start(&mut self, key: &EntityKey) -> Self::Actor {
        EntityActor::start_for(Arc::clone(&self.running), key.clone(), self.epoch, self.dispatcher.clone())
    }

    fn wake(&mut self, actor: &Self::Actor) -> Sent {
        match actor.try_send(Wake) {
            Ok(()) => Sent::Taken,
            Err(SendError::Full(_)) => Sent::Full,
            Err(SendError::Closed(_)) => Sent::Gone,
        }
    }

    fn retire(&mut self, actor: Self::Actor) {
        // Closed means that it has stopped already; full cannot be, it has taken all its wakes.
        let _ = actor.try_send(Retire);
    }
}

impl Actor for Dispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let idle_after = self.running.core.settings.idle_after;
        ctx.run_interval(idle_after.max(Duration::from_millis(100)), move |dispatcher, ctx| {
            let mut crew = dispatcher.crew(ctx);
            dispatcher.roster.retire_idle(Instant::now(), idle_after, &mut crew);
        });
    }
}

impl Handler<Arrived> for Dispatcher {
    type Result = usize;

    fn handle(&mut self, arrived: Arrived, ctx: &mut Self::Context) -> usize {
        let mut crew = self.crew(ctx);
        self.roster.arrived(arrived.0, &mut crew)
    }
}

impl Handler<Idle> for Dispatcher {
    type Result = ();

    fn handle(&mut self, Idle { key, wakes, failed }: Idle, ctx: &mut Self::Context) {
        let mut crew = self.crew(ctx);
        if !failed {
            return self.roster.idle(key, wakes, Instant::now(), &mut crew);
        }
        self.roster.failed(&key);
        ctx.run_later(RESPAWN_PAUSE, move |dispatcher, _| dispatcher.roster.wake(key, &mut crew));
    }
}

impl Desk for Addr<Dispatcher> {
    async fn arrived(&self, keys: Vec<EntityKey>) -> Option<usize> {
        self.send(Arrived(keys)).await.ok()
    }
}
