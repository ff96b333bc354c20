//! `/openapi.json`: what there is, made from the code that answers.

use actix_web::{HttpRequest, web};
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, PathItem, Ref, RefOr, ResponseBuilder};

use super::auth::Needs;
use super::problem::Problem;
use super::query::Query;
use super::routes;
use super::{dead_letters, door, entities, entries, health, machines, metrics, transitions};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate",
        description = "A billing state engine: verified webhooks become forward-only, provable entity states. \
            Every error is a problem document (RFC 9457) with a stable `code`."
    ),
    paths(
        door::receive,
        entities::list,
        entities::show,
        entries::of_entity,
        entries::list,
        transitions::list,
        machines::list,
        machines::show,
        dead_letters::list,
        dead_letters::show,
        dead_letters::replay,
        dead_letters::discard,
        health::live,
        health::ready,
        metrics::show,
        show,
    ),
    tags(
        (name = "door", description = "Where webhooks come in"),
        (name = "read", description = "What is known, and how it came about"),
        (name = "operate", description = "What needs a person"),
        (name = "health", description = "For whoever watches the server"),
    )
)]
struct Api;

/// The OpenAPI document.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = Api::openapi();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("tg_…").build();
    document.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(scheme));
    for route in routes::table() {
        let item = document.paths.paths.get_mut(route.path);
        let Some(operation) = item.and_then(|item| operation(item, route.method.as_str())) else { continue };
        if let Needs::Key(scope) = route.needs {
            operation.security = Some(vec![SecurityRequirement::new("key", [scope.as_str()])]);
        }
        // Whatever goes wrong has one form.
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new().description("a problem").content("application/problem+json", problem);
        operation.responses.responses.entry("default".to_owned()).or_insert(RefOr::T(response.build()));
    }
    document
}

/// The operation of a path and method.
pub(crate) fn operation<'a>(item: &'a mut PathItem, method: &str) -> Option<&'a mut Operation> {
    if method == "POST" { item.post.as_mut() } else { item.get.as_mut() }
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "show_openapi",
    tag = "health",
    responses((status = 200, description = "an OpenAPI 3.1 document", body = Object))
)]
pub(crate) async fn show(request: HttpRequest) -> Result<web::Json<utoipa::openapi::OpenApi>, Problem> {
    Query::of(&request, &[])?;
    Ok(web::Json(document()))
}
