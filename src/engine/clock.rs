//! The one place that reads the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::domain::Timestamp;

/// Says what time it is.
pub trait Clock: Send + Sync + 'static {
    /// Now, UTC.
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Timestamp {
        Timestamp::from(chrono::Utc::now())
    }
}

/// A clock that stands still until it is moved, for tests and simulations. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at `at`.
    #[must_use]
    pub fn new(at: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(at.nanos())))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: Duration) {
        let at = self.now().plus(by);
        self.0.store(at.nanos(), Ordering::SeqCst);
    }

    /// Sets the clock.
    pub fn set(&self, at: Timestamp) {
        self.0.store(at.nanos(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
