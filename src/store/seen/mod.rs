//! Seen ids: which event ids were accepted, where the first of each stands, and the digest that tells a duplicate
//! from a conflict. Exact; asked by the committer for every event.
//!
//! The ids since the last sealed journal segment are in a map. When a segment is sealed its ids become a *bucket*: a
//! sorted file with a filter that stays in memory (2 bytes an id), so that a new id almost never touches the disk,
//! and a known one reads 4 KiB. Small buckets are merged into larger ones, so that there are only some dozens. Buckets
//! whose ids are all old enough are forgotten.
//!
//! Nothing here is the only place of a fact: a bucket that is lost or garbled is a [`Gap`], and its owner fills it from
//! the journal. Files are written by [`Work`], which may run on another thread.

mod bucket;
mod check;
mod fresh;
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
mod key;
mod open;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::{Lsn, Timestamp};

use super::Error;
use super::disk::{Disk, OsDisk, failed};
use super::journal::StoreId;
use bucket::{Bucket, Memory, Span, Trouble};
use fresh::Fresh;
use work::Job;

pub use key::{SeenEntry, SeenKey};
pub use work::{Work, Worked};

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
    /// Ids from here to the journal's end are to be inserted. If they are many, seal at the ends of the journal's
    /// sealed segments on the way, so that they don't fill the memory.
    pub replay_from: Lsn,
    /// Files that were set aside (renamed to `*.garbled`), and why.
    pub garbled: Vec<String>,
}

/// The seen ids; owned by one thread.
pub struct Seen {
    disk: Arc<dyn Disk>,
    store_id: StoreId,
    keep: Duration,
    /// By LSN; they don't overlap.
    buckets: Vec<Bucket>,
    gaps: Vec<Gap>,
    fresh: Fresh,
    /// All ids up to here are in buckets or gaps, or were forgotten.
    sealed: Lsn,
    /// The youngest time that was sealed.
    newest: Option<Timestamp>,
    /// What some thread works on.
    under_way: Option<Span>,
    /// Work failed: it is not offered again before the next seal.
    stalled: bool,
}

impl Seen {
    /// Opens or creates. `last` is the journal's last LSN: what lies beyond it belongs to a journal that was replaced by
    /// an older copy, and is dropped. `keep` is how long ids are to be kept; [`Seen::expire`] forgets them, this only
    /// bounds what is merged.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(dir: &Path, store_id: StoreId, last: Lsn, keep: Duration) -> Result<(Self, Opened), Error> {
        Self::open_on(Arc::new(OsDisk::new(dir)?), store_id, last, keep)
    }

    /// Opens or creates on any disk.
    ///
    /// # Errors
    /// As [`Seen::open`].
    pub fn open_on(disk: Arc<dyn Disk>, store_id: StoreId, last: Lsn, keep: Duration) -> Result<(Self, Opened), Error> {
        let found = open::open(&disk, store_id, last)?;
        let newest = found.buckets.last().map(|bucket| bucket.span().newest);
        let opened = Opened { gaps: found.gaps.clone(), replay_from: Lsn(found.sealed.0 + 1), garbled: found.garbled };
        let seen = Self {
            disk,
            store_id,
            keep,
            buckets: found.buckets,
            gaps: found.gaps,
            fresh: Fresh::default(),
            sealed: found.sealed,
            newest,
            under_way: None,
            stalled: false,
        };
        Ok((seen, opened))
    }

    /// Removes the files of a folder: they are made anew from the journal.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clear(disk: &dyn Disk) -> Result<(), Error> {
        open::clear(disk)
    }

    /// The last LSN that a whole file in a folder has ids of; 0 if there is none. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn reaches(disk: &dyn Disk, store_id: StoreId) -> Result<Lsn, Error> {
        open::reaches(disk, store_id)
    }

    /// Reads all files of a folder; answers what is wrong with them, each with its place. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn check(disk: &dyn Disk, store_id: StoreId) -> Result<Vec<(String, String)>, Error> {
        check::check(disk, store_id)
    }

    /// What is known of an id; the oldest if it stands twice.
    ///
    /// # Errors
    /// [`Error::Corrupt`]: a bucket turned out garbled and became one of [`Seen::gaps`], or the id isn't found and there
    /// are gaps in which it may be. [`Error::Io`].
    pub fn get(&mut self, key: &SeenKey) -> Result<Option<SeenEntry>, Error> {
        let mut garbled = None;
        for (at, bucket) in self.buckets.iter().enumerate() {
            match bucket.find(key) {
                Ok(None) => {}
                Ok(Some(entry)) => return Ok(Some(entry)),
                Err(Trouble::Garbled) => {
                    garbled = Some(at);
                    break;
                }
                Err(Trouble::Io(error)) => return Err(failed(format!("reading `{}`", self.place(bucket)), &error)),
            }
        }
        if let Some(at) = garbled {
            self.set_aside(at)?;
        }
        match self.fresh.get(key) {
            Some(entry) => Ok(Some(*entry)),
            None => self.whole().map(|()| None),
        }
    }

    /// Marks an id as seen; LSNs must not go down. An id that stands already keeps its entry; answers whether it was new
    /// among those since the last seal.
    pub fn insert(&mut self, key: SeenKey, entry: SeenEntry) -> bool {
        self.fresh.insert(key, entry)
    }

    /// Un-marks an id of the last LSN: its append failed.
    pub fn remove(&mut self, key: &SeenKey) {
        self.fresh.remove(key);
    }

    /// Everything up to `through` (a sealed journal segment's end) becomes a bucket; ids beyond it stay where they are.
    /// `newest` is the time of the youngest. The file is written by [`Seen::work`]; until then the bucket is in memory,
    /// and after a crash [`Opened::replay_from`] is before it.
    pub fn seal(&mut self, through: Lsn, newest: Timestamp) {
        if through <= self.sealed {
            return;
        }
        let oldest = self.newest.unwrap_or(newest).min(newest);
        let span = Span { first: Lsn(self.sealed.0 + 1), last: through, oldest, newest };
        self.buckets.push(Bucket::Memory(Memory { span, ids: self.fresh.take(through) }));
        self.sealed = through;
        self.newest = Some(newest);
        self.stalled = false;
    }

    /// The next piece of file work, if there is one and none is under way: writes a sealed bucket, or merges small ones.
    /// Run it on any thread and give it back to [`Seen::worked`]. After a failure none is offered before the next seal.
    pub fn work(&mut self) -> Option<Work> {
        if self.under_way.is_some() || self.stalled {
            return None;
        }
        let job = Job::next(&self.buckets, self.keep)?;
        self.under_way = Some(job.span());
        Some(Work::new(self.disk.clone(), self.store_id, job))
    }

    /// Takes work back.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: the ids stay where they were, and the work is offered again after the next seal.
    /// [`Error::Corrupt`]: a bucket turned out garbled and became one of [`Seen::gaps`].
    pub fn worked(&mut self, worked: Worked) -> Result<(), Error> {
        self.under_way = None;
        let written = match worked.into_result() {
            Ok(written) => written,
            Err(stuck) => {
                self.stalled = true;
                let garbled = stuck.garbled;
                return match self.buckets.iter().position(|bucket| Some(bucket.span().first) == garbled) {
                    Some(at) => self.set_aside(at).and_then(|()| self.whole()),
                    None => Err(stuck.error),
                };
            }
        };
        let span = written.span();
        let from = self.buckets.partition_point(|bucket| bucket.span().first < span.first);
        let to = self.buckets.partition_point(|bucket| bucket.span().last <= span.last);
        // All that went into it was checked: what turned out garbled meanwhile is whole in it.
        self.gaps.retain(|gap| gap.first < span.first || gap.last > span.last);
        let replaced: Vec<Bucket> = self.buckets.splice(from..to.max(from), [written]).collect();
        for file in replaced.iter().filter_map(Bucket::file) {
            // A file that stays is recognised by its range, which lies within another's, when they are opened.
            let _ = self.disk.remove(&file.span().file_name());
        }
        Ok(())
    }

    /// Does all work here and now, unless some is under way elsewhere: that is left to whoever has it.
    ///
    /// # Errors
    /// As [`Seen::worked`].
    pub fn settle(&mut self) -> Result<(), Error> {
        while let Some(work) = self.work() {
            self.worked(work.run())?;
        }
        Ok(())
    }

    /// Forgets the oldest buckets, those whose youngest id is older than `before`.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: they are not forgotten yet.
    pub fn expire(&mut self, before: Timestamp) -> Result<(), Error> {
        let busy = self.under_way.map_or(Lsn(u64::MAX), |span| span.first);
        let is_old = |bucket: &&Bucket| bucket.span().newest < before && bucket.span().last < busy;
        let old = self.buckets.iter().take_while(is_old).count();
        let Some(last) = old.checked_sub(1).and_then(|at| self.buckets.get(at)).map(|bucket| bucket.span().last) else {
            return Ok(());
        };
        // First what makes them forgotten, then the files: a crash between leaves files that are known to be.
        open::write_forgotten(&*self.disk, self.store_id, last)?;
        self.gaps.retain(|gap| gap.last > last);
        for bucket in self.buckets.drain(..old) {
            if let Some(file) = bucket.file() {
                let _ = self.disk.remove(&file.span().file_name());
            }
        }
        Ok(())
    }

    /// The last LSN that is sealed.
    pub fn sealed(&self) -> Lsn {
        self.sealed
    }

    /// Stretches whose bucket is missing or garbled. While there are some, [`Seen::get`] answers [`Error::Corrupt`] for an
    /// id that it doesn't find.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Fills a gap with the ids that the journal holds there (the first of each, in any order). `newest` is the time of
    /// the youngest. What is no gap is left alone.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`]: it stays a gap.
    pub fn rebuild(
        &mut self,
        gap: Gap,
        newest: Timestamp,
        ids: impl IntoIterator<Item = (SeenKey, SeenEntry)>,
    ) -> Result<(), Error> {
        let Some(at) = self.gaps.iter().position(|known| *known == gap) else { return Ok(()) };
        let span = Span { first: gap.first, last: gap.last, oldest: newest, newest };
        let job = Job::Write { span, pairs: Arc::new(ids.into_iter().collect()) };
        let written = Work::new(self.disk.clone(), self.store_id, job).run().into_result();
        let bucket = written.map_err(|stuck| stuck.error)?;
        let place = self.buckets.partition_point(|bucket| bucket.span().first < gap.first);
        self.buckets.insert(place, bucket);
        self.gaps.remove(at);
        Ok(())
    }

    /// A garbled bucket becomes a gap.
    fn set_aside(&mut self, at: usize) -> Result<(), Error> {
        let bucket = self.buckets.remove(at);
        let Span { first, last, .. } = bucket.span();
        let place = self.gaps.partition_point(|gap| gap.first < first);
        self.gaps.insert(place, Gap { first, last });
        open::set_aside(&*self.disk, &bucket.span().file_name())
    }

    /// Whether the ids of everything are known.
    fn whole(&self) -> Result<(), Error> {
        let Some(Gap { first, last }) = self.gaps.first() else { return Ok(()) };
        Err(Error::Corrupt {
            place: format!("`{}`", self.disk.place("")),
            detail: format!("the seen ids of LSN {} to {} are lost; they have to be rebuilt", first.0, last.0),
        })
    }

    fn place(&self, bucket: &Bucket) -> String {
        self.disk.place(&bucket.span().file_name())
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen")
            .field("sealed", &self.sealed)
            .field("buckets", &self.buckets.len())
            .field("fresh", &self.fresh.len())
            .field("gaps", &self.gaps)
            .finish_non_exhaustive()
    }
}
