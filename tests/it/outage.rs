//! An upstream that is down for an hour of the manual clock: what it isn't needed for goes on, it is asked rarely, and
//! once it is up everything is settled, with few questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate::config::{Config, Inputs};
use tollgate::domain::query::EntityFilter;
use tollgate::domain::{Delivery, EntityKey, Timestamp};
use tollgate::engine::clock::Clock;
use tollgate::engine::decider::Ladder;
use tollgate::engine::upstream::{Answered, Unanswered, Upstream};
use tollgate::machine::Registry;
use tollgate::source::{Request, Source};
use tollgate::store::Store;

use crate::turns::{World, entity, turn_test};

const SUBSCRIPTIONS: usize = 40;

/// The seconds of the manual clock that pass between two looks.
const STEP: u64 = 5;

/// How often the breaker lets a call through in an hour: five failures open it for 30 s, and each time in a row for
/// twice as long, up to eight times: 5 + 30 s, 60 s, 120 s, and then one every 240 s.
const ASKED_IN_AN_HOUR_MAX: usize = 5 + 3 + 3600 / 240;

/// Where every subscription is `canceled` in truth, as soon as it can be asked.
#[derive(Default)]
struct Truth {
    is_up: AtomicBool,
    asked: AtomicUsize,
    clock: std::sync::OnceLock<Arc<dyn Clock>>,
}

#[async_trait]
impl Upstream for Truth {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if !self.is_up.load(Ordering::SeqCst) {
            return Err(Unanswered("could not connect".to_owned()));
        }
        let id = request.url.rsplit('/').next().unwrap();
        let body = Bytes::from(format!(r#"{{"id":"{id}","status":"canceled"}}"#));
        let date = self.clock.get().map(|clock| clock.now());
        Ok(Answered { status: 200, body, date, to_headers: Duration::ZERO, retry_after: None })
    }
}

#[test]
fn an_hour_without_the_upstream_is_made_good_once_it_is_up_and_costs_few_questions() {
    turn_test(async {
        let truth = Arc::new(Truth::default());
        let config = Config::load(&Inputs::default()).unwrap();
        let settings = config.engine.settings(&config.sources);
        let world = World::new(Arc::new(Ladder(Registry::shipped())), truth.clone(), settings).await;
        assert!(truth.clock.set(Arc::new(world.clock.clone())).is_ok());

        // Half an hour of events: each subscription begins, then changes in the same second (which only the upstream
        // can order), and later skips to its end.
        let mut keys = Vec::new();
        for number in 0..SUBSCRIPTIONS {
            keys.push(take(&world, number, "evt_a", "active").await);
            take(&world, number, "evt_b", "past_due").await;
            pass(&world, &keys, 45).await;
        }
        let during = truth.asked.load(Ordering::SeqCst);
        assert!(during >= 5, "it was asked");
        for number in 0..SUBSCRIPTIONS / 2 {
            take(&world, number, "evt_c", "canceled").await;
        }
        pass(&world, &keys, 1800).await;
        let status = world.store.status();
        assert_eq!((status.entities, status.pending), (40, 0), "what could be decided was, the rest waits for a time");
        assert_eq!(status.retries, 20, "the end of the others came and made their tie one of the past");
        assert_eq!(states(&world).await, [("active", 20), ("canceled", 20)]);
        let asked = truth.asked.load(Ordering::SeqCst);
        assert!(asked <= ASKED_IN_AN_HOUR_MAX, "asked {asked} times in an hour");

        truth.is_up.store(true, Ordering::SeqCst);
        pass(&world, &keys, 2 * 3600).await;
        let status = world.store.status();
        assert_eq!((status.pending, status.retries, status.checks, status.dead_letters), (0, 0, 0, 0));
        assert_eq!(states(&world).await, [("canceled", 40)]);
        let asked = truth.asked.load(Ordering::SeqCst) - asked;
        // One answer settles all events of a subscription; one that moved it is looked at once more.
        assert!(asked <= 2 * SUBSCRIPTIONS, "asked {asked} times to settle {SUBSCRIPTIONS} subscriptions");
    });
}

/// Takes an event of now.
async fn take(world: &World, number: usize, event: &str, status: &str) -> EntityKey {
    let at = world.clock.now();
    let delivery = told(&world.source, &format!("{event}_{number}"), &format!("sub_{number}"), status, at);
    let key = entity(&delivery);
    world.store.append(delivery).await.unwrap();
    key
}

fn told(source: &Source, event: &str, subscription: &str, status: &str, at: Timestamp) -> Delivery {
    let body = format!(
        r#"{{"id":"{event}","type":"customer.subscription.updated","created":{},"livemode":true,"data":{{"object":{{"id":"{subscription}","status":"{status}"}}}}}}"#,
        at.secs()
    );
    let headers = source.sign(0, event, body.as_bytes(), at);
    let verified = source.verify(&headers, body.as_bytes(), at).unwrap();
    source.deliver(&verified, &headers, Bytes::from(body), at)
}

async fn pass(world: &World, keys: &[EntityKey], seconds: u64) {
    for _ in 0..seconds / STEP {
        for key in keys {
            world.run(key).await;
        }
        world.clock.advance(Duration::from_secs(STEP));
    }
}

/// How many subscriptions are in each state.
async fn states(world: &World) -> Vec<(&'static str, usize)> {
    let entities = world.store.entities(&EntityFilter::default(), None, 1000).await.unwrap().items;
    let held = |state: &&str| {
        let in_it = |entity: &&tollgate::domain::Entity| {
            entity.ladder().machines.values().any(|machine| machine.state.as_str() == *state)
        };
        entities.iter().filter(in_it).count()
    };
    ["active", "past_due", "canceled"].into_iter().map(|state| (state, held(&state))).filter(|(_, n)| *n > 0).collect()
}
