//! Errors of HTTP answers: a code of the table, and what was wrong with this request.

use std::borrow::Cow;
use std::fmt;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};

use super::dto;
use super::keys::Scope;
use super::put_off;
use crate::code::{self, Code};
use crate::engine;

/// An error on its way to becoming an answer.
#[derive(Debug)]
pub struct Problem(Box<Parts>);

/// Boxed, so that the answers that are no problem stay small.
#[derive(Debug)]
struct Parts {
    code: Code,
    detail: String,
    instance: Option<String>,
    partitions: Vec<String>,
    headers: Vec<(header::HeaderName, String)>,
}

impl Problem {
    /// A problem of this code. The detail goes to the client: it must say nothing of the inside.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let headers = headers_of(&code);
        Self(Box::new(Parts { code, detail: detail.into(), instance: None, partitions: Vec::new(), headers }))
    }

    /// Our own failure: the log gets the cause, the client only a name to search the log for.
    pub(crate) fn internal(cause: &dyn fmt::Display) -> Self {
        let mut bytes = [0_u8; 8];
        // Without random bytes the name is zeros: it only helps a search.
        let _ = getrandom::fill(&mut bytes);
        let instance = format!("urn:tollgate:failure:{}", hex::encode(bytes));
        tracing::error!(instance, %cause, "request failed");
        let detail = "the server's log has the cause, under this `instance`";
        let mut problem = Self::new(code::INTERNAL, detail);
        problem.0.instance = Some(instance);
        problem
    }

    /// The key lacks a scope.
    pub(crate) fn scope_missing(name: &str, scope: Scope) -> Self {
        let mut problem = Self::new(code::SCOPE_MISSING, format!("key `{name}` lacks the scope `{scope}`"));
        let challenge = format!("Bearer realm=\"tollgate\", error=\"insufficient_scope\", scope=\"{scope}\"");
        problem.0.headers.push((header::WWW_AUTHENTICATE, challenge));
        problem
    }

    /// The address is right, the method isn't.
    pub(crate) fn method_not_allowed(method: &str, allow: &str) -> Self {
        let detail = format!("`{}` is not one of {allow}", cut(method));
        let mut problem = Self::new(code::METHOD_NOT_ALLOWED, detail);
        problem.0.headers.push((header::ALLOW, allow.to_owned()));
        problem
    }

    /// Several partitions have the entity.
    pub(crate) fn partition_ambiguous(detail: String, partitions: Vec<String>) -> Self {
        let mut problem = Self::new(code::PARTITION_AMBIGUOUS, detail);
        problem.0.partitions = partitions;
        problem
    }

    /// The row of the table of codes.
    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    fn document(&self) -> dto::Problem {
        let Parts { code, detail, instance, partitions, headers: _ } = &*self.0;
        dto::Problem {
            kind: code.urn(),
            title: code.title.to_owned(),
            status: code.http_status(),
            detail: detail.clone(),
            code: code.id.to_owned(),
            fix: code.fix.to_owned(),
            instance: instance.clone(),
            partitions: partitions.clone(),
        }
    }
}

/// How much of what a client sent is said back to it, or logged.
const SAID_BACK: usize = 200;

/// What a client sent, cut where it is too long to be read.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SAID_BACK) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
    }
}

/// Headers that a code always brings.
fn headers_of(code: &Code) -> Vec<(header::HeaderName, String)> {
    let header = match code.id {
        "key_missing" => (header::WWW_AUTHENTICATE, "Bearer realm=\"tollgate\""),
        "key_invalid" => (header::WWW_AUTHENTICATE, "Bearer realm=\"tollgate\", error=\"invalid_token\""),
        "body_encoded" => (header::ACCEPT_ENCODING, "identity"),
        "busy" => (header::RETRY_AFTER, "1"),
        "stopped" | "proving" => (header::RETRY_AFTER, "5"),
        "disk_full" => (header::RETRY_AFTER, "30"),
        _ => return Vec::new(),
    };
    vec![(header.0, header.1.to_owned())]
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.id, self.0.detail)
    }
}

impl From<engine::Error> for Problem {
    /// What the engine says goes out only where it is about the request; what is about us stays in the log.
    fn from(error: engine::Error) -> Self {
        let code = code::of(error.code());
        match code.status {
            code::Status::Http(503) => {
                put_off::log(code, &error);
                Self::new(code, code.title)
            }
            code::Status::Http(status) if status < 500 => Self::new(code, error.to_string()),
            code::Status::Http(_) | code::Status::DeadLetter | code::Status::Exit(_) => Self::internal(&error),
        }
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        for (name, value) in &self.0.headers {
            response.insert_header((name.clone(), value.as_str()));
        }
        response.content_type("application/problem+json").body(
            // A document of strings always serializes; an empty body still carries the status.
            serde_json::to_vec(&self.document()).unwrap_or_default(),
        )
    }
}
