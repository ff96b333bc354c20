//! A small world in which one entity lives through a legal history while its events are delivered late, in any
//! order and more than once, and an upstream answers with the state of the moment.
//!
//! Everything here is pure: the world calls `decide` and `settle` and folds their entries, as the engine does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate::domain::{
    Claim, Entity, EntityKey, Event, EventId, Lsn, MachineName, OrderKey, Outcome, Partition, Pending, Position, Rule,
    Snapshot, StateName, TimeOf, Timestamp,
};
use tollgate::machine::{Asked, Context, Machine, Reading, Registry, Schedule, decide, settle};

/// The states that an entity went through, and when.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) machine: Arc<Machine>,
    pub(crate) steps: Vec<(Timestamp, StateName)>,
}

/// How good the upstream is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Upstream {
    /// How old an answer may be at the most.
    pub(crate) read_lag_max: Duration,
    /// How far its clock is off, in nanoseconds.
    pub(crate) clock_off: i64,
    /// Chooses how old each answer is.
    pub(crate) seed: u64,
}

impl Upstream {
    /// How old the `n`-th answer is: anything up to the maximum, the same for the same seed.
    fn read_lag(&self, n: u32) -> Duration {
        let mixed = (self.seed ^ (u64::from(n) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.read_lag_max.mul_f64(f64::from(u32::try_from(mixed >> 33).unwrap()) / f64::from(1_u32 << 31))
    }
}

/// The world's state besides its history: small, so that every order of deliveries can be tried.
#[derive(Clone, Debug)]
pub(crate) struct World<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) history: &'a History,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) entity: Entity,
    pub(crate) fetches: u32,
    pub(crate) dead: u32,
}

pub(crate) fn entity_key() -> EntityKey {
    EntityKey { partition: Partition::LIVE, source: "law".into(), kind: "thing".into(), id: Arc::from("1") }
}

impl<'a> World<'a> {
    pub(crate) fn new(registry: &'a Registry, history: &'a History, upstream: Option<Upstream>) -> Self {
        Self { registry, history, upstream, entity: Entity::unknown(entity_key()), fetches: 0, dead: 0 }
    }

    pub(crate) fn state(&self) -> Option<&StateName> {
        self.entity.ladder().machines.get(self.history.machine.name()).map(|held| &held.state)
    }

    /// Delivers step `step` at `now` under the event id `id`.
    pub(crate) fn deliver(&mut self, step: usize, id: usize, now: Timestamp) {
        self.run_due_check(now);
        let pending = self.pending(step, id, now);
        let run = [pending];
        let decision = decide(self.registry, &self.entity, &run, &self.context(now));
        let ambiguity = decision.ambiguity;
        self.apply(decision.entries);
        if let Some(ambiguity) = ambiguity {
            self.ask(&run, ambiguity.rule, now);
        }
    }

    /// Runs checks from `now` on until none is due any more. Answers false if they do not end.
    pub(crate) fn rest(&mut self) -> bool {
        for _ in 0..64 {
            match self.entity.check.as_ref().map(|check| check.due) {
                Some(due) => self.run_due_check(due),
                None => return true,
            }
        }
        false
    }

    pub(crate) fn run_due_check(&mut self, now: Timestamp) {
        while let Some(due) = self.entity.check.as_ref().map(|check| check.due).filter(|due| *due <= now) {
            self.ask(&[], Rule::Check, due);
        }
    }

    fn ask(&mut self, run: &[Pending], rule: Rule, now: Timestamp) {
        let upstream = self.upstream.expect("nobody can be asked, so nobody is");
        self.fetches += 1;
        let read_at = now.minus(upstream.read_lag(self.fetches));
        let shown = self.history.steps.iter().rev().find(|(at, _)| *at <= read_at);
        let state = shown.or(self.history.steps.first()).expect("a history has a step").1.clone();
        // `Date` has whole seconds; the engine takes one more off.
        let date = Timestamp::from_nanos(now.nanos() + upstream.clock_off).secs();
        let key = OrderKey::clock(Timestamp::from_secs(date - 1));
        let states = BTreeMap::from([(self.history.machine.name().clone(), state)]);
        let reading = Reading::Found(Snapshot { states, fields: BTreeMap::new(), key });
        let check = self.entity.check.as_ref().is_some_and(|check| check.due <= now);
        let asked = Asked { rule, check, body_sha256: None };
        let decision = settle(self.registry, &self.entity, run, asked, &reading, &self.context(now));
        self.apply(decision.entries);
    }

    fn apply(&mut self, entries: Vec<tollgate::domain::Entry>) {
        for entry in entries {
            self.dead += u32::from(entry.outcome == Outcome::DeadLettered);
            entry.apply(&mut self.entity);
        }
    }

    fn pending(&self, step: usize, id: usize, now: Timestamp) -> Pending {
        let (at, state) = &self.history.steps[step];
        // The source's times have whole seconds.
        let at = Timestamp::from_secs(at.secs());
        let event = Event {
            source: "law".into(),
            id: EventId(Arc::from(format!("evt_{id}"))),
            event_type: Arc::from("thing.updated"),
            entity: Some(entity_key()),
            event_time: Some(at),
            order_key: OrderKey::Time { at, of: TimeOf::Event },
            claims: BTreeMap::from([(self.history.machine.name().clone(), Claim::Observed(state.clone()))]),
            fields: BTreeMap::new(),
        };
        let position = Position { lsn: Lsn(u64::try_from(id).unwrap() + 1), item: 0 };
        let (event, attempts) = (Arc::new(event), Vec::new());
        Pending { position, event, received_at: now, body_sha256: [0; 32], attempts, replayed_by: None }
    }

    fn context(&self, now: Timestamp) -> Context {
        Context {
            now,
            clock_skew: Duration::from_secs(5),
            confirm_after: Duration::from_secs(15),
            schedule: Schedule { first: Duration::from_secs(5), max: Duration::from_secs(3600), attempts: 12 },
            upstream: self.upstream.is_some(),
        }
    }
}

/// All legal histories of the machine with exactly `len` steps, as states.
pub(crate) fn paths(machine: &Machine, len: usize) -> Vec<Vec<StateName>> {
    let initial = machine.states().iter().filter(|state| state.initial);
    let mut paths: Vec<Vec<StateName>> = initial.map(|state| vec![state.name.clone()]).collect();
    for _ in 1..len {
        let mut longer = Vec::new();
        for path in &paths {
            let last = machine.place(path.last().unwrap()).unwrap();
            for state in machine.states() {
                if machine.has_edge(last, machine.place(&state.name).unwrap()) {
                    longer.push(path.iter().cloned().chain([state.name.clone()]).collect());
                }
            }
        }
        paths = longer;
    }
    paths
}

/// A name for what is compared when two ways lead to the same world: everything that decides what follows.
pub(crate) fn fingerprint(entity: &Entity, machine: &MachineName) -> String {
    let held = entity.ladder().machines.get(machine);
    let check =
        entity.check.as_ref().map(|check| (check.due, check.reason, &check.answer, check.answers, check.failures));
    format!("{:?} {:?} {:?}", held.map(|held| (&held.state, held.key)), check, entity.flags)
}
