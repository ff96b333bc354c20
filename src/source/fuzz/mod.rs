//! What must hold of signatures and mappings for any bytes.

pub(crate) mod rows;

use std::sync::LazyLock;
use std::time::Duration;

use super::spec::SourceSpec;
use super::*;
use crate::domain::{Admit, EntityKey, Partition};
use crate::fuzz::Input;

/// When the fuzzer's deliveries come in.
const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

/// Every scheme: those of the shipped sources, and those of providers that are not shipped. The secret is made anew in
/// each process and never leaves it, so that no input can hold a right signature.
static SCHEMES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).unwrap();
    // As text, as hexadecimal and as base64 it is a secret.
    let secret = hex::encode(bytes);
    let rows = rows::ALL.map(|row| format!("name = \"row\"\n[signature]\n{row}\n[event]\n"));
    let files = SHIPPED.iter().map(|(_, toml)| (*toml).to_owned()).chain(rows);
    files.map(|toml| compiled(&toml, &secret)).collect()
});

/// The shipped sources, with a secret that anybody may know.
static SOURCES: LazyLock<Vec<Source>> =
    LazyLock::new(|| SHIPPED.iter().map(|(_, toml)| compiled(toml, &"5a".repeat(24))).collect());

fn compiled(toml: &str, secret: &str) -> Source {
    let spec: SourceSpec = toml::from_str(toml).unwrap();
    let secrets = Secrets { signing: vec![SigningSecret::new(secret)], ..Secrets::default() };
    Source::compile(&spec, &secrets).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The lines `name: value` before an empty line as headers; what follows is the body. A value may hold any text: what
/// a header can't hold is the HTTP library's to refuse.
fn headers(input: &mut Input<'_>) -> Vec<(String, String)> {
    let head = String::from_utf8_lossy(input.until(b"\n\n"));
    let lines = head.lines().map(|line| line.split_once(": ").unwrap_or((line, "")));
    lines.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect()
}

/// Without the secret nothing is accepted, and nothing makes it panic.
pub fn signature_headers(data: &[u8]) {
    let mut input = Input::new(data);
    let source = input.pick(&SCHEMES);
    let headers = headers(&mut input);
    let rejection = source.verify(&headers, input.rest(), NOW).expect_err("accepted without the secret");
    assert!(!rejection.to_string().is_empty() && !rejection.code().is_empty());
}

/// What is signed verifies within its window, and no byte of what was signed can be changed.
pub fn signed_requests(data: &[u8]) {
    let mut input = Input::new(data);
    let source = input.pick(&SCHEMES);
    let at = Timestamp::from_secs(i64::from(input.short()) * 100_000);
    let (place, flip) = (usize::from(input.short()), input.byte().max(1));
    // A header longer than 8 KiB is refused whatever it says.
    let id: String = String::from_utf8_lossy(input.until(b"\n")).chars().filter(|c| *c != '.').take(200).collect();
    let id = if id.is_empty() { "msg_1" } else { &id };
    let body = input.rest();
    let headers = source.sign(0, id, body, at);
    let verified = source.verify(&headers, body, at).unwrap_or_else(|rejection| panic!("{rejection}: {headers:?}"));
    assert_eq!(verified.secret, 0);
    assert!(verified.id.is_none_or(|found| found == id));
    assert!(verified.signed_at.is_none_or(|found| found <= at && at.since(found) < Duration::from_secs(1)));

    let changed = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        let place = place % bytes.len();
        bytes[place] ^= flip;
        bytes
    };
    if !body.is_empty() {
        assert!(source.verify(&headers, &changed(body), at).is_err(), "another body was accepted: {headers:?}");
    }
    // One header at a time: signature, id or timestamp. What is no text any more can't come.
    for (which, (name, value)) in headers.iter().enumerate() {
        let Ok(other) = String::from_utf8(changed(value.as_bytes())) else { continue };
        let mut headers = headers.clone();
        headers[which].1 = other;
        assert!(source.verify(&headers, body, at).is_err(), "another `{name}` was accepted: {headers:?}");
    }
    if let Some(signed_at) = verified.signed_at {
        another_time(source, &headers, body, signed_at);
    }
}

/// The right signature of one time says nothing of any other.
fn another_time(source: &Source, headers: &[(String, String)], body: &[u8], signed_at: Timestamp) {
    let unit = source.signature.scheme.unit.unwrap();
    let other = signed_at.plus(Duration::from_secs(3600));
    let (old, new) = (unit.write(signed_at), unit.write(other));
    let moved: Vec<_> = headers.iter().map(|(name, value)| (name.clone(), value.replacen(&old, &new, 1))).collect();
    assert_ne!(moved, headers);
    assert!(source.verify(&moved, body, other).is_err(), "another time was accepted: {moved:?}");
}

/// Mapping never fails and never answers nothing, answers the same twice, and keeps within its bounds.
pub fn mappings(data: &[u8]) {
    let mut input = Input::new(data);
    let source = input.pick(&SOURCES);
    let headers = headers(&mut input);
    let body = input.rest();
    let items = source.map(&headers, body, NOW);
    assert!(!items.is_empty() && items.len() <= ITEMS_MAX);
    for item in &items {
        sound(item);
    }
    let verified = Verified { secret: 0, id: None, signed_at: None };
    let delivery = source.deliver(&verified, &headers, Bytes::copy_from_slice(body), NOW);
    assert_eq!(delivery.items, items, "the second reading differs");
    assert_eq!(&delivery.body[..], body);
    // A replay reads what was kept.
    assert_eq!(source.map(&delivery.headers, body, NOW), items, "what was kept reads as something else");
    for kind in source.kinds() {
        let key = EntityKey {
            partition: Partition::LIVE,
            source: source.name().clone(),
            kind: kind.clone(),
            id: items[0].event.entity.as_ref().map_or_else(|| "x_1".into(), |entity| entity.id.clone()),
        };
        let answer = source.read_snapshot(&key, body, NOW);
        assert_eq!(answer, source.read_snapshot(&key, body, NOW), "the second reading of an answer differs");
    }
}

fn sound(item: &Item) {
    let event = &item.event;
    assert_eq!(item.digest, event.digest());
    assert!((1..=255).contains(&event.id.as_str().len()), "{:?}", event.id);
    assert!(event.event_type.len() <= 255);
    assert!(event.entity.as_ref().is_none_or(|key| (1..=255).contains(&key.id.len())));
    assert!(event.claims.values().all(|claim| claim.parts().1.len() <= 64));
    assert!(item.admit != Admit::Queue || (event.entity.is_some() && !event.claims.is_empty()));
    for value in event.fields.values() {
        assert!(value.as_str().len() <= FIELD_LEN_MAX);
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(value.as_str()).is_ok(), "{value} is no JSON");
    }
}

/// Headers in the form of each scheme, with signatures that are none.
pub(crate) fn header_seeds() -> Vec<(String, Vec<u8>)> {
    let seed = |(place, source): (usize, &Source)| {
        // Signed with a secret that is not this process's own: right in form, wrong in content, the same in every run.
        let toml = SHIPPED.iter().map(|(_, toml)| (*toml).to_owned());
        let rows = rows::ALL.map(|row| format!("name = \"row\"\n[signature]\n{row}\n[event]\n"));
        let toml = toml.chain(rows).nth(place).unwrap();
        let headers = compiled(&toml, &"5a".repeat(24)).sign(0, "msg_1", b"{}", NOW);
        (
            format!("{place:02}-{}", source.name().as_str()),
            [&[u8::try_from(place).unwrap()], &text(&headers)[..]].concat(),
        )
    };
    SCHEMES.iter().enumerate().map(seed).collect()
}

fn text(headers: &[(String, String)]) -> Vec<u8> {
    let lines: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{}\n\n{{}}", lines.join("\n")).into_bytes()
}

/// A scheme, a time, a place and a bit, an id and a body.
pub(crate) fn signed_seeds() -> Vec<(String, Vec<u8>)> {
    let seed = |scheme: usize| {
        let head = [u8::try_from(scheme).unwrap(), 70, 0, 0, 3, 1];
        (format!("{scheme:02}"), [&head[..], b"msg_1\n{\"id\":\"evt_1\"}"].concat())
    };
    (0..SCHEMES.len()).map(seed).collect()
}

/// A body of each kind of event, one of a batch, and some that are none.
pub(crate) fn mapping_seeds() -> Vec<(String, Vec<u8>)> {
    let stripe = |kind: &str, rest: &str| {
        format!(
            r#"{{"id":"evt_1","object":"event","api_version":"2025-03-31.basil","created":1779999990,"livemode":false,"account":"acct_1","type":"{kind}","data":{{"object":{{"id":"x_1","object":"{kind}",{rest}}}}}}}"#
        )
    };
    let paddle = |kind: &str, rest: &str| {
        format!(
            r#"{{"event_id":"evt_1","notification_id":"ntf_1","event_type":"{kind}","occurred_at":"2026-05-28T20:00:01.600001Z","data":{{"id":"x_1",{rest}}}}}"#
        )
    };
    let wallet = r#""wallet":{"id":"w_1","wallet_status":"frozen","credit_balance":"12.500"}"#;
    let bodies = [
        ("stripe", "subscription", stripe("customer.subscription.updated", r#""status":"past_due","cancel_at_period_end":true,"items":{"data":[{"current_period_end":1780000000}]}"#)),
        ("stripe", "invoice", stripe("invoice.paid", r#""status":"paid","amount_due":1.50e2,"parent":{"subscription_details":{"subscription":"sub_1"}}"#)),
        ("stripe", "intent", stripe("payment_intent.succeeded", r#""status":"succeeded","amount":12345678901234567890"#)),
        ("stripe", "session", stripe("checkout.session.completed", r#""status":"complete","payment_status":"paid""#)),
        ("stripe", "charge", stripe("charge.refunded", r#""status":"succeeded","amount_refunded":100"#)),
        ("stripe", "dispute", stripe("charge.dispute.created", r#""status":"needs_response","metadata":{"é":"\ud83d\ude00"}"#)),
        ("stripe", "thin", r#"{"id":"evt_1","object":"v2.core.event","type":"v1.invoice.paid","created":"2026-05-28T20:00:01Z","livemode":true,"related_object":{"id":"in_1","type":"invoice","url":"/v1/invoices/in_1"}}"#.to_owned()),
        ("paddle", "subscription", paddle("subscription.updated", r#""status":"active","updated_at":"2026-05-28T20:00:01.6Z","scheduled_change":null"#)),
        ("paddle", "transaction", paddle("transaction.completed", r#""status":"completed""#)),
        ("paddle", "adjustment", paddle("adjustment.updated", r#""status":"approved","action":"refund""#)),
        ("flexprice", "wallet", format!(r#"{{"event_type":"wallet.created",{wallet}}}"#)),
        ("standard", "payment", r#"{"type":"payment.captured","timestamp":"2026-05-28T20:00:01Z","data":{"id":"pay_1","amount":"10.00"}}"#.to_owned()),
        ("standard", "wallet", r#"{"type":"wallet.frozen","timestamp":"2026-05-28T20:00:01Z","data":{"id":"w_1","account":null}}"#.to_owned()),
        ("standard", "list", r#"[{"type":"payment.captured"},1]"#.to_owned()),
        ("standard", "torn", r#"{"type":"payment.captured","data":{"id""#.to_owned()),
    ];
    let place = |name: &str| SHIPPED.iter().position(|(shipped, _)| *shipped == name).unwrap();
    let seed = |(source, name, body): (&str, &str, String)| {
        let head = [&[u8::try_from(place(source)).unwrap()][..], b"webhook-id: msg_1\n\n"].concat();
        (format!("{source}-{name}"), [head, body.into_bytes()].concat())
    };
    bodies.into_iter().map(seed).collect()
}
