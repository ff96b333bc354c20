//! What comes in: deliveries and commands.

use std::sync::Arc;

use super::facts::{at, dead, delivery, event, item, judged, machine, queued, sub, unavailable};
use super::{Rig, contract};
use crate::domain::{Admission, Admit, Attempt, Lsn, Position, Reason, SourceName};
use crate::store::{Action, Command, Error};

contract!(
    an_append_answers_for_each_item_in_order_and_each_is_pending_at_its_position,
    an_id_that_was_seen_with_the_same_digest_is_a_duplicate_and_changes_nothing,
    an_id_that_was_seen_with_another_digest_is_a_conflict_and_a_dead_letter,
    items_of_one_delivery_are_told_from_each_other,
    one_id_of_two_sources_is_two_ids,
    an_event_that_is_only_recorded_is_kept_and_never_pending,
    an_event_may_be_a_dead_letter_from_the_start,
    an_event_to_be_queued_without_an_entity_is_only_recorded,
    a_replay_is_pending_at_the_commands_position_with_its_earlier_tries,
    a_replay_that_fails_again_is_a_dead_letter_at_the_commands_position,
    a_discarded_dead_letter_is_gone,
    only_a_dead_letter_can_be_replayed_or_discarded,
    a_machine_that_was_recorded_is_known_in_its_last_form,
);

fn command(action: Action) -> Command {
    Command { by: "ops".into(), at: at(9), action }
}

async fn an_append_answers_for_each_item_in_order_and_each_is_pending_at_its_position(rig: &mut Rig) {
    let (a, b) = (sub("sub_a"), sub("sub_b"));
    let items = [("evt_1", &a), ("evt_2", &b), ("evt_3", &a)];
    let items = items.map(|(id, entity)| item(event(id, entity, "active"), Admit::Queue));
    let sent = delivery(items.to_vec());
    let first = rig.accept(sent.clone()).await;
    let second = rig.accept(queued("evt_4", &a, "past_due")).await;
    let lsn = first[0].lsn;
    assert_eq!(first, [0, 1, 2].map(|item| Position { lsn, item }));
    assert_eq!(second, [Position { lsn: Lsn(lsn.0 + 1), item: 0 }], "records follow each other");
    rig.turn().await;
    let pending = rig.pending(&a, at(0)).await;
    assert_eq!(pending.iter().map(|p| p.position).collect::<Vec<_>>(), [first[0], first[2], second[0]]);
    assert_eq!(pending[1].event, sent.items[2].event);
    assert_eq!((pending[0].received_at, pending[0].body_sha256), (sent.received_at, sent.body_sha256));
    assert_eq!((pending[0].attempts.len(), pending[0].replayed_by.clone()), (0, None));
    for (item, position) in first.into_iter().enumerate() {
        let kept = rig.store().delivery(position).await.unwrap().unwrap();
        assert_eq!((kept.item, &kept.delivery), (item, &sent));
    }
    assert_eq!(rig.store().status().pending, 4);
}

async fn an_id_that_was_seen_with_the_same_digest_is_a_duplicate_and_changes_nothing(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.turn().await;
    let before = rig.store().status();
    let again = rig.store().append(queued("evt_1", &entity, "active")).await.unwrap();
    assert_eq!(again, [Admission::Duplicate(first)]);
    assert_eq!((rig.store().status().synced, rig.store().status().pending), (before.synced, 1), "nothing was recorded");
    rig.decide(&entity).await;
    rig.turn().await;
    let late = rig.store().append(queued("evt_1", &entity, "active")).await.unwrap();
    assert_eq!(late, [Admission::Duplicate(first)], "a decided event is still seen");
    assert_eq!(rig.pending(&entity, at(0)).await, []);
}

async fn an_id_that_was_seen_with_another_digest_is_a_conflict_and_a_dead_letter(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.turn().await;
    let other = rig.store().append(queued("evt_1", &entity, "canceled")).await.unwrap();
    let [Admission::Conflict { first: stands, dead }] = other[..] else { panic!("not a conflict: {other:?}") };
    assert_eq!(stands, first);
    rig.turn().await;
    let letter = rig.store().dead_letter(dead).await.unwrap().unwrap();
    assert_eq!(letter.attempts, [Attempt { at: at(1), reason: Reason::EventIdReused { first } }]);
    assert_eq!((letter.position, letter.event), (dead, event("evt_1", &entity, "canceled").into()));
    assert_eq!(rig.pending(&entity, at(0)).await.len(), 1, "the first stands");
    let again = rig.store().append(queued("evt_1", &entity, "active")).await.unwrap();
    assert_eq!(again, [Admission::Duplicate(first)], "and its digest is still the one that counts");
}

async fn items_of_one_delivery_are_told_from_each_other(rig: &mut Rig) {
    let entity = sub("sub_a");
    let states = ["active", "active", "canceled"];
    let items = states.map(|state| item(event("evt_1", &entity, state), Admit::Queue));
    let admissions = rig.store().append(delivery(items.to_vec())).await.unwrap();
    let [Admission::Accepted(first), ..] = admissions[..] else { panic!("not accepted: {admissions:?}") };
    let dead = Position { item: 2, ..first };
    assert_eq!(admissions[1..], [Admission::Duplicate(first), Admission::Conflict { first, dead }]);
    rig.turn().await;
    assert_eq!(rig.pending(&entity, at(0)).await.iter().map(|p| p.position).collect::<Vec<_>>(), [first]);
    assert!(rig.store().dead_letter(dead).await.unwrap().is_some());
    assert_eq!(rig.store().delivery(dead).await.unwrap().unwrap().delivery.items.len(), 3, "all is kept as it came");
    assert_eq!((rig.store().status().pending, rig.store().status().dead_letters), (1, 1));
}

async fn one_id_of_two_sources_is_two_ids(rig: &mut Rig) {
    let mut paddle = sub("sub_a");
    paddle.source = SourceName::new("paddle");
    rig.accept(queued("evt_1", &sub("sub_a"), "active")).await;
    rig.turn().await;
    rig.accept(queued("evt_1", &paddle, "active")).await;
}

async fn an_event_that_is_only_recorded_is_kept_and_never_pending(rig: &mut Rig) {
    let entity = sub("sub_a");
    let sent = delivery(vec![item(event("evt_1", &entity, "active"), Admit::Record)]);
    let position = rig.accept(sent.clone()).await[0];
    rig.turn().await;
    assert_eq!(rig.pending(&entity, at(0)).await, []);
    assert_eq!(rig.store().delivery(position).await.unwrap().unwrap().delivery, sent);
    assert_eq!(rig.store().append(sent).await.unwrap(), [Admission::Duplicate(position)]);
    assert_eq!((rig.store().status().pending, rig.store().status().dead_letters), (0, 0));
}

async fn an_event_may_be_a_dead_letter_from_the_start(rig: &mut Rig) {
    let reason = Reason::BodyNotJson { detail: "line 1".to_owned() };
    let mut broken = event("evt_1", &sub("sub_a"), "active");
    broken.entity = None;
    let broken = Arc::new(broken);
    let sent = delivery(vec![item(Arc::clone(&broken), Admit::DeadLetter(reason.clone()))]);
    let position = rig.accept(sent.clone()).await[0];
    rig.turn().await;
    let letter = rig.store().dead_letter(position).await.unwrap().unwrap();
    assert_eq!((letter.event, letter.received_at), (broken, at(1)));
    assert_eq!(letter.attempts, [Attempt { at: at(1), reason }]);
    assert_eq!(rig.store().append(sent).await.unwrap(), [Admission::Duplicate(position)]);
    assert_eq!(rig.store().status().dead_letters, 1);
}

async fn an_event_to_be_queued_without_an_entity_is_only_recorded(rig: &mut Rig) {
    let mut nameless = event("evt_1", &sub("sub_a"), "active");
    nameless.entity = None;
    rig.accept(delivery(vec![item(nameless, Admit::Queue)])).await;
    rig.turn().await;
    assert_eq!((rig.store().status().pending, rig.store().status().dead_letters), (0, 0));
}

async fn a_replay_is_pending_at_the_commands_position_with_its_earlier_tries(rig: &mut Rig) {
    let (entity, other) = (sub("sub_a"), sub("sub_b"));
    let sent = queued("evt_1", &entity, "activ");
    let first = rig.accept(sent.clone()).await[0];
    rig.judge(&entity, first, dead()).await;
    rig.turn().await;
    let mapped = Arc::new(event("evt_1", &other, "active"));
    let position =
        rig.store().command(command(Action::Replay { dead: first, event: Arc::clone(&mapped) })).await.unwrap();
    rig.turn().await;
    assert_eq!(rig.store().dead_letter(first).await.unwrap(), None);
    let pending = rig.pending(&other, at(0)).await;
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].position, &pending[0].event), (position, &mapped));
    assert_eq!((pending[0].received_at, pending[0].body_sha256), (sent.received_at, sent.body_sha256));
    assert_eq!(pending[0].attempts.iter().map(|a| a.reason.clone()).collect::<Vec<_>>(), [Reason::UpstreamNotFound]);
    assert_eq!(pending[0].replayed_by.as_deref(), Some("ops"));
    assert_eq!(rig.store().delivery(position).await.unwrap().unwrap().delivery, sent, "it is about that delivery");
    let entity = rig.decide(&other).await;
    assert_eq!(entity.version, 1);
    rig.turn().await;
    assert_eq!(rig.store().status().pending, 0);
    assert_eq!(rig.pending(&other, at(0)).await, []);
}

async fn a_replay_that_fails_again_is_a_dead_letter_at_the_commands_position(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.judge(&entity, first, dead()).await;
    let mut position = first;
    for tries in 2..5 {
        let replay = Action::Replay { dead: position, event: event("evt_1", &entity, "active").into() };
        position = rig.store().command(command(replay)).await.unwrap();
        rig.turn().await;
        rig.judge(&entity, position, super::facts::retry(at(20))).await;
        rig.turn().await;
        rig.judge(&entity, position, dead()).await;
        rig.turn().await;
        let letter = rig.store().dead_letter(position).await.unwrap().unwrap();
        assert_eq!(letter.attempts.len(), 1 + 2 * (tries - 1), "every try is kept");
        assert_eq!(letter.attempts[1], unavailable(at(2)));
        assert_eq!(rig.store().delivery(position).await.unwrap().unwrap().item, 0);
        assert_eq!(rig.store().status().dead_letters, 1);
    }
    let letters = rig.store().dead_letters(None, 10).await.unwrap().items;
    assert_eq!(letters.iter().map(|letter| letter.position).collect::<Vec<_>>(), [position]);
}

async fn a_discarded_dead_letter_is_gone(rig: &mut Rig) {
    let entity = sub("sub_a");
    let first = rig.accept(queued("evt_1", &entity, "active")).await[0];
    rig.judge(&entity, first, dead()).await;
    rig.turn().await;
    rig.store().command(command(Action::Discard { dead: first })).await.unwrap();
    rig.turn().await;
    assert_eq!(rig.store().dead_letter(first).await.unwrap(), None);
    assert_eq!(rig.store().dead_letters(None, 10).await.unwrap().items, []);
    assert_eq!((rig.store().status().dead_letters, rig.store().status().pending), (0, 0));
    assert!(rig.store().delivery(first).await.unwrap().is_some(), "what was received is still there");
}

async fn only_a_dead_letter_can_be_replayed_or_discarded(rig: &mut Rig) {
    let entity = sub("sub_a");
    let pending = rig.accept(queued("evt_1", &entity, "active")).await[0];
    let letter = rig.accept(queued("evt_2", &entity, "active")).await[0];
    rig.judge(&entity, letter, dead()).await;
    rig.store().command(command(Action::Discard { dead: letter })).await.unwrap();
    let doomed = rig.accept(queued("evt_3", &entity, "active")).await[0];
    rig.judge(&entity, doomed, dead()).await;
    rig.turn().await;
    let synced = rig.store().status().synced;
    let mut nameless = event("evt_3", &entity, "active");
    nameless.entity = None;
    let refused = [
        Action::Discard { dead: pending },
        Action::Discard { dead: letter },
        Action::Discard { dead: Position { lsn: Lsn(999), item: 0 } },
        Action::Replay { dead: letter, event: event("evt_2", &entity, "active").into() },
        Action::Replay { dead: pending, event: event("evt_1", &entity, "active").into() },
        Action::Replay { dead: doomed, event: nameless.into() },
    ];
    for action in refused {
        let error = rig.store().command(command(action.clone())).await.unwrap_err();
        assert!(matches!(error, Error::NotDead { .. }), "{action:?}: {error}");
    }
    assert_eq!(rig.store().status().synced, synced, "nothing was recorded");
    let error = rig.commit(&entity, Vec::new(), vec![judged(letter, dead())]).await.unwrap_err();
    assert!(matches!(error, Error::NotPending { position } if position == letter), "{error}");
}

async fn a_machine_that_was_recorded_is_known_in_its_last_form(rig: &mut Rig) {
    assert!(rig.store().machines().await.unwrap().is_empty());
    for version in [1, 2] {
        let sha256 = [u8::try_from(version).unwrap(); 32];
        let action = Action::MachineChanged { machine: machine(), version, sha256 };
        rig.store().command(command(action)).await.unwrap();
        rig.turn().await;
        assert_eq!(rig.store().machines().await.unwrap(), [(machine(), (version, sha256))].into());
    }
}
