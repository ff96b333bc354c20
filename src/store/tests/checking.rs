//! Checking and rebuilding a store that is closed.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::domain::{Disposition, Lsn, Position};
use crate::store::check::{Report, check, rebuild};
use crate::store::contract::facts::{at, commit, dead, entry, field_entry, judged, queued, retry, sub};
use crate::store::embedded::EmbeddedStore;
use crate::store::journal::Journal;
use crate::store::keys::{self, DueKey};
use crate::store::layout::Layout;
use crate::store::records::{CommandRecord, CommitRecord, Record, StoredAction};
use crate::store::redo::Write;
use crate::store::view::{Meta, View};
use crate::store::{Error, Options, Store};

fn options() -> Options {
    Options { shards: Some(4), ..Options::default() }
}

/// A store of four events: one decided, one waiting for a retry, one given up, one pending.
async fn furnish(dir: &Path) {
    let store = EmbeddedStore::open(dir, options()).unwrap();
    let entity = sub("sub_a");
    let epoch = store.adopt(entity.shard(4)).await.unwrap();
    for n in 1..=4 {
        store.append(queued(&format!("evt_{n}"), &entity, "active")).await.unwrap();
    }
    let mut decided = commit(&entity, None, epoch);
    decided.entries = [entry(None, "active", vec![]), field_entry("plan", "pro")].into();
    let dispositions = [Disposition::Done, retry(at(10)), dead()];
    let positions = (1..).map(|lsn| Position { lsn: Lsn(lsn), item: 0 });
    decided.judged = positions.zip(dispositions).map(|(position, what)| judged(position, what)).collect();
    store.commit(decided).await.unwrap();
    store.close().await.unwrap();
}

/// Opens the view of a closed store and lets somebody change it, as no store ever would.
fn tamper(dir: &Path, tamper: impl FnOnce(&View) -> Vec<Write>) {
    let view = View::open_at(&dir.join("view"), 1 << 20, Meta::default()).unwrap();
    let (writes, meta) = (tamper(&view), view.meta());
    view.apply(&writes, meta).unwrap();
    view.close();
}

/// Appends a record to a closed store, as no store ever would.
fn append(dir: &Path, record: &Record) {
    let (mut journal, _) = Journal::open(&Layout::new(dir).journal(), options().journal, Lsn(0)).unwrap();
    journal.append(&[record.encode().unwrap()]).unwrap();
    journal.close().unwrap();
}

fn problems(report: &Report) -> Vec<String> {
    report.problems.iter().map(|problem| format!("{}: {}", problem.place, problem.detail)).collect()
}

#[tokio::test]
async fn a_sound_store_is_counted() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let report = check(dir.path(), &options()).unwrap();
    assert_eq!(problems(&report), Vec::<String>::new());
    assert_eq!((report.last, report.deliveries, report.events, report.commits), (Lsn(5), 4, 4, 1));
    assert_eq!((report.entries, report.commands, report.entities), (2, 0, 1));
    assert_eq!((report.pending, report.retries, report.dead_letters), (1, 1, 1));
    assert!(!dir.path().join("check").exists(), "nothing is left behind");
    let store = EmbeddedStore::open(dir.path(), options()).unwrap();
    assert_eq!(store.load(&sub("sub_a")).await.unwrap().unwrap().version, 2, "and nothing was changed");
}

#[tokio::test]
async fn every_difference_between_view_and_journal_is_named() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let (entity, stray) = (sub("sub_a"), Position { lsn: Lsn(4), item: 0 });
    tamper(dir.path(), |view| {
        let key = keys::entity(&entity);
        let mut value = view.get(&key).unwrap().unwrap();
        *value.last_mut().unwrap() ^= 1;
        let gone = DueKey { at: at(10), entity: entity.clone(), retry: Some(Position { lsn: Lsn(2), item: 0 }) };
        let stored = |bytes: Vec<u8>| Some(bytes.into());
        vec![(key, stored(value)), (keys::due(&gone), None), (keys::dead(stray), stored(vec![1, 0]))]
    });
    let report = check(dir.path(), &options()).unwrap();
    let named = problems(&report);
    assert_eq!(named.len(), 3, "{named:?}");
    let expected = [
        "entity `stripe/subscription/sub_a`: the view differs from what the journal implies",
        "the dead letter 4.0: the view has it, the journal does not imply it",
        ": the view lacks it",
    ];
    for expected in expected {
        assert!(named.iter().any(|named| named.contains(expected)), "{expected}: {named:?}");
    }
    rebuild(dir.path(), &options()).unwrap();
    assert!(check(dir.path(), &options()).unwrap().is_sound());
}

#[tokio::test]
async fn an_event_that_is_decided_twice_is_told_and_the_view_is_not_built_from_it() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let first = Position { lsn: Lsn(1), item: 0 };
    let again = CommitRecord {
        entity: sub("sub_a"),
        version: 2,
        judged: vec![judged(first, Disposition::Done)],
        entries: [].into(),
        fetched: None,
        body: Vec::new().into(),
    };
    append(dir.path(), &Record::Commit(again));
    let named = problems(&check(dir.path(), &options()).unwrap());
    assert!(named.len() == 1 && named[0].contains("no event of") && named[0].contains("waits at 1.0"), "{named:?}");
    let refused = rebuild(dir.path(), &options());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_count_below_nothing_is_told() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let dead = Position { lsn: Lsn(3), item: 0 };
    for _ in 0..2 {
        let action = StoredAction::Discard { dead };
        append(dir.path(), &Record::Command(CommandRecord { by: "ops".into(), at: at(9), action }));
    }
    let report = check(dir.path(), &options()).unwrap();
    let named = problems(&report);
    assert!(named.len() == 1 && named[0].contains("-1 dead letters"), "{named:?}");
    assert_eq!(report.dead_letters, 0);
}

#[tokio::test]
async fn a_view_that_would_pass_over_an_undecided_event_is_told() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    for (scan_from, is_sound) in [(1, true), (4, true), (5, false), (6, false)] {
        let view = View::open_at(&dir.path().join("view"), 1 << 20, Meta::default()).unwrap();
        view.apply(&[], Meta { scan_from: Lsn(scan_from), ..view.meta() }).unwrap();
        view.close();
        let named = problems(&check(dir.path(), &options()).unwrap());
        assert_eq!(named.is_empty(), is_sound, "{scan_from}: {named:?}");
        assert!(is_sound || named[0].contains("event at record 4"), "{named:?}");
    }
}

#[tokio::test]
async fn a_damaged_journal_is_told_with_its_place() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let segment = fs::read_dir(dir.path().join("journal")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some_and(|ending| ending != "lock")).min().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(5).position(|window| window == b"evt_2").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let report = check(dir.path(), &options()).unwrap();
    let named = problems(&report);
    assert!(named.len() == 1 && named[0].contains(&*segment.file_name().unwrap().to_string_lossy()), "{named:?}");
}

#[tokio::test]
async fn a_view_that_cannot_be_used_is_told_and_rebuilt() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    fs::write(dir.path().join("view.damaged"), "a page could not be read").unwrap();
    let report = check(dir.path(), &options()).unwrap();
    let named = problems(&report);
    let expected = "a page could not be read; it is built anew when the store is opened";
    assert!(named.len() == 1 && named[0].contains(expected), "{named:?}");
    assert_eq!(report.entities, 1, "what the journal says is counted all the same");
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let progress = move |done, total| heard.lock().unwrap().push((done, total));
    let rebuilt = rebuild(dir.path(), &Options { progress: Some(Arc::new(progress)), ..options() }).unwrap();
    assert_eq!((rebuilt.last, rebuilt.entities, rebuilt.dead_letters), (Lsn(5), 1, 1));
    assert_eq!(told.lock().unwrap().last(), Some(&(5, 5)));
    let view = View::open_at(&dir.path().join("view"), 1 << 20, Meta::default()).unwrap();
    assert_eq!(view.meta().scan_from, Lsn(4), "a restart reads from the event that is pending, not from the beginning");
    view.close();
    assert_eq!(problems(&check(dir.path(), &options()).unwrap()), Vec::<String>::new());
}

#[tokio::test]
async fn a_damaged_end_of_the_journal_is_not_rebuilt_over_the_proof_that_it_was_whole() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let segment = fs::read_dir(dir.path().join("journal")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| path.extension().is_some()).max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let last = bytes.windows(4).rposition(|window| window == b"TGRP").unwrap();
    bytes[last..].fill(0);
    let before = bytes.windows(4).rposition(|window| window == b"TGRP").unwrap();
    bytes[before..].fill(0);
    fs::write(&segment, &bytes).unwrap();
    assert!(!check(dir.path(), &options()).unwrap().is_sound(), "a check finds it");
    let refused = rebuild(dir.path(), &options());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    let opened = EmbeddedStore::open(dir.path(), options()).map(|_| ());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "the view still proves it: {opened:?}");
}

#[tokio::test]
async fn a_store_that_is_open_or_absent_is_not_checked() {
    let dir = TempDir::new().unwrap();
    for answer in [check(dir.path(), &options()), rebuild(dir.path(), &options())] {
        assert!(answer.unwrap_err().to_string().contains("no store is there"));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was created");
    let _open = EmbeddedStore::open(dir.path(), options()).unwrap();
    for answer in [check(dir.path(), &options()), rebuild(dir.path(), &options())] {
        assert!(matches!(answer, Err(Error::Locked { .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn every_byte_of_the_seen_ids_is_checked() {
    let dir = TempDir::new().unwrap();
    let mut small = options();
    small.journal.segment_bytes = 4 << 10;
    let store = EmbeddedStore::open(dir.path(), small.clone()).unwrap();
    for n in 0..40 {
        store.append(queued(&format!("evt_{n}"), &sub("sub_a"), "active")).await.unwrap();
    }
    store.close().await.unwrap();
    // What was sealed last is in a file after the next opening.
    EmbeddedStore::open(dir.path(), small.clone()).unwrap().close().await.unwrap();
    assert_eq!(problems(&check(dir.path(), &small).unwrap()), Vec::<String>::new());
    let files = fs::read_dir(dir.path().join("seen")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "seen")).collect();
    assert!(!files.is_empty());
    for path in &files {
        let whole = fs::read(path).unwrap();
        // The header, the first id, the zeros behind the last, the checksum of the block, and the filter.
        for at in [30, 4096, 8000, 8191, whole.len() - 20] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
            let found = problems(&check(dir.path(), &small).unwrap());
            assert!(matches!(&found[..], [one] if one.contains(path.to_str().unwrap())), "byte {at}: {found:?}");
        }
        fs::remove_file(path).unwrap();
    }
    EmbeddedStore::open(dir.path(), small.clone()).unwrap().close().await.unwrap();
    assert_eq!(problems(&check(dir.path(), &small).unwrap()), Vec::<String>::new(), "they are made anew");
}

#[tokio::test]
async fn a_store_without_any_segment_is_told_and_neither_a_check_nor_a_rebuild_begins_one() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let journal = dir.path().join("journal");
    let segments = || {
        let names = fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|extension| extension == "segment")).collect::<Vec<_>>()
    };
    for path in segments() {
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir_all(dir.path().join("view")).unwrap();
    let report = check(dir.path(), &options()).unwrap();
    assert!(report.problems.iter().any(|problem| problem.detail.contains("no `.segment` file is there")), "{report:?}");
    let error = rebuild(dir.path(), &options()).unwrap_err();
    assert!(error.to_string().contains("no `.segment` file is there"), "{error}");
    assert!(segments().is_empty(), "a segment was begun");
}
