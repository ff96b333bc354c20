//! Writing the merged pairs to an empty tree.

use crate::domain::Lsn;
use crate::store::keys::Key;
use crate::store::view::{Meta, View, raw};
use crate::store::{Error, Options, journal, records};

use super::ahead::ahead;
use super::scratch::{Reader, Writer};
use super::{FOLDED, Folded, part};

/// How many pairs are written at once.
const PAIRS: usize = 1000;

/// The file of the parts of long values. Their keys are in the order of the keys whose parts they are, behind all others.
const PARTS: &str = "parts";

/// Writes in the order of keys.
struct Loader<'a> {
    view: &'a View,
    options: &'a Options,
    last: Lsn,
    batch: Vec<(Key, Vec<u8>)>,
    written: usize,
    about: usize,
}

impl Folded {
    /// Writes everything to an empty view, which is complete when this returns and not before.
    pub(super) fn load(self, view: &View, options: &Options, journal: &journal::Reader) -> Result<(), Error> {
        let Self { last, sum, .. } = self;
        let scan_from = sum.waits.unwrap_or(Lsn(last.0 + 1));
        let mark = records::mark(journal, last)?.unwrap_or_default();
        let meta = Meta { applied: last, mark, scan_from, counts: sum.counts, complete: true, ..view.meta() };
        // From here on the tree says that it is not whole.
        view.apply(&[], Meta { complete: false, ..meta })?;
        // Most entities have a key, and another in the list of their state.
        let about = usize::try_from(sum.counts.entities).unwrap_or_default() * 2 + 1;
        let mut loader = Loader { view, options, last, batch: Vec::with_capacity(PAIRS), written: 0, about };
        let mut parts = self.scratch.create(PARTS)?;
        ahead(self.runs.len() == 1 || options.rebuild_threads <= 1, self.pairs()?, |(key, value)| {
            let (value, chunks) = raw(&key, &value)?;
            for (key, value) in chunks {
                put(&mut parts, &key, &value)?;
            }
            loader.add(key, value)
        })?;
        parts.finish()?;
        let mut parts = self.scratch.open(PARTS)?;
        while let Some((key, value)) = take(&mut parts)? {
            loader.add(key, value)?;
        }
        view.fill(&loader.batch)?;
        complete(view, meta)
    }
}

/// Says that a view is complete.
pub(super) fn complete(view: &View, meta: Meta) -> Result<(), Error> {
    // Without the flush a crash soon after leaves a view that was built in vain.
    view.apply(&[], meta).and_then(|()| view.flush())
}

impl Loader<'_> {
    fn add(&mut self, key: Key, value: Vec<u8>) -> Result<(), Error> {
        if self.batch.len() >= PAIRS {
            self.view.fill(&self.batch)?;
            self.written += self.batch.len();
            self.batch.clear();
            self.options.tell(part(self.last, FOLDED, 100, self.written, self.about), self.last.0);
        }
        self.batch.push((key, value));
        Ok(())
    }
}

fn put(parts: &mut Writer, key: &[u8], value: &[u8]) -> Result<(), Error> {
    parts.put(&[key])?;
    parts.put(&[value])
}

fn take(parts: &mut Reader) -> Result<Option<(Key, Vec<u8>)>, Error> {
    let Some(key) = parts.next()?.map(<[u8]>::to_vec) else { return Ok(None) };
    let value = parts.next()?.unwrap_or_default().to_vec();
    Ok(Some((key, value)))
}
