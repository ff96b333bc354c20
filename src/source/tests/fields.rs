//! Kept fields: by pointers in order, as they were written, within bounds.

use super::*;

fn invoice(object: &str) -> Arc<Event> {
    let body = format!(
        r#"{{"id":"evt_1","type":"invoice.paid","created":1,"data":{{"object":{{"id":"in_1","status":"paid",{object}}}}}}}"#
    );
    deliver(&shipped("stripe"), &body).event
}

#[test]
fn a_field_is_the_first_place_with_a_value() {
    let check = |object: &str, expected: Option<&str>| {
        assert_eq!(field(&invoice(object), "subscription").as_deref(), expected, "{object}");
    };
    let parent = r#""parent":{"type":"subscription_details","subscription_details":{"subscription":"sub_new"}}"#;
    check(r#""subscription":"sub_old""#, Some("\"sub_old\""));
    check(parent, Some("\"sub_new\""));
    check(&format!(r#""subscription":null,{parent}"#), Some("\"sub_new\""));
    // Both forms at once: presence decides, whatever the version says.
    check(&format!(r#""subscription":"sub_old",{parent}"#), Some("\"sub_old\""));
    check(r#""subscription":null"#, Some("null"));
    check(r#""subscription":null,"parent":null"#, Some("null"));
    // What would hold it is null: there is none, which is more than nothing said.
    check(r#""parent":null"#, Some("null"));
    check(r#""parent":{"subscription_details":null}"#, Some("null"));
    check(r#""parent":{"subscription_details":1e999}"#, None);
    check(r#""x":1"#, None);
}

#[test]
fn the_period_moved_to_the_items() {
    let check = |object: &str, expected: Option<&str>| {
        let body = format!(
            r#"{{"id":"evt_1","type":"customer.subscription.updated","created":1,"data":{{"object":{{"id":"sub_1","status":"active",{object}}}}}}}"#
        );
        let event = deliver(&shipped("stripe"), &body).event;
        assert_eq!(field(&event, "current_period_end").as_deref(), expected, "{object}");
    };
    check(r#""current_period_end":1782592000"#, Some("1782592000"));
    check(r#""items":{"data":[{"current_period_end":1782592000}]}"#, Some("1782592000"));
    check(r#""items":{"data":[{"id":"si_1"},{"current_period_end":1782592000}]}"#, None);
    check(r#""items":{"data":[]}"#, None);
}

#[test]
fn values_keep_their_digits() {
    for number in ["12.50", "1E5", "0.1000000000000000055511151231257827", "123456789012345678901234567890", "-0"] {
        assert_eq!(field(&invoice(&format!(r#""amount_due":{number}"#)), "amount_due").as_deref(), Some(number));
    }
    let spaced = invoice("\"number\" : \n [ 1 , { \"a b\" : \"c  d\" } ] ");
    assert_eq!(field(&spaced, "number").as_deref(), Some(r#"[1,{"a b":"c  d"}]"#));
}

#[test]
fn refunded_amounts_are_taken_as_they_are() {
    let charge = |refunded: u32| {
        let body = format!(
            r#"{{"id":"evt_{refunded}","type":"charge.refunded","created":1,"data":{{"object":{{"id":"ch_1","status":"succeeded","amount_refunded":{refunded}}}}}}}"#
        );
        field(&deliver(&shipped("stripe"), &body).event, "amount_refunded")
    };
    assert_eq!((charge(500).as_deref(), charge(1200).as_deref()), (Some("500"), Some("1200")));
}

#[test]
fn what_is_too_large_or_too_deep_is_kept_as_its_size_and_hash() {
    let check = |value: &str, kept: bool| {
        let found = field(&invoice(&format!(r#""number":{value}"#)), "number").unwrap();
        let left_out =
            format!(r#"{{"left_out":{{"bytes":{},"sha256":"{}"}}}}"#, value.len(), hex::encode(Sha256::digest(value)));
        assert_eq!(found, if kept { value.to_owned() } else { left_out });
    };
    let text = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
    check(&text(FIELD_LEN_MAX), true);
    check(&text(FIELD_LEN_MAX + 1), false);
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    check(&nested(FIELD_DEPTH_MAX), true);
    check(&nested(FIELD_DEPTH_MAX + 1), false);
    check(r#""[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[""#, true);
}

#[test]
fn a_resend_has_the_same_digest_whatever_the_sender_adds() {
    let plain = invoice(r#""amount_due":1"#);
    let counted = invoice(r#""amount_due":1,"pending_webhooks":3,"request":{"id":"req_1"}"#);
    let other = invoice(r#""amount_due":2"#);
    assert_eq!(plain.digest(), counted.digest());
    assert_ne!(plain.digest(), other.digest());
}
