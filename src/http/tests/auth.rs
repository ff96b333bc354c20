use super::*;
use crate::http::auth::Needs;

/// The paths of the table with something in their places.
fn sample(path: &str) -> String {
    let path = path.replace("{source}", "standard").replace("{kind}", "payment").replace("{id}", "pay_1");
    path.replace("{name}", "payment").replace("{position}", "9.9")
}

/// What a key of this name gets: nothing (let in), or the code of the refusal.
fn expected(needs: Needs, key: &str) -> Option<&'static str> {
    match (needs, key) {
        (Needs::Nothing, _) => None,
        (Needs::Key(_), "none") => Some("key_missing"),
        (Needs::Key(_), "bogus" | "revoked") => Some("key_invalid"),
        (Needs::Key(scope), key) => (key != scope.as_str() && key != "all").then_some("scope_missing"),
    }
}

#[actix_web::test]
async fn every_route_lets_in_the_keys_that_may_and_no_others() {
    let world = World::new().await;
    for route in routes::table() {
        for key in ["none", "bogus", "revoked", "read", "operate", "ingest", "all"] {
            let request = TestRequest::default().method(route.method.clone()).uri(&sample(route.path));
            let token = world.tokens.get(key).map_or("tg_00", String::as_str);
            let header = ("authorization", format!("Bearer {token}"));
            let answer = world.call(if key == "none" { request } else { request.insert_header(header) }).await;
            let refused = ["key_missing", "key_invalid", "scope_missing"];
            let code = (answer.status >= 400).then(|| answer.code());
            let code = code.as_deref().filter(|code| refused.contains(code));
            assert_eq!(code, expected(route.needs, key), "{} {} with key `{key}`", route.method, route.path);
        }
    }
}

#[actix_web::test]
async fn a_refusal_says_what_would_be_right() {
    let world = World::new().await;
    let check = async |headers: &[&str], status: u16, code: &str, challenge: &str| {
        let request = TestRequest::get().uri("/v1/entities");
        let request = headers.iter().fold(request, |request, value| request.append_header(("authorization", *value)));
        let answer = world.call(request).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{headers:?}");
        assert_eq!(answer.header("www-authenticate"), Some(challenge), "{headers:?}");
    };
    let invalid = "Bearer realm=\"tollgate\", error=\"invalid_token\"";
    let (read, operate) = (format!("Bearer {}", world.tokens["read"]), format!("Bearer {}", world.tokens["operate"]));
    check(&[], 401, "key_missing", "Bearer realm=\"tollgate\"").await;
    check(&["Basic dTpw"], 401, "key_invalid", invalid).await;
    check(&["Bearer"], 401, "key_invalid", invalid).await;
    check(&["Bearer "], 401, "key_invalid", invalid).await;
    check(&[&read, &read], 401, "key_invalid", invalid).await;
    let scope = "Bearer realm=\"tollgate\", error=\"insufficient_scope\", scope=\"read\"";
    check(&[&operate], 403, "scope_missing", scope).await;
}

#[actix_web::test]
async fn the_name_of_the_scheme_may_be_written_in_any_case() {
    let world = World::new().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let header = ("authorization", format!("{scheme} {}", world.tokens["read"]));
        let answer = world.call(TestRequest::get().uri("/v1/entities").insert_header(header)).await;
        assert_eq!(answer.status, 200, "{scheme}");
    }
}

#[actix_web::test]
async fn a_revoked_key_is_refused_within_a_second() {
    let world = World::new().await;
    assert_eq!(world.get("/v1/entities").await.status, 200);
    keys::revoke(world.data.path(), "all", NOON).unwrap();
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.get("/v1/entities").await.code(), "key_invalid");
}
