//! The door: malformed, missing and forged signatures, one by one.

use super::*;

/// The verdict on a request, as its code.
fn verdict(source: &Source, headers: &[(&str, &str)], body: &[u8]) -> Result<u16, &'static str> {
    let headers: Vec<_> = headers.iter().map(|(name, value)| header(name, value)).collect();
    source.verify(&headers, body, NOW).map(|verified| verified.secret).map_err(|rejection| rejection.code())
}

fn signature_of(source: &Source, secret: u16, body: &[u8]) -> String {
    source.sign(secret, "msg_1", body, NOW).pop().unwrap().1
}

#[test]
fn the_stripe_header_is_read_as_stripe_reads_it() {
    let source = shipped("stripe");
    let good = signature_of(&source, 0, b"{}");
    let (stamp, code) = good.split_once(",v1=").unwrap();
    let check = |value: &str, expected| {
        assert_eq!(verdict(&source, &[("stripe-signature", value)], b"{}"), expected, "{value}");
    };
    check(&good, Ok(0));
    let zeros = "0".repeat(64);
    // Several signatures: any may match. Other schemes are passed over, and never count.
    check(&format!("{stamp},v1={zeros},v1={code}"), Ok(0));
    check(&format!("{stamp},v1={code},v0={zeros},v9=x"), Ok(0));
    check(&format!("v1={code},{stamp}"), Ok(0));
    check(&format!("{stamp},v0={code}"), Err("signature_missing"));
    check(stamp, Err("signature_missing"));
    check(&format!("v1={code}"), Err("signature_malformed"));
    // One that is not hexadecimal is skipped; if none is, there is nothing to compare.
    check(&format!("{stamp},v1=zz,v1={code}"), Ok(0));
    check(&format!("{stamp},v1=zz"), Err("signature_malformed"));
    check(&format!("{stamp},v1={}", code.to_uppercase()), Err("signature_malformed"));
    // Too short or too long is a refusal like any other.
    check(&format!("{stamp},v1={}", &code[..62]), Err("signature_mismatch"));
    check(&format!("{stamp},v1={code}00"), Err("signature_mismatch"));
    check(&format!("{stamp},v1="), Err("signature_mismatch"));
    check(&format!("{stamp},v1={zeros}"), Err("signature_mismatch"));
    // Each part is exactly one `name=value`.
    check(&format!("{stamp},v1={code}="), Err("signature_malformed"));
    check(&format!("{stamp},v1={code},x"), Err("signature_malformed"));
    check(&format!("{stamp},{stamp},v1={code}"), Err("signature_malformed"));
    check(&format!("{stamp}, v1={code}"), Err("signature_missing"));
    check("", Err("signature_malformed"));
    for wrong in ["", "-1", "+1780000000", "1780000000.0", "1e9", "９", "99999999999999999999", "9223372037", " 1"] {
        check(&format!("t={wrong},v1={code}"), Err("signature_malformed"));
    }
    // Another time of signing is another message.
    check(&format!("t=1780000001,v1={code}"), Err("signature_mismatch"));
}

#[test]
fn a_header_that_is_missing_or_doubled_is_refused() {
    let source = shipped("standard");
    let signed = source.sign(0, "msg_1", b"{}", NOW);
    let all: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(verdict(&source, &all, b"{}"), Ok(0));
    for i in 0..all.len() {
        let mut fewer = all.clone();
        fewer.remove(i);
        assert_eq!(verdict(&source, &fewer, b"{}"), Err("signature_missing"), "without {:?}", all[i]);
        let mut more = all.clone();
        more.push(all[i]);
        assert_eq!(verdict(&source, &more, b"{}"), Err("signature_malformed"), "twice {:?}", all[i]);
    }
    assert_eq!(verdict(&source, &[], b"{}"), Err("signature_missing"));
}

#[test]
fn the_header_that_is_missing_is_the_one_that_is_named() {
    let check = |name: &str, came: &[&str], expected: &str| {
        let headers: Vec<_> = came.iter().map(|name| header(name, "1")).collect();
        let found = shipped(name).verify(&headers, b"{}", NOW).unwrap_err();
        assert_eq!((found.code(), found.to_string().as_str()), ("signature_missing", expected), "{came:?}");
    };
    check("stripe", &[], "header `stripe-signature`: it did not come");
    check("standard", &["webhook-timestamp", "webhook-signature"], "header `webhook-id`: it did not come");
    check("standard", &["webhook-id", "webhook-signature"], "header `webhook-timestamp`: it did not come");
    check("standard", &["webhook-id", "webhook-timestamp"], "header `webhook-signature`: it did not come");
    check("standard", &["webhook-signature"], "header `webhook-id`: it did not come");
    check("flexprice", &[], "header `svix-signature` or `webhook-signature`: it did not come");
    check("flexprice", &["svix-id", "webhook-id", "webhook-signature"], "header `webhook-timestamp`: it did not come");
    check("flexprice", &["svix-timestamp", "svix-signature"], "header `svix-id`: it did not come");
}

#[test]
fn the_list_of_standard_webhooks_is_read_as_its_libraries_read_it() {
    let source = shipped("standard");
    let good = signature_of(&source, 0, b"{}");
    let check_with = |id: &str, stamp: &str, value: &str, expected| {
        let headers = [("webhook-id", id), ("webhook-timestamp", stamp), ("webhook-signature", value)];
        assert_eq!(verdict(&source, &headers, b"{}"), expected, "{headers:?}");
    };
    let check = |value: &str, expected| check_with("msg_1", "1780000000", value, expected);
    check(&good, Ok(0));
    check(&format!("v1,AAAA v1a,AAAA v2,x {good}"), Ok(0));
    check(&good.replace("v1,", "v2,"), Err("signature_missing"));
    check(&good.replace("v1,", ""), Err("signature_missing"));
    check(&good.replace('=', ""), Err("signature_malformed"));
    check("v1,", Err("signature_mismatch"));
    check(&vec![good.as_str(); 32].join(" "), Ok(0));
    check(&vec![good.as_str(); 33].join(" "), Err("signature_malformed"));
    check(&"x".repeat(9000), Err("signature_malformed"));
    check_with("msg_2", "1780000000", &good, Err("signature_mismatch"));
    check_with("msg_1", "-1780000000", &good, Err("signature_malformed"));
    check_with("", "1780000000", &good, Err("signature_malformed"));
}

#[test]
fn the_signed_bytes_cannot_be_cut_in_another_place() {
    // A sender that puts a dot into an id could be made to vouch for another id and timestamp.
    let source = shipped("standard");
    let signed = source.sign(0, "msg.1780000000", b"{}", NOW);
    let code = signed[2].1.as_str();
    let cut = [("webhook-id", "msg"), ("webhook-timestamp", "1780000000"), ("webhook-signature", code)];
    assert_eq!(verdict(&source, &cut, b"1780000000.{}"), Ok(0), "the same bytes, cut elsewhere");
    let whole: Vec<_> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(verdict(&source, &whole, b"{}"), Err("signature_malformed"), "so no id with a dot is let in");
    // And what was cut elsewhere is no JSON object, so it names no entity.
    let headers: Vec<_> = cut.iter().map(|(name, value)| header(name, value)).collect();
    assert!(fate(&source.map(&headers, b"1780000000.{}", NOW)[0]).starts_with("body_not_json"));
}

#[test]
fn svix_headers_may_come_under_either_name_and_the_id_is_the_verified_one() {
    let source = shipped("flexprice");
    let body = br#"{"event_type":"wallet.created","wallet":{"id":"w_1","wallet_status":"active"}}"#;
    let branded = source.sign(0, "msg_1", body, NOW);
    assert_eq!(branded[0], header("svix-id", "msg_1"));
    let plain: Vec<_> = branded.iter().map(|(name, value)| header(&name.replace("svix", "webhook"), value)).collect();
    let check = |headers: &[(String, String)], id: &str| {
        let verified = source.verify(headers, body, NOW).unwrap();
        assert_eq!(verified.id.as_deref(), Some(id));
        assert_eq!(source.map(headers, body, NOW)[0].event.id.as_str(), id);
    };
    check(&branded, "msg_1");
    check(&plain, "msg_1");
    // A copied request with another id in a header that is not verified stays the same event.
    let mut forged = plain.clone();
    forged.insert(0, header("svix-id", "msg_2"));
    check(&forged, "msg_1");
}

#[test]
fn any_secret_may_match_and_the_answer_says_which() {
    let old = "whsec_tollgate_old_secret";
    let source = compile(&shipped_spec("stripe"), &[old, PLAIN_SECRET]);
    for secret in [0, 1] {
        let value = signature_of(&source, secret, b"{}");
        assert_eq!(verdict(&source, &[("stripe-signature", &value)], b"{}"), Ok(secret));
    }
    // Both signatures in one header, as during a roll.
    let both = format!("{},{}", signature_of(&source, 1, b"{}"), &signature_of(&source, 0, b"{}")[13..]);
    assert_eq!(verdict(&source, &[("stripe-signature", &both)], b"{}"), Ok(0));
    // The secret of another endpoint.
    let other = compile(&shipped_spec("stripe"), &["whsec_tollgate_thin_secret"]);
    let value = signature_of(&other, 0, b"{}");
    assert_eq!(verdict(&source, &[("stripe-signature", &value)], b"{}"), Err("signature_mismatch"));
    assert!(source.sign(2, "msg_1", b"{}", NOW).is_empty());
}

#[test]
fn every_h1_of_a_paddle_rotation_is_tried_with_every_secret() {
    let source = compile(&shipped_spec("paddle"), &["pdl_ntfset_old_0123456789", "pdl_ntfset_new_0123456789"]);
    let code = |secret| signature_of(&source, secret, b"{}").split_once("h1=").unwrap().1.to_owned();
    let zeros = "0".repeat(64);
    let check = |codes: &[&str], expected| {
        let value = format!("ts=1780000000;h1={}", codes.join(";h1="));
        assert_eq!(verdict(&source, &[("paddle-signature", &value)], b"{}"), expected, "{value}");
    };
    check(&[&code(0), &zeros], Ok(0));
    check(&[&zeros, &code(1)], Ok(1));
    check(&[&zeros, &zeros], Err("signature_mismatch"));
}

#[test]
fn a_secret_counts_only_within_its_times() {
    let secrets = SigningSecret::from_variable(&format!(
        "{PLAIN_SECRET} not_after=2026-05-28T20:26:40Z,whsec_tollgate_new_secret not_before=2026-05-28T20:26:40Z"
    ));
    let secrets = Secrets { signing: secrets.unwrap(), ..Secrets::default() };
    let source = Source::compile(&shipped_spec("stripe"), &secrets).unwrap();
    let check = |secret, now: Timestamp, expected| {
        let headers = source.sign(secret, "", b"{}", NOW);
        assert_eq!(source.verify(&headers, b"{}", now).map(|v| v.secret).map_err(|e| e.code()), expected);
    };
    let before = Timestamp::from_nanos(NOW.nanos() - 1);
    check(0, before, Ok(0));
    check(0, NOW, Err("signature_mismatch"));
    check(1, before, Err("signature_mismatch"));
    check(1, NOW, Ok(1));
}

#[test]
fn the_code_is_judged_before_the_clock() {
    // A stranger must not learn from the answer how our clock stands.
    let source = shipped("stripe");
    let stale = format!("t=1000000000,v1={}", "0".repeat(64));
    assert_eq!(verdict(&source, &[("stripe-signature", &stale)], b"{}"), Err("signature_mismatch"));
    let headers = source.sign(0, "", b"{}", Timestamp::from_secs(1_000_000_000));
    assert_eq!(verdict(&source, &[("stripe-signature", &headers[0].1)], b"{}"), Err("timestamp_too_old"));
}

#[test]
fn rejections_say_what_was_wrong_and_nothing_of_secrets() {
    let source = shipped("paddle");
    let text = |headers: &[(String, String)]| source.verify(headers, b"{}", NOW).unwrap_err().to_string();
    let at = |secs| source.sign(0, "", b"{}", Timestamp::from_secs(secs));
    assert_eq!(text(&[]), "header `paddle-signature`: it did not come");
    assert_eq!(
        text(&[header("paddle-signature", "ts=1;h1=zz")]),
        "header `paddle-signature`: no signature in it is well formed"
    );
    assert_eq!(text(&at(1_779_999_000)), "signed at 2026-05-28T20:10:00Z, 1000 s ago; at most 5 s are accepted");
    let mut forged = at(NOW.secs());
    forged[0].1.pop();
    forged[0].1.pop();
    assert_eq!(
        text(&forged),
        "no signature matches; compare the endpoint's signing secret, and pass the body on unchanged"
    );
}

#[test]
fn a_delivery_keeps_the_raw_bytes_and_the_headers_that_matter() {
    let source = shipped("standard");
    let body = br#"{"type":"payment.captured","n":"\u00e9\ud83d\ude00"}"#;
    let mut headers = source.sign(0, "msg_1", body, NOW);
    headers.push(header("content-type", "application/json"));
    headers.push(header("cookie", "session=1"));
    headers.push(header("authorization", "Bearer x"));
    let verified = source.verify(&headers, body, NOW).unwrap();
    let delivery = source.deliver(&verified, &headers, Bytes::from_static(body), NOW);
    assert_eq!(&delivery.body[..], body);
    assert_eq!(delivery.body_sha256, <[u8; 32]>::from(Sha256::digest(body)));
    assert_eq!((delivery.source.as_str(), delivery.received_at, delivery.secret), ("standard", NOW, 0));
    let names: Vec<_> = delivery.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["webhook-id", "webhook-timestamp", "webhook-signature", "content-type"]);
    // What was kept maps to the same events: a replay reads the delivery anew, and asks for no fresh timestamp.
    assert_eq!(source.map(&delivery.headers, &delivery.body, delivery.received_at), delivery.items);
}
