//! What follows a fetch, as tables: held state, what was claimed, what the upstream answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::{
    Answer, Check, CheckChange, CheckReason, Claim, Decision, Disposition, Entity, EntityKey, Event, EventId, Flag,
    Lsn, MachineState, OrderKey, Partition, Pending, Position, RawJson, Reason, Rule, Snapshot, TimeOf, Timestamp,
};

use super::{Asked, Context, Reading, Registry, Schedule, decide, hold_back, postpone, settle};

mod fields;
mod late;

const INVOICE: &str = "stripe/invoice";
const SUBSCRIPTION: &str = "stripe/subscription";

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn context() -> Context {
    Context {
        now: at(100),
        clock_skew: Duration::from_secs(5),
        confirm_after: Duration::from_secs(15),
        schedule: Schedule { first: Duration::from_secs(5), max: Duration::from_secs(60), attempts: 4 },
        upstream: true,
    }
}

fn entity(machine: &str, state: &str, key: OrderKey) -> Entity {
    let id = EntityKey { partition: Partition::LIVE, source: "s".into(), kind: "k".into(), id: Arc::from("1") };
    let mut entity = Entity::unknown(id);
    let crate::domain::Body::Ladder(body) = &mut entity.body;
    if state != "-" {
        let held = MachineState { state: state.into(), key, machine_version: 1, since: at(1) };
        body.machines.insert(machine.into(), held);
    }
    entity
}

fn event(machine: &str, claim: Claim, secs: i64) -> Pending {
    let event = Event {
        source: "s".into(),
        id: EventId(Arc::from(format!("evt_{secs}"))),
        event_type: Arc::from("t"),
        entity: Some(entity(machine, "-", OrderKey::Version(0)).key),
        event_time: Some(at(secs)),
        order_key: OrderKey::event(at(secs)),
        claims: [(machine.into(), claim)].into(),
        fields: BTreeMap::new(),
    };
    let position = Position { lsn: Lsn(u64::try_from(secs).unwrap()), item: 0 };
    let (event, attempts) = (Arc::new(event), Vec::new());
    Pending { position, event, received_at: at(99), body_sha256: [0; 32], attempts, replayed_by: None }
}

fn observed(machine: &str, state: &str, secs: i64) -> Pending {
    event(machine, Claim::Observed(state.into()), secs)
}

fn found(machine: &str, state: &str, key: OrderKey) -> Reading {
    Reading::Found(Snapshot { states: [(machine.into(), state.into())].into(), fields: BTreeMap::new(), key })
}

fn asked(rule: Rule) -> Asked {
    Asked { rule, check: rule == Rule::Check, body_sha256: None }
}

/// The check that is due, with what was answered before.
fn due(machine: &str, answer: &str, reason: CheckReason, answers: u32) -> Check {
    let answer = match answer {
        "404" => Answer::NotFound,
        state => Answer::States([(machine.into(), state.into())].into()),
    };
    let position = Position { lsn: Lsn(50), item: 0 };
    Check { due: at(100), reason, answer: Some(answer), answers, failures: 0, positions: vec![position] }
}

/// `reconciled open -> paid; check in 15 s (cycle, 0 answers); 60.0 done; flags`.
fn words(decision: &Decision) -> String {
    let mut out = Vec::new();
    for entry in &decision.entries {
        let state =
            |state: &Option<crate::domain::StateName>| state.as_ref().map_or("-", |state| state.as_str()).to_owned();
        out.push(format!("{} {} -> {}", entry.outcome.as_str(), state(&entry.states.from), state(&entry.states.to)));
        if let Some(reason) = &entry.reason {
            out.push(reason.code().to_owned());
        }
        match &entry.check {
            Some(CheckChange::Set(check)) => {
                let seconds = check.due.since(context().now).as_secs();
                let failures =
                    if check.failures > 0 { format!(", {} failures", check.failures) } else { String::new() };
                let (reason, answers) = (check.reason.as_str(), check.answers);
                out.push(format!("check in {seconds} s ({reason}, {answers} answers{failures})"));
            }
            Some(CheckChange::Cleared) => out.push("check cleared".to_owned()),
            None => {}
        }
        for flag in &entry.flags {
            out.push(format!("{flag:?}"));
        }
    }
    for judged in &decision.judged {
        out.push(match &judged.disposition {
            Disposition::Done => format!("{} done", judged.position),
            Disposition::Retry { at, .. } => {
                format!("{} again in {} s", judged.position, at.since(context().now).as_secs())
            }
            Disposition::Wait { at } => format!("{} waits {} s", judged.position, at.since(context().now).as_secs()),
            Disposition::Dead { .. } => format!("{} dead", judged.position),
        });
    }
    out.join("; ")
}

/// Settles `claim` on `held` by an answer read at second 98.
fn after_fetch(machine: &str, held: &str, claim: &str, answer: &str) -> String {
    let entity = entity(machine, held, OrderKey::event(at(50)));
    let run = [observed(machine, claim, 60)];
    let reading = found(machine, answer, OrderKey::clock(at(98)));
    words(&settle(&Registry::shipped(), &entity, &run, asked(Rule::Gap), &reading, &context()))
}

/// Settles a due check, set because the answer before was `before`.
fn after_check(machine: &str, held: &str, before: (&str, CheckReason, u32), answer: &str) -> String {
    let mut entity = entity(machine, held, OrderKey::event(at(50)));
    entity.check = Some(due(machine, before.0, before.1, before.2));
    let reading = found(machine, answer, OrderKey::clock(at(98)));
    words(&settle(&Registry::shipped(), &entity, &[], asked(Rule::Check), &reading, &context()))
}

#[test]
fn an_answer_that_agrees_with_the_claim_needs_no_second_look() {
    let rows = [
        (INVOICE, "-", "open", "open", "created - -> open; 60.0 done"),
        (INVOICE, "draft", "paid", "paid", "reconciled draft -> paid; 60.0 done"),
        (INVOICE, "open", "open", "open", "unchanged open -> open; 60.0 done"),
    ];
    for (machine, held, claim, answer, expected) in rows {
        assert_eq!(after_fetch(machine, held, claim, answer), expected, "{held}, {claim}, {answer}");
    }
}

#[test]
fn an_answer_unlike_the_claim_is_looked_at_again() {
    let again = "check in 15 s (unlike_claim, 0 answers); 60.0 done";
    assert_eq!(after_fetch(INVOICE, "-", "open", "paid"), format!("created - -> paid; {again}"));
    assert_eq!(after_fetch(INVOICE, "draft", "open", "paid"), format!("reconciled draft -> paid; {again}"));
    assert_eq!(after_fetch(INVOICE, "open", "paid", "open"), format!("unchanged open -> open; {again}"));
}

#[test]
fn in_a_cycle_only_a_second_answer_that_agrees_moves_the_state() {
    let held = "held active -> active; check in 15 s (cycle, 0 answers)";
    assert_eq!(after_fetch(SUBSCRIPTION, "active", "past_due", "past_due"), format!("{held}; 60.0 done"));
    let same = after_check(SUBSCRIPTION, "active", ("past_due", CheckReason::Cycle, 0), "past_due");
    assert_eq!(same, "reconciled active -> past_due; check in 15 s (unlike_claim, 1 answers)");
    let other = after_check(SUBSCRIPTION, "active", ("past_due", CheckReason::Cycle, 0), "unpaid");
    assert_eq!(other, held);
    let back = after_check(SUBSCRIPTION, "active", ("past_due", CheckReason::Cycle, 0), "active");
    assert_eq!(back, "unchanged active -> active; check cleared");
}

#[test]
fn an_answer_behind_is_never_applied_and_flagged_when_it_stays() {
    let first = after_fetch(INVOICE, "paid", "open", "open");
    assert_eq!(first, "held paid -> paid; check in 15 s (behind, 0 answers); 60.0 done");
    let second = after_check(INVOICE, "paid", ("open", CheckReason::Behind, 0), "open");
    assert_eq!(second, "diverged paid -> paid; check in 15 s (behind, 1 answers); Set(Diverged)");
    let later = after_check(INVOICE, "paid", ("open", CheckReason::Behind, 2), "open");
    assert_eq!(later, "diverged paid -> paid; check in 20 s (behind, 3 answers); Set(Diverged)");
    let last = after_check(INVOICE, "paid", ("open", CheckReason::Behind, 3), "open");
    assert_eq!(last, "diverged paid -> paid; check cleared; Set(Diverged)");
}

#[test]
fn a_divergence_that_heals_is_flagged_no_longer() {
    let mut entity = entity(INVOICE, "paid", OrderKey::event(at(50)));
    entity.flags.insert(Flag::Diverged);
    entity.check = Some(due(INVOICE, "open", CheckReason::Behind, 1));
    let reading = found(INVOICE, "paid", OrderKey::clock(at(98)));
    let decision = settle(&Registry::shipped(), &entity, &[], asked(Rule::Check), &reading, &context());
    assert_eq!(words(&decision), "unchanged paid -> paid; check cleared; Cleared(Diverged)");
}

#[test]
fn a_newer_version_is_proof_and_an_older_one_a_stale_read() {
    let entity = entity(SUBSCRIPTION, "active", OrderKey::Version(5));
    let run = [observed(SUBSCRIPTION, "unpaid", 60)];
    let by = |version| {
        let reading = found(SUBSCRIPTION, "past_due", OrderKey::Version(version));
        words(&settle(&Registry::shipped(), &entity, &run, asked(Rule::Gap), &reading, &context()))
    };
    assert_eq!(by(6), "reconciled active -> past_due; 60.0 done");
    assert_eq!(by(4), "held active -> active; check in 15 s (stale_read, 0 answers); 60.0 done");
}

#[test]
fn a_read_that_stays_stale_is_flagged_when_the_tries_are_used_up() {
    let mut entity = entity(SUBSCRIPTION, "active", OrderKey::Version(5));
    entity.check = Some(due(SUBSCRIPTION, "past_due", CheckReason::StaleRead, 3));
    let reading = found(SUBSCRIPTION, "past_due", OrderKey::Version(4));
    let decision = settle(&Registry::shipped(), &entity, &[], asked(Rule::Check), &reading, &context());
    assert_eq!(words(&decision), "held active -> active; check cleared; Set(Diverged)");
}

#[test]
fn one_answer_settles_the_whole_run_and_is_compared_with_its_newest_claim() {
    let entity = entity(INVOICE, "-", OrderKey::Version(0));
    let run = [observed(INVOICE, "open", 60), observed(INVOICE, "paid", 61), observed(INVOICE, "draft", 59)];
    let reading = found(INVOICE, "paid", OrderKey::clock(at(98)));
    let decision = settle(&Registry::shipped(), &entity, &run, asked(Rule::Unknown), &reading, &context());
    assert_eq!(words(&decision), "created - -> paid; 60.0 done; 61.0 done; 59.0 done");
    assert_eq!(decision.entries[0].positions.len(), 3);
}

#[test]
fn an_event_that_no_answer_can_settle_is_a_dead_letter_of_its_own() {
    let entity = entity(INVOICE, "draft", OrderKey::event(at(50)));
    let run = [observed(INVOICE, "paid", 60), observed(INVOICE, "payed", 61)];
    let reading = found(INVOICE, "paid", OrderKey::clock(at(98)));
    let decision = settle(&Registry::shipped(), &entity, &run, asked(Rule::Gap), &reading, &context());
    assert_eq!(words(&decision), "dead_lettered - -> -; unknown_state; reconciled draft -> paid; 61.0 dead; 60.0 done");
}

#[test]
fn an_answer_that_cannot_be_used_gives_up_the_run_with_its_reason() {
    let entity = entity(INVOICE, "draft", OrderKey::event(at(50)));
    let run = [observed(INVOICE, "paid", 60)];
    let answer =
        |reading: &Reading| words(&settle(&Registry::shipped(), &entity, &run, asked(Rule::Gap), reading, &context()));
    let unknown = found(INVOICE, "payed", OrderKey::clock(at(98)));
    assert_eq!(answer(&unknown), "dead_lettered - -> -; unknown_state; 60.0 dead");
    let invalid = Reading::Invalid(Reason::UpstreamInvalid { detail: "no id".to_owned() });
    assert_eq!(answer(&invalid), "dead_lettered - -> -; upstream_invalid; 60.0 dead");
    let empty =
        Reading::Found(Snapshot { states: BTreeMap::new(), fields: BTreeMap::new(), key: OrderKey::Version(1) });
    assert_eq!(answer(&empty), "dead_lettered - -> -; upstream_invalid; 60.0 dead");
}

#[test]
fn a_404_means_gone_only_if_that_is_claimed_or_confirmed_on_an_entity_that_was_fetched() {
    let not_found = Reading::NotFound(OrderKey::clock(at(98)));
    let registry = Registry::shipped();
    let settled = |entity: &Entity, run: &[Pending], rule| {
        words(&settle(&registry, entity, run, asked(rule), &not_found, &context()))
    };
    let mut draft = entity(INVOICE, "draft", OrderKey::event(at(50)));
    let claimed = [observed(INVOICE, "deleted", 60)];
    assert_eq!(settled(&draft, &claimed, Rule::Gap), "reconciled draft -> deleted; 60.0 done");
    let other = [observed(INVOICE, "paid", 60)];
    assert_eq!(settled(&draft, &other, Rule::Gap), "dead_lettered - -> -; upstream_not_found; 60.0 dead");
    let crate::domain::Body::Ladder(body) = &mut draft.body;
    body.fetched = true;
    assert_eq!(
        settled(&draft, &other, Rule::Gap),
        "held draft -> draft; check in 15 s (not_found, 0 answers); 60.0 done"
    );
    draft.check = Some(due(INVOICE, "404", CheckReason::NotFound, 0));
    assert_eq!(settled(&draft, &[], Rule::Check), "reconciled draft -> deleted; check cleared");
    let subscription = entity(SUBSCRIPTION, "active", OrderKey::event(at(50)));
    let gone = [observed(SUBSCRIPTION, "canceled", 60)];
    assert_eq!(settled(&subscription, &gone, Rule::Gap), "dead_lettered - -> -; upstream_not_found; 60.0 dead");
}

#[test]
fn a_404_moves_nothing_that_no_move_leads_from_to_the_end() {
    let not_found = Reading::NotFound(OrderKey::clock(at(98)));
    let registry = Registry::shipped();
    let settled = |entity: &Entity, run: &[Pending], rule| {
        words(&settle(&registry, entity, run, asked(rule), &not_found, &context()))
    };
    let mut paid = entity(INVOICE, "paid", OrderKey::event(at(50)));
    let hint = [event(INVOICE, Claim::Hint, 60)];
    assert_eq!(settled(&paid, &hint, Rule::Hint), "dead_lettered - -> -; upstream_not_found; 60.0 dead");
    let claimed = [observed(INVOICE, "deleted", 60)];
    let held = "held paid -> paid; check in 15 s (not_found, 0 answers); 60.0 done";
    assert_eq!(settled(&paid, &claimed, Rule::Terminal), held);
    let crate::domain::Body::Ladder(body) = &mut paid.body;
    body.fetched = true;
    assert_eq!(settled(&paid, &hint, Rule::Hint), held);
    paid.check = Some(due(INVOICE, "404", CheckReason::NotFound, 0));
    let flagged = "diverged paid -> paid; check in 15 s (not_found, 1 answers); Set(Diverged)";
    assert_eq!(settled(&paid, &[], Rule::Check), flagged);
    // What is known to be gone is told by any 404.
    let gone = entity(INVOICE, "deleted", OrderKey::event(at(50)));
    assert_eq!(settled(&gone, &hint, Rule::Hint), "unchanged deleted -> deleted; 60.0 done");
}

#[test]
fn a_run_that_could_not_be_asked_about_waits_longer_each_time_and_gives_up_in_the_end() {
    let entity = entity(INVOICE, "draft", OrderKey::event(at(50)));
    let reason = Reason::UpstreamUnavailable { detail: "status 500".to_owned() };
    let put_off = |tries: usize| {
        let mut pending = observed(INVOICE, "paid", 60);
        let attempt = crate::domain::Attempt { at: at(90), reason: reason.clone() };
        pending.attempts = vec![attempt; tries];
        let context = context();
        let delay = |tries| context.schedule.delay(tries);
        words(&postpone(&entity, &[pending], Rule::Unavailable, &reason, delay, &context))
    };
    assert_eq!(put_off(0), "60.0 again in 5 s");
    assert_eq!(put_off(1), "60.0 again in 10 s");
    assert_eq!(put_off(2), "60.0 again in 20 s");
    assert_eq!(put_off(3), "dead_lettered - -> -; upstream_unavailable; 60.0 dead");
}

#[test]
fn a_call_that_is_held_back_is_no_attempt() {
    let mut entity = entity(INVOICE, "draft", OrderKey::event(at(50)));
    let run = [observed(INVOICE, "paid", 60)];
    assert_eq!(words(&hold_back(&entity, &run, at(130), &context())), "60.0 waits 30 s");
    entity.check = Some(due(INVOICE, "paid", CheckReason::UnlikeClaim, 2));
    let held = hold_back(&entity, &[], at(130), &context());
    assert_eq!(words(&held), "held - -> -; check in 30 s (unlike_claim, 2 answers)");
}

#[test]
fn calls_that_fail_bring_no_answer_that_ends_a_check() {
    let reason = Reason::UpstreamUnavailable { detail: "status 500".to_owned() };
    let mut entity = entity(INVOICE, "paid", OrderKey::event(at(50)));
    entity.check = Some(due(INVOICE, "open", CheckReason::UnlikeClaim, 0));
    let context = context();
    for _ in 0..10 {
        let put_off = postpone(&entity, &[], Rule::Unavailable, &reason, |n| context.schedule.delay(n), &context);
        put_off.entries.iter().for_each(|entry| entry.apply(&mut entity));
        entity.check.as_mut().unwrap().due = at(100);
    }
    let not_found = Reading::NotFound(OrderKey::clock(at(98)));
    let mut looked = || -> String {
        let decision = settle(&Registry::shipped(), &entity, &[], asked(Rule::Check), &not_found, &context);
        decision.entries.iter().for_each(|entry| entry.apply(&mut entity));
        words(&decision)
    };
    let again = |delay, answers| {
        format!("held - -> -; upstream_not_found; check in {delay} s (unlike_claim, {answers} answers)")
    };
    assert_eq!([looked(), looked(), looked()], [again(15, 1), again(15, 2), again(20, 3)]);
    // Answers do.
    assert_eq!(looked(), "diverged - -> -; upstream_not_found; check cleared; Set(Diverged)");
}

#[test]
fn an_event_is_taken_as_a_whole_or_not_at_all() {
    let mut both = event("stripe/checkout_session", Claim::Observed("open".into()), 60);
    Arc::make_mut(&mut both.event).claims.insert("stripe/checkout_payment".into(), Claim::Observed("payed".into()));
    let entity = entity(INVOICE, "-", OrderKey::Version(0));
    let decision = decide(&Registry::shipped(), &entity, &[both], &context());
    assert_eq!(words(&decision), "dead_lettered - -> -; unknown_state; 60.0 dead");
}

#[test]
fn a_run_is_decided_in_order_up_to_the_event_that_needs_the_upstream() {
    let entity = entity(INVOICE, "-", OrderKey::Version(0));
    let run = [
        observed(INVOICE, "draft", 10),
        observed(INVOICE, "open", 11),
        observed(INVOICE, "draft", 10),
        observed(INVOICE, "draft", 20),
        observed(INVOICE, "paid", 21),
    ];
    let decision = decide(&Registry::shipped(), &entity, &run, &context());
    let expected = "created - -> draft; advanced draft -> open; stale open -> open; 10.0 done; 11.0 done; 10.0 done";
    assert_eq!(words(&decision), expected);
    let ambiguity = decision.ambiguity.unwrap();
    assert_eq!((ambiguity.index, ambiguity.rule), (3, Rule::Backward));
}
