//! `/metrics`: figures for Prometheus.

use actix_web::{HttpRequest, HttpResponse, web};

use super::problem::Problem;
use super::query::Query;
use super::shared::Shared;

/// Figures for Prometheus, in its text form.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "show_metrics",
    tag = "health",
    responses((status = 200, description = "figures", body = String, content_type = "application/openmetrics-text"))
)]
pub(crate) async fn show(shared: web::Data<Shared>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request, &[])?;
    let text = shared.engine.metrics().render(&shared.engine.status().store);
    Ok(HttpResponse::Ok().content_type("application/openmetrics-text; version=1.0.0; charset=utf-8").body(text))
}
