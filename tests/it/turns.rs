//! Turns of one entity under a decider that fails, an upstream that rests, and an upstream that is slow.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tollgate::domain::{Admission, Decision, Delivery, Entity, EntityKey, Flag, Outcome, Pending, Shard, Timestamp};
use tollgate::engine::clock::{Clock, ManualClock};
use tollgate::engine::decider::{Decider, Ladder};
use tollgate::engine::metrics::Metrics;
use tollgate::engine::reconciler::Reconciler;
use tollgate::engine::room::Room;
use tollgate::engine::settings::Settings;
use tollgate::engine::turn::{Core, Next, TURNS_MAX};
use tollgate::engine::upstream::{Answered, Unanswered, Upstream};
use tollgate::engine::{Engine, Parts};
use tollgate::machine::{Asked, Context, Reading, Registry};
use tollgate::source::{Request, SHIPPED, Secrets, SigningSecret, Source, spec::SourceSpec};
use tollgate::store::memory::MemoryStore;
use tollgate::store::{Action, Command, Epoch, Store};

use crate::scenario::settings;

/// 2026-11-30T10:00:00Z.
pub(crate) const NOW: i64 = 1_796_032_800;

/// A ladder that panics at one event, until it is repaired.
struct Broken {
    ladder: Ladder,
    at: &'static str,
    repaired: AtomicBool,
}

impl Decider for Broken {
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
        let meets = run.iter().any(|pending| pending.event.id.as_str() == self.at);
        assert!(!meets || self.repaired.load(Ordering::SeqCst), "a mistake of ours");
        self.ladder.decide(entity, run, context)
    }

    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision {
        self.ladder.settle(entity, run, asked, reading, context)
    }
}

/// An upstream that answers one at a time, when it is let.
struct Gate {
    asked: Semaphore,
    open: Semaphore,
    answer: Mutex<Option<&'static str>>,
    /// A status and `Retry-After` in place of an answer.
    refusal: Mutex<Option<(u16, Option<Duration>)>>,
}

impl Gate {
    fn answering(answer: Option<&'static str>, permits: usize) -> Arc<Self> {
        Arc::new(Self {
            asked: Semaphore::new(0),
            open: Semaphore::new(permits),
            answer: Mutex::new(answer),
            refusal: Mutex::new(None),
        })
    }
}

#[async_trait]
impl Upstream for Gate {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        self.asked.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        if let Some((status, retry_after)) = *self.refusal.lock().unwrap() {
            return Ok(Answered { status, body: Bytes::new(), date: None, to_headers: Duration::ZERO, retry_after });
        }
        let status = self.answer.lock().unwrap().ok_or_else(|| Unanswered("could not connect".to_owned()))?;
        let id = request.url.rsplit('/').next().unwrap();
        let body = Bytes::from(format!(r#"{{"id":"{id}","status":"{status}"}}"#));
        let date = Some(Timestamp::from_secs(NOW));
        Ok(Answered { status: 200, body, date, to_headers: Duration::ZERO, retry_after: None })
    }
}

/// Everything that turns need, over a store in memory.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) clock: ManualClock,
    pub(crate) source: Arc<Source>,
    pub(crate) store: Arc<MemoryStore>,
    epoch: Epoch,
}

impl World {
    pub(crate) async fn new(decider: Arc<dyn Decider>, upstream: Arc<dyn Upstream>, settings: Settings) -> Self {
        let clock = ManualClock::new(Timestamp::from_secs(NOW));
        let source = stripe();
        let sources = BTreeMap::from([(source.name().clone(), Arc::clone(&source))]);
        let store = Arc::new(MemoryStore::new(1));
        let epoch = store.adopt(Shard(0)).await.unwrap();
        let metrics = Arc::new(Metrics::default());
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let reconciler = Reconciler::new(upstream, Arc::clone(&shared), Arc::clone(&metrics), &sources, &settings);
        let core = Core {
            store: store.clone(),
            decider,
            sources,
            reconciler,
            clock: shared,
            settings,
            metrics,
            jitter: Arc::new(|delay| delay),
            turns: Semaphore::new(TURNS_MAX),
            room: Room::default(),
        };
        Self { core, clock, source, store, epoch }
    }

    /// Turns until nothing is left to do now.
    pub(crate) async fn run(&self, key: &EntityKey) {
        let mut held = None;
        while self.core.turn(key, self.epoch, &mut held).await.unwrap() != Next::Idle {}
    }

    /// Lets time pass in steps of a second.
    async fn pass(&self, key: &EntityKey, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance(Duration::from_secs(1));
            self.run(key).await;
        }
    }

    async fn outcomes(&self, key: &EntityKey) -> Vec<(String, Outcome)> {
        let entries = self.store.entries(Some(key), None, 1000).await.unwrap().items;
        let of = |recorded: tollgate::domain::Recorded| {
            let positions: Vec<_> = recorded.entry.positions.iter().map(ToString::to_string).collect();
            (positions.join(" "), recorded.entry.outcome)
        };
        entries.into_iter().map(of).collect()
    }
}

fn stripe() -> Arc<Source> {
    let spec: SourceSpec = toml::from_str(SHIPPED.iter().find(|(name, _)| *name == "stripe").unwrap().1).unwrap();
    let secrets = Secrets {
        signing: vec![SigningSecret::new("whsec_turn_test_secret_0001")],
        api_key: Some("sk_turn".to_owned().into()),
        ..Secrets::default()
    };
    Arc::new(Source::compile(&spec, &secrets).unwrap())
}

/// A verified delivery: the subscription was in this state, `ago` seconds ago.
fn told(source: &Source, event: &str, subscription: &str, status: &str, ago: i64) -> Delivery {
    let body = format!(
        r#"{{"id":"{event}","type":"customer.subscription.updated","created":{},"livemode":true,"data":{{"object":{{"id":"{subscription}","status":"{status}"}}}}}}"#,
        NOW - ago
    );
    let now = Timestamp::from_secs(NOW);
    let headers = source.sign(0, event, body.as_bytes(), now);
    let verified = source.verify(&headers, body.as_bytes(), now).unwrap();
    source.deliver(&verified, &headers, Bytes::from(body), now)
}

pub(crate) fn entity(delivery: &Delivery) -> EntityKey {
    delivery.items[0].event.entity.clone().unwrap()
}

pub(crate) fn turn_test(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
}

#[test]
fn an_event_that_breaks_the_decider_is_put_off_and_given_up_and_the_others_go_on() {
    turn_test(async {
        let broken =
            Arc::new(Broken { ladder: Ladder(Registry::shipped()), at: "evt_2", repaired: AtomicBool::new(false) });
        let world = World::new(broken.clone(), Gate::answering(None, 0), settings()).await;
        let first = told(&world.source, "evt_1", "sub_1", "active", 30);
        let key = entity(&first);
        world.store.append(first).await.unwrap();
        world.store.append(told(&world.source, "evt_2", "sub_1", "past_due", 20)).await.unwrap();
        world.store.append(told(&world.source, "evt_3", "sub_1", "unpaid", 10)).await.unwrap();
        world.run(&key).await;
        let decided = [("1.0".to_owned(), Outcome::Created), ("3.0".to_owned(), Outcome::Advanced)];
        assert_eq!(world.outcomes(&key).await, decided);
        assert_eq!(world.store.status().retries, 1);

        world.pass(&key, 9000).await;
        let letters = world.store.dead_letters(None, 10).await.unwrap().items;
        let codes: Vec<_> = letters[0].attempts.iter().map(|attempt| attempt.reason.code()).collect();
        assert_eq!((letters.len(), codes), (1, vec!["panicked"; 12]));
        assert!(world.store.load(&key).await.unwrap().unwrap().flags.contains(&Flag::Quarantined));
        assert_eq!(world.outcomes(&key).await.last().unwrap(), &("2.0".to_owned(), Outcome::DeadLettered));

        // The mistake is mended, and the event is judged like any other.
        broken.repaired.store(true, Ordering::SeqCst);
        let action = Action::Replay { dead: letters[0].position, event: letters[0].event.clone() };
        let at = world.clock.now();
        world.store.command(Command { by: Arc::from("anna"), at, action }).await.unwrap();
        world.run(&key).await;
        assert_eq!(world.outcomes(&key).await.last().unwrap().1, Outcome::Stale);
        assert!(world.store.load(&key).await.unwrap().unwrap().flags.is_empty(), "quarantined no longer");
    });
}

#[test]
fn a_call_that_a_resting_breaker_holds_back_is_no_attempt() {
    turn_test(async {
        let gate = Gate::answering(None, 1000);
        let resting = Settings { breaker_failures: 1, breaker_open: Duration::from_secs(600), ..settings() };
        let world = World::new(Arc::new(Ladder(Registry::shipped())), gate.clone(), resting).await;
        let delivery = told(&world.source, "evt_1", "sub_1", "past_due", 5);
        let key = entity(&delivery);
        world.store.append(delivery).await.unwrap();
        world.run(&key).await;
        assert!(world.core.reconciler.is_open(world.source.name()));
        world.pass(&key, 599).await;
        assert_eq!(gate.open.available_permits(), 999, "only the first call was made");

        // The first call and each time that it was held back are a commit: a handful, however long the rest is.
        assert!(world.store.status().synced.0 <= 6, "{:?}", world.store.status());
        *gate.answer.lock().unwrap() = Some("past_due");
        world.pass(&key, 601).await;
        assert_eq!(gate.open.available_permits(), 998, "it comes back after the rest, at a time of its own");
        assert_eq!(world.outcomes(&key).await, [("1.0".to_owned(), Outcome::Created)]);
        assert!(!world.core.reconciler.is_open(world.source.name()));
    });
}

#[test]
fn what_an_outage_does_not_concern_is_decided_although_it_came_behind_what_it_does() {
    turn_test(async {
        let world = World::new(Arc::new(Ladder(Registry::shipped())), Gate::answering(None, 1000), settings()).await;
        let first = told(&world.source, "evt_1", "sub_1", "active", 60);
        let key = entity(&first);
        for delivery in [
            first,
            told(&world.source, "evt_2", "sub_1", "past_due", 60),
            told(&world.source, "evt_3", "sub_1", "canceled", 10),
        ] {
            world.store.append(delivery).await.unwrap();
        }
        world.run(&key).await;
        let decided = [("1.0".to_owned(), Outcome::Created), ("3.0".to_owned(), Outcome::Advanced)];
        assert_eq!(world.outcomes(&key).await, decided, "the tie of the second waits for the upstream");
        assert_eq!(world.store.status().retries, 1);
    });
}

#[test]
fn an_upstream_that_asks_for_less_is_left_alone_as_long_as_it_says_and_that_is_no_attempt() {
    turn_test(async {
        let gate = Gate::answering(None, 1000);
        *gate.refusal.lock().unwrap() = Some((429, Some(Duration::from_secs(300))));
        let world = World::new(Arc::new(Ladder(Registry::shipped())), gate.clone(), settings()).await;
        let delivery = told(&world.source, "evt_1", "sub_1", "past_due", 5);
        let key = entity(&delivery);
        world.store.append(delivery).await.unwrap();
        world.run(&key).await;
        world.pass(&key, 299).await;
        assert_eq!(gate.open.available_permits(), 999, "only the first call was made");
        *gate.refusal.lock().unwrap() = None;
        *gate.answer.lock().unwrap() = Some("past_due");
        world.pass(&key, 302).await;
        assert_eq!(world.outcomes(&key).await, [("1.0".to_owned(), Outcome::Created)]);
    });
}

#[test]
fn while_one_entity_waits_for_an_answer_its_events_queue_up_and_other_entities_go_on() {
    actix_rt::System::new().block_on(async {
        let gate = Gate::answering(Some("unpaid"), 0);
        let store = Arc::new(MemoryStore::new(4));
        let source = stripe();
        let engine = Engine::start(Parts {
            store: store.clone(),
            machines: Registry::shipped(),
            sources: BTreeMap::from([(source.name().clone(), Arc::clone(&source))]),
            upstream: gate.clone(),
            clock: Arc::new(ManualClock::new(Timestamp::from_secs(NOW))),
            jitter: Arc::new(|delay| delay),
            settings: settings(),
            workers: 1,
        })
        .await
        .unwrap();
        let accept = async |event: &str, subscription: &str, status: &str, ago: i64| {
            let delivery = told(&source, event, subscription, status, ago);
            let key = entity(&delivery);
            let admissions = engine.accept(delivery).await.unwrap();
            let [Admission::Accepted(position)] = admissions[..] else { panic!("{admissions:?}") };
            (key, position)
        };
        let decided = async |key: &EntityKey, count: usize| {
            loop {
                let synced = store.status().synced;
                let entries = store.entries(Some(key), None, 100).await.unwrap().items;
                if entries.len() >= count {
                    return entries.into_iter().map(|e| (e.entry.positions, e.entry.outcome)).collect::<Vec<_>>();
                }
                store.synced_beyond(synced).await.unwrap();
            }
        };
        // The first needs an answer, which does not come yet.
        let (waiting, first) = accept("evt_1", "sub_1", "past_due", 20).await;
        gate.asked.acquire().await.unwrap().forget();
        let (other, only) = accept("evt_2", "sub_2", "active", 20).await;
        assert_eq!(decided(&other, 1).await, [(vec![only], Outcome::Created)]);
        let (_, second) = accept("evt_3", "sub_1", "unpaid", 3).await;
        let (_, third) = accept("evt_4", "sub_1", "active", 15).await;
        let (other, next) = accept("evt_5", "sub_2", "past_due", 10).await;
        assert_eq!(decided(&other, 2).await[1], (vec![next], Outcome::Advanced));
        assert!(store.load(&waiting).await.unwrap().is_none(), "nothing was decided of it meanwhile");

        gate.open.add_permits(1);
        let entries = decided(&waiting, 3).await;
        let expected =
            [(vec![first], Outcome::Created), (vec![second], Outcome::Unchanged), (vec![third], Outcome::Stale)];
        assert_eq!(entries, expected, "in the order in which they came, and only the first by the answer");
        engine.drain(Duration::from_secs(5)).await.unwrap();
    });
}

#[test]
fn entities_beyond_the_bound_of_actors_take_the_places_of_idle_ones_at_once() {
    actix_rt::System::new().block_on(async {
        let store = Arc::new(MemoryStore::new(1));
        let source = stripe();
        let bounded = Settings { actors_max: 2, idle_after: Duration::from_secs(3600), ..settings() };
        let engine = Engine::start(Parts {
            store: store.clone(),
            machines: Registry::shipped(),
            sources: BTreeMap::from([(source.name().clone(), Arc::clone(&source))]),
            upstream: Gate::answering(None, 0),
            clock: Arc::new(ManualClock::new(Timestamp::from_secs(NOW))),
            jitter: Arc::new(|delay| delay),
            settings: bounded,
            workers: 1,
        })
        .await
        .unwrap();
        for number in 0..50 {
            let subscription = format!("sub_{number}");
            let delivery = told(&source, &format!("evt_{number}"), &subscription, "active", 20);
            engine.accept(delivery).await.unwrap();
        }
        while store.status().pending > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(store.status().entities, 50);
        assert!(engine.status().actors <= 2 + 1, "one may be on its way out: {}", engine.status().actors);
        engine.drain(Duration::from_secs(5)).await.unwrap();
    });
}
