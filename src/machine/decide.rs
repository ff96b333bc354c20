//! `decide`: judges a run of events of one entity, in order, until one needs the upstream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::decision::Attempt;
use crate::domain::{
    Ambiguity, Cause, Claim, Decision, Disposition, Entity, Entry, FieldChange, FieldName, Judged, LadderBody,
    MachineName, MachineRef, Move, Order, Outcome, Pending, RawJson, Reason, Rule, Timestamp,
};

use super::ladder::{Terms, Verdict, judge};
use super::{Machine, Registry};

/// What every decision about an entity depends on besides the facts: the kind's settings, and the time.
#[derive(Clone, Debug)]
pub struct Context {
    /// The time of deciding.
    pub now: Timestamp,
    /// How far two clocks may be apart.
    pub clock_skew: Duration,
    /// How long after an answer a check looks again.
    pub confirm_after: Duration,
    /// When to try again what failed.
    pub schedule: Schedule,
    /// Whether the source can be asked for this kind.
    pub upstream: bool,
}

/// A retry schedule: `first`, doubled with each try, at most `max`, `attempts` times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The delay after the first try.
    pub first: Duration,
    /// The longest delay.
    pub max: Duration,
    /// How many tries before giving up.
    pub attempts: u32,
}

/// Judges the run in order. The decision covers the events before its ambiguity, or all of them without one.
#[must_use]
pub fn decide(machines: &Registry, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
    let mut decision = Decision::default();
    let mut entity = entity.clone();
    for (index, pending) in run.iter().enumerate() {
        match judge_event(machines, &entity, pending, context) {
            Verdicts::Ask(rule) => {
                decision.ambiguity = Some(Ambiguity { index, rule });
                break;
            }
            Verdicts::Dead(entry, reason) => {
                entry.apply(&mut entity);
                decision.entries.push(*entry);
                let attempt = Attempt { at: context.now, reason };
                decision.judged.push(Judged { position: pending.position, disposition: Disposition::Dead { attempt } });
            }
            Verdicts::Entries(entries) => {
                for entry in entries {
                    entry.apply(&mut entity);
                    decision.entries.push(entry);
                }
                decision.judged.push(Judged { position: pending.position, disposition: Disposition::Done });
            }
        }
    }
    decision
}

impl Schedule {
    /// The delay after the `tries`-th try (from 1) without jitter; none when all tries are used up.
    #[must_use]
    pub fn delay(&self, tries: u32) -> Option<Duration> {
        let doublings = tries.saturating_sub(1).min(31);
        (tries < self.attempts).then(|| self.first.saturating_mul(1 << doublings).min(self.max))
    }
}

/// The verdicts of one event together: an event is taken as a whole or not at all.
enum Verdicts {
    Entries(Vec<Entry>),
    Ask(Rule),
    Dead(Box<Entry>, Reason),
}

fn judge_event(machines: &Registry, entity: &Entity, pending: &Pending, context: &Context) -> Verdicts {
    let body = entity.ladder();
    let terms = Terms { clock_skew: context.clock_skew, upstream: context.upstream };
    let mut entries = Vec::with_capacity(pending.event.claims.len().max(1));
    for (name, claim) in &pending.event.claims {
        let Some(machine) = machines.get(name) else {
            let reason = Reason::UnknownMachine { machine: name.clone() };
            return dead(entry_of(pending, context, Outcome::DeadLettered, Rule::UnknownState), reason);
        };
        let held = body.machines.get(name);
        match judge(machine, held, claim, pending.event.order_key, terms) {
            Verdict::Ask(rule) => return Verdicts::Ask(rule),
            Verdict::Dead(rule, reason) => {
                let mut entry = entry_of(pending, context, Outcome::DeadLettered, rule);
                stand(&mut entry, machine, body, claim);
                return dead(entry, reason);
            }
            Verdict::Leave { outcome, rule } => {
                let mut entry = entry_of(pending, context, outcome, rule);
                stand(&mut entry, machine, body, claim);
                entries.push(entry);
            }
            Verdict::Take { outcome, rule, state, key } => {
                let mut entry = entry_of(pending, context, outcome, rule);
                stand(&mut entry, machine, body, claim);
                entry.states.to = Some(state);
                entry.key_after = Some(key);
                entries.push(entry);
            }
        }
    }
    if entries.is_empty() {
        entries.push(entry_of(pending, context, Outcome::Noted, Rule::Noted));
    }
    match judge_fields(body, pending, &entries, terms) {
        Fields::Ask => return Verdicts::Ask(Rule::Fields),
        Fields::Take(change) => {
            if let Some(first) = entries.first_mut() {
                first.fields = Some(change);
            }
        }
        Fields::Leave => {}
    }
    Verdicts::Entries(entries)
}

fn dead(mut entry: Entry, reason: Reason) -> Verdicts {
    entry.reason = Some(reason.clone());
    Verdicts::Dead(Box::new(entry), reason)
}

/// What becomes of an event's fields.
enum Fields {
    Take(FieldChange),
    Leave,
    Ask,
}

/// Fields move on their own key: taken when newer, or along with a state that moved; a tie between different
/// values is settled by the upstream, or by the greater event id without one.
fn judge_fields(body: &LadderBody, pending: &Pending, entries: &[Entry], terms: Terms) -> Fields {
    let event = &pending.event;
    let taken = |entry: &Entry| !matches!(entry.outcome, Outcome::Stale | Outcome::Refused | Outcome::DeadLettered);
    if event.fields.is_empty() || !entries.iter().any(taken) {
        return Fields::Leave;
    }
    let set = changed(&body.fields, &event.fields);
    let take = |set| Fields::Take(FieldChange { set, key: event.order_key, event: Some(event.id.clone()) });
    let Some(held) = body.fields_key else { return take(set) };
    let order = match event.order_key.compare(&held, terms.clock_skew) {
        Order::Unsure if !terms.upstream => event.order_key.compare_bare(&held),
        order @ (Order::Newer | Order::Equal | Order::Older | Order::Unsure) => order,
    };
    let only_noted = entries.iter().all(|entry| entry.outcome == Outcome::Noted);
    let moved = entries.iter().any(Entry::is_move);
    match order {
        Order::Newer => take(set),
        Order::Equal | Order::Unsure if set.is_empty() || only_noted => Fields::Leave,
        Order::Equal | Order::Unsure if moved => take(set),
        Order::Equal | Order::Unsure if terms.upstream => Fields::Ask,
        Order::Equal | Order::Unsure if body.fields_event.as_ref().is_none_or(|held| event.id > *held) => take(set),
        Order::Equal | Order::Unsure | Order::Older => Fields::Leave,
    }
}

/// The fields whose new value differs from the held one.
pub(super) fn changed(
    held: &BTreeMap<FieldName, RawJson>,
    new: &BTreeMap<FieldName, RawJson>,
) -> BTreeMap<FieldName, RawJson> {
    // Both are in order, so one walk compares them.
    let mut held = held.iter().peekable();
    let differs = |new: &(&FieldName, &RawJson)| {
        while held.next_if(|(name, _)| *name < new.0).is_some() {}
        held.next_if(|(name, _)| *name == new.0).is_none_or(|(_, value)| value != new.1)
    };
    new.iter().filter(differs).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// An entry about one event.
pub(super) fn entry_of(pending: &Pending, context: &Context, outcome: Outcome, rule: Rule) -> Entry {
    let cause = pending.replayed_by.as_ref().map_or(Cause::Webhook, |by| Cause::Command(Arc::clone(by)));
    let mut entry = Entry::new(outcome, rule, cause, context.now);
    about(&mut entry, pending);
    entry.positions = vec![pending.position];
    entry
}

/// Names the event that an entry is about.
pub(super) fn about(entry: &mut Entry, pending: &Pending) {
    entry.event_id = Some(pending.event.id.clone());
    entry.event_type = Some(Arc::clone(&pending.event.event_type));
    entry.event_time = pending.event.event_time;
    entry.received_at = Some(pending.received_at);
    entry.body_sha256 = Some(pending.body_sha256);
}

/// Fills in the machine, the claim, and the state that it stands in, unmoved.
fn stand(entry: &mut Entry, machine: &Machine, body: &LadderBody, claim: &Claim) {
    stand_still(entry, machine, body.machines.get(machine.name()).map(|held| (&held.state, held.key)));
    entry.claim = Some(claim.clone());
}

/// Fills in the machine and the state that it stands in, unmoved.
pub(super) fn stand_still(
    entry: &mut Entry,
    machine: &Machine,
    held: Option<(&crate::domain::StateName, crate::domain::OrderKey)>,
) {
    entry.machine = Some(MachineRef { name: machine.name().clone(), version: machine.version() });
    let state = held.map(|(state, _)| state.clone());
    entry.states = Move { from: state.clone(), to: state };
    entry.key_before = held.map(|(_, key)| key);
    entry.key_after = entry.key_before;
}

/// The machines by name that a run of events speaks of.
pub(super) fn machines_of(run: &[Pending]) -> Vec<&MachineName> {
    let mut names: Vec<&MachineName> = run.iter().flat_map(|pending| pending.event.claims.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
