//! Buckets: the ids of a stretch of the journal, in memory until their file is written.
//!
//! ```text
//! header (4096) | blocks of 4096: 93 ids and a checksum each | first key of each block | filter | checksum
//! ```

mod file;
mod write;

use std::io;
use std::sync::Arc;

use crate::domain::{Lsn, Timestamp};
use crate::store::disk::wide;

use super::fresh::Taken;
use super::key::{SeenEntry, SeenKey};

pub(super) use file::{BucketFile, Pairs};
pub(super) use write::Writer;

/// The ending of bucket files.
pub(super) const ENDING: &str = ".seen";

/// The stretch of the journal that a bucket covers, and the times of its ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) first: Lsn,
    pub(super) last: Lsn,
    /// No id is older.
    pub(super) oldest: Timestamp,
    /// No id is younger.
    pub(super) newest: Timestamp,
}

/// Ids that have no file yet.
pub(super) struct Memory {
    pub(super) span: Span,
    pub(super) ids: Taken,
}

/// The ids of a stretch.
pub(super) enum Bucket {
    /// Sealed, and its file is not written yet.
    Memory(Memory),
    /// In its file.
    File(Arc<BucketFile>),
}

/// Why a bucket can't say.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The operating system refused.
    Io(io::Error),
    /// A block's checksum is wrong.
    Garbled,
}

impl Span {
    /// The span of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            oldest: self.oldest.min(other.oldest),
            newest: self.newest.max(other.newest),
        }
    }

    /// The name of its file.
    pub(super) fn file_name(&self) -> String {
        format!("{:020}-{:020}{ENDING}", self.first.0, self.last.0)
    }

    /// The stretch that a file's name tells.
    pub(super) fn of_name(name: &str) -> Option<(Lsn, Lsn)> {
        let (first, last) = name.strip_suffix(ENDING)?.split_once('-')?;
        let lsn = |digits: &str| digits.parse().ok().filter(|_| digits.len() == 20).map(Lsn);
        Some((lsn(first)?, lsn(last)?))
    }
}

impl Bucket {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Memory(memory) => memory.span,
            Self::File(file) => file.span(),
        }
    }

    /// How many ids it has.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Memory(memory) => wide(memory.ids.pairs.len()),
            Self::File(file) => file.count(),
        }
    }

    /// Its file, if it has one.
    pub(super) fn file(&self) -> Option<&Arc<BucketFile>> {
        match self {
            Self::Memory(_) => None,
            Self::File(file) => Some(file),
        }
    }

    pub(super) fn find(&self, key: &SeenKey) -> Result<Option<SeenEntry>, Trouble> {
        match self {
            Self::Memory(memory) => Ok(memory.ids.get(key)),
            Self::File(file) => file.find(key),
        }
    }
}
