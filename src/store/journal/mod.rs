//! The journal: an append-only sequence of opaque frames, each at its LSN, durable when [`Journal::append`] returns.
//!
//! It knows nothing of what is in a frame. One thread owns the [`Journal`] and appends; any thread reads through a
//! [`Reader`], which shows only what is synced.
//!
//! # What it promises
//!
//! - What `append` has answered is there after any crash, at the same LSN.
//! - What it has not answered may be there after a crash, but only behind all that it has answered, and in order.
//! - A damaged byte is never read as if it were right. Damage in what is known to have been synced is
//!   [`Error::Corrupt`]; it is never cut away.
//! - What follows the last valid frame is cut off when a journal is opened, if nothing proves that it was synced: it
//!   is torn. A later valid group proves it, and so does the LSN that the caller vouches for: a journal that ends before
//!   it is refused, whether its file was cut or whole segments are gone. One thing can't be told from a torn write:
//!   damage in the very last group, after a crash, that nothing vouches for. After
//!   [`Journal::close`] there is a mark behind the last group, and damage in it is found too.
//! - Every opening has a higher incarnation than those before it. Bytes that an older one left behind are never
//!   taken for a continuation.
//! - A failed write or sync leaves the outcome unknown. The journal then stops: every later append answers
//!   [`Error::Stopped`]. Want of space when a segment is reserved is [`Error::Full`], and harmless.

mod append;
mod format;
#[cfg(any(test, fuzzing))]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken law is told by a panic"
)]
pub(super) mod fuzz;
mod prune;
mod reader;
mod recover;
mod segment;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::domain::Lsn;

use super::Error;
use super::disk::{Disk, Lock, OsDisk, failed};
use append::{Active, Stop};
use format::FrameSum;
use segment::Shared;

pub use prune::Pruner;
pub use reader::{Reader, Scan};

/// The bytes of one frame, in two parts: what lies in two places need not be copied into one first.
pub trait Frame {
    /// The parts, one behind the other; the second may be empty.
    fn parts(&self) -> [&[u8]; 2];
}

impl<T: AsRef<[u8]> + ?Sized> Frame for T {
    fn parts(&self) -> [&[u8]; 2] {
        [self.as_ref(), &[]]
    }
}

/// How a journal is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How large a segment's file grows before the next is begun. It is reserved at once. A group larger than this
    /// gets a segment of its own.
    pub segment_bytes: u64,
    /// The largest frame that is taken; at most 1 GiB.
    pub frame_bytes_max: usize,
    /// How much room stays free on the disk, or a quarter of a small disk: with less the journal is full. The view beside
    /// it must be able to write what is durable already.
    pub reserve_bytes: u64,
}

/// What makes a store's files its own: random, in every header.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

/// What opening found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The store's id.
    pub store_id: StoreId,
    /// This opening's number: every opening has a higher one than all before it.
    pub incarnation: u64,
    /// The last LSN, never below the one that was vouched for; 0 if the journal is empty.
    pub last: Lsn,
    /// Whether the end is vouched for: the journal was closed in order.
    pub clean: bool,
    /// What was cut off the end, if anything.
    pub cut: Option<Cut>,
}

/// A torn end that was cut off: nothing in it had been acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The first LSN that is not there any more.
    pub lsn: Lsn,
    /// How many bytes were dropped, not counting the zeros behind them.
    pub bytes: u64,
    /// What was wrong, and where.
    pub why: String,
}

/// One segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentMeta {
    /// Its first LSN; names it.
    pub first: Lsn,
    /// Its last LSN so far; `first - 1` while it is empty.
    pub last: Lsn,
    /// Its bytes in use.
    pub bytes: u64,
    /// Whether nothing is added to it any more.
    pub sealed: bool,
    /// Whether it is a pruned copy.
    pub pruned: bool,
}

/// The owner of a journal: one thread appends, any number of [`Reader`]s read.
///
/// Dropping it is like a crash: nothing acknowledged is lost, but nothing is marked. [`Journal::close`] ends it well.
pub struct Journal {
    shared: Arc<Shared>,
    options: Options,
    incarnation: u64,
    sum: FrameSum,
    /// The segment that is written; none if the last one is sealed.
    active: Option<Active>,
    /// Whether this incarnation has its mark in the journal.
    begun: bool,
    stopped: Option<Stop>,
    buffer: Vec<u8>,
    lock: Lock,
}

impl Journal {
    /// Opens or creates. `vouched` is an LSN that somebody (the view, the seen ids) proves was synced, 0 if
    /// nobody does.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Corrupt`], [`Error::Full`] (only when it is created, or on a disk that takes no
    /// write even where it has reserved space), [`Error::Io`].
    pub fn open(dir: &Path, options: Options, vouched: Lsn) -> Result<(Self, Recovery), Error> {
        Self::open_on(Arc::new(OsDisk::new(dir)?), options, vouched)
    }

    /// Opens or creates on any disk.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_on(disk: Arc<dyn Disk>, options: Options, vouched: Lsn) -> Result<(Self, Recovery), Error> {
        let locked = disk.lock().map_err(|error| failed(format!("locking `{}`", disk.place("")), &error))?;
        let Some(lock) = locked else { return Err(Error::Locked { path: disk.place("") }) };
        match recover::recover(&disk, vouched)? {
            Some(found) => Self::resume(disk, lock, options, found),
            None => Self::create(disk, lock, options),
        }
    }

    /// Whether a folder holds a segment.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_there(disk: &dyn Disk) -> Result<bool, Error> {
        Ok(!recover::first_lsns(disk)?.is_empty())
    }

    /// Appends frames as one group: one write, one sync. On return they are durable. Answers the LSN of the first;
    /// the others follow one by one. Without frames it does nothing and answers the LSN that is next.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::TooLarge`]: nothing was written, go on. [`Error::Io`]: a segment could not be
    /// made, nothing was written. [`Error::Stopped`]: the outcome is unknown, and every later append answers the same.
    pub fn append<F: Frame>(&mut self, frames: &[F]) -> Result<Lsn, Error> {
        self.running()?;
        let first = Lsn(self.synced().0 + 1);
        let len = self.measure(frames)?;
        if !frames.is_empty() {
            self.leave_room()?;
            self.begin()?;
            self.make_room(len)?;
            self.write_group(first, frames)?;
        }
        Ok(first)
    }

    /// Is full before the disk is.
    fn leave_room(&self) -> Result<(), Error> {
        let disk = &self.shared.disk;
        let space =
            disk.space().map_err(|error| failed(format!("asking for the room of `{}`", disk.place("")), &error))?;
        if space.has_room(self.options.reserve_bytes) { Ok(()) } else { Err(Error::Full) }
    }

    /// The last durable LSN. The next append gets the one behind it.
    pub fn synced(&self) -> Lsn {
        self.shared.synced()
    }

    /// The last LSN of the newest sealed segment; 0 if none is sealed. It moves inside [`Journal::append`]: seal the
    /// seen ids through it then.
    pub fn sealed(&self) -> Lsn {
        let segments = self.shared.segments();
        let sealed = segments.iter().rev().map(|segment| segment.meta()).find(|meta| meta.sealed);
        sealed.map_or(Lsn(0), |meta| meta.last)
    }

    /// The store's id.
    pub fn store_id(&self) -> StoreId {
        self.shared.store_id
    }

    /// All segments in order.
    pub fn segments(&self) -> Vec<SegmentMeta> {
        self.shared.metas()
    }

    /// A reader.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// The means to prune sealed segments, from any thread.
    pub fn pruner(&self) -> Pruner {
        Pruner::new(self.shared.clone(), self.lock.clone())
    }

    /// Writes and syncs the mark that vouches for everything, and gives the folder free. With a full disk there is
    /// no mark, which is no error: all that was answered is durable anyway.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Io`].
    pub fn close(mut self) -> Result<(), Error> {
        self.running()?;
        self.end()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, frame_bytes_max: 16 << 20, reserve_bytes: 64 << 20 }
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (store_id, incarnation) = (self.shared.store_id, self.incarnation);
        f.debug_struct("Journal")
            .field("store_id", &store_id)
            .field("incarnation", &incarnation)
            .field("synced", &self.synced())
            .finish_non_exhaustive()
    }
}
