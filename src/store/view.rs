//! The view: what the journal implies, kept by a tree so that readers need not fold it.
//!
//! sled is fast and not to be trusted with facts: it does not sync, a flipped bit can take an older page for the
//! newest without a word, and some damage makes it panic. So the view holds nothing that the journal does not, and the
//! sum of the hashes of all pairs is kept with each batch, so that a walk over the tree proves it whole.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock};

use serde::{Deserialize, Serialize};

use super::Error;
use super::change::{self, Counts};
use super::keys::{self, Key};
use super::lock::unpoisoned;
use super::redo::Write;
use super::tree::{Pairs, Tree};
use super::walk::Walk;
use crate::domain::Lsn;

/// The largest value under one key. A leaf of sled's tree has up to 17 of them, and a leaf over 128 KiB would become
/// a file of its own that is never synced.
const PART_LEN_MAX: usize = 4096;

/// How many pairs are walked at a time by [`View::prove`].
const WALK_PAIRS: usize = 100_000;

/// What a view is, and up to where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Meta {
    pub(super) store_id: [u8; 16],
    /// Everything up to here is in it.
    pub(super) applied: Lsn,
    /// The mark of the record there: by it the journal is known again.
    pub(super) mark: u32,
    /// From here on the journal holds events that may be undecided.
    pub(super) scan_from: Lsn,
    pub(super) counts: Counts,
    /// Whether it was built to the end.
    pub(super) complete: bool,
    /// A table up to here is being written in parts; 0 if none is.
    pub(super) writing: Lsn,
    /// How many pairs the tree has besides this one.
    pub(super) pairs: u64,
    /// The sum of their hashes.
    pub(super) sum: u64,
}

/// The open view. It is closed when it is dropped, whoever gives it up and why.
pub(super) struct View {
    /// There until it is dropped.
    tree: Option<Box<dyn Tree>>,
    tally: Mutex<Tally>,
    broken: OnceLock<Error>,
}

/// The pairs that should be there, and a walk that counts those that are.
struct Tally {
    meta: Meta,
    walk: Walk,
}

impl View {
    /// Takes an open tree; `fresh` is what an empty one becomes. One without a [`Meta`] that is whole is an error: it
    /// cannot be used.
    pub(super) fn open(tree: Box<dyn Tree>, fresh: Meta) -> Result<Self, Error> {
        let tally = Mutex::new(Tally { meta: fresh, walk: Walk::default() });
        let view = Self { tree: Some(tree), tally, broken: OnceLock::new() };
        match view.raw(&keys::meta())? {
            Some(bytes) => view.tally().meta = view.read_meta(&bytes)?,
            None if view.call(|tree| tree.is_empty())? => {}
            None => return Err(view.damaged("it says not what it is".to_owned())),
        }
        Ok(view)
    }

    /// What it is, and up to where.
    pub(super) fn meta(&self) -> Meta {
        self.tally().meta
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.raw(key)?.map_or(Ok(None), |raw| self.whole(key, raw))
    }

    /// The first `limit` pairs of a range.
    pub(super) fn range(&self, range: &Range<Key>, limit: usize) -> Result<Vec<(Key, Vec<u8>)>, Error> {
        let pairs = self.call(|tree| tree.range(&range.start, Some(&range.end), limit))?;
        let whole = |(key, raw): (Key, Vec<u8>)| Ok(self.whole(&key, raw)?.map(|value| (key, value)));
        pairs.into_iter().filter_map(|pair| whole(pair).transpose()).collect()
    }

    /// Writes all or nothing, with `meta` beside it (whose pairs and sum are reckoned here).
    pub(super) fn apply(&self, writes: &[Write], meta: Meta) -> Result<(), Error> {
        let mut raw = BTreeMap::new();
        for (key, value) in writes {
            self.spread(key, value.as_deref(), &mut raw)?;
        }
        let mut tally = self.tally();
        let (mut pairs, mut sum) = (tally.meta.pairs, tally.meta.sum);
        let mut batch = Vec::with_capacity(raw.len() + 1);
        for (key, (before, after)) in raw {
            // A state that was left and entered again, for example.
            if before == after {
                continue;
            }
            let (old, new) = (hash(&key, before.as_deref()), hash(&key, after.as_deref()));
            let step = i64::from(after.is_some()) - i64::from(before.is_some());
            pairs = pairs.wrapping_add_signed(step);
            sum = sum.wrapping_sub(old).wrapping_add(new);
            tally.walk.changed(&key, step, new.wrapping_sub(old));
            batch.push((key, after));
        }
        tally.meta = Meta { pairs, sum, ..meta };
        batch.push((keys::meta(), Some(meta_bytes(&tally.meta)?)));
        self.call(|tree| tree.apply(batch))
    }

    /// Adds raw pairs, none of which is there, in the order of keys, to a tree that is not complete. A crash may keep any
    /// part of them: they need not become true together, which is faster. (A second thread makes sled slower.)
    pub(super) fn fill(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Error> {
        let mut tally = self.tally();
        for (key, raw) in pairs {
            tally.meta.pairs += 1;
            tally.meta.sum = tally.meta.sum.wrapping_add(hash(key, Some(raw)));
        }
        self.call(|tree| tree.fill(pairs))
    }

    /// Whether a walk has proved the tree whole since it was opened.
    pub(super) fn is_proved(&self) -> bool {
        self.tally().walk.is_done()
    }

    /// Goes on with the walk that proves the tree whole, by about `limit` pairs; answers whether it is done.
    pub(super) fn walk(&self, limit: usize) -> Result<bool, Error> {
        let mut tally = self.tally();
        if tally.walk.is_done() {
            return Ok(true);
        }
        let all = tally.meta.pairs;
        let at_end = self.call(|tree| tally.walk.step(tree, limit, all))?;
        if !at_end {
            return Ok(false);
        }
        let (found, meant) = (tally.walk.found(), (tally.meta.pairs, tally.meta.sum));
        if found != meant {
            drop(tally);
            let detail = format!("its {} pairs are not the {} that were written", found.0, meant.0);
            return Err(self.damaged(detail));
        }
        tally.walk.end();
        Ok(true)
    }

    /// Walks to the end.
    pub(super) fn prove(&self) -> Result<(), Error> {
        while !self.walk(WALK_PAIRS)? {}
        Ok(())
    }

    /// Writes out what the tree holds in memory.
    pub(super) fn flush(&self) -> Result<(), Error> {
        self.call(|tree| tree.flush())
    }

    /// Closes.
    pub(super) fn close(self) {
        drop(self);
    }

    /// What the tree is made of for one value: itself, or its parts and their number.
    fn spread(&self, key: &Key, value: Option<&[u8]>, out: &mut BTreeMap<Key, Step>) -> Result<(), Error> {
        let before = self.raw(key)?;
        let old_parts = before.as_deref().map_or(0, parts_of);
        let small = value.filter(|value| value.len() <= PART_LEN_MAX);
        let chunks: Vec<&[u8]> =
            value.filter(|_| small.is_none()).map_or(Vec::new(), |v| v.chunks(PART_LEN_MAX).collect());
        let new_parts = u16::try_from(chunks.len()).map_err(|_| Error::TooLarge {
            bytes: value.map_or(0, <[u8]>::len),
            limit: usize::from(u16::MAX) * PART_LEN_MAX,
        })?;
        for part in 0..old_parts.max(new_parts) {
            let part_key = keys::part(key, part);
            let old = if part < old_parts { self.raw(&part_key)? } else { None };
            out.insert(part_key, (old, chunks.get(usize::from(part)).map(|chunk| chunk.to_vec())));
        }
        let after = value.map(|value| raw_head(value, new_parts));
        out.insert(key.clone(), (before, after));
        Ok(())
    }

    /// The value that a raw one stands for; none if it was deleted meanwhile.
    fn whole(&self, key: &[u8], mut raw: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        loop {
            match raw.as_slice() {
                [0, value @ ..] => return Ok(Some(value.to_vec())),
                [1, high, low, crc @ ..] => {
                    let mut value = Vec::new();
                    for part in 0..u16::from_be_bytes([*high, *low]) {
                        value.extend(self.raw(&keys::part(key, part))?.unwrap_or_default());
                    }
                    if crc32fast::hash(&value).to_be_bytes() == crc {
                        return Ok(Some(value));
                    }
                }
                _ => return Err(self.damaged(format!("the value of {} is of no known form", hex::encode(key)))),
            }
            // The parts are of another value: either it was replaced between two reads, or this is damage.
            match self.raw(key)? {
                None => return Ok(None),
                Some(now) if now == raw => {
                    return Err(self.damaged(format!("the parts of the value of {} do not fit", hex::encode(key))));
                }
                Some(now) => raw = now,
            }
        }
    }

    fn raw(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.call(|tree| tree.get(key))
    }

    fn read_meta(&self, bytes: &[u8]) -> Result<Meta, Error> {
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| self.damaged("its head is cut".to_owned()))?;
        if crc32fast::hash(body).to_be_bytes() != *crc {
            return Err(self.damaged("its head has a wrong checksum".to_owned()));
        }
        change::decode(&keys::meta(), body)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        unpoisoned(self.tally.lock())
    }

    /// Runs one call of the tree. After one that failed nothing is asked of it any more.
    fn call<T>(&self, call: impl FnOnce(&dyn Tree) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(error) = self.broken.get() {
            return Err(error.clone());
        }
        let closed = || Error::Stopped { reason: "the view was closed".to_owned() };
        let tree = self.tree.as_deref().ok_or_else(closed)?;
        call(tree).map_err(|error| self.broken.get_or_init(|| error).clone())
    }

    fn damaged(&self, detail: String) -> Error {
        let error = Error::Corrupt { place: self.tree.as_ref().map(|tree| tree.place()).unwrap_or_default(), detail };
        self.broken.get_or_init(|| error).clone()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(tree) = self.tree.take() {
            tree.close();
        }
    }
}

/// The bytes of a key before and after.
type Step = (Option<Vec<u8>>, Option<Vec<u8>>);

/// How many parts a raw value has: none if it is whole.
fn parts_of(raw: &[u8]) -> u16 {
    match raw {
        [1, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

/// What stands under the key of a value: itself, or how many parts it has and their checksum.
fn raw_head(value: &[u8], parts: u16) -> Vec<u8> {
    if value.len() <= PART_LEN_MAX {
        return [&[0_u8], value].concat();
    }
    [&[1_u8][..], &parts.to_be_bytes(), &crc32fast::hash(value).to_be_bytes()].concat()
}

/// What the tree holds of a value: what stands under its key, and its parts with theirs.
pub(super) fn raw(key: &[u8], value: &[u8]) -> Result<(Vec<u8>, Pairs), Error> {
    if value.len() <= PART_LEN_MAX {
        return Ok((raw_head(value, 0), Vec::new()));
    }
    let chunks: Vec<_> = (0_u16..=u16::MAX)
        .zip(value.chunks(PART_LEN_MAX))
        .map(|(n, part)| (keys::part(key, n), part.to_vec()))
        .collect();
    let too_large = || Error::TooLarge { bytes: value.len(), limit: usize::from(u16::MAX) * PART_LEN_MAX };
    let parts = u16::try_from(value.len().div_ceil(PART_LEN_MAX)).map_err(|_| too_large())?;
    Ok((raw_head(value, parts), chunks))
}

/// What a pair adds to the sum of all.
pub(super) fn hash(key: &[u8], raw: Option<&[u8]>) -> u64 {
    let Some(raw) = raw else { return 0 };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_be_bytes());
    hasher.update(key);
    hasher.update(raw);
    // Spread, so that sums of differences do not cancel as checksums of near texts do.
    u64::from(hasher.finalize()).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn meta_bytes(meta: &Meta) -> Result<Vec<u8>, Error> {
    let mut bytes = change::encode(meta)?.to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests;
