//! Files that are cut, garbled or gone.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::query::EntityFilter;
use crate::domain::{EntityKey, Lsn, Position};
use crate::store::change;
use crate::store::contract::facts::{at, check_entry, dead, entry, field_entry, queued, retry, sub};
use crate::store::contract::{Rig, copy, options};
use crate::store::keys::{self, Table};
use crate::store::view::{Meta, View};
use crate::store::{Error, Options, Scope, Store};

/// A store with a bit of everything.
pub(super) async fn furnished(options: Options) -> Rig {
    let rig = Rig::embedded_with(options);
    for n in 0..30 {
        let entity = sub(&format!("sub_{}", n % 9));
        let position = rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await[0];
        match n % 5 {
            0 => rig.judge(&entity, position, dead()).await,
            1 => rig.judge(&entity, position, retry(at(10))).await,
            2 => drop(rig.commit(&entity, vec![check_entry(Some(at(20)))], vec![]).await.unwrap()),
            3 => drop(rig.commit(&entity, vec![field_entry("notes", &"x".repeat(6000))], vec![]).await.unwrap()),
            _ => drop(rig.decide(&entity).await),
        }
    }
    rig
}

/// What the view answers, as text.
pub(super) async fn answers(store: &dyn Store) -> String {
    let entities = store.entities(&EntityFilter::default(), None, 100).await.unwrap().items;
    let mut out = format!("{entities:?}\n");
    for entity in &entities {
        writeln!(out, "{:?}", store.entries(Some(&entity.key), None, 100).await.unwrap().items).unwrap();
        writeln!(out, "{:?}", store.pending(Scope::Entity(&entity.key), at(30), 100).await.unwrap()).unwrap();
    }
    writeln!(out, "{:?}", store.dead_letters(None, 100).await.unwrap().items).unwrap();
    writeln!(out, "{:?}", store.due(at(15), 100).await.unwrap()).unwrap();
    let status = store.status();
    out + &format!("{:?}", (status.pending, status.retries, status.checks, status.dead_letters, status.entities))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// Damages the view, opens the store, and expects the same answers.
async fn check(rig: &mut Rig, expected: &str, what: &str, damage: impl FnOnce(&Path)) {
    rig.meddle(|_, view| damage(view)).await.unwrap();
    assert_eq!(answers(rig.store()).await, expected, "{what}");
}

#[tokio::test]
async fn a_view_that_is_gone_or_garbled_is_built_anew_with_the_same_answers() {
    let mut rig = furnished(options()).await;
    let expected = answers(rig.store()).await;
    check(&mut rig, &expected, "nothing happened", |_| {}).await;
    check(&mut rig, &expected, "the folder is gone", |view| fs::remove_dir_all(view).unwrap()).await;
    check(&mut rig, &expected, "the folder is empty", |view| {
        fs::remove_dir_all(view).unwrap();
        fs::create_dir(view).unwrap();
    })
    .await;
    check(&mut rig, &expected, "the folder is a file", |view| {
        fs::remove_dir_all(view).unwrap();
        fs::write(view, "not a folder").unwrap();
    })
    .await;
    let names = ["conf", "db"];
    for name in names {
        for part in [0, 1, 3] {
            check(&mut rig, &expected, &format!("{name} is cut to {part} quarters"), |view| {
                let bytes = fs::read(view.join(name)).unwrap();
                fs::write(view.join(name), &bytes[..bytes.len() * part / 4]).unwrap();
            })
            .await;
            check(&mut rig, &expected, &format!("{name} is noise from {part} quarters on"), |view| {
                let mut bytes = fs::read(view.join(name)).unwrap();
                let from = bytes.len() * part / 4;
                let noise = (0_u64..).map(|n| u8::try_from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).unwrap());
                bytes[from..].iter_mut().zip(noise).for_each(|(byte, noise)| *byte = noise);
                fs::write(view.join(name), &bytes).unwrap();
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_view_with_one_flipped_byte_is_built_anew_with_the_same_answers() {
    let mut rig = furnished(options()).await;
    let expected = answers(rig.store()).await;
    for round in 0..60_usize {
        check(&mut rig, &expected, &format!("round {round}"), |view| {
            let files = files(view);
            let path = &files[round % files.len()];
            let mut bytes = fs::read(path).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            bytes[(round * 7919) % used] ^= 1 << (round % 8);
            fs::write(path, bytes).unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn a_view_that_was_not_built_to_the_end_is_built_anew() {
    let mut rig = furnished(options()).await;
    let expected = answers(rig.store()).await;
    check(&mut rig, &expected, "the power went while it was built", |path| {
        let view = View::open_at(path, 1 << 20, Meta::default()).unwrap();
        let gone: Vec<_> =
            view.range(&Table::Entity.all(), 100).unwrap().into_iter().map(|(key, _)| (key, None)).collect();
        view.apply(&gone, Meta { complete: false, ..view.meta() }).unwrap();
        view.close();
    })
    .await;
}

#[tokio::test]
async fn a_view_of_an_older_form_is_built_anew() {
    let mut rig = furnished(options()).await;
    let expected = answers(rig.store()).await;
    let mut kept = true;
    check(&mut rig, &expected, "its values are of form 1", |path| {
        let view = View::open_at(path, 1 << 20, Meta::default()).unwrap();
        let mut head = change::encode(&view.meta()).unwrap().to_vec();
        head[0] = 1;
        head.extend_from_slice(&crc32fast::hash(&head).to_be_bytes());
        view.tamper(&keys::meta(), Some(&head));
        view.tamper(b"z a mark", Some(&[0]));
        view.close();
    })
    .await;
    rig.meddle(|_, path| {
        let view = View::open_at(path, 1 << 20, Meta::default()).unwrap();
        kept = view.get(b"z a mark").unwrap().is_some();
        view.close();
    })
    .await
    .unwrap();
    assert!(!kept, "the older one is still there");
}

#[tokio::test]
async fn a_view_of_another_store_is_set_aside() {
    let mut rig = furnished(options()).await;
    let mut other = Rig::embedded();
    other.accept(queued("evt_1", &sub("sub_z"), "active")).await;
    let mut taken = PathBuf::new();
    other.meddle(|_, view| taken = view.to_owned()).await.unwrap();
    let expected = answers(rig.store()).await;
    // The other store is open and writes; what is copied is whatever stands there.
    check(&mut rig, &expected, "another store's view", |view| {
        fs::remove_dir_all(view).unwrap();
        copy(&taken, view);
    })
    .await;
}

#[tokio::test]
async fn an_older_copy_of_the_journal_is_refused_until_the_view_that_knows_more_is_removed() {
    let mut rig = Rig::embedded();
    let entity = sub("sub_a");
    rig.commit(&entity, vec![entry(None, "active", vec![])], vec![]).await.unwrap();
    rig.accept(queued("evt_1", &entity, "active")).await;
    let before = answers(rig.store()).await;
    let mut backup = Vec::new();
    rig.meddle(|bench, _| {
        backup = bench.journal.names().into_iter().map(|name| (bench.journal.content(&name), name)).collect();
    })
    .await
    .unwrap();
    rig.commit(&entity, vec![entry(Some("active"), "canceled", vec![])], vec![]).await.unwrap();
    let restored = rig
        .meddle(|bench, _| {
            for (bytes, name) in backup {
                crate::store::disk::Disk::remove(&bench.journal, &name).unwrap();
                bench.journal.put(&name, &bytes);
            }
        })
        .await;
    let refused = restored.unwrap_err().to_string();
    assert!(refused.contains("remove `view` and `seen`"), "{refused}");
    rig.meddle(|_, view| std::fs::remove_dir_all(view).unwrap()).await.unwrap();
    assert_eq!(answers(rig.store()).await, before, "the older copy of the journal is what is true");
}

#[tokio::test]
async fn a_journal_cut_at_any_byte_of_its_last_three_records_opens_with_all_that_was_before_if_no_view_has_more() {
    for keep_view in [true, false] {
        let mut rig = Rig::embedded();
        let entity = sub("sub_a");
        let mut ends = Vec::new();
        for n in 0..6 {
            if n > 0 {
                ends.push(rig.store().status().journal_bytes);
            }
            if n % 2 == 0 {
                rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await;
            } else {
                rig.decide(&entity).await;
            }
        }
        ends.push(rig.store().status().journal_bytes);
        rig.reopen().await;
        let (mut name, mut whole) = (String::new(), Vec::new());
        rig.meddle(|bench, _| {
            name = bench.journal.names().pop().unwrap();
            whole = bench.journal.content(&name);
        })
        .await
        .unwrap();
        let from = usize::try_from(ends[2]).unwrap();
        let to = usize::try_from(ends[5]).unwrap();
        for cut in from..=to {
            let opened = rig
                .meddle(|bench, view| {
                    crate::store::disk::Disk::remove(&bench.journal, &name).unwrap();
                    bench.journal.put(&name, &whole[..cut]);
                    if !keep_view {
                        fs::remove_dir_all(view).unwrap();
                    }
                })
                .await;
            if keep_view && cut < to {
                assert!(matches!(opened, Err(Error::Corrupt { .. })), "cut at {cut}: the view has more");
                continue;
            }
            opened.unwrap();
            let there = u64::try_from(ends.iter().filter(|end| **end <= u64::try_from(cut).unwrap()).count()).unwrap();
            assert_eq!(rig.store().status().synced, Lsn(there), "cut at {cut}, records end at {ends:?}");
            let decided = there / 2;
            assert_eq!(rig.load(&entity).await.map_or(0, |entity| entity.version), decided);
            assert_eq!(rig.pending(&entity, at(0)).await.len(), usize::from(there % 2 == 1));
            let entries = rig.store().entries(Some(&entity), None, 10).await.unwrap().items;
            assert_eq!(u64::try_from(entries.len()).unwrap(), decided);
        }
    }
}

#[tokio::test]
async fn damage_in_the_middle_of_the_journal_is_told_and_never_cut_away() {
    let mut rig = furnished(options()).await;
    let answer = rig
        .meddle(|bench, _| {
            let name = bench.journal.names()[0].clone();
            let mut bytes = bench.journal.content(&name);
            let middle = bytes.len() / 3;
            bytes[middle] ^= 1;
            bench.journal.put(&name, &bytes);
        })
        .await;
    // A sealed segment is checked when it is read.
    let read = match answer {
        Ok(()) => rig.store().entries(None, None, 1000).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
}

#[tokio::test]
async fn lost_seen_ids_are_read_from_the_journal_again() {
    let mut rig = furnished(options()).await;
    rig.meddle(|bench, _| {
        for name in bench.seen.names() {
            crate::store::disk::Disk::remove(&bench.seen, &name).unwrap();
        }
    })
    .await
    .unwrap();
    for n in 0..30 {
        let entity: EntityKey = sub(&format!("sub_{}", n % 9));
        let again = rig.store().append(queued(&format!("evt_{n}"), &entity, "active")).await.unwrap();
        assert!(matches!(again[..], [crate::domain::Admission::Duplicate(Position { .. })]), "evt_{n}: {again:?}");
    }
}
