//! `/v1/entries`, and the entries of one entity: everything decided, refused and stale ones too.

use actix_web::{HttpRequest, web};

use super::cursor::{Cursors, List};
use super::dto::{self, Page};
use super::entities::{self, EntityPath};
use super::problem::Problem;
use super::query::{LIMIT_MAX, Query};
use super::shared::Shared;
use crate::domain::{Outcome, Position, Recorded, Rule};

/// How many reads one filtered answer may take; then it is cut short, and `next` goes on from there.
const READS_MAX: usize = 10;

/// List entries over all entities, by position.
#[utoipa::path(
    get,
    path = "/v1/entries",
    operation_id = "list_entries",
    tag = "read",
    params(
        ("source" = Option<String>, Query, description = "only of this source"),
        ("kind" = Option<String>, Query, description = "only of entities of this kind"),
        ("outcome" = Option<String>, Query, description = "only with this outcome, for example `refused`"),
        ("rule" = Option<String>, Query, description = "only by this rule, for example `older`"),
        ("after" = Option<String>, Query, description = "the `next` of the page before"),
        ("limit" = Option<usize>, Query, description = "1 to 1000; 100 unless given"),
    ),
    responses((
        status = 200,
        description = "entries; a filtered page may be short or empty while `next` says that more follows",
        body = Page<dto::Entry>
    ))
)]
pub(crate) async fn list(
    shared: web::Data<Shared>,
    request: HttpRequest,
) -> Result<web::Json<Page<dto::Entry>>, Problem> {
    let query = Query::of(&request, &["source", "kind", "outcome", "rule", "after", "limit"])?;
    let filter = Filter {
        source: query.name("source")?,
        kind: query.name("kind")?,
        outcome: query.outcome()?,
        rule: query.rule()?,
    };
    let limit = query.limit()?;
    let cursors = Cursors::of(&shared.engine);
    let next = |position| cursors.write_position(List::Entries, position);
    let mut after = after(&query, cursors)?;
    let mut items = Vec::new();
    for _ in 0..READS_MAX {
        // A filtered read takes as much as there may be, since little of it may fit.
        let wanted = if filter.is_open() { limit - items.len() } else { LIMIT_MAX };
        let page = shared.engine.entries(None, after, wanted).await?;
        let end = page.next.is_none();
        for recorded in &page.items {
            after = Some(recorded.position);
            if filter.fits(recorded) {
                items.push(dto::Entry::from(recorded));
            }
            if items.len() == limit {
                break;
            }
        }
        if items.len() == limit || end {
            let ended = end && page.items.last().is_none_or(|last| Some(last.position) == after);
            return Ok(web::Json(Page { items, next: after.filter(|_| !ended).map(next) }));
        }
        after = page.next.or(after);
    }
    Ok(web::Json(Page { items, next: after.map(next) }))
}

/// List the entries of one entity: its whole history.
#[utoipa::path(
    get,
    path = "/v1/entities/{source}/{kind}/{id}/entries",
    operation_id = "list_entries_of_entity",
    tag = "read",
    params(
        ("source" = String, Path, description = "its source"),
        ("kind" = String, Path, description = "its kind"),
        ("id" = String, Path, description = "the source's id of it; a `/` is written `%2F`"),
        ("partition" = Option<String>, Query, description = "its account and mode, for example `acct_1:test`"),
        ("after" = Option<String>, Query, description = "the `next` of the page before"),
        ("limit" = Option<usize>, Query, description = "1 to 1000; 100 unless given"),
    ),
    responses((status = 200, description = "entries, the oldest first", body = Page<dto::Entry>))
)]
pub(crate) async fn of_entity(
    shared: web::Data<Shared>,
    path: EntityPath,
    request: HttpRequest,
) -> Result<web::Json<Page<dto::Entry>>, Problem> {
    let query = Query::of(&request, &["partition", "after", "limit"])?;
    let cursors = Cursors::of(&shared.engine);
    let (limit, after) = (query.limit()?, after(&query, cursors)?);
    let entity = entities::find(&shared, &path, query.partition()?).await?;
    let page = shared.engine.entries(Some(&entity.key), after, limit).await?;
    let next = page.next.map(|position| cursors.write_position(List::Entries, position));
    Ok(web::Json(Page { items: page.items.iter().map(dto::Entry::from).collect(), next }))
}

fn after(query: &Query, cursors: Cursors) -> Result<Option<Position>, Problem> {
    query.text("after").map(|text| cursors.read_position(List::Entries, text)).transpose()
}

/// Which entries are meant.
struct Filter<'a> {
    source: Option<&'a str>,
    kind: Option<&'a str>,
    outcome: Option<Outcome>,
    rule: Option<Rule>,
}

impl Filter<'_> {
    fn is_open(&self) -> bool {
        self.source.is_none() && self.kind.is_none() && self.outcome.is_none() && self.rule.is_none()
    }

    fn fits(&self, recorded: &Recorded) -> bool {
        let Recorded { position: _, entity, entry } = recorded;
        self.source.is_none_or(|source| entity.source.as_str() == source)
            && self.kind.is_none_or(|kind| entity.kind.as_str() == kind)
            && self.outcome.is_none_or(|outcome| entry.outcome == outcome)
            && self.rule.is_none_or(|rule| entry.rule == rule)
    }
}
