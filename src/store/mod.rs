//! The durability seam: facts go in, what they made of each entity comes out.
//!
//! # Crash semantics (every engine keeps them; the contract suite checks them)
//!
//! - [`Store::append`] and [`Store::command`] resolve when the fact is durable. A crash before that may keep or
//!   lose it; a crash after it loses nothing. A failed append leaves its ids unseen. A duplicate is answered
//!   only once its first is durable.
//! - [`Store::commit`] resolves when the record is durable; it is one record, so a crash keeps all of it or
//!   nothing. Nothing that reads outward ([`Store::load`] by others, entries, feed) shows it before.
//! - An event is pending from its append until a commit disposes of it. After a crash every event without a
//!   durable disposition is pending again, in the order of positions.
//! - Retries and checks are part of what is durable.
//! - A write error that leaves durability unknown ends the store: every later call answers [`Error::Stopped`].

pub mod check;
pub mod disk;
pub mod embedded;
pub mod journal;
pub mod memory;
pub mod options;
pub mod seen;

mod applier;
mod change;
mod committer;
#[cfg(test)]
pub(crate) mod contract;
pub(crate) mod courtesy;
mod door;
mod error;
#[cfg(any(test, fuzzing))]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken law is told by a panic"
)]
pub(crate) mod fuzz;
mod gather;
mod ids;
mod keys;
mod layout;
mod lock;
pub(crate) mod map;
mod open;
#[cfg(test)]
pub(crate) mod oracle;
mod overlay;
mod page;
mod prepared;
mod reading;
mod rebuild;
mod recent;
mod records;
mod redo;
mod replay;
mod shared;
mod signals;
mod sled_tree;
mod stage;
#[cfg(test)]
pub(crate) mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod view;
mod walk;
mod window;

pub use error::Error;
pub use options::Options;

#[cfg(test)]
pub(crate) use {layout::Layout, open::Disks, tree::Trees, tree::sim::SimTrees};

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::domain::query::{DeadLetter, EntityCursor, EntityFilter, Page};
use crate::domain::{
    Admission, Delivery, Entity, EntityKey, Entry, Event, Judged, Kept, Lsn, MachineName, Pending, Position, Recorded,
    Shard, Timestamp,
};

/// What an operator asks for; durable before it is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The name of the operator's key.
    pub by: Arc<str>,
    /// When.
    pub at: Timestamp,
    /// What.
    pub action: Action,
}

/// The actions of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Judge this dead letter again, as this event (mapped anew from its raw bytes where that is possible).
    /// It stops being a dead letter and is pending at the command's position.
    Replay {
        /// The dead letter.
        dead: Position,
        /// The event to judge; its entity is some.
        event: Arc<Event>,
    },
    /// Drop this dead letter: somebody has looked at it.
    Discard {
        /// The dead letter.
        dead: Position,
    },
    /// A machine was loaded in a form that the store has not recorded yet.
    MachineChanged {
        /// Its name.
        machine: MachineName,
        /// Its version.
        version: u32,
        /// SHA-256 of its file.
        sha256: [u8; 32],
    },
}

/// Which events are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope<'a> {
    /// Those of every entity of a shard.
    Shard(Shard),
    /// Those of one entity.
    Entity(&'a EntityKey),
}

/// One owner of a shard, so that an owner that was replaced can commit no more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Epoch(pub u64);

/// One decision made true: a single record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The entity.
    pub entity: EntityKey,
    /// The committer's ownership.
    pub epoch: Epoch,
    /// The version that was decided on; 0 for an unknown entity.
    pub version: u64,
    /// The entries; [`Entry::apply`] in order gives the new entity.
    pub entries: Arc<[Entry]>,
    /// What becomes of each event.
    pub judged: Vec<Judged>,
    /// What the upstream answered, if this settles a fetch.
    pub fetched: Option<Fetched>,
}

/// A decision that is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The record's LSN.
    pub lsn: Lsn,
    /// Whether more events of the entity are pending. If none are, the next one that comes is announced by
    /// [`Store::arrivals`]: nobody needs to look for it.
    pub more: bool,
}

/// An answer of the upstream as evidence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// The address asked, without secrets.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// The body, cut at a bound.
    pub body: Bytes,
    /// Our time of sending.
    pub sent_at: Timestamp,
}

/// What is due by a time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// Entities with a retry or a check that is due, each once.
    pub entities: Vec<EntityKey>,
    /// When the next thing after those is due.
    pub next: Option<Timestamp>,
}

/// Figures of a store, for metrics and readiness.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// The last durable LSN.
    pub synced: Lsn,
    /// The last LSN that the view shows.
    pub applied: Lsn,
    /// Events without a decision (retries not counted).
    pub pending: u64,
    /// Events that wait for a retry.
    pub retries: u64,
    /// Checks that wait.
    pub checks: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Entities.
    pub entities: u64,
    /// Bytes of the journal on disk; 0 without one.
    pub journal_bytes: u64,
    /// Whether what is read is still being proved whole: until then nothing is decided.
    pub proving: bool,
}

/// The store. All methods may be called from any thread and by many tasks at once.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// How many shards the store was created with.
    fn shards(&self) -> u16;

    /// The store's own id: what was given out by one store means nothing to another.
    fn id(&self) -> [u8; 16];

    /// Appends a delivery: one admission per item, in order. If every item repeats one that was seen, nothing is written.
    /// An event that is to be queued and names no entity is only recorded.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Busy`]: nothing was kept, try later. [`Error::TooLarge`]: never.
    async fn append(&self, delivery: Delivery) -> Result<Vec<Admission>, Error>;

    /// Appends a command and answers its position. It waits for its turn where a delivery would be sent away: nobody sends
    /// it again.
    ///
    /// # Errors
    /// As [`Store::append`], but never [`Error::Busy`]; [`Error::NotDead`] if the position names no dead letter, or the
    /// event of a replay no entity.
    async fn command(&self, command: Command) -> Result<Position, Error>;

    /// Takes over a shard: earlier epochs of it can commit no more, and [`Store::arrivals`] starts anew with every
    /// entity that has pending events.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    async fn adopt(&self, shard: Shard) -> Result<Epoch, Error>;

    /// Waits until entities of these shards went from no pending event to some, and answers those (each once, until
    /// its pending events are all decided and a new one comes). An event that waits for a retry is not pending here:
    /// [`Store::due`] tells of it.
    ///
    /// # Errors
    /// [`Error::Stopped`]; [`Error::Fenced`] if one of the shards was adopted anew while this waited.
    async fn arrivals(&self, shards: &[Shard]) -> Result<Vec<EntityKey>, Error>;

    /// Events without a decision whose time has come: those never tried and the retries due at `now`, by position.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn pending(&self, scope: Scope<'_>, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error>;

    /// The entity as of the last durable commit.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn load(&self, key: &EntityKey) -> Result<Option<Entity>, Error>;

    /// Makes a decision true, durably.
    ///
    /// # Errors
    /// [`Error::Fenced`] if the epoch is not the shard's newest, [`Error::Moved`] if the entity is not at
    /// `commit.version`, [`Error::NotPending`] if an event has a decision already: nothing was written.
    async fn commit(&self, commit: Commit) -> Result<Committed, Error>;

    /// Entities with a retry or a check due at `now`, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, Error>;

    /// Entities that match, by source, kind, id and partition. A page may hold fewer than `limit`, even none, and still
    /// have a `next`: so far was looked.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn entities(
        &self,
        filter: &EntityFilter,
        after: Option<&EntityCursor>,
        limit: usize,
    ) -> Result<Page<Entity, EntityCursor>, Error>;

    /// The entries of one entity, or of all, by position. A page may hold fewer than `limit`, even none, and still have a
    /// `next`.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn entries(
        &self,
        entity: Option<&EntityKey>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<Recorded, Position>, Error>;

    /// The change feed: entries that moved a state, by position. `next` is always some once anything was read, so
    /// that a follower moves on over stretches without a move.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn feed(&self, after: Option<Position>, limit: usize) -> Result<Page<Recorded, Position>, Error>;

    /// Waits until a record beyond `lsn` is durable, and answers the last durable LSN.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    async fn synced_beyond(&self, lsn: Lsn) -> Result<Lsn, Error>;

    /// Dead letters by position.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn dead_letters(&self, after: Option<Position>, limit: usize) -> Result<Page<DeadLetter, Position>, Error>;

    /// One dead letter.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn dead_letter(&self, position: Position) -> Result<Option<DeadLetter>, Error>;

    /// The delivery that an event came in (or the one that a replay command is about).
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Corrupt`].
    async fn delivery(&self, position: Position) -> Result<Option<Kept>, Error>;

    /// The machines that were recorded last: name to (version, SHA-256 of the file).
    ///
    /// # Errors
    /// [`Error::Stopped`].
    async fn machines(&self) -> Result<BTreeMap<MachineName, (u32, [u8; 32])>, Error>;

    /// Figures.
    fn status(&self) -> Status;

    /// Syncs, marks the end as known and stops. Later calls answer [`Error::Stopped`].
    ///
    /// # Errors
    /// [`Error::Io`] if the last sync failed.
    async fn close(&self) -> Result<(), Error>;
}
