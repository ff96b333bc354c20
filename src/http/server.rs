//! The server: binds, answers, and stops without dropping an answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, ResponseError as _, web};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::health;
use super::keys::Ring;
use super::problem::Problem;
use super::routes;
use super::shared::Shared;
use crate::code::{self, Code};
use crate::engine::Engine;

/// How long connections may take to close once their answers are written.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// How often a stop looks whether the answers in flight have ended.
const STOP_POLL: Duration = Duration::from_millis(5);

/// How a server listens and how patient it is. Defaults live in `config/default.toml` only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that answer; 0 takes one a processor.
    pub workers: usize,
    /// The largest body of a webhook in bytes.
    pub body_limit: usize,
    /// The most bytes that all bodies may take at once.
    pub bodies_max: usize,
    /// How long a request's head may take to arrive. It is at least a second, as are `keep_alive` and
    /// `disconnect_timeout`: the clock that measures them ticks twice a second, and a shorter time could be over
    /// before it began.
    pub head_timeout: Duration,
    /// How long a request's body may take to arrive.
    pub body_timeout: Duration,
    /// How long a connection without a request is kept.
    pub keep_alive: Duration,
    /// How long closing a connection may take.
    pub disconnect_timeout: Duration,
    /// The most connections at once.
    pub connections_max: usize,
    /// How long answers in flight are waited for when the server stops.
    pub stop_timeout: Duration,
}

impl Settings {
    /// How many threads answer.
    pub(super) fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can't be had.
    #[error("can't listen on `{address}`: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's words.
        source: std::io::Error,
    },
}

impl Error {
    /// The row of the table of codes.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Listen { .. } => code::LISTEN_FAILED,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    handle: ServerHandle,
    task: JoinHandle<std::io::Result<()>>,
    stopping: watch::Sender<bool>,
    in_flight: Arc<AtomicUsize>,
    stop_timeout: Duration,
}

/// Binds and begins to answer, on the actix system that this is called in.
///
/// # Errors
/// [`Error::Listen`] if the address can't be had.
pub fn serve(engine: Engine, keys: Ring, settings: &Settings) -> Result<Server, Error> {
    let (stopping, stopped) = watch::channel(false);
    let shared = web::Data::new(Shared::new(engine, keys, settings, stopped));
    let in_flight = Arc::clone(&shared.in_flight);
    let listen = |source| Error::Listen { address: settings.listen, source };
    let workers = settings.workers();
    let server = HttpServer::new(move || routes::app(shared.clone()))
        .workers(workers)
        .max_connections(settings.connections_max.div_ceil(workers))
        .keep_alive(settings.keep_alive)
        .client_request_timeout(settings.head_timeout)
        .client_disconnect_timeout(settings.disconnect_timeout)
        .shutdown_timeout(CLOSE_WITHIN.as_secs())
        .disable_signals()
        .bind(settings.listen)
        .map_err(listen)?;
    let address = server.addrs().first().copied().unwrap_or(settings.listen);
    let server = server.run();
    let handle = server.handle();
    let task = actix_rt::spawn(server);
    Ok(Server { address, handle, task, stopping, in_flight, stop_timeout: settings.stop_timeout })
}

/// A server that only says why it takes nothing.
#[derive(Debug)]
pub struct Refusing(ServerHandle);

/// Binds and answers every request with this code, on the actix system that this is called in; `/healthz` says that
/// the process lives.
///
/// # Errors
/// [`Error::Listen`] if the address can't be had.
pub fn refuse(code: Code, listen: SocketAddr) -> Result<Refusing, Error> {
    let refuse = move || async move { Problem::new(code, code.title).error_response() };
    let server = HttpServer::new(move || {
        App::new().route("/healthz", web::get().to(health::live)).default_service(web::to(refuse))
    });
    let server = server.workers(1).shutdown_timeout(CLOSE_WITHIN.as_secs()).disable_signals();
    let server = server.bind(listen).map_err(|source| Error::Listen { address: listen, source })?.run();
    let handle = server.handle();
    actix_rt::spawn(server);
    Ok(Refusing(handle))
}

impl Refusing {
    /// Stops, and gives the address free.
    pub async fn stop(self) {
        self.0.stop(true).await;
    }
}

impl Server {
    /// The address that is listened on, with the port that was found.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests are being answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Resolves when the server ends although nobody told it to.
    pub async fn ended(&mut self) -> std::io::Error {
        match (&mut self.task).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => std::io::Error::other("it stopped accepting"),
            Err(error) => std::io::Error::other(error),
        }
    }

    /// Stops: takes no new connection, finishes the answers in flight, closes.
    ///
    /// Idle connections are not waited for; those that are answered now are closed behind the answer.
    pub async fn stop(self) {
        // Followers of the feed are waited for too: this ends their waiting.
        self.stopping.send_replace(true);
        self.handle.pause().await;
        let began = Instant::now();
        while self.in_flight() > 0 && began.elapsed() < self.stop_timeout {
            tokio::time::sleep(STOP_POLL).await;
        }
        self.handle.stop(true).await;
    }
}
