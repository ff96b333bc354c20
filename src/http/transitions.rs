//! `/v1/transitions`: the change feed that an application follows. Moves only; order is promised per entity.

use std::time::Duration;

use actix_web::{HttpRequest, web};

use super::cursor::{Cursors, List};
use super::dto::{self, Page};
use super::problem::Problem;
use super::query::Query;
use super::shared::Shared;

/// Follow the moves of states. With `wait`, an answer without any is held back until one comes.
#[utoipa::path(
    get,
    path = "/v1/transitions",
    operation_id = "follow_transitions",
    tag = "read",
    params(
        ("after" = Option<String>, Query, description = "the `next` of the answer before; all from the start without. One of other data is `cursor_invalid`: the store was wiped or restored, begin anew"),
        ("limit" = Option<usize>, Query, description = "1 to 1000; 100 unless given"),
        ("wait" = Option<u64>, Query, description = "how many seconds to wait for a move, 0 to 30; 0 unless given"),
    ),
    responses((
        status = 200,
        description = "moves; keep `next` and pass it on, it is null only while nothing was ever recorded",
        body = Page<dto::Entry>
    ))
)]
pub(crate) async fn list(
    shared: web::Data<Shared>,
    request: HttpRequest,
) -> Result<web::Json<Page<dto::Entry>>, Problem> {
    let query = Query::of(&request, &["after", "limit", "wait"])?;
    let cursors = Cursors::of(&shared.engine);
    let after = query.text("after").map(|text| cursors.read_position(List::Transitions, text)).transpose()?;
    let (limit, wait) = (query.limit()?, query.wait()?);
    let page = tokio::select! {
        page = shared.engine.feed(after, limit, wait) => page?,
        // A follower that waits must not hold up the stop; it comes back with the cursor it has.
        () = shared.stopped() => shared.engine.feed(after, limit, Duration::ZERO).await?,
    };
    let next = page.next.or(after).map(|position| cursors.write_position(List::Transitions, position));
    Ok(web::Json(Page { items: page.items.iter().map(dto::Entry::from).collect(), next }))
}
