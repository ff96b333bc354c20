//! The redo file: what is being written to the view.
//!
//! A table of the overlay is written to the view in small batches, since sled's memory follows the keys of a batch and
//! since readers wait for one. In between, the view shows a part of the table: so the whole table stands in this file
//! before the first batch. The view says in each batch that it is being written, and up to where; one that is opened in
//! that state is completed from here, or, should the file not fit, built anew.
//!
//! The file outlives the process, and is not synced, as the view is not: its sync would hold up that of the journal,
//! which senders wait for. When the power goes in the middle of it the view is built anew.
//!
//! What the view wrote last is in the memory of its process for a while, and a kill takes it back to the middle of the
//! table before. So the view writes that out before the file of the next table takes the place of the one that completes
//! it.

use std::io;
use std::sync::Arc;

use super::change;
use super::disk::{Disk, is_full};
use super::keys::Key;
use super::view::{Meta, View};
use super::{Error, Options};
use crate::domain::Lsn;

/// The file's name in the store's directory.
const NAME: &str = "view.redo";

/// What the file begins with.
const MAGIC: &[u8; 8] = b"TGREDO1\n";

/// About how much is written at once.
const CHUNK: usize = 1 << 17;

/// A key with the bytes that it gets; none deletes it.
pub(super) type Write = (Key, Option<Arc<[u8]>>);

/// Writes a table to the view: `after` is what the view says once all of it is there. False, and nothing was written, if
/// there is no space for the redo file. Want of space in the view itself is an error: sled can't go on after it. Between
/// its pieces it may `rest`.
pub(super) fn write(
    disk: &dyn Disk,
    view: &View,
    writes: &[Write],
    after: Meta,
    batch_keys: usize,
    rest: &dyn Fn(),
) -> Result<bool, Error> {
    let mut batches = writes.chunks(batch_keys.max(1));
    let last = batches.next_back().unwrap_or_default();
    if batches.len() > 0 {
        view.flush()?;
        match save(disk, writes, view.meta().applied, after, rest) {
            Err(error) if is_full(&error) => return Ok(false),
            // The view has no part in it: nothing is wrong with that.
            Err(error) => return Err(Error::Stopped { reason: format!("writing `{}`: {error}", disk.place(NAME)) }),
            Ok(()) => {}
        }
        let under_way = Meta { writing: after.applied, ..view.meta() };
        for batch in batches {
            view.apply(batch, under_way)?;
            rest();
        }
    }
    view.apply(last, Meta { writing: Lsn(0), ..after })?;
    Ok(true)
}

/// Completes a view that was being written when its program ended. A view that can't be completed is an error.
pub(super) fn complete(disk: &dyn Disk, view: &View, options: &Options) -> Result<(), Error> {
    let meta = view.meta();
    if meta.writing == Lsn(0) {
        return Ok(());
    }
    let unusable = |detail: &str| Error::Corrupt { place: disk.place(NAME), detail: detail.to_owned() };
    let bytes = read(disk).map_err(|error| unusable(&error.to_string()))?;
    let (base, after, writes) = parse(&bytes).ok_or_else(|| unusable("it is not whole"))?;
    if base != meta.applied || after.applied != meta.writing || after.store_id != meta.store_id {
        return Err(unusable("it is not of what was being written"));
    }
    options.tell(0, 1);
    for batch in writes.chunks(options.batch_keys.max(1)) {
        view.apply(batch, meta)?;
    }
    view.apply(&[], Meta { writing: Lsn(0), ..after })
}

/// Writes the file: what the view becomes that has everything up to `base`.
fn save(disk: &dyn Disk, writes: &[Write], base: Lsn, after: Meta, rest: &dyn Fn()) -> io::Result<()> {
    let meta = change::encode(&after).map_err(io::Error::other)?;
    let file = disk.create(NAME)?;
    let mut sum = crc32fast::Hasher::new();
    let (mut buffer, mut at) = (Vec::with_capacity(CHUNK + CHUNK / 8), 0_u64);
    let mut flush = |buffer: &mut Vec<u8>| -> io::Result<()> {
        sum.update(buffer);
        file.write_at(buffer, at)?;
        at += u64::try_from(buffer.len()).unwrap_or(0);
        buffer.clear();
        rest();
        Ok(())
    };
    buffer.extend_from_slice(MAGIC);
    put(&mut buffer, &base.0.to_be_bytes());
    put(&mut buffer, &meta);
    for (key, value) in writes {
        put(&mut buffer, key);
        buffer.push(u8::from(value.is_some()));
        if let Some(value) = value {
            put(&mut buffer, value);
        }
        if buffer.len() >= CHUNK {
            flush(&mut buffer)?;
        }
    }
    flush(&mut buffer)?;
    file.write_at(&sum.finalize().to_be_bytes(), at)
}

fn put(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    buffer.extend_from_slice(bytes);
}

fn read(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let file = disk.open(NAME)?;
    let mut bytes = vec![0; usize::try_from(file.size()?).map_err(io::Error::other)?];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Option<(Lsn, Meta, Vec<Write>)> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body).to_be_bytes() != *sum {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let base = Lsn(u64::from_be_bytes(take(&mut rest)?.try_into().ok()?));
    let meta = change::decode(NAME.as_bytes(), take(&mut rest)?).ok()?;
    let mut writes = Vec::new();
    while !rest.is_empty() {
        let key = take(&mut rest)?.to_vec();
        let (some, after) = rest.split_first()?;
        rest = after;
        let value = if *some == 1 { Some(Arc::from(take(&mut rest)?)) } else { None };
        writes.push((key, value));
    }
    Some((base, meta, writes))
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<4>()?;
    let (taken, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::sim::{Dice, SimDisk};
    use crate::store::tree::Trees as _;
    use crate::store::tree::sim::SimTrees;

    /// How many keys are written at once.
    const BATCH_KEYS: usize = 200;

    /// Writes a table in such batches.
    fn write(disk: &SimDisk, view: &View, writes: &[Write], after: Meta) -> Result<bool, Error> {
        super::write(disk, view, writes, after, BATCH_KEYS, &|| {})
    }

    fn writes(count: usize, byte: u8) -> Vec<Write> {
        let value = |n: usize| (!n.is_multiple_of(5)).then(|| Arc::from(vec![byte; 1 + n % 7]));
        // Keys of every table, those that are written once among them.
        (0..count).map(|n| (format!("{}{n:06}", ["c", "e", "s"][n * 3 / count]).into_bytes(), value(n))).collect()
    }

    fn meta(applied: u64) -> Meta {
        Meta { store_id: [7; 16], applied: Lsn(applied), complete: true, ..Meta::default() }
    }

    fn content(trees: &SimTrees) -> Vec<(Key, Vec<u8>)> {
        trees.content().into_iter().collect()
    }

    /// Calls of the tree for one batch: each key is looked up, then all are written.
    const CALLS: u64 = 201;

    /// Writes one table, then a second of three batches that is cut off after so many calls of the tree.
    fn cut_off(after: Option<u64>) -> (SimDisk, SimTrees, Result<(), Error>) {
        assert_eq!(u64::try_from(BATCH_KEYS).unwrap() + 1, CALLS);
        let (disk, trees) = (SimDisk::default(), SimTrees::default());
        let view = View::open(trees.open(0).unwrap(), meta(0)).unwrap();
        assert!(write(&disk, &view, &writes(2 * BATCH_KEYS, 1), meta(10)).unwrap());
        trees.fail_after(after);
        let done = write(&disk, &view, &writes(3 * BATCH_KEYS, 2), meta(20)).map(|done| assert!(done));
        trees.fail_after(None);
        (disk, trees, done)
    }

    #[test]
    fn a_view_that_was_cut_off_at_any_batch_is_completed_to_what_it_was_to_be() {
        let (_, whole, done) = cut_off(None);
        done.unwrap();
        for calls in (0..3 * CALLS).step_by(67) {
            let (disk, trees, done) = cut_off(Some(calls));
            done.unwrap_err();
            let view = View::open(trees.open(0).unwrap(), meta(0)).unwrap();
            let begun = view.meta().writing == Lsn(20);
            assert_eq!(
                begun,
                calls > CALLS,
                "nothing is under way before the first batch, and before that it is flushed"
            );
            complete(&disk, &view, &Options::default()).unwrap();
            view.prove().unwrap();
            let applied = view.meta().applied;
            assert_eq!(applied, if begun { Lsn(20) } else { Lsn(10) });
            assert_eq!(content(&trees) == content(&whole), begun);
        }
    }

    /// The process ends in the middle of the second of two tables: the files are as they were written, and of the view is
    /// there what it had written out, up to some point.
    #[test]
    fn a_kill_at_any_time_leaves_a_view_that_is_completed() {
        let tables = [(1, 10), (2, 20), (3, 30)];
        let mut ends = std::collections::BTreeSet::new();
        for calls in (1..9 * CALLS).step_by(50) {
            for dice in 0..8 {
                let (disk, trees) = (SimDisk::default(), SimTrees::default());
                let view = View::open(trees.open(0).unwrap(), meta(0)).unwrap();
                trees.fail_after(Some(calls));
                // Nothing is written to a view that failed.
                let write = |(byte, through)| write(&disk, &view, &writes(3 * BATCH_KEYS, byte), meta(through)).is_ok();
                let _ = tables.into_iter().all(write);
                trees.crash(&mut Dice(dice));
                let view = View::open(trees.open(0).unwrap(), meta(0)).unwrap();
                complete(&disk, &view, &Options::default())
                    .unwrap_or_else(|error| panic!("after {calls} calls, dice {dice}: {error}"));
                view.prove().unwrap();
                ends.insert(view.meta().applied.0);
            }
        }
        assert_eq!(ends.into_iter().collect::<Vec<_>>(), [0, 10, 20, 30], "wherever it was cut off");
    }

    #[test]
    fn without_space_for_the_file_nothing_is_written_to_the_view_and_it_can_be_tried_again() {
        let (disk, trees) = (SimDisk::default(), SimTrees::default());
        let view = View::open(trees.open(0).unwrap(), meta(0)).unwrap();
        disk.limit_space(Some(100));
        assert!(!write(&disk, &view, &writes(2 * BATCH_KEYS, 1), meta(10)).unwrap());
        assert_eq!((view.meta(), content(&trees)), (meta(0), vec![]));
        disk.limit_space(None);
        assert!(write(&disk, &view, &writes(2 * BATCH_KEYS, 1), meta(10)).unwrap());
        assert_eq!(view.meta().applied, Lsn(10));
    }

    #[test]
    fn a_file_that_does_not_fit_completes_nothing() {
        let (disk, trees, _) = cut_off(Some(2 * CALLS));
        let open = || View::open(trees.open(0).unwrap(), meta(0)).unwrap();
        let file = disk.open(NAME).unwrap();
        let size = file.size().unwrap();
        for at in [0, 20, size / 2, size - 1] {
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 4], at).unwrap();
            assert!(
                matches!(complete(&disk, &open(), &Options::default()), Err(Error::Corrupt { .. })),
                "flip at {at}"
            );
            file.write_at(&byte, at).unwrap();
        }
        for (base, through) in [(10, 19), (9, 20)] {
            save(&disk, &writes(9, 9), Lsn(base), meta(through), &|| {}).unwrap();
            let completed = complete(&disk, &open(), &Options::default());
            assert!(matches!(completed, Err(Error::Corrupt { .. })), "of the table from {base} to {through}");
        }
        disk.remove(NAME).unwrap();
        assert!(matches!(complete(&disk, &open(), &Options::default()), Err(Error::Corrupt { .. })), "no file");
    }
}
