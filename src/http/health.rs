//! `/healthz` and `/readyz`: for whoever watches the server. Open to all, and telling nothing.

use actix_web::web;

use super::dto;
use super::problem::Problem;
use super::shared::Shared;
use crate::code::{self, Code};

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

/// Whether the server should get traffic: not while it stops, nor after a write failed, nor while it decides nothing.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "check_readiness",
    tag = "health",
    responses((status = 200, description = "it takes traffic", body = dto::Readiness))
)]
pub(crate) async fn ready(shared: web::Data<Shared>) -> Result<web::Json<dto::Readiness>, Problem> {
    let status = shared.engine.status();
    match unready(shared.is_stopping() || status.failure.is_some(), status.lacks_room, status.store.proving) {
        Some(code) => Err(Problem::new(code, code.title)),
        None => Ok(web::Json(dto::Readiness { status: "ready".to_owned() })),
    }
}

/// Why the server should get no traffic, if it should get none.
fn unready(has_stopped: bool, lacks_room: bool, is_proving: bool) -> Option<Code> {
    if has_stopped {
        return Some(code::STOPPED);
    }
    if lacks_room {
        return Some(code::DISK_FULL);
    }
    is_proving.then_some(code::PROVING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_unless_it_has_stopped_or_lacks_room_or_proves_its_view() {
        let check = |has_stopped, lacks_room, is_proving, expected: Option<Code>| {
            assert_eq!(unready(has_stopped, lacks_room, is_proving).map(|code| code.id), expected.map(|code| code.id));
        };
        check(false, false, false, None);
        check(false, false, true, Some(code::PROVING));
        check(false, true, false, Some(code::DISK_FULL));
        check(false, true, true, Some(code::DISK_FULL));
        check(true, false, false, Some(code::STOPPED));
        check(true, true, true, Some(code::STOPPED));
    }
}
