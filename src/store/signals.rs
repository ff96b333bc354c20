//! How waiting callers learn of news: events that arrived, records that became durable, and the end of the store.

use std::sync::OnceLock;

use tokio::sync::{Notify, watch};

use super::{Epoch, Error};
use crate::domain::{EntityKey, Lsn};

/// The bells of a store.
pub(super) struct Signals {
    arrivals: Notify,
    synced: watch::Sender<Lsn>,
    /// Whether the view is proved whole.
    proved: watch::Sender<bool>,
    stopped: OnceLock<String>,
}

impl Signals {
    /// `synced` is the last durable LSN, `proved` says whether what is read is proved whole.
    pub(super) fn new(synced: Lsn, proved: bool) -> Self {
        let (synced, proved) = (watch::Sender::new(synced), watch::Sender::new(proved));
        Self { arrivals: Notify::new(), synced, proved, stopped: OnceLock::new() }
    }

    /// An error if the store has stopped.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.stopped.get().map_or(Ok(()), |reason| Err(Error::Stopped { reason: reason.clone() }))
    }

    /// Ends the store: everybody who waits, now or later, learns why. The first reason stays.
    pub(super) fn stop(&self, reason: &str) {
        // A second reason is dropped on purpose: what came first is what happened.
        drop(self.stopped.set(reason.to_owned()));
        self.synced.send_modify(|_| {});
        self.proved.send_modify(|_| {});
        self.ring();
    }

    /// Records up to `lsn` are durable.
    pub(super) fn synced(&self, lsn: Lsn) {
        self.synced.send_replace(lsn);
    }

    /// Waits until a record beyond `lsn` is durable.
    pub(super) async fn synced_beyond(&self, lsn: Lsn) -> Result<Lsn, Error> {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as `self`, so the wait ends by news only.
        let news = synced.wait_for(|synced| self.stopped.get().is_some() || *synced > lsn).await.map(|synced| *synced);
        self.check()?;
        news.map_err(|_| Error::Stopped { reason: "it was dropped".to_owned() })
    }

    /// The view is proved whole.
    pub(super) fn prove(&self) {
        self.proved.send_replace(true);
    }

    /// Whether the view is proved whole.
    pub(super) fn is_proved(&self) -> bool {
        *self.proved.borrow()
    }

    /// Waits until the view is proved whole.
    pub(super) async fn proved(&self) -> Result<(), Error> {
        // Nearly always so, and asked of every commit: a subscription of its own is a lock that all meet.
        if self.is_proved() {
            return self.check();
        }
        let mut proved = self.proved.subscribe();
        let news = proved.wait_for(|proved| *proved || self.stopped.get().is_some()).await.map(|_| ());
        self.check()?;
        news.map_err(|_| Error::Stopped { reason: "it was dropped".to_owned() })
    }

    /// Events arrived, or a shard has a new owner. One bell for all shards: few wait for it, each for many shards.
    pub(super) fn ring(&self) {
        self.arrivals.notify_waiters();
    }

    /// Waits until `take` finds entities. It is given the epochs in which the wait began, none at first: a wait that
    /// outlives the owner of one of its shards ends, so that it takes nothing from the next.
    pub(super) async fn arrivals(
        &self,
        mut take: impl FnMut(&mut Vec<Epoch>) -> Result<Vec<EntityKey>, Error>,
    ) -> Result<Vec<EntityKey>, Error> {
        let mut began = Vec::new();
        loop {
            let mut rung = std::pin::pin!(self.arrivals.notified());
            rung.as_mut().enable();
            self.check()?;
            let found = take(&mut began)?;
            if !found.is_empty() {
                return Ok(found);
            }
            rung.await;
        }
    }
}
