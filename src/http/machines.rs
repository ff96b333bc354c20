//! `/v1/machines`: the machines that are loaded.

use actix_web::{HttpRequest, web};

use super::dto::{self, Page};
use super::problem::{Problem, cut};
use super::query::Query;
use super::shared::Shared;
use crate::code;
use crate::domain::suggest::{did_you_mean, nearest};

/// List the loaded machines.
#[utoipa::path(
    get,
    path = "/v1/machines",
    operation_id = "list_machines",
    tag = "read",
    responses((status = 200, description = "all machines by name", body = Page<dto::MachineSummary>))
)]
pub(crate) async fn list(
    shared: web::Data<Shared>,
    request: HttpRequest,
) -> Result<web::Json<Page<dto::MachineSummary>>, Problem> {
    Query::of(&request, &[])?;
    let items = shared.engine.machines().iter().map(|machine| dto::MachineSummary::from(&**machine)).collect();
    Ok(web::Json(Page { items, next: None }))
}

/// Show a machine with its states and transitions.
#[utoipa::path(
    get,
    path = "/v1/machines/{name}",
    operation_id = "show_machine",
    tag = "read",
    params(("name" = String, Path, description = "its name, for example `stripe/subscription`; the `/` may stay")),
    responses((status = 200, description = "the machine", body = dto::Machine))
)]
pub(crate) async fn show(
    shared: web::Data<Shared>,
    name: web::Path<String>,
    request: HttpRequest,
) -> Result<web::Json<dto::Machine>, Problem> {
    Query::of(&request, &[])?;
    let machines = shared.engine.machines();
    let found = machines.iter().find(|machine| machine.name().as_str() == name.as_str());
    found.map(|machine| web::Json((&**machine).into())).ok_or_else(|| {
        let hint = did_you_mean(nearest(&name, machines.iter().map(|machine| machine.name().as_str())));
        Problem::new(code::MACHINE_NOT_FOUND, format!("no machine `{}` is loaded{hint}", cut(&name)))
    })
}
