use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn key(account: Option<&str>, mode: Mode, parts: [&str; 3]) -> EntityKey {
    let [source, kind, id] = parts;
    let partition = Partition { account: account.map(Arc::from), mode };
    EntityKey { partition, source: source.into(), kind: kind.into(), id: Arc::from(id) }
}

#[test]
fn keys_that_read_alike_are_not_one_key() {
    let keys = [
        key(None, Mode::Live, ["a", "b", "c"]),
        key(None, Mode::Test, ["a", "b", "c"]),
        key(Some(""), Mode::Live, ["a", "b", "c"]),
        key(Some("a"), Mode::Live, ["a", "b", "c"]),
        key(None, Mode::Live, ["ab", "", "c"]),
        key(None, Mode::Live, ["a", "bc", ""]),
        key(None, Mode::Live, ["a", "b", " c"]),
        key(None, Mode::Live, ["a", "b", "C"]),
    ];
    for (i, a) in keys.iter().enumerate() {
        for (j, b) in keys.iter().enumerate() {
            assert_eq!(a.to_bytes() == b.to_bytes(), i == j, "{a} and {b}");
        }
    }
}

#[test]
fn a_partition_reads_back_from_its_text() {
    for text in ["live", "test", "acct_1:live", "acct_1:test", "a:b:live"] {
        assert_eq!(Partition::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "prod", ":live", "acct_1", "acct_1:", "live:acct_1"] {
        assert_eq!(Partition::parse(text), None, "{text}");
    }
}

#[test]
fn a_position_reads_back_from_its_text() {
    let position = Position { lsn: Lsn(42), item: 7 };
    assert_eq!(Position::parse("42.7"), Some(position));
    assert_eq!(position.to_string(), "42.7");
    for text in ["", "42", "42.", ".7", "-1.0", "42.7.1", "a.b"] {
        assert_eq!(Position::parse(text), None, "{text}");
    }
}

#[test]
fn a_time_is_shown_with_as_many_digits_as_it_has() {
    assert_eq!(Timestamp::from_secs(1_700_000_000).to_string(), "2023-11-14T22:13:20Z");
    assert_eq!(Timestamp::from_millis(1_700_000_000_120).to_string(), "2023-11-14T22:13:20.120Z");
    assert_eq!(Timestamp::from_nanos(1_700_000_000_000_000_001).to_string(), "2023-11-14T22:13:20.000000001Z");
}

#[test]
fn a_raw_value_keeps_its_digits_and_drops_white_space_only_between_tokens() {
    let value = RawJson::from_valid(" { \"a b\" : [ 1.50 , \"\\\" x\" ] } ");
    assert_eq!(value.as_str(), "{\"a b\":[1.50,\"\\\" x\"]}");
    assert_eq!(RawJson::from_valid("\" two  blanks \"").as_str(), "\" two  blanks \"");
    assert_ne!(RawJson::from_valid("1.50"), RawJson::from_valid("1.5"));
}

#[test]
fn times_of_different_clocks_are_unsure_within_the_skew() {
    let skew = Duration::from_secs(5);
    let time = |secs, of| OrderKey::Time { at: Timestamp::from_secs(secs), of };
    let rows = [
        (time(10, TimeOf::Event), time(10, TimeOf::Event), Order::Equal),
        (time(11, TimeOf::Event), time(10, TimeOf::Event), Order::Newer),
        (time(9, TimeOf::Object), time(10, TimeOf::Object), Order::Older),
        (time(15, TimeOf::Clock), time(10, TimeOf::Event), Order::Unsure),
        (time(16, TimeOf::Clock), time(10, TimeOf::Event), Order::Newer),
        (time(15, TimeOf::Clock), time(10, TimeOf::Clock), Order::Unsure),
        (time(15, TimeOf::Object), time(10, TimeOf::Event), Order::Unsure),
        (time(90, TimeOf::Receipt), time(10, TimeOf::Event), Order::Unsure),
        (OrderKey::Version(2), OrderKey::Version(1), Order::Newer),
        (OrderKey::Version(2), time(1, TimeOf::Event), Order::Unsure),
    ];
    for (a, b, expected) in rows {
        assert_eq!(a.compare(&b, skew), expected, "{a} against {b}");
        let mirror = match expected {
            Order::Newer => Order::Older,
            Order::Older => Order::Newer,
            Order::Equal | Order::Unsure => expected,
        };
        assert_eq!(b.compare(&a, skew), mirror, "{b} against {a}");
    }
}

#[test]
fn an_entry_that_does_not_move_keeps_when_the_state_was_entered() {
    let mut entity = Entity::unknown(key(None, Mode::Live, ["a", "b", "c"]));
    let machine = MachineRef { name: "m".into(), version: 1 };
    let at = Timestamp::from_secs;
    let mut created = Entry::new(Outcome::Created, Rule::Created, Cause::Webhook, at(1));
    created.machine = Some(machine.clone());
    created.states = Move { from: None, to: Some("open".into()) };
    created.key_after = Some(OrderKey::event(at(1)));
    created.apply(&mut entity);
    let mut same = Entry::new(Outcome::Unchanged, Rule::Same, Cause::Webhook, at(9));
    same.machine = Some(MachineRef { version: 2, ..machine });
    same.states = Move { from: Some("open".into()), to: Some("open".into()) };
    same.key_after = Some(OrderKey::event(at(8)));
    same.apply(&mut entity);
    let held = &entity.ladder().machines["m"];
    assert_eq!((held.since, held.machine_version), (at(1), 1));
    assert_eq!(held.key, OrderKey::event(at(8)));
    assert_eq!((entity.version, entity.decided_at), (2, at(9)));
}

#[test]
fn an_event_digest_covers_what_was_taken_and_nothing_else() {
    let event = || Event {
        source: "s".into(),
        id: EventId(Arc::from("evt_1")),
        event_type: Arc::from("t"),
        entity: Some(key(None, Mode::Live, ["s", "k", "1"])),
        event_time: Some(Timestamp::from_secs(1)),
        order_key: OrderKey::event(Timestamp::from_secs(1)),
        claims: [("m".into(), Claim::Observed("open".into()))].into(),
        fields: [("amount".into(), RawJson::from_valid("10"))].into(),
    };
    let other_id = Event { id: EventId(Arc::from("evt_2")), ..event() };
    assert_eq!(event().digest(), other_id.digest());
    let changed = [
        Event { event_type: Arc::from("u"), ..event() },
        Event { entity: None, ..event() },
        Event { event_time: None, ..event() },
        Event { claims: [("m".into(), Claim::Happened("open".into()))].into(), ..event() },
        Event { fields: [("amount".into(), RawJson::from_valid("10.0"))].into(), ..event() },
        Event { fields: [].into(), ..event() },
    ];
    for other in changed {
        assert_ne!(event().digest(), other.digest(), "{other:?}");
    }
}

proptest! {
    #[test]
    fn two_keys_have_the_same_bytes_only_if_they_are_equal(
        a in any::<[String; 4]>(), b in any::<[String; 4]>(), live in any::<[bool; 2]>(), named in any::<[bool; 2]>(),
    ) {
        let of = |parts: &[String; 4], live: bool, named: bool| {
            let mode = if live { Mode::Live } else { Mode::Test };
            key(named.then_some(parts[3].as_str()), mode, [&parts[0], &parts[1], &parts[2]])
        };
        let (a, b) = (of(&a, live[0], named[0]), of(&b, live[1], named[1]));
        prop_assert_eq!(a.to_bytes() == b.to_bytes(), a == b);
        prop_assert!(a.shard(64).0 < 64);
    }

    #[test]
    fn positions_sort_as_their_bytes_and_read_back_from_them(a in any::<(u64, u32)>(), b in any::<(u64, u32)>()) {
        let of = |(lsn, item)| Position { lsn: Lsn(lsn), item };
        prop_assert_eq!(of(a).cmp(&of(b)), of(a).to_bytes().cmp(&of(b).to_bytes()));
        prop_assert_eq!(Position::from_bytes(of(a).to_bytes()), of(a));
    }
}
