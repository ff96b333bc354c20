//! The entity actor: a shell that runs the turns of one entity, one after the other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix::prelude::*;
use futures_util::FutureExt;

use crate::domain::Entity;
use crate::store::Epoch;

use super::dispatcher::{Dispatcher, Failed, Idle};
use super::roster::{Incarnation, Note};
use super::run::Running;
use super::work::work;

/// "Work waits": the actor reads what it is. One such message in the mailbox says all that two would.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Wake;

/// "You are no longer needed."
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Retire;

/// The one writer of an entity.
pub(super) struct EntityActor {
    running: Arc<Running>,
    who: Incarnation,
    epoch: Epoch,
    held: Option<Entity>,
    dispatcher: Addr<Dispatcher>,
    idle: Idle,
    /// How many wakes were taken: the dispatcher retires an actor only when it has taken all that were sent.
    wakes: u64,
}

impl EntityActor {
    pub(super) fn start_for(
        running: Arc<Running>,
        who: Incarnation,
        epoch: Epoch,
        dispatcher: Addr<Dispatcher>,
        idle: Idle,
    ) -> Addr<Self> {
        Self { running, who, epoch, held: None, dispatcher, idle, wakes: 0 }.start()
    }
}

impl Actor for EntityActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(1);
        self.running.core.metrics.actors_changed(1);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.running.core.metrics.actors_changed(-1);
    }
}

impl Handler<Wake> for EntityActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, _: Wake, _: &mut Self::Context) -> Self::Result {
        self.wakes += 1;
        let (running, key, epoch, held) =
            (Arc::clone(&self.running), self.who.key.clone(), self.epoch, self.held.take());
        let work = AssertUnwindSafe(work(running, key, epoch, held)).catch_unwind();
        let done = work.into_actor(self).map(|result, actor, ctx| {
            if let Ok(held) = result {
                actor.held = held;
                actor.idle.borrow_mut().push(Note { of: actor.who.clone(), wakes: actor.wakes });
            } else {
                let failed = actor.dispatcher.send(Failed(actor.who.clone()));
                // Told by a task that outlives the actor; it waits if the mailbox is full. A dispatcher that is gone has
                // nobody to tell: the engine is stopping.
                actix::spawn(async move { failed.await.unwrap_or_default() });
                ctx.stop();
            }
        });
        AtomicResponse::new(Box::pin(done))
    }
}

impl Handler<Retire> for EntityActor {
    type Result = ();

    fn handle(&mut self, _: Retire, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
