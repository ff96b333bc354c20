//! Mapping: ids, types, times, partitions and claims of single events.

use super::*;
use crate::domain::order::TimeOf;
use crate::domain::{OrderKey, Partition};

/// A Stripe event around an object.
fn stripe(event_type: &str, object: &str) -> String {
    format!(
        r#"{{"id":"evt_1","object":"event","created":1779999990,"livemode":true,"type":"{event_type}","data":{{"object":{object}}}}}"#
    )
}

#[test]
fn a_stripe_event_becomes_an_event_of_its_object() {
    let item = deliver(
        &shipped("stripe"),
        &stripe(
            "customer.subscription.updated",
            r#"{"id":"sub_1","status":"past_due","customer":"cus_1","plan":{"id":"x"}}"#,
        ),
    );
    let event = &item.event;
    assert_eq!((event.id.as_str(), &*event.event_type), ("evt_1", "customer.subscription.updated"));
    assert_eq!(event.entity.as_ref().unwrap().to_string(), "stripe/subscription/sub_1");
    assert_eq!(event.event_time, Some(Timestamp::from_secs(1_779_999_990)));
    assert_eq!(event.order_key, OrderKey::event(Timestamp::from_secs(1_779_999_990)));
    assert_eq!(claim(event), "stripe/subscription observed(past_due)");
    assert_eq!(field(event, "customer").as_deref(), Some("\"cus_1\""));
    assert_eq!(item.admit, Admit::Queue);
    assert_eq!(item.digest, event.digest());
}

#[test]
fn what_names_no_tracked_entity_is_recorded() {
    let check = |event_type: &str, object: &str| {
        let item = deliver(&shipped("stripe"), &stripe(event_type, object));
        assert_eq!((fate(&item).as_str(), &item.event.entity), ("record", &None), "{event_type} {object}");
        assert_eq!(item.event.event_time, Some(Timestamp::from_secs(1_779_999_990)));
        assert!(item.event.claims.is_empty() && item.event.fields.is_empty());
    };
    // An invoice that is only foreseen has no id.
    check("invoice.upcoming", r#"{"object":"invoice","status":"draft","customer":"cus_1"}"#);
    check("invoice.paid", r#"{"id":null,"status":"paid"}"#);
    check("invoice.paid", "{}");
    check("invoice.paid", "null");
    check("customer.updated", r#"{"id":"cus_1"}"#);
    check("something.new", r#"{"id":"x_1","status":"odd"}"#);
    check("invoice.paid.twice", r#"{"id":"in_1","status":"paid"}"#);
    for body in ["{}", r#"{"id":"evt_1","type":null}"#, r#"{"id":"evt_1","data":{"object":{"id":"in_1"}}}"#] {
        let bare = deliver(&shipped("stripe"), body);
        assert_eq!((fate(&bare).as_str(), &*bare.event.event_type), ("record", ""), "{body}");
    }
    for data in ["", r#","data":null"#, r#","data":[]"#, r#","data":{}"#] {
        let bare = deliver(&shipped("stripe"), &format!(r#"{{"id":"evt_1","type":"invoice.paid"{data}}}"#));
        assert_eq!((fate(&bare).as_str(), &*bare.event.event_type), ("record", "invoice.paid"), "{data}");
    }
}

#[test]
fn an_entity_that_is_there_but_unusable_is_a_dead_letter() {
    let check = |object: &str, expected: &str| {
        let item = deliver(&shipped("stripe"), &stripe("invoice.paid", object));
        assert_eq!(fate(&item), format!("mapping_failed: `/data/object{expected}"), "{object}");
        assert_eq!(item.event.entity, None);
    };
    let id =
        |found: &str| format!("/id`: found `{found}, expected an id: a string of 1 to 255 bytes, or a whole number");
    for json in [r#""""#, r#"{"x":1}"#, r#"["in_1"]"#, "true", "1.5", "-1", "1e3", r#""\ud800""#] {
        check(&format!(r#"{{"id":{json},"status":"paid"}}"#), &id(&format!("{json}`")));
    }
    let long = "i".repeat(256);
    check(&format!(r#"{{"id":"{long}","status":"paid"}}"#), &id(&format!("\"{}...` (258 bytes)", "i".repeat(63))));
    check("[]", "`: expected an object, found a list");
    check(r#"[{"id":"in_1"}]"#, "`: expected an object, found a list");
    check(r#""in_1""#, "`: expected an object, found a string");
    check("1e999", "`: expected an object, found a number");
    check("false", "`: expected an object, found true or false");
    let thin = r#"{"id":"evt_2","object":"v2.core.event","type":"x","related_object":{"id":"","type":"subscription"}}"#;
    let found = fate(&deliver(&shipped("stripe"), thin));
    assert!(found.starts_with("mapping_failed: `/related_object/id`: found `\"\"`, expected an id"), "{found}");
}

#[test]
fn ids_are_taken_as_bytes() {
    let check = |json: &str, expected: &str| {
        let item =
            deliver(&shipped("stripe"), &stripe("charge.failed", &format!(r#"{{"id":{json},"status":"failed"}}"#)));
        assert_eq!(&*item.event.entity.as_ref().unwrap().id, expected);
    };
    check("\"ch_1\"", "ch_1");
    check("\" CH_1 \"", " CH_1 ");
    check("\"\\u0063h\\u005f1\"", "ch_1");
    check("450789469", "450789469");
    check("12345678901234567890123456789", "12345678901234567890123456789");
    check(&format!("\"{}\"", "i".repeat(255)), &"i".repeat(255));
}

#[test]
fn a_null_or_missing_customer_is_no_error() {
    let item = deliver(
        &shipped("stripe"),
        &stripe("charge.succeeded", r#"{"id":"ch_1","status":"succeeded","customer":null}"#),
    );
    assert_eq!(fate(&item), "queue");
    // `null` is told apart from silence: it clears what was there.
    assert_eq!(field(&item.event, "customer").as_deref(), Some("null"));
    assert_eq!(field(&item.event, "invoice"), None);
}

#[test]
fn the_payload_status_beats_the_type_but_for_notices_and_deletions() {
    let check = |event_type: &str, status: &str, expected: &str| {
        let object = format!(r#"{{"id":"x_1"{status}}}"#);
        let item = deliver(&shipped("stripe"), &stripe(event_type, &object));
        assert_eq!((fate(&item).as_str(), claim(&item.event).as_str()), ("queue", expected), "{event_type} {status}");
    };
    let (active, missing) = (r#","status":"active""#, "");
    let subscription = |claim: &str| format!("stripe/subscription {claim}");
    check("customer.subscription.updated", active, &subscription("observed(active)"));
    check("customer.subscription.deleted", r#","status":"canceled""#, &subscription("observed(canceled)"));
    check("customer.subscription.deleted", active, &subscription("observed(active)"));
    check("customer.subscription.deleted", missing, &subscription("observed(canceled)"));
    check("customer.subscription.trial_will_end", r#","status":"trialing""#, &subscription("none"));
    check("customer.subscription.pending_update_applied", active, &subscription("none"));
    check("customer.subscription.updated", missing, &subscription("hint"));
    check("customer.subscription.updated", r#","status":null"#, &subscription("hint"));
    check("customer.subscription.updated", r#","status":"""#, &subscription("hint"));
    // A state that the machine may not know is still what was claimed.
    check("customer.subscription.updated", r#","status":"brand new""#, &subscription("observed(brand new)"));
    check("invoice.deleted", r#","status":"draft""#, "stripe/invoice observed(deleted)");
    check("invoice.deleted", missing, "stripe/invoice observed(deleted)");
    check("invoice.overdue", r#","status":"open""#, "stripe/invoice none");
    check("invoice.will_be_due", r#","status":"open""#, "stripe/invoice none");
    check("invoice.paid", r#","status":"paid""#, "stripe/invoice observed(paid)");
    check("invoice.payment_failed", missing, "stripe/invoice observed(open)");
    check("charge.dispute.created", r#","status":"needs_response""#, "stripe/dispute observed(needs_response)");
    check("charge.refund.updated", r#","status":"failed""#, "stripe/refund observed(failed)");
    check("charge.refunded", r#","status":"succeeded""#, "stripe/charge observed(succeeded)");
    check(
        "checkout.session.completed",
        r#","status":"complete","payment_status":"unpaid""#,
        "stripe/checkout_payment observed(unpaid), stripe/checkout_session observed(complete)",
    );
    check(
        "checkout.session.async_payment_succeeded",
        missing,
        "stripe/checkout_payment observed(paid), stripe/checkout_session hint",
    );
}

#[test]
fn a_state_that_is_no_name_is_a_dead_letter() {
    let check = |status: &str, shown: &str| {
        let object = format!(r#"{{"id":"sub_1","status":{status}}}"#);
        let item = deliver(&shipped("stripe"), &stripe("customer.subscription.updated", &object));
        let expected = format!(
            "mapping_failed: `/data/object/status`: found {shown}, expected a state: a string of at most 64 bytes"
        );
        assert_eq!(fate(&item), expected);
        assert!(item.event.entity.is_some(), "so that it can be replayed");
    };
    let long = format!("\"{}\"", "s".repeat(65));
    check(&long, &format!("`\"{}...` (67 bytes)", "s".repeat(63)));
    for status in ["7", "1e999", "true", "false", r#"{"name":"active"}"#, r#"["active"]"#, r#""\ud800""#] {
        check(status, &format!("`{status}`"));
    }
}

#[test]
fn times_are_exact_and_an_unreadable_one_is_a_dead_letter() {
    let check = |created: &str, expected: Result<i64, &str>| {
        let body = stripe("charge.failed", r#"{"id":"ch_1","status":"failed"}"#).replace("1779999990", created);
        let item = deliver(&shipped("stripe"), &body);
        let found = item.event.event_time.map(Timestamp::nanos).ok_or_else(|| fate(&item));
        assert_eq!(found, expected.map_err(|detail| format!("mapping_failed: `/created`: {detail}")), "{created}");
        assert!(item.event.entity.is_some());
    };
    check("1780586634", Ok(1_780_586_634_000_000_000));
    check("1780586634.1", Ok(1_780_586_634_100_000_000));
    check("\"1780586634.1\"", Ok(1_780_586_634_100_000_000));
    check("1780586634.123456789012", Ok(1_780_586_634_123_456_789));
    check("1.780586634e9", Ok(1_780_586_634_000_000_000));
    let expected = "expected seconds since 1970 such as 1780586634";
    check("\"soon\"", Err(&format!("found `\"soon\"`, {expected}")));
    check("true", Err(&format!("found `true`, {expected}")));
    check("{\"at\":1}", Err(&format!("found `{{\"at\":1}}`, {expected}")));
    check("\"2026-06-04T15:23:54Z\"", Err(&format!("found `\"2026-06-04T15:23:54Z\"`, {expected}")));
    check("1780586634000", Err(&format!("found `1780586634000`, {expected} (is it `unix_ms`?)")));
    check("1e999", Err(&format!("found `1e999`, {expected}")));
}

#[test]
fn rfc_3339_times_keep_their_precision() {
    let check = |occurred_at: &str, expected: Option<i64>| {
        let body = format!(
            r#"{{"event_id":"evt_1","event_type":"subscription.updated","occurred_at":{occurred_at},"data":{{"id":"sub_1","status":"active"}}}}"#
        );
        let item = deliver(&shipped("paddle"), &body);
        assert_eq!(item.event.event_time.map(Timestamp::nanos), expected, "{occurred_at}");
        assert_eq!(item.admit == Admit::Queue, expected.is_some());
    };
    let second = 1_780_586_634_000_000_000;
    check("\"2026-06-04T15:23:54Z\"", Some(second));
    check("\"2026-06-04T15:23:54.123456Z\"", Some(second + 123_456_000));
    check("\"2026-06-04T15:23:54.123456789012Z\"", Some(second + 123_456_789));
    check("\"2026-06-04T17:23:54+02:00\"", Some(second));
    check("\"2026-06-04T15:23:54\"", None);
    check("\"2026-06-04\"", None);
    check("1780586634", None);
}

#[test]
fn without_a_time_the_object_or_nothing_gives_the_order() {
    let check = |wallet: &str, expected: OrderKey| {
        let body =
            format!(r#"{{"event_type":"wallet.updated","wallet":{{"id":"w_1","wallet_status":"frozen"{wallet}}}}}"#);
        let item = deliver(&shipped("flexprice"), &body);
        let event = item.event;
        assert_eq!((event.event_time, event.order_key), (None, expected));
        assert_eq!((event.id.as_str(), item.admit), ("msg_1", Admit::Queue));
    };
    check("", OrderKey::Time { at: NOW, of: TimeOf::Receipt });
    check(r#","updated_at":null"#, OrderKey::Time { at: NOW, of: TimeOf::Receipt });
    let at = Timestamp::parse_rfc3339("2026-05-28T20:00:00.25Z").unwrap();
    check(r#","updated_at":"2026-05-28T20:00:00.25Z""#, OrderKey::Time { at, of: TimeOf::Object });
    let body = r#"{"event_type":"wallet.updated","wallet":{"id":"w_1","updated_at":"yesterday"}}"#;
    let found = fate(&deliver(&shipped("flexprice"), body));
    assert!(
        found.starts_with("mapping_failed: `/wallet/updated_at`: found `\"yesterday\"`, expected a time"),
        "{found}"
    );
}

#[test]
fn a_version_beats_every_time() {
    let mut spec = shipped_spec("stripe");
    spec.entities.get_mut(&Kind::new("charge")).unwrap().version = vec!["/resource_version".to_owned()];
    let source = compile(&spec, &[PLAIN_SECRET]);
    let deliver = |version: &str| {
        let object = format!(r#"{{"id":"ch_1","status":"failed","resource_version":{version}}}"#);
        deliver(&source, &stripe("charge.failed", &object))
    };
    assert_eq!(deliver("1780586634000").event.order_key, OrderKey::Version(1_780_586_634_000));
    assert_eq!(deliver("\"18446744073709551615\"").event.order_key, OrderKey::Version(u64::MAX));
    assert_eq!(deliver("null").event.order_key, OrderKey::event(Timestamp::from_secs(1_779_999_990)));
    for wrong in ["1.5", "-1", "\"v2\"", "18446744073709551616", "[]"] {
        let expected =
            format!("mapping_failed: `/data/object/resource_version`: found `{wrong}`, expected a whole number");
        assert_eq!(fate(&deliver(wrong)), expected);
    }
}

#[test]
fn an_event_without_an_id_is_known_by_its_bytes() {
    let source = shipped("stripe");
    let body = r#"{"type":"charge.failed","created":1,"data":{"object":{"id":"ch_1","status":"failed"}}}"#;
    let hash = format!("sha256:{}", hex::encode(Sha256::digest(body)));
    assert_eq!(deliver(&source, body).event.id.as_str(), hash);
    for id in ["null", "\"\"", "[]", "{}", "false"] {
        let body = body.replacen('{', &format!(r#"{{"id":{id},"#), 1);
        assert!(deliver(&source, &body).event.id.as_str().starts_with("sha256:"), "{id}");
    }
    let numbered = body.replacen('{', r#"{"id":42,"#, 1);
    assert_eq!(deliver(&source, &numbered).event.id.as_str(), "42");
    let long = body.replacen('{', &format!(r#"{{"id":"{}","#, "e".repeat(256)), 1);
    let item = deliver(&source, &long);
    assert!(fate(&item).ends_with("expected an id of at most 255 bytes"), "{}", fate(&item));
    assert!(item.event.id.as_str().starts_with("sha256:"));
}

#[test]
fn partitions_come_from_account_and_mode() {
    let check = |extra: &str, expected: Result<&str, &str>| {
        let body = format!(
            r#"{{"id":"evt_1","type":"charge.failed","created":1{extra},"data":{{"object":{{"id":"ch_1"}}}}}}"#
        );
        let item = deliver(&shipped("stripe"), &body);
        let found = item.event.entity.as_ref().map(|key| key.partition.to_string()).ok_or_else(|| fate(&item));
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{extra}");
    };
    check("", Ok("live"));
    check(r#","livemode":true"#, Ok("live"));
    check(r#","livemode":false"#, Ok("test"));
    check(r#","livemode":"false""#, Ok("test"));
    check(r#","livemode":null"#, Ok("live"));
    check(r#","livemode":false,"account":"acct_1""#, Ok("acct_1:test"));
    check(r#","account":null,"context":"acct_2""#, Ok("acct_2:live"));
    // Neither is guessed: test and live, or two accounts, must never mix.
    check(r#","livemode":0"#, Err("mapping_failed: `/livemode`: found `0`, expected true or false"));
    check(r#","account":{}"#, Err("mapping_failed: `/account`: found `{}`, expected an account of at most 255 bytes"));
    assert_eq!(Partition::parse("acct_1:test").unwrap().to_string(), "acct_1:test");
}

#[test]
fn thin_events_are_hints_about_the_object_that_they_name() {
    let thin = |related: &str, more: &str| {
        format!(
            r#"{{"id":"evt_2","object":"v2.core.event","type":"v1.customer.subscription.updated","created":"2026-05-28T20:00:00.123Z","livemode":false,"related_object":{related}{more}}}"#
        )
    };
    let source = shipped("stripe");
    let item = deliver(&source, &thin(r#"{"id":"sub_1","type":"subscription","url":"/v1/subscriptions/sub_1"}"#, ""));
    assert_eq!(item.event.entity.as_ref().unwrap().to_string(), "stripe/subscription/sub_1@test");
    assert_eq!((fate(&item).as_str(), claim(&item.event).as_str()), ("queue", "stripe/subscription hint"));
    assert_eq!(item.event.event_time.unwrap().to_string(), "2026-05-28T20:00:00.123Z");
    let both = deliver(&source, &thin(r#"{"id":"cs_1","type":"checkout.session"}"#, ""));
    assert_eq!(claim(&both.event), "stripe/checkout_payment hint, stripe/checkout_session hint");
    // A fetched event has data; it is not believed either, since it may be about something else.
    let data = r#","data":{"object":{"id":"sub_9","status":"active"}}"#;
    let fetched = deliver(&source, &thin(r#"{"id":"sub_1","type":"subscription"}"#, data));
    assert_eq!(claim(&fetched.event), "stripe/subscription hint");
    for related in [r#"{"id":"mtr_1","type":"billing.meter"}"#, r#"{"id":null,"type":"subscription"}"#, "null"] {
        let item = deliver(&source, &thin(related, ""));
        assert_eq!((fate(&item).as_str(), &item.event.entity), ("record", &None), "{related}");
    }
}

#[test]
fn an_embedded_copy_of_another_entity_is_not_taken() {
    // The transaction's copy of its subscription may be older than the event that carries it.
    let body = r#"{"event_id":"evt_1","event_type":"transaction.completed","occurred_at":"2026-05-28T20:00:00Z",
        "data":{"id":"txn_1","status":"completed","subscription_id":"sub_1","subscription":{"id":"sub_1","status":"trialing"}}}"#;
    let event = deliver(&shipped("paddle"), body).event;
    assert_eq!(event.entity.as_ref().unwrap().to_string(), "paddle/transaction/txn_1");
    assert_eq!(claim(&event), "paddle/transaction observed(completed)");
    assert!(event.fields.values().all(|value| !value.as_str().contains("trialing")));
}

#[test]
fn parsing_is_loose() {
    // Unknown enumerations, missing lists and shapes of other API versions concern nobody who does not read them.
    for extra in [r#""refunds":null"#, r#""outcome":{"type":"brand_new"}"#, r#""amount":1e999"#, r#""x":"\ud800""#] {
        let object = format!(r#"{{"id":"ch_1","status":"succeeded",{extra}}}"#);
        let item = deliver(&shipped("stripe"), &stripe("charge.succeeded", &object));
        assert_eq!(claim(&item.event), "stripe/charge observed(succeeded)", "{extra}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let object = format!(r#"{{"id":"ch_1","status":"succeeded","x":{deep}}}"#);
    assert_eq!(fate(&deliver(&shipped("stripe"), &stripe("charge.succeeded", &object))), "queue");
}

#[test]
fn the_standard_source_takes_a_status_or_else_what_happened() {
    let check = |event_type: &str, data: &str, expected: &str| {
        let body = format!(
            r#"{{"type":"{event_type}","timestamp":"2026-05-28T20:00:00.5Z","data":{{"id":"x_1"{data},"amount":"12.50"}}}}"#
        );
        let item = deliver(&shipped("standard"), &body);
        assert_eq!((item.event.id.as_str(), fate(&item).as_str()), ("msg_1", "queue"));
        assert_eq!(claim(&item.event), expected, "{event_type} {data}");
    };
    check("payment.updated", r#","status":"captured""#, "payment observed(captured)");
    check("payment.authorized", r#","state":"captured""#, "payment observed(captured)");
    check("payment.captured", "", "payment happened(payment.captured)");
    check("payment.created", "", "payment observed(pending)");
    check("payment.updated", "", "payment hint");
    check("wallet.frozen", "", "credit_wallet happened(wallet.frozen)");
    check("credit_wallet.frozen", "", "credit_wallet happened(wallet.frozen)");
    check("wallet.unfrozen", r#","status":"low""#, "credit_wallet observed(low)");
    check("wallet.unfrozen", "", "credit_wallet hint");
}
