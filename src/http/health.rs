//! `/healthz` and `/readyz`: for whoever watches the server. Open to all, and telling nothing.

use actix_web::web;

use super::dto;
use super::problem::Problem;
use super::shared::Shared;
use crate::code;

/// Whether the server lives.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "check_life",
    tag = "health",
    responses((status = 200, description = "it lives", body = dto::Health))
)]
pub(crate) async fn live() -> web::Json<dto::Health> {
    web::Json(dto::Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Whether the server should get traffic: not while it stops, nor after a write failed.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "check_readiness",
    tag = "health",
    responses((status = 200, description = "it takes traffic", body = dto::Readiness))
)]
pub(crate) async fn ready(shared: web::Data<Shared>) -> Result<web::Json<dto::Readiness>, Problem> {
    if shared.is_stopping() || shared.engine.status().failure.is_some() {
        return Err(Problem::new(code::STOPPED, code::STOPPED.title));
    }
    Ok(web::Json(dto::Readiness { status: "ready".to_owned() }))
}
