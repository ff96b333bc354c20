use super::*;

/// A signed delivery that is bent by `bend`, and the code of its refusal.
async fn refused(world: &World, bend: impl FnOnce(TestRequest) -> TestRequest) -> (u16, String) {
    let request = signed(&world.source(), "msg_1", &payment("pay_1", "pending", 1), NOON);
    let answer = world.call(bend(request)).await;
    assert_eq!(world.engine.entries(None, None, 10).await.unwrap().items, [], "a refused request leaves nothing");
    (answer.status, answer.code())
}

#[actix_web::test]
async fn each_fault_of_a_request_has_its_status_and_code() {
    let world = World::new().await;
    let body = payment("pay_1", "pending", 1);
    let source = world.source();
    let at = |secs: i64| Timestamp::from_secs(1_800_000_000 + secs);
    let check = |found: (u16, String), status: u16, code: &str| assert_eq!(found, (status, code.to_owned()));

    check(refused(&world, |request| request.uri("/webhooks/acme")).await, 404, "source_not_found");
    check(refused(&world, |request| request.uri("/webhooks/paddle")).await, 404, "source_not_found");
    check(
        refused(&world, |_| TestRequest::post().uri("/webhooks/standard").set_payload("{}")).await,
        401,
        "signature_missing",
    );
    let garbled = ("webhook-signature", "v1,!");
    check(refused(&world, |request| request.insert_header(garbled)).await, 401, "signature_malformed");
    check(refused(&world, |request| request.set_payload(format!("{body} "))).await, 401, "signature_mismatch");
    check(refused(&world, |_| signed(&source, "msg_1", &body, at(-301))).await, 401, "timestamp_too_old");
    check(refused(&world, |_| signed(&source, "msg_1", &body, at(301))).await, 401, "timestamp_too_new");
    check(refused(&world, |request| request.insert_header(("content-length", "1001"))).await, 413, "body_too_large");
    check(refused(&world, |request| request.set_payload("x".repeat(1001))).await, 413, "body_too_large");
    let gzip = ("content-encoding", "gzip");
    check(refused(&world, |request| request.insert_header(gzip)).await, 415, "body_encoded");
    check(refused(&world, |request| request.method(Method::PUT)).await, 405, "method_not_allowed");
}

#[actix_web::test]
async fn a_stopped_store_is_503_and_says_when_to_come_back() {
    let world = World::new().await;
    world.engine.drain(Duration::from_secs(1)).await.unwrap();
    let answer = world.call(signed(&world.source(), "msg_1", "{}", NOON)).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "stopped"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert_eq!(answer.detail(), "the server is stopping or has stopped writing", "nothing of the inside");
}

#[actix_web::test]
async fn a_delivery_is_accepted_once_then_a_duplicate_then_a_conflict() {
    let world = World::new().await;
    let check = async |body: &str, expected: &str| {
        let answer = world.deliver("msg_1", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let json = answer.json();
        assert_eq!(json["event_id"], "msg_1");
        assert_eq!(json["outcome"], expected);
        json
    };
    let first = check(&payment("pay_1", "pending", 1), "accepted").await;
    let second = check(&payment("pay_1", "pending", 1), "duplicate").await;
    assert_eq!(first["position"], second["position"]);
    let third = check(&payment("pay_1", "captured", 1), "conflict").await;
    assert_eq!(first["position"], third["position"]);
    let dead = third["dead_letter"].as_str().unwrap();
    let shown = world.get(&format!("/v1/dead-letters/{dead}")).await.json();
    assert_eq!(shown["dead_letter"]["attempts"][0]["reason"]["code"], "event_id_reused");
}

#[actix_web::test]
async fn what_is_verified_is_200_whatever_it_says() {
    let world = World::new().await;
    for (id, body) in [
        ("msg_1", "not json"),
        ("msg_2", "{\"type\":\"unheard.of\",\"timestamp\":\"2027-01-15T07:00:00Z\"}"),
        ("msg_3", "{\"type\":\"payment.captured\",\"timestamp\":\"2027-01-15T07:00:00Z\",\"data\":{}}"),
        ("msg_4", "[]"),
        ("msg_5", ""),
    ] {
        let answer = world.deliver(id, body).await;
        assert_eq!(
            (answer.status, answer.json()["outcome"].as_str()),
            (200, Some("accepted")),
            "{body}: {}",
            answer.text
        );
    }
}

#[actix_web::test]
async fn a_body_that_is_plainly_encoded_as_itself_passes() {
    let world = World::new().await;
    let request = signed(&world.source(), "msg_1", &payment("pay_1", "pending", 1), NOON);
    assert_eq!(world.call(request.insert_header(("content-encoding", "identity"))).await.status, 200);
}

#[actix_web::test]
async fn refusals_are_counted_by_source_and_code() {
    let world = World::new().await;
    refused(&world, |request| request.set_payload("{}")).await;
    let metrics = world.get("/metrics").await;
    assert!(
        metrics.text.contains("tollgate_refusals_total{source=\"standard\",code=\"signature_mismatch\"} 1"),
        "{}",
        metrics.text
    );
}
