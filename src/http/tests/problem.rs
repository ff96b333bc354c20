use actix_web::ResponseError as _;

use super::*;
use crate::domain::Position;
use crate::engine::Error;
use crate::http::{Problem, dto};
use crate::store::Error as StoreError;

/// The status, `Retry-After` and body of an error of the engine.
async fn answer(error: Error) -> (u16, Option<String>, String) {
    let response = Problem::from(error).error_response();
    let status = response.status().as_u16();
    let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let body = to_bytes(response.into_body()).await.unwrap();
    (status, retry, String::from_utf8(body.to_vec()).unwrap())
}

#[actix_web::test]
async fn an_error_of_the_engine_has_its_status_and_leaks_nothing() {
    let inside = || "/var/lib/inside".to_owned();
    let check = async |error: Error, status: u16, retry: Option<&str>, code: &str| {
        let (found, wait, body) = answer(error).await;
        assert_eq!((found, wait.as_deref()), (status, retry), "{body}");
        assert!(body.contains(&format!("\"code\":\"{code}\"")) && !body.contains("inside"), "{body}");
    };
    check(StoreError::Busy.into(), 503, Some("1"), "busy").await;
    check(StoreError::Full.into(), 503, Some("30"), "disk_full").await;
    check(StoreError::Stopped { reason: inside() }.into(), 503, Some("5"), "stopped").await;
    check(StoreError::TooLarge { bytes: 9, limit: 8 }.into(), 413, None, "record_too_large").await;
    let (.., body) = answer(StoreError::TooLarge { bytes: 9, limit: 8 }.into()).await;
    assert!(body.contains("store.frame_max") && !body.contains("server.body_limit"), "{body}");
    let position = Position::default();
    check(StoreError::NotDead { position }.into(), 404, None, "dead_letter_not_found").await;
    let detail = "it names no entity".to_owned();
    check(Error::NotReplayable { position, detail }, 409, None, "dead_letter_not_replayable").await;
    let corrupt = StoreError::Corrupt { place: inside(), detail: inside() };
    check(corrupt.into(), 500, None, "internal").await;
    let refused = StoreError::Io { action: inside(), detail: inside() };
    check(refused.into(), 500, None, "internal").await;
    check(StoreError::Locked { path: inside() }.into(), 500, None, "internal").await;
}

#[actix_web::test]
async fn each_failure_of_ours_has_a_name_of_its_own() {
    let name = async || {
        let (.., body) = answer(StoreError::Io { action: String::new(), detail: String::new() }.into()).await;
        serde_json::from_str::<dto::Problem>(&body).unwrap().instance.unwrap()
    };
    assert_ne!(name().await, name().await);
}
