//! The runs as one: every key once, in order, with the value that was written last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::domain::Lsn;
use crate::store::Error;
use crate::store::keys::Key;

use super::fold;
use super::scratch::{Reader, Scratch, Writer};

/// The merged pairs.
pub(in crate::store) struct Merge {
    runs: Vec<Reader>,
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next pair of a run. Of one key the newest comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    key: Key,
    lsn: Reverse<Lsn>,
    run: usize,
    value: Option<Vec<u8>>,
}

impl Merge {
    /// The runs of these partitions.
    pub(super) fn new(scratch: &Scratch, partitions: &[String]) -> Result<Self, Error> {
        let runs = partitions.iter().map(|name| scratch.open(&fold::run(name))).collect::<Result<_, _>>()?;
        let mut merge = Self { runs, heads: BinaryHeap::new() };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    /// The next key as it was written last, be it deleted.
    fn step(&mut self) -> Result<Option<Head>, Error> {
        let Some(Reverse(newest)) = self.heads.pop() else { return Ok(None) };
        self.advance(newest.run)?;
        while let Some(Reverse(older)) = self.heads.peek().filter(|Reverse(next)| next.key == newest.key) {
            let run = older.run;
            self.heads.pop();
            self.advance(run)?;
        }
        Ok(Some(newest))
    }

    fn advance(&mut self, run: usize) -> Result<(), Error> {
        let Some(bytes) = self.runs.get_mut(run).map(Reader::next).transpose()?.flatten() else { return Ok(()) };
        let read = || {
            let (len, rest) = bytes.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
            let (lsn, rest) = rest.split_first_chunk()?;
            let (there, value) = rest.split_first()?;
            let value = (*there == 1).then(|| value.to_vec());
            Some(Head { key: key.to_vec(), lsn: Reverse(Lsn(u64::from_be_bytes(*lsn))), run, value })
        };
        let malformed =
            || Error::Corrupt { place: "a temporary file".to_owned(), detail: "it is malformed".to_owned() };
        self.heads.push(Reverse(read().ok_or_else(malformed)?));
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = Result<(Key, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step() {
                Ok(Some(Head { key, value: Some(value), .. })) => return Some(Ok((key, value))),
                Ok(Some(Head { value: None, .. })) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Makes one run of those of the parts of a partition, and drops them.
pub(super) fn join(scratch: &Scratch, parts: &[String], partition: &str) -> Result<(), Error> {
    let mut merge = Merge::new(scratch, parts)?;
    let mut run = scratch.create(&fold::run(partition))?;
    while let Some(Head { key, lsn: Reverse(lsn), value, .. }) = merge.step()? {
        put(&mut run, &key, lsn, value.as_deref())?;
    }
    run.finish()?;
    drop(merge);
    parts.iter().try_for_each(|part| scratch.remove(&fold::run(part)))
}

/// Adds a pair to a run; one without a value was deleted.
pub(super) fn put(run: &mut Writer, key: &[u8], lsn: Lsn, value: Option<&[u8]>) -> Result<(), Error> {
    let len = u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes();
    run.put(&[&len, key, &lsn.0.to_be_bytes(), &[u8::from(value.is_some())], value.unwrap_or_default()])
}
