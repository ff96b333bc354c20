//! Bringing work to the dispatchers: what arrives in their shards, and what is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::{EntityKey, Shard};

use super::run::Running;

/// How long a dispatcher at its bound waits before it looks again for room.
pub(super) const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// How many due entities are woken in one go.
const DUE_MAX: usize = 10_000;

/// Where a dispatcher is told of work.
pub(super) trait Desk {
    /// These entities have work. Answers how many of them wait for room; none if the dispatcher is gone.
    fn arrived(&self, keys: Vec<EntityKey>) -> impl Future<Output = Option<usize>>;
}

/// Hands what arrives in these shards to their dispatcher until the engine stops.
pub(super) async fn feed(running: Arc<Running>, shards: Vec<Shard>, dispatcher: impl Desk) {
    while !running.is_stopping() {
        let arrivals = tokio::select! {
            biased;
            () = running.stopped() => return,
            arrivals = running.core.store.arrivals(&shards) => arrivals,
        };
        let mut keys = match arrivals {
            Ok(keys) => keys,
            Err(error) => return running.fail(&error.to_string()),
        };
        loop {
            match dispatcher.arrived(keys).await {
                Some(0) => break,
                Some(_) if running.is_stopping() => return,
                Some(_) => tokio::time::sleep(ROOM_PAUSE).await,
                None => return running.fail("a dispatcher is gone"),
            }
            keys = Vec::new();
        }
    }
}

/// Wakes the entities whose retry or check is due, until the engine stops.
pub(super) async fn wake_due(running: Arc<Running>, dispatchers: Vec<impl Desk>) {
    let shards = running.core.store.shards();
    while !running.is_stopping() {
        match running.core.store.due(running.core.clock.now(), DUE_MAX).await {
            Ok(due) => {
                for (owner, keys) in by_owner(due.entities, shards, dispatchers.len()) {
                    if let Some(dispatcher) = dispatchers.get(owner)
                        && dispatcher.arrived(keys).await.is_none()
                    {
                        return running.fail("a dispatcher is gone");
                    }
                }
            }
            Err(error) => return running.fail(&error.to_string()),
        }
        tokio::select! {
            biased;
            () = running.stopped() => return,
            () = tokio::time::sleep(running.core.settings.tick) => {}
        }
    }
}

/// Which of so many dispatchers owns a shard.
pub(super) fn owner_of(shard: Shard, dispatchers: usize) -> usize {
    usize::from(shard.0) % dispatchers.max(1)
}

fn by_owner(keys: Vec<EntityKey>, shards: u16, dispatchers: usize) -> BTreeMap<usize, Vec<EntityKey>> {
    let mut out: BTreeMap<usize, Vec<EntityKey>> = BTreeMap::new();
    for key in keys {
        out.entry(owner_of(key.shard(shards), dispatchers)).or_default().push(key);
    }
    out
}
