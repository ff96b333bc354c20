//! An engine whose dispatchers and actors are tasks of a simulation, in place of actix: the same shells in little.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::decider::Decider;
use super::feeding::{Desk, ROOM_PAUSE, feed, owner_of, wake_due};
use super::ownership::Ownership;
use super::roster::{Crew, Incarnation, Note, RESPAWN_PAUSE, Roster, Sent};
use super::run::{Running, guarded};
use super::work::work;
use super::{Engine, Error, Parts};
use crate::domain::{EntityKey, Shard};
use crate::store::Epoch;

/// How many dispatchers share the shards.
const DISPATCHERS: usize = 2;

/// How many messages lie before a dispatcher at most, as with actix.
const MAILBOX: usize = 16;

/// Starts a task.
pub(crate) type Spawn = Rc<dyn Fn(LocalBoxFuture<'static, ()>)>;

enum ToDispatcher {
    Arrived(Vec<EntityKey>, oneshot::Sender<usize>),
    Failed(Incarnation),
    Look(Vec<EntityKey>),
}

enum ToActor {
    Wake,
    Retire,
}

#[derive(Clone)]
struct Mailbox(mpsc::Sender<ToDispatcher>);

struct Actors {
    running: Arc<Running>,
    owns: Ownership,
    dispatcher: mpsc::Sender<ToDispatcher>,
    idle: Idle,
    spawn: Spawn,
}

/// The notes of actors that have nothing left to do.
type Idle = Rc<RefCell<Vec<Note>>>;

impl Engine {
    /// Starts the engine as tasks.
    pub(crate) async fn by_steps(parts: Parts, decider: Arc<dyn Decider>, spawn: &Spawn) -> Result<Self, Error> {
        let engine = Self::assemble(parts, decider, Vec::new()).await?;
        let running = &engine.running;
        let mut desks = Vec::new();
        for number in 0..DISPATCHERS {
            let shards = (0..running.core.store.shards()).map(Shard);
            let owned: Vec<Shard> = shards.filter(|shard| owner_of(*shard, DISPATCHERS) == number).collect();
            let owns = Ownership::take(&*running.core.store, &owned).await?;
            let (dispatcher, mailbox) = mpsc::channel(MAILBOX);
            let desk = Mailbox(dispatcher.clone());
            let (idle, spawn) = (Idle::default(), Rc::clone(spawn));
            let crew = Actors { running: Arc::clone(running), owns, dispatcher, idle, spawn: Rc::clone(&spawn) };
            spawn(dispatch(crew, mailbox).boxed_local());
            let feeding = feed(Arc::clone(running), owned, desk.clone());
            spawn(guarded(Arc::clone(running), "the feeding of a dispatcher", feeding).boxed_local());
            desks.push(desk);
        }
        let waking = wake_due(Arc::clone(running), desks);
        spawn(guarded(Arc::clone(running), "the waking of what is due", waking).boxed_local());
        Ok(engine)
    }
}

async fn dispatch(mut crew: Actors, mut mailbox: mpsc::Receiver<ToDispatcher>) {
    let idle_after = crew.running.core.settings.idle_after;
    let mut roster = Roster::new(crew.running.core.settings.actors_max / DISPATCHERS);
    let mut every = tokio::time::interval(idle_after.max(Duration::from_millis(100)));
    loop {
        let message = tokio::select! {
            biased;
            message = mailbox.recv() => message,
            _ = every.tick() => {
                roster.retire_idle(Instant::now(), idle_after, &mut crew);
                continue;
            }
        };
        match message {
            None => return,
            Some(ToDispatcher::Arrived(keys, reply)) => {
                // Whoever asked may be gone.
                let _ = reply.send(roster.arrived(keys, Instant::now(), &mut crew));
            }
            Some(ToDispatcher::Look(keys)) => {
                if roster.arrived(keys, Instant::now(), &mut crew) > 0 {
                    crew.look_after(ROOM_PAUSE, Vec::new());
                }
            }
            Some(ToDispatcher::Failed(who)) => {
                roster.failed(&who, &mut crew);
                crew.look_after(RESPAWN_PAUSE, vec![who.key]);
            }
        }
    }
}

impl Actors {
    fn look_after(&self, pause: Duration, keys: Vec<EntityKey>) {
        let dispatcher = self.dispatcher.clone();
        let later = async move {
            tokio::time::sleep(pause).await;
            drop(dispatcher.send(ToDispatcher::Look(keys)).await);
        };
        (self.spawn)(later.boxed_local());
    }
}

async fn act(
    running: Arc<Running>,
    who: Incarnation,
    epoch: Epoch,
    dispatcher: mpsc::Sender<ToDispatcher>,
    idle: Idle,
    mut mailbox: mpsc::Receiver<ToActor>,
) {
    let (mut held, mut wakes) = (None, 0);
    while let Some(ToActor::Wake) = mailbox.recv().await {
        wakes += 1;
        let worked = AssertUnwindSafe(work(Arc::clone(&running), who.key.clone(), epoch, held.take()));
        let Ok(left) = worked.catch_unwind().await else {
            mailbox.close();
            return drop(dispatcher.send(ToDispatcher::Failed(who)).await);
        };
        held = left;
        idle.borrow_mut().push(Note { of: who.clone(), wakes });
    }
}

impl Crew for Actors {
    type Actor = mpsc::Sender<ToActor>;

    fn start(&mut self, who: Incarnation) -> Self::Actor {
        let (actor, mailbox) = mpsc::channel(1);
        let (epoch, idle) = (self.owns.epoch_of(&who.key), Rc::clone(&self.idle));
        let acting = act(Arc::clone(&self.running), who, epoch, self.dispatcher.clone(), idle, mailbox);
        (self.spawn)(acting.boxed_local());
        actor
    }

    fn notes(&mut self) -> Vec<Note> {
        self.idle.take()
    }

    fn wake(&mut self, actor: &Self::Actor) -> Sent {
        match actor.try_send(ToActor::Wake) {
            Ok(()) => Sent::Taken,
            Err(mpsc::error::TrySendError::Full(_)) => Sent::Full,
            Err(mpsc::error::TrySendError::Closed(_)) => Sent::Gone,
        }
    }

    fn retire(&mut self, actor: Self::Actor) {
        drop(actor.try_send(ToActor::Retire));
    }
}

impl Desk for Mailbox {
    async fn arrived(&self, keys: Vec<EntityKey>) -> Option<usize> {
        let (reply, answer) = oneshot::channel();
        self.0.send(ToDispatcher::Arrived(keys, reply)).await.ok()?;
        answer.await.ok()
    }
}
