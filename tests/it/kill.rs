//! kill -9 at random moments under load: what was acknowledged is there, nothing was decided twice, checks survive, and
//! every entity ends as in a run without kills.
//!
//! `TOLLGATE_KILL_ROUNDS` says how many rounds (25 without it).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollgate::domain::Timestamp;
use tollgate::engine::clock::{Clock, SystemClock};
use tollgate::source::spec::SourceSpec;
use tollgate::source::{SHIPPED, Secrets, SigningSecret, Source};

use crate::server::{STANDARD_SECRET, STRIPE_SECRET, Server, post};

const PAYMENTS: usize = 300;
const STATES: [&str; 4] = ["pending", "authorized", "captured", "settled"];
const SENDERS: usize = 6;

/// One event to deliver: its id and body, and where it was acknowledged.
struct Outgoing {
    id: String,
    body: String,
    acknowledged: Mutex<Option<String>>,
}

#[test]
fn a_server_killed_at_random_loses_nothing_and_decides_nothing_twice() {
    let rounds = rounds();
    let data = tempfile::tempdir().unwrap();
    let upstream = upstream();
    let environment = environment(upstream);
    let events = events();
    let queue = shuffled(&events);
    let next = AtomicUsize::new(0);

    let server = Server::start(data.path(), &environment);
    set_a_check(&server);
    server.kill();
    let mut seed = 7;
    for round in 0..rounds {
        let server = Server::start(data.path(), &environment);
        assert!(check_of(&server).is_some_and(|check| !check.is_null()), "round {round}: the check is gone");
        // A round may send its share, and is cut off somewhere in it.
        let until = queue.len() * (round + 1) / rounds;
        let address = server.address();
        std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| send(address, &events, &queue, &next, until));
            }
            std::thread::sleep(Duration::from_millis(random(&mut seed) % 120));
            server.kill();
        });
    }
    let server = Server::start(data.path(), &environment);
    // What was not acknowledged is sent again, as senders do.
    let all: Vec<usize> = (0..events.len()).collect();
    send(server.address(), &events, &all, &AtomicUsize::new(0), all.len());
    server.settle();
    assert_decided_once(&server, &events);
    let killed = end_of(&server);
    assert_eq!(killed.len(), PAYMENTS);
    drop(server);

    let calm = tempfile::tempdir().unwrap();
    let server = Server::start(calm.path(), &environment);
    let again = self::events();
    send(server.address(), &again, &queue, &AtomicUsize::new(0), queue.len());
    server.settle();
    assert_eq!(killed, end_of(&server), "the entities differ from a run without kills");
}

fn rounds() -> usize {
    #[expect(clippy::disallowed_methods, reason = "how many rounds is told from outside")]
    let rounds = std::env::var("TOLLGATE_KILL_ROUNDS");
    rounds.ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

fn events() -> Vec<Outgoing> {
    let mut out = Vec::new();
    for payment in 0..PAYMENTS {
        for (step, state) in STATES.iter().enumerate() {
            let at = Timestamp::from_secs(1_700_000_000 + 10 * i64::try_from(step).unwrap());
            let body = format!(
                r#"{{"type":"payment.updated","timestamp":"{at}","data":{{"id":"pay_{payment}","status":"{state}","amount":"{step}.50"}}}}"#
            );
            out.push(Outgoing { id: format!("msg_{payment}_{step}"), body, acknowledged: Mutex::new(None) });
        }
    }
    out
}

/// Every event once or twice, in an order of its own.
fn shuffled(events: &[Outgoing]) -> Vec<usize> {
    let mut seed = 42;
    let mut queue: Vec<usize> = (0..events.len()).chain((0..events.len()).filter(|index| index % 3 == 0)).collect();
    for index in (1..queue.len()).rev() {
        queue.swap(index, usize::try_from(random(&mut seed)).unwrap() % (index + 1));
    }
    queue
}

/// Sends from the queue until its end or the first failure; an answer is noted, and must be the same each time.
fn send(address: SocketAddr, events: &[Outgoing], queue: &[usize], next: &AtomicUsize, until: usize) {
    let source = source("standard", STANDARD_SECRET);
    loop {
        let at = next.fetch_add(1, Ordering::SeqCst);
        let Some(index) = queue.get(at).filter(|_| at < until) else { return };
        let event = &events[*index];
        let headers = source.sign(0, &event.id, event.body.as_bytes(), SystemClock.now());
        let Some((status, answer)) = post(address, "standard", &headers, event.body.as_bytes()) else { return };
        if status == 503 {
            continue;
        }
        assert_eq!(status, 200, "{answer}");
        let position = answer["position"].as_str().unwrap().to_owned();
        let mut acknowledged = event.acknowledged.lock().unwrap();
        let first = acknowledged.get_or_insert_with(|| position.clone());
        assert_eq!(*first, position, "{} was acknowledged in two places", event.id);
    }
}

fn assert_decided_once(server: &Server, events: &[Outgoing]) {
    let mut decided: BTreeMap<String, u32> = BTreeMap::new();
    for entry in server.all("/v1/entries") {
        for position in entry["positions"].as_array().unwrap() {
            if entry["entity"]["kind"] == "payment" {
                *decided.entry(position.as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    for event in events {
        let position = event.acknowledged.lock().unwrap().clone().expect("every event was acknowledged in the end");
        assert_eq!(decided.get(&position), Some(&1), "{} at {position}", event.id);
    }
    assert_eq!(decided.len(), events.len(), "something was decided that nobody sent");
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

/// A tie that the upstream answers unlike the claim: a check is due in an hour.
fn set_a_check(server: &Server) {
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
    assert!(check_of(server).is_some_and(|check| !check.is_null()), "no check was set");
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

fn source(name: &str, secret: &str) -> Source {
    let text = SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap().1;
    let spec: SourceSpec = toml::from_str(text).unwrap();
    let secrets = Secrets { signing: vec![SigningSecret::new(secret)], ..Secrets::default() };
    Source::compile(&spec, &secrets).unwrap()
}

/// xorshift64: any sequence will do, if it is the same each time.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}
