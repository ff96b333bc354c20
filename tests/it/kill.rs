//! kill -9 at random moments under load: what was acknowledged is there, nothing was decided twice, checks survive, and
//! every entity ends as in a run without kills.
//!
//! `TOLLGATE_KILL_ROUNDS` says how many rounds (25 without it).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use serde_json::Value;
use tollgate::engine::clock::{Clock, SystemClock};

use crate::load::{Load, random, source, told};
use crate::server::{STRIPE_SECRET, Server, post};

const SENDERS: usize = 6;

#[test]
fn a_server_killed_at_random_loses_nothing_and_decides_nothing_twice() {
    let rounds = told("TOLLGATE_KILL_ROUNDS", 25);
    // In many rounds there is more to send, so that each has its share.
    let payments = 300.max(rounds * 20);
    let data = tempfile::tempdir().unwrap();
    let upstream = upstream();
    let environment = environment(upstream);
    let load = Load::of_payments(payments, 0);
    let queue = load.shuffled();
    let next = AtomicUsize::new(0);

    let server = Server::start(data.path(), &environment);
    let check = set_a_check(&server);
    server.kill();
    let mut seed = 7;
    for round in 0..rounds {
        if round % 3 == 0 {
            // One that is killed while it starts, wherever it is by then.
            let server = Server::spawn(data.path(), &environment);
            std::thread::sleep(Duration::from_millis(random(&mut seed) % 150));
            server.kill();
        }
        let server = Server::start(data.path(), &environment);
        assert_eq!(check_of(&server).as_ref(), Some(&check), "round {round}: the check is another, or gone");
        // A round may send its share, and is cut off somewhere in it.
        let until = queue.len() * (round + 1) / rounds;
        let address = server.address();
        std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| load.send(address, &queue, &next, until));
            }
            std::thread::sleep(Duration::from_millis(random(&mut seed) % 120));
            server.kill();
        });
    }
    let server = Server::start(data.path(), &environment);
    // What was not acknowledged is sent again, as senders do.
    let during = load.acknowledged();
    load.send_all(server.address());
    server.settle();
    let kept = load.assert_kept(&server);
    println!("{rounds} rounds, {during} events acknowledged in them: {kept:?}");
    let killed = end_of(&server);
    assert_eq!(killed.len(), payments);
    server.kill();
    let (sound, why) = Server::check(data.path());
    assert!(sound, "{why}");

    let calm = tempfile::tempdir().unwrap();
    let server = Server::start(calm.path(), &environment);
    let again = Load::of_payments(payments, 0);
    again.send(server.address(), &queue, &AtomicUsize::new(0), queue.len());
    server.settle();
    assert_eq!(killed, end_of(&server), "the entities differ from a run without kills");
}

/// What each payment ended as.
fn end_of(server: &Server) -> BTreeMap<String, Value> {
    let entities = server.all("/v1/entities").into_iter().filter(|entity| entity["kind"] == "payment");
    let end = |entity: Value| {
        let id = entity["id"].as_str().unwrap().to_owned();
        (id, serde_json::json!([entity["states"], entity["order_key"], entity["fields"], entity["flags"]]))
    };
    entities.map(end).collect()
}

/// A tie that the upstream answers unlike the claim: a check is due in an hour. Answers it.
fn set_a_check(server: &Server) -> Value {
    let source = source("stripe", STRIPE_SECRET);
    for (id, status) in [("evt_1", "active"), ("evt_2", "past_due")] {
        let body = format!(
            r#"{{"id":"{id}","object":"event","type":"customer.subscription.updated","created":1700000000,"livemode":true,"data":{{"object":{{"id":"sub_1","status":"{status}"}}}}}}"#
        );
        let headers = source.sign(0, id, body.as_bytes(), SystemClock.now());
        let (status, answer) = post(server.address(), "stripe", &headers, body.as_bytes()).unwrap();
        assert_eq!(status, 200, "{answer}");
    }
    server.settle();
    check_of(server).filter(|check| !check.is_null()).expect("a check was set")
}

fn check_of(server: &Server) -> Option<Value> {
    let (status, entity) = server.get("/v1/entities/stripe/subscription/sub_1")?;
    (status == 200).then(|| entity["check"].clone())
}

fn environment(upstream: SocketAddr) -> Vec<(&'static str, String)> {
    vec![
        ("STRIPE_API_KEY", "sk_kill_test_0001".to_owned()),
        ("TOLLGATE__SOURCES__STRIPE__UPSTREAM__BASE_URL", format!("http://{upstream}")),
        ("TOLLGATE__ENGINE__CONFIRM_AFTER", "1h".to_owned()),
    ]
}

/// An upstream that answers `active` to everything, for as long as the test runs.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let body = r#"{"id":"sub_1","object":"subscription","status":"active"}"#;
            let answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}
