//! What is decided: commits, and when they are refused.

use super::facts::{self, at, dead, entry, fetched, field_entry, judged, queued, retry, sub};
use super::rig::SHARDS;
use super::{Rig, contract};
use crate::domain::{Disposition, Entity, Lsn, Position};
use crate::store::{Commit, Epoch, Error};

contract!(
    an_entity_is_the_fold_of_its_entries,
    a_commit_is_refused_when_the_shard_was_taken_over,
    a_commit_is_refused_when_the_entity_moved_on,
    a_commit_is_refused_when_an_event_is_not_pending,
    the_first_reason_to_refuse_is_told,
    a_commit_without_entries_judges_events_and_leaves_the_entity,
    commits_of_one_entity_that_race_are_decided_one_by_one,
    a_commit_says_whether_more_of_its_entity_is_pending,
);

/// Expects a refusal that wrote nothing.
async fn refused(rig: &Rig, commit: Commit) -> Error {
    let (status, entity) = (rig.store().status(), rig.load(&commit.entity).await);
    let key = commit.entity.clone();
    let error = rig.store().commit(commit).await.unwrap_err();
    assert_eq!(rig.store().status().synced, status.synced, "nothing was written");
    assert_eq!(rig.load(&key).await, entity);
    error
}

async fn an_entity_is_the_fold_of_its_entries(rig: &mut Rig) {
    let key = sub("sub_a");
    assert_eq!(rig.load(&key).await, None);
    let mut expected = Entity::unknown(key.clone());
    let commits = [
        vec![entry(None, "trialing", vec![]), field_entry("plan", "basic")],
        vec![entry(Some("trialing"), "active", vec![])],
        vec![field_entry("plan", "pro"), field_entry("seats", "3"), entry(Some("active"), "active", vec![])],
    ];
    for entries in commits {
        for entry in &entries {
            entry.apply(&mut expected);
        }
        let before = rig.load(&key).await;
        let mut commit = facts::commit(&key, before.as_ref(), rig.adopt(&key).await);
        (commit.entries, commit.fetched) = (entries.into(), Some(fetched()));
        let lsn = rig.store().commit(commit).await.unwrap();
        assert_eq!(rig.load(&key).await.as_ref(), Some(&expected));
        rig.turn().await;
        assert_eq!(rig.load(&key).await.as_ref(), Some(&expected), "after the turn, at {lsn:?}");
    }
    assert_eq!(expected.version, 6);
    assert_eq!(rig.store().status().entities, 1);
}

async fn a_commit_is_refused_when_the_shard_was_taken_over(rig: &mut Rig) {
    let key = sub("sub_a");
    let old = rig.adopt(&key).await;
    let new = rig.adopt(&key).await;
    for epoch in [old, Epoch(new.0 + 1), Epoch(0)] {
        let commit = Commit { entries: [entry(None, "active", vec![])].into(), ..facts::commit(&key, None, epoch) };
        let error = refused(rig, commit).await;
        assert!(matches!(error, Error::Fenced { shard } if shard == key.shard(SHARDS)), "{error}");
    }
    let other = rig.store().adopt(crate::domain::Shard((key.shard(SHARDS).0 + 1) % SHARDS)).await.unwrap();
    assert!(other <= new, "each shard counts for itself");
    let commit = Commit { entries: [entry(None, "active", vec![])].into(), ..facts::commit(&key, None, new) };
    rig.store().commit(commit).await.unwrap();
}

async fn a_commit_is_refused_when_the_entity_moved_on(rig: &mut Rig) {
    let key = sub("sub_a");
    rig.commit(&key, vec![entry(None, "trialing", vec![])], vec![]).await.unwrap();
    rig.turn().await;
    let epoch = rig.adopt(&key).await;
    for version in [0, 2] {
        let commit =
            Commit { version, entries: [entry(None, "active", vec![])].into(), ..facts::commit(&key, None, epoch) };
        let error = refused(rig, commit).await;
        let told = matches!(error, Error::Moved { expected, actual: 1, .. } if expected == version);
        assert!(told, "{error}");
    }
}

async fn a_commit_is_refused_when_an_event_is_not_pending(rig: &mut Rig) {
    let (key, other) = (sub("sub_a"), sub("sub_b"));
    let done = rig.accept(queued("evt_1", &key, "active")).await[0];
    let given_up = rig.accept(queued("evt_2", &key, "active")).await[0];
    let of_other = rig.accept(queued("evt_3", &other, "active")).await[0];
    let put_off_of_other = rig.accept(queued("evt_4", &other, "active")).await[0];
    let open = rig.accept(queued("evt_5", &key, "active")).await[0];
    rig.judge(&key, done, Disposition::Done).await;
    rig.judge(&key, given_up, dead()).await;
    rig.judge(&other, put_off_of_other, retry(at(10))).await;
    rig.turn().await;
    let nowhere = Position { lsn: Lsn(999), item: 0 };
    let no_item = Position { item: 1, ..open };
    let epoch = rig.adopt(&key).await;
    for position in [done, given_up, of_other, put_off_of_other, nowhere, no_item] {
        let mut commit = facts::commit(&key, None, epoch);
        commit.judged = vec![judged(open, Disposition::Done), judged(position, Disposition::Done)];
        let error = refused(rig, commit).await;
        assert!(matches!(error, Error::NotPending { position: told } if told == position), "{error}");
    }
    let mut commit = facts::commit(&key, None, epoch);
    commit.judged = vec![judged(open, Disposition::Done), judged(open, dead())];
    let error = refused(rig, commit).await;
    assert!(matches!(error, Error::NotPending { position } if position == open), "twice in one commit: {error}");
    rig.judge(&key, open, Disposition::Done).await;
}

async fn the_first_reason_to_refuse_is_told(rig: &mut Rig) {
    let key = sub("sub_a");
    let epoch = rig.adopt(&key).await;
    let nothing = judged(Position { lsn: Lsn(999), item: 0 }, Disposition::Done);
    let wrong = Commit { version: 7, judged: vec![nothing], ..facts::commit(&key, None, epoch) };
    assert!(matches!(refused(rig, Commit { epoch: Epoch(0), ..wrong.clone() }).await, Error::Fenced { .. }));
    assert!(matches!(refused(rig, wrong.clone()).await, Error::Moved { .. }));
    assert!(matches!(refused(rig, Commit { version: 0, ..wrong }).await, Error::NotPending { .. }));
}

async fn a_commit_without_entries_judges_events_and_leaves_the_entity(rig: &mut Rig) {
    let key = sub("sub_a");
    let first = rig.accept(queued("evt_1", &key, "active")).await[0];
    rig.judge(&key, first, dead()).await;
    rig.turn().await;
    assert_eq!(rig.load(&key).await, None, "an entity is known by its entries");
    assert_eq!(rig.store().status().entities, 0);
    assert_eq!(rig.store().entries(Some(&key), None, 10).await.unwrap().items, []);
}

async fn commits_of_one_entity_that_race_are_decided_one_by_one(rig: &mut Rig) {
    let key = sub("sub_a");
    let epoch = rig.adopt(&key).await;
    let commit = Commit { entries: [entry(None, "active", vec![])].into(), ..facts::commit(&key, None, epoch) };
    let racers: Vec<_> = (0..8).map(|_| (rig.shared(), commit.clone())).collect();
    let racers: Vec<_> =
        racers.into_iter().map(|(store, c)| tokio::spawn(async move { store.commit(c).await })).collect();
    let (mut won, mut moved) = (0, 0);
    for racer in racers {
        match racer.await.unwrap() {
            Ok(_) => won += 1,
            Err(Error::Moved { actual: 1, .. }) => moved += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((won, moved), (1, 7));
    rig.turn().await;
    assert_eq!(rig.load(&key).await.unwrap().version, 1);
}

async fn a_commit_says_whether_more_of_its_entity_is_pending(rig: &mut Rig) {
    let (key, other) = (sub("sub_a"), sub("sub_b"));
    let first = rig.accept(queued("evt_1", &key, "active")).await[0];
    let second = rig.accept(queued("evt_2", &key, "past_due")).await[0];
    rig.accept(queued("evt_3", &other, "active")).await;
    let (epoch, shards) = (rig.adopt(&key).await, [key.shard(SHARDS)]);
    assert!(rig.store().arrivals(&shards).await.unwrap().contains(&key));
    let done =
        |position| Commit { judged: vec![judged(position, Disposition::Done)], ..facts::commit(&key, None, epoch) };
    assert!(rig.store().commit(done(first)).await.unwrap().more);
    assert!(!rig.store().commit(done(second)).await.unwrap().more, "what waits is of another entity");
    let third = rig.accept(queued("evt_4", &key, "active")).await[0];
    assert_eq!(
        rig.store().arrivals(&shards).await.unwrap(),
        std::slice::from_ref(&key),
        "so the next one is announced"
    );
    let put_off = Commit { judged: vec![judged(third, retry(at(10)))], ..facts::commit(&key, None, epoch) };
    assert!(!rig.store().commit(put_off).await.unwrap().more, "what waits for a retry is not pending");
}
