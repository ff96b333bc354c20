//! Bringing work to the dispatchers: what arrives in each shard, and what is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::{EntityKey, Shard};

use super::run::Running;

/// How long a dispatcher at its bound waits before it looks again for room.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// How many due entities are woken in one go.
const DUE_MAX: usize = 10_000;

/// Where a dispatcher is told of work.
pub(super) trait Desk {
    /// These entities have work. Answers how many of them wait for room; none if the dispatcher is gone.
    fn arrived(&self, keys: Vec<EntityKey>) -> impl Future<Output = Option<usize>>;
}

/// Hands a shard's arrivals to its dispatcher until the engine stops.
pub(super) async fn run_shard(running: Arc<Running>, shard: Shard, dispatcher: impl Desk) {
    while !running.is_stopping() {
        let arrivals = tokio::select! {
            biased;
            () = running.stopped() => return,
            arrivals = running.core.store.arrivals(shard) => arrivals,
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
                None => return running.fail(&format!("the dispatcher of shard {} is gone", shard.0)),
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
                for (shard, keys) in by_shard(due.entities, shards) {
                    if let Some(dispatcher) = dispatchers.get(usize::from(shard.0))
                        && dispatcher.arrived(keys).await.is_none()
                    {
                        return running.fail(&format!("the dispatcher of shard {} is gone", shard.0));
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

fn by_shard(keys: Vec<EntityKey>, shards: u16) -> BTreeMap<Shard, Vec<EntityKey>> {
    let mut out: BTreeMap<Shard, Vec<EntityKey>> = BTreeMap::new();
    for key in keys {
        out.entry(key.shard(shards)).or_default().push(key);
    }
    out
}
