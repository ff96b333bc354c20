//! The runs as one: every key once, in order, with the value that was written last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::domain::Lsn;
use crate::store::Error;
use crate::store::keys::Key;

use super::fold;
use super::scratch::{Reader, Scratch};

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
    pub(super) fn new(scratch: &Scratch, runs: usize) -> Result<Self, Error> {
        let runs = (0..runs).map(|run| scratch.open(&fold::name(run))).collect::<Result<_, _>>()?;
        let mut merge = Self { runs, heads: BinaryHeap::new() };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn step(&mut self) -> Result<Option<(Key, Vec<u8>)>, Error> {
        loop {
            let Some(Reverse(Head { key, value, run, .. })) = self.heads.pop() else { return Ok(None) };
            self.advance(run)?;
            while let Some(Reverse(older)) = self.heads.peek().filter(|Reverse(next)| next.key == key) {
                let run = older.run;
                self.heads.pop();
                self.advance(run)?;
            }
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
        }
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
        self.step().transpose()
    }
}
