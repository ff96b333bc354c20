//! Fields after a fetch: they move on their own key.

use super::*;

#[test]
fn fields_move_on_their_own_key() {
    let registry = Registry::shipped();
    let with = |mut pending: Pending, amount: &str| {
        Arc::make_mut(&mut pending.event).fields = [("amount".into(), RawJson::from_valid(amount))].into();
        pending
    };
    let fold = |entity: &mut Entity, pending: Pending, context: &Context| {
        let decision = decide(&registry, entity, &[pending], context);
        decision.entries.iter().for_each(|entry| entry.apply(entity));
        let amount = entity.ladder().fields.get("amount").map(ToString::to_string);
        (decision.ambiguity.map(|ambiguity| ambiguity.rule), amount.unwrap_or_default())
    };
    let alone = Context { upstream: false, ..context() };
    let mut e = entity(INVOICE, "-", OrderKey::Version(0));
    assert_eq!(fold(&mut e, with(observed(INVOICE, "draft", 10), "1"), &context()), (None, "1".into()));
    assert_eq!(fold(&mut e, with(observed(INVOICE, "draft", 10), "2"), &context()), (Some(Rule::Fields), "1".into()));
    assert_eq!(fold(&mut e, with(observed(INVOICE, "draft", 11), "3"), &context()), (None, "3".into()));
    assert_eq!(fold(&mut e, with(event(INVOICE, Claim::None, 11), "4"), &context()), (None, "3".into()));
    assert_eq!(fold(&mut e, with(event(INVOICE, Claim::None, 12), "5"), &context()), (None, "5".into()));
    assert_eq!(fold(&mut e, with(observed(INVOICE, "open", 11), "6"), &context()), (None, "5".into()));
    assert_eq!(fold(&mut e, with(observed(INVOICE, "draft", 9), "7"), &context()), (None, "5".into()));
    // Without an upstream the greater event id wins a tie: `evt_2` is greater than `evt_12`.
    let mut low = with(observed(INVOICE, "open", 12), "8");
    assert_eq!(fold(&mut e, low.clone(), &alone), (None, "5".into()));
    Arc::make_mut(&mut low.event).id = EventId(Arc::from("evt_2"));
    assert_eq!(fold(&mut e, low, &alone), (None, "8".into()));
}

#[test]
fn a_fetch_settles_a_tie_of_fields_with_what_the_upstream_has() {
    let mut entity = entity(INVOICE, "open", OrderKey::event(at(97)));
    let crate::domain::Body::Ladder(body) = &mut entity.body;
    body.fields = Arc::new([("amount".into(), RawJson::from_valid("1"))].into());
    body.fields_key = Some(OrderKey::event(at(97)));
    let mut pending = observed(INVOICE, "open", 97);
    Arc::make_mut(&mut pending.event).fields = [("amount".into(), RawJson::from_valid("2"))].into();
    let snapshot = |amount: &str| Snapshot {
        states: [(INVOICE.into(), "open".into())].into(),
        fields: [("amount".into(), RawJson::from_valid(amount))].into(),
        key: OrderKey::Time { at: at(96), of: TimeOf::Clock },
    };
    let run = [pending];
    let settled = |amount| {
        let reading = Reading::Found(snapshot(amount));
        let decision = settle(&Registry::shipped(), &entity, &run, asked(Rule::Fields), &reading, &context());
        let set = decision.entries[0].fields.as_ref().unwrap().set.clone();
        (set, words(&decision))
    };
    let two = [("amount".into(), RawJson::from_valid("2"))].into();
    assert_eq!(settled("2"), (two, "unchanged open -> open; 97.0 done".to_owned()));
    let unlike = "unchanged open -> open; check in 15 s (unlike_claim, 0 answers); 97.0 done".to_owned();
    assert_eq!(settled("1"), (BTreeMap::new(), unlike));
}

#[test]
fn an_answer_that_may_have_been_read_too_early_is_looked_at_again() {
    let settled = |held: &Entity, pending: Pending, quantity: &str| {
        let fields = [("quantity".into(), RawJson::from_valid(quantity))].into();
        let states = [(SUBSCRIPTION.into(), "active".into())].into();
        let reading = Reading::Found(Snapshot { states, fields, key: OrderKey::clock(at(98)) });
        words(&settle(&Registry::shipped(), held, &[pending], asked(Rule::Hint), &reading, &context()))
    };
    let held = |fields_at: i64| {
        let mut held = entity(SUBSCRIPTION, "active", OrderKey::event(at(50)));
        let crate::domain::Body::Ladder(body) = &mut held.body;
        body.fields = Arc::new([("quantity".into(), RawJson::from_valid("5"))].into());
        body.fields_key = Some(OrderKey::event(at(fields_at)));
        held
    };
    let hint = |secs: i64| event(SUBSCRIPTION, Claim::Hint, secs);
    let again = "unchanged active -> active; check in 15 s (unlike_claim, 0 answers)";
    let enough = "unchanged active -> active";
    // Something changed a moment ago, and the answer shows nothing of it.
    assert_eq!(settled(&held(50), hint(97), "5"), format!("{again}; 97.0 done"));
    assert_eq!(settled(&held(50), hint(60), "5"), format!("{enough}; 60.0 done"));
    assert_eq!(settled(&held(50), hint(97), "1"), format!("{enough}; 97.0 done"));
    // The answer would undo what an event of a moment ago said.
    assert_eq!(settled(&held(97), hint(60), "1"), format!("{again}; 60.0 done"));
}
