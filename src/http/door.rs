//! The door: webhooks come in here.
//!
//! Nothing of a request is looked at before its signature holds, and nothing is answered 200 before it is durable.
//! A verified delivery is never refused for what it says: an error status would make its sender try for days.

use actix_web::http::header;
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use super::budget::Room;
use super::dto::{Admitted, Problem as ProblemDto};
use super::problem::{Problem, cut};
use super::put_off;
use super::shared::Shared;
use crate::code;
use crate::domain::{Delivery, EventId};
use crate::source::Source;

/// Take a webhook of a source. The body is verified as the raw bytes it came in; 200 means that it is durable.
///
/// Duplicates, events of unmapped types and verified bodies that can't be read are 200 too: they are recorded.
#[utoipa::path(
    post,
    path = "/webhooks/{source}",
    operation_id = "receive_webhook",
    tag = "door",
    params(("source" = String, Path, description = "the source's name, for example `stripe`")),
    request_body(content = String, description = "the body as the source signed it", content_type = "application/json"),
    responses(
        (status = 200, description = "durable; a list for a delivery of several events", body = Admitted),
        (status = 401, description = "the signature doesn't hold, or is not fresh", body = ProblemDto, content_type = "application/problem+json"),
        (status = 404, description = "no such source is on", body = ProblemDto, content_type = "application/problem+json"),
        (status = 413, description = "the body, or the record that it would become, is over its limit", body = ProblemDto, content_type = "application/problem+json"),
        (status = 415, description = "the body is compressed", body = ProblemDto, content_type = "application/problem+json"),
        (status = 503, description = "overload or a full disk; try again after `Retry-After`", body = ProblemDto, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn receive(
    shared: web::Data<Shared>,
    name: web::Path<String>,
    request: HttpRequest,
    mut payload: web::Payload,
) -> Result<web::Json<Admitted>, Problem> {
    admit(&shared, &name, &request, &mut payload).await.map(web::Json)
}

async fn admit(
    shared: &Shared,
    name: &str,
    request: &HttpRequest,
    payload: &mut web::Payload,
) -> Result<Admitted, Problem> {
    let Some(source) = shared.engine.source(name) else {
        let name = cut(name);
        tracing::info!(source = ?name, "webhook for a source that is unknown or off");
        return Err(Problem::new(code::SOURCE_NOT_FOUND, format!("no source `{name}` is on")));
    };
    let admitted = take(shared, &source, request, payload).await;
    if let Err(problem) = &admitted {
        shared.engine.metrics().refused(source.name(), problem.code().id);
        // What is put off has a line of its own, for many.
        if problem.code().http_status() != 503 {
            tracing::info!(source = %source.name(), code = problem.code().id, %problem, "webhook refused");
        }
    }
    admitted
}

async fn take(
    shared: &Shared,
    source: &Source,
    request: &HttpRequest,
    payload: &mut web::Payload,
) -> Result<Admitted, Problem> {
    let delivery = verified(shared, source, request, payload).await?;
    let ids: Vec<EventId> = delivery.items.iter().map(|item| item.event.id.clone()).collect();
    let admissions = shared.engine.accept(delivery).await?;
    Ok(Admitted::of(&ids, &admissions))
}

/// The delivery of a request whose signature holds; nothing is kept of it yet.
pub(super) async fn verified(
    shared: &Shared,
    source: &Source,
    request: &HttpRequest,
    payload: &mut web::Payload,
) -> Result<Delivery, Problem> {
    refuse_encoded(request)?;
    let body = read(request, payload, shared).await?;
    let headers = headers(request);
    let now = shared.engine.now();
    let verified = source
        .verify(&headers, &body, now)
        .map_err(|rejection| Problem::new(code::of(rejection.code()), rejection.to_string()))?;
    Ok(source.deliver(&verified, &headers, body, now))
}

/// Compressed bytes are not the bytes that were signed, and unpacking before verifying would let a stranger blow up
/// a small request.
fn refuse_encoded(request: &HttpRequest) -> Result<(), Problem> {
    let encodings = request.headers().get_all(header::CONTENT_ENCODING);
    let plain = |value: &header::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity") || value.is_empty();
    match encodings.into_iter().find(|value| !plain(value)) {
        None => Ok(()),
        Some(value) => {
            let detail = format!("`Content-Encoding: {}`", cut(&String::from_utf8_lossy(value.as_bytes())));
            Err(Problem::new(code::BODY_ENCODED, detail))
        }
    }
}

/// How much room a body gets before it comes.
const FIRST_BYTES: usize = 16 << 10;

/// The raw body, within its limit and its time. A declared length over the limit is refused unread.
async fn read(request: &HttpRequest, payload: &mut web::Payload, shared: &Shared) -> Result<Bytes, Problem> {
    let (limit, timeout) = (shared.body_limit, shared.body_timeout);
    let too_large = |what: &str| Problem::new(code::BODY_TOO_LARGE, format!("{what}, the limit is {limit} bytes"));
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let declared = declared.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let declared = usize::try_from(declared).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(too_large(&format!("the body has {declared} bytes")));
    }
    let collect = async {
        // What is declared is not there yet: a sender that declares much and sends nothing takes little memory.
        let first = declared.min(FIRST_BYTES);
        let mut room = shared.bodies.room();
        take_room(&mut room, first)?;
        let mut body = BytesMut::with_capacity(first);
        while let Some(chunk) = payload.next().await {
            let chunk =
                chunk.map_err(|error| Problem::new(code::BODY_BROKEN, format!("the body broke off: {error}")))?;
            if body.len() + chunk.len() > limit {
                return Err(too_large("the body is larger"));
            }
            let (needed, had) = (body.len() + chunk.len(), body.capacity());
            if needed > had {
                // It grows at least to its double: what counts is what it takes.
                take_room(&mut room, needed.max(2 * had) - had)?;
            }
            body.extend_from_slice(&chunk);
        }
        Ok(room.held_by(body))
    };
    let late = |_| Problem::new(code::BODY_TIMEOUT, format!("the body had {} ms to arrive", timeout.as_millis()));
    tokio::time::timeout(timeout, collect).await.map_err(late)?
}

fn take_room(room: &mut Room, bytes: usize) -> Result<(), Problem> {
    if room.grow(bytes) {
        return Ok(());
    }
    let why = "the bodies that are coming in take all the memory that they may";
    put_off::log(code::BUSY, &why);
    Err(Problem::new(code::BUSY, why))
}

/// All headers, names in lower case. A value that is not text can't be a signature; it is kept as far as it goes.
pub(super) fn headers(request: &HttpRequest) -> Vec<(String, String)> {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    request.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}
