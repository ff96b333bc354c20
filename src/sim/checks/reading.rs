//! What is read of a store, against what one pass over its journal says.

use std::collections::BTreeSet;

use super::super::process::Process;
use super::super::world::{World, all};
use crate::domain::Position;
use crate::domain::query::EntityFilter;
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
