//! What follows when the upstream could not be asked: events wait or are given up, a check moves.

use std::time::Duration;

use crate::domain::{
    Attempt, Cause, Check, CheckChange, Decision, Disposition, Entity, Entry, Judged, Outcome, Pending, Reason, Rule,
    Timestamp,
};

use super::decide::{Context, entry_of};

/// What follows when the upstream could not be asked: the run waits for `delay`, or gives up without one; a check
/// that was due is moved.
#[must_use]
pub fn postpone(
    entity: &Entity,
    run: &[Pending],
    rule: Rule,
    reason: &Reason,
    delay: impl Fn(u32) -> Option<Duration>,
    context: &Context,
) -> Decision {
    let mut decision = Decision::default();
    for pending in run {
        let tries = u32::try_from(pending.attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
        match delay(tries) {
            Some(delay) => {
                let attempt = Attempt { at: context.now, reason: reason.clone() };
                let disposition = Disposition::Retry { at: context.now.plus(delay), attempt };
                decision.judged.push(Judged { position: pending.position, disposition });
            }
            None => give_up(&mut decision, pending, rule, reason.clone(), context),
        }
    }
    if let Some(check) = entity.check.as_ref().filter(|check| run.is_empty() && check.due <= context.now) {
        let failures = check.failures.saturating_add(1);
        let delay = delay(failures).unwrap_or(context.schedule.max);
        let mut entry = Entry::new(Outcome::Held, rule, Cause::Check, context.now);
        entry.positions.clone_from(&check.positions);
        entry.reason = Some(reason.clone());
        entry.check = Some(CheckChange::Set(Check { due: context.now.plus(delay), failures, ..check.clone() }));
        decision.entries.push(entry);
    }
    decision
}

/// What follows when a call is held back until then: nothing was tried, so no attempt is counted.
#[must_use]
pub fn hold_back(entity: &Entity, run: &[Pending], until: Timestamp, context: &Context) -> Decision {
    let mut decision = Decision::default();
    let wait = |pending: &Pending| Judged { position: pending.position, disposition: Disposition::Wait { at: until } };
    decision.judged.extend(run.iter().map(wait));
    if let Some(check) = entity.check.as_ref().filter(|check| run.is_empty() && check.due <= context.now) {
        let mut entry = Entry::new(Outcome::Held, Rule::Unavailable, Cause::Check, context.now);
        entry.positions.clone_from(&check.positions);
        entry.check = Some(CheckChange::Set(Check { due: until, ..check.clone() }));
        decision.entries.push(entry);
    }
    decision
}

/// Makes a dead letter of an event, with an entry that says why.
pub(super) fn give_up(decision: &mut Decision, pending: &Pending, rule: Rule, reason: Reason, context: &Context) {
    let mut entry = entry_of(pending, context, Outcome::DeadLettered, rule);
    entry.reason = Some(reason.clone());
    decision.entries.push(entry);
    let disposition = Disposition::Dead { attempt: Attempt { at: context.now, reason } };
    decision.judged.push(Judged { position: pending.position, disposition });
}
