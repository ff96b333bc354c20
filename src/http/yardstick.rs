//! Yardsticks: servers that do only the first part of what the door does, to measure the rest against.
//!
//! `tollgate bench` is the only one that starts them. They listen as the real server does, with as many threads.

use std::net::SocketAddr;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use tokio::sync::watch;

use super::door;
use super::dto::Admitted;
use super::keys::Ring;
use super::problem::Problem;
use super::routes::around;
use super::server::{Error, Settings};
use super::shared::Shared;
use crate::code;
use crate::domain::{Admission, EventId, Lsn, Position};
use crate::engine::Engine;

/// The running yardsticks.
pub struct Yardsticks {
    handle: ServerHandle,
    address: SocketAddr,
    /// Held so that requests do not take the server for one that is stopping.
    _stopping: watch::Sender<bool>,
}

impl Yardsticks {
    /// Starts them on a free port of loopback, on the actix system that this is called in.
    ///
    /// # Errors
    /// [`Error::Listen`] if there is no free port.
    pub fn start(engine: Engine, keys: Ring, settings: &Settings) -> Result<Self, Error> {
        let (stopping, stopped) = watch::channel(false);
        let shared = web::Data::new(Shared::new(engine, keys, settings, stopped));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let app = move || {
            let (shared, around_shared) = (shared.clone(), shared.clone());
            App::new().app_data(shared).route("/bare", web::post().to(bare)).service(
                web::resource("/verified/{source}")
                    .route(web::post().to(verified))
                    .wrap(from_fn(move |request, next| around(around_shared.clone(), request, next))),
            )
        };
        let listen = |source| Error::Listen { address, source };
        let server =
            HttpServer::new(app).workers(settings.workers()).disable_signals().bind(address).map_err(listen)?;
        let address = server.addrs().first().copied().unwrap_or(address);
        let server = server.run();
        let handle = server.handle();
        actix_rt::spawn(server);
        Ok(Self { handle, address, _stopping: stopping })
    }

    /// Where they listen: `POST /bare` reads the body and answers; `POST /verified/SOURCE` is the door up to where the
    /// delivery would be handed on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops them.
    pub async fn stop(self) {
        self.handle.stop(false).await;
    }
}

async fn bare(body: web::Bytes) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(format!("{{\"bytes\":{}}}", body.len()))
}

async fn verified(
    shared: web::Data<Shared>,
    name: web::Path<String>,
    request: HttpRequest,
    mut payload: web::Payload,
) -> Result<web::Json<Admitted>, Problem> {
    let unknown = || Problem::new(code::SOURCE_NOT_FOUND, "no such source is on".to_owned());
    let source = shared.engine.source(&name).ok_or_else(unknown)?;
    let mut room = shared.bodies.room();
    let delivery = door::verified(&shared, &source, &request, &mut payload, &mut room).await?;
    let ids: Vec<EventId> = delivery.items.iter().map(|item| item.event.id.clone()).collect();
    let nowhere = Admission::Accepted(Position { lsn: Lsn(0), item: 0 });
    Ok(web::Json(Admitted::of(&ids, &vec![nowhere; ids.len()])))
}
