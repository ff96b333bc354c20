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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Batch, Change, Counts, Overlay, Value};
    use crate::domain::Lsn;

    fn change(lsn: u64, writes: &[(&str, Option<u8>)]) -> Change {
        let value = |byte: &Option<u8>| byte.map(|byte| Arc::from([byte]));
        let writes = writes.iter().map(|(key, byte)| (key.as_bytes().to_vec(), value(byte))).collect();
        Change { lsn: Lsn(lsn), writes, counts: Counts { pending: 1, ..Counts::default() }, ..Change::default() }
    }

    fn overlay(changes: &[Change]) -> Overlay {
        let mut overlay = Overlay::default();
        changes.iter().cloned().for_each(|change| overlay.add(change));
        overlay
    }

    fn keys(batch: &Batch) -> Vec<&str> {
        batch.writes.keys().map(|key| std::str::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn what_is_written_after_a_batch_was_taken_outlives_it() {
        let mut overlay = overlay(&[change(1, &[("a", Some(1)), ("b", Some(1))])]);
        let batch = overlay.batch(10, 10);
        overlay.add(change(2, &[("a", Some(2)), ("c", None)]));
        overlay.forget(&batch);
        let expected: [(&str, Option<Value>); 3] = [("a", Some(Some(Arc::from([2])))), ("b", None), ("c", Some(None))];
        for (key, value) in expected {
            assert_eq!(overlay.get(key.as_bytes()), value, "{key}");
        }
        assert_eq!((overlay.keys(), overlay.is_empty()), (2, false));
        let rest = overlay.batch(10, 10);
        assert_eq!((rest.through, keys(&rest)), (Lsn(2), vec!["a", "c"]));
        overlay.forget(&rest);
        assert_eq!((overlay.keys(), overlay.bytes(), overlay.is_empty()), (0, 0, true));
    }

    #[test]
    fn a_batch_ends_where_a_record_ends_and_holds_the_last_write_of_a_key() {
        let table: [(usize, usize, u64, &[&str]); 5] = [
            (1, 10, 1, &["a", "b"]),
            (3, 10, 3, &["a", "b", "c"]),
            (10, 2, 2, &["a", "b"]),
            (10, 10, 4, &["a", "b", "c", "d"]),
            (10, 0, 0, &[]),
        ];
        let changes = [
            change(1, &[("a", Some(1)), ("b", Some(1))]),
            change(2, &[("a", Some(2))]),
            change(3, &[("a", None), ("c", Some(3))]),
            change(4, &[("d", Some(4))]),
        ];
        for (most_keys, most_records, through, expected) in table {
            let batch = overlay(&changes).batch(most_keys, most_records);
            assert_eq!((batch.through, keys(&batch)), (Lsn(through), expected.to_vec()), "{most_keys} {most_records}");
            assert_eq!(batch.counts.pending, i64::try_from(through).unwrap(), "the counts of those records");
            assert_eq!(batch.is_empty(), expected.is_empty());
        }
        let all = overlay(&changes).batch(10, 10);
        assert_eq!(all.writes[b"a".as_slice()], None, "written, written again, and gone");
    }
}
