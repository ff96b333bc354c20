//! The files that come with the binary.

use super::*;

#[test]
fn every_shipped_file_is_named_for_its_source_and_compiles() {
    for (name, toml) in SHIPPED {
        let spec = spec(toml);
        assert_eq!(spec.name.as_str(), name);
        assert_eq!(shipped(name).name().as_str(), name);
        assert!(toml.lines().all(|line| line.len() <= 120), "{name}");
    }
}

#[test]
fn the_shipped_sources_cover_these_kinds_and_machines() {
    let mut lines = Vec::new();
    for (name, _) in SHIPPED {
        let source = shipped(name);
        for kind in source.kinds() {
            let machines: Vec<_> = source.machines_of(kind).iter().map(MachineName::as_str).collect();
            lines.push(format!("{name} {kind}: {}", machines.join(", ")));
        }
    }
    let expected = [
        "flexprice wallet: flexprice/wallet",
        "paddle adjustment: paddle/adjustment",
        "paddle subscription: paddle/subscription",
        "paddle transaction: paddle/transaction",
        "standard credit_wallet: credit_wallet",
        "standard payment: payment",
        "stripe charge: stripe/charge",
        "stripe checkout_session: stripe/checkout_payment, stripe/checkout_session",
        "stripe dispute: stripe/dispute",
        "stripe invoice: stripe/invoice",
        "stripe payment_intent: stripe/payment_intent",
        "stripe refund: stripe/refund",
        "stripe subscription: stripe/subscription",
    ];
    assert_eq!(lines, expected);
    assert!(shipped("stripe").machines_of(&Kind::new("customer")).is_empty());
}

#[test]
fn the_shipped_sources_read_their_secrets_from_these_variables() {
    let variables = |name: &str| {
        let spec = shipped_spec(name);
        (spec.secrets_env, spec.upstream.and_then(|upstream| upstream.api_key_env))
    };
    let check = |name: &str, secrets: &str, api_key: Option<&str>| {
        assert_eq!(variables(name), (Some(secrets.to_owned()), api_key.map(str::to_owned)));
    };
    check("stripe", "STRIPE_WEBHOOK_SECRET", Some("STRIPE_API_KEY"));
    check("paddle", "PADDLE_WEBHOOK_SECRET", Some("PADDLE_API_KEY"));
    check("flexprice", "FLEXPRICE_WEBHOOK_SECRET", Some("FLEXPRICE_API_KEY"));
    check("standard", "STANDARD_WEBHOOK_SECRET", None);
}

#[test]
fn shipped_tolerances_are_those_of_the_providers() {
    let tolerance = |name| shipped_spec(name).signature.tolerance_s;
    assert_eq!(
        ["stripe", "paddle", "flexprice", "standard"].map(tolerance),
        [Some(300), Some(5), Some(300), Some(300)]
    );
}

#[test]
fn a_declaration_survives_being_written_and_read() {
    for (name, _) in SHIPPED {
        let spec = shipped_spec(name);
        let written = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<SourceSpec>(&written).unwrap(), spec);
    }
}

#[test]
fn flexprice_events_about_other_things_do_not_touch_the_wallet() {
    let check = |body: &str, entity: Option<&str>, claims: &str| {
        let item = deliver(&shipped("flexprice"), body);
        assert_eq!(item.event.entity.as_ref().map(ToString::to_string).as_deref(), entity, "{body}");
        assert_eq!(claim(&item.event), claims);
    };
    let wallet = r#""wallet":{"id":"w_1","wallet_status":"frozen","credit_balance":"12.500"}"#;
    let about = Some("flexprice/wallet/w_1");
    // The body is younger than the event's name.
    check(&format!(r#"{{"event_type":"wallet.created",{wallet}}}"#), about, "flexprice/wallet observed(frozen)");
    check(
        &format!(r#"{{"event_type":"wallet.ongoing_balance.dropped",{wallet}}}"#),
        about,
        "flexprice/wallet observed(frozen)",
    );
    check(&format!(r#"{{"event_type":"wallet.transaction.created","transaction":{{"id":"t_1"}},{wallet}}}"#), None, "");
    check(&format!(r#"{{"event_type":"payment.success",{wallet}}}"#), None, "");
    check(r#"{"event_type":"wallet.terminated","wallet":{"id":"w_1"}}"#, about, "flexprice/wallet observed(closed)");
}

#[test]
fn paddle_events_are_ordered_to_the_microsecond() {
    let at = |time: &str| {
        let body = format!(
            r#"{{"event_id":"evt_{time}","notification_id":"ntf_1","event_type":"transaction.updated","occurred_at":"2026-05-28T20:00:0{time}Z","data":{{"id":"txn_1","status":"paid"}}}}"#
        );
        deliver(&shipped("paddle"), &body).event.order_key
    };
    let later = at("1.600001").compare(&at("1.600000"), std::time::Duration::from_secs(5));
    assert_eq!(later, crate::domain::order::Order::Newer);
}
