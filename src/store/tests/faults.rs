//! A disk that is slow, full or broken.

use tokio::task::{JoinHandle, yield_now};

use crate::domain::{Admission, Admit, Disposition, Lsn};
use crate::store::contract::facts::{at, dead, delivery, entry, event, field_entry, item, judged, queued, sub};
use crate::store::contract::{Rig, options};
use crate::store::disk::Space;
use crate::store::{Action, Command, Error, Options, Scope, Status};

#[tokio::test]
async fn a_duplicate_is_answered_only_once_its_first_is_durable() {
    let rig = Rig::embedded();
    let entity = sub("sub_a");
    rig.accept(queued("evt_0", &entity, "active")).await;
    rig.bench().gate.shut();
    let (one, two) = (rig.shared(), rig.shared());
    let (sent, again) = (queued("evt_1", &entity, "active"), queued("evt_1", &entity, "active"));
    let first = tokio::spawn(async move { one.append(sent).await });
    // The first is written, and its sync waits.
    yield_now().await;
    rig.bench().gate.wait_for_sync().await;
    let duplicate = tokio::spawn(async move { two.append(again).await });
    for _ in 0..100 {
        yield_now().await;
    }
    assert!(!first.is_finished() && !duplicate.is_finished(), "neither is durable");
    assert_eq!(rig.store().status().synced, Lsn(1));
    assert_eq!(rig.pending(&entity, at(0)).await.len(), 1, "and nobody sees it");
    assert_eq!(rig.store().entries(None, None, 10).await.unwrap().items, []);
    rig.bench().gate.open();
    let Admission::Accepted(position) = first.await.unwrap().unwrap()[0] else { panic!("not accepted") };
    assert_eq!(duplicate.await.unwrap().unwrap(), [Admission::Duplicate(position)]);
}

#[tokio::test]
async fn duplicates_within_one_group_are_answered_with_it_and_fail_with_it() {
    let rig = Rig::embedded();
    let entity = sub("sub_a");
    rig.bench().gate.shut();
    let head = rig.shared();
    let sent = queued("evt_0", &entity, "active");
    let blocker = tokio::spawn(async move { head.append(sent).await });
    yield_now().await;
    rig.bench().gate.wait_for_sync().await;
    // These wait together and become one group.
    let racers: Vec<_> = (0..5).map(|_| (rig.shared(), queued("evt_1", &entity, "active"))).collect();
    let racers: Vec<_> = racers.into_iter().map(|(s, d)| tokio::spawn(async move { s.append(d).await })).collect();
    for _ in 0..20 {
        yield_now().await;
    }
    rig.bench().journal.fail_sync_after(Some(1));
    rig.bench().gate.open();
    blocker.await.unwrap().unwrap();
    for racer in racers {
        let answer = racer.await.unwrap();
        assert!(matches!(answer, Err(Error::Stopped { .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn a_full_disk_keeps_nothing_and_the_store_goes_on_when_there_is_space() {
    let mut rig = Rig::embedded();
    let entity = sub("sub_a");
    let letter = rig.accept(queued("evt_dead", &entity, "active")).await[0];
    rig.judge(&entity, letter, dead()).await;
    rig.bench().journal.limit_space(Some(0));
    let mut sent = 0;
    let error = loop {
        match rig.store().append(queued(&format!("evt_{sent}"), &entity, "active")).await {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full), "{error}");
    let (status, epoch) = (rig.store().status(), rig.adopt(&entity).await);
    let mut commit = crate::store::contract::facts::commit(&entity, None, epoch);
    commit.entries = [entry(None, "active", vec![])].into();
    assert!(matches!(rig.store().commit(commit.clone()).await, Err(Error::Full)));
    let discard = Command { by: "ops".into(), at: at(9), action: Action::Discard { dead: letter } };
    assert!(matches!(rig.store().command(discard.clone()).await, Err(Error::Full)));
    assert_eq!(rig.store().append(queued("evt_0", &entity, "active")).await.unwrap().len(), 1, "duplicates are known");
    let shown = |status| Status { applied: Lsn(0), ..status };
    let kept = (shown(rig.store().status()), rig.load(&entity).await);
    assert_eq!(kept, (shown(status), None), "nothing was kept");
    rig.bench().journal.limit_space(None);
    let id = format!("evt_{sent}");
    let accepted = rig.store().append(queued(&id, &entity, "active")).await.unwrap();
    assert!(matches!(accepted[..], [Admission::Accepted(_)]), "its id is unseen: {accepted:?}");
    rig.store().commit(commit).await.unwrap();
    rig.store().command(discard).await.unwrap();
    rig.crash();
    assert_eq!(rig.pending(&entity, at(0)).await.len(), sent + 1);
    assert_eq!(rig.load(&entity).await.unwrap().version, 1);
}

#[tokio::test]
async fn a_disk_that_is_nearly_full_is_full_for_the_journal_so_that_the_view_has_room() {
    let rig = Rig::embedded();
    let entity = sub("sub_a");
    let said = |free| Some(Space { free, total: 1 << 30 });
    rig.bench().journal.say_space(said((64 << 20) - 1));
    let refused = rig.store().append(queued("evt_1", &entity, "active")).await;
    assert!(matches!(refused, Err(Error::Full)), "{refused:?}");
    rig.bench().journal.say_space(said(64 << 20));
    let accepted = rig.store().append(queued("evt_1", &entity, "active")).await.unwrap();
    assert!(matches!(accepted[..], [Admission::Accepted(_)]), "its id is unseen: {accepted:?}");
}

#[tokio::test]
async fn a_failed_sync_stops_the_store_for_everything_after_it() {
    let mut rig = Rig::embedded();
    let entity = sub("sub_a");
    let kept = rig.accept(queued("evt_1", &entity, "active")).await[0];
    let store = rig.shared();
    let waiting = tokio::spawn(async move { store.synced_beyond(Lsn(1)).await });
    yield_now().await;
    rig.bench().journal.fail_sync_after(Some(0));
    let store = rig.store();
    let failed = store.append(queued("evt_2", &entity, "active")).await;
    assert!(matches!(failed, Err(Error::Stopped { .. })), "{failed:?}");
    assert!(matches!(waiting.await.unwrap(), Err(Error::Stopped { .. })));
    assert!(matches!(store.append(queued("evt_3", &entity, "active")).await, Err(Error::Stopped { .. })));
    assert!(matches!(store.load(&entity).await, Err(Error::Stopped { .. })));
    assert!(matches!(store.pending(Scope::Entity(&entity), at(0), 1).await, Err(Error::Stopped { .. })));
    assert!(matches!(store.close().await, Err(Error::Stopped { .. })));
    rig.crash();
    let answer = rig.store().append(queued("evt_2", &entity, "active")).await.unwrap()[0];
    let pending = rig.pending(&entity, at(0)).await;
    assert_eq!((pending.len(), pending[0].position), (2, kept), "{answer:?}: there once, whether it was kept or not");
}

#[tokio::test]
async fn a_record_over_the_bound_is_refused_and_leaves_its_ids_unseen() {
    let mut rig = Rig::embedded();
    let entity = sub("sub_a");
    let mut large = queued("evt_1", &entity, "active");
    large.body = vec![b'x'; 70_000].into();
    let error = rig.store().append(large).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { bytes, limit: 65_536 } if bytes > 70_000), "{error}");
    let many = (0..3000).map(|n| item(event(&format!("evt_{n}"), &entity, "active"), Admit::Queue));
    assert!(matches!(rig.store().append(delivery(many.collect())).await, Err(Error::TooLarge { .. })));
    let entries = vec![field_entry("notes", &"x".repeat(70_000))];
    assert!(matches!(rig.commit(&entity, entries, vec![]).await, Err(Error::TooLarge { .. })));
    for n in 0..3 {
        rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await;
    }
    rig.reopen().await;
    assert_eq!(rig.pending(&entity, at(0)).await.len(), 3);
}

/// Sends so many events at once, to a disk whose syncs wait: the first is being written, the others wait behind it.
async fn crowd(rig: &Rig, events: usize) -> Vec<JoinHandle<Result<Vec<Admission>, Error>>> {
    rig.bench().gate.shut();
    let mut sent = Vec::new();
    for n in 0..events {
        let (store, event) = (rig.shared(), queued(&format!("evt_{n}"), &sub("sub_a"), "active"));
        sent.push(tokio::spawn(async move { store.append(event).await }));
        yield_now().await;
        if n == 0 {
            rig.bench().gate.wait_for_sync().await;
        }
    }
    sent
}

#[tokio::test]
async fn more_than_may_wait_is_busy_and_nothing_of_it_is_kept() {
    let rig = Rig::embedded_with(Options { waiting: 2, ..options() });
    let entity = sub("sub_a");
    let racers = crowd(&rig, 8).await;
    for _ in 0..20 {
        yield_now().await;
    }
    rig.bench().gate.open();
    let mut busy = 0;
    for (n, racer) in racers.into_iter().enumerate() {
        match racer.await.unwrap() {
            Ok(_) => {}
            Err(Error::Busy) => {
                busy += 1;
                rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(busy, 5, "one is being written, two wait");
    assert_eq!(rig.pending(&entity, at(0)).await.len(), 8);
}

#[tokio::test]
async fn a_command_waits_for_its_place_where_a_delivery_is_sent_away() {
    let rig = Rig::embedded_with(Options { waiting: 1, ..options() });
    let sent = crowd(&rig, 2).await;
    let (store, other) = (rig.shared(), rig.shared());
    let action = Action::MachineChanged { machine: "m".into(), version: 1, sha256: [7; 32] };
    let command = Command { by: "ops".into(), at: at(1), action };
    let commanding = tokio::spawn(async move { store.command(command).await });
    for _ in 0..20 {
        yield_now().await;
    }
    assert!(!commanding.is_finished(), "one is being written, one waits");
    assert!(matches!(other.append(queued("evt_2", &sub("sub_a"), "active")).await, Err(Error::Busy)));
    rig.bench().gate.open();
    commanding.await.unwrap().unwrap();
    for sent in sent {
        sent.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_commit_in_flight_is_shown_to_nobody() {
    let rig = Rig::embedded();
    let entity = sub("sub_a");
    let position = rig.accept(queued("evt_1", &entity, "active")).await[0];
    let mut commit = crate::store::contract::facts::commit(&entity, None, rig.adopt(&entity).await);
    commit.entries = [entry(None, "active", vec![position])].into();
    commit.judged = vec![judged(position, Disposition::Done)];
    rig.bench().gate.shut();
    let store = rig.shared();
    let committing = tokio::spawn(async move { store.commit(commit).await });
    yield_now().await;
    rig.bench().gate.wait_for_sync().await;
    assert_eq!(rig.load(&entity).await, None);
    assert_eq!(rig.pending(&entity, at(0)).await.len(), 1);
    assert_eq!(rig.store().entries(Some(&entity), None, 10).await.unwrap().items, []);
    assert_eq!(rig.store().feed(None, 10).await.unwrap().items, []);
    rig.bench().gate.open();
    let committed = committing.await.unwrap().unwrap();
    assert_eq!(rig.store().feed(None, 10).await.unwrap().items[0].position.lsn, committed.lsn);
    assert_eq!(rig.load(&entity).await.unwrap().version, 1);
}
