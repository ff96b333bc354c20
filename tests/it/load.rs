//! Load for a running server: payments that move step by step, who sends them, and what must hold of what was stored.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollgate::domain::Timestamp;
use tollgate::engine::clock::{Clock, SystemClock};
use tollgate::source::spec::SourceSpec;
use tollgate::source::{SHIPPED, Secrets, SigningSecret, Source};

use crate::server::{Answer, STANDARD_SECRET, Server, exchange};

/// The steps of a payment, one an event.
pub(crate) const STATES: [&str; 4] = ["pending", "authorized", "captured", "settled"];

/// One event to deliver: its id and body, and where it was acknowledged.
pub(crate) struct Outgoing {
    pub(crate) id: String,
    pub(crate) body: String,
    pub(crate) acknowledged: Mutex<Option<String>>,
}

/// All events of some payments, and the source that they come from.
pub(crate) struct Load {
    pub(crate) source: Source,
    pub(crate) events: Vec<Outgoing>,
}

impl Load {
    /// Every event of so many payments; `padding` makes each body so much longer.
    pub(crate) fn of_payments(payments: usize, padding: usize) -> Self {
        let mut events = Vec::new();
        let note = "x".repeat(padding);
        for payment in 0..payments {
            for (step, state) in STATES.iter().enumerate() {
                let at = Timestamp::from_secs(1_700_000_000 + 10 * i64::try_from(step).unwrap());
                let body = format!(
                    r#"{{"type":"payment.updated","timestamp":"{at}","note":"{note}","data":{{"id":"pay_{payment}","status":"{state}","amount":"{step}.50"}}}}"#
                );
                events.push(Outgoing { id: format!("msg_{payment}_{step}"), body, acknowledged: Mutex::new(None) });
            }
        }
        Self { source: source("standard", STANDARD_SECRET), events }
    }

    /// The request that delivers an event, as bytes.
    pub(crate) fn request(&self, index: usize, keep_alive: bool) -> Vec<u8> {
        let event = &self.events[index];
        let headers = self.source.sign(0, &event.id, event.body.as_bytes(), SystemClock.now());
        let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let connection = if keep_alive { "" } else { "connection: close\r\n" };
        let (len, headers) = (event.body.len(), headers.concat());
        let head = format!(
            "POST /webhooks/standard HTTP/1.1\r\nhost: t\r\ncontent-length: {len}\r\n{headers}{connection}\r\n"
        );
        [head.as_bytes(), event.body.as_bytes()].concat()
    }

    /// Delivers an event; none if no whole answer came. An acknowledgement is noted, and must be the same each time.
    pub(crate) fn deliver(&self, address: SocketAddr, index: usize) -> Option<Answer> {
        let answer = exchange(address, &self.request(index, false))?;
        self.note(index, &answer);
        Some(answer)
    }

    /// Notes an answer to an event.
    pub(crate) fn note(&self, index: usize, answer: &Answer) {
        if answer.status == 200 {
            let event = &self.events[index];
            let position = answer.json()["position"].as_str().unwrap().to_owned();
            let mut acknowledged = event.acknowledged.lock().unwrap();
            let first = acknowledged.get_or_insert_with(|| position.clone());
            assert_eq!(*first, position, "{} was acknowledged in two places", event.id);
        } else {
            assert_eq!(answer.status, 503, "{}", answer.text);
            assert!(answer.header("retry-after").is_some(), "503 without Retry-After: {}", answer.head);
        }
    }

    /// Sends from the queue until `until`, or until no answer comes. What is refused is sent again at once.
    pub(crate) fn send(&self, address: SocketAddr, queue: &[usize], next: &AtomicUsize, until: usize) {
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some(index) = queue.get(at).filter(|_| at < until) else { return };
            loop {
                match self.deliver(address, *index) {
                    None => return,
                    Some(answer) if answer.status == 200 => break,
                    Some(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
                }
            }
        }
    }

    /// Sends every event once more, as senders do until each is acknowledged.
    pub(crate) fn send_all(&self, address: SocketAddr) {
        let all: Vec<usize> = (0..self.events.len()).collect();
        self.send(address, &all, &AtomicUsize::new(0), all.len());
        assert_eq!(self.acknowledged(), self.events.len(), "every event is acknowledged in the end");
    }

    /// Every event once, and every third twice, in an order of its own.
    pub(crate) fn shuffled(&self) -> Vec<usize> {
        let (count, mut seed) = (self.events.len(), 42);
        let mut queue: Vec<usize> = (0..count).chain((0..count).filter(|index| index % 3 == 0)).collect();
        for index in (1..queue.len()).rev() {
            queue.swap(index, usize::try_from(random(&mut seed)).unwrap() % (index + 1));
        }
        queue
    }

    /// How many events were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.events.iter().filter(|event| event.acknowledged.lock().unwrap().is_some()).count()
    }

    /// What must hold of a server at rest: every acknowledged event is there and was decided once, no other was
    /// decided twice, the feed has every move once and in order, and each entity is the fold of its entries.
    pub(crate) fn assert_kept(&self, server: &Server) -> Kept {
        let entries: Vec<Value> =
            server.all("/v1/entries").into_iter().filter(|entry| entry["entity"]["kind"] == "payment").collect();
        let mut decided: BTreeMap<&str, u32> = BTreeMap::new();
        for position in entries.iter().flat_map(|entry| entry["positions"].as_array().unwrap()) {
            *decided.entry(position.as_str().unwrap()).or_default() += 1;
        }
        let twice = decided.values().filter(|times| **times > 1).count();
        let missing = |event: &&Outgoing| {
            event.acknowledged.lock().unwrap().as_ref().is_some_and(|at| !decided.contains_key(at.as_str()))
        };
        let missing: Vec<_> = self.events.iter().filter(missing).map(|event| event.id.as_str()).collect();
        assert!(missing.is_empty(), "acknowledged and not there: {missing:?}");
        assert_eq!(twice, 0, "decided more than once");
        assert!(decided.len() <= self.events.len(), "something was decided that nobody sent");
        let is_move = |entry: &&Value| entry["from"] != entry["to"];
        let moves: Vec<_> = entries.iter().filter(is_move).map(|entry| entry["position"].clone()).collect();
        let feed = server.feed().into_iter().filter(|entry| entry["entity"]["kind"] == "payment");
        let feed: Vec<_> = feed.map(|entry| entry["position"].clone()).collect();
        assert_eq!(feed, moves, "the feed has a gap or a repeat");
        assert_eq!(feed.iter().map(Value::to_string).collect::<BTreeSet<_>>().len(), feed.len());
        let entities = folded(&entries);
        assert_eq!(entities, stored(server), "an entity is not the fold of its entries");
        Kept { acknowledged: self.acknowledged(), decided: decided.len(), entities: entities.len() }
    }
}

/// The figures of a run.
#[derive(Debug)]
#[expect(dead_code, reason = "they are printed")]
pub(crate) struct Kept {
    acknowledged: usize,
    decided: usize,
    entities: usize,
}

/// Each entity by id as its entries make it.
fn folded(entries: &[Value]) -> BTreeMap<String, Value> {
    let mut entities: BTreeMap<String, Value> = BTreeMap::new();
    for entry in entries {
        let id = entry["entity"]["id"].as_str().unwrap().to_owned();
        let entity =
            entities.entry(id).or_insert_with(|| json!({"state": null, "version": 0, "fields": {}, "key": null}));
        assert_eq!(entity["state"], entry["from"], "an entry begins where the one before did not end: {entry}");
        entity["version"] = json!(entity["version"].as_u64().unwrap() + 1);
        entity["state"] = entry["to"].clone();
        if !entry["order_key_after"].is_null() {
            entity["key"] = entry["order_key_after"].clone();
        }
        for (name, value) in entry["fields"].as_object().unwrap() {
            entity["fields"][name] = value.clone();
        }
    }
    entities
}

/// Each payment by id as the server shows it.
fn stored(server: &Server) -> BTreeMap<String, Value> {
    let entities = server.all("/v1/entities").into_iter().filter(|entity| entity["kind"] == "payment");
    let shown = |entity: Value| {
        let shown = json!({
            "state": entity["state"], "version": entity["version"], "fields": entity["fields"], "key": entity["order_key"],
        });
        (entity["id"].as_str().unwrap().to_owned(), shown)
    };
    entities.map(shown).collect()
}

/// A shipped source with a secret.
pub(crate) fn source(name: &str, secret: &str) -> Source {
    let text = SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap().1;
    let spec: SourceSpec = toml::from_str(text).unwrap();
    let secrets = Secrets { signing: vec![SigningSecret::new(secret)], ..Secrets::default() };
    Source::compile(&spec, &secrets).unwrap()
}

/// xorshift64: any sequence will do, if it is the same each time.
pub(crate) fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// A number that is told from outside.
pub(crate) fn told(variable: &str, or: usize) -> usize {
    #[expect(clippy::disallowed_methods, reason = "how long a test runs is told from outside")]
    let told = std::env::var(variable);
    told.ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}
