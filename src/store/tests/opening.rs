//! Opening a directory, and what is told when it cannot be.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use crate::store::contract::facts::{queued, sub};
use crate::store::disk::Disk as _;
use crate::store::disk::sim::{Dice, SimDisk};
use crate::store::embedded::EmbeddedStore;
use crate::store::layout::Layout;
use crate::store::open::{Disks, Unusable, existing_view};
use crate::store::tree::sim::SimTrees;
use crate::store::{Error, Options, Store};

fn options(shards: Option<u16>) -> Options {
    Options { shards, ..Options::default() }
}

#[tokio::test]
async fn a_store_keeps_the_count_of_shards_that_it_was_created_with() {
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), options(Some(8))).unwrap();
    assert_eq!(store.shards(), 8);
    store.close().await.unwrap();
    let error = EmbeddedStore::open(dir.path(), options(Some(16))).err().unwrap();
    assert!(matches!(error, Error::OtherShards { stored: 8, asked: 16 }), "{error}");
    assert_eq!(EmbeddedStore::open(dir.path(), options(None)).unwrap().shards(), 8);
    let new = TempDir::new().unwrap();
    assert_eq!(EmbeddedStore::open(new.path(), options(None)).unwrap().shards(), 64);
}

#[tokio::test]
async fn a_directory_is_open_in_one_place_at_a_time() {
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), options(None)).unwrap();
    let error = EmbeddedStore::open(dir.path(), options(None)).err().unwrap();
    assert!(matches!(&error, Error::Locked { path } if *path == dir.path().display().to_string()), "{error}");
    store.close().await.unwrap();
    let second = EmbeddedStore::open(dir.path(), options(None)).unwrap();
    drop(store);
    drop(second);
    assert!(EmbeddedStore::open(dir.path(), options(None)).is_ok(), "dropping gives it free as well");
}

#[tokio::test]
async fn a_settings_file_that_is_gone_or_not_understood_is_told() {
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), options(None)).unwrap();
    store.append(queued("evt_1", &sub("sub_a"), "active")).await.unwrap();
    store.close().await.unwrap();
    let path = dir.path().join("store.toml");
    let whole = std::fs::read_to_string(&path).unwrap();
    let wrong = [
        (whole.replace("format = 1", "format = 2"), "format 2 is unknown"),
        (whole.replace("shards", "shard"), "unknown field `shard`"),
        (whole.replace("store_id = \"", "store_id = \"0"), "the journal is of store"),
        (String::new(), "missing field"),
    ];
    for (text, expected) in wrong {
        std::fs::write(&path, text).unwrap();
        let error = EmbeddedStore::open(dir.path(), options(None)).err().unwrap();
        assert!(matches!(error, Error::Corrupt { .. }) && error.to_string().contains(expected), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    let error = EmbeddedStore::open(dir.path(), options(None)).err().unwrap();
    assert!(error.to_string().contains("the file is missing, but the journal has 1 records"), "{error}");
    std::fs::write(&path, whole).unwrap();
    assert_eq!(EmbeddedStore::open(dir.path(), options(None)).unwrap().status().pending, 1);
}

#[test]
fn a_view_that_was_built_to_the_end_is_not_built_again_when_the_power_goes() {
    for round in 0..20 {
        let (files, view) = (SimDisk::default(), SimTrees::default());
        let disks = Disks { journal: Arc::new(SimDisk::default()), seen: Arc::new(SimDisk::default()) };
        let layout = Layout::on(Path::new("sim"), Arc::new(files), Arc::new(view.clone()));
        let built = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&built);
        let progress = move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        let options = Options { progress: Some(Arc::new(progress)), ..options(None) };
        let first = EmbeddedStore::by_steps(&layout, &disks, &options).unwrap();
        view.crash(&mut Dice(round));
        drop(first);
        drop(EmbeddedStore::by_steps(&layout, &disks, &options).unwrap());
        assert_eq!(built.load(Ordering::SeqCst), 1, "in round {round}");
    }
}

#[test]
fn what_a_rebuild_left_that_was_cut_off_is_removed() {
    let dir = TempDir::new().unwrap();
    drop(EmbeddedStore::open(dir.path(), options(None)).unwrap());
    let left = dir.path().join("rebuild.part.7");
    std::fs::write(&left, "half a record").unwrap();
    drop(EmbeddedStore::open(dir.path(), options(None)).unwrap());
    assert!(!left.exists() && dir.path().join("store.toml").exists());
}

#[test]
fn a_rebuild_that_was_cut_off_at_any_call_is_no_damage() {
    for calls in 0.. {
        let (files, view) = (SimDisk::default(), SimTrees::default());
        let disks = Disks { journal: Arc::new(SimDisk::default()), seen: Arc::new(SimDisk::default()) };
        let layout = Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(view.clone()));
        drop(EmbeddedStore::by_steps(&layout, &disks, &options(None)).unwrap());
        view.lose();
        view.fail_after(Some(calls));
        let opened = EmbeddedStore::by_steps(&layout, &disks, &options(None));
        let is_done = opened.is_ok();
        drop(opened);
        view.crash(&mut Dice(calls));
        // One that is killed does not live to say that its view failed.
        let _ = files.remove("view.damaged");
        let fixed = layout.read_settings().unwrap();
        if let Err(unusable) = existing_view(&layout, fixed.as_ref(), &options(None)).unwrap() {
            assert_eq!(unusable, Unusable::Unfinished, "after {calls} calls");
        }
        view.crash(&mut Dice(calls + 1));
        drop(EmbeddedStore::by_steps(&layout, &disks, &options(None)).unwrap());
        if is_done {
            break;
        }
    }
}
