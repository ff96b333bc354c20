//! One life of the process: the real store and the real engine over the simulated disks, as tasks.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::account::Account;
use super::between::Between;
use super::crash::{Fuse, Platters};
use super::plan::Plan;
use super::planted::{self, StoreFault, Tail};
use super::schedule::{Life, Schedule};
use super::truth::BATCH;
use crate::domain::{Admission, Decision, Entity, Pending, SourceName, Timestamp};
use crate::engine::clock::Clock;
use crate::engine::decider::{Decider, Ladder};
use crate::engine::steps::Spawn;
use crate::engine::upstream::Upstream;
use crate::engine::{Engine, Parts};
use crate::machine::{Asked, Context, Reading, Registry};
use crate::source::{SHIPPED, Secrets, SigningSecret, Source};
use crate::store::disk::sim::Dice;
use crate::store::embedded::EmbeddedStore;
use crate::store::steps::{Futures, Pace};
use crate::store::{self};

/// The secrets that the sources sign with.
const SECRETS: [(&str, &str); 3] = [
    ("standard", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="),
    (BATCH, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="),
    ("stripe", "whsec_simulated_secret_0001"),
];

/// A running process. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) life: Life,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<EmbeddedStore>,
}

/// What every life has in common.
pub(crate) struct Ground {
    pub(crate) plan: Plan,
    pub(crate) schedule: Schedule,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) upstream: Arc<dyn Upstream>,
    pub(crate) sources: BTreeMap<SourceName, Arc<Source>>,
    pub(crate) registry: Registry,
    pub(crate) platters: Platters,
    pub(crate) fuse: Fuse,
    pub(crate) calm: Arc<AtomicBool>,
    pub(crate) account: Account,
    /// What a planted fault knows of earlier lives.
    pub(crate) tail: Arc<Mutex<Tail>>,
}

/// The clock of the simulation: it moves as tokio's does.
pub(crate) struct SimClock {
    pub(crate) base: Timestamp,
    pub(crate) began: tokio::time::Instant,
}

/// A ladder that panics now and then, until all is calm.
struct Panicky {
    ladder: Ladder,
    dice: Mutex<Dice>,
    calm: Arc<AtomicBool>,
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.base.plus(self.began.elapsed())
    }
}

/// The text that a simulated panic has, so that nothing is printed of it.
pub(crate) const PANIC: &str = "a simulated panic";

impl Panicky {
    fn roll(&self) {
        let panics = !self.calm.load(Ordering::SeqCst) && self.dice.lock().unwrap().roll(12) == 0;
        assert!(!panics, "{PANIC}");
    }
}

impl Decider for Panicky {
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
        self.roll();
        self.ladder.decide(entity, run, context)
    }

    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision {
        self.roll();
        self.ladder.settle(entity, run, asked, reading, context)
    }
}

/// Lets no, little or some time pass, as the dice fall.
pub(crate) fn pace(seed: u64, slow: u64) -> Pace {
    let dice = Arc::new(Mutex::new(Dice(seed)));
    Arc::new(move || -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut dice = dice.lock().unwrap();
        let ms = match dice.roll(8) {
            0..5 => return Box::pin(std::future::ready(())),
            5..7 => 1 + dice.roll(3),
            _ => 1 + dice.roll(60),
        };
        Box::pin(tokio::time::sleep(Duration::from_millis(ms * slow)))
    })
}

/// A source that sends what this one does, several events at once.
fn batched(text: &str) -> String {
    let (one, several) = ("id = [\"header:webhook-id\"]", "items = \"/events\"\nid = [\"/id\"]");
    let text = text.replace("name = \"standard\"", "name = \"batch\"").replace(one, several);
    assert!(text.contains("items = ") && text.contains("name = \"batch\""), "the file looks otherwise");
    text
}

/// The shipped sources, with secrets, and with an upstream if it is asked.
pub(crate) fn sources(asked: bool) -> BTreeMap<SourceName, Arc<Source>> {
    let source = |(name, secret): &(&'static str, &'static str)| {
        let file = if *name == BATCH { "standard" } else { name };
        let text = SHIPPED.iter().find(|(shipped, _)| *shipped == file).unwrap().1;
        // The same, with several events in a delivery.
        let text = if *name == BATCH { batched(text) } else { text.to_owned() };
        // The rate limiter has a clock of its own, which is real: it must never be met.
        let text = text.replace("rate_per_s = 20", "rate_per_s = 1000000");
        let api_key = asked.then(|| "sk_simulated".to_owned().into());
        let secrets = Secrets { signing: vec![SigningSecret::new(secret)], api_key, ..Secrets::default() };
        let source = Source::compile(&toml::from_str(&text).unwrap(), &secrets).unwrap();
        (SourceName::from(*name), Arc::new(source))
    };
    SECRETS.iter().map(source).collect()
}

impl Ground {
    /// Begins a life.
    pub(crate) async fn start(&self, life: &Life, nth: u64) -> Result<Process, String> {
        let (layout, disks) = self.platters.parts(
            planted::disk(self.plan.planted, Arc::new(self.platters.journal.clone())),
            &self.fuse,
            life,
        );
        let seed = self.plan.seed ^ (nth << 32);
        let opened = EmbeddedStore::by_steps(&layout, &disks, &self.plan.options);
        let (store, mut steps) = opened.map_err(|error| format!("the store does not open: {error}"))?;
        let store = Arc::new(store);
        if self.plan.prunes {
            self.schedule.spawn(life, Box::pin(steps.pruning(Dice(seed ^ 5))));
        }
        let Futures { committer, applier, file_work } = steps.futures(pace(seed ^ 1, self.plan.slow));
        self.schedule.spawn(life, Box::pin(committer));
        self.schedule.spawn(life, Box::pin(applier));
        self.schedule.spawn(life, Box::pin(file_work));
        let between = Between {
            inner: store.clone(),
            pace: pace(seed ^ 2, self.plan.slow),
            fault: StoreFault::of(self.plan.planted, nth, &self.tail),
            panics: self.plan.panics.then(|| (Mutex::new(Dice(seed ^ 6)), Arc::clone(&self.calm))),
            account: self.account.clone(),
        };
        let ladder = Ladder(self.registry.clone());
        let decider: Arc<dyn Decider> = if self.plan.panics {
            Arc::new(Panicky { ladder, dice: Mutex::new(Dice(seed ^ 3)), calm: Arc::clone(&self.calm) })
        } else {
            Arc::new(ladder)
        };
        let decider = planted::decider(self.plan.planted, decider);
        let jitter = Mutex::new(Dice(seed ^ 4));
        let parts = Parts {
            store: Arc::new(between),
            machines: self.registry.clone(),
            sources: self.sources.clone(),
            upstream: Arc::clone(&self.upstream),
            clock: Arc::clone(&self.clock),
            jitter: Arc::new(move |delay| {
                delay / 2 + delay.mul_f64(0.05 * f64::from(u8::try_from(jitter.lock().unwrap().roll(11)).unwrap()))
            }),
            settings: self.plan.settings.clone(),
            workers: 1,
        };
        let (schedule, of_life) = (self.schedule.clone(), life.clone());
        let spawn: Spawn = Rc::new(move |task| schedule.spawn(&of_life, task));
        let engine = Engine::by_steps(parts, decider, &spawn)
            .await
            .map_err(|error| format!("the engine does not start: {error}"))?;
        Ok(Process { life: life.clone(), engine, store })
    }
}

/// Why a delivery was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The signature does not hold, or is not fresh.
    Unverified(String),
    /// The store could not take it: 503.
    Unavailable(String),
}

impl Process {
    /// The door, without HTTP around it.
    pub(crate) async fn receive(
        &self,
        source: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Vec<Admission>, Refusal> {
        let source = self.engine.source(source).unwrap();
        let now = self.engine.now();
        let verified = source.verify(headers, &body, now).map_err(|why| Refusal::Unverified(why.to_string()))?;
        let delivery = source.deliver(&verified, headers, body, now);
        self.engine.accept(delivery).await.map_err(|error| Refusal::Unavailable(error.to_string()))
    }

    pub(crate) fn status(&self) -> store::Status {
        store::Store::status(&*self.store)
    }
}
