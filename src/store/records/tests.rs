//! The stored form of each record, so that it can't drift.

use std::collections::BTreeMap;

use super::{CommandRecord, CommitRecord, DeliveryRecord, Kind, Record, Replay, Standing, StoredAction, StoredAdmit};
use super::{StoredFetch, StoredItem};
use crate::domain::{
    Answer, Attempt, Cause, Check, CheckChange, CheckReason, Claim, Disposition, Entry, Event, EventId, FieldChange,
    FieldName, Flag, FlagChange, Judged, Lsn, MachineRef, Mode, Move, OrderKey, Outcome, Partition, Position, RawJson,
    Reason, Rule, Shard, SourceName, StateName, TimeOf, Timestamp,
};
use crate::store::Error;
use crate::store::contract::facts::{at, event, machine, sub};
use crate::store::fuzz::record_seeds;

fn position(lsn: u64, item: u32) -> Position {
    Position { lsn: Lsn(lsn), item }
}

fn delivery() -> Record {
    let mut other = sub("sub_b");
    other.partition = Partition { account: Some("acct_1".into()), mode: Mode::Test };
    let queued = event("evt_1", &sub("sub_a"), "active");
    let mut nameless = event("evt_2", &sub("sub_a"), "active");
    (nameless.entity, nameless.event_time) = (None, None);
    nameless.claims = BTreeMap::from([(machine(), Claim::Hint)]);
    let mut foreign = event("evt_3", &other, "active");
    foreign.order_key = OrderKey::Version(7);
    foreign.claims = BTreeMap::from([(machine(), Claim::Happened(StateName::new("paid")))]);
    let reason = Reason::BodyNotJson { detail: "line 1".to_owned() };
    let stored = |event: Event, shard: Option<u16>, admit, standing| StoredItem {
        event: event.into(),
        digest: [7; 32],
        shard: shard.map(Shard),
        admit,
        standing,
    };
    Record::Delivery(DeliveryRecord {
        source: SourceName::new("stripe"),
        received_at: at(1),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body_sha256: [9; 32],
        secret: 1,
        items: vec![
            stored(queued, Some(3), StoredAdmit::Queue, Standing::New),
            stored(nameless.clone(), None, StoredAdmit::Record, Standing::Duplicate(position(1, 2))),
            stored(nameless, None, StoredAdmit::DeadLetter(reason), Standing::New),
            stored(foreign, Some(300), StoredAdmit::Queue, Standing::Conflict(position(5, 0))),
        ],
        body: b"{}".as_slice().into(),
    })
}

fn command(action: StoredAction) -> Record {
    Record::Command(CommandRecord { by: "ops".into(), at: at(2), action })
}

fn replay() -> Record {
    command(StoredAction::Replay(Box::new(Replay {
        dead: position(4, 0),
        origin: position(2, 1),
        event: event("evt_1", &sub("sub_a"), "active").into(),
        received_at: at(1),
        body_sha256: [9; 32],
        attempts: vec![Attempt { at: at(3), reason: Reason::UpstreamNotFound }],
    })))
}

/// An entry in which every part is filled, but for field values.
fn full_entry() -> Entry {
    let mut entry = Entry::new(Outcome::AdvancedGapProven, Rule::Unrelated, Cause::Command("ops".into()), at(5));
    entry.machine = Some(MachineRef { name: machine(), version: 12 });
    entry.states = Move { from: Some(StateName::new("incomplete_expired")), to: Some(StateName::new("past_due")) };
    entry.claim = Some(Claim::Observed(StateName::new("incomplete_expired")));
    entry.positions = vec![position(1_000_000_000, 499)];
    entry.event_id = Some(EventId("evt_1PgafTB7WZ01zgkWTe8nXkXL".into()));
    entry.event_type = Some("customer.subscription.pending_update_applied".into());
    entry.event_time = Some(at(1));
    entry.received_at = Some(at(2));
    entry.key_before = Some(OrderKey::event(at(0)));
    entry.key_after = Some(OrderKey::Time { at: at(1), of: TimeOf::Object });
    entry.fields =
        Some(FieldChange { set: BTreeMap::new(), key: OrderKey::event(at(1)), event: entry.event_id.clone() });
    entry.flags = vec![FlagChange::Cleared(Flag::Diverged)];
    entry.check = Some(CheckChange::Set(Check {
        due: at(20),
        reason: CheckReason::UnlikeClaim,
        answer: Some(Answer::States(BTreeMap::from([(machine(), StateName::new("past_due"))]))),
        answers: 3,
        failures: 2,
        positions: vec![position(1_000_000_000, 499)],
    }));
    entry.fetched = true;
    entry.reason = Some(Reason::Ambiguous { rule: Rule::Tie });
    entry.body_sha256 = Some([9; 32]);
    entry
}

fn commit() -> Record {
    let mut small = Entry::new(Outcome::Created, Rule::Created, Cause::Webhook, at(5));
    let set = BTreeMap::from([(FieldName::new("seats"), RawJson::from_valid("3"))]);
    small.fields = Some(FieldChange { set, key: OrderKey::clock(at(4)), event: None });
    small.check = Some(CheckChange::Cleared);
    let attempt = Attempt { at: at(3), reason: Reason::UpstreamUnavailable { detail: "timeout".to_owned() } };
    let dispositions = [
        Disposition::Done,
        Disposition::Retry { at: at(9), attempt: attempt.clone() },
        Disposition::Dead { attempt },
        Disposition::Wait { at: at(10) },
    ];
    let positions = (1..).map(|lsn| position(lsn, 0));
    Record::Commit(CommitRecord {
        entity: sub("sub_a"),
        version: 300,
        entries: [full_entry(), small].into(),
        judged: positions.zip(dispositions).map(|(position, disposition)| Judged { position, disposition }).collect(),
        fetched: Some(StoredFetch { url: "https://a.example/1".to_owned(), status: 200, sent_at: at(4) }),
        body: b"{}".as_slice().into(),
    })
}

/// The bytes of a record stand in a file, and are read as that record.
fn check(name: &str, record: &Record) {
    let bytes = record.encode().unwrap();
    let lines: Vec<String> = bytes.chunks(32).map(hex::encode).collect();
    insta::with_settings!({ snapshot_path => "../../../snapshots/store/records", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, lines.join("\n"));
    });
    assert_eq!(&Record::decode(Lsn(1), bytes).unwrap(), record);
}

#[test]
fn the_stored_form_of_each_record_is_as_it_ever_was() {
    let machine_changed = StoredAction::MachineChanged { machine: machine(), version: 2, sha256: [1; 32] };
    check("delivery", &delivery());
    check("replay", &replay());
    check("discard", &command(StoredAction::Discard { dead: position(4, 1) }));
    check("machine_changed", &command(machine_changed));
    check("commit", &commit());
}

/// The bytes that stand in a file.
fn stored(name: &str) -> Vec<u8> {
    let (_, bytes) = record_seeds().into_iter().find(|(stored, _)| stored == name).unwrap();
    bytes
}

#[test]
fn a_commit_whose_check_has_one_count_is_read_and_its_count_ends_no_check() {
    let Record::Commit(older) = Record::decode(Lsn(1), stored("commit_with_one_count")).unwrap() else { panic!() };
    let Record::Commit(mut newer) = commit() else { panic!() };
    let mut entries = newer.entries.to_vec();
    let Some(CheckChange::Set(check)) = &mut entries[0].check else { panic!() };
    (check.answers, check.failures) = (0, 3);
    newer.entries = entries.into();
    assert_eq!(older, newer);
    // It is written in the form of today.
    let bytes = Record::Commit(older.clone()).encode().unwrap();
    assert_ne!(bytes, stored("commit_with_one_count"));
    assert_eq!(Record::decode(Lsn(1), bytes).unwrap(), Record::Commit(older));
}

#[test]
fn an_entry_takes_at_most_400_bytes_besides_its_field_values() {
    let len = postcard::to_allocvec(&full_entry()).unwrap().len();
    assert!(len <= 400, "{len} bytes");
    // Far from the epoch numbers are longer.
    let mut late = full_entry();
    (late.decided_at, late.received_at, late.event_time) = (Timestamp::MAX, Some(Timestamp::MAX), Some(Timestamp::MAX));
    let len = postcard::to_allocvec(&late).unwrap().len();
    assert!(len <= 400, "{len} bytes");
}

#[test]
fn a_record_that_is_cut_or_unknown_is_corrupt() {
    for record in [delivery(), replay(), commit()] {
        let bytes = record.encode().unwrap();
        let head = 6 + usize::try_from(u32::from_be_bytes(bytes[2..6].try_into().unwrap())).unwrap();
        for len in 0..head {
            let error = Record::decode(Lsn(1), bytes[..len].to_vec()).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{len} of {head} bytes: {error}");
        }
    }
    for unknown in [[2, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 4, 0, 0, 0, 0]] {
        let error = Kind::of(Lsn(9), &unknown).unwrap_err().to_string();
        assert!(
            error.contains("journal record 9") && error.contains("a newer tollgate may have written it"),
            "{error}"
        );
    }
}

#[test]
fn a_pruned_delivery_is_the_same_record_without_its_body() {
    let bytes = delivery().encode().unwrap();
    let pruned = Record::decode(Lsn(1), bytes[..bytes.len() - 2].to_vec()).unwrap();
    let (Record::Delivery(pruned), Record::Delivery(whole)) = (pruned, delivery()) else { unreachable!() };
    assert!(pruned.body.is_empty());
    assert_eq!(DeliveryRecord { body: whole.body.clone(), ..pruned }, whole);
}
