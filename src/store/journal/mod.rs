//! The journal: an append-only sequence of opaque frames, each at its LSN, durable when [`Journal::append`] returns.

use std::path::Path;

use crate::domain::Lsn;

use super::Error;

/// How a journal is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How large a segment file grows before the next is begun.
    pub segment_bytes: u64,
    /// The largest frame that is taken.
    pub frame_bytes_max: usize,
}

/// What makes a store's files its own: random, in every header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StoreId(pub [u8; 16]);

/// What opening found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The store's id.
    pub store_id: StoreId,
    /// This opening's number: every opening has a higher one than all before it.
    pub incarnation: u64,
    /// The last LSN; 0 if the journal is empty. It may be below `vouched` when an older copy was put in place.
    pub last: Lsn,
    /// Whether the journal was closed in order.
    pub clean: bool,
    /// What was cut off the end, if anything.
    pub cut: Option<Cut>,
}

/// A torn end that was cut off: nothing in it had been acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The first LSN that is not there any more.
    pub lsn: Lsn,
    /// How many bytes that were not zero's end were dropped.
    pub bytes: u64,
    /// What was wrong with them.
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
pub struct Journal {}

/// Reads what is synced; cheap to clone, used from any thread while the owner appends.
#[derive(Clone)]
pub struct Reader {}

/// Frames in order, from a [`Reader::scan`].
pub struct Scan {}

impl Journal {
    /// Opens or creates. `vouched` is an LSN that somebody (the view) proves was synced, 0 if nobody does.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Corrupt`], [`Error::Full`] (only when it is created), [`Error::Io`].
    pub fn open(dir: &Path, _options: Options, _vouched: Lsn) -> Result<(Self, Recovery), Error> {
        Err(Error::Locked { path: dir.display().to_string() })
    }

    /// Appends frames as one group: one write, one sync. On return they are durable. Answers the LSN of the first;
    /// the others follow one by one.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::TooLarge`]: nothing was written, go on. [`Error::Stopped`]: the outcome is unknown,
    /// and every later append answers the same.
    pub fn append<F: AsRef<[u8]>>(&mut self, _frames: &[F]) -> Result<Lsn, Error> {
        Ok(Lsn(0))
    }

    /// The last durable LSN. The next append gets the one behind it.
    pub fn synced(&self) -> Lsn {
        Lsn(0)
    }

    /// The last LSN of the newest sealed segment; 0 if none is sealed. It moves inside `append`: seal the seen ids
    /// through it then.
    pub fn sealed(&self) -> Lsn {
        Lsn(0)
    }

    /// All segments in order.
    pub fn segments(&self) -> Vec<SegmentMeta> {
        Vec::new()
    }

    /// Bytes of all segments in use.
    pub fn bytes(&self) -> u64 {
        0
    }

    /// A reader.
    pub fn reader(&self) -> Reader {
        Reader {}
    }

    /// Replaces the sealed segment that begins at `first` by a copy in which each frame for which `pruned` answers
    /// some is that, and the others are as they were.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing was changed. [`Error::Corrupt`], [`Error::Io`], [`Error::Stopped`].
    pub fn prune(
        &mut self,
        _first: Lsn,
        _pruned: impl FnMut(Lsn, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<SegmentMeta, Error> {
        Err(Error::Full)
    }

    /// Writes and syncs the mark that vouches for everything, and gives the folder free.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Io`].
    pub fn close(self) -> Result<(), Error> {
        Ok(())
    }
}

impl Reader {
    /// The last durable LSN.
    pub fn synced(&self) -> Lsn {
        Lsn(0)
    }

    /// The frame at an LSN; none if it is beyond what is synced.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn read(&self, _lsn: Lsn) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// The frames from an LSN up to what is synced now. Ends after the first error.
    pub fn scan(&self, _from: Lsn) -> Scan {
        Scan {}
    }
}

impl Iterator for Scan {
    type Item = Result<(Lsn, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, frame_bytes_max: 16 << 20 }
    }
}
