//! What is true in the simulated world: things that go through a legal history, and the events that tell of it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat};

use super::plan::Plan;
use crate::domain::{EntityKey, MachineName, Partition, StateName, Timestamp};
use crate::machine::{Machine, Registry};
use crate::store::disk::sim::Dice;

/// 2026-11-30T10:00:00Z.
pub(crate) const BEGIN: i64 = 1_796_032_800;

/// The source whose deliveries carry several events.
pub(crate) const BATCH: &str = "batch";

/// A kind of things, and how its events look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sort {
    pub(crate) source: &'static str,
    pub(crate) kind: &'static str,
    machine: &'static str,
    event_type: &'static str,
}

const SORTS: [Sort; 9] = [
    Sort::new("stripe", "subscription", "stripe/subscription", "customer.subscription.updated"),
    Sort::new("stripe", "invoice", "stripe/invoice", "invoice.updated"),
    Sort::new("stripe", "payment_intent", "stripe/payment_intent", "payment_intent.updated"),
    Sort::new("stripe", "charge", "stripe/charge", "charge.updated"),
    Sort::new("stripe", "dispute", "stripe/dispute", "charge.dispute.updated"),
    Sort::new("standard", "payment", "payment", "payment.updated"),
    Sort::new("standard", "credit_wallet", "credit_wallet", "wallet.updated"),
    Sort::new(BATCH, "payment", "payment", "payment.updated"),
    Sort::new(BATCH, "credit_wallet", "credit_wallet", "wallet.updated"),
];

/// One thing and its history.
#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) sort: Sort,
    pub(crate) id: String,
    pub(crate) machine: MachineName,
    /// The states that it goes through, and when.
    pub(crate) steps: Vec<(Timestamp, StateName)>,
    /// Whether it moves last while its upstream answers, and tells of it late.
    pub(crate) restless: bool,
    /// The state that its upstream answers with 404.
    pub(crate) gone: Option<StateName>,
}

/// What a source sends: one request, again and again until it is taken.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) source: &'static str,
    pub(crate) id: String,
    /// The ids of the events in it, in order.
    pub(crate) events: Vec<String>,
    pub(crate) body: String,
    /// When it is sent first.
    pub(crate) at: Timestamp,
    /// Whether it contradicts what was taken under its id.
    pub(crate) contradicts: bool,
}

impl Sort {
    const fn new(source: &'static str, kind: &'static str, machine: &'static str, event_type: &'static str) -> Self {
        Self { source, kind, machine, event_type }
    }

    /// Whether its source can be asked.
    pub(crate) fn has_upstream(&self) -> bool {
        self.source == "stripe"
    }
}

impl Thing {
    /// A random thing with a random legal history.
    pub(crate) fn random(nth: usize, plan: &Plan, registry: &Registry, dice: &mut Dice) -> Self {
        // Those with cycles are the ones that an upstream has to be asked about.
        let restless = plan.sluggish && dice.roll(2) == 0;
        let sort = match plan.burst && plan.asked {
            _ if restless => *pick(&[SORTS[0], SORTS[2]], dice),
            true => *pick(&SORTS[..3], dice),
            false => *pick(&SORTS, dice),
        };
        let machine = registry.get(&MachineName::from(sort.machine)).unwrap();
        let strict = !(plan.asked && sort.has_upstream());
        let is_quick = dice.roll(2) == 0;
        // The times of the generic source are of milliseconds, those of Stripe of seconds.
        let gaps: &[u64] = match (strict, sort.has_upstream()) {
            (false, _) if is_quick => &[200, 900],
            (true, true) => &[1000, 3000, 20_000],
            (false, _) | (true, false) => &[200, 900, 3000, 20_000],
        };
        let mut at = Timestamp::from_millis(
            BEGIN * 1000 + 1000 + i64::try_from(dice.roll(if plan.burst { 50 } else { 5000 })).unwrap(),
        );
        let mut steps: Vec<(Timestamp, StateName)> = Vec::new();
        for _ in 0..2 + u64::from(restless) + dice.roll(6) {
            let mut next = next_states(machine, steps.last().map(|(_, state)| state));
            if restless && steps.len() > 1 {
                // One that leads back: nothing but its order says that it is not the older one.
                let back = |state: &StateName| {
                    let before = &steps[steps.len() - 1].1;
                    machine.reaches(machine.place(state).unwrap(), machine.place(before).unwrap())
                };
                let cycle: Vec<_> = next.iter().filter(|state| back(state)).cloned().collect();
                next = if cycle.is_empty() { next } else { cycle };
            }
            if next.is_empty() {
                break;
            }
            steps.push((at, pick(&next, dice).clone()));
            at = at.plus(Duration::from_millis(*pick(gaps, dice)));
        }
        if restless && let Some((at, _)) = steps.last_mut() {
            *at = at.plus(Duration::from_millis(1500 + dice.roll(2500)));
        }
        let machine_name = machine.name().clone();
        Self {
            sort,
            id: format!("{}_{nth}", sort.kind),
            machine: machine_name,
            steps,
            restless,
            gone: machine.gone().cloned(),
        }
    }

    pub(crate) fn key(&self) -> EntityKey {
        EntityKey {
            partition: Partition::LIVE,
            source: self.sort.source.into(),
            kind: self.sort.kind.into(),
            id: Arc::from(self.id.as_str()),
        }
    }

    /// The step that it is in at a time; the first before it began.
    pub(crate) fn step_at(&self, at: Timestamp) -> usize {
        self.steps.iter().rposition(|(began, _)| *began <= at).unwrap_or(0)
    }

    /// Whether it is gone in the end.
    pub(crate) fn ends_gone(&self) -> bool {
        self.steps.last().is_some_and(|(_, state)| self.gone.as_ref() == Some(state))
    }

    /// How the ids of a step's events begin; what follows is no digit.
    pub(crate) fn event_id(&self, step: usize) -> String {
        format!("evt_{}_{step}", self.id)
    }

    /// What its source sends of a step, under an id that ends so.
    pub(crate) fn message(&self, step: usize, suffix: &str, at: Timestamp) -> Message {
        Message::of(self.sort.source, vec![self.event(step, suffix)], at)
    }

    /// An event of a step: its id, which ends so, and what its source says of it.
    pub(crate) fn event(&self, step: usize, suffix: &str) -> (String, String) {
        let id = format!("{}{suffix}", self.event_id(step));
        let body = self.body(&id, step, &self.steps[step].1);
        (id, body)
    }

    /// Another content under the id of a step's event.
    pub(crate) fn contradiction(&self, step: usize, at: Timestamp) -> Message {
        let id = self.event_id(step);
        let body = self.body(&id, step, &StateName::from("something_else"));
        Message { contradicts: true, ..Message::of(self.sort.source, vec![(id, body)], at) }
    }

    /// What its upstream answers in a step: none for 404.
    pub(crate) fn answer(&self, step: usize) -> Option<String> {
        let state = &self.steps[step].1;
        (self.gone.as_ref() != Some(state)).then(|| self.object(step, state))
    }

    fn object(&self, step: usize, state: &StateName) -> String {
        format!(r#"{{"id":"{}","status":"{state}","amount":{}}}"#, self.id, step + 1)
    }

    fn body(&self, id: &str, step: usize, state: &StateName) -> String {
        let at = self.steps[step].0;
        let object = self.object(step, state);
        let event_type = if self.gone.as_ref() == Some(state) {
            format!("{}.deleted", self.sort.kind)
        } else {
            self.sort.event_type.to_owned()
        };
        match self.sort.source {
            "stripe" => format!(
                r#"{{"id":"{id}","type":"{event_type}","created":{},"livemode":true,"data":{{"object":{object}}}}}"#,
                at.secs()
            ),
            _ => format!(r#"{{"id":"{id}","type":"{event_type}","timestamp":"{}","data":{object}}}"#, rfc3339(at)),
        }
    }
}

impl Message {
    /// A delivery of these events: one, unless its source sends several together.
    pub(crate) fn of(source: &'static str, events: Vec<(String, String)>, at: Timestamp) -> Self {
        let (ids, bodies): (Vec<_>, Vec<_>) = events.into_iter().unzip();
        let bodies = bodies.join(",");
        let body = if source == BATCH { format!(r#"{{"events":[{bodies}]}}"#) } else { bodies };
        Self { source, id: ids[0].clone(), events: ids, body, at, contradicts: false }
    }
}

/// Something of a source that tells of no entity, or nothing at all.
pub(crate) fn noise(nth: u64, at: Timestamp) -> Message {
    let id = format!("evt_noise_{nth}");
    let body = match nth % 3 {
        0 => format!(
            r#"{{"id":"{id}","type":"plan.created","created":{},"livemode":true,"data":{{"object":{{"id":"p"}}}}}}"#,
            at.secs()
        ),
        1 => format!(
            r#"{{"id":"{id}","type":"customer.subscription.updated","created":{},"livemode":true,"data":{{"object":{{"id":null,"status":"active"}}}}}}"#,
            at.secs()
        ),
        _ => format!("{{\"id\":\"{id}\", this is no JSON"),
    };
    Message::of("stripe", vec![(id, body)], at)
}

fn next_states(machine: &Machine, last: Option<&StateName>) -> Vec<StateName> {
    let place = |state: &StateName| machine.place(state).unwrap();
    let follows = |state: &&crate::machine::StateSpec| match last {
        None => state.initial,
        Some(last) => machine.has_edge(place(last), place(&state.name)),
    };
    machine.states().iter().filter(follows).map(|state| state.name.clone()).collect()
}

fn rfc3339(at: Timestamp) -> String {
    DateTime::from_timestamp_millis(at.nanos() / 1_000_000).unwrap().to_rfc3339_opts(SecondsFormat::Millis, true)
}

pub(crate) fn pick<'a, T>(values: &'a [T], dice: &mut Dice) -> &'a T {
    &values[usize::try_from(dice.roll(u64::try_from(values.len()).unwrap())).unwrap()]
}
