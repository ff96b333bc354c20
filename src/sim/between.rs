//! What stands between the engine and its store: time passes there, and planted faults are at work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::account::Account;
use super::planted::StoreFault;
use super::process::PANIC;
use crate::domain::query::{DeadLetter, EntityCursor, EntityFilter, Page};
use crate::domain::{
    Admission, Delivery, Entity, EntityKey, Kept, Lsn, MachineName, Pending, Position, Recorded, Shard, Timestamp,
};
use crate::store::disk::sim::Dice;
use crate::store::steps::Pace;
use crate::store::{Command, Commit, Committed, Due, Epoch, Error, Scope, Status, Store};

/// A store to which calls take time.
pub(crate) struct Between {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) pace: Pace,
    pub(crate) fault: Option<StoreFault>,
    /// Makes turns panic now and then, until all is calm.
    pub(crate) panics: Option<(Mutex<Dice>, Arc<AtomicBool>)>,
    pub(crate) account: Account,
}

impl Between {
    /// What only actors ask for panics: nothing else may.
    fn roll(&self) {
        let Some((dice, calm)) = &self.panics else { return };
        if !calm.load(Ordering::SeqCst) && dice.lock().unwrap().roll(60) == 0 {
            self.account.count("actor that panicked");
            panic!("{PANIC}");
        }
    }
}

#[async_trait]
impl Store for Between {
    fn shards(&self) -> u16 {
        self.inner.shards()
    }

    fn id(&self) -> [u8; 16] {
        self.inner.id()
    }

    async fn append(&self, delivery: Delivery) -> Result<Vec<Admission>, Error> {
        (self.pace)().await;
        let answer = match &self.fault {
            Some(fault) => fault.append(&*self.inner, delivery).await,
            None => self.inner.append(delivery).await,
        };
        (self.pace)().await;
        answer
    }

    async fn command(&self, command: Command) -> Result<Position, Error> {
        (self.pace)().await;
        self.inner.command(command).await
    }

    async fn adopt(&self, shard: Shard) -> Result<Epoch, Error> {
        self.inner.adopt(shard).await
    }

    async fn arrivals(&self, shards: &[Shard]) -> Result<Vec<EntityKey>, Error> {
        let found = self.inner.arrivals(shards).await?;
        (self.pace)().await;
        Ok(self.fault.as_ref().map_or_else(|| found.clone(), |fault| fault.arrivals(found.clone())))
    }

    async fn pending(&self, scope: Scope<'_>, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        self.roll();
        (self.pace)().await;
        let found = self.inner.pending(scope, now, limit).await?;
        (self.pace)().await;
        Ok(self.fault.as_ref().map_or_else(|| found.clone(), |fault| fault.pending(found.clone())))
    }

    async fn load(&self, key: &EntityKey) -> Result<Option<Entity>, Error> {
        (self.pace)().await;
        let found = self.inner.load(key).await;
        (self.pace)().await;
        found
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        (self.pace)().await;
        let answer = match &self.fault {
            Some(fault) => fault.commit(&*self.inner, commit).await,
            None => self.inner.commit(commit).await,
        };
        (self.pace)().await;
        answer
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, Error> {
        (self.pace)().await;
        let found = self.inner.due(now, limit).await?;
        Ok(self.fault.as_ref().map_or_else(|| found.clone(), |fault| fault.due(found.clone())))
    }

    async fn entities(
        &self,
        filter: &EntityFilter,
        after: Option<&EntityCursor>,
        limit: usize,
    ) -> Result<Page<Entity, EntityCursor>, Error> {
        (self.pace)().await;
        self.inner.entities(filter, after, limit).await
    }

    async fn entries(
        &self,
        entity: Option<&EntityKey>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<Recorded, Position>, Error> {
        (self.pace)().await;
        self.inner.entries(entity, after, limit).await
    }

    async fn feed(&self, after: Option<Position>, limit: usize) -> Result<Page<Recorded, Position>, Error> {
        (self.pace)().await;
        let page = self.inner.feed(after, limit).await?;
        Ok(self.fault.as_ref().map_or_else(|| page.clone(), |fault| fault.feed(page.clone())))
    }

    async fn synced_beyond(&self, lsn: Lsn) -> Result<Lsn, Error> {
        self.inner.synced_beyond(lsn).await
    }

    async fn dead_letters(&self, after: Option<Position>, limit: usize) -> Result<Page<DeadLetter, Position>, Error> {
        (self.pace)().await;
        self.inner.dead_letters(after, limit).await
    }

    async fn dead_letter(&self, position: Position) -> Result<Option<DeadLetter>, Error> {
        (self.pace)().await;
        self.inner.dead_letter(position).await
    }

    async fn delivery(&self, position: Position) -> Result<Option<Kept>, Error> {
        (self.pace)().await;
        self.inner.delivery(position).await
    }

    async fn machines(&self) -> Result<BTreeMap<MachineName, (u32, [u8; 32])>, Error> {
        self.inner.machines().await
    }

    fn status(&self) -> Status {
        self.inner.status()
    }

    async fn close(&self) -> Result<(), Error> {
        self.inner.close().await
    }
}
