//! Events from before an answer that come after it: they must not undo what it settled.

use super::*;

/// Found by the simulation: the clock of the upstream goes behind, so its instant lies before the held key; the event of
/// a step between the two states came last, and undid the answer.
#[test]
fn an_event_from_before_an_answer_does_not_undo_it_though_the_upstreams_clock_goes_behind() {
    let registry = Registry::shipped();
    let mut entity = entity(SUBSCRIPTION, "incomplete", OrderKey::event(at(97)));
    let run = [observed(SUBSCRIPTION, "paused", 98)];
    let reading = found(SUBSCRIPTION, "paused", OrderKey::clock(at(96)));
    let settled = settle(&registry, &entity, &run, asked(Rule::Gap), &reading, &context());
    settled.entries.iter().for_each(|entry| entry.apply(&mut entity));
    let held = &entity.ladder().machines[SUBSCRIPTION];
    assert_eq!((held.state.as_str(), held.key), ("paused", OrderKey::clock(at(97))));
    let late = decide(&registry, &entity, &[observed(SUBSCRIPTION, "past_due", 98)], &context());
    assert_eq!(late.ambiguity.map(|ambiguity| ambiguity.rule), Some(Rule::Unsure), "{}", words(&late));
}

/// Found by the simulation: a late event that agreed with an answer gave the state a key that is exact, and another late
/// one, from before the answer, was newer than that.
#[test]
fn an_event_from_before_an_answer_does_not_undo_it_though_another_agrees_with_the_answer() {
    let registry = Registry::shipped();
    let mut entity = entity(SUBSCRIPTION, "past_due", OrderKey::clock(at(96)));
    let agreed = decide(&registry, &entity, &[observed(SUBSCRIPTION, "past_due", 98)], &context());
    agreed.entries.iter().for_each(|entry| entry.apply(&mut entity));
    let held = &entity.ladder().machines[SUBSCRIPTION];
    assert_eq!((held.state.as_str(), held.key), ("past_due", OrderKey::clock(at(98))));
    let late = decide(&registry, &entity, &[observed(SUBSCRIPTION, "active", 99)], &context());
    assert_eq!(late.ambiguity.map(|ambiguity| ambiguity.rule), Some(Rule::Unsure), "{}", words(&late));
}

#[test]
fn an_event_from_before_an_answer_does_not_undo_it_though_what_was_held_agrees_with_the_answer() {
    let registry = Registry::shipped();
    let mut entity = entity(SUBSCRIPTION, "past_due", OrderKey::event(at(98)));
    let reading = found(SUBSCRIPTION, "past_due", OrderKey::clock(at(96)));
    let run = [event(SUBSCRIPTION, Claim::Hint, 90)];
    let settled = settle(&registry, &entity, &run, asked(Rule::Hint), &reading, &context());
    settled.entries.iter().for_each(|entry| entry.apply(&mut entity));
    let late = decide(&registry, &entity, &[observed(SUBSCRIPTION, "active", 99)], &context());
    assert_eq!(late.ambiguity.map(|ambiguity| ambiguity.rule), Some(Rule::Unsure), "{}", words(&late));
}

#[test]
fn fields_that_an_answer_agrees_with_are_not_undone_by_an_event_from_before_it() {
    let registry = Registry::shipped();
    let mut entity = entity(INVOICE, "open", OrderKey::event(at(98)));
    let amount = |amount: &str| [("amount".into(), RawJson::from_valid(amount))].into();
    let crate::domain::Body::Ladder(body) = &mut entity.body;
    (body.fields, body.fields_key) = (Arc::new(amount("3")), Some(OrderKey::event(at(98))));
    let states = [(INVOICE.into(), "open".into())].into();
    let reading = Reading::Found(Snapshot { states, fields: amount("3"), key: OrderKey::clock(at(96)) });
    let run = [event(INVOICE, Claim::Hint, 90)];
    let settled = settle(&registry, &entity, &run, asked(Rule::Hint), &reading, &context());
    settled.entries.iter().for_each(|entry| entry.apply(&mut entity));
    let mut late = observed(INVOICE, "open", 99);
    Arc::make_mut(&mut late.event).fields = amount("2");
    let late = decide(&registry, &entity, &[late], &context());
    assert_eq!(late.ambiguity.map(|ambiguity| ambiguity.rule), Some(Rule::Fields), "{}", words(&late));
}
