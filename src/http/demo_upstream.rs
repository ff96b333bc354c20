//! The demo's upstream: a small API on loopback that has what it was told to have, and can be down.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};

/// An API that answers GET by path.
pub struct DemoUpstream {
    shared: Arc<Shared>,
    address: SocketAddr,
    handle: ServerHandle,
}

#[derive(Default)]
struct Shared {
    bodies: Mutex<HashMap<String, String>>,
    down: AtomicBool,
    asked: AtomicUsize,
}

impl DemoUpstream {
    /// Starts on a free port of the loopback address, on the actix system that this is called in.
    ///
    /// # Errors
    /// No port can be had.
    pub fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let data = web::Data::from(Arc::clone(&shared));
        let server = HttpServer::new(move || App::new().app_data(data.clone()).default_service(web::to(answer)))
            .workers(1)
            .disable_signals()
            .bind(("127.0.0.1", 0))?;
        let address = server.addrs().first().copied();
        let address = address.ok_or_else(|| std::io::Error::other("the upstream has no address"))?;
        let server = server.run();
        let handle = server.handle();
        actix_rt::spawn(server);
        Ok(Self { shared, address, handle })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it has this body at this path.
    pub fn has(&self, path: &str, body: &str) {
        self.shared.bodies().insert(path.to_owned(), body.to_owned());
    }

    /// Whether it answers nothing but 503 from now on.
    pub fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::SeqCst);
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Stops it.
    pub async fn stop(&self) {
        self.handle.stop(false).await;
    }
}

impl Shared {
    fn bodies(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    shared.asked.fetch_add(1, Ordering::SeqCst);
    if shared.down.load(Ordering::SeqCst) {
        return HttpResponse::ServiceUnavailable().finish();
    }
    match shared.bodies().get(request.path()) {
        Some(body) => HttpResponse::Ok().content_type("application/json").body(body.clone()),
        None => HttpResponse::NotFound().finish(),
    }
}
