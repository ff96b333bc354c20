//! A dispatcher, the owner of some shards: a shell under actix that runs what its roster says.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::SendError;
use actix::prelude::*;
use tokio::time::Instant;

use crate::domain::EntityKey;

use super::actor::{EntityActor, Retire, Wake};
use super::feeding::{Desk, ROOM_PAUSE};
use super::ownership::Ownership;
use super::roster::{Crew, Incarnation, Note, RESPAWN_PAUSE, Roster, Sent};
use super::run::Running;

/// "These entities have work." Answers how many of them wait for room.
#[derive(Message)]
#[rtype(result = "usize")]
pub(super) struct Arrived(pub(super) Vec<EntityKey>);

/// "I have failed."
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Failed(pub(super) Incarnation);

/// The notes of actors that have nothing left to do. They run on their dispatcher's thread, and
/// it needs to know no sooner than when it next has something to do: so they leave a note and send no message.
pub(super) type Idle = Rc<RefCell<Vec<Note>>>;

/// The owner of the entities of some shards.
pub(super) struct Dispatcher {
    running: Arc<Running>,
    owns: Rc<Ownership>,
    roster: Roster<Addr<EntityActor>>,
    idle: Idle,
}

/// Starts actors of a dispatcher and sends to them.
struct Actors {
    running: Arc<Running>,
    owns: Rc<Ownership>,
    dispatcher: Addr<Dispatcher>,
    idle: Idle,
}

impl Dispatcher {
    pub(super) fn new(running: Arc<Running>, owns: Ownership, slots_max: usize) -> Self {
        Self { running, owns: Rc::new(owns), roster: Roster::new(slots_max), idle: Idle::default() }
    }

    fn crew(&self, ctx: &Context<Self>) -> Actors {
        let (running, owns, idle) = (Arc::clone(&self.running), Rc::clone(&self.owns), Rc::clone(&self.idle));
        Actors { running, owns, dispatcher: ctx.address(), idle }
    }

    /// Announces these, and looks for room again as long as somebody waits for it: nobody else may come for long.
    fn look(&mut self, keys: Vec<EntityKey>, ctx: &mut Context<Self>) {
        let mut crew = self.crew(ctx);
        if self.roster.arrived(keys, Instant::now(), &mut crew) > 0 {
            ctx.run_later(ROOM_PAUSE, |dispatcher, ctx| dispatcher.look(Vec::new(), ctx));
        }
    }
}

impl Crew for Actors {
    type Actor = Addr<EntityActor>;

    fn start(&mut self, who: Incarnation) -> Self::Actor {
        let (epoch, idle) = (self.owns.epoch_of(&who.key), Rc::clone(&self.idle));
        EntityActor::start_for(Arc::clone(&self.running), who, epoch, self.dispatcher.clone(), idle)
    }

    fn notes(&mut self) -> Vec<Note> {
        self.idle.take()
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
        self.roster.arrived(arrived.0, Instant::now(), &mut crew)
    }
}

impl Handler<Failed> for Dispatcher {
    type Result = ();

    fn handle(&mut self, Failed(who): Failed, ctx: &mut Self::Context) {
        let mut crew = self.crew(ctx);
        self.roster.failed(&who, &mut crew);
        ctx.run_later(RESPAWN_PAUSE, move |dispatcher, ctx| dispatcher.look(vec![who.key], ctx));
    }
}

impl Desk for Addr<Dispatcher> {
    async fn arrived(&self, keys: Vec<EntityKey>) -> Option<usize> {
        self.send(Arrived(keys)).await.ok()
    }
}

#[cfg(test)]
mod tests;
