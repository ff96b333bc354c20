//! Opening a directory, and what is told when it cannot be.

use tempfile::TempDir;

use crate::store::contract::facts::{queued, sub};
use crate::store::embedded::EmbeddedStore;
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
