//! What is read of a store, against what one pass over its journal says.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;

use super::super::process::Process;
use super::super::world::{World, all};
use crate::domain::query::EntityFilter;
use crate::domain::{Entity, Position, StateName, Timestamp};
use crate::store::embedded::EmbeddedStore;
use crate::store::oracle::Told;
use crate::store::{self, Store as _};

/// What the store answers by its view, its overlay and its window is what one pass over the journal gives.
pub(super) async fn what_is_read_is_what_is_told(
    world: &World,
    process: &Process,
    told: &Told,
) -> Result<(), store::Error> {
    let store = &*process.store;
    let filter = EntityFilter::default();
    let entities = all(async |after| store.entities(&filter, after.as_ref(), 2).await).await?;
    if !entities.iter().eq(told.entities.values()) {
        world.violate(format!("entities are read as {entities:?}, the journal says {:?}", told.entities));
    }
    lists_are_what_is_told(world, store, told).await?;
    let entries = all(async |after| store.entries(None, after, 3).await).await?;
    if entries != told.entries {
        world.violate(format!("{} entries are read, the journal has {}", entries.len(), told.entries.len()));
    }
    for (key, entity) in &told.entities {
        let own = all(async |after| store.entries(Some(key), after, 2).await).await?;
        let must: Vec<_> = told.entries.iter().filter(|recorded| recorded.entity == *key).cloned().collect();
        if own != must {
            world.violate(format!("{} entries of `{key}` are read, the journal has {}", own.len(), must.len()));
        }
        if store.load(key).await?.as_ref() != Some(entity) {
            world.violate(format!("`{key}` is not loaded as the journal has it"));
        }
    }
    let dead: BTreeSet<Position> = all(async |after| store.dead_letters(after, 2).await)
        .await?
        .into_iter()
        .map(|letter| letter.position)
        .collect();
    if dead != told.dead {
        world.violate(format!("dead letters are read at {dead:?}, the journal has {:?}", told.dead));
    }
    let status = process.status();
    let counts = (status.pending, status.retries, status.dead_letters, status.entities);
    let len = |len: usize| u64::try_from(len).unwrap();
    let must = (len(told.pending.len()), len(told.waiting.len()), len(told.dead.len()), len(told.entities.len()));
    if counts != must {
        world.violate(format!("it counts {counts:?}, the journal has {must:?}"));
    }
    Ok(())
}

/// One who follows the feed now is shown every move.
pub(super) async fn the_feed_is_whole(world: &World, process: &Process, told: &Told) -> Result<(), store::Error> {
    let (mut shown, mut after) = (Vec::new(), None);
    loop {
        let page = process.store.feed(after, 3).await?;
        shown.extend(page.items);
        if page.next.is_none() || page.next == after {
            break;
        }
        after = page.next;
    }
    if !shown.iter().eq(told.entries.iter().filter(|recorded| recorded.entry.is_move())) {
        world.violate(format!("the feed has {} moves, and not those that the journal has", shown.len()));
    }
    Ok(())
}

/// Entities by state, source and kind.
async fn lists_are_what_is_told(world: &World, store: &EmbeddedStore, told: &Told) -> Result<(), store::Error> {
    let mut filters = Vec::new();
    for (key, entity) in &told.entities {
        let (source, kind) = (Some(key.source.clone()), Some(key.kind.clone()));
        filters.push(EntityFilter { source: source.clone(), ..EntityFilter::default() });
        filters.push(EntityFilter { source, kind: kind.clone(), ..EntityFilter::default() });
        for held in entity.ladder().machines.values() {
            let state = Some(held.state.clone());
            filters.push(EntityFilter { state: state.clone(), ..EntityFilter::default() });
            filters.push(EntityFilter { kind: kind.clone(), state, ..EntityFilter::default() });
        }
    }
    for filter in filters {
        let found = all(async |after| store.entities(&filter, after.as_ref(), 2).await).await?;
        let must: Vec<_> = told.entities.values().filter(|entity| is_meant(&filter, entity)).collect();
        if !found.iter().eq(must.iter().copied()) {
            world.violate(format!("by {filter:?} are listed {found:?}, the journal says {must:?}"));
        }
    }
    Ok(())
}

fn is_meant(filter: &EntityFilter, entity: &Entity) -> bool {
    let EntityFilter { source, kind, id: None, partition: None, state } = filter else { return false };
    let is_in = |state: &StateName| entity.ladder().machines.values().any(|held| held.state == *state);
    source.as_ref().is_none_or(|source| *source == entity.key.source)
        && kind.as_ref().is_none_or(|kind| *kind == entity.key.kind)
        && state.as_ref().is_none_or(is_in)
}

/// Everything that waits for a time is due some day, and nothing else.
pub(super) fn what_is_due_is_told(world: &World, process: &Process, told: &Told) {
    let due = process.store.due(Timestamp::MAX, usize::MAX).now_or_never();
    if !process.life.goes_on() {
        // It died just now.
        return;
    }
    let Some(Ok(due)) = due else { return world.violate(format!("what is due cannot be read: {due:?}")) };
    let checks = told.entities.iter().filter(|(_, entity)| entity.check.is_some()).map(|(key, _)| key);
    let must: BTreeSet<_> = told.waiting.values().map(|(entity, _)| entity).chain(checks).collect();
    if due.entities.len() != must.len() || !due.entities.iter().all(|entity| must.contains(entity)) {
        world.violate(format!("due are {:?}, the journal says {must:?}", due.entities));
    }
    let waits = told.pending.keys().next().map(|position| position.lsn);
    if waits.is_some_and(|waits| waits < process.store.scan_from()) {
        world.violate(format!("a restart would pass over the undecided event at record {waits:?}"));
    }
}
