//! `settle`: judges what an upstream answered.
//!
//! One answer settles every event of the entity that was received before the asking began (the run).

mod no_state;

use std::time::Duration;

use crate::domain::{
    Answer, Cause, Check, CheckChange, CheckReason, Claim, Decision, Disposition, Entity, Entry, FieldChange, Flag,
    FlagChange, Judged, LadderBody, MachineName, Order, OrderKey, Outcome, Pending, Position, Reason, Rule, Snapshot,
    StateName, TimeOf,
};

use super::decide::{Context, about, changed, stand_still};
use super::postpone::give_up;
use super::{Machine, OnDivergence, Registry};

/// What the upstream said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reading {
    /// The entity's current state.
    Found(Snapshot),
    /// It does not know the entity (404), at this order key of the fetch's clock.
    NotFound(OrderKey),
    /// An answer that cannot be used.
    Invalid(Reason),
}

/// Why the upstream was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The rule that could not decide; [`Rule::Check`] if only a check was due.
    pub rule: Rule,
    /// Whether the entity's check was due when the asking began: then the answer confirms or clears it.
    pub check: bool,
    /// SHA-256 of the answer's body.
    pub body_sha256: Option<[u8; 32]>,
}

/// Judges an answer. `run` is what was received before the asking began, from the ambiguous event on; it is empty
/// for a check.
#[must_use]
pub fn settle(
    machines: &Registry,
    entity: &Entity,
    run: &[Pending],
    asked: Asked,
    reading: &Reading,
    context: &Context,
) -> Decision {
    let mut decision = Decision::default();
    let mut live = Vec::with_capacity(run.len());
    for pending in run {
        match undeclared(machines, pending) {
            Some(reason) => give_up(&mut decision, pending, Rule::UnknownState, reason, context),
            None => live.push(pending.clone()),
        }
    }
    let settling =
        Settling { machines, body: entity.ladder(), check: entity.check.as_ref(), run: &live, asked, context };
    match reading {
        Reading::Invalid(reason) => settling.invalid(&mut decision, reason),
        Reading::NotFound(key) => settling.not_found(&mut decision, *key),
        Reading::Found(snapshot) => settling.found(&mut decision, entity, snapshot),
    }
    decision
}

/// Why an event of the run cannot be settled by any answer: it claims what no machine declares.
fn undeclared(machines: &Registry, pending: &Pending) -> Option<Reason> {
    pending.event.claims.iter().find_map(|(name, claim)| {
        let Some(machine) = machines.get(name) else { return Some(Reason::UnknownMachine { machine: name.clone() }) };
        let state = match claim {
            Claim::Observed(state) if machine.place(state).is_none() => state,
            Claim::Happened(event) if machine.happening(event).is_empty() => event,
            Claim::Observed(_) | Claim::Happened(_) | Claim::None | Claim::Hint => return None,
        };
        Some(Reason::UnknownState { machine: name.clone(), state: state.clone() })
    })
}

/// One answer being judged.
struct Settling<'a> {
    machines: &'a Registry,
    body: &'a LadderBody,
    check: Option<&'a Check>,
    run: &'a [Pending],
    asked: Asked,
    context: &'a Context,
}

impl Settling<'_> {
    /// Judges a snapshot, machine by machine; then says what check follows.
    fn found(&self, decision: &mut Decision, entity: &Entity, snapshot: &Snapshot) {
        if let Some(reason) = self.unreadable(snapshot) {
            return self.invalid(decision, &reason);
        }
        let mut entries = Vec::with_capacity(snapshot.states.len());
        let mut doubt = None;
        for (name, state) in &snapshot.states {
            let Some(machine) = self.machines.get(name) else { continue };
            let (entry, reason) = self.judge_state(machine, state, snapshot);
            doubt = doubt.or(reason);
            entries.push(entry);
        }
        let usable = entries.iter().all(|entry| !matches!(entry.outcome, Outcome::Held | Outcome::Diverged));
        if usable {
            let change = self.fields(snapshot);
            let still =
                change.as_ref().is_none_or(|change| change.set.is_empty()) && !entries.iter().any(Entry::is_move);
            let overtaken = change.as_ref().is_some_and(|change| self.may_be_overtaken(change, snapshot));
            if self.fields_disagree(snapshot) || overtaken || (still && self.is_hinted(snapshot)) {
                doubt = doubt.or(Some(CheckReason::UnlikeClaim));
            }
            if let Some(first) = entries.first_mut() {
                first.fields = change;
            }
        }
        if let Some(first) = entries.first_mut() {
            first.fetched = true;
            first.check = self.next_check(doubt, Answer::States(snapshot.states.clone()));
            let given_up = doubt.is_some() && first.check == Some(CheckChange::Cleared);
            if given_up && !first.flags.contains(&FlagChange::Set(Flag::Diverged)) {
                first.flags.push(FlagChange::Set(Flag::Diverged));
            }
            if usable && entity.flags.contains(&Flag::Diverged) {
                first.flags.push(FlagChange::Cleared(Flag::Diverged));
            }
        }
        decision.entries.extend(entries);
        self.done(decision);
    }

    /// A snapshot that names a state or machine that nobody declared, or none at all.
    fn unreadable(&self, snapshot: &Snapshot) -> Option<Reason> {
        if snapshot.states.is_empty() {
            return Some(Reason::UpstreamInvalid { detail: "the answer has no state".to_owned() });
        }
        snapshot.states.iter().find_map(|(name, state)| match self.machines.get(name) {
            None => Some(Reason::UnknownMachine { machine: name.clone() }),
            Some(machine) if machine.place(state).is_none() => {
                Some(Reason::UnknownState { machine: name.clone(), state: state.clone() })
            }
            Some(_) => None,
        })
    }

    /// One machine: the entry, and why a check must follow.
    fn judge_state(&self, machine: &Machine, answer: &StateName, snapshot: &Snapshot) -> (Entry, Option<CheckReason>) {
        let held = self.body.machines.get(machine.name());
        let order = held.map(|held| snapshot.key.compare(&held.key, self.context.clock_skew));
        let proven = matches!(snapshot.key, OrderKey::Version(_)) && order == Some(Order::Newer);
        let unlike = (!proven && self.is_unlike(machine, answer)).then_some(CheckReason::UnlikeClaim);
        let mut entry = self.entry(machine, Outcome::Unchanged);
        let Some(held) = held else {
            take(&mut entry, Outcome::Created, answer, snapshot.key);
            return (entry, unlike);
        };
        let key = held.key.joined(snapshot.key, self.context.clock_skew);
        if held.state == *answer {
            take(&mut entry, Outcome::Unchanged, answer, key);
            return (entry, unlike);
        }
        let exact = matches!(snapshot.key, OrderKey::Version(_) | OrderKey::Time { of: TimeOf::Object, .. });
        if exact && order == Some(Order::Older) {
            entry.outcome = Outcome::Held;
            return (entry, Some(CheckReason::StaleRead));
        }
        let (current, target) = (machine.place(&held.state), machine.place(answer));
        let (ahead, reachable) = match (current, target) {
            (Some(current), Some(target)) => {
                (machine.is_strictly_ahead(target, current), machine.reaches(current, target))
            }
            (None, _) | (_, None) => (false, false),
        };
        let again = self.asked.check && self.answered_before(machine.name(), answer);
        let accept = machine.policies().on_divergence == OnDivergence::Accept;
        if ahead || (proven && reachable) || (again && (reachable || accept)) {
            take(&mut entry, Outcome::Reconciled, answer, held.key.moved_by(snapshot.key));
            // A check that moved the state is looked at once more: what was read may have been on its way already.
            let moved = (self.asked.check && !proven).then_some(CheckReason::UnlikeClaim);
            return (entry, unlike.or(moved));
        }
        if reachable {
            entry.outcome = Outcome::Held;
            return (entry, Some(CheckReason::Cycle));
        }
        entry.outcome = if again { Outcome::Diverged } else { Outcome::Held };
        if again {
            entry.flags.push(FlagChange::Set(Flag::Diverged));
        }
        (entry, Some(CheckReason::Behind))
    }

    /// Whether the newest claims of the run on this machine are other than the answer. Older claims of the run say
    /// nothing: the newest would have made them stale.
    fn is_unlike(&self, machine: &Machine, answer: &StateName) -> bool {
        let claims =
            || self.run.iter().filter_map(|pending| Some((pending, pending.event.claims.get(machine.name())?)));
        let states = || claims().filter(|(_, claim)| matches!(claim, Claim::Observed(_) | Claim::Happened(_)));
        let Some(newest) = states().map(|(pending, _)| pending.event.order_key).reduce(OrderKey::max) else {
            return false;
        };
        let on_top = |key: OrderKey| !matches!(key.compare(&newest, Duration::ZERO), Order::Older | Order::Newer);
        states().filter(|(pending, _)| on_top(pending.event.order_key)).any(|(_, claim)| match claim {
            Claim::Observed(state) => state != answer,
            Claim::Happened(event) => {
                let place = machine.place(answer);
                !machine.happening(event).iter().any(|(_, to)| Some(*to) == place)
            }
            Claim::None | Claim::Hint => false,
        })
    }

    /// Whether the newest event of the run carries a field that the answer has with another value.
    fn fields_disagree(&self, snapshot: &Snapshot) -> bool {
        let newest = self.run.iter().max_by(|a, b| match a.event.order_key.compare_bare(&b.event.order_key) {
            Order::Newer => std::cmp::Ordering::Greater,
            Order::Older => std::cmp::Ordering::Less,
            Order::Equal | Order::Unsure => std::cmp::Ordering::Equal,
        });
        let proven = matches!(snapshot.key, OrderKey::Version(_));
        newest.filter(|_| !proven).is_some_and(|pending| {
            pending
                .event
                .fields
                .iter()
                .any(|(name, value)| snapshot.fields.get(name).is_some_and(|other| other != value))
        })
    }

    /// Whether the run says that something changed, at a time that the answer is not surely newer than. If the answer
    /// shows no change, it may have been read too early.
    fn is_hinted(&self, snapshot: &Snapshot) -> bool {
        let newer = |key: OrderKey| snapshot.key.compare(&key, self.context.clock_skew) == Order::Newer;
        let hints = |pending: &&Pending| pending.event.claims.values().any(|claim| *claim == Claim::Hint);
        self.run.iter().filter(hints).any(|pending| !newer(pending.event.order_key))
    }

    /// Whether the answer changes a field that an event of about that time had set, and no event of the run says so:
    /// then the answer may be the older one.
    fn may_be_overtaken(&self, change: &FieldChange, snapshot: &Snapshot) -> bool {
        let receipt = |key: &OrderKey| matches!(key, OrderKey::Time { of: TimeOf::Receipt, .. });
        let held = self.body.fields_key.filter(|held| !receipt(held));
        let said = |name, value| self.run.iter().any(|pending| pending.event.fields.get(name) == Some(value));
        held.is_some_and(|held| snapshot.key.compare(&held, self.context.clock_skew) == Order::Unsure)
            && change.set.iter().any(|(name, value)| !said(name, value))
    }

    fn answered_before(&self, machine: &MachineName, answer: &StateName) -> bool {
        match self.check.and_then(|check| check.answer.as_ref()) {
            Some(Answer::States(states)) => states.get(machine) == Some(answer),
            Some(Answer::NotFound) | None => false,
        }
    }

    /// The snapshot's fields, unless they are surely older than what is held.
    fn fields(&self, snapshot: &Snapshot) -> Option<FieldChange> {
        if snapshot.fields.is_empty() {
            return None;
        }
        let set = changed(&self.body.fields, &snapshot.fields);
        let key = match self.body.fields_key {
            Some(held) if snapshot.key.compare(&held, self.context.clock_skew) == Order::Older => return None,
            Some(held) if set.is_empty() => held.joined(snapshot.key, self.context.clock_skew),
            Some(held) => held.moved_by(snapshot.key),
            None => snapshot.key,
        };
        Some(FieldChange { set, key, event: None })
    }

    /// The check that follows: set for a doubt, cleared by a check that has none left.
    fn next_check(&self, doubt: Option<CheckReason>, answer: Answer) -> Option<CheckChange> {
        let is_check = self.asked.check;
        let Some(reason) = doubt else { return is_check.then_some(CheckChange::Cleared) };
        let same_answer = self.check.is_some_and(|check| check.answer.as_ref() == Some(&answer));
        let answers = match self.check {
            Some(check) if is_check && same_answer => check.answers.saturating_add(1),
            Some(_) | None => 0,
        };
        let steady = matches!(reason, CheckReason::Behind | CheckReason::StaleRead | CheckReason::NotFound);
        let delay = if steady && answers > 0 {
            match self.context.schedule.delay(answers) {
                Some(delay) => delay.max(self.context.confirm_after),
                None => return Some(CheckChange::Cleared),
            }
        } else {
            self.context.confirm_after
        };
        let due = self.context.now.plus(delay);
        let (answer, positions) = (Some(answer), self.positions());
        Some(CheckChange::Set(Check { due, reason, answer, answers, failures: 0, positions }))
    }

    /// An entry of this answer about one machine, unmoved.
    fn entry(&self, machine: &Machine, outcome: Outcome) -> Entry {
        let cause = if self.run.is_empty() { Cause::Check } else { Cause::Fetch };
        let mut entry = Entry::new(outcome, self.asked.rule, cause, self.context.now);
        if let Some(last) = self.run.last() {
            about(&mut entry, last);
            entry.claim = last.event.claims.get(machine.name()).cloned();
        }
        entry.positions = self.positions();
        entry.body_sha256 = self.asked.body_sha256;
        stand_still(&mut entry, machine, self.body.machines.get(machine.name()).map(|held| (&held.state, held.key)));
        entry
    }

    /// What this answer is about: the run, or what the check was set for.
    fn positions(&self) -> Vec<Position> {
        match self.check {
            Some(check) if self.run.is_empty() => check.positions.clone(),
            Some(_) | None => self.run.iter().map(|pending| pending.position).collect(),
        }
    }

    fn done(&self, decision: &mut Decision) {
        let judged = |pending: &Pending| Judged { position: pending.position, disposition: Disposition::Done };
        decision.judged.extend(self.run.iter().map(judged));
    }
}

fn take(entry: &mut Entry, outcome: Outcome, state: &StateName, key: OrderKey) {
    entry.outcome = outcome;
    entry.states.to = Some(state.clone());
    entry.key_after = Some(key);
}
