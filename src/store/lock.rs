//! Taking locks.

use std::sync::{LockResult, PoisonError};

/// What a lock guards, also after a panic under it.
///
/// A panic on a thread of the store's own stops the store, so nothing is decided on what it left. But the store must
/// still close, and a reader's panic must not become everybody's.
pub(super) fn unpoisoned<G>(guard: LockResult<G>) -> G {
    guard.unwrap_or_else(PoisonError::into_inner)
}
