use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::domain::{
    self as d, Cause, EntityKey, EventId, FieldChange, Flag, FlagChange, Kind, LadderBody, Lsn, MachineName,
    MachineRef, Mode, Move, Outcome, Partition, Position, Recorded, Rule, SourceName, StateName, Timestamp,
};

const NOON: Timestamp = Timestamp::from_secs(1_800_000_000);

/// The JSON of a value, after one round through text: what is written is what is read.
fn round<T: Serialize + DeserializeOwned>(value: &T) -> String {
    let text = serde_json::to_string_pretty(value).unwrap();
    let again: T = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string_pretty(&again).unwrap(), text);
    text
}

/// Compares with `snapshots/http/NAME.snap`.
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({ snapshot_path => "../../../snapshots/http", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

fn key() -> EntityKey {
    EntityKey {
        partition: Partition { account: Some("acct_1".into()), mode: Mode::Test },
        source: SourceName::new("stripe"),
        kind: Kind::new("checkout_session"),
        id: "cs_1".into(),
    }
}

fn at(lsn: u64) -> Position {
    Position { lsn: Lsn(lsn), item: 0 }
}

fn held(state: &str) -> d::MachineState {
    d::MachineState { state: StateName::new(state), key: d::OrderKey::event(NOON), machine_version: 1, since: NOON }
}

fn entity(machines: &[(&str, &str)]) -> d::Entity {
    let machines = machines.iter().map(|(name, state)| (MachineName::new(name), held(state))).collect();
    let fields = BTreeMap::from([
        (FieldName::new("amount"), RawJson::from_valid("1.50")),
        (FieldName::new("big"), RawJson::from_valid("123456789012345678901234567890.10")),
        (FieldName::new("customer"), RawJson::string("cus \"1\"")),
    ]);
    let body = LadderBody {
        machines,
        fields: fields.into(),
        fields_key: Some(d::OrderKey::Version(7)),
        ..LadderBody::default()
    };
    let check = d::Check {
        due: NOON,
        reason: d::CheckReason::Cycle,
        answer: Some(d::Answer::States([(MachineName::new("m"), StateName::new("open"))].into())),
        answers: 1,
        failures: 2,
        positions: vec![at(3)],
    };
    d::Entity {
        version: 4,
        decided_at: NOON,
        flags: BTreeSet::from([Flag::Diverged]),
        check: Some(check),
        body: d::Body::Ladder(body),
        ..d::Entity::unknown(key())
    }
}

#[test]
fn an_entity_is_written_with_its_values_as_they_came() {
    snapshot("entity", &round(&Entity::from(&entity(&[("stripe/checkout_session", "open")]))));
}

#[test]
fn the_state_is_that_of_the_only_machine_or_of_the_one_named_for_the_kind() {
    let check = |machines: &[(&str, &str)], state: Option<&str>| {
        assert_eq!(Entity::from(&entity(machines)).state.as_deref(), state, "{machines:?}");
    };
    check(&[], None);
    check(&[("payment", "settled")], Some("settled"));
    check(&[("stripe/checkout_payment", "unpaid"), ("stripe/checkout_session", "open")], Some("open"));
    check(&[("a", "x"), ("b", "y")], None);
}

#[test]
fn an_entry_says_everything_in_words() {
    let mut entry = d::Entry::new(Outcome::Advanced, Rule::Advance, Cause::Command("ops".into()), NOON);
    entry.machine = Some(MachineRef { name: MachineName::new("stripe/invoice"), version: 2 });
    entry.states = Move { from: Some(StateName::new("draft")), to: Some(StateName::new("open")) };
    entry.claim = Some(d::Claim::Observed(StateName::new("open")));
    entry.positions = vec![at(1), at(2)];
    entry.event_id = Some(EventId("evt_1".into()));
    entry.event_type = Some("invoice.finalized".into());
    entry.event_time = Some(NOON);
    entry.received_at = Some(NOON);
    entry.key_after = Some(d::OrderKey::event(NOON));
    entry.fields = Some(FieldChange {
        set: BTreeMap::from([(FieldName::new("total"), RawJson::from_valid("10.00"))]),
        key: d::OrderKey::Version(9),
        event: None,
    });
    entry.flags = vec![FlagChange::Cleared(Flag::Diverged), FlagChange::Set(Flag::Quarantined)];
    entry.check = Some(d::CheckChange::Cleared);
    entry.reason = Some(d::Reason::Ambiguous { rule: Rule::Tie });
    entry.body_sha256 = Some([0xab; 32]);
    let recorded = Recorded { position: at(5), entity: key(), entry };
    snapshot("entry", &round(&Entry::from(&recorded)));
}

#[test]
fn a_dead_letter_is_shown_with_its_delivery() {
    let event = d::Event {
        source: SourceName::new("stripe"),
        id: EventId("evt_1".into()),
        event_type: "invoice.paid".into(),
        entity: Some(key()),
        event_time: None,
        order_key: d::OrderKey::event(NOON),
        claims: BTreeMap::from([(MachineName::new("stripe/invoice"), d::Claim::Hint)]),
        fields: BTreeMap::new(),
    };
    let attempt = d::Attempt { at: NOON, reason: d::Reason::UpstreamNotFound };
    let dead = d::query::DeadLetter {
        position: at(8),
        event: event.into(),
        received_at: NOON,
        body_sha256: [1; 32],
        attempts: vec![attempt],
    };
    let delivery = d::Delivery {
        source: SourceName::new("stripe"),
        received_at: NOON,
        headers: vec![("content-type".into(), "application/json".into())],
        body: bytes::Bytes::from_static(b"\xff\x00"),
        body_sha256: [1; 32],
        secret: 1,
        items: Vec::new(),
    };
    let kept = d::Kept { delivery, item: 0 };
    let shown = DeadLetterShown { dead_letter: (&dead).into(), delivery: Some((&kept).into()) };
    snapshot("dead_letter", &round(&shown));
}

#[test]
fn one_event_is_answered_alone_and_several_as_a_list() {
    let ids = ["evt_1", "evt_2"].map(|id| EventId(id.into()));
    let accepted = d::Admission::Accepted(at(1));
    let conflict = d::Admission::Conflict { first: at(1), dead: at(2) };
    let text = |admitted: &Admitted| serde_json::to_string(admitted).unwrap();
    let one = Admitted::of(&ids[..1], &[accepted]);
    assert_eq!(text(&one), r#"{"outcome":"accepted","event_id":"evt_1","position":"1.0"}"#);
    let several = Admitted::of(&ids, &[d::Admission::Duplicate(at(1)), conflict]);
    assert_eq!(
        text(&several),
        r#"[{"outcome":"duplicate","event_id":"evt_1","position":"1.0"},{"outcome":"conflict","event_id":"evt_2","position":"1.0","dead_letter":"2.0"}]"#
    );
    for admitted in [one, several] {
        assert_eq!(serde_json::from_str::<Admitted>(&text(&admitted)).unwrap(), admitted);
    }
}

#[test]
fn no_number_becomes_a_float_on_its_way() {
    let written = serde_json::to_string(&Entity::from(&entity(&[]))).unwrap();
    assert!(written.contains(r#""amount":1.50,"big":123456789012345678901234567890.10"#), "{written}");
}
