//! What the view keeps, and how it knows that it is whole.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::{Meta, View};
use crate::domain::Lsn;
use crate::store::Error;
use crate::store::disk::sim::Dice;
use crate::store::keys::prefixed;
use crate::store::redo::Write;
use crate::store::sled_tree::SledTrees;
use crate::store::tree::Trees;
use crate::store::tree::sim::SimTrees;

const CACHE: u64 = 1 << 20;

impl View {
    /// Opens or creates the view in a folder.
    pub(in crate::store) fn open_at(path: &Path, cache_bytes: u64, fresh: Meta) -> Result<Self, Error> {
        Self::open(SledTrees::new(path.to_owned()).open(cache_bytes)?, fresh)
    }

    /// Replaces what stands under a key without a word, as damage does.
    pub(in crate::store) fn tamper(&self, key: &[u8], raw: Option<&[u8]>) {
        self.tree.as_ref().unwrap().apply(vec![(key.to_vec(), raw.map(<[u8]>::to_vec))]).unwrap();
    }
}

fn value(len: usize, byte: u8) -> Arc<[u8]> {
    vec![byte; len].into()
}

fn writes(pairs: &[(&str, Option<Arc<[u8]>>)]) -> Vec<Write> {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.clone())).collect()
}

fn meta(applied: u64) -> Meta {
    Meta { applied: Lsn(applied), complete: true, ..Meta::default() }
}

fn walked(view: &View) -> bool {
    (0..100).any(|_| view.walk(3).unwrap())
}

#[test]
fn values_of_any_size_are_kept_replaced_and_deleted_and_no_file_is_spilled() {
    let dir = TempDir::new().unwrap();
    let view = View::open_at(dir.path(), CACHE, Meta::default()).unwrap();
    let sizes = [0, 1, 4095, 4096, 4097, 8192, 100_000, 20, 300_000, 5000];
    for (n, size) in sizes.into_iter().enumerate() {
        let byte = u8::try_from(n).unwrap();
        let batch: Vec<(String, Option<Arc<[u8]>>)> =
            (0..20).map(|key| (format!("e{key:02}"), Some(value(size + key, byte)))).collect();
        let batch: Vec<Write> = batch.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
        view.apply(&batch, meta(1)).unwrap();
        assert_eq!(view.get(b"e07").unwrap(), Some(vec![byte; size + 7]));
        let listed = view.range(&prefixed(b"e"), 100).unwrap();
        assert_eq!(
            listed.iter().map(|(_, value)| value.len()).collect::<Vec<_>>(),
            (size..size + 20).collect::<Vec<_>>()
        );
    }
    assert!(walked(&view));
    view.apply(&(0..20).map(|key| (format!("e{key:02}").into_bytes(), None)).collect::<Vec<_>>(), meta(2)).unwrap();
    assert_eq!((view.range(&prefixed(b"e"), 100).unwrap(), view.meta().pairs, view.meta().sum), (vec![], 0, 0));
    assert_eq!(view.range(&prefixed(b"x"), 100).unwrap(), [], "no part is left behind");
    view.flush().unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
}

#[test]
fn what_it_is_and_up_to_where_is_read_back() {
    let dir = TempDir::new().unwrap();
    let view = View::open_at(dir.path(), CACHE, Meta { store_id: [7; 16], ..Meta::default() }).unwrap();
    assert_eq!(view.meta().store_id, [7; 16], "a new one is what it is told");
    view.apply(&writes(&[("ea", Some(value(3, 1))), ("eb", Some(value(3, 2)))]), Meta { store_id: [7; 16], ..meta(5) })
        .unwrap();
    let told = view.meta();
    assert_eq!((told.applied, told.pairs), (Lsn(5), 2));
    view.close();
    let view = View::open_at(dir.path(), CACHE, Meta::default()).unwrap();
    assert_eq!(view.meta(), told);
}

#[test]
fn a_walk_proves_the_tree_whole_while_it_changes() {
    let dir = TempDir::new().unwrap();
    let view = View::open_at(dir.path(), CACHE, Meta::default()).unwrap();
    for n in 0..50_u8 {
        view.apply(&writes(&[(&format!("e{n:02}"), Some(value(usize::from(n), n)))]), meta(1)).unwrap();
    }
    let mut done = false;
    for n in 0..40_u8 {
        // Below and above where the walk stands: replaced, new and gone.
        let (low, high) = (format!("e{:02}", n % 10), format!("e{:02}", 49 - n % 10));
        let new = format!("e{n:02}_new");
        view.apply(&writes(&[(&low, Some(value(9, n))), (&high, None), (&new, Some(value(5000, n)))]), meta(2))
            .unwrap();
        done |= view.walk(4).unwrap();
    }
    assert!(done || walked(&view));
    assert!(view.walk(4).unwrap(), "once proved it stays so");
}

#[test]
fn a_pair_that_is_missing_changed_or_too_many_is_found_and_nothing_more_is_answered() {
    let changes: [(&[u8], Option<&[u8]>); 3] = [(b"ea", None), (b"ea", Some(&[0, 9, 9, 9])), (b"ez", Some(&[0, 1]))];
    for (key, raw) in changes {
        let dir = TempDir::new().unwrap();
        let view = View::open_at(dir.path(), CACHE, Meta::default()).unwrap();
        view.apply(&writes(&[("ea", Some(value(3, 1))), ("eb", Some(value(3, 2)))]), meta(5)).unwrap();
        view.tamper(key, raw);
        assert!((0..100).find_map(|_| view.walk(3).err()).is_some());
        assert!(view.get(b"eb").is_err(), "it is not asked again");
    }
}

#[test]
fn a_head_that_is_missing_or_changed_is_found() {
    for damage in [None, Some(vec![1, 2, 3]), Some(vec![0; 40])] {
        let dir = TempDir::new().unwrap();
        let view = View::open_at(dir.path(), CACHE, Meta::default()).unwrap();
        view.apply(&writes(&[("ea", Some(value(3, 1)))]), meta(5)).unwrap();
        view.tamper(b".", damage.as_deref());
        view.close();
        assert!(View::open_at(dir.path(), CACHE, Meta::default()).is_err());
    }
}

#[test]
fn a_view_that_can_not_be_opened_is_closed_too() {
    for dice in 0..8 {
        let trees = SimTrees::default();
        // Not a view: it says not what it is.
        trees.open(0).unwrap().apply(vec![(b"key".to_vec(), Some(vec![1]))]).unwrap();
        assert!(View::open(trees.open(0).unwrap(), Meta::default()).is_err());
        // What was closed has nothing left to lose.
        trees.crash(&mut Dice(dice));
        assert_eq!(trees.content().len(), 1);
    }
}
