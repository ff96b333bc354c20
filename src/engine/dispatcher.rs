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
use super::feeding::Desk;
use super::ownership::Ownership;
use super::roster::{Crew, RESPAWN_PAUSE, Roster, Sent};
use super::run::Running;

/// "These entities have work." Answers how many of them wait for room.
#[derive(Message)]
#[rtype(result = "usize")]
pub(super) struct Arrived(pub(super) Vec<EntityKey>);

/// "I have failed."
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Failed(pub(super) EntityKey);

/// Actors that have nothing left to do, with how many wakes each has taken. They run on their dispatcher's thread, and
/// it needs to know no sooner than when it next has something to do: so they leave a note and send no message.
pub(super) type Idle = Rc<RefCell<Vec<(EntityKey, u64)>>>;

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

    /// Reads the notes of those that became idle.
    fn note_idle(&mut self, crew: &mut Actors) {
        let idle = self.idle.take();
        if idle.is_empty() {
            return;
        }
        let now = Instant::now();
        for (key, wakes) in idle {
            self.roster.idle(key, wakes, now, crew);
        }
    }
}

impl Crew for Actors {
    type Actor = Addr<EntityActor>;

    fn start(&mut self, key: &EntityKey) -> Self::Actor {
        let (epoch, idle) = (self.owns.epoch_of(key), Rc::clone(&self.idle));
        EntityActor::start_for(Arc::clone(&self.running), key.clone(), epoch, self.dispatcher.clone(), idle)
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
            dispatcher.note_idle(&mut crew);
            dispatcher.roster.retire_idle(Instant::now(), idle_after, &mut crew);
        });
    }
}

impl Handler<Arrived> for Dispatcher {
    type Result = usize;

    fn handle(&mut self, arrived: Arrived, ctx: &mut Self::Context) -> usize {
        let mut crew = self.crew(ctx);
        self.note_idle(&mut crew);
        self.roster.arrived(arrived.0, &mut crew)
    }
}

impl Handler<Failed> for Dispatcher {
    type Result = ();

    fn handle(&mut self, Failed(key): Failed, ctx: &mut Self::Context) {
        let mut crew = self.crew(ctx);
        self.roster.failed(&key);
        ctx.run_later(RESPAWN_PAUSE, move |dispatcher, _| dispatcher.roster.wake(key, &mut crew));
    }
}

impl Desk for Addr<Dispatcher> {
    async fn arrived(&self, keys: Vec<EntityKey>) -> Option<usize> {
        self.send(Arrived(keys)).await.ok()
    }
}
