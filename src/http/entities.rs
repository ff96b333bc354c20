//! `/v1/entities`: what is known now.

use actix_web::{HttpRequest, web};

use super::cursor::Cursors;
use super::dto::{self, Page};
use super::problem::Problem;
use super::query::{Query, checked_name, invalid};
use super::shared::Shared;
use crate::code;
use crate::domain::entity::ENTITY_ID_LEN_MAX;
use crate::domain::query::EntityFilter;
use crate::domain::{Entity, Kind, Partition, SourceName, StateName};

/// How many partitions an answer about one id tells apart.
const PARTITIONS_MAX: usize = 100;

/// Which entity a path means: source, kind and id.
pub(crate) type EntityPath = web::Path<(String, String, String)>;

/// List entities by source, kind and state.
#[utoipa::path(
    get,
    path = "/v1/entities",
    operation_id = "list_entities",
    tag = "read",
    params(
        ("source" = Option<String>, Query, description = "only of this source"),
        ("kind" = Option<String>, Query, description = "only of this kind"),
        ("state" = Option<String>, Query, description = "only with a machine in this state"),
        ("partition" = Option<String>, Query, description = "only of this account and mode"),
        ("after" = Option<String>, Query, description = "the `next` of the page before"),
        ("limit" = Option<usize>, Query, description = "1 to 1000; 100 unless given"),
    ),
    responses((status = 200, description = "entities in the order of their keys", body = Page<dto::Entity>))
)]
pub(crate) async fn list(
    shared: web::Data<Shared>,
    request: HttpRequest,
) -> Result<web::Json<Page<dto::Entity>>, Problem> {
    let query = Query::of(&request, &["source", "kind", "state", "partition", "after", "limit"])?;
    let filter = EntityFilter {
        source: query.name("source")?.map(SourceName::new),
        kind: query.name("kind")?.map(Kind::new),
        id: None,
        partition: query.partition()?,
        state: query.text("state").map(StateName::new),
    };
    let cursors = Cursors::of(&shared.engine);
    let after = query.text("after").map(|text| cursors.read_entity(text)).transpose()?;
    let page = shared.engine.entities(&filter, after.as_ref(), query.limit()?).await?;
    let next = page.next.as_ref().and_then(|key| cursors.write_entity(key));
    Ok(web::Json(Page { items: page.items.iter().map(dto::Entity::from).collect(), next }))
}

/// Show one entity. Without `partition` the only one of this id is meant; several are listed with 409.
#[utoipa::path(
    get,
    path = "/v1/entities/{source}/{kind}/{id}",
    operation_id = "show_entity",
    tag = "read",
    params(
        ("source" = String, Path, description = "its source"),
        ("kind" = String, Path, description = "its kind"),
        ("id" = String, Path, description = "the source's id of it; a `/` is written `%2F`"),
        ("partition" = Option<String>, Query, description = "its account and mode, for example `acct_1:test`"),
    ),
    responses((status = 200, description = "the entity", body = dto::Entity))
)]
pub(crate) async fn show(
    shared: web::Data<Shared>,
    path: EntityPath,
    request: HttpRequest,
) -> Result<web::Json<dto::Entity>, Problem> {
    let query = Query::of(&request, &["partition"])?;
    let entity = find(&shared, &path, query.partition()?).await?;
    Ok(web::Json((&entity).into()))
}

/// The entity that a path means.
pub(crate) async fn find(
    shared: &Shared,
    path: &(String, String, String),
    partition: Option<Partition>,
) -> Result<Entity, Problem> {
    let (source, kind, id) = path;
    if id.is_empty() || id.len() > ENTITY_ID_LEN_MAX {
        return Err(invalid("id", &format!("it has {} bytes; an id has 1 to {ENTITY_ID_LEN_MAX}", id.len())));
    }
    let filter = EntityFilter {
        source: Some(SourceName::new(checked_name("source", source)?)),
        kind: Some(Kind::new(checked_name("kind", kind)?)),
        id: Some(id.clone()),
        partition,
        state: None,
    };
    let mut found = shared.engine.entities(&filter, None, PARTITIONS_MAX).await?.items;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            let partitions = found.iter().chain([&last]).map(|entity| entity.key.partition.to_string()).collect();
            Err(Problem::partition_ambiguous(format!("`{source}/{kind}/{id}` is in several partitions"), partitions))
        }
        (None, _) => {
            let within = filter.partition.map(|partition| format!(" in partition `{partition}`")).unwrap_or_default();
            Err(Problem::new(code::ENTITY_NOT_FOUND, format!("`{source}/{kind}/{id}` is not known{within}")))
        }
    }
}
