//! A backlog that is larger than the window in memory.

use std::collections::BTreeMap;

use crate::domain::{EntityKey, Position, Shard, Timestamp};
use crate::store::contract::facts::{at, dead, event, queued, sub};
use crate::store::contract::{Rig, options};
use crate::store::{Action, Command, Options, Scope};

const SHARDS: u16 = 4;

fn small() -> Rig {
    Rig::embedded_with(Options { window_events: 10, window_decoded_bytes: 3000, ..options() })
}

/// Decides everything as an engine does, by what is announced; answers the events of each entity in the order in which
/// they were judged.
async fn drain(
    rig: &mut Rig,
    total: usize,
    mut turn: impl FnMut(usize) -> Happening,
) -> BTreeMap<EntityKey, Vec<Position>> {
    let mut judged: BTreeMap<EntityKey, Vec<Position>> = BTreeMap::new();
    let mut done = 0;
    while done < total {
        let mut worked = false;
        for shard in (0..SHARDS).map(Shard) {
            let pending = rig.store().pending(Scope::Shard(shard), at(0), 3).await.unwrap();
            for entity in pending.iter().filter_map(|pending| pending.event.entity.clone()) {
                let mine = rig.decide_pending(&entity).await;
                worked |= !mine.is_empty();
                done += mine.len();
                judged.entry(entity).or_default().extend(mine);
            }
        }
        match turn(done) {
            Happening::Nothing => {}
            Happening::Reopen => rig.reopen().await,
            Happening::Crash => rig.crash(),
        }
        if !worked {
            // The window is being filled from the journal.
            tokio::task::yield_now().await;
        }
    }
    judged
}

enum Happening {
    Nothing,
    Reopen,
    Crash,
}

/// Appends `total` events of some entities; answers those of each in order.
async fn backlog(rig: &Rig, total: usize) -> BTreeMap<EntityKey, Vec<Position>> {
    let mut sent: BTreeMap<EntityKey, Vec<Position>> = BTreeMap::new();
    for n in 0..total {
        let entity = sub(&format!("sub_{}", n * 7 % 11));
        let position = rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await[0];
        sent.entry(entity).or_default().push(position);
    }
    sent
}

#[tokio::test]
async fn a_backlog_beyond_the_window_is_judged_whole_and_in_order() {
    let mut rig = small();
    let sent = backlog(&rig, 100).await;
    assert_eq!(rig.store().status().pending, 100, "all of it is counted");
    assert_eq!(drain(&mut rig, 100, |_| Happening::Nothing).await, sent);
    assert_eq!(rig.store().status().pending, 0);
}

#[tokio::test]
async fn a_window_of_nothing_takes_one_event_at_a_time() {
    let mut rig = Rig::embedded_with(Options { window_events: 0, ..options() });
    let sent = backlog(&rig, 12).await;
    let judged = drain(&mut rig, 12, |done| if done == 5 { Happening::Crash } else { Happening::Nothing }).await;
    assert_eq!(judged, sent);
}

#[tokio::test]
async fn restarts_and_crashes_in_the_middle_of_a_backlog_lose_and_repeat_nothing() {
    let mut rig = small();
    let sent = backlog(&rig, 120).await;
    let mut rounds = 0;
    let judged = drain(&mut rig, 120, |_| {
        rounds += 1;
        match rounds % 4 {
            1 => Happening::Crash,
            3 => Happening::Reopen,
            _ => Happening::Nothing,
        }
    });
    assert_eq!(judged.await, sent);
    rig.crash();
    assert_eq!(rig.store().status().pending, 0);
    for shard in (0..SHARDS).map(Shard) {
        assert_eq!(rig.store().pending(Scope::Shard(shard), Timestamp::MAX, 10).await.unwrap(), []);
    }
}

#[tokio::test]
async fn one_stuck_event_at_the_head_does_not_hold_back_what_was_decided_behind_it() {
    let mut rig = small();
    let stuck = sub("sub_stuck");
    let head = rig.accept(queued("evt_head", &stuck, "active")).await[0];
    for n in 0..60 {
        let entity = sub(&format!("sub_{n}"));
        rig.accept(queued(&format!("evt_{n}"), &entity, "active")).await;
        rig.decide(&entity).await;
    }
    for _ in 0..2 {
        rig.reopen().await;
        assert_eq!(rig.store().status().pending, 1);
        let mut left = Vec::new();
        for shard in (0..SHARDS).map(Shard) {
            left.extend(rig.store().pending(Scope::Shard(shard), at(0), 100).await.unwrap());
        }
        assert_eq!(left.iter().map(|pending| pending.position).collect::<Vec<_>>(), [head]);
        rig.crash();
    }
}

#[tokio::test]
async fn a_replay_waits_behind_the_backlog_like_any_event() {
    let mut rig = small();
    let entity = sub("sub_0");
    let first = rig.accept(queued("evt_dead", &entity, "active")).await[0];
    rig.judge(&entity, first, dead()).await;
    let mut sent = backlog(&rig, 40).await;
    let replay = Action::Replay { dead: first, event: event("evt_dead", &entity, "active").into() };
    let position = rig.store().command(Command { by: "ops".into(), at: at(9), action: replay }).await.unwrap();
    sent.entry(entity).or_default().push(position);
    assert_eq!(drain(&mut rig, 41, |_| Happening::Nothing).await, sent);
}

#[tokio::test]
async fn entities_beyond_the_window_are_announced_when_their_turn_comes() {
    let rig = small();
    let sent = backlog(&rig, 60).await;
    let mut judged: BTreeMap<EntityKey, Vec<Position>> = BTreeMap::new();
    let mut left = 60;
    while left > 0 {
        for shard in (0..SHARDS).map(Shard) {
            let arrivals = futures_util::FutureExt::now_or_never(rig.store().arrivals(&[shard]));
            for entity in arrivals.map(Result::unwrap).unwrap_or_default() {
                loop {
                    let mine = rig.decide_pending(&entity).await;
                    if mine.is_empty() {
                        break;
                    }
                    left -= mine.len();
                    judged.entry(entity.clone()).or_default().extend(mine);
                }
            }
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(judged, sent);
}
