//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::budget::Budget;
use super::keys::Ring;
use super::server::Settings;
use crate::engine::Engine;

/// What all requests share.
pub(crate) struct Shared {
    /// The engine.
    pub(crate) engine: Engine,
    /// The keys.
    pub(crate) keys: Ring,
    /// The largest body of a webhook.
    pub(crate) body_limit: usize,
    /// What all bodies may take at once.
    pub(crate) bodies: Budget,
    /// How long a body may take to arrive.
    pub(crate) body_timeout: Duration,
    /// Turns true when the server begins to stop.
    pub(crate) stopping: watch::Receiver<bool>,
    /// How many requests are being answered.
    pub(crate) in_flight: Arc<AtomicUsize>,
}

/// A request that is being answered; dropped with its answer, also when its client goes away.
pub(crate) struct Answering(Arc<AtomicUsize>);

impl Shared {
    /// What the requests of one server share.
    pub(super) fn new(engine: Engine, keys: Ring, settings: &Settings, stopping: watch::Receiver<bool>) -> Self {
        Self {
            engine,
            keys,
            body_limit: settings.body_limit,
            bodies: Budget::of(settings.bodies_max),
            body_timeout: settings.body_timeout,
            stopping,
            in_flight: Arc::new(AtomicUsize::new(0)),
        }
    }

    /// Counts a request until its answer is made.
    pub(crate) fn answering(&self) -> Answering {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        Answering(Arc::clone(&self.in_flight))
    }

    /// Whether the server is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server begins to stop.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // An error means that the server is gone altogether.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
