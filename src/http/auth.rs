//! Who may do what: the bearer key of a request against what its route needs.

use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::{Method, header};
use actix_web::middleware::Next;
use actix_web::{Error, FromRequest, HttpMessage as _, HttpRequest, web};

use super::keys::Scope;
use super::problem::Problem;
use super::shared::Shared;
use crate::code;

/// What a route needs of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Nothing: it is open, or checks a signature itself.
    Nothing,
    /// A key with this scope.
    Key(Scope),
}

/// The name of the key of the request that is being answered.
#[derive(Clone, Debug)]
pub(crate) struct Holder(pub(crate) Arc<str>);

/// Lets a request through to its resource if its key may; a method that the resource lacks needs nothing.
pub(crate) async fn check(
    needs: &[(Method, Needs)],
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let asked = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let needs = needs.iter().find(|(method, _)| method == asked).map_or(Needs::Nothing, |(_, needs)| *needs);
    if let Needs::Key(scope) = needs {
        match holder(&request, scope) {
            Ok(holder) => request.extensions_mut().insert(holder),
            Err(problem) => return Ok(request.error_response(problem)),
        };
    }
    next.call(request).await
}

fn holder(request: &ServiceRequest, scope: Scope) -> Result<Holder, Problem> {
    let shared = request
        .app_data::<web::Data<Shared>>()
        .ok_or_else(|| Problem::internal(&"the application was built without its shared data"))?;
    let token = bearer(request)?;
    let Some(key) = shared.keys.find(token, shared.engine.now()) else {
        return Err(Problem::new(code::KEY_INVALID, "the key is not one of this server's, or was revoked"));
    };
    if key.scopes.contains(&scope) {
        Ok(Holder(Arc::from(key.name)))
    } else {
        Err(Problem::scope_missing(&key.name, scope))
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer(request: &ServiceRequest) -> Result<&str, Problem> {
    let mut headers = request.headers().get_all(header::AUTHORIZATION);
    let Some(header) = headers.next() else {
        return Err(Problem::new(code::KEY_MISSING, "there is no `Authorization` header"));
    };
    if headers.next().is_some() {
        return Err(Problem::new(code::KEY_INVALID, "there are several `Authorization` headers"));
    }
    let token = header.to_str().ok().and_then(|text| text.split_once(' ')).filter(|(scheme, _)| {
        // The scheme's name is not case-sensitive (RFC 9110, 11.1).
        scheme.eq_ignore_ascii_case("bearer")
    });
    token
        .map(|(_, token)| token.trim_start_matches(' '))
        .ok_or_else(|| Problem::new(code::KEY_INVALID, "`Authorization` is not `Bearer KEY`"))
}

impl FromRequest for Holder {
    type Error = Problem;
    type Future = std::future::Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let holder = request.extensions().get::<Self>().cloned();
        std::future::ready(holder.ok_or_else(|| Problem::internal(&"the route asks for a key's name but needs no key")))
    }
}
