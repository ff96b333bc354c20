//! What is durable in the journal and not yet in the view: readers look here first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::change::{Change, Counts, Value};
use super::keys::Key;
use crate::domain::Lsn;

/// What a change costs beside its keys and values.
const CHANGE_BYTES: usize = 64;

/// Changes on their way to the view, and what they make of each key.
#[derive(Default)]
pub(super) struct Overlay {
    newest: BTreeMap<Key, (Lsn, Value)>,
    changes: VecDeque<Arc<Change>>,
    keys: usize,
    bytes: usize,
}

/// Some of the oldest changes as one: a later write of a key stands in place of an earlier one.
#[derive(Default)]
pub(super) struct Batch {
    /// The last record in it.
    pub(super) through: Lsn,
    pub(super) writes: BTreeMap<Key, Value>,
    pub(super) counts: Counts,
    records: usize,
}

impl Batch {
    /// Whether no record is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }
}

impl Overlay {
    /// Takes the change of the newest record.
    pub(super) fn add(&mut self, change: Change) {
        for (key, value) in &change.writes {
            self.newest.insert(key.clone(), (change.lsn, value.clone()));
        }
        self.keys += change.writes.len();
        self.bytes += cost(&change);
        self.changes.push_back(Arc::new(change));
    }

    /// What the changes make of a key: nothing, a value, or its deletion.
    pub(super) fn get(&self, key: &[u8]) -> Option<Value> {
        self.newest.get(key).map(|(_, value)| value.clone())
    }

    /// The first `limit` keys of a range, and what the changes make of each.
    pub(super) fn range(&self, range: &Range<Key>, limit: usize) -> Vec<(Key, Value)> {
        let found = self.newest.range::<[u8], _>((
            std::ops::Bound::Included(range.start.as_slice()),
            std::ops::Bound::Excluded(range.end.as_slice()),
        ));
        found.take(limit).map(|(key, (_, value))| (key.clone(), value.clone())).collect()
    }

    /// How many keys wait.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// How much memory what waits takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The oldest changes, up to about `keys` keys and `records` records: cut where a record ends, and at least one.
    pub(super) fn batch(&self, keys: usize, records: usize) -> Batch {
        let mut batch = Batch::default();
        for change in self.changes.iter().take(records) {
            batch.through = change.lsn;
            batch.counts += change.counts;
            batch.records += 1;
            batch.writes.extend(change.writes.iter().cloned());
            if batch.writes.len() >= keys {
                break;
            }
        }
        batch
    }

    /// The view shows the batch now.
    pub(super) fn forget(&mut self, batch: &Batch) {
        for change in self.changes.drain(..batch.records.min(self.changes.len())) {
            self.keys = self.keys.saturating_sub(change.writes.len());
            self.bytes = self.bytes.saturating_sub(cost(&change));
        }
        for key in batch.writes.keys() {
            if self.newest.get(key).is_some_and(|(lsn, _)| *lsn <= batch.through) {
                self.newest.remove(key);
            }
        }
    }
}

fn cost(change: &Change) -> usize {
    let write =
        |(key, value): &(Key, Value)| 2 * key.len() + value.as_ref().map_or(0, |value| value.len()) + CHANGE_BYTES;
    CHANGE_BYTES + change.writes.iter().map(write).sum::<usize>()
}
