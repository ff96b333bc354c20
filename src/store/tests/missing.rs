//! Segments of the journal that somebody took away, and an older copy of it that somebody put in place on purpose.

use std::fs;
use std::path::Path;

use super::damage::{answers, furnished};
use crate::domain::Admission;
use crate::store::Error;
use crate::store::contract::facts::{queued, sub};
use crate::store::contract::{Bench, Rig, options};
use crate::store::disk::Disk as _;
use crate::store::disk::sim::SimDisk;

/// The segments in order, with what is in them.
fn segments(bench: &Bench) -> Vec<(String, Vec<u8>)> {
    let names = bench.journal.names().into_iter().filter(|name| name.starts_with('0'));
    names.map(|name| (name.clone(), bench.journal.content(&name))).collect()
}

fn put(disk: &SimDisk, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let _ = disk.remove(name);
        disk.put(name, bytes);
    }
}

/// Takes the newest segments away and meddles with what else is there.
async fn lose(rig: &mut Rig, count: usize, meddle: impl FnOnce(&Bench, &Path)) -> (Vec<(String, Vec<u8>)>, String) {
    let mut whole = Vec::new();
    let lost = rig
        .meddle(|bench, view| {
            whole = segments(bench);
            for (name, _) in whole.iter().rev().take(count) {
                bench.journal.remove(name).unwrap();
            }
            meddle(bench, view);
        })
        .await;
    let told = match lost {
        Ok(()) => "it opened".to_owned(),
        Err(Error::Corrupt { place, detail }) => format!("{place}: {detail}"),
        Err(error) => panic!("{error}"),
    };
    (whole, told)
}

fn assert_told(told: &str, what: &str) {
    for part in ["the journal ends here, at LSN ", " from a backup", "remove `view` and `seen`"] {
        assert!(told.contains(part), "{what}: {told}");
    }
}

#[tokio::test]
async fn newest_segments_that_are_gone_are_told_and_nothing_is_changed_until_they_are_back() {
    let mut rig = furnished(options()).await;
    let expected = answers(rig.store()).await;
    let count = segments(rig.bench()).len();
    assert!(count > 3, "{count} segments are too few");
    for lost in 1..count {
        let (whole, told) = lose(&mut rig, lost, |_, _| {}).await;
        assert_told(&told, &format!("{lost} of {count}"));
        let mut left = Vec::new();
        rig.meddle(|bench, _| {
            left = segments(bench);
            put(&bench.journal, &whole);
        })
        .await
        .unwrap();
        assert_eq!(left, whole[..count - lost], "what was left was changed");
        assert_eq!(answers(rig.store()).await, expected);
    }
}

#[tokio::test]
async fn seen_ids_know_that_segments_are_gone_when_there_is_no_view() {
    let mut rig = furnished(options()).await;
    // Closed and opened, so that the ids of all sealed segments are in files.
    rig.reopen().await;
    let (whole, told) = lose(&mut rig, 3, |bench, view| {
        assert!(bench.seen.names().iter().any(|name| name.starts_with('0')), "no ids are in files");
        fs::remove_dir_all(view).unwrap();
    })
    .await;
    assert_told(&told, "without a view");
    rig.meddle(|bench, _| put(&bench.journal, &whole)).await.unwrap();
}

#[tokio::test]
async fn a_backup_opens_in_an_empty_directory_and_in_the_old_one_once_view_and_seen_ids_are_removed() {
    let mut rig = furnished(options()).await;
    let before = answers(rig.store()).await;
    let mut backup = Vec::new();
    // What is copied of the open segment was cut somewhere: here it was not.
    rig.meddle(|bench, _| backup = segments(bench)).await.unwrap();
    for n in 100..130 {
        let entity = sub(&format!("sub_{}", n % 9));
        rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await;
        rig.decide(&entity).await;
    }
    let restore = |bench: &Bench| {
        for name in bench.journal.names() {
            bench.journal.remove(&name).unwrap();
        }
        put(&bench.journal, &backup);
    };
    let refused = rig.meddle(|bench, _| restore(bench)).await.unwrap_err();
    assert!(refused.to_string().contains("remove `view` and `seen`"), "{refused}");
    rig.meddle(|bench, view| {
        fs::remove_dir_all(view).unwrap();
        for name in bench.seen.names() {
            bench.seen.remove(&name).unwrap();
        }
    })
    .await
    .unwrap();
    assert_eq!(answers(rig.store()).await, before, "the older copy of the journal is what is true");
    // Its LSNs go on from there, and so they do in any other directory.
    rig.accept(queued("evt_100", &sub("sub_1"), "active")).await;
    rig.reopen().await;
}

#[tokio::test]
async fn a_view_and_seen_ids_of_another_copy_of_the_journal_are_made_anew() {
    let mut rig = furnished(options()).await;
    let mut copies = Vec::new();
    rig.meddle(|bench, _| copies.push(segments(bench))).await.unwrap();
    let go_on = async |rig: &mut Rig, from: u32, to: u32| {
        for n in from..to {
            let entity = sub(&format!("sub_{}", n % 9));
            rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await;
            rig.decide(&entity).await;
        }
        rig.turn().await;
    };
    go_on(&mut rig, 100, 130).await;
    let one_way = answers(rig.store()).await;
    rig.meddle(|bench, _| copies.push(segments(bench))).await.unwrap();
    let put_back = |bench: &Bench, copy: &[(String, Vec<u8>)]| {
        bench.journal.names().iter().for_each(|name| bench.journal.remove(name).unwrap());
        put(&bench.journal, copy);
    };
    rig.meddle(|bench, view| {
        put_back(bench, &copies[0]);
        fs::remove_dir_all(view).unwrap();
        bench.seen.names().iter().for_each(|name| bench.seen.remove(name).unwrap());
    })
    .await
    .unwrap();
    go_on(&mut rig, 200, 225).await;
    // The first way again, with what knows only the other.
    rig.meddle(|bench, _| put_back(bench, &copies[1])).await.unwrap();
    assert_eq!(answers(rig.store()).await, one_way);
    let again = rig.store().append(queued("evt_129", &sub("sub_3"), "active")).await.unwrap();
    assert!(matches!(again[..], [Admission::Duplicate(_)]), "{again:?}");
    let other = rig.store().append(queued("evt_203", &sub("sub_5"), "active")).await.unwrap();
    assert!(matches!(other[..], [Admission::Accepted(_)]), "it never came this way: {other:?}");
    rig.reopen().await;
}

#[tokio::test]
async fn a_journal_without_any_segment_is_refused_and_none_is_begun() {
    let mut rig = furnished(options()).await;
    let whole = {
        let mut whole = Vec::new();
        rig.meddle(|bench, _| whole = segments(bench)).await.unwrap();
        whole
    };
    let refused = rig
        .meddle(|bench, view| {
            bench.journal.names().iter().for_each(|name| bench.journal.remove(name).unwrap());
            bench.seen.names().iter().for_each(|name| bench.seen.remove(name).unwrap());
            fs::remove_dir_all(view).unwrap();
        })
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("put the files back from a backup"), "{refused}");
    rig.meddle(|bench, _| {
        assert!(segments(bench).is_empty(), "a segment was begun");
        put(&bench.journal, &whole);
    })
    .await
    .unwrap();
}
