//! Batches: one delivery, several events, each on its own.

use super::*;

/// Thin items in a list; the account stands around the list.
const BATCH: &str = r#"
name = "batch"
[signature]
headers = [{ id = "webhook-id", signature = "webhook-signature" }]
parse = { form = "plain" }
key_decode = ["utf8"]
signed = "{id}.{body}"
encoding = "hex"
window = "none"
[event]
items = "/events"
id = ["/id", "header:webhook-id"]
type = ["/action"]
time = ["/created_at"]
time_unit = "rfc3339"
account = ["body:/meta/account"]
live = ["/live", "body:/meta/live"]
[entities.payment]
types = ["*"]
object = "/links"
id = ["/payment"]
[entities.payment.machines.payment]
[entities.payment.machines.payment.fallback]
"paid_out" = "observed:settled"
"#;

fn items(source: &Source, body: &str) -> Vec<Item> {
    source.map(&source.sign(0, "msg_1", body.as_bytes(), NOW), body.as_bytes(), NOW)
}

/// Each item as `id entity claim fate`.
fn lines(items: &[Item]) -> Vec<String> {
    let line = |item: &Item| {
        let entity = item.event.entity.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        format!("{} {entity} [{}] {}", item.event.id, claim(&item.event), fate(item))
    };
    items.iter().map(line).collect()
}

#[test]
fn items_come_in_order_and_a_bad_one_fails_alone() {
    let source = compile(&spec(BATCH), &[PLAIN_SECRET]);
    let found = items(
        &source,
        r#"{"events":[
            {"id":"EV1","action":"confirmed","created_at":"2026-05-28T20:00:00.123Z","links":{"payment":"PM1"}},
            {"id":"EV2","action":"paid_out","created_at":"2026-05-28T20:00:01Z","live":"false","links":{"payment":"PM2"}},
            7,
            {"id":"EV4","action":"paid_out","created_at":"never","links":{"payment":"PM4"}},
            {"action":"paid_out","created_at":"2026-05-28T20:00:02Z","links":{"payment":"PM5"}},
            {"id":"EV6","action":"customer_approved","links":{"mandate":"MD1"}}
        ],"meta":{"account":"OR1","live":true}}"#,
    );
    let lines = lines(&found);
    assert_eq!(lines[0], "EV1 batch/payment/PM1@OR1:live [payment hint] queue");
    assert_eq!(lines[1], "EV2 batch/payment/PM2@OR1:test [payment observed(settled)] queue");
    assert!(lines[2].ends_with("#2 - [] mapping_failed: item 2: expected an object, found a number"), "{}", lines[2]);
    assert!(lines[2].starts_with("sha256:"));
    assert!(lines[3].starts_with("EV4 batch/payment/PM4@OR1:live"), "{}", lines[3]);
    assert!(lines[3].contains("mapping_failed: `/created_at`: found `\"never\"`"), "{}", lines[3]);
    assert_eq!(lines[4], "msg_1#4 batch/payment/PM5@OR1:live [payment observed(settled)] queue");
    assert_eq!(lines[5], "EV6 - [] record");
    assert_eq!(lines.len(), 6);
}

#[test]
fn a_delivery_without_a_list_of_items_is_one_dead_letter() {
    let source = compile(&spec(BATCH), &[PLAIN_SECRET]);
    let check = |body: &str, expected: &str| assert_eq!(lines(&items(&source, body)), [expected.to_owned()], "{body}");
    check(r#"{"events":[]}"#, "msg_1 - [] record");
    check("{}", "msg_1 - [] mapping_failed: `/events`: expected a list of items");
    check(r#"{"events":null}"#, "msg_1 - [] mapping_failed: `/events`: expected a list of items");
    check(r#"{"events":{"0":{}}}"#, "msg_1 - [] mapping_failed: `/events`: expected a list of items");
    let many = |n: usize| format!(r#"{{"events":[{}]}}"#, vec!["{}"; n].join(","));
    check(&many(ITEMS_MAX + 1), "msg_1 - [] mapping_failed: `/events`: found 1001 items, at most 1000 are taken apart");
    let full = items(&source, &many(ITEMS_MAX));
    assert_eq!((full.len(), full[999].event.id.as_str()), (1000, "msg_1#999"));
    let none = &items(&source, "not json")[0];
    assert!(fate(none).starts_with("body_not_json: "), "{}", fate(none));
}

#[test]
fn the_whole_body_may_be_the_list() {
    let source = compile(&spec(&BATCH.replace("items = \"/events\"", "items = \"\"")), &[PLAIN_SECRET]);
    let found =
        items(&source, r#" [{"id":"EV1","action":"paid_out","links":{"payment":"PM1"}}, {"id":"EV2","action":"x"}] "#);
    assert_eq!(lines(&found), ["EV1 batch/payment/PM1 [payment observed(settled)] queue", "EV2 - [] record"]);
}

#[test]
fn items_may_be_wrapped() {
    let toml = BATCH
        .replace("\"/events\"", "\"/notificationItems\"")
        .replace("id = [\"/id\", \"header:webhook-id\"]", "id = [\"/NotificationRequestItem/pspReference\"]")
        .replace("\"/action\"", "\"/NotificationRequestItem/eventCode\"")
        .replace("object = \"/links\"", "object = \"/NotificationRequestItem\"")
        .replace("[\"/payment\"]", "[\"/originalReference\", \"/pspReference\"]");
    let source = compile(&spec(&toml), &[PLAIN_SECRET]);
    let body = r#"{"notificationItems":[{"NotificationRequestItem":{"pspReference":"P1","eventCode":"AUTHORISATION"}},
        {"NotificationRequestItem":{"pspReference":"P2","originalReference":"P1","eventCode":"CAPTURE"}}]}"#;
    let found = lines(&items(&source, body));
    assert_eq!(found, ["P1 batch/payment/P1 [payment hint] queue", "P2 batch/payment/P1 [payment hint] queue"]);
}
