//! The table of routes: method, path, what a request needs, and who answers.
//!
//! The server is built from this table, and the tests of keys and of the OpenAPI document go through it: a route
//! that is not here does not exist, and one that is here can't be forgotten.

use std::rc::Rc;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http::{ConnectionType, Method, header};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpRequest, HttpResponse, guard, web};

use super::auth::{self, Needs};
use super::keys::Scope;
use super::problem::{Problem, cut};
use super::shared::Shared;
use super::{dead_letters, door, entities, entries, health, machines, metrics, openapi, transitions, unread};
use crate::code;

/// One route.
pub(crate) struct Route {
    /// `GET` (which answers `HEAD` too) or `POST`.
    pub(crate) method: Method,
    /// The path as the OpenAPI document has it.
    pub(crate) path: &'static str,
    /// What a request needs.
    pub(crate) needs: Needs,
    handler: fn() -> actix_web::Route,
}

const READ: Needs = Needs::Key(Scope::Read);
const OPERATE: Needs = Needs::Key(Scope::Operate);

/// Every route there is.
pub(crate) fn table() -> Vec<Route> {
    vec![
        post("/webhooks/{source}", Needs::Nothing, || web::to(door::receive)),
        get("/v1/entities", READ, || web::to(entities::list)),
        get("/v1/entities/{source}/{kind}/{id}", READ, || web::to(entities::show)),
        get("/v1/entities/{source}/{kind}/{id}/entries", READ, || web::to(entries::of_entity)),
        get("/v1/entries", READ, || web::to(entries::list)),
        get("/v1/transitions", READ, || web::to(transitions::list)),
        get("/v1/machines", READ, || web::to(machines::list)),
        get("/v1/machines/{name}", READ, || web::to(machines::show)),
        get("/v1/dead-letters", READ, || web::to(dead_letters::list)),
        get("/v1/dead-letters/{position}", READ, || web::to(dead_letters::show)),
        post("/v1/dead-letters/{position}/replay", OPERATE, || web::to(dead_letters::replay)),
        post("/v1/dead-letters/{position}/discard", OPERATE, || web::to(dead_letters::discard)),
        get("/healthz", Needs::Nothing, || web::to(health::live)),
        get("/readyz", Needs::Nothing, || web::to(health::ready)),
        get("/metrics", READ, || web::to(metrics::show)),
        get("/openapi.json", READ, || web::to(openapi::show)),
    ]
}

const fn get(path: &'static str, needs: Needs, handler: fn() -> actix_web::Route) -> Route {
    Route { method: Method::GET, path, needs, handler }
}

const fn post(path: &'static str, needs: Needs, handler: fn() -> actix_web::Route) -> Route {
    Route { method: Method::POST, path, needs, handler }
}

/// The application: the table, with what goes round every answer.
pub(crate) fn app(
    shared: web::Data<Shared>,
) -> App<
    impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<BoxBody>, Error = Error, InitError = ()>,
> {
    let around_shared = shared.clone();
    App::new()
        .app_data(shared)
        .configure(mount)
        .default_service(web::to(not_found))
        .wrap(from_fn(move |request, next| around(around_shared.clone(), request, next)))
}

fn mount(app: &mut web::ServiceConfig) {
    let mut routes = table();
    while let Some(first) = routes.first() {
        let path = first.path;
        let (same, others): (Vec<_>, Vec<_>) = routes.into_iter().partition(|route| route.path == path);
        routes = others;
        let allow = same.iter().map(Route::allow).collect::<Vec<_>>().join(", ");
        let needs: Rc<[_]> = same.iter().map(|route| (route.method.clone(), route.needs)).collect();
        let mut resource = web::resource(pattern(path));
        for route in &same {
            resource = resource.route(route.mounted());
        }
        let wrong = web::to(move |request: HttpRequest| {
            let problem = Problem::method_not_allowed(request.method().as_str(), &allow);
            async move { Err::<HttpResponse, _>(problem) }
        });
        let resource = resource.default_service(wrong);
        if needs.iter().all(|(_, needs)| *needs == Needs::Nothing) {
            app.service(resource);
            continue;
        }
        app.service(resource.wrap(from_fn(move |request, next| {
            let needs = Rc::clone(&needs);
            async move { auth::check(&needs, request, next).await }
        })));
    }
}

impl Route {
    fn allow(&self) -> &'static str {
        if self.method == Method::GET { "GET, HEAD" } else { "POST" }
    }

    fn mounted(&self) -> actix_web::Route {
        let route = (self.handler)();
        if self.method == Method::GET {
            route.guard(guard::Any(guard::Get()).or(guard::Head()))
        } else {
            route.method(self.method.clone())
        }
    }
}

/// The path as actix matches it: a machine's name may hold a `/`.
fn pattern(path: &str) -> String {
    path.replace("{name}", "{name:.+}")
}

async fn not_found(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Err(Problem::new(code::ROUTE_NOT_FOUND, format!("nothing is at `{}`", cut(request.uri().path()))))
}

/// Headers of every answer. Nothing here is a page, so nothing may be framed, sniffed, run or kept.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Goes round every answer: counts it, and sets what all have.
pub(super) async fn around(
    shared: web::Data<Shared>,
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let answering = shared.answering();
    let unread = unread::keep(&mut request);
    let response = next.call(request).await?;
    let mut response = response.map_body(|_, body| unread.held_by(body));
    let answer = response.response_mut();
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    if shared.is_stopping() {
        answer.head_mut().set_connection_type(ConnectionType::Close);
    }
    drop(answering);
    Ok(response)
}
