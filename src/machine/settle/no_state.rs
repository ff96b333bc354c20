//! Answers that show no state: the upstream does not know the entity, or what it says cannot be used.

use super::super::Machine;
use super::super::decide::machines_of;
use super::super::postpone::give_up;
use super::{Settling, take};
use crate::domain::{
    Answer, Cause, Check, CheckChange, CheckReason, Claim, Decision, Entry, Flag, FlagChange, OrderKey, Outcome,
    Pending, Reason, Rule, StateName,
};

impl Settling<'_> {
    /// A 404: the gone-state if the claim is that, or if a second 404 confirms it; else nobody can tell. A state that
    /// no move leads from to there stays: what answers 404 for it is a wrong key sooner than the end of the entity.
    pub(super) fn not_found(&self, decision: &mut Decision, key: OrderKey) {
        let known = self.body.machines.keys();
        let gone = known.chain(machines_of(self.run)).find_map(|name| {
            let machine = self.machines.get(name)?;
            Some((machine, machine.gone()?))
        });
        let Some((machine, gone)) = gone else { return self.fail(decision, Rule::NotFound, &Reason::UpstreamNotFound) };
        let held = self.body.machines.get(machine.name());
        let is_gone = held.is_some_and(|held| held.state == *gone);
        let allowed = held.is_none_or(|held| is_gone || Self::reaches(machine, &held.state, gone));
        let claimed = self.claims(machine, gone);
        let again = self.asked.check && self.check.is_some_and(|check| check.answer == Some(Answer::NotFound));
        if !(is_gone || claimed || self.body.fetched) {
            return self.fail(decision, Rule::NotFound, &Reason::UpstreamNotFound);
        }
        let mut entry = self.entry(machine, Outcome::Held);
        if allowed && (is_gone || claimed || again) {
            entry.rule = Rule::NotFound;
            let outcome = match held {
                None => Outcome::Created,
                Some(_) if is_gone => Outcome::Unchanged,
                Some(_) => Outcome::Reconciled,
            };
            take(&mut entry, outcome, gone, held.map_or(key, |held| held.key.joined(key, self.context.clock_skew)));
            entry.check = self.asked.check.then_some(CheckChange::Cleared);
        } else {
            entry.check = self.next_check(Some(CheckReason::NotFound), Answer::NotFound);
            if again {
                entry.outcome = Outcome::Diverged;
                entry.flags.push(FlagChange::Set(Flag::Diverged));
            }
        }
        decision.entries.push(entry);
        self.done(decision);
    }

    fn reaches(machine: &Machine, from: &StateName, to: &StateName) -> bool {
        let places = machine.place(from).zip(machine.place(to));
        places.is_some_and(|(from, to)| machine.reaches(from, to))
    }

    /// Whether any event of the run claims this state.
    fn claims(&self, machine: &Machine, state: &StateName) -> bool {
        let place = machine.place(state);
        let leads_only_there = |event: &StateName| {
            let edges = machine.happening(event);
            !edges.is_empty() && edges.iter().all(|(_, to)| Some(*to) == place)
        };
        let claims = |pending: &Pending| match pending.event.claims.get(machine.name()) {
            Some(Claim::Observed(claimed)) => claimed == state,
            Some(Claim::Happened(event)) => leads_only_there(event),
            Some(Claim::None | Claim::Hint) | None => false,
        };
        self.run.iter().any(claims)
    }

    pub(super) fn invalid(&self, decision: &mut Decision, reason: &Reason) {
        let rule = if matches!(reason, Reason::UnknownState { .. }) { Rule::UnknownState } else { Rule::Invalid };
        self.fail(decision, rule, reason);
    }

    /// The answer settles nothing: the run is given up, and a check looks again until the schedule ends.
    fn fail(&self, decision: &mut Decision, rule: Rule, reason: &Reason) {
        for pending in self.run {
            give_up(decision, pending, rule, reason.clone(), self.context);
        }
        let Some(check) = self.check.filter(|_| self.asked.check) else { return };
        let mut entry = Entry::new(Outcome::Held, rule, Cause::Check, self.context.now);
        entry.reason = Some(reason.clone());
        entry.positions.clone_from(&check.positions);
        entry.body_sha256 = self.asked.body_sha256;
        let answers = check.answers.saturating_add(1);
        entry.check = Some(if let Some(delay) = self.context.schedule.delay(answers) {
            let due = self.context.now.plus(delay.max(self.context.confirm_after));
            CheckChange::Set(Check { due, answers, failures: 0, ..check.clone() })
        } else {
            entry.outcome = Outcome::Diverged;
            entry.flags.push(FlagChange::Set(Flag::Diverged));
            CheckChange::Cleared
        });
        decision.entries.push(entry);
    }
}
