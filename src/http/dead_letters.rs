//! `/v1/dead-letters`: events that gave up, and what an operator does with them.

use actix_web::{HttpRequest, web};

use super::auth::Holder;
use super::cursor::{Cursors, List};
use super::dto::{self, Page};
use super::problem::{Problem, cut};
use super::query::{Query, invalid};
use super::shared::Shared;
use crate::domain::Position;
use crate::{code, engine};

/// List dead letters by position.
#[utoipa::path(
    get,
    path = "/v1/dead-letters",
    operation_id = "list_dead_letters",
    tag = "operate",
    params(
        ("after" = Option<String>, Query, description = "the `next` of the page before"),
        ("limit" = Option<usize>, Query, description = "1 to 1000; 100 unless given"),
    ),
    responses((status = 200, description = "dead letters, the oldest first", body = Page<dto::DeadLetter>))
)]
pub(crate) async fn list(
    shared: web::Data<Shared>,
    request: HttpRequest,
) -> Result<web::Json<Page<dto::DeadLetter>>, Problem> {
    let query = Query::of(&request, &["after", "limit"])?;
    let cursors = Cursors::of(&shared.engine);
    let after = cursors.after(List::DeadLetters, &query)?;
    let page = shared.engine.dead_letters(after, query.limit()?).await?;
    let next = page.next.map(|position| cursors.write_position(List::DeadLetters, position));
    Ok(web::Json(Page { items: page.items.iter().map(dto::DeadLetter::from).collect(), next }))
}

/// Show a dead letter with the delivery that it came in.
#[utoipa::path(
    get,
    path = "/v1/dead-letters/{position}",
    operation_id = "show_dead_letter",
    tag = "operate",
    params(("position" = String, Path, description = "where it stands, for example `42.0`")),
    responses((status = 200, description = "the dead letter", body = dto::DeadLetterShown))
)]
pub(crate) async fn show(
    shared: web::Data<Shared>,
    path: web::Path<String>,
    request: HttpRequest,
) -> Result<web::Json<dto::DeadLetterShown>, Problem> {
    Query::of(&request, &[])?;
    let position = position(&path)?;
    let Some((letter, kept)) = shared.engine.dead_letter(position).await? else {
        let detail = format!("no dead letter stands at {position}");
        return Err(Problem::new(code::DEAD_LETTER_NOT_FOUND, detail));
    };
    Ok(web::Json(dto::DeadLetterShown {
        dead_letter: (&letter).into(),
        delivery: kept.as_ref().map(dto::KeptDelivery::from),
    }))
}

/// Judge a dead letter again, mapped anew from its raw bytes.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{position}/replay",
    operation_id = "replay_dead_letter",
    tag = "operate",
    params(("position" = String, Path, description = "where it stands, for example `42.0`")),
    responses((status = 200, description = "it is pending again", body = dto::Done))
)]
pub(crate) async fn replay(
    shared: web::Data<Shared>,
    path: web::Path<String>,
    request: HttpRequest,
    Holder(by): Holder,
) -> Result<web::Json<dto::Done>, Problem> {
    done("replay", &path, &request, &by, async |dead| shared.engine.replay(dead, &by).await).await
}

/// Drop a dead letter: somebody has looked at it.
#[utoipa::path(
    post,
    path = "/v1/dead-letters/{position}/discard",
    operation_id = "discard_dead_letter",
    tag = "operate",
    params(("position" = String, Path, description = "where it stands, for example `42.0`")),
    responses((status = 200, description = "it is no dead letter any more", body = dto::Done))
)]
pub(crate) async fn discard(
    shared: web::Data<Shared>,
    path: web::Path<String>,
    request: HttpRequest,
    Holder(by): Holder,
) -> Result<web::Json<dto::Done>, Problem> {
    done("discard", &path, &request, &by, async |dead| shared.engine.discard(dead, &by).await).await
}

/// What an operator did with a dead letter, once it is durable.
async fn done(
    action: &'static str,
    path: &str,
    request: &HttpRequest,
    by: &str,
    act: impl AsyncFnOnce(Position) -> Result<Position, engine::Error>,
) -> Result<web::Json<dto::Done>, Problem> {
    Query::of(request, &[])?;
    let dead = position(path)?;
    let at = act(dead).await?;
    tracing::info!(action, %dead, by, "dead letter handled");
    Ok(web::Json(dto::Done::of(action, dead, at, by)))
}

fn position(text: &str) -> Result<Position, Problem> {
    Position::parse(text)
        .ok_or_else(|| invalid("position", &format!("`{}` is not `LSN.ITEM`, for example `42.0`", cut(text))))
}
