//! What can go wrong with a store.

use crate::domain::{EntityKey, Position, Shard};

/// What can go wrong with a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No space is left; it goes on when space returns.
    #[error("the disk is full; free some space, the sender will try again")]
    Full,
    /// Too much waits to be written.
    #[error("too much waits to be written; try again in a moment")]
    Busy,
    /// A record over the bound.
    #[error("the record has {bytes} bytes with all that is kept of it, the limit is {limit}: see `store.frame_max`")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// Another owner took the shard.
    #[error("shard {} was taken over by another owner", shard.0)]
    Fenced {
        /// The shard.
        shard: Shard,
    },
    /// The entity moved on since it was loaded.
    #[error("entity `{entity}` is at version {actual}, not {expected}")]
    Moved {
        /// The entity.
        entity: EntityKey,
        /// The version decided on.
        expected: u64,
        /// The version stored.
        actual: u64,
    },
    /// The event has a decision already.
    #[error("the event at {position} has a decision already")]
    NotPending {
        /// The event.
        position: Position,
    },
    /// No dead letter stands there.
    #[error("no dead letter stands at {position}; it may have been replayed or discarded")]
    NotDead {
        /// The position.
        position: Position,
    },
    /// The store has stopped.
    #[error("the store has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// What is stored contradicts itself, or was changed.
    #[error("{place} is corrupt: {detail}")]
    Corrupt {
        /// Which file and where in it.
        place: String,
        /// What is wrong.
        detail: String,
    },
    /// The operating system refused.
    #[error("{action}: {detail}")]
    Io {
        /// What was tried, and on which file.
        action: String,
        /// The operating system's words.
        detail: String,
    },
    /// The store was created with another count of shards.
    #[error("the store was created with {stored} shards, not {asked}: the count is fixed; set `shards` to {stored}")]
    OtherShards {
        /// What the store has.
        stored: u16,
        /// What was asked for.
        asked: u16,
    },
    /// Another process has the store open.
    #[error("the data directory `{path}` is in use by another process; stop it, or name another with --data")]
    Locked {
        /// The directory.
        path: String,
    },
}

impl Error {
    /// The stable code, which the error reference explains.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Full => "disk_full",
            Self::Busy => "busy",
            Self::TooLarge { .. } => "record_too_large",
            Self::NotDead { .. } => "dead_letter_not_found",
            Self::Stopped { .. } => "stopped",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Io { .. } => "store_failed",
            Self::Locked { .. } => "data_locked",
            Self::OtherShards { .. } => "config_invalid",
            // The engine's own business: seen from outside they are a fault of ours.
            Self::Fenced { .. } | Self::Moved { .. } | Self::NotPending { .. } => "internal",
        }
    }
}
