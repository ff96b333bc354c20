//! The world: things with a history, senders that tell of it over a bad network, a process that dies and comes back,
//! somebody who follows what it says, an operator, and at the end calm.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::account::Account;
use super::crash::{Fuse, Platters};
use super::network::{self, Acknowledged};
use super::plan::Plan;
use super::process::{Ground, Process, SimClock, sources};
use super::schedule::{Life, Schedule};
use super::truth::{BEGIN, Thing};
use super::upstream::SimUpstream;
use super::{checks, planted, watch};
use crate::domain::query::Page;
use crate::domain::{Entity, EntityKey, Lsn, Position, Recorded, Timestamp};
use crate::engine::clock::Clock;
use crate::machine::Registry;
use crate::store::Options;
use crate::store::disk::sim::Dice;

/// How long calm may take to become quiet.
const QUIET_WITHIN: Duration = Duration::from_secs(3 * 3600);

/// The world of one run.
pub(crate) struct World {
    pub(crate) ground: Ground,
    pub(crate) things: Arc<Vec<Thing>>,
    pub(crate) upstream: Arc<SimUpstream>,
    pub(crate) account: Account,
    pub(crate) dice: RefCell<Dice>,
    /// None while it is dead.
    pub(crate) process: RefCell<Option<Process>>,
    pub(crate) acknowledged: RefCell<Vec<Acknowledged>>,
    /// Which commands of operators were answered, and what they were about.
    pub(crate) commanded: RefCell<Vec<(Lsn, (Position, bool))>>,
    /// What was shown of entities, by version.
    pub(crate) shown: RefCell<BTreeMap<(EntityKey, u64), Entity>>,
    /// What a follower of the feed was shown.
    pub(crate) followed: RefCell<Vec<Recorded>>,
    /// The records that were durable when the last life ended.
    pub(crate) durable: RefCell<Vec<(Lsn, Vec<u8>)>>,
    /// How many senders are not done.
    pub(crate) senders: Cell<u64>,
    /// Whether the disks were meddled with in this life.
    pub(super) excused: Cell<bool>,
    /// In which view a bit was flipped, by how many there were before it.
    pub(super) flipped_in: Cell<Option<u64>>,
    /// A copy of the view, of some earlier day.
    pub(super) older_view: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(super) ends: Cell<bool>,
    pub(crate) violations: RefCell<Vec<String>>,
    pub(super) full_until: Cell<Option<Instant>>,
}

impl World {
    pub(crate) fn new(plan: Plan, schedule: Schedule, account: Account) -> Rc<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SimClock { base: Timestamp::from_secs(BEGIN), began: Instant::now() });
        let calm = Arc::new(AtomicBool::new(false));
        let registry = REGISTRY.with(Clone::clone);
        let mut dice = Dice(plan.seed);
        let things: Vec<Thing> = (0..plan.entities)
            .map(|nth| Thing::random(usize::try_from(nth).unwrap(), &plan, &registry, &mut dice))
            .collect();
        let things = Arc::new(things);
        let upstream =
            SimUpstream::new(&plan, Arc::clone(&things), Arc::clone(&clock), account.clone(), Arc::clone(&calm));
        let upstream = Arc::new(upstream);
        let planted = plan.planted;
        let ground = Ground {
            sources: SOURCES.with(|both| both[usize::from(plan.asked)].clone()),
            plan,
            schedule,
            clock,
            upstream: planted::upstream(planted, upstream.clone()),
            registry,
            platters: Platters::default(),
            fuse: Fuse::default(),
            calm,
            account: account.clone(),
            tail: Arc::default(),
        };
        Rc::new(Self {
            ground,
            things,
            upstream,
            account,
            dice: RefCell::new(dice),
            process: RefCell::default(),
            acknowledged: RefCell::default(),
            commanded: RefCell::default(),
            shown: RefCell::default(),
            followed: RefCell::default(),
            durable: RefCell::default(),
            senders: Cell::new(0),
            excused: Cell::new(false),
            flipped_in: Cell::new(None),
            older_view: RefCell::default(),
            ends: Cell::new(false),
            violations: RefCell::default(),
            full_until: Cell::new(None),
        })
    }

    pub(crate) fn roll(&self, sides: u64) -> u64 {
        self.dice.borrow_mut().roll(sides)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ground.clock.now()
    }

    pub(crate) fn violate(&self, what: String) {
        self.account.say(|| format!("VIOLATION: {what}"));
        self.violations.borrow_mut().push(what);
    }

    pub(crate) fn running(&self) -> Option<Process> {
        self.process.borrow().clone()
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.ground.calm.load(Ordering::SeqCst)
    }

    fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.ground.schedule.spawn(&Life::begin(), Box::pin(task));
    }

    /// Lives through everything. What is wrong stands in the violations then.
    pub(crate) async fn live(self: Rc<Self>) {
        for thing in self.things.iter() {
            let steps = thing
                .steps
                .iter()
                .map(|(at, state)| format!("{state} at {:.1} s", at.since(Timestamp::from_secs(BEGIN)).as_secs_f64()));
            self.account.say(|| format!("the truth of {}: {}", thing.id, steps.collect::<Vec<_>>().join(", ")));
        }
        network::send_all(&self);
        self.spawn(Rc::clone(&self).supervise());
        self.spawn(watch::follow(Rc::clone(&self)));
        self.spawn(watch::look(Rc::clone(&self)));
        if self.ground.plan.operator {
            self.spawn(watch::operate(Rc::clone(&self)));
        }
        while self.senders.get() > 0 && self.now() < Timestamp::from_secs(BEGIN + 400) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.account.say(|| "calm".to_owned());
        self.ground.calm.store(true, Ordering::SeqCst);
        self.platters_recover();
        let mut quiet = self.becomes_quiet().await;
        for _ in 0..3 {
            quiet = quiet && watch::replay_what_failed(&self).await && self.becomes_quiet().await;
        }
        if quiet {
            checks::at_the_end(&self).await;
        }
        self.ends.set(true);
    }

    async fn becomes_quiet(&self) -> bool {
        let deadline = Instant::now() + QUIET_WITHIN;
        let mut times = 0;
        while Instant::now() < deadline && self.violations.borrow().is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let Some(process) = self.running() else { continue };
            let status = process.status();
            let rests = status.pending == 0 && status.retries == 0 && status.checks == 0;
            let quiet = rests && self.senders.get() == 0 && status.synced == status.applied;
            times = if quiet { times + 1 } else { 0 };
            if times > 3 {
                return true;
            }
        }
        if self.violations.borrow().is_empty() {
            let status = self.running().map(|process| process.status());
            self.violate(format!("not quiet within {QUIET_WITHIN:?}: {status:?}, {} senders", self.senders.get()));
        }
        false
    }
}

thread_local! {
    static REGISTRY: Registry = Registry::shipped();
    static SOURCES: [BTreeMap<crate::domain::SourceName, Arc<crate::source::Source>>; 2] = [sources(false), sources(true)];
}

/// All pages of what is read by pages.
pub(crate) async fn all<T, C: Clone>(
    mut read: impl AsyncFnMut(Option<C>) -> Result<Page<T, C>, crate::store::Error>,
) -> Result<Vec<T>, crate::store::Error> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = read(after.clone()).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

/// What one request adds to what waits for the view, at most: an entity, and what is written beside it. Of 60,000 seeds none
/// needed more than 2,600, and where the bound is not kept some need more than this.
const CHANGE_BYTES_MAX: usize = 4000;

/// The smallest record that changes the view.
const RECORD_BYTES_MIN: usize = 250;

/// The bound that a run's options set on what waits for the view. A group begins while there is room, and may be too
/// large for it by what its requests add.
pub(crate) fn overlay_bound(options: &Options) -> usize {
    let requests = options.waiting.min(options.group_bytes / RECORD_BYTES_MIN + 1);
    options.overlay_bytes + requests * CHANGE_BYTES_MAX
}
