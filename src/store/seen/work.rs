//! File work: writing a sealed bucket, merging small buckets into a larger one. It reads and writes files that nobody
//! changes, so it can run beside the owner.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::domain::Lsn;
use crate::store::Error;
use crate::store::disk::{Disk, failed, wide};
use crate::store::journal::StoreId;

use super::bucket::{Bucket, BucketFile, Memory, Pairs, Span, Trouble, Writer};
use super::key::{SeenEntry, SeenKey};
use super::open::UNFINISHED;

/// How many neighbours are merged at once.
const MERGE_COUNT: usize = 8;

/// No bucket grows beyond so many ids: about 185 MB on disk, 9 MB of memory.
const MERGED_IDS_MAX: u64 = 4 << 20;

/// Numbers unfinished files, so that no two pieces of work of a process write the same one.
static UNFINISHED_COUNT: AtomicU64 = AtomicU64::new(0);

/// A piece of file work, done on any thread.
pub struct Work {
    disk: Arc<dyn Disk>,
    store_id: StoreId,
    job: Job,
}

/// A piece of work that was done.
pub struct Worked(Result<Bucket, Stuck>);

/// What is to be done.
pub(super) enum Job {
    /// Write a bucket from memory.
    Write { span: Span, pairs: Arc<Vec<(SeenKey, SeenEntry)>> },
    /// Make one bucket of neighbours.
    Merge { span: Span, count: u64, files: Vec<Arc<BucketFile>> },
}

/// Why work was not done.
pub(super) struct Stuck {
    pub(super) error: Error,
    /// The first LSN of the bucket that is garbled, if that is why.
    pub(super) garbled: Option<Lsn>,
}

impl Job {
    /// What is to be done next with these buckets.
    pub(super) fn next(buckets: &[Bucket], keep: Duration) -> Option<Self> {
        for bucket in buckets {
            match bucket {
                Bucket::Memory(Memory { span, ids }) => {
                    return Some(Self::Write { span: *span, pairs: Arc::clone(&ids.pairs) });
                }
                Bucket::File(_) => {}
            }
        }
        buckets.windows(MERGE_COUNT).find_map(|run| merge(run, keep))
    }

    /// What the bucket that comes of it covers.
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Write { span, .. } | Self::Merge { span, .. } => *span,
        }
    }
}

/// Neighbours become one bucket if none is larger than the others together (so that an id is moved only when its bucket
/// at least doubles), the result is not too large, and its ids are not too far apart in time to expire.
fn merge(run: &[Bucket], keep: Duration) -> Option<Job> {
    let count: u64 = run.iter().map(Bucket::count).sum();
    let largest = run.iter().map(Bucket::count).max()?;
    let span = run.iter().map(Bucket::span).reduce(Span::and)?;
    let adjacent = run.iter().zip(run.iter().skip(1)).all(|(a, b)| a.span().last.0 + 1 == b.span().first.0);
    let near = span.newest.since(span.oldest) <= keep / 4;
    let files = run.iter().map(|bucket| bucket.file().cloned()).collect::<Option<_>>()?;
    let fits = adjacent && near && largest <= count - largest && count <= MERGED_IDS_MAX;
    fits.then_some(Job::Merge { span, count, files })
}

impl Work {
    pub(super) fn new(disk: Arc<dyn Disk>, store_id: StoreId, job: Job) -> Self {
        Self { disk, store_id, job }
    }

    /// Does it.
    #[must_use]
    pub fn run(self) -> Worked {
        let number = UNFINISHED_COUNT.fetch_add(1, Ordering::Relaxed);
        let name = self.job.span().file_name();
        let unfinished = format!("{name}.{number}{UNFINISHED}");
        let written = self.write(&unfinished, &name);
        if written.is_err() {
            // What can't be removed now is removed when the ids are opened the next time.
            let _ = self.disk.remove(&unfinished);
        }
        Worked(written.map(|file| Bucket::File(Arc::new(file))))
    }

    fn write(&self, unfinished: &str, name: &str) -> Result<BucketFile, Stuck> {
        let stuck = |error: io::Error| self.stuck(&error);
        let begin = |span, most| Writer::new(&*self.disk, unfinished, self.store_id, span, most);
        let writer = match &self.job {
            Job::Write { span, pairs } => {
                let mut sorted = pairs.to_vec();
                // Of an id that stands twice the earlier is kept.
                sorted.sort_unstable();
                sorted.dedup_by_key(|(key, _)| *key);
                let mut writer = begin(*span, wide(sorted.len())).map_err(stuck)?;
                for (key, entry) in &sorted {
                    writer.push(key, entry).map_err(stuck)?;
                }
                writer
            }
            Job::Merge { span, count, files } => {
                let mut writer = begin(*span, *count).map_err(stuck)?;
                self.merge(&mut writer, files)?;
                writer
            }
        };
        let file = writer.finish().map_err(stuck)?;
        let named = self.disk.rename(unfinished, name).and_then(|()| self.disk.sync());
        named.map_err(stuck)?;
        Ok(file)
    }

    /// Writes the ids of all files in order. Of an id that stands twice the first is kept.
    fn merge(&self, writer: &mut Writer, files: &[Arc<BucketFile>]) -> Result<(), Stuck> {
        let mut sources: Vec<Pairs> = files.iter().cloned().map(Pairs::new).collect();
        let mut heads = BinaryHeap::new();
        for (at, source) in sources.iter_mut().enumerate() {
            heads.extend(self.next(source)?.map(|(key, entry)| Reverse((key, entry, at))));
        }
        let mut last = None;
        while let Some(Reverse((key, entry, at))) = heads.pop() {
            if last.replace(key) != Some(key) {
                writer.push(&key, &entry).map_err(|error| self.stuck(&error))?;
            }
            if let Some(source) = sources.get_mut(at) {
                heads.extend(self.next(source)?.map(|(key, entry)| Reverse((key, entry, at))));
            }
        }
        Ok(())
    }

    fn next(&self, source: &mut Pairs) -> Result<Option<(SeenKey, SeenEntry)>, Stuck> {
        source.next().map_err(|trouble| match trouble {
            Trouble::Io(error) => self.stuck(&error),
            Trouble::Garbled => {
                let place = format!("`{}`", self.disk.place(&source.span().file_name()));
                let detail = "the checksum of a block is wrong".to_owned();
                Stuck { error: Error::Corrupt { place, detail }, garbled: Some(source.span().first) }
            }
        })
    }

    fn stuck(&self, error: &io::Error) -> Stuck {
        let action = format!("writing `{}`", self.disk.place(&self.job.span().file_name()));
        Stuck { error: failed(action, error), garbled: None }
    }
}

impl Worked {
    pub(super) fn into_result(self) -> Result<Bucket, Stuck> {
        self.0
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("span", &self.job.span()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Worked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worked").field("done", &self.0.is_ok()).finish_non_exhaustive()
    }
}
