//! Building the view anew from the journal: fold, sort, load.
//!
//! One pass over the journal spreads what it says over partitions by entity ([`spill`]); each is folded in memory into a
//! sorted run ([`fold`]), one that is too large part by part; the runs are merged ([`merge`]) and written to an empty tree in the order of keys ([`load`]),
//! which is many times faster than writing as the journal goes, and takes no more memory for a longer journal.

mod ahead;
mod fold;
mod load;
mod merge;
mod scratch;
mod spill;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::ids::SeenIds;
use super::journal::Reader;
use super::layout::Layout;
use super::records::{self, Kind, Record};
use super::view::{Meta, View};
use super::{Error, Options};
use crate::domain::Lsn;

pub(super) use merge::Merge;
pub(super) use scratch::clear;

use ahead::ahead;
use fold::Sum;
use scratch::Scratch;
use spill::Spill;

/// How often progress is told while the journal is read, in records.
const PROGRESS_EVERY: u64 = 1000;

/// How much of a rebuild is done when the journal is read, and when the partitions are folded, in hundredths.
const READ: u64 = 40;
const FOLDED: u64 = 65;

/// What the journal implies, sorted in temporary files.
pub(super) struct Folded {
    scratch: Scratch,
    /// The partitions, each of which is a run.
    runs: Vec<String>,
    /// The last record.
    last: Lsn,
    sum: Sum,
}

/// The seen ids, and from where on they lack what the journal says.
pub(super) type Lacking<'a> = (&'a mut SeenIds, Lsn);

/// Fills an empty view with what the journal implies; the seen ids take what they lack on the way.
pub(super) fn build(
    layout: &Layout,
    options: &Options,
    reader: &Reader,
    view: &View,
    ids: Option<Lacking<'_>>,
) -> Result<(), Error> {
    let last = reader.synced();
    if last > Lsn(0) {
        fold(layout, options, reader, ids)?.load(view, options, reader)?;
    } else {
        load::complete(view, Meta { complete: true, ..view.meta() })?;
    }
    options.tell(last.0, last.0);
    Ok(())
}

/// Folds the whole journal.
pub(super) fn fold(
    layout: &Layout,
    options: &Options,
    reader: &Reader,
    ids: Option<Lacking<'_>>,
) -> Result<Folded, Error> {
    let (partitions, limit) = spill::partitions(reader, options);
    fold_over(layout, options, reader, ids, partitions, limit)
}

/// Folds the whole journal over so many partitions, none of which is folded at once if it is over the limit; what is about
/// one entity is.
fn fold_over(
    layout: &Layout,
    options: &Options,
    reader: &Reader,
    ids: Option<Lacking<'_>>,
    partitions: usize,
    limit: u64,
) -> Result<Folded, Error> {
    let last = reader.synced();
    let scratch = Scratch::new(layout, partitions)?;
    let mut spill = Spill::new(&scratch, partitions)?;
    read(options, reader, &mut spill, ids)?;
    let (parts, counts) = spill.finish()?;
    let mut sum = Sum { counts, ..Sum::default() };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(options.rebuild_threads).min(partitions);
    let (next, tell) = (AtomicUsize::new(0), |partition| {
        options.tell(part(last, READ, FOLDED, partition, partitions), last.0);
    });
    let work = || {
        let mut sum = Sum::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(partition) = parts.get(number) else { return Ok(sum) };
            sum += fold::partition(&scratch, partition, limit)?;
            tell(number);
        }
    };
    if threads <= 1 {
        sum += work()?;
    } else {
        let sums: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let panicked = || Error::Stopped { reason: "a thread that folds the journal panicked".to_owned() };
        for found in sums {
            sum += found.map_err(|_| panicked())??;
        }
    }
    let runs = parts.into_iter().map(|part| part.name).collect();
    Ok(Folded { scratch, runs, last, sum })
}

/// The pass over the journal.
fn read(options: &Options, reader: &Reader, spill: &mut Spill, mut ids: Option<Lacking<'_>>) -> Result<(), Error> {
    let sealed: BTreeSet<Lsn> = reader.segments().iter().filter(|s| s.sealed).map(|s| s.last).collect();
    let last = reader.synced();
    ahead(spill.is_one() || options.rebuild_threads <= 1, reader.scan(Lsn(1)), |(lsn, bytes)| {
        let ids = ids.as_mut().filter(|(_, from)| lsn >= *from).map(|(ids, _)| &mut **ids);
        take(lsn, bytes, spill, ids, |ids| {
            if sealed.contains(&lsn) {
                ids.seal(lsn, options.seen_for);
                ids.settle();
            }
        })?;
        if lsn.0.is_multiple_of(PROGRESS_EVERY) {
            options.tell(lsn.0 * READ / 100, last.0);
        }
        Ok(())
    })
}

/// Takes a record; the seen ids are given if they lack it.
fn take(
    lsn: Lsn,
    bytes: Vec<u8>,
    spill: &mut Spill,
    ids: Option<&mut SeenIds>,
    seal: impl FnOnce(&mut SeenIds),
) -> Result<(), Error> {
    let mut ids = ids;
    if Kind::of(lsn, &bytes)? == Kind::Commit {
        spill.commit(lsn, records::head(lsn, &bytes)?)?;
    } else {
        match Record::decode(lsn, bytes)? {
            Record::Delivery(delivery) => {
                spill.delivery(lsn, &delivery)?;
                if let Some(ids) = ids.as_deref_mut() {
                    ids.replay(lsn, &delivery);
                }
            }
            Record::Command(command) => spill.command(lsn, &command)?,
            Record::Commit(_) => {}
        }
    }
    if let Some(ids) = ids {
        seal(ids);
    }
    Ok(())
}

/// How far a rebuild has come, in records, when `done` of `all` between two hundredths are done.
fn part(last: Lsn, from: u64, to: u64, done: usize, all: usize) -> u64 {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let share = (to - from).saturating_mul(number(done)) / number(all.max(1));
    last.0.saturating_mul(from + share.min(to - from)) / 100
}

impl Folded {
    /// What is counted in all.
    pub(super) fn counts(&self) -> super::change::Counts {
        self.sum.counts
    }

    /// The oldest record with an event that waits for its first decision.
    pub(super) fn waits(&self) -> Option<Lsn> {
        self.sum.waits
    }

    /// All pairs in the order of keys.
    pub(super) fn pairs(&self) -> Result<Merge, Error> {
        Merge::new(&self.scratch, &self.runs)
    }
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.counts += other.counts;
        self.waits = self.waits.into_iter().chain(other.waits).min();
        self.largest = self.largest.max(other.largest);
    }
}

#[cfg(test)]
mod tests;
