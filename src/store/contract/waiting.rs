//! What waits: pending events, arrivals, retries and checks.

use std::collections::BTreeSet;

use tokio::task::yield_now;

use super::facts::{at, check_entry, dead, entry, judged, queued, retry, sub, unavailable};
use super::rig::SHARDS;
use super::{Rig, contract};
use crate::domain::{Disposition, EntityKey, Lsn, Position, Shard};
use crate::store::{Due, Error, Scope};

contract!(
    pending_events_of_a_shard_come_by_position_and_no_more_than_asked_for,
    an_entity_is_announced_once_until_its_events_are_decided_and_a_new_one_comes,
    who_waits_for_arrivals_is_woken_by_an_append,
    adopting_announces_every_entity_with_pending_events_anew,
    a_wait_for_arrivals_ends_when_another_adopts_the_shard,
    a_retry_is_pending_when_its_time_has_come_and_keeps_its_tries,
    an_event_that_is_put_off_untried_waits_like_a_retry_and_has_no_try_more,
    a_waiting_retry_announces_nothing_and_hides_no_new_event,
    a_waiting_retry_may_be_judged_before_its_time,
    what_is_due_is_answered_by_entity_in_the_order_of_time,
    a_check_is_due_until_it_is_cleared_or_moved,
    a_wait_for_the_next_record_ends_when_it_is_durable,
    a_closed_store_answers_nothing_but_that,
);

fn positions(pending: &[crate::domain::Pending]) -> Vec<Position> {
    pending.iter().map(|pending| pending.position).collect()
}

/// Entities that share a shard with the first of them.
fn neighbours(count: usize) -> Vec<EntityKey> {
    let shard = sub("sub_0").shard(SHARDS);
    (0..).map(|n| sub(&format!("sub_{n}"))).filter(|entity| entity.shard(SHARDS) == shard).take(count).collect()
}

async fn pending_events_of_a_shard_come_by_position_and_no_more_than_asked_for(rig: &mut Rig) {
    let mut sent = Vec::new();
    for n in 0..20 {
        let entity = sub(&format!("sub_{}", n % 7));
        let position = rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await[0];
        sent.push((entity.shard(SHARDS), position));
    }
    rig.turn().await;
    for shard in (0..SHARDS).map(Shard) {
        let mine: Vec<Position> = sent.iter().filter(|(s, _)| *s == shard).map(|(_, position)| *position).collect();
        for limit in [0, 1, 3, 100] {
            let pending = rig.store().pending(Scope::Shard(shard), at(0), limit).await.unwrap();
            assert_eq!(positions(&pending), mine[..limit.min(mine.len())]);
        }
    }
    let none = rig.store().pending(Scope::Shard(Shard(SHARDS)), at(0), 10).await.unwrap();
    assert_eq!(none, [], "a shard that is not there has nothing");
}

async fn an_entity_is_announced_once_until_its_events_are_decided_and_a_new_one_comes(rig: &mut Rig) {
    let [a, b] = &neighbours(2)[..] else { unreachable!() };
    let shard = a.shard(SHARDS);
    for (n, entity) in [(1, a), (2, b), (3, a)] {
        rig.accept(queued(&format!("evt_{n}"), entity, "active")).await;
    }
    rig.turn().await;
    assert_eq!(rig.store().arrivals(&[shard]).await.unwrap(), [a.clone(), b.clone()]);
    rig.accept(queued("evt_4", a, "active")).await;
    rig.accept(queued("evt_5", &neighbours(3)[2], "active")).await;
    assert_eq!(rig.store().arrivals(&[shard]).await.unwrap(), neighbours(3)[2..], "the others are known");
    let epoch = rig.adopt(a).await;
    rig.store().arrivals(&[shard]).await.unwrap();
    let pending = rig.pending(a, at(0)).await;
    let commit = super::facts::decide(a, None, &pending, epoch);
    rig.store().commit(commit).await.unwrap();
    rig.accept(queued("evt_6", a, "active")).await;
    assert_eq!(
        rig.store().arrivals(&[shard]).await.unwrap(),
        std::slice::from_ref(a),
        "it had none, and has one again"
    );
}

async fn who_waits_for_arrivals_is_woken_by_an_append(rig: &mut Rig) {
    let entity = sub("sub_a");
    let (store, shard) = (rig.shared(), entity.shard(SHARDS));
    let waiting = tokio::spawn(async move { store.arrivals(&[shard]).await });
    for _ in 0..10 {
        yield_now().await;
    }
    assert!(!waiting.is_finished(), "nothing has come");
    rig.accept(queued("evt_1", &entity, "active")).await;
    assert_eq!(waiting.await.unwrap().unwrap(), [entity]);
}

async fn adopting_announces_every_entity_with_pending_events_anew(rig: &mut Rig) {
    let entities = neighbours(3);
    let shard = entities[0].shard(SHARDS);
    for (n, entity) in entities.iter().enumerate() {
        rig.accept(queued(&format!("evt_{n}"), entity, "active")).await;
    }
    rig.turn().await;
    assert_eq!(rig.store().arrivals(&[shard]).await.unwrap().len(), 3);
    rig.decide(&entities[1]).await;
    let [first, second] = [rig.adopt(&entities[0]).await, rig.adopt(&entities[0]).await];
    assert!(second > first);
    assert_eq!(rig.store().arrivals(&[shard]).await.unwrap(), [entities[0].clone(), entities[2].clone()]);
}

async fn a_wait_for_arrivals_ends_when_another_adopts_the_shard(rig: &mut Rig) {
    let (store, shard) = (rig.shared(), Shard(0));
    rig.store().adopt(shard).await.unwrap();
    let waiting = tokio::spawn(async move { store.arrivals(&[shard]).await });
    for _ in 0..10 {
        yield_now().await;
    }
    rig.store().adopt(shard).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Fenced { shard: Shard(0) })));
    assert!(matches!(rig.store().adopt(Shard(SHARDS)).await, Err(Error::Fenced { .. })), "there is no such shard");
}

async fn a_retry_is_pending_when_its_time_has_come_and_keeps_its_tries(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    let second = rig.accept(queued("evt_2", &entity, "past_due")).await[0];
    rig.judge(&entity, first, retry(at(10))).await;
    rig.turn().await;
    let shard = Scope::Shard(entity.shard(SHARDS));
    for scope in [Scope::Entity(&entity), shard] {
        let pending = rig.store().pending(scope, at(9), 10).await.unwrap();
        assert_eq!(positions(&pending), [second], "not yet");
        let pending = rig.store().pending(scope, at(10), 10).await.unwrap();
        assert_eq!(positions(&pending), [first, second], "at that very time, and in order again");
        assert_eq!(pending[0].attempts, [unavailable(at(2))]);
        assert_eq!(positions(&rig.store().pending(scope, at(10), 1).await.unwrap()), [first]);
    }
    assert_eq!((rig.store().status().pending, rig.store().status().retries), (1, 1));
    rig.judge(&entity, first, retry(at(30))).await;
    rig.turn().await;
    assert_eq!(positions(&rig.pending(&entity, at(29)).await), [second]);
    assert_eq!(rig.pending(&entity, at(30)).await[0].attempts.len(), 2);
    rig.judge(&entity, first, dead()).await;
    rig.turn().await;
    let letter = rig.store().dead_letter(first).await.unwrap().unwrap();
    assert_eq!((letter.attempts.len(), &letter.attempts[0]), (3, &unavailable(at(2))));
    assert_eq!((rig.store().status().retries, rig.store().status().dead_letters), (0, 1));
}

async fn an_event_that_is_put_off_untried_waits_like_a_retry_and_has_no_try_more(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    for (tries, due) in [(0, 10), (1, 20)] {
        rig.judge(&entity, first, Disposition::Wait { at: at(due) }).await;
        rig.turn().await;
        assert_eq!(rig.pending(&entity, at(due - 1)).await, []);
        assert_eq!(rig.store().due(at(due), 10).await.unwrap().entities, std::slice::from_ref(&entity));
        assert_eq!(rig.pending(&entity, at(due)).await[0].attempts.len(), tries);
        assert_eq!((rig.store().status().pending, rig.store().status().retries), (0, 1));
        rig.judge(&entity, first, retry(at(due))).await;
        rig.turn().await;
        assert_eq!(rig.pending(&entity, at(due)).await[0].attempts.len(), tries + 1);
    }
}

async fn a_waiting_retry_announces_nothing_and_hides_no_new_event(rig: &mut Rig) {
    let entity = sub("sub_a");
    let shard = entity.shard(SHARDS);
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.judge(&entity, first, retry(at(10))).await;
    rig.turn().await;
    let (store, key) = (rig.shared(), entity.clone());
    let waiting = tokio::spawn(async move { (store.arrivals(&[shard]).await, key) });
    for _ in 0..10 {
        yield_now().await;
    }
    assert!(!waiting.is_finished(), "only a retry waits");
    rig.accept(queued("evt_2", &entity, "active")).await;
    let (arrivals, key) = waiting.await.unwrap();
    assert_eq!(arrivals.unwrap(), [key]);
}

async fn a_waiting_retry_may_be_judged_before_its_time(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.judge(&entity, first, retry(at(10))).await;
    rig.turn().await;
    rig.judge(&entity, first, Disposition::Done).await;
    rig.turn().await;
    assert_eq!(rig.pending(&entity, at(99)).await, []);
    assert_eq!(rig.store().due(at(99), 10).await.unwrap(), Due::default());
    assert_eq!((rig.store().status().pending, rig.store().status().retries), (0, 0));
}

async fn what_is_due_is_answered_by_entity_in_the_order_of_time(rig: &mut Rig) {
    let entities = ["sub_c", "sub_a", "sub_b"].map(sub);
    for (n, (entity, due)) in entities.iter().zip([30, 10, 20]).enumerate() {
        for copy in 0..2 {
            let position = rig.accept(queued(&format!("evt_{n}_{copy}"), entity, "active")).await[0];
            rig.judge(entity, position, retry(at(due + copy))).await;
        }
    }
    rig.turn().await;
    let due = async |now, limit| rig.store().due(at(now), limit).await.unwrap();
    let [c, a, b] = &entities;
    assert_eq!(due(9, 10).await, Due { entities: vec![], next: Some(at(10)) });
    assert_eq!(due(10, 10).await, Due { entities: vec![a.clone()], next: Some(at(11)) });
    assert_eq!(due(20, 10).await, Due { entities: vec![a.clone(), b.clone()], next: Some(at(21)) });
    assert_eq!(due(99, 2).await, Due { entities: vec![a.clone(), b.clone()], next: Some(at(30)) });
    assert_eq!(due(99, 3).await, Due { entities: vec![a.clone(), b.clone(), c.clone()], next: None });
}

async fn a_check_is_due_until_it_is_cleared_or_moved(rig: &mut Rig) {
    let entity = sub("sub_a");
    rig.commit(&entity, vec![entry(None, "active", vec![]), check_entry(Some(at(10)))], vec![]).await.unwrap();
    rig.turn().await;
    let named = Due { entities: vec![entity.clone()], next: None };
    assert_eq!(rig.store().due(at(10), 10).await.unwrap(), named);
    assert_eq!(rig.store().due(at(9), 10).await.unwrap().next, Some(at(10)));
    rig.commit(&entity, vec![check_entry(Some(at(20)))], vec![]).await.unwrap();
    rig.turn().await;
    assert_eq!(rig.store().due(at(19), 10).await.unwrap(), Due { entities: vec![], next: Some(at(20)) });
    assert_eq!(rig.store().due(at(20), 10).await.unwrap(), named);
    assert_eq!(rig.store().status().checks, 1);
    let position = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.judge(&entity, position, retry(at(15))).await;
    assert_eq!(rig.store().due(at(20), 10).await.unwrap(), named, "an entity with both is named once");
    rig.commit(&entity, vec![check_entry(None)], vec![judged(position, Disposition::Done)]).await.unwrap();
    rig.turn().await;
    assert_eq!(rig.store().due(at(99), 10).await.unwrap(), Due::default());
    assert_eq!(rig.store().status().checks, 0);
}

async fn a_wait_for_the_next_record_ends_when_it_is_durable(rig: &mut Rig) {
    let synced = rig.store().status().synced;
    let store = rig.shared();
    let waiting = tokio::spawn(async move { store.synced_beyond(synced).await });
    for _ in 0..10 {
        yield_now().await;
    }
    assert!(!waiting.is_finished());
    let position = rig.accept(queued("evt_1", &sub("sub_a"), "active")).await[0];
    assert_eq!(waiting.await.unwrap().unwrap(), position.lsn);
    rig.turn().await;
    assert_eq!(rig.store().synced_beyond(Lsn(0)).await.unwrap(), position.lsn, "at once if there is one");
}

async fn a_closed_store_answers_nothing_but_that(rig: &mut Rig) {
    let entity = sub("sub_a");
    rig.accept(queued("evt_1", &entity, "active")).await;
    rig.store().arrivals(&[entity.shard(SHARDS)]).await.unwrap();
    let (arrivals, synced) = (rig.shared(), rig.shared());
    let shard = entity.shard(SHARDS);
    let waits = [
        tokio::spawn(async move { arrivals.arrivals(&[shard]).await.map(drop) }),
        tokio::spawn(async move { synced.synced_beyond(Lsn(99)).await.map(drop) }),
    ];
    for _ in 0..10 {
        yield_now().await;
    }
    rig.store().close().await.unwrap();
    let mut answers = Vec::new();
    for wait in waits {
        answers.push(wait.await.unwrap());
    }
    let store = rig.store();
    answers.push(store.append(queued("evt_2", &entity, "active")).await.map(drop));
    answers.push(store.adopt(shard).await.map(drop));
    answers.push(store.load(&entity).await.map(drop));
    answers.push(store.pending(Scope::Entity(&entity), at(0), 1).await.map(drop));
    answers.push(store.due(at(0), 1).await.map(drop));
    answers.push(store.feed(None, 1).await.map(drop));
    answers.push(store.entries(Some(&entity), None, 1).await.map(drop));
    answers.push(store.dead_letters(None, 1).await.map(drop));
    answers.push(store.machines().await.map(drop));
    let stopped: BTreeSet<bool> = answers.iter().map(|a| matches!(a, Err(Error::Stopped { .. }))).collect();
    assert_eq!(stopped, [true].into(), "{answers:?}");
}
