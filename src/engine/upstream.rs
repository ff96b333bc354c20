//! Asking an upstream: the seam, and the HTTP client behind it (the engine's only file that names it).

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::DateTime;
use secrecy::ExposeSecret;

use crate::domain::Timestamp;
use crate::source::Request;

/// The most bytes of an answer that are read.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What an upstream answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
    /// The answer's `Date`, if it has one and no cache kept it (`Age` absent or zero).
    pub date: Option<Timestamp>,
    /// The time from sending to the headers.
    pub to_headers: Duration,
    /// The answer's `Retry-After`.
    pub retry_after: Option<Duration>,
}

/// Why an upstream gave no answer: a text without secrets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// Something that can be asked for the current state of an entity.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
    /// Asks once, within the request's timeout.
    ///
    /// # Errors
    /// [`Unanswered`] if no whole answer came.
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered>;
}

/// Upstreams over HTTP. Redirects are not followed: a key must not travel to another host.
#[derive(Clone, Debug)]
pub struct HttpUpstream(reqwest::Client);

impl HttpUpstream {
    /// A client with its own pool.
    ///
    /// # Errors
    /// [`Unanswered`] if the TLS configuration of the machine cannot be read.
    pub fn new() -> Result<Self, Unanswered> {
        // Only the first call of a process installs it; a later one finds it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).user_agent(agent).build();
        client.map(Self).map_err(|error| Unanswered(describe(&error)))
    }
}

#[async_trait]
impl Upstream for HttpUpstream {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        let mut builder = self.0.get(&request.url).timeout(request.timeout);
        for (name, value) in &request.headers {
            builder = builder.header(name, value.expose_secret());
        }
        let sent = std::time::Instant::now();
        let mut response = builder.send().await.map_err(|error| Unanswered(describe(&error)))?;
        let to_headers = sent.elapsed();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let aged = header("age").is_some_and(|age| age.trim() != "0");
        let date = header("date").filter(|_| !aged).and_then(|date| parse_http_date(&date));
        let retry_after = header("retry-after").and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let status = response.status().as_u16();
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Unanswered(describe(&error)))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Unanswered(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answered { status, body: body.freeze(), date, to_headers, retry_after })
    }
}

/// Reads an HTTP date (RFC 9110, 5.6.7, the preferred form).
fn parse_http_date(text: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc2822(text).ok().map(|at| Timestamp::from_secs(at.timestamp()))
}

/// The error's chain of causes without the address, which may hold what should not be logged.
fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer within the timeout".to_owned();
    }
    let mut text = if error.is_connect() { "could not connect".to_owned() } else { "the request failed".to_owned() };
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if next.source().is_none() {
            text = format!("{text}: {next}");
        }
        cause = next.source();
    }
    text
}
