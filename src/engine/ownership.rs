//! Which shards a dispatcher owns, and in which epoch of each.

use std::collections::BTreeMap;

use crate::domain::{EntityKey, Shard};
use crate::store::{self, Epoch, Store};

/// The shards of one owner.
#[derive(Clone, Debug)]
pub(super) struct Ownership {
    /// The store's count of shards.
    shards: u16,
    epochs: BTreeMap<Shard, Epoch>,
}

impl Ownership {
    /// Takes these shards over: whoever had them can commit no more.
    pub(super) async fn take(store: &dyn Store, shards: &[Shard]) -> Result<Self, store::Error> {
        let mut epochs = BTreeMap::new();
        for shard in shards {
            epochs.insert(*shard, store.adopt(*shard).await?);
        }
        Ok(Self { shards: store.shards(), epochs })
    }

    /// The epoch in which an entity's shard is owned. One of a shard that is not owned has none that counts: its commits
    /// are fenced.
    pub(super) fn epoch_of(&self, key: &EntityKey) -> Epoch {
        self.epochs.get(&key.shard(self.shards)).copied().unwrap_or(Epoch(0))
    }
}
