//! Signature schemes as rows: what each provider publishes (or what its scheme gives) must come out bit for bit.

use super::*;
use crate::source::fuzz::rows::*;

/// A source of which only the signature matters.
fn row(signature: &str, secret: &str) -> Source {
    let toml = format!("name = \"row\"\n[signature]\nkey_len_min = 4\n{signature}\n[event]\n");
    compile(&spec(&toml), &[secret])
}

const P: &str = r#"{"id":"evt_1","object":"event","type":"invoice.paid","created":1700000000}"#;

#[test]
fn published_vectors_verify_and_are_what_sign_writes() {
    let check = |scheme: &str, secret: &str, headers: &[(&str, &str)], body: &str, at: Timestamp| {
        let source = row(scheme, secret);
        let headers: Vec<_> = headers.iter().map(|(name, value)| header(name, value)).collect();
        let verified = source.verify(&headers, body.as_bytes(), at);
        assert_eq!(verified.map(|verified| verified.secret), Ok(0), "{headers:?}");
        assert_eq!(source.sign(0, "msg_p5jXN8AQM9LWM0D4loKWxJek", body.as_bytes(), at), headers);
        let longer = format!("{body} ");
        assert_eq!(source.verify(&headers, longer.as_bytes(), at), Err(Rejection::Mismatch), "{headers:?}");
    };
    let at = Timestamp::from_secs;
    check(
        STANDARD,
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        &[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ],
        r#"{"test": 2432232314}"#,
        at(1_614_265_330),
    );
    let paddle = |body, code: &str| {
        let value = format!("ts=1698796800;h1={code}");
        check(PADDLE, "VALID_SECRET", &[("paddle-signature", &value)], body, at(1_698_796_800));
    };
    paddle(r#"{"data": ["1", "2"]}"#, "a300428748dce5c70e4da19bffd60769591ea969c99dea3105d0ec9612cf43f9");
    paddle(r#"{"data": "value"}"#, "28981e941fae76e53db32f3d2a83cb69db41476595e84e1970a1b5d98f62b261");
    let stripe = |body, code: &str| {
        let value = format!("t=1700000000,v1={code}");
        check(STRIPE, "whsec_test_secret", &[("stripe-signature", &value)], body, at(1_700_000_000));
    };
    stripe(
        "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}",
        "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150",
    );
    // The six characters of an escape are signed as they are: reading and writing the body anew would lose them.
    stripe(r#"{"n":"\u00e9"}"#, "d84e378d4aa33a81b221458800acb48df0c007e81023378c55b45aec25b7feea");
    check(
        ORB,
        "c-UGKYdnhHh436B_sMouYAPUvXyWpzOdunZBV5dFSD8",
        &[
            ("x-orb-timestamp", "2024-03-27T15:42:29.551"),
            ("x-orb-signature", "v1=9d25de966891ab0bc18754faf8d83d0980b44ae330fcc130b41a6cf3daf1f391"),
        ],
        r#"{"id": "o4mmewpfNNTnjfZc", "created_at": "2024-03-27T15:42:29+00:00", "type": "resource_event.test", "properties": {"message": "A test webhook from Orb. Happy testing!"}}"#,
        Timestamp::parse_rfc3339("2024-03-27T15:42:29.551Z").unwrap(),
    );
    let recurly = "1700000000000,d87ae1aad878e066afef95d696d4d66a270df58720b4e45704cea66be9b69a5f";
    check(RECURLY, "secret", &[("recurly-signature", recurly)], P, at(1_700_000_000));
    let square = "hYg6kI7QgBacGv6fZ8adje8uXsnszFl8uvyJmRxEBZA=";
    check(SQUARE, "sq_key", &[("x-square-hmacsha256-signature", square)], P, at(0));
    let shopify = "u7fZnwJfv/gZrtxkImmfFkVtFu54DZMXQPzHPeLbtOc=";
    check(SHOPIFY, "shpss_secret", &[("shopify-hmac-sha256", shopify)], P, at(0));
}

#[test]
fn published_codes_over_the_bare_body_verify() {
    let check = |scheme: &str, secret: &str, name: &str, value: &str, body: &str| {
        let source = row(scheme, secret);
        let headers = [header(name, value)];
        assert_eq!(source.verify(&headers, body.as_bytes(), NOW).map(|v| v.signed_at), Ok(None), "{value}");
        assert_eq!(source.sign(0, "", body.as_bytes(), NOW), headers);
    };
    let lemon_squeezy = "91fcf8ef51479e2029bf242ec4392d1ca5ed90932e571d1253315813137f5714";
    check(BARE_HEX, "secret", "x-signature", lemon_squeezy, P);
    // Mollie's newer webhooks: the same code behind a prefix.
    check(GITHUB, "secret", "x-hub-signature-256", &format!("sha256={lemon_squeezy}"), P);
    let razorpay = "2fe04e22977002e6c7cb553adab8b460cb9e2a4970d5953cb27a8472752e3bbc";
    check(BARE_HEX, "123456", "x-signature", razorpay, r#"{"a":1,"b":2,"c":{"d":3}}"#);
    let github = "sha256=e3eccac34c43c7dc1cbb905488b1b81347fcc700a7b025697a9d07862256023f";
    check(GITHUB, "mysecret", "x-hub-signature-256", github, "{\n  \"foo\": \"bar\"\n}\n");
    let github = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    check(GITHUB, "It's a Secret to Everybody", "x-hub-signature-256", github, "Hello, World!");
    check(
        ADYEN,
        "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00",
        "hmacsignature",
        "xhpHvYq2u2Np0rstbZ6QjLGu7JWhvf7Iwaa6EviJSX0=",
        "pspReference:originalReference:merchantAccount:reference:1000:EUR:CAPTURE:true",
    );
}

#[test]
fn each_scheme_has_the_window_that_its_provider_has() {
    let check = |scheme: &str, offset_s: i64, expected: Result<(), &str>| {
        let source = row(scheme, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let headers = source.sign(0, "msg_1", b"{}", NOW);
        let now = Timestamp::from_secs(NOW.secs() + offset_s);
        let verdict = source.verify(&headers, b"{}", now).map(|_| ()).map_err(|rejection| rejection.code());
        assert_eq!(verdict, expected, "{headers:?} {offset_s}");
    };
    let (old, new) = (Err("timestamp_too_old"), Err("timestamp_too_new"));
    check(PADDLE, 5, Ok(()));
    check(PADDLE, 6, old);
    check(PADDLE, -86_400, Ok(()));
    check(STRIPE, 300, Ok(()));
    check(STRIPE, 301, old);
    check(STRIPE, -86_400, Ok(()));
    for two_sided in [STANDARD, RECURLY, ORB] {
        check(two_sided, 300, Ok(()));
        check(two_sided, 301, old);
        check(two_sided, -300, Ok(()));
        check(two_sided, -301, new);
    }
    // A sender that retries with its first timestamp needs a scheme that accepts any age.
    check(GITHUB, 86_400, Ok(()));
    // Zone-less text is UTC, whatever zone the machine is in: six minutes off is six minutes.
    check(ORB, 360, old);
    check(ORB, -360, new);
}

#[test]
fn a_whole_second_is_as_old_as_the_whole_seconds_since() {
    let source = row(PADDLE, "VALID_SECRET");
    let headers = source.sign(0, "", b"{}", NOW);
    let late = |millis| NOW.plus(std::time::Duration::from_millis(millis));
    assert!(source.verify(&headers, b"{}", late(5_999)).is_ok());
    let Err(Rejection::TooOld { by, tolerance, .. }) = source.verify(&headers, b"{}", late(6_000)) else { panic!() };
    assert_eq!((by.as_secs(), tolerance.as_secs()), (6, 5));
}

#[test]
fn a_secret_may_be_meant_in_several_ways() {
    // The same text, once decoded and once whole.
    let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let either = row(POLAR, text);
    let decoded = row(STANDARD, text).sign(0, "msg_1", b"{}", NOW);
    let whole = row(&STANDARD.replace("[\"base64\"]", "[\"utf8\"]"), text).sign(0, "msg_1", b"{}", NOW);
    assert_ne!(decoded, whole);
    for headers in [decoded, whole] {
        assert_eq!(either.verify(&headers, b"{}", NOW).map(|v| v.secret), Ok(0));
    }
    // A text that is no base64 has only the one meaning.
    let odd = row(POLAR, "polar_whs_not-base64");
    assert!(odd.verify(&odd.sign(0, "msg_1", b"{}", NOW), b"{}", NOW).is_ok());
}
