use std::fmt::Write as _;

use super::*;
use crate::http::cursor::{Cursors, List};

/// A world with two payments, one of which has a history.
async fn lived_in() -> World {
    let world = World::new().await;
    world.deliver("msg_1", &payment("pay_1", "pending", 1)).await;
    world.deliver("msg_2", &payment("pay_1", "authorized", 2)).await;
    world.deliver("msg_3", &payment("pay_1", "pending", 1)).await;
    world.deliver("msg_4", &payment("pay/2 ü", "pending", 1)).await;
    world
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn an_entity_is_shown_with_its_state_and_fields() {
    let world = lived_in().await;
    let answer = world.get("/v1/entities/standard/payment/pay_1").await;
    let json = answer.json();
    assert_eq!(json["state"], "authorized");
    assert_eq!(json["states"], serde_json::json!({ "payment": "authorized" }));
    assert_eq!((json["partition"].as_str(), json["version"].as_u64()), (Some("live"), Some(3)));
    assert_eq!(json["order_key"]["time"], "2027-01-15T07:00:02Z");
    assert!(answer.text.contains("\"amount\":12.50"), "{}", answer.text);
}

#[actix_web::test]
async fn an_id_may_hold_anything_that_can_be_percent_encoded() {
    let world = lived_in().await;
    assert_eq!(world.get("/v1/entities/standard/payment/pay%2F2%20%C3%BC").await.json()["id"], "pay/2 ü");
    let answer = world.get("/v1/entities/standard/payment/pay%2F2%20%C3%BC/entries").await;
    assert_eq!(answer.json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(world.get("/v1/entities/standard/payment/pay/2%20%C3%BC").await.code(), "route_not_found");
    let long = "x".repeat(256);
    assert_eq!(world.get(&format!("/v1/entities/standard/payment/{long}")).await.code(), "parameter_invalid");
}

#[actix_web::test]
async fn an_id_in_several_partitions_is_409_and_lists_them() {
    let world = World::new().await;
    for (id, account, live) in [("evt_1", "acct_1", true), ("evt_2", "acct_1", false), ("evt_3", "acct_2", true)] {
        let body = format!(
            r#"{{"id":"{id}","object":"event","type":"charge.succeeded","created":1799999000,"account":"{account}",
                "livemode":{live},"data":{{"object":{{"id":"ch_1","object":"charge","status":"succeeded"}}}}}}"#
        );
        assert_eq!(world.deliver_from("stripe", id, &body).await.status, 200);
    }
    let answer = world.get("/v1/entities/stripe/charge/ch_1").await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "partition_ambiguous"));
    assert_eq!(answer.json()["partitions"], serde_json::json!(["acct_1:live", "acct_1:test", "acct_2:live"]));
    assert_eq!(world.get("/v1/entities/stripe/charge/ch_1/entries").await.status, 409);
    let one = world.get("/v1/entities/stripe/charge/ch_1?partition=acct_1:test").await.json();
    assert_eq!((one["partition"].as_str(), one["state"].as_str()), (Some("acct_1:test"), Some("succeeded")));
    let listed = world.get("/v1/entities?partition=acct_2:live").await.json();
    assert_eq!(ids(&listed), ["ch_1"]);
}

#[actix_web::test]
async fn what_is_not_there_is_404_with_the_reason() {
    let world = lived_in().await;
    let check = async |path: &str, code: &str, detail: &str| {
        let answer = world.get(path).await;
        assert_eq!((answer.status, answer.code().as_str(), answer.detail().as_str()), (404, code, detail), "{path}");
    };
    let unknown = "`standard/payment/pay_9` is not known";
    check("/v1/entities/standard/payment/pay_9", "entity_not_found", unknown).await;
    check("/v1/entities/standard/payment/pay_9/entries", "entity_not_found", unknown).await;
    let unknown = "`standard/payment/pay_1` is not known in partition `test`";
    check("/v1/entities/standard/payment/pay_1?partition=test", "entity_not_found", unknown).await;
    let unknown = "no machine `paymnt` is loaded (did you mean `payment`?)";
    check("/v1/machines/paymnt", "machine_not_found", unknown).await;
    check("/v1/dead-letters/9.9", "dead_letter_not_found", "no dead letter stands at 9.9").await;
    check("/v2/entities", "route_not_found", "nothing is at `/v2/entities`").await;
    check("/", "route_not_found", "nothing is at `/`").await;
}

#[actix_web::test]
async fn entities_are_listed_page_by_page_and_by_state() {
    let world = lived_in().await;
    let all = world.get("/v1/entities").await.json();
    assert_eq!(ids(&all).len(), 2);
    let first = world.get("/v1/entities?limit=1").await.json();
    let next = first["next"].as_str().unwrap();
    let second = world.get(&format!("/v1/entities?limit=1&after={next}")).await.json();
    assert_eq!([ids(&first), ids(&second)].concat(), ids(&all));
    let check = async |query: &str, expected: &[&str]| {
        assert_eq!(ids(&world.get(&format!("/v1/entities?{query}")).await.json()), expected, "{query}");
    };
    check("state=authorized", &["pay_1"]).await;
    check("source=standard&kind=payment&state=pending", &["pay/2 ü"]).await;
    check("source=stripe", &[]).await;
    check("state=captured", &[]).await;
}

#[actix_web::test]
async fn entries_tell_everything_decided_and_can_be_asked_for_by_outcome_and_rule() {
    let world = lived_in().await;
    let lines = async |path: &str| {
        let page = world.get(path).await.json();
        let mut out = String::new();
        for entry in page["items"].as_array().unwrap() {
            let text = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
            let id = entry["entity"]["id"].as_str().unwrap();
            writeln!(out, "{id} {} {} {} -> {}", text("outcome"), text("rule"), text("from"), text("to")).unwrap();
        }
        out
    };
    let history = "pay_1 created created - -> pending\n\
        pay_1 advanced advance pending -> authorized\n\
        pay_1 stale older authorized -> authorized\n";
    assert_eq!(lines("/v1/entities/standard/payment/pay_1/entries").await, history);
    assert_eq!(lines("/v1/entries").await, format!("{history}pay/2 ü created created - -> pending\n"));
    assert_eq!(lines("/v1/entries?outcome=stale").await, "pay_1 stale older authorized -> authorized\n");
    assert_eq!(
        lines("/v1/entries?rule=advance&source=standard").await,
        "pay_1 advanced advance pending -> authorized\n"
    );
    assert_eq!(lines("/v1/entries?kind=invoice").await, "");
}

#[actix_web::test]
async fn filtered_entries_go_on_where_they_stopped() {
    let world = lived_in().await;
    let mut seen = Vec::new();
    let mut path = "/v1/entries?rule=created&limit=1".to_owned();
    loop {
        let page = world.get(&path).await.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|entry| entry["entity"]["id"].to_string()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/entries?rule=created&limit=1&after={next}");
    }
    assert_eq!(seen, ["\"pay_1\"", "\"pay/2 ü\""]);
}

#[actix_web::test]
async fn the_feed_has_moves_only_and_its_cursor_stays() {
    let world = lived_in().await;
    let page = world.get("/v1/transitions").await.json();
    let moves: Vec<_> = page["items"].as_array().unwrap().iter().map(|entry| entry["to"].as_str().unwrap()).collect();
    assert_eq!(moves, ["pending", "authorized", "pending"]);
    let next = page["next"].as_str().unwrap();
    let after = world.get(&format!("/v1/transitions?after={next}")).await.json();
    assert_eq!(after["items"], serde_json::json!([]));
    assert!(after["next"].is_string(), "a follower always has something to go on with");
    world.deliver("msg_5", &payment("pay_1", "captured", 9)).await;
    let after = world.get(&format!("/v1/transitions?wait=30&after={next}")).await.json();
    assert_eq!(after["items"][0]["to"], "captured");
}

#[actix_web::test]
async fn a_follower_that_waits_is_answered_when_something_moves_or_the_server_stops() {
    let world = World::new().await;
    let body = payment("pay_1", "pending", 1);
    let (answer, _) = tokio::join!(world.get("/v1/transitions?wait=30"), world.deliver("msg_1", &body));
    assert_eq!(answer.json()["items"][0]["to"], "pending");
    let next = answer.json()["next"].as_str().unwrap().to_owned();
    let path = format!("/v1/transitions?wait=30&after={next}");
    let (answer, ()) = tokio::join!(world.get(&path), async {
        world.stopping.send_replace(true);
    });
    assert_eq!((answer.status, &answer.json()["items"]), (200, &serde_json::json!([])));
}

#[actix_web::test]
async fn a_dead_letter_is_listed_shown_replayed_and_discarded() {
    let world = World::new().await;
    world.deliver("msg_1", "not json").await;
    world.deliver("msg_2", &payment("pay_1", "unheard_of", 1)).await;
    let list = async || -> Vec<String> {
        let page = world.get("/v1/dead-letters").await.json();
        page["items"].as_array().unwrap().iter().map(|dead| dead["position"].as_str().unwrap().to_owned()).collect()
    };
    let dead = list().await;
    assert_eq!(dead.len(), 2);
    let path = |position: &str, command: &str| format!("/v1/dead-letters/{position}{command}");

    let shown = world.get(&path(&dead[0], "")).await.json();
    assert_eq!(shown["dead_letter"]["attempts"][0]["reason"]["code"], "body_not_json");
    assert_eq!(shown["delivery"]["body"], "not json");
    let answer = world.post(&path(&dead[0], "/replay")).await;
    assert_eq!((answer.status, answer.code().as_str()), (409, "dead_letter_not_replayable"));
    let answer = world.post(&path(&dead[0], "/discard")).await.json();
    assert_eq!((answer["command"].as_str(), answer["by"].as_str()), (Some("discard"), Some("all")));
    assert_eq!(world.post(&path(&dead[0], "/discard")).await.code(), "dead_letter_not_found");

    let answer = world.post(&path(&dead[1], "/replay")).await.json();
    assert_eq!((answer["command"].as_str(), answer["dead_letter"].as_str()), (Some("replay"), Some(dead[1].as_str())));
    world.settled().await;
    assert_ne!(list().await, [dead[1].clone()], "it is judged anew, and is dead again at its command");
    assert_eq!(world.post(&path("x", "/replay")).await.code(), "parameter_invalid");
}

#[actix_web::test]
async fn machines_are_listed_and_shown_with_the_slash_of_their_name() {
    let world = World::new().await;
    let page = world.get("/v1/machines").await.json();
    assert!(page["items"].as_array().unwrap().iter().any(|machine| machine["name"] == "stripe/subscription"));
    for path in ["/v1/machines/stripe/subscription", "/v1/machines/stripe%2Fsubscription"] {
        let machine = world.get(path).await.json();
        assert_eq!(machine["name"], "stripe/subscription", "{path}");
        assert!(!machine["states"].as_array().unwrap().is_empty());
    }
}

#[actix_web::test]
async fn a_parameter_that_is_unknown_or_malformed_is_400() {
    let world = World::new().await;
    let check = async |path: &str, code: &str| {
        let answer = world.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{path}");
    };
    check("/v1/entities?stat=active", "parameter_unknown").await;
    check("/v1/entities/standard/payment/pay_1?wait=1", "parameter_unknown").await;
    check("/v1/entities/stand%20ard/payment/pay_1", "parameter_invalid").await;
    check("/v1/entities?limit=1001", "parameter_invalid").await;
    check("/v1/entities?partition=prod", "parameter_invalid").await;
    check("/v1/entries?outcome=won", "parameter_invalid").await;
    check("/v1/entities?after=x", "cursor_invalid").await;
    // What is long is not said back whole.
    let long = "x".repeat(5000);
    for path in [
        "/{}",
        "/v1/{}",
        "/v1/machines/{}",
        "/v1/entities/{}/k/1",
        "/v1/entries?{}=1",
        "/v1/entries?rule={}",
        "/v1/dead-letters/{}",
    ] {
        let detail = world.get(&path.replace("{}", &long)).await.detail();
        assert!(detail.len() < 500 && detail.contains("xxx…"), "{path}: {detail}");
    }
    let detail = world.post(&format!("/webhooks/{long}")).await.detail();
    assert!(detail.len() < 300, "{detail}");
    // Of a store that this one replaced, and of one that had come further.
    let far = crate::domain::Position { lsn: crate::domain::Lsn(1_000_000), item: 0 };
    for (list, path) in
        [(List::Transitions, "transitions"), (List::Entries, "entries"), (List::DeadLetters, "dead-letters")]
    {
        for store in [[7; 16], [0; 16]] {
            let cursor = Cursors::new(store, far.lsn).write_position(list, far);
            check(&format!("/v1/{path}?after={cursor}"), "cursor_invalid").await;
        }
    }
    check("/v1/entries?after=1.0", "cursor_invalid").await;
    check("/v1/transitions?wait=31", "parameter_invalid").await;
    check("/v1/dead-letters?after=", "cursor_invalid").await;
    check("/v1/dead-letters/x", "parameter_invalid").await;
    check("/v1/machines?limit=1", "parameter_unknown").await;
    check("/metrics?x", "parameter_unknown").await;
}

#[actix_web::test]
async fn health_is_open_and_readiness_ends_with_the_engine() {
    let world = World::new().await;
    let open = async |path: &str| world.call(TestRequest::get().uri(path)).await;
    assert_eq!(open("/healthz").await.json()["status"], "ok");
    assert_eq!(open("/readyz").await.json()["status"], "ready");
    world.stopping.send_replace(true);
    assert_eq!(open("/healthz").await.status, 200);
    assert_eq!((open("/readyz").await.status, open("/readyz").await.code().as_str()), (503, "stopped"));
}
