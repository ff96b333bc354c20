//! Seen ids: which event ids were accepted, where their first stands, and the digest to tell a duplicate from a
//! conflict. Exact; asked by the committer for every event, so a new id almost never touches the disk.

use std::path::Path;

use crate::domain::{EventId, Lsn, Position, SourceName, Timestamp};

use super::Error;

/// What an id is known by: 16 bytes of SHA-256 over its source and itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenKey(pub [u8; 16]);

/// What is known of a seen id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenEntry {
    /// Where its first stands.
    pub position: Position,
    /// The first 16 bytes of its first's digest.
    pub digest: [u8; 16],
}

/// A stretch of the journal whose ids are not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Its first LSN.
    pub first: Lsn,
    /// Its last LSN.
    pub last: Lsn,
}

/// What opening found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Stretches to [`Seen::rebuild`] from the journal before anything is asked.
    pub gaps: Vec<Gap>,
    /// Ids from here to the journal's end are to be inserted.
    pub replay_from: Lsn,
}

/// The seen ids; owned by one thread.
pub struct Seen {}

/// A piece of file work, done on any thread.
pub struct Work {}

/// A piece of work that was done.
pub struct Worked {}

impl SeenKey {
    /// The key of an event id.
    pub fn of(_source: &SourceName, _id: &EventId) -> Self {
        Self([0; 16])
    }
}

impl Seen {
    /// Opens or creates.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(_dir: &Path) -> Result<(Self, Opened), Error> {
        Ok((Self {}, Opened { gaps: Vec::new(), replay_from: Lsn(1) }))
    }

    /// What is known of an id; the oldest if it stands twice.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: a bucket is garbled; see [`Seen::gaps`]. [`Error::Io`].
    pub fn get(&mut self, _key: &SeenKey) -> Result<Option<SeenEntry>, Error> {
        Ok(None)
    }

    /// Marks an id as seen. An id that stands already keeps its entry; answers whether it was new among those since
    /// the last seal.
    pub fn insert(&mut self, _key: SeenKey, _entry: SeenEntry) -> bool {
        true
    }

    /// Un-marks an id that was inserted since the last seal: its append failed.
    pub fn remove(&mut self, _key: &SeenKey) {}

    /// Everything up to `through` (a journal segment's end) becomes a bucket; ids beyond it stay where they are.
    /// `newest` is the time of the youngest. The file is written by [`Seen::work`].
    pub fn seal(&mut self, _through: Lsn, _newest: Timestamp) {}

    /// The next piece of file work, if there is one and none is under way: writes a sealed bucket, or merges small
    /// ones. Run it on any thread and give it back to [`Seen::worked`].
    pub fn work(&mut self) -> Option<Work> {
        None
    }

    /// Takes work back.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: the ids stay in memory, and the work is offered again.
    pub fn worked(&mut self, _worked: Worked) -> Result<(), Error> {
        Ok(())
    }

    /// Does all work here and now.
    ///
    /// # Errors
    /// As [`Seen::worked`].
    pub fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Forgets buckets whose youngest id is older than `before`.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub fn expire(&mut self, _before: Timestamp) -> Result<(), Error> {
        Ok(())
    }

    /// The last LSN that is sealed.
    pub fn sealed(&self) -> Lsn {
        Lsn(0)
    }

    /// Stretches whose bucket is missing or garbled. While there are some, [`Seen::get`] answers `Corrupt` for an id
    /// that it doesn't find.
    pub fn gaps(&self) -> &[Gap] {
        &[]
    }

    /// Fills a gap with the ids that the journal holds there (first occurrences, in any order).
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub fn rebuild(
        &mut self,
        _gap: Gap,
        _newest: Timestamp,
        _ids: impl IntoIterator<Item = (SeenKey, SeenEntry)>,
    ) -> Result<(), Error> {
        Ok(())
    }
}

impl Work {
    /// Does it.
    pub fn run(self) -> Worked {
        Worked {}
    }
}
