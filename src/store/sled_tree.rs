//! The view's tree in sled: the only file that names it.
//!
//! Some damage makes sled panic, so every call is fenced.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;
use super::disk::is_full;
use super::keys::Key;
use super::layout::set_aside;
use super::tree::{Pairs, See, Tree, Trees};

/// How often sled writes out what it holds in memory; without it sled collects no garbage.
const FLUSH_EVERY_MS: u64 = 500;

/// How often sled's lock is tried, and how long apart.
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The folder of a sled tree.
pub(super) struct SledTrees {
    path: PathBuf,
}

/// An open sled tree.
struct SledTree {
    path: PathBuf,
    tree: sled::Db,
}

impl SledTrees {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Trees for SledTrees {
    fn exists(&self) -> bool {
        self.path.exists()
    }

    fn open(&self, cache_bytes: u64) -> Result<Box<dyn Tree>, Error> {
        let config =
            sled::Config::new().path(&self.path).cache_capacity(cache_bytes).flush_every_ms(Some(FLUSH_EVERY_MS));
        let tree = open_patiently(&self.path, &config)?;
        Ok(Box::new(SledTree { path: self.path.clone(), tree }))
    }

    fn set_aside(&self) -> Result<(), Error> {
        set_aside(&self.path)
    }
}

impl Tree for SledTree {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        fenced(&self.path, || self.tree.get(key).map(|found| found.map(|raw| raw.to_vec())))
    }

    fn range(&self, from: &[u8], end: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        let bounds = (Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded));
        fenced(&self.path, || {
            let pairs = self.tree.range::<&[u8], _>(bounds).take(limit);
            pairs.map(|pair| pair.map(|(key, raw)| (key.to_vec(), raw.to_vec()))).collect()
        })
    }

    fn visit(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error> {
        self.show(from, end, Iterator::next, see)
    }

    fn visit_back(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error> {
        self.show(from, end, DoubleEndedIterator::next_back, see)
    }

    fn apply(&self, writes: Vec<(Key, Option<Vec<u8>>)>) -> Result<(), Error> {
        let mut batch = sled::Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        fenced(&self.path, || self.tree.apply_batch(batch))
    }

    fn fill(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Error> {
        fenced(&self.path, || {
            pairs.iter().try_for_each(|(key, value)| self.tree.insert(key, value.as_slice()).map(drop))
        })
    }

    fn is_empty(&self) -> Result<bool, Error> {
        fenced(&self.path, || Ok(self.tree.is_empty()))
    }

    fn flush(&self) -> Result<(), Error> {
        fenced(&self.path, || self.tree.flush().map(drop))
    }

    fn close(self: Box<Self>) {
        let tree = self.tree;
        drop(catch_unwind(AssertUnwindSafe(move || drop(tree))));
    }
}

impl SledTree {
    /// Shows the pairs of a range from the side that `next` takes them from.
    fn show(
        &self,
        from: &[u8],
        end: Option<&[u8]>,
        next: impl Fn(&mut sled::Iter) -> Option<sled::Result<(sled::IVec, sled::IVec)>>,
        see: &mut See<'_>,
    ) -> Result<(), Error> {
        let bounds = (Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded));
        fenced(&self.path, || {
            let mut pairs = self.tree.range::<&[u8], _>(bounds);
            while let Some(pair) = next(&mut pairs) {
                let (key, raw) = pair?;
                if !see(&key, &raw) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Opens sled. Its threads may hold its lock for a moment after it was closed; nobody else can, for the directory is ours.
fn open_patiently(path: &Path, config: &sled::Config) -> Result<sled::Db, Error> {
    let mut tries = 0;
    loop {
        match fenced(path, || config.open()) {
            Err(error) if tries < LOCK_TRIES && error.to_string().contains("acquire lock") => {
                tries += 1;
                std::thread::sleep(LOCK_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// Runs a call of sled and turns its panic into an error.
fn fenced<T>(path: &Path, call: impl FnOnce() -> sled::Result<T>) -> Result<T, Error> {
    let place = || path.display().to_string();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(found)) => Ok(found),
        // Nothing is wrong with the view then but that it lacks what could not be written.
        Ok(Err(sled::Error::Io(error))) if is_full(&error) => Err(Error::Full),
        Ok(Err(sled::Error::Io(error))) => {
            Err(Error::Io { action: format!("using the view `{}`", place()), detail: error.to_string() })
        }
        Ok(Err(error)) => Err(Error::Corrupt { place: place(), detail: error.to_string() }),
        Err(_) => Err(Error::Corrupt { place: place(), detail: "sled panicked".to_owned() }),
    }
}
