//! A view that is too large to be proved whole before the store opens, and is damaged without a word.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use tempfile::TempDir;

use crate::domain::{Entity, Lsn, Shard, Timestamp};
use crate::store::change::{Held, encode};
use crate::store::contract::facts::{commit, entry, field_entry, queued, sub};
use crate::store::contract::{Rig, copy, options};
use crate::store::view::{Meta, View};
use crate::store::{Action, Command, Error, Options, keys};

fn unproved() -> Options {
    Options { prove_at_once_pairs: 0, ..options() }
}

fn damage(view: &Path, damage: impl FnOnce(&View)) {
    let view = View::open_at(view, 1 << 20, Meta::default()).unwrap();
    damage(&view);
    view.close();
}

/// What stands under an entity's key if the entity is this, and its last commit that.
fn raw(entity: Entity, last: u64) -> Vec<u8> {
    let value = encode(&Held { entity, recent: vec![Lsn(last)] }).unwrap();
    [&[0][..], &value].concat()
}

/// So many entities that the walk over all takes longer than a commit.
async fn crowd(rig: &Rig) {
    let mut epochs = Vec::new();
    for shard in 0..rig.store().shards() {
        epochs.push(rig.store().adopt(Shard(shard)).await.unwrap());
    }
    for chunk in 0..30 {
        join_all((0..100).map(|n| {
            let other = sub(&format!("sub_{chunk}_{n}"));
            let mut change = commit(&other, None, epochs[usize::from(other.shard(rig.store().shards()).0)]);
            change.entries = [field_entry("notes", "x")].into();
            async { rig.store().commit(change).await.unwrap() }
        }))
        .await;
    }
}

#[tokio::test]
async fn nothing_is_decided_on_it_and_it_is_built_anew_when_the_damage_is_found() {
    let mut rig = Rig::embedded_with(unproved());
    let entity = sub("sub_x");
    let first = rig.commit(&entity, vec![entry(None, "trialing", vec![])], vec![]).await.unwrap();
    let old = rig.load(&entity).await.unwrap();
    rig.commit(&entity, vec![entry(Some("trialing"), "active", vec![])], vec![]).await.unwrap();
    crowd(&rig).await;
    let older = raw(old.clone(), first);
    rig.meddle(|_, view| damage(view, |view| view.tamper(&keys::entity(&entity), Some(&older)))).await.unwrap();
    let mut change = commit(&entity, Some(&old), rig.adopt(&entity).await);
    change.entries = [entry(Some("trialing"), "canceled", vec![])].into();
    let refused = rig.store().commit(change).await;
    assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
    rig.meddle(|_, _| {}).await.unwrap();
    assert_eq!(rig.load(&entity).await.unwrap().version, 2);
    rig.commit(&entity, vec![entry(Some("active"), "canceled", vec![])], vec![]).await.unwrap();
    assert_eq!(rig.load(&entity).await.unwrap().version, 3);
}

#[tokio::test]
async fn a_journal_that_seems_to_contradict_itself_on_it_is_read_into_a_new_one() {
    let mut rig = Rig::embedded_with(unproved());
    let entity = sub("sub_x");
    rig.commit(&entity, vec![entry(None, "trialing", vec![])], vec![]).await.unwrap();
    let aside = TempDir::new().unwrap();
    rig.meddle(|_, view| copy(view, &aside.path().join("view"))).await.unwrap();
    rig.commit(&entity, vec![entry(Some("trialing"), "active", vec![])], vec![]).await.unwrap();
    rig.accept(queued("evt_1", &entity, "active")).await;
    rig.meddle(|_, view| {
        fs::remove_dir_all(view).unwrap();
        copy(&aside.path().join("view"), view);
        damage(view, |view| view.tamper(&keys::entity(&entity), None));
    })
    .await
    .unwrap();
    assert_eq!(rig.load(&entity).await.unwrap().version, 2);
    assert_eq!(rig.store().status().pending, 1);
}

/// Found by the simulation: a value that is read at the opening itself, where no walk has been yet.
#[tokio::test]
async fn a_damaged_value_that_opening_reads_does_not_keep_the_store_shut() {
    let mut rig = Rig::embedded_with(unproved());
    let action = Action::MachineChanged { machine: "m".into(), version: 3, sha256: [7; 32] };
    rig.store().command(Command { by: Arc::from("test"), at: Timestamp::EPOCH, action }).await.unwrap();
    let garbled = [0, 129, 3];
    rig.meddle(|_, view| damage(view, |view| view.tamper(&keys::machine(&"m".into()), Some(&garbled)))).await.unwrap();
    assert_eq!(rig.store().machines().await.unwrap().get("m"), Some(&(3, [7; 32])));
}
