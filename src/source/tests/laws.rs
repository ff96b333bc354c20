//! Laws that hold for any bytes.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| SHIPPED.iter().map(|(name, _)| shipped(name)).collect());

fn any_source() -> impl Strategy<Value = &'static Source> {
    (0..SHIPPED.len()).prop_map(|i| &SOURCES[i])
}

/// Headers with real and odd names, and real-looking and odd values.
fn any_headers() -> impl Strategy<Value = Vec<(String, String)>> {
    let names = "(stripe-signature|paddle-signature|(svix|webhook)-(id|timestamp|signature)|x)";
    let values = prop_oneof![
        ".{0,40}",
        "(t|ts|v1|h1|,|;|=|[0-9]|[a-f]){0,40}",
        "(v1,[A-Za-z0-9+/]{43}= ?){0,40}",
        "-?[0-9]{0,25}",
        Just("1780000000".to_owned()),
    ];
    proptest::collection::vec((names, values), 0..8)
}

/// Bodies from nonsense to nearly right.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("null".to_owned()),
        "-?[0-9]{1,25}(\\.[0-9]{1,12})?(e-?[0-9]{1,4})?",
        "\"(paid|active|sub_1|v2\\.core\\.event|\\\\ud800|2026-05-28T20:00:00Z|[a-z]{0,80})\"",
        "\\{(\"(id|status|type|object)\":(\"x\"|1|null|\\{\\}))?\\}",
        "\\[([0-9]|\\{\\}|\"\"){0,1}\\]",
    ];
    let key = "(id|event_id|type|event_type|created|occurred_at|timestamp|livemode|account|data|object|wallet|status)";
    let flat = proptest::collection::vec((key, value), 0..8).prop_map(|pairs| {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        pairs.join(",")
    });
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        flat.clone().prop_map(|flat| format!("{{{flat}}}").into_bytes()),
        (flat.clone(), flat, "(invoice.paid|subscription.updated|wallet.frozen|charge.refunded)").prop_map(
            |(outer, inner, kind)| {
                let object = format!("{{\"id\":\"x_1\",{inner}}}").replace(",}", "}");
                format!(
                    "{{{}\"type\":\"{kind}\",\"event_type\":\"{kind}\",\"data\":{{\"object\":{object}}},\"wallet\":{object}}}",
                    if outer.is_empty() { String::new() } else { format!("{outer},") }
                )
                .into_bytes()
            }
        ),
    ]
}

proptest! {
    #[test]
    fn verify_and_map_take_any_bytes(source in any_source(), headers in any_headers(), body in any_body()) {
        let _ = source.verify(&headers, &body, NOW);
        let items = source.map(&headers, &body, NOW);
        prop_assert!(!items.is_empty());
        for item in &items {
            prop_assert!(!item.event.id.as_str().is_empty() && item.event.id.as_str().len() <= 255);
            prop_assert!(item.event.event_type.len() <= 255);
            prop_assert_eq!(item.digest, item.event.digest());
            prop_assert!(item.admit != Admit::Queue || !item.event.claims.is_empty());
            prop_assert!(item.event.claims.values().all(|claim| claim.parts().1.len() <= 64));
            prop_assert!(item.event.fields.values().all(|value| value.as_str().len() <= FIELD_LEN_MAX));
            prop_assert!(item.event.entity.as_ref().is_none_or(|key| !key.id.is_empty() && key.id.len() <= 255));
        }
        prop_assert_eq!(&items, &source.map(&headers, &body, NOW));
    }

    #[test]
    fn what_is_signed_verifies(
        source in any_source(),
        id in "[A-Za-z0-9_-]{1,40}",
        body in proptest::collection::vec(any::<u8>(), 0..256),
        at in 0_i64..9_000_000_000,
        lag_s in 0_i64..=5,
    ) {
        let headers = source.sign(0, &id, &body, Timestamp::from_secs(at));
        let verified = source.verify(&headers, &body, Timestamp::from_secs(at + lag_s));
        let verified = verified.map_err(|rejection| TestCaseError::fail(rejection.to_string()))?;
        prop_assert_eq!(verified.secret, 0);
        prop_assert_eq!(verified.signed_at, Some(Timestamp::from_secs(at)));
        prop_assert!(verified.id.is_none_or(|given| given == id));
    }

    #[test]
    fn one_changed_byte_is_refused(
        source in any_source(),
        body in proptest::collection::vec(any::<u8>(), 1..256),
        place in any::<proptest::sample::Index>(),
        bit in 0_u32..8,
        in_headers in any::<bool>(),
    ) {
        let mut headers = source.sign(0, "msg_1", &body, NOW);
        let mut body = body;
        if in_headers {
            let header = place.index(headers.len());
            let mut bytes = headers[header].1.clone().into_bytes();
            let byte = place.index(bytes.len());
            bytes[byte] ^= 1 << (bit % 7);
            headers[header].1 = String::from_utf8(bytes).unwrap();
        } else {
            let byte = place.index(body.len());
            body[byte] ^= 1 << bit;
        }
        prop_assert!(source.verify(&headers, &body, NOW).is_err(), "{:?}", headers);
    }

    #[test]
    fn added_keys_leave_the_digest_alone(
        extra in proptest::collection::btree_map("x_[a-z]{1,6}", "0|[1-9][0-9]{0,4}|\"[a-z]{0,5}\"|null|\\[\\]|\\{\\}", 0..6),
        spaces in "[ \n\t]{0,3}",
    ) {
        let extra: Vec<_> = extra.iter().map(|(key, value)| format!(",{spaces}\"{key}\":{value}")).collect();
        let extra = extra.concat();
        let body = |extra: &str| format!(
            r#"{{"id":"evt_1","type":"customer.subscription.updated","created":1779999990{extra},"data":{{"object":{{"id":"sub_1","status":"active","items":{{"data":[{{"price":{{"id":"p"{extra}}}{extra}}}]{extra}}}{extra}}}{extra}}}}}"#
        );
        let digest = |body: String| shipped("stripe").map(&[], body.as_bytes(), NOW)[0].digest;
        prop_assert_eq!(digest(body("")), digest(body(&extra)));
    }
}
