//! Keys are told apart, ordered and read back.

use proptest::prelude::*;

use super::{
    DueKey, Table, commits, dead, due, entity, entity_order, machine, matching, prefixed, read_due, read_entity,
};
use super::{read_machine, read_position, retry, state};
use crate::domain::query::EntityFilter;
use crate::domain::{EntityKey, Kind, Lsn, MachineName, Mode, Partition, Position, SourceName, StateName, Timestamp};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a\\x00\\x01ÿb]{0,4}", any::<String>()]
}

fn entities() -> impl Strategy<Value = EntityKey> {
    let mode = prop_oneof![Just(Mode::Live), Just(Mode::Test)];
    (text(), text(), text(), prop::option::of(text()), mode).prop_map(|(source, kind, id, account, mode)| EntityKey {
        partition: Partition { account: account.map(Into::into), mode },
        source: SourceName::new(&source),
        kind: Kind::new(&kind),
        id: id.into(),
    })
}

fn positions() -> impl Strategy<Value = Position> {
    (any::<u64>(), any::<u32>()).prop_map(|(lsn, item)| Position { lsn: Lsn(lsn), item })
}

/// What entities are ordered by.
fn order(key: &EntityKey) -> impl Ord + '_ {
    let account = key.partition.account.as_deref();
    (key.source.as_str(), key.kind.as_str(), &*key.id, account.unwrap_or_default())
}

proptest! {
    #[test]
    fn an_entity_is_read_back_from_every_key_that_names_it(key in entities(), position in positions(), nanos: i64) {
        prop_assert_eq!(read_entity(&entity(&key)).unwrap(), key.clone());
        prop_assert_eq!(read_entity(&state("active", &key)).unwrap(), key.clone());
        prop_assert_eq!(read_entity(&retry(&key, position)).unwrap(), key.clone());
        prop_assert_eq!(read_entity(&commits(&key, position.lsn)).unwrap(), key.clone());
        prop_assert_eq!(read_position(&retry(&key, position)).unwrap(), position);
        prop_assert_eq!(read_position(&dead(position)).unwrap(), position);
        for retry in [None, Some(position)] {
            let sent = DueKey { at: Timestamp::from_nanos(nanos), entity: key.clone(), retry };
            prop_assert_eq!(read_due(&due(&sent)).unwrap(), sent);
        }
    }

    #[test]
    fn the_order_of_keys_is_the_order_of_what_they_name(a in entities(), b in entities(), at: i64, bt: i64) {
        if order(&a) < order(&b) {
            prop_assert!(entity_order(&a) < entity_order(&b));
        }
        prop_assert_eq!(a == b, entity(&a) == entity(&b));
        let [first, second] = [(at, &a), (bt, &b)].map(|(at, entity)| {
            due(&DueKey { at: Timestamp::from_nanos(at), entity: entity.clone(), retry: None })
        });
        if at < bt {
            prop_assert!(first < second);
        }
    }

    #[test]
    fn no_key_of_an_entity_is_the_beginning_of_anothers(a in entities(), b in entities()) {
        prop_assert!(a == b || !entity(&b).starts_with(&entity(&a)));
    }

    #[test]
    fn a_filter_narrows_the_range_and_loses_nothing(key in entities(), after in entities()) {
        let filters = [
            EntityFilter::default(),
            EntityFilter { source: Some(key.source.clone()), ..EntityFilter::default() },
            EntityFilter { source: Some(key.source.clone()), kind: Some(key.kind.clone()), ..EntityFilter::default() },
            EntityFilter {
                source: Some(key.source.clone()),
                kind: Some(key.kind.clone()),
                id: Some(key.id.to_string()),
                ..EntityFilter::default()
            },
        ];
        for filter in filters {
            prop_assert!(matching(&filter, None).contains(&entity(&key)));
            let behind = entity_order(&after) < entity_order(&key);
            prop_assert_eq!(matching(&filter, Some(&after)).contains(&entity(&key)), behind);
            let listed = EntityFilter { state: Some(StateName::new("active")), ..filter };
            prop_assert!(matching(&listed, None).contains(&state("active", &key)));
            prop_assert_eq!(matching(&listed, Some(&after)).contains(&state("active", &key)), behind);
        }
    }
}

#[test]
fn a_prefix_holds_all_that_begins_with_it() {
    let table: [(&[u8], &[u8], bool); 6] = [
        (b"a", b"a", true),
        (b"a", b"a\xff\xff", true),
        (b"a", b"b", false),
        (b"a\xff", b"a\xff\xff", true),
        (b"a\xff", b"b", false),
        (b"b", b"a\xff", false),
    ];
    for (prefix, key, expected) in table {
        assert_eq!(prefixed(prefix).contains(&key.to_vec()), expected, "{prefix:?} {key:?}");
    }
}

#[test]
fn a_malformed_key_is_corrupt_and_a_table_is_known_by_its_first_byte() {
    let whole = entity(&EntityKey {
        partition: Partition::LIVE,
        source: SourceName::new("stripe"),
        kind: Kind::new("invoice"),
        id: "in_1".into(),
    });
    for len in 0..whole.len() {
        assert!(read_entity(&whole[..len]).is_err(), "{len} bytes");
    }
    assert!(read_due(b"t123").is_err());
    assert!(read_position(b"d1").is_err());
    assert_eq!(read_machine(&machine(&MachineName::new("payment"))).unwrap(), MachineName::new("payment"));
    for (byte, table) in [(b'e', Table::Entity), (b's', Table::State), (b'x', Table::Part), (b'.', Table::Meta)] {
        assert_eq!(Table::of(&[byte, 1]), Some(table));
    }
    assert_eq!(Table::of(b"?"), None);
}
