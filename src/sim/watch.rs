//! Those who look from outside: a follower of the feed, a reader of entities, an operator.

use std::rc::Rc;
use std::time::Duration;

use super::world::{World, all};
use crate::domain::query::EntityFilter;
use crate::domain::{Position, Reason};

/// Follows the feed as an application does: it keeps its cursor, whatever becomes of the process.
pub(crate) async fn follow(world: Rc<World>) {
    let mut after: Option<Position> = None;
    loop {
        tokio::time::sleep(Duration::from_millis(200 + world.roll(3000))).await;
        let Some(process) = world.running() else { continue };
        let limit = 1 + usize::try_from(world.roll(4)).unwrap();
        let wait = Duration::from_millis(world.roll(2000));
        let asking = process.engine.feed(after, limit, wait);
        // Its connection ends with the process.
        let Ok(Ok(page)) = tokio::time::timeout(Duration::from_secs(5), asking).await else { continue };
        if !process.life.goes_on() {
            continue;
        }
        for moved in page.items {
            let mut followed = world.followed.borrow_mut();
            if followed.last().is_some_and(|last| last.position >= moved.position) {
                let last = followed.last().map(|last| last.position);
                world.violate(format!("the feed shows {} behind {last:?}", moved.position));
            }
            world.account.count("move followed");
            followed.push(moved);
        }
        after = page.next.or(after);
    }
}

/// Looks at entities and remembers what it saw.
pub(crate) async fn look(world: Rc<World>) {
    loop {
        tokio::time::sleep(Duration::from_millis(100 + world.roll(3000))).await;
        let Some(process) = world.running().filter(|process| process.store.is_proved()) else { continue };
        let filter = EntityFilter::default();
        let reading = process.engine.entities(&filter, None, 100);
        let Ok(Ok(page)) = tokio::time::timeout(Duration::from_secs(5), reading).await else { continue };
        if !process.life.goes_on() {
            continue;
        }
        for entity in page.items {
            world.account.count("entity looked at");
            let version = (entity.key.clone(), entity.version);
            let before = world.shown.borrow_mut().insert(version, entity.clone());
            if let Some(before) = before.filter(|before| *before != entity) {
                world.violate(format!("shown was {before:?}, and then {entity:?}"));
            }
        }
    }
}

/// Replays or discards a dead letter now and then.
pub(crate) async fn operate(world: Rc<World>) {
    while !world.is_calm() {
        tokio::time::sleep(Duration::from_millis(1000 + world.roll(20_000))).await;
        let Some(process) = world.running() else { continue };
        let reading = process.engine.dead_letters(None, 10);
        let Ok(Ok(page)) = tokio::time::timeout(Duration::from_secs(5), reading).await else { continue };
        let Some(letter) = page.items.first() else { continue };
        // In calm another one replays what failed: two at once would be in each other's way.
        if world.is_calm() {
            return;
        }
        let is_conflict =
            matches!(letter.attempts.last().map(|attempt| &attempt.reason), Some(Reason::EventIdReused { .. }));
        let acting = async {
            if is_conflict {
                process.engine.discard(letter.position, "sim").await
            } else {
                process.engine.replay(letter.position, "sim").await
            }
        };
        if let Ok(Ok(position)) = tokio::time::timeout(Duration::from_secs(5), acting).await {
            world.commanded.borrow_mut().push((position.lsn, (letter.position, !is_conflict)));
            world.account.count(if is_conflict { "dead letter discarded" } else { "dead letter replayed" });
            world.account.say(|| format!("the operator acts on {} at {position}", letter.position));
        }
    }
}

/// When all is calm an operator replays what failed for want of an upstream, or by a panic. Answers whether that worked.
pub(crate) async fn replay_what_failed(world: &Rc<World>) -> bool {
    let Some(process) = world.running() else { return false };
    let letters = match all(async |after| crate::store::Store::dead_letters(&*process.store, after, 3).await).await {
        Ok(letters) => letters,
        Err(error) => {
            world.violate(format!("dead letters cannot be read: {error}"));
            return false;
        }
    };
    for letter in letters {
        let replayed = match letter.attempts.last().map(|attempt| &attempt.reason) {
            Some(
                Reason::UpstreamUnavailable { .. }
                | Reason::UpstreamNotFound
                | Reason::UpstreamInvalid { .. }
                | Reason::Panicked { .. },
            ) => process.engine.replay(letter.position, "sim").await,
            _ => continue,
        };
        world.account.count("dead letter replayed");
        world.account.say(|| format!("the operator replays {}: {replayed:?}", letter.position));
        match replayed {
            Ok(position) => world.commanded.borrow_mut().push((position.lsn, (letter.position, true))),
            Err(error) => {
                world.violate(format!("the dead letter {} cannot be replayed: {error}", letter.position));
                return false;
            }
        }
    }
    true
}
