//! What is shared while an engine runs: its core, whether it is stopping, and how many turns are under way.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use tokio::sync::Notify;

use super::turn::Core;

/// A running engine's shared state.
pub(super) struct Running {
    pub(super) core: Core,
    stopping: AtomicBool,
    stop: Notify,
    turns: AtomicUsize,
    failure: Mutex<Option<String>>,
}

/// A turn under way; dropped when it ends.
pub(super) struct Busy<'a>(&'a AtomicUsize);

impl Running {
    pub(super) fn new(core: Core) -> Arc<Self> {
        Arc::new(Self {
            core,
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            turns: AtomicUsize::new(0),
            failure: Mutex::new(None),
        })
    }

    pub(super) fn busy(&self) -> Busy<'_> {
        self.turns.fetch_add(1, Ordering::SeqCst);
        Busy(&self.turns)
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Resolves when the engine stops.
    pub(super) async fn stopped(&self) {
        let notified = self.stop.notified();
        tokio::pin!(notified);
        // Registered before the flag is read, so that a stop between the two is not missed.
        notified.as_mut().enable();
        if !self.is_stopping() {
            notified.await;
        }
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stop.notify_waiters();
    }

    /// A durable invariant is broken or the store is gone: nothing goes on.
    pub(super) fn fail(&self, reason: &str) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none() && !self.is_stopping() {
            tracing::error!(reason, "the engine stops");
            *failure = Some(reason.to_owned());
        }
        drop(failure);
        self.stop();
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs a task that must not end by a panic: the engine would seem well, and do nothing.
pub(super) async fn guarded(running: Arc<Running>, what: &'static str, task: impl Future<Output = ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        running.fail(&format!("{what} panicked"));
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
