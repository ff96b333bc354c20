//! Waking what is due: retries and checks whose time has come.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::prelude::*;

use crate::domain::{EntityKey, Shard};

use super::dispatcher::{Arrived, Dispatcher};
use super::run::Running;

/// How many due entities are woken in one go.
const DUE_MAX: usize = 10_000;

/// Wakes the entities whose retry or check is due, until the engine stops.
pub(super) async fn wake_due(running: Arc<Running>, dispatchers: Vec<Addr<Dispatcher>>) {
    let shards = running.core.store.shards();
    while !running.is_stopping() {
        match running.core.store.due(running.core.clock.now(), DUE_MAX).await {
            Ok(due) => {
                for (shard, keys) in by_shard(due.entities, shards) {
                    if let Some(dispatcher) = dispatchers.get(usize::from(shard.0))
                        && dispatcher.send(Arrived(keys)).await.is_err()
                    {
                        return running.fail(&format!("the dispatcher of shard {} is gone", shard.0));
                    }
                }
            }
            Err(error) => return running.fail(&error.to_string()),
        }
        tokio::select! {
            () = tokio::time::sleep(running.core.settings.tick) => {}
            () = running.stopped() => return,
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
