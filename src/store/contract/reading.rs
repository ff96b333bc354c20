//! What readers see: entities, entries, the feed, dead letters.

use std::sync::Arc;

use super::facts::{at, dead, entry, field_entry, queued, sub};
use super::{Rig, contract};
use crate::domain::query::{EntityFilter, Page};
use crate::domain::{EntityKey, Kind, Mode, Partition, Position, Recorded, SourceName, StateName};

contract!(
    entities_are_listed_by_source_kind_id_and_partition,
    entities_match_by_every_part_of_a_filter,
    an_entity_is_listed_under_the_states_that_it_is_in,
    entries_of_an_entity_are_read_page_by_page,
    entries_of_all_entities_are_read_page_by_page,
    the_feed_shows_moves_and_moves_on_over_stretches_without_one,
    dead_letters_are_read_page_by_page,
    no_delivery_stands_where_a_commit_stands,
    large_values_are_kept_whole,
    figures_say_what_the_store_holds,
);

fn key(source: &str, kind: &str, id: &str, partition: Partition) -> EntityKey {
    EntityKey { partition, source: SourceName::new(source), kind: Kind::new(kind), id: Arc::from(id) }
}

fn account(account: &str, mode: Mode) -> Partition {
    Partition { account: Some(Arc::from(account)), mode }
}

/// Reads all pages of `limit`.
async fn all<T, C, F: Future<Output = Page<T, C>>>(mut page: impl FnMut(Option<C>) -> F) -> Vec<T> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = page(after).await;
        found.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

async fn listed(rig: &Rig, filter: &EntityFilter, limit: usize) -> Vec<EntityKey> {
    let page = async |after: Option<EntityKey>| rig.store().entities(filter, after.as_ref(), limit).await.unwrap();
    all(page).await.into_iter().map(|entity| entity.key).collect()
}

async fn entities_are_listed_by_source_kind_id_and_partition(rig: &mut Rig) {
    let sorted = [
        key("paddle", "subscription", "z", Partition::LIVE),
        key("stripe", "invoice", "in_1", Partition::LIVE),
        key("stripe", "subscription", "", Partition::LIVE),
        key("stripe", "subscription", "a", Partition::LIVE),
        key("stripe", "subscription", "a", Partition { account: None, mode: Mode::Test }),
        key("stripe", "subscription", "a", account("", Mode::Live)),
        key("stripe", "subscription", "a", account("acct_1", Mode::Live)),
        key("stripe", "subscription", "a", account("acct_1", Mode::Test)),
        key("stripe", "subscription", "a", account("acct_2", Mode::Live)),
        key("stripe", "subscription", "a\0", Partition::LIVE),
        key("stripe", "subscription", "a\0b", Partition::LIVE),
        key("stripe", "subscription", "a\u{1}", Partition::LIVE),
        key("stripe", "subscription", "ab", Partition::LIVE),
        key("stripe", "subscription", "é", Partition::LIVE),
    ];
    let mut sorted = sorted.to_vec();
    sorted.sort_by_key(crate::store::keys::entity_order);
    for n in 0..sorted.len() {
        let entity = &sorted[(n * 5) % sorted.len()];
        rig.commit(entity, vec![entry(None, "active", vec![])], vec![]).await.unwrap();
    }
    rig.turn().await;
    for limit in [0, 1, 2, 5, 100] {
        assert_eq!(listed(rig, &EntityFilter::default(), limit).await, sorted, "in pages of {limit}");
    }
    assert_eq!(sorted[2].id.as_ref(), "");
    assert_eq!(sorted.last().unwrap().id.as_ref(), "é");
    for entity in &sorted {
        assert_eq!(&rig.load(entity).await.unwrap().key, entity);
    }
}

async fn entities_match_by_every_part_of_a_filter(rig: &mut Rig) {
    let entities = [
        key("stripe", "subscription", "a", Partition::LIVE),
        key("stripe", "subscription", "a", account("acct_1", Mode::Test)),
        key("stripe", "subscription", "ab", Partition::LIVE),
        key("stripe", "invoice", "a", Partition::LIVE),
        key("paddle", "subscription", "a", Partition::LIVE),
    ];
    for (entity, state) in entities.iter().zip(["active", "active", "canceled", "active", "canceled"]) {
        rig.commit(entity, vec![entry(None, state, vec![])], vec![]).await.unwrap();
    }
    rig.turn().await;
    let any = EntityFilter::default();
    let (stripe, subscription) = (Some(SourceName::new("stripe")), Some(Kind::new("subscription")));
    let (a, active) = (Some("a".to_owned()), Some(StateName::new("active")));
    let table: [(EntityFilter, &[usize]); 9] = [
        (EntityFilter { source: stripe.clone(), ..any.clone() }, &[3, 0, 1, 2]),
        (EntityFilter { kind: subscription.clone(), ..any.clone() }, &[4, 0, 1, 2]),
        (EntityFilter { id: a.clone(), ..any.clone() }, &[4, 3, 0, 1]),
        (EntityFilter { partition: Some(Partition::LIVE), ..any.clone() }, &[4, 3, 0, 2]),
        (EntityFilter { state: active.clone(), ..any.clone() }, &[3, 0, 1]),
        (EntityFilter { source: stripe.clone(), kind: subscription.clone(), id: a.clone(), ..any.clone() }, &[0, 1]),
        (EntityFilter { source: stripe.clone(), id: a.clone(), state: active.clone(), ..any.clone() }, &[3, 0, 1]),
        (EntityFilter { source: stripe, kind: subscription, state: active, ..any.clone() }, &[0, 1]),
        (EntityFilter { id: Some("b".to_owned()), ..any }, &[]),
    ];
    for (filter, expected) in table {
        let expected: Vec<EntityKey> = expected.iter().map(|n| entities[*n].clone()).collect();
        for limit in [1, 2, 100] {
            assert_eq!(listed(rig, &filter, limit).await, expected, "{filter:?} in pages of {limit}");
        }
    }
}

async fn an_entity_is_listed_under_the_states_that_it_is_in(rig: &mut Rig) {
    let entity = sub("sub_a");
    let mut from = None;
    for state in ["trialing", "active", "past_due", "active"] {
        rig.commit(&entity, vec![entry(from, state, vec![])], vec![]).await.unwrap();
        from = Some(state);
        rig.turn().await;
        for asked in ["trialing", "active", "past_due"] {
            let filter = EntityFilter { state: Some(StateName::new(asked)), ..EntityFilter::default() };
            assert_eq!(listed(rig, &filter, 10).await.len(), usize::from(asked == state), "in {state}, asked {asked}");
        }
    }
}

/// Commits some entries on two entities in turn; answers them all as they were recorded.
async fn history(rig: &Rig) -> Vec<Recorded> {
    let entities = [sub("sub_a"), sub("sub_b")];
    let mut expected = Vec::new();
    for n in 0..90 {
        let entity = &entities[n % 2];
        let entries = match n % 3 {
            0 => vec![field_entry("n", &n.to_string())],
            1 => vec![entry(Some("active"), "past_due", vec![]), entry(Some("past_due"), "active", vec![])],
            _ => vec![entry(Some("active"), "active", vec![])],
        };
        rig.accept(queued(&format!("evt_{n}"), entity, "active")).await;
        let lsn = rig.commit(entity, entries.clone(), vec![]).await.unwrap();
        for (item, entry) in (0..).zip(entries) {
            let position = Position { lsn: crate::domain::Lsn(lsn), item };
            expected.push(Recorded { position, entity: entity.clone(), entry });
        }
    }
    expected
}

async fn entries_of_an_entity_are_read_page_by_page(rig: &mut Rig) {
    let expected = history(rig).await;
    rig.turn().await;
    for entity in [sub("sub_a"), sub("sub_b"), sub("sub_c")] {
        let expected: Vec<Recorded> = expected.iter().filter(|r| r.entity == entity).cloned().collect();
        for limit in [1, 2, 7, 60, 1000] {
            let page = async |after| rig.store().entries(Some(&entity), after, limit).await.unwrap();
            assert_eq!(all(page).await, expected, "of {entity} in pages of {limit}");
        }
    }
}

async fn entries_of_all_entities_are_read_page_by_page(rig: &mut Rig) {
    let expected = history(rig).await;
    rig.turn().await;
    for limit in [1, 2, 7, 1000] {
        let page = async |after| rig.store().entries(None, after, limit).await.unwrap();
        assert_eq!(all(page).await, expected, "in pages of {limit}");
    }
}

async fn the_feed_shows_moves_and_moves_on_over_stretches_without_one(rig: &mut Rig) {
    let nothing = rig.store().feed(None, 10).await.unwrap();
    assert_eq!((nothing.items.len(), nothing.next), (0, None), "nothing was read");
    let moves: Vec<Recorded> = history(rig).await.into_iter().filter(|recorded| recorded.entry.is_move()).collect();
    rig.turn().await;
    for limit in [1, 3, 1000] {
        let page = async |after| rig.store().feed(after, limit).await.unwrap();
        assert_eq!(all(page).await, moves, "in pages of {limit}");
    }
    let end = rig.store().feed(None, 1000).await.unwrap().next.unwrap();
    assert_eq!(rig.store().feed(Some(end), 10).await.unwrap().next, None, "nothing lies behind it");
    rig.accept(queued("evt_last", &sub("sub_a"), "active")).await;
    let quiet = rig.store().feed(Some(end), 10).await.unwrap();
    assert!(quiet.items.is_empty() && quiet.next > Some(end), "a record without a move was read: {quiet:?}");
    rig.turn().await;
    rig.commit(&sub("sub_a"), vec![entry(Some("active"), "canceled", vec![])], vec![]).await.unwrap();
    for after in [Some(end), quiet.next] {
        let news = rig.store().feed(after, 10).await.unwrap();
        assert_eq!(news.items.len(), 1, "resumed behind {after:?}");
    }
}

async fn dead_letters_are_read_page_by_page(rig: &mut Rig) {
    let entity = sub("sub_a");
    let mut expected = Vec::new();
    for n in 0..7 {
        let position = rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await[0];
        rig.judge(&entity, position, dead()).await;
        expected.push(position);
    }
    rig.turn().await;
    for limit in [1, 2, 7, 100] {
        let page = async |after| rig.store().dead_letters(after, limit).await.unwrap();
        let found: Vec<Position> = all(page).await.iter().map(|dead| dead.position).collect();
        assert_eq!(found, expected, "in pages of {limit}");
    }
}

async fn no_delivery_stands_where_a_commit_stands(rig: &mut Rig) {
    let position = rig.accept(queued("evt_1", &sub("sub_a"), "active")).await[0];
    let lsn = crate::domain::Lsn(rig.commit(&sub("sub_a"), vec![entry(None, "active", vec![])], vec![]).await.unwrap());
    rig.turn().await;
    let nowhere = [(lsn, 0), (position.lsn, 1), (crate::domain::Lsn(lsn.0 + 1), 0), (crate::domain::Lsn(0), 0)];
    for (lsn, item) in nowhere {
        assert_eq!(rig.store().delivery(Position { lsn, item }).await.unwrap(), None, "{}.{item}", lsn.0);
        assert_eq!(rig.store().dead_letter(Position { lsn, item }).await.unwrap(), None);
    }
}

async fn large_values_are_kept_whole(rig: &mut Rig) {
    let entity = sub("sub_a");
    for (n, len) in [10, 20_000, 4096, 9000, 0, 30_000].into_iter().enumerate() {
        let value = format!("{n}").repeat(len);
        rig.commit(&entity, vec![field_entry("notes", &value)], vec![]).await.unwrap();
        rig.turn().await;
        let held = rig.load(&entity).await.unwrap();
        assert_eq!(held.ladder().fields.values().next().unwrap().to_text(), value);
        let listed = rig.store().entities(&EntityFilter::default(), None, 10).await.unwrap().items;
        assert_eq!(listed, [held]);
    }
}

async fn figures_say_what_the_store_holds(rig: &mut Rig) {
    let (a, b) = (sub("sub_a"), sub("sub_b"));
    for n in 0..5 {
        rig.accept(queued(&format!("evt_{n}"), if n % 2 == 0 { &a } else { &b }, "active")).await;
    }
    let first = rig.pending(&a, at(0)).await[0].position;
    rig.judge(&a, first, super::facts::retry(at(10))).await;
    rig.decide(&b).await;
    rig.commit(&b, vec![super::facts::check_entry(Some(at(9)))], vec![]).await.unwrap();
    rig.turn().await;
    let status = rig.store().status();
    assert_eq!(status.synced.0, 8);
    assert_eq!((status.pending, status.retries, status.checks), (2, 1, 1));
    assert_eq!((status.entities, status.dead_letters), (1, 0));
    assert_eq!(rig.store().shards(), super::rig::SHARDS);
}
