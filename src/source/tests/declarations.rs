//! Declarations that do not fit together: every problem is told, by its key.

use super::*;

/// The problems of a shipped file with one text replaced by another.
fn changed(name: &str, from: &str, to: &str) -> String {
    let (_, toml) = SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap();
    assert!(toml.contains(from), "{from}");
    let secret = if name == "standard" { STANDARD_SECRET } else { PLAIN_SECRET };
    problems(&spec(&toml.replacen(from, to, 1)), &with_secrets(&[secret]))
}

/// A change of a shipped file that must give this problem.
fn check(name: &str, from: &str, to: &str, expected: &str) {
    let found = changed(name, from, to);
    let expected = format!("source `{name}`: {expected}");
    assert!(found.contains(&expected), "`{to}` gives `{found}`, not `{expected}`");
}

#[test]
fn signatures_that_do_not_fit_are_told_by_their_key() {
    let rows = [
        (
            "stripe",
            "{timestamp}.{body}",
            "{timestmp}.{body}",
            "signature.signed: `{timestmp}` is not known (did you mean `timestamp`?)",
        ),
        ("stripe", "{timestamp}.{body}", "{timestamp}.", "signature.signed: `{body}` must stand in it once"),
        ("stripe", "{timestamp}.{body}", "{body}{body}{timestamp}", "signature.signed: `{body}` must stand in it once"),
        ("stripe", "{timestamp}.{body}", "{timestamp", "signature.signed: a `{` has no `}`"),
        (
            "stripe",
            "{timestamp}.{body}",
            "{body}",
            "signature.signed: the timestamp is read but not signed, so it proves nothing",
        ),
        (
            "stripe",
            "{timestamp}.{body}",
            "{body}",
            "signature.window: no timestamp is signed, so only `none` is possible",
        ),
        (
            "stripe",
            "{timestamp}.{body}",
            "{url}{timestamp}.{body}",
            "signature.url: it is needed, since `{url}` is signed",
        ),
        ("stripe", "timestamp = \"t\"\n", "", "signature.signed: nothing gives `{timestamp}`"),
        ("stripe", "signatures = [\"v1\"]", "signatures = []", "signature.parse.signatures: it is empty"),
        ("stripe", "separator = \",\"", "separator = \"\"", "signature.parse.separator: it must not be empty"),
        ("stripe", "key_decode = [\"utf8\"]", "key_decode = []", "signature.key_decode: it is empty"),
        ("stripe", "key_len_min = 16", "key_len_min = 0", "signature.key_len_min: it must be at least 1"),
        (
            "stripe",
            "tolerance_s = 300",
            "tolerance_s = 0",
            "signature.tolerance_s: it must be at least 1; to accept any age, set the window to `none`",
        ),
        (
            "stripe",
            "window = \"one_sided\"",
            "window = \"none\"",
            "signature.tolerance_s: it says nothing with the window `none`",
        ),
        (
            "stripe",
            "\"stripe-signature\"",
            "\"stripe signature\"",
            "signature.headers: `stripe signature` is not the name of a header",
        ),
        (
            "standard",
            "{id}.{timestamp}.{body}",
            "{id}{timestamp}.{body}",
            "signature.signed: `{id}` needs a separator behind it",
        ),
        (
            "standard",
            "{id}.{timestamp}.{body}",
            "{timestamp}.{body}",
            "signature.headers: an id header is needed exactly if `{id}` is signed",
        ),
        ("standard", "labels = [\"v1\"]", "", "signature.parse.labels: `labels` and `label_separator` need each other"),
    ];
    for (name, from, to, expected) in rows {
        check(name, from, to, expected);
    }
}

#[test]
fn events_and_entities_that_do_not_fit_are_told_by_their_key() {
    let rows = [
        ("stripe", "id = [\"/id\"]", "id = [\"id\"]", "event.id: `id` is not a JSON pointer; it must start with `/`"),
        (
            "stripe",
            "id = [\"/id\"]",
            "id = [\"header:x-id\"]",
            "event.id: header `x-id` is not signed: anybody who copies a request can change it",
        ),
        ("stripe", "time = [\"/created\"]", "", "event.time_unit: it is needed exactly if `time` is given"),
        ("paddle", "[\"subscription.*\"]", "[]", "entities.subscription.types: no event is about this kind"),
        (
            "stripe",
            "types = [\"invoice.*\"]",
            "types = [\"charge.*\"]",
            "entities: types: the pattern `charge.*` is there twice",
        ),
        ("stripe", "types = [\"invoice.*\"]", "types = [\"*.*.*\"]", "entities: types: `*.*.*` is not a pattern"),
        (
            "stripe",
            "= \"observed:canceled\"",
            "= \"observe:canceled\"",
            "entities.subscription.machines.stripe/subscription.fallback: `customer.subscription.deleted`: `observe:canceled` is not a claim; expected `observed:STATE`",
        ),
        (
            "stripe",
            "state = [\"/status\"]",
            "state = [\"status\"]",
            "entities.subscription.machines.stripe/subscription.state: `status` is not a JSON pointer",
        ),
    ];
    for (name, from, to, expected) in rows {
        check(name, from, to, expected);
    }
}

#[test]
fn upstreams_that_do_not_fit_are_told_by_their_key() {
    let rows = [
        (
            "stripe",
            "/v1/subscriptions/{id}",
            "/v1/subscriptions",
            "entities.subscription.upstream.path: `/v1/subscriptions` must start with `/` and hold `{id}` once",
        ),
        (
            "stripe",
            "/v1/subscriptions/{id}",
            "/v1/{ids}/{id}",
            "entities.subscription.upstream.path: `{ids}` is not known (did you mean `id`?)",
        ),
        (
            "stripe",
            "\"{account}\"",
            "\"{acount}\"",
            "upstream.headers.Stripe-Account: `{acount}` is not known (did you mean `account`?)",
        ),
        (
            "stripe",
            "https://api.stripe.com",
            "api.stripe.com",
            "upstream.base_url: this is not a base address; expected `https://HOST`",
        ),
        (
            "stripe",
            "https://api.stripe.com",
            "https://user@api.stripe.com",
            "upstream.base_url: this is not a base address",
        ),
        (
            "stripe",
            "auth = \"bearer\"",
            "auth = \"header\"",
            "upstream.auth_header: it is needed exactly if `auth` is `header`",
        ),
        ("stripe", "rate_per_s = 20", "rate_per_s = 0", "upstream.rate_per_s: it must be at least 1"),
        (
            "paddle",
            "updated_at_unit = \"rfc3339\"\n",
            "",
            "entities.subscription.upstream.updated_at_unit: it is needed exactly if `updated_at` is given",
        ),
        (
            "paddle",
            "\npath = \"/subscriptions/{id}\"",
            "\npath = \"subscriptions/{id}\"",
            "entities.subscription.upstream.path: `subscriptions/{id}` must start with `/`",
        ),
    ];
    for (name, from, to, expected) in rows {
        check(name, from, to, expected);
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let mut spec = shipped_spec("stripe");
    spec.signature.tolerance_s = None;
    spec.event.id = vec!["id".to_owned()];
    spec.upstream = None;
    let found = problems(&spec, &with_secrets(&[]));
    for key in ["secrets:", "signature.tolerance_s:", "event.id:", "entities.invoice.upstream:"] {
        assert!(found.contains(key), "{found}");
    }
}

#[test]
fn the_form_knows_its_keys_and_words() {
    let check = |from: &str, to: &str, expected: &str| {
        let (_, toml) = SHIPPED.iter().find(|(name, _)| *name == "stripe").unwrap();
        assert!(toml.contains(from), "{from}");
        let error = toml::from_str::<SourceSpec>(&toml.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("tolerance_s = 300", "tolerance = 300", "unknown field `tolerance`");
    check(
        "window = \"one_sided\"",
        "window = \"both\"",
        "unknown variant `both`, expected one of `one_sided`, `two_sided`, `none`",
    );
    check("time_unit = \"unix_s\"", "time_unit = \"s\"", "unknown variant `s`");
    check("timestamp = \"t\"", "time = \"t\"", "unknown field `time`");
    check("\nform = \"pairs\"", "\nform = \"pair\"", "unknown variant `pair`");
    check("state = [\"/status\"]", "states = [\"/status\"]", "unknown field `states`");
    check("tolerance_s = 300", "tolerance_s = -1", "invalid value");
}

#[test]
fn a_header_that_is_not_signed_must_be_trusted_explicitly() {
    let toml = r#"
name = "razorpay"
[signature]
headers = [{ signature = "X-Razorpay-Signature" }]
parse = { form = "plain" }
key_decode = ["utf8"]
signed = "{body}"
encoding = "hex"
window = "none"
[event]
id = ["header:X-Razorpay-Event-Id"]
type = ["/event"]
trust_unsigned_headers = true
"#;
    let source = compile(&spec(toml), &[PLAIN_SECRET]);
    let mut headers = source.sign(0, "", b"{}", NOW);
    headers.push(header("x-razorpay-event-id", "ev_1"));
    assert_eq!(source.map(&headers, b"{}", NOW)[0].event.id.as_str(), "ev_1");
    let delivery = source.deliver(&source.verify(&headers, b"{}", NOW).unwrap(), &headers, Bytes::from("{}"), NOW);
    assert!(delivery.headers.contains(&header("x-razorpay-event-id", "ev_1")), "a replay needs it");
    let refused = problems(&spec(&toml.replace("= true", "= false")), &with_secrets(&[PLAIN_SECRET]));
    assert!(refused.contains("header `x-razorpay-event-id` is not signed"), "{refused}");
}
