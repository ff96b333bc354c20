//! A dispatcher under actix whose actors fail, in simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::super::clock::ManualClock;
use super::super::decider::{Decider, Ladder};
use super::super::feeding::feed;
use super::super::metrics::Metrics;
use super::super::ownership::Ownership;
use super::super::reconciler::Reconciler;
use super::super::room::Room;
use super::super::run::Running;
use super::super::settings::Settings;
use super::super::turn::{Core, Next, TURNS_MAX};
use super::super::upstream::{Answered, Unanswered, Upstream};
use super::Dispatcher;
use crate::domain::{Decision, Entity, Pending, Shard};
use crate::machine::{Asked, Context, Reading, Registry, Schedule};
use crate::source::Request;
use crate::store::Store;
use crate::store::contract::Rig;
use crate::store::contract::facts::{at, queued, sub};
use crate::store::disk::Space;
use crate::store::memory::MemoryStore;

/// A ladder that panics at one event, once. What contains that panics too, through the jitter.
struct Broken {
    ladder: Ladder,
    breaks: Arc<AtomicBool>,
}

struct Nobody;

impl Decider for Broken {
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
        let meets = run.iter().any(|pending| pending.event.id.as_str() == "evt_bad");
        assert!(!meets || !self.breaks.load(Ordering::SeqCst), "a mistake of ours");
        self.ladder.decide(entity, run, context)
    }

    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision {
        self.ladder.settle(entity, run, asked, reading, context)
    }
}

#[async_trait]
impl Upstream for Nobody {
    async fn ask(&self, _: &Request) -> Result<Answered, Unanswered> {
        Err(Unanswered("nobody is there".to_owned()))
    }
}

fn settings() -> Settings {
    Settings {
        clock_skew: Duration::from_secs(5),
        confirm_after: Duration::from_secs(15),
        retry: Schedule { first: Duration::from_secs(5), max: Duration::from_secs(60), attempts: 4 },
        retry_by_source: BTreeMap::new(),
        turn_events_max: 10,
        actors_max: 1,
        idle_after: Duration::from_secs(30),
        tick: Duration::from_secs(60),
        fetches_max: 1,
        breaker_failures: 3,
        breaker_open: Duration::from_secs(10),
    }
}

/// An engine's core whose turn fails at the event `evt_bad`, once.
fn core(store: Arc<dyn Store>) -> Core {
    let (clock, metrics) = (Arc::new(ManualClock::new(at(10))), Arc::new(Metrics::default()));
    let breaks = Arc::new(AtomicBool::new(true));
    let decider = Broken { ladder: Ladder(Registry::shipped()), breaks: Arc::clone(&breaks) };
    let reconciler =
        Reconciler::new(Arc::new(Nobody), clock.clone(), Arc::clone(&metrics), &BTreeMap::new(), &settings());
    Core {
        store,
        decider: Arc::new(decider),
        sources: BTreeMap::new(),
        reconciler,
        clock,
        settings: settings(),
        metrics,
        jitter: Arc::new(move |delay| {
            assert!(!breaks.swap(false, Ordering::SeqCst), "a mistake of ours, in what puts an event off");
            delay
        }),
        turns: Semaphore::new(TURNS_MAX),
        room: Room::default(),
    }
}

#[test]
fn an_entity_whose_actor_failed_is_looked_at_again_though_another_has_taken_its_place() {
    let simulated = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    };
    System::with_tokio_rt(simulated).block_on(async {
        let store = Arc::new(MemoryStore::new(1));
        let owns = Ownership::take(&*store, &[Shard(0)]).await.unwrap();
        let running = Running::new(core(store.clone()));
        let dispatcher = Dispatcher::new(Arc::clone(&running), owns, 1).start();
        actix::spawn(feed(Arc::clone(&running), vec![Shard(0)], dispatcher));
        let (bad, other) = (sub("sub_bad"), sub("sub_other"));
        store.append(queued("evt_bad", &bad, "active")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(store.load(&bad).await.unwrap(), None, "its actor has failed");
        store.append(queued("evt_other", &other, "active")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(store.load(&other).await.unwrap().is_some(), "the other has the place");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(store.load(&bad).await.unwrap().is_some(), "nobody has looked at it again");
        running.stop();
    });
}

#[tokio::test]
async fn a_turn_that_finds_no_room_is_told_until_a_decision_is_written() {
    let rig = Rig::embedded();
    let core = core(rig.shared());
    let entity = sub("sub_a");
    rig.accept(queued("evt_1", &entity, "active")).await;
    let epoch = rig.adopt(&entity).await;
    let disk = &rig.bench().journal;
    disk.say_space(Some(Space { free: 0, total: 1 << 30 }));
    let mut held = None;
    for _ in 0..2 {
        let next = core.turn(&entity, epoch, &mut held).await.unwrap();
        assert!(matches!(next, Next::After(_)) && core.room.is_lacking(), "{next:?}");
    }
    disk.say_space(None);
    let next = core.turn(&entity, epoch, &mut held).await.unwrap();
    assert!(!matches!(next, Next::After(_)), "{next:?}");
    assert!(!core.room.is_lacking() && rig.load(&entity).await.is_some());
}
