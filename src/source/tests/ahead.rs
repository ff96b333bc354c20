//! Times far ahead of our clock: kept, but no proof of the order.

use std::time::Duration;

use super::*;
use crate::domain::order::TimeOf;
use crate::domain::{OrderKey, Partition};

const DAY: Duration = Duration::from_secs(24 * 3600);
const RECEIPT: OrderKey = OrderKey::Time { at: NOW, of: TimeOf::Receipt };

/// The last instant that is believed, and the first that is not.
fn edge() -> [Timestamp; 2] {
    let last = NOW.plus(DAY);
    [last, last.plus(Duration::from_nanos(1))]
}

#[test]
fn an_event_from_far_ahead_proves_nothing_of_the_order() {
    let check = |at: Timestamp, expected: OrderKey| {
        let body = format!(
            r#"{{"event_id":"evt_1","event_type":"subscription.updated","occurred_at":"{at}","data":{{"id":"sub_1","status":"active"}}}}"#
        );
        let item = deliver(&shipped("paddle"), &body);
        assert_eq!((fate(&item).as_str(), item.event.event_time, item.event.order_key), ("queue", Some(at), expected));
    };
    let [last, first] = edge();
    check(NOW, OrderKey::event(NOW));
    check(last, OrderKey::event(last));
    check(first, RECEIPT);
    check(Timestamp::parse_rfc3339("2200-01-01T00:00:00Z").unwrap(), RECEIPT);
    check(Timestamp::from_secs(0), OrderKey::event(Timestamp::from_secs(0)));
}

#[test]
fn a_thin_event_from_far_ahead_proves_nothing_either() {
    let thin = r#"{"id":"evt_2","object":"v2.core.event","type":"x","created":"2200-01-01T00:00:00Z","related_object":{"id":"sub_1","type":"subscription"}}"#;
    let item = deliver(&shipped("stripe"), thin);
    assert_eq!((fate(&item).as_str(), item.event.order_key), ("queue", RECEIPT));
}

#[test]
fn an_object_from_far_ahead_proves_nothing_of_the_order() {
    let check = |at: Timestamp, expected: OrderKey| {
        let body = format!(
            r#"{{"event_type":"wallet.updated","wallet":{{"id":"w_1","wallet_status":"frozen","updated_at":"{at}"}}}}"#
        );
        assert_eq!(deliver(&shipped("flexprice"), &body).event.order_key, expected);
    };
    let [last, first] = edge();
    check(last, OrderKey::Time { at: last, of: TimeOf::Object });
    check(first, RECEIPT);
}

#[test]
fn an_answer_from_far_ahead_is_as_new_as_its_fetch() {
    let entity = EntityKey {
        partition: Partition::LIVE,
        source: "paddle".into(),
        kind: "subscription".into(),
        id: "sub_1".into(),
    };
    let check = |at: Timestamp, expected: OrderKey| {
        let body = format!(r#"{{"data":{{"id":"sub_1","status":"active","updated_at":"{at}"}}}}"#);
        let snapshot = shipped("paddle").read_snapshot(&entity, body.as_bytes(), NOW).unwrap();
        assert_eq!(snapshot.key, expected);
    };
    let [last, first] = edge();
    check(last, OrderKey::Time { at: last, of: TimeOf::Object });
    check(first, OrderKey::clock(NOW));
}
