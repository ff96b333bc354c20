//! What is asked of an upstream, and how its answers are read.

use secrecy::ExposeSecret as _;

use super::*;
use crate::domain::order::TimeOf;
use crate::domain::{OrderKey, Partition, StateName};

fn key(source: &str, kind: &str, id: &str, partition: &str) -> EntityKey {
    EntityKey {
        partition: Partition::parse(partition).unwrap(),
        source: source.into(),
        kind: kind.into(),
        id: id.into(),
    }
}

fn with_key(spec: &SourceSpec, api_key: &str, test: Option<&str>) -> Source {
    let secret = if spec.name.as_str() == "flexprice" { STANDARD_SECRET } else { PLAIN_SECRET };
    let secrets =
        Secrets { api_key: Some(api_key.into()), api_key_test: test.map(Into::into), ..with_secrets(&[secret]) };
    Source::compile(spec, &secrets).unwrap()
}

/// A read as its address and headers.
fn asked(source: &Source, key: &EntityKey) -> Option<String> {
    let request = source.upstream()?.request(key)?;
    let headers = request.headers.iter().filter(|(name, _)| name != "accept");
    let headers: Vec<_> = headers.map(|(name, value)| format!("{name}: {}", value.expose_secret())).collect();
    Some(format!("{} [{}]", request.url, headers.join("; ")))
}

#[test]
fn entities_are_asked_for_by_path_partition_and_key() {
    let stripe = with_key(&shipped_spec("stripe"), "sk_live_1", Some("sk_test_1"));
    let check =
        |source: &Source, key: &EntityKey, expected: &str| assert_eq!(asked(source, key).as_deref(), Some(expected));
    check(
        &stripe,
        &key("stripe", "subscription", "sub_1", "live"),
        "https://api.stripe.com/v1/subscriptions/sub_1 [authorization: Bearer sk_live_1]",
    );
    check(
        &stripe,
        &key("stripe", "checkout_session", "cs_1", "acct_1:test"),
        "https://api.stripe.com/v1/checkout/sessions/cs_1 [authorization: Bearer sk_test_1; stripe-account: acct_1]",
    );
    let one_key = with_key(&shipped_spec("stripe"), "sk_test_1", None);
    check(
        &one_key,
        &key("stripe", "charge", "ch_1", "test"),
        "https://api.stripe.com/v1/charges/ch_1 [authorization: Bearer sk_test_1]",
    );
    let paddle = with_key(&shipped_spec("paddle"), "pdl_1", None);
    check(
        &paddle,
        &key("paddle", "adjustment", "adj_1,adj_2", "live"),
        "https://api.paddle.com/adjustments?id=adj_1%2Cadj_2 [authorization: Bearer pdl_1]",
    );
    let flexprice = with_key(&shipped_spec("flexprice"), "fx_1", None);
    check(
        &flexprice,
        &key("flexprice", "wallet", "w_1", "live"),
        "https://us.api.flexprice.io/v1/wallets/w_1 [x-api-key: fx_1]",
    );
    let upstream = paddle.upstream().unwrap();
    assert_eq!((upstream.rate_per_s(), upstream.timeout().as_secs()), (4, 10));
}

#[test]
fn an_id_cannot_lead_elsewhere() {
    let stripe = with_key(&shipped_spec("stripe"), "sk_1", None);
    let check = |id: &str, expected: Option<&str>| {
        let url = stripe.upstream().unwrap().request(&key("stripe", "invoice", id, "live")).map(|request| request.url);
        let expected = expected.map(|encoded| format!("https://api.stripe.com/v1/invoices/{encoded}"));
        assert_eq!(url, expected, "{id}");
    };
    check("in_1", Some("in_1"));
    check("../customers", Some("..%2Fcustomers"));
    check("..", None);
    check(".", None);
    check("a?b=c#d", Some("a%3Fb%3Dc%23d"));
    check("%2e%2e", Some("%252e%252e"));
    check("é {account}\r\n", Some("%C3%A9%20%7Baccount%7D%0D%0A"));
    // An account goes into a header as it is, so it must be fit for one.
    for account in ["acct\r\nx: y", "acct 1", "é"] {
        let partition = Partition { account: Some(account.into()), ..Partition::LIVE };
        let key = EntityKey { partition, ..key("stripe", "invoice", "in_1", "live") };
        assert!(stripe.upstream().unwrap().request(&key).is_none(), "{account}");
    }
}

#[test]
fn without_a_key_a_path_or_an_address_nothing_is_asked() {
    assert!(shipped("stripe").upstream().is_none());
    assert!(shipped("standard").upstream().is_none());
    let mut spec = shipped_spec("stripe");
    spec.entities.get_mut(&Kind::new("invoice")).unwrap().upstream = None;
    let source = with_key(&spec, "sk_1", None);
    assert!(source.upstream().unwrap().request(&key("stripe", "invoice", "in_1", "live")).is_none());
    assert!(source.upstream().unwrap().request(&key("stripe", "charge", "ch_1", "live")).is_some());
    assert!(source.upstream().unwrap().request(&key("stripe", "customer", "cus_1", "live")).is_none());
    // Only the key of the test mode: live entities are not asked for with it.
    let secrets = Secrets { api_key_test: Some("sk_test_1".into()), ..with_secrets(&[PLAIN_SECRET]) };
    let source = Source::compile(&shipped_spec("stripe"), &secrets).unwrap();
    assert!(source.upstream().unwrap().request(&key("stripe", "charge", "ch_1", "live")).is_none());
    assert!(source.upstream().unwrap().request(&key("stripe", "charge", "ch_1", "test")).is_some());
    for bad in ["", "sk live", "sk\n"] {
        let secrets = Secrets { api_key: Some(bad.into()), ..with_secrets(&[PLAIN_SECRET]) };
        let found = problems(&shipped_spec("stripe"), &secrets);
        assert_eq!(
            found,
            "source `stripe`: upstream.api_key_env: the key is empty, or holds spaces or other than ASCII; copy it anew"
        );
    }
}

#[test]
fn every_way_to_present_a_key() {
    let check = |auth: spec::Auth, header: Option<&str>, api_key: &str, expected: &str| {
        let mut spec = shipped_spec("paddle");
        let upstream = spec.upstream.as_mut().unwrap();
        upstream.auth = auth;
        upstream.auth_header = header.map(str::to_owned);
        upstream.base_url = "http://127.0.0.1:4010/".to_owned();
        let asked = asked(&with_key(&spec, api_key, None), &key("paddle", "transaction", "txn_1", "live"));
        assert_eq!(asked, Some(format!("http://127.0.0.1:4010/transactions/txn_1 [{expected}]")));
    };
    check(spec::Auth::Bearer, None, "k", "authorization: Bearer k");
    check(spec::Auth::Basic, None, "k", "authorization: Basic azo=");
    check(spec::Auth::Basic, None, "user:pass", "authorization: Basic dXNlcjpwYXNz");
    check(spec::Auth::Header, Some("X-Api-Key"), "k", "x-api-key: k");
    check(spec::Auth::None, None, "k", "");
}

#[test]
fn answers_are_read_like_objects_of_events() {
    let clock = Timestamp::from_secs(1_780_000_100);
    let stripe = shipped("stripe");
    let entity = key("stripe", "checkout_session", "cs_1", "live");
    let body =
        br#"{"id":"cs_1","object":"checkout.session","status":"complete","payment_status":"unpaid","customer":null}"#;
    let snapshot = stripe.read_snapshot(&entity, body, clock).unwrap();
    assert_eq!(snapshot.key, OrderKey::clock(clock));
    let states: Vec<_> = snapshot.states.iter().map(|(machine, state)| format!("{machine}={state}")).collect();
    assert_eq!(states, ["stripe/checkout_payment=unpaid", "stripe/checkout_session=complete"]);
    assert_eq!(snapshot.fields[&FieldName::new("customer")].as_str(), "null");
    let paddle = shipped("paddle");
    let body = br#"{"data":{"id":"sub_1","status":"active","updated_at":"2026-05-28T20:00:00.123456Z"},"meta":{"request_id":"x"}}"#;
    let snapshot = paddle.read_snapshot(&key("paddle", "subscription", "sub_1", "live"), body, clock).unwrap();
    let at = Timestamp::parse_rfc3339("2026-05-28T20:00:00.123456Z").unwrap();
    assert_eq!(snapshot.key, OrderKey::Time { at, of: TimeOf::Object });
    let listed = br#"{"data":[{"id":"adj_1","status":"approved"}]}"#;
    let snapshot = paddle.read_snapshot(&key("paddle", "adjustment", "adj_1", "live"), listed, clock).unwrap();
    assert_eq!(snapshot.states.values().collect::<Vec<_>>(), [&StateName::new("approved")]);
}

#[test]
fn an_answer_of_no_use_says_why() {
    let source = shipped("stripe");
    let entity = key("stripe", "invoice", "in_1", "live");
    let check = |body: &[u8], expected: &str| match source.read_snapshot(&entity, body, NOW) {
        Err(Reason::UpstreamInvalid { detail }) => assert!(detail.starts_with(expected), "{detail}"),
        other => panic!("{other:?}"),
    };
    check(b"", "the answer is not JSON: EOF");
    check(b"<html>", "the answer is not JSON: expected value");
    check(b"\xff", "the answer is not UTF-8");
    check(b"[]", "the answer has no id where `in_1` was expected");
    check(br#"{"status":"paid"}"#, "the answer has no id where `in_1` was expected");
    check(br#"{"id":"in_2","status":"paid"}"#, "the answer is about `in_2`, asked for was `in_1`");
    check(br#"{"id":"in_1","deleted":true}"#, "the answer has no state");
    let long = format!(r#"{{"id":"in_1","status":"{}"}}"#, "s".repeat(65));
    check(long.as_bytes(), "`/status`: found `");
    let customer = key("stripe", "customer", "cus_1", "live");
    let error = source.read_snapshot(&customer, b"{}", NOW).unwrap_err();
    assert_eq!(error, Reason::UpstreamInvalid { detail: "`customer` cannot be asked for".to_owned() });
}
