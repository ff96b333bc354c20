//! What is durable in the journal and not yet in the view: readers look here first.
//!
//! Two tables: changes go into the active one; the applier takes it as a whole, frozen, and writes it to the view while
//! the next fills. A later write of a key stands in place of an earlier one, so that an entity that moves often is
//! written once. A change is moved in and never copied.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use super::Error;
use super::change::{Change, Counts, Stored, Value};
use super::keys::Key;
use super::redo::Write;
use crate::domain::Lsn;

/// What a write costs beside its key and value.
const WRITE_BYTES: usize = 96;

/// How many values are made bytes without a rest.
const ENCODED_AT_ONCE: usize = 256;

/// Changes on their way to the view, and what they make of each key.
#[derive(Default)]
pub(super) struct Overlay {
    active: Table,
    /// What the applier writes.
    frozen: Option<Arc<Table>>,
}

/// Changes of successive records as one.
#[derive(Default)]
pub(super) struct Table {
    /// The last record in it.
    pub(super) through: Lsn,
    pub(super) writes: BTreeMap<Key, Value>,
    pub(super) counts: Counts,
    bytes: usize,
}

impl Table {
    fn is_empty(&self) -> bool {
        self.through == Lsn(0)
    }

    /// The bytes of what is written. Between two of them it may `rest`.
    pub(super) fn encode(&self, rest: impl Fn()) -> Result<Vec<Write>, Error> {
        let bytes = |value: &Value| value.as_ref().map(Stored::bytes).transpose();
        let mut writes = Vec::with_capacity(self.writes.len());
        for (number, (key, value)) in self.writes.iter().enumerate() {
            if number % ENCODED_AT_ONCE == 0 {
                rest();
            }
            writes.push((key.clone(), bytes(value)?));
        }
        Ok(writes)
    }

    fn add(&mut self, change: Change) {
        self.through = change.lsn;
        self.counts += change.counts;
        for (key, value) in change.writes {
            self.bytes += cost(&key, &value);
            let fresh = key.len();
            if let Some(replaced) = self.writes.insert(key, value) {
                self.bytes = self.bytes.saturating_sub(fresh + WRITE_BYTES + weight(&replaced));
            }
        }
    }
}

impl Overlay {
    /// Takes the change of the newest record.
    pub(super) fn add(&mut self, change: Change) {
        self.active.add(change);
    }

    /// What the changes make of a key: nothing, a value, or its deletion.
    pub(super) fn get(&self, key: &[u8]) -> Option<Value> {
        let found = self.active.writes.get(key);
        found.or_else(|| self.frozen.as_ref()?.writes.get(key)).cloned()
    }

    /// The first `limit` keys of a range, and what the changes make of each.
    pub(super) fn range(&self, range: &Range<Key>, limit: usize) -> Vec<(Key, Value)> {
        let bounds = (Bound::Included(range.start.as_slice()), Bound::Excluded(range.end.as_slice()));
        let older = self.frozen.iter().flat_map(|table| table.writes.range::<[u8], _>(bounds).take(limit));
        let newer = self.active.writes.range::<[u8], _>(bounds).take(limit);
        let merged: BTreeMap<&Key, &Value> = older.chain(newer).collect();
        merged.into_iter().take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// How much memory the changes take that nobody writes yet, about.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.active.bytes
    }

    /// How much memory all changes take, about.
    pub(super) fn bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |table| table.bytes)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.frozen.is_none()
    }

    /// What is to be written next: everything that waits, or what was taken before and not yet written.
    pub(super) fn freeze(&mut self) -> Option<Arc<Table>> {
        if self.frozen.is_none() && !self.active.is_empty() {
            self.frozen = Some(Arc::new(std::mem::take(&mut self.active)));
        }
        self.frozen.clone()
    }

    /// The view shows what was taken.
    pub(super) fn forget(&mut self) {
        self.frozen = None;
    }
}

fn cost(key: &Key, value: &Value) -> usize {
    WRITE_BYTES + key.len() + weight(value)
}

fn weight(value: &Value) -> usize {
    value.as_ref().map_or(0, Stored::weight)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Change, Counts, Overlay, Table, Value};
    use crate::domain::Lsn;
    use crate::store::change::Stored;

    fn value(byte: Option<u8>) -> Value {
        byte.map(|byte| Stored::Bytes(Arc::from([byte])))
    }

    fn change(lsn: u64, writes: &[(&str, Option<u8>)]) -> Change {
        let writes = writes.iter().map(|(key, byte)| (key.as_bytes().to_vec(), value(*byte))).collect();
        Change { lsn: Lsn(lsn), writes, counts: Counts { pending: 1, ..Counts::default() }, ..Change::default() }
    }

    fn overlay(changes: &[Change]) -> Overlay {
        let mut overlay = Overlay::default();
        changes.iter().cloned().for_each(|change| overlay.add(change));
        overlay
    }

    fn keys(table: &Table) -> Vec<&str> {
        table.writes.keys().map(|key| std::str::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn what_is_written_after_a_table_was_taken_outlives_it() {
        let mut overlay = overlay(&[change(1, &[("a", Some(1)), ("b", Some(1))])]);
        let taken = overlay.freeze().unwrap();
        overlay.add(change(2, &[("a", Some(2)), ("c", None)]));
        assert!(Arc::ptr_eq(&overlay.freeze().unwrap(), &taken), "what was taken is not written yet");
        assert_eq!(overlay.get(b"b"), Some(value(Some(1))), "and can be read");
        overlay.forget();
        for (key, expected) in [("a", Some(value(Some(2)))), ("b", None), ("c", Some(None))] {
            assert_eq!(overlay.get(key.as_bytes()), expected, "{key}");
        }
        let rest = overlay.freeze().unwrap();
        assert_eq!((rest.through, keys(&rest), rest.counts.pending), (Lsn(2), vec!["a", "c"], 1));
        overlay.forget();
        assert_eq!((overlay.bytes(), overlay.is_empty(), overlay.freeze().is_none()), (0, true, true));
    }

    #[test]
    fn the_last_write_of_a_key_stands_and_only_it_takes_room() {
        let changes = [
            change(1, &[("a", Some(1)), ("b", Some(1))]),
            change(2, &[("a", Some(2))]),
            change(3, &[("a", None), ("c", Some(3))]),
        ];
        let mut overlay = overlay(&changes);
        let alone = super::cost(&b"a".to_vec(), &None) + 2 * super::cost(&b"a".to_vec(), &value(Some(1)));
        assert_eq!((overlay.waiting_bytes(), overlay.bytes()), (alone, alone));
        let table = overlay.freeze().unwrap();
        assert_eq!((keys(&table), table.through, table.counts.pending), (vec!["a", "b", "c"], Lsn(3), 3));
        assert_eq!(table.writes[b"a".as_slice()], None, "written, written again, and gone");
    }

    #[test]
    fn a_range_is_merged_from_both_tables_and_the_newer_counts() {
        let mut overlay = overlay(&[change(1, &[("a", Some(1)), ("c", Some(1)), ("e", Some(1))])]);
        overlay.freeze();
        overlay.add(change(2, &[("b", Some(2)), ("c", None), ("d", Some(2))]));
        let all = [("a", Some(1)), ("b", Some(2)), ("c", None), ("d", Some(2)), ("e", Some(1))];
        for limit in 0..7 {
            let found = overlay.range(&(b"a".to_vec()..b"z".to_vec()), limit);
            let expected: Vec<_> =
                all.iter().take(limit).map(|(key, byte)| (key.as_bytes().to_vec(), value(*byte))).collect();
            assert_eq!(found, expected, "{limit}");
        }
    }
}
