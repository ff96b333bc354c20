//! Forms that clients rely on: the OpenAPI document, headers, methods.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;
use crate::http::auth::Needs;
use crate::http::openapi;

#[test]
fn the_openapi_document_has_exactly_the_routes_of_the_table() {
    let document = openapi::document();
    let mut documented = BTreeSet::new();
    for (path, item) in &document.paths.paths {
        let operations = [("GET", &item.get), ("POST", &item.post), ("PUT", &item.put), ("DELETE", &item.delete)];
        for (method, _) in operations.into_iter().filter(|(_, operation)| operation.is_some()) {
            documented.insert(format!("{method} {path}"));
        }
    }
    let table: BTreeSet<_> = routes::table().iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    assert_eq!(documented, table);
    let text = serde_json::to_string(&document).unwrap();
    let ids: Vec<_> = text.split("\"operationId\":").skip(1).filter_map(|rest| rest.split('"').nth(1)).collect();
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (table.len(), table.len()), "{ids:?}");
}

#[test]
fn the_openapi_document_says_what_each_route_needs_and_how_it_fails() {
    let mut document = openapi::document();
    let mut out = String::new();
    for route in routes::table() {
        let item = document.paths.paths.get_mut(route.path).unwrap();
        let operation = openapi::operation(item, route.method.as_str()).unwrap();
        assert!(operation.responses.responses.contains_key("default"), "{}", route.path);
        assert_eq!(operation.security.is_some(), route.needs != Needs::Nothing, "{}", route.path);
        let needs = match route.needs {
            Needs::Nothing => "-",
            Needs::Key(scope) => scope.as_str(),
        };
        let summary = operation.summary.as_deref().unwrap();
        writeln!(out, "{:4} {:45} {needs:8} {summary}", route.method.as_str(), route.path).unwrap();
    }
    snapshot("routes", &out);
}

#[test]
fn every_schema_that_is_referred_to_is_there() {
    let document = serde_json::to_string(&openapi::document()).unwrap();
    let schemas = openapi::document().components.unwrap().schemas;
    for reference in document.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    assert!(schemas.contains_key("Problem") && schemas.contains_key("Entity"));
}

#[actix_web::test]
async fn the_openapi_document_is_served() {
    let world = World::new().await;
    let json = world.get("/openapi.json").await.json();
    assert!(json["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(json["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[actix_web::test]
async fn every_answer_has_the_headers_that_keep_browsers_out() {
    let world = World::new().await;
    let mut out = String::new();
    for path in ["/v1/entities", "/v1/nothing", "/healthz", "/metrics"] {
        let answer = world.get(path).await;
        writeln!(out, "GET {path} {}", answer.status).unwrap();
        let mut headers = answer.headers.clone();
        headers.sort();
        for (name, value) in headers {
            writeln!(out, "  {name}: {value}").unwrap();
        }
    }
    snapshot("headers", &out);
}

#[actix_web::test]
async fn a_wrong_method_is_405_on_every_route_and_says_which_are_right() {
    let world = World::new().await;
    for route in routes::table() {
        let allow = if route.method == Method::GET { "GET, HEAD" } else { "POST" };
        for method in [Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let path = route.path.replace("{position}", "1.0").replace(['{', '}'], "");
            let answer = world.call(world.keyed(method.clone(), &path)).await;
            assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_allowed"), "{method} {path}");
            assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}

#[actix_web::test]
async fn head_is_answered_where_get_is() {
    let world = World::new().await;
    assert_eq!(world.call(world.keyed(Method::HEAD, "/v1/entities")).await.status, 200);
    assert_eq!(world.call(TestRequest::default().method(Method::HEAD).uri("/v1/entities")).await.status, 401);
    assert_eq!(world.call(TestRequest::default().method(Method::HEAD).uri("/healthz")).await.status, 200);
}
