//! The edge over the memory store, with the built-in sources and machines and a clock that stands still.

mod auth;
mod door;
mod forms;
mod problem;
mod reading;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use actix_web::body::to_bytes;
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::web;
use async_trait::async_trait;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;

use super::budget::Budget;
use super::keys::{self, Ring, Scope};
use super::routes;
use super::shared::Shared;
use crate::config::{Config, Environment, Inputs};
use crate::domain::Timestamp;
use crate::engine::clock::ManualClock;
use crate::engine::upstream::{Answered, Unanswered, Upstream};
use crate::engine::{Engine, Parts};
use crate::machine::Registry;
use crate::source::{Request, Source};
use crate::store::memory::MemoryStore;

/// When the clock of these tests stands still.
const NOON: Timestamp = Timestamp::from_secs(1_800_000_000);

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A server without a socket, and what a test needs to talk to it.
struct World {
    shared: web::Data<Shared>,
    engine: Engine,
    clock: ManualClock,
    data: TempDir,
    /// A key by what it may do.
    tokens: BTreeMap<&'static str, String>,
    stopping: watch::Sender<bool>,
}

/// Nobody to ask.
struct Nobody;

#[async_trait]
impl Upstream for Nobody {
    async fn ask(&self, _: &Request) -> Result<Answered, Unanswered> {
        Err(Unanswered("nobody is there".to_owned()))
    }
}

/// An engine over an empty memory store.
async fn engine(clock: &ManualClock) -> Engine {
    let config = Config::load(&Inputs::default()).unwrap();
    let secrets = [("STANDARD_WEBHOOK_SECRET", SECRET), ("STRIPE_WEBHOOK_SECRET", SECRET)];
    let sources = config.sources(&Environment::of(secrets)).unwrap();
    let parts = Parts {
        store: Arc::new(MemoryStore::new(4)),
        machines: Registry::shipped(),
        sources: sources.on,
        upstream: Arc::new(Nobody),
        clock: Arc::new(clock.clone()),
        jitter: Arc::new(|delay| delay),
        settings: config.engine.settings(&config.sources),
        workers: 1,
    };
    Engine::start(parts).await.unwrap()
}

/// A data directory with one key for each way to hold scopes.
fn keys_in(data: &TempDir) -> BTreeMap<&'static str, String> {
    let scopes = [("read", vec![Scope::Read]), ("operate", vec![Scope::Operate]), ("ingest", vec![Scope::Ingest])];
    let all = [("all", Scope::ALL.to_vec()), ("revoked", Scope::ALL.to_vec())];
    let tokens = scopes.into_iter().chain(all).map(|(name, scopes)| {
        let token = keys::create(data.path(), name, &scopes.into_iter().collect(), NOON).unwrap();
        (name, token.expose_secret().to_owned())
    });
    let tokens = tokens.collect();
    keys::revoke(data.path(), "revoked", NOON).unwrap();
    tokens
}

impl World {
    async fn new() -> Self {
        let clock = ManualClock::new(NOON);
        let engine = engine(&clock).await;
        let data = TempDir::new().unwrap();
        let tokens = keys_in(&data);
        let (stopping, stopped) = watch::channel(false);
        let shared = web::Data::new(Shared {
            engine: engine.clone(),
            keys: Ring::open(data.path(), NOON).unwrap(),
            body_limit: 1000,
            bodies: Budget::of(10_000),
            body_timeout: Duration::from_secs(5),
            stopping: stopped,
            in_flight: Arc::new(AtomicUsize::new(0)),
        });
        Self { shared, engine, clock, data, tokens, stopping }
    }

    /// The answer to a request.
    async fn call(&self, request: TestRequest) -> Answer {
        let service = init_service(routes::app(self.shared.clone())).await;
        Answer::of(call_service(&service, request.to_request()).await).await
    }

    /// The answer to a `GET` with the key that may do everything.
    async fn get(&self, path: &str) -> Answer {
        self.call(self.keyed(Method::GET, path)).await
    }

    /// The answer to a `POST` with the key that may do everything.
    async fn post(&self, path: &str) -> Answer {
        self.call(self.keyed(Method::POST, path)).await
    }

    fn keyed(&self, method: Method, path: &str) -> TestRequest {
        TestRequest::default()
            .method(method)
            .uri(path)
            .insert_header(("authorization", format!("Bearer {}", self.tokens["all"])))
    }

    /// Signs a body of the generic source, posts it, and waits until it is decided.
    async fn deliver(&self, id: &str, body: &str) -> Answer {
        self.deliver_from("standard", id, body).await
    }

    /// The same of any source that is on.
    async fn deliver_from(&self, source: &str, id: &str, body: &str) -> Answer {
        let source = self.engine.source(source).unwrap();
        let answer = self.call(signed(&source, id, body, NOON)).await;
        self.settled().await;
        answer
    }

    fn source(&self) -> Arc<Source> {
        self.engine.source("standard").unwrap()
    }

    /// Waits until every event is decided or waits for a later time.
    async fn settled(&self) {
        while self.engine.status().store.pending > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A signed delivery.
fn signed(source: &Source, id: &str, body: &str, at: Timestamp) -> TestRequest {
    let path = format!("/webhooks/{}", source.name());
    let request = TestRequest::post().uri(&path).set_payload(body.to_owned());
    let headers = source.sign(0, id, body.as_bytes(), at);
    headers.into_iter().fold(request, TestRequest::insert_header)
}

/// The body of a payment event.
fn payment(id: &str, state: &str, second: u32) -> String {
    format!(
        r#"{{"type":"payment.{state}","timestamp":"2027-01-15T07:00:{second:02}Z","data":{{"id":"{id}","status":"{state}","amount":12.50}}}}"#
    )
}

/// An answer with its body read.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

impl Answer {
    async fn of(response: ServiceResponse) -> Self {
        let status = response.status().as_u16();
        let text = |value: &actix_web::http::header::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = to_bytes(response.into_body()).await.unwrap_or_else(|_| panic!("the body breaks off"));
        Self { status, headers, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The code of a problem document, after a look at its form.
    fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text);
        let problem: super::dto::Problem = serde_json::from_str(&self.text).unwrap();
        assert_eq!(problem.status, self.status);
        assert_eq!(problem.kind, format!("urn:tollgate:error:{}", problem.code));
        assert!(!problem.fix.is_empty() && !problem.title.is_empty() && !problem.detail.is_empty());
        problem.code
    }

    fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// Compares with `snapshots/http/NAME.snap`.
fn snapshot(name: &str, text: &str) {
    let settings = || {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../snapshots/http");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings
    };
    settings().bind(|| insta::assert_snapshot!(name, text));
}
