//! The embedded store: a journal that is the truth, the seen ids beside it, and a view for readers, in one directory.
//!
//! Two threads own what must have one owner: the committer writes the journal, the applier writes the view. Everybody
//! else sends requests to the committer and reads; what only memory can answer is answered at once, the rest on
//! threads that may wait. A simulation drives the two by steps instead, and reads at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::committer::{self, Committer, Elsewhere, Request};
use super::courtesy::step_back;
use super::disk::{Lock, OsDisk};
use super::layout::Layout;
use super::lock::unpoisoned;
use super::open::{Disks, Opened, open};
use super::prepared::{PreparedCommit, PreparedDelivery};
use super::replay::Replay;
use super::seen::Work;
use super::shared::Shared;
use super::stage::Reply;
use super::{Command, Commit, Committed, Due, Epoch, Error, Options, Scope, Status, Store};
use crate::domain::query::{DeadLetter, EntityCursor, EntityFilter, Page};
use crate::domain::{
    Admission, Delivery, Entity, EntityKey, Entry, Kept, Lsn, MachineName, Pending, Position, Recorded, Shard,
    Timestamp,
};

/// How far the applier steps back: nobody waits for the view.
const APPLIER_BEHIND: i32 = 6;

/// How many reads may wait for the disk at once. Each waits on a thread, whose allocator keeps megabytes of its own.
const READS_MAX: usize = 4;

/// The embedded store.
pub struct EmbeddedStore {
    pub(super) shared: Arc<Shared>,
    reads: Semaphore,
    running: Mutex<Running>,
    hands: Hands,
}

/// By whom a store's work is done.
pub(super) enum Hands {
    /// By threads.
    Threads,
    /// By whoever drives it step by step, and tells when the applier has ended.
    #[cfg(test)]
    Steps(Arc<tokio::sync::Notify>),
}

/// What ends when the store does.
struct Running {
    requests: Option<mpsc::Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
    lock: Option<Lock>,
}

impl EmbeddedStore {
    /// Opens the store in a directory, or creates it.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::OtherShards`], [`Error::Corrupt`], [`Error::Full`], [`Error::Io`].
    #[expect(clippy::needless_pass_by_value, reason = "they are the store's from here on")]
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        // Also makes the directory. What is kept there is nobody else's to read: payloads name customers.
        OsDisk::new(dir)?;
        let layout = Layout::new(dir);
        let lock = layout.lock()?;
        Self::open_on(&layout, lock, &Disks::of(&layout)?, &options)
    }

    pub(super) fn open_on(layout: &Layout, lock: Lock, disks: &Disks, options: &Options) -> Result<Self, Error> {
        let Opened { journal, ids, replay: Replay { shared, applier, .. } } = open(layout, disks, options)?;
        let (requests, received) = mpsc::channel(shared.options.waiting.max(1));
        let committer = Committer::new(Arc::clone(&shared), journal, ids, on_threads(requests.downgrade()));
        let committing = move || {
            committer::run(committer, received);
            Ok(())
        };
        let committing = spawn("store-committer", &shared, committing)?;
        let applying = spawn("store-applier", &shared, move || {
            step_back(APPLIER_BEHIND);
            applier.run()
        })?;
        Ok(Self::assemble(shared, requests, vec![committing, applying], lock, Hands::Threads))
    }

    pub(super) fn assemble(
        shared: Arc<Shared>,
        requests: mpsc::Sender<Request>,
        threads: Vec<JoinHandle<()>>,
        lock: Lock,
        hands: Hands,
    ) -> Self {
        let running = Running { requests: Some(requests), threads, lock: Some(lock) };
        Self { shared, reads: Semaphore::new(READS_MAX), running: Mutex::new(running), hands }
    }

    /// Asks the committer. `wait` says whether a full queue is waited for, or is an error.
    async fn ask<T>(&self, wait: bool, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        self.shared.signals.check()?;
        let stopped = || Error::Stopped { reason: "it was closed".to_owned() };
        let requests = self.running().requests.clone().ok_or_else(stopped)?;
        let (reply, answer) = oneshot::channel();
        let request = request(reply);
        if wait {
            requests.send(request).await.map_err(|_| stopped())?;
        } else {
            requests.try_send(request).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => Error::Busy,
                mpsc::error::TrySendError::Closed(_) => stopped(),
            })?;
        }
        answer.await.unwrap_or_else(|_| self.shared.signals.check().and_then(|()| Err(stopped())))
    }

    /// Reads what may have to wait for the disk.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.shared.signals.check()?;
        let failed = |why: String| Error::Stopped { reason: why };
        let _permit = self.reads.acquire().await.map_err(|error| failed(error.to_string()))?;
        match &self.hands {
            Hands::Threads => {
                let shared = Arc::clone(&self.shared);
                let answer = tokio::task::spawn_blocking(move || read(&shared)).await;
                answer.map_err(|error| failed(format!("a read ended early: {error}")))?
            }
            #[cfg(test)]
            Hands::Steps(_) => read(&self.shared),
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        unpoisoned(self.running.lock())
    }

    /// Ends the threads, closes the view and gives the directory free.
    fn end(shared: &Shared, threads: Vec<JoinHandle<()>>, lock: Option<Lock>) {
        for thread in threads {
            // A panic was told when it happened.
            drop(thread.join());
        }
        let view = unpoisoned(shared.view.write()).take();
        if let Some(view) = view {
            view.close();
        }
        drop(lock);
    }

    fn take_running(&self) -> (Vec<JoinHandle<()>>, Option<Lock>) {
        let mut running = self.running();
        running.requests = None;
        (std::mem::take(&mut running.threads), running.lock.take())
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.stop("it was dropped");
        let (threads, lock) = self.take_running();
        Self::end(&self.shared, threads, lock);
    }
}

/// Has file work of the seen ids done by a thread of its own.
fn on_threads(back: mpsc::WeakSender<Request>) -> Elsewhere {
    Box::new(move |work| {
        let back = back.upgrade()?;
        let (give, taken) = oneshot::channel::<Work>();
        let write = move || {
            step_back(APPLIER_BEHIND);
            if let Ok(work) = taken.blocking_recv() {
                // If nobody takes it back the store has ended, and the next opening does it again.
                drop(back.blocking_send(Request::Worked(Box::new(work.run()))));
            }
        };
        if let Err(error) = thread::Builder::new().name("store-seen-ids".to_owned()).spawn(write) {
            tracing::warn!(%error, "no thread for the file of seen ids; it is written between two groups");
        }
        // Without a thread there is nobody to take it: senders wait a little.
        give.send(work).err()
    })
}

/// Starts a thread whose error or panic stops the store.
fn spawn(
    name: &str,
    shared: &Arc<Shared>,
    work: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let shared = Arc::clone(shared);
    let guarded = move || match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => drop(shared.fail(&error)),
        Err(_) => drop(shared.fail(&Error::Stopped { reason: "a thread of the store panicked".to_owned() })),
    };
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(guarded);
    spawned.map_err(|error| Error::Io { action: format!("starting the thread `{name}`"), detail: error.to_string() })
}

#[async_trait]
impl Store for EmbeddedStore {
    fn shards(&self) -> u16 {
        self.shared.shards
    }

    fn id(&self) -> [u8; 16] {
        self.shared.reader.store_id().0
    }

    async fn append(&self, delivery: Delivery) -> Result<Vec<Admission>, Error> {
        let prepared = Box::new(PreparedDelivery::of(delivery, self.shared.shards, self.shared.is_behind())?);
        let (admissions, prepared) = self.ask(false, |reply| Request::Append(prepared, reply)).await?;
        drop(prepared);
        Ok(admissions)
    }

    async fn command(&self, command: Command) -> Result<Position, Error> {
        self.shared.signals.proved().await?;
        self.ask(true, |reply| Request::Command(Box::new(command), reply)).await
    }

    async fn adopt(&self, shard: Shard) -> Result<Epoch, Error> {
        self.shared.signals.check()?;
        let epoch = self.shared.state().window.adopt(shard)?;
        self.shared.signals.ring();
        Ok(epoch)
    }

    async fn arrivals(&self, shards: &[Shard]) -> Result<Vec<EntityKey>, Error> {
        self.shared.signals.arrivals(|began| self.shared.state().window.announce_to(shards, began)).await
    }

    async fn pending(&self, scope: Scope<'_>, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        self.shared.signals.check()?;
        if let Some(pending) = self.shared.pending_at_hand(scope, limit) {
            return Ok(pending);
        }
        match scope {
            Scope::Shard(shard) => self.read(move |shared| shared.pending(Scope::Shard(shard), now, limit)).await,
            Scope::Entity(entity) => {
                let entity = entity.clone();
                self.read(move |shared| shared.pending(Scope::Entity(&entity), now, limit)).await
            }
        }
    }

    async fn load(&self, key: &EntityKey) -> Result<Option<Entity>, Error> {
        self.shared.signals.check()?;
        let held = if let Ok(held) = self.shared.held_at_hand(key) {
            held
        } else {
            let key = key.clone();
            self.read(move |shared| shared.held(&key)).await?
        };
        Ok(held.map(|held| held.entity.clone()))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        // What is decided on a view that turns out damaged would stand in the journal for ever.
        self.shared.signals.proved().await?;
        let prepared = Box::new(PreparedCommit::of(commit, self.shared.shards)?);
        let (committed, prepared) = self.ask(true, |reply| Request::Commit(prepared, reply)).await?;
        drop(prepared);
        Ok(committed)
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, Error> {
        self.shared.signals.check()?;
        let counts = self.shared.state().counts;
        if counts.retries == 0 && counts.checks == 0 {
            return Ok(Due::default());
        }
        self.read(move |shared| shared.due(now, limit)).await
    }

    async fn entities(
        &self,
        filter: &EntityFilter,
        after: Option<&EntityCursor>,
        limit: usize,
    ) -> Result<Page<Entity, EntityCursor>, Error> {
        let (filter, after) = (filter.clone(), after.cloned());
        self.read(move |shared| shared.entities(&filter, after.as_ref(), limit)).await
    }

    async fn entries(
        &self,
        entity: Option<&EntityKey>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<Recorded, Position>, Error> {
        if let Some(entity) = entity.cloned() {
            return self.read(move |shared| shared.entries_of(&entity, after, limit)).await;
        }
        let (page, at_end) = self.read(move |shared| shared.entries(after, limit, |_| true)).await?;
        Ok(Page { next: page.next.filter(|_| !at_end), items: page.items })
    }

    async fn feed(&self, after: Option<Position>, limit: usize) -> Result<Page<Recorded, Position>, Error> {
        Ok(self.read(move |shared| shared.entries(after, limit, Entry::is_move)).await?.0)
    }

    async fn synced_beyond(&self, lsn: Lsn) -> Result<Lsn, Error> {
        self.shared.signals.synced_beyond(lsn).await
    }

    async fn dead_letters(&self, after: Option<Position>, limit: usize) -> Result<Page<DeadLetter, Position>, Error> {
        self.read(move |shared| shared.dead_letters(after, limit)).await
    }

    async fn dead_letter(&self, position: Position) -> Result<Option<DeadLetter>, Error> {
        self.read(move |shared| shared.dead_letter(position)).await
    }

    async fn delivery(&self, position: Position) -> Result<Option<Kept>, Error> {
        self.read(move |shared| shared.delivery(position)).await
    }

    async fn machines(&self) -> Result<BTreeMap<MachineName, (u32, [u8; 32])>, Error> {
        self.shared.signals.check()?;
        Ok(self.shared.state().machines.clone())
    }

    fn status(&self) -> Status {
        let journal_bytes = self.shared.reader.segments().iter().map(|segment| segment.bytes).sum();
        let state = self.shared.state();
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Status {
            synced: state.synced,
            applied: state.applied,
            pending: count(state.counts.pending),
            retries: count(state.counts.retries),
            checks: count(state.counts.checks),
            dead_letters: count(state.counts.dead_letters),
            entities: count(state.counts.entities),
            journal_bytes,
            proving: !self.shared.signals.is_proved(),
        }
    }

    async fn close(&self) -> Result<(), Error> {
        let closed = self.ask(true, Request::Close).await;
        let (threads, lock) = self.take_running();
        match &self.hands {
            Hands::Threads => {
                let shared = Arc::clone(&self.shared);
                let ended = tokio::task::spawn_blocking(move || Self::end(&shared, threads, lock)).await;
                closed.and(ended.map_err(|error| Error::Stopped { reason: format!("closing ended early: {error}") }))
            }
            #[cfg(test)]
            Hands::Steps(ended) => {
                ended.notified().await;
                Self::end(&self.shared, threads, lock);
                closed
            }
        }
    }
}
