//! What the engine answers when it cannot do what is asked.

use crate::domain::Position;
use crate::store;

/// What the engine answers when it cannot do what is asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The dead letter cannot be judged by any entity.
    #[error("the dead letter at {position} cannot be replayed: {detail}")]
    NotReplayable {
        /// The dead letter.
        position: Position,
        /// Why, and what to do.
        detail: String,
    },
}

impl Error {
    /// The stable code, which the error reference explains.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Store(error) => error.code(),
            Self::NotReplayable { .. } => "dead_letter_not_replayable",
        }
    }
}
