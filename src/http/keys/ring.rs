//! The keys as a running server holds them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use std::os::unix::fs::MetadataExt as _;
use subtle::ConstantTimeEq as _;

use super::{Error, File, Key, sha256};
use crate::domain::Timestamp;

/// How often the file is looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The keys of a data directory, kept up to date with the file.
#[derive(Debug)]
pub struct Ring {
    data: PathBuf,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    keys: Vec<Key>,
    mark: Option<Mark>,
    looked_at: Timestamp,
}

/// What of a file changes whenever it is written anew. The inode does, since a change is a rename.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mark {
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
}

impl Ring {
    /// The keys of this data directory.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn open(data: &Path, now: Timestamp) -> Result<Self, Error> {
        let mark = Mark::of(data);
        let keys = File::read(data)?;
        Ok(Self { data: data.to_owned(), held: Mutex::new(Held { keys, mark, looked_at: now }) })
    }

    /// The key that this token is, unless it was revoked.
    ///
    /// Every key is compared, in constant time, whatever the outcome.
    #[must_use]
    pub fn find(&self, token: &str, now: Timestamp) -> Option<Key> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.look(&self.data, now);
        let sha256 = sha256(token);
        let mut found = None;
        for key in &held.keys {
            if bool::from(key.sha256.ct_eq(&sha256)) {
                found = Some(key);
            }
        }
        found.filter(|key| key.revoked_at.is_none()).cloned()
    }
}

impl Held {
    /// Reads the file again if it changed. While it can't be read the keys stay as they were: a slip of an editor
    /// should neither open the door nor lock everybody out.
    fn look(&mut self, data: &Path, now: Timestamp) {
        if now.distance(self.looked_at) < LOOK_EVERY {
            return;
        }
        self.looked_at = now;
        let mark = Mark::of(data);
        if mark == self.mark {
            return;
        }
        self.mark = mark;
        match File::read(data) {
            Ok(keys) => {
                tracing::info!(keys = keys.len(), "keys changed");
                self.keys = keys;
            }
            Err(error) => tracing::error!(%error, "keys can't be read, the last ones stay"),
        }
    }
}

impl Mark {
    fn of(data: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(File::path(data)).ok()?;
        Some(Self { inode: metadata.ino(), size: metadata.len(), modified: metadata.modified().ok() })
    }
}
