//! A store under test, and what can happen to it between two calls.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::facts;
use super::gate::Gate;
use crate::domain::{Admission, Delivery, Disposition, Entity, EntityKey, Entry, Judged, Pending, Position, Timestamp};
use crate::store::disk::sim::{Dice, SimDisk};
use crate::store::embedded::EmbeddedStore;
use crate::store::layout::Layout;
use crate::store::memory::MemoryStore;
use crate::store::open::Disks;
use crate::store::{Commit, Epoch, Error, Options, Scope, Store};

/// How many shards the stores under test have.
pub(crate) const SHARDS: u16 = 4;

/// Long enough that changes of one entity meet, short enough that much is in the view when something happens.
const GATHER_FOR: Duration = Duration::from_millis(2);

/// A store under test.
pub(crate) struct Rig {
    engine: Engine,
    turn: Turn,
    store: Option<Arc<dyn Store>>,
}

enum Engine {
    Memory,
    Embedded(Box<Bench>),
}

/// What an embedded store under test stands on.
pub(crate) struct Bench {
    dir: TempDir,
    pub(crate) journal: SimDisk,
    pub(crate) seen: SimDisk,
    /// Stands before the journal's disk.
    pub(crate) gate: Gate,
    pub(crate) options: Options,
    dice: Dice,
    crashes: u32,
    layout: Layout,
}

#[derive(Clone, Copy)]
enum Turn {
    Stay,
    Reopen,
    Crash,
}

impl Rig {
    /// The store in memory.
    pub(crate) fn memory() -> Self {
        Self { engine: Engine::Memory, turn: Turn::Stay, store: Some(Arc::new(MemoryStore::new(SHARDS))) }
    }

    /// The embedded store.
    pub(crate) fn embedded() -> Self {
        Self::with(options(), Turn::Stay)
    }

    /// The embedded store, closed and opened again at every turn.
    pub(crate) fn reopened() -> Self {
        Self::with(options(), Turn::Reopen)
    }

    /// The embedded store, which loses at every turn what was not synced.
    pub(crate) fn crashed() -> Self {
        Self::with(options(), Turn::Crash)
    }

    /// The embedded store with other options.
    pub(crate) fn embedded_with(options: Options) -> Self {
        Self::with(options, Turn::Stay)
    }

    fn with(options: Options, turn: Turn) -> Self {
        let bench = Bench::new(options);
        let store = bench.open().unwrap();
        Self { engine: Engine::Embedded(Box::new(bench)), turn, store: Some(Arc::new(store)) }
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().unwrap()
    }

    /// The store, for a task of its own.
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        Arc::clone(self.store.as_ref().unwrap())
    }

    /// Something may happen to the store here.
    pub(crate) async fn turn(&mut self) {
        match self.turn {
            Turn::Stay => {}
            Turn::Reopen => self.reopen().await,
            Turn::Crash => self.crash(),
        }
    }

    /// Closes the store and opens it again, if it keeps anything.
    pub(crate) async fn reopen(&mut self) {
        if let Engine::Embedded(bench) = &self.engine {
            self.store.take().unwrap().close().await.unwrap();
            self.store = Some(Arc::new(bench.open().unwrap()));
        }
    }

    /// Takes the power away, if the store keeps anything.
    pub(crate) fn crash(&mut self) {
        if let Engine::Embedded(bench) = &mut self.engine {
            bench.crash(|| self.store = None);
            self.store = Some(Arc::new(bench.open().unwrap()));
        }
    }

    /// Takes the store away, and lets somebody meddle with what it keeps before it is opened again.
    pub(crate) async fn meddle(&mut self, meddle: impl FnOnce(&Bench, &Path)) -> Result<(), Error> {
        if let Engine::Embedded(bench) = &self.engine {
            if let Some(store) = self.store.take() {
                // It may have stopped before.
                drop(store.close().await);
            }
            meddle(bench, &bench.layout.view());
            self.store = Some(Arc::new(bench.open()?));
        }
        Ok(())
    }

    /// What the embedded store stands on.
    pub(crate) fn bench(&self) -> &Bench {
        match &self.engine {
            Engine::Embedded(bench) => bench,
            Engine::Memory => panic!("the store in memory stands on nothing"),
        }
    }

    /// Appends and expects every item to be accepted; answers the positions.
    pub(crate) async fn accept(&self, delivery: Delivery) -> Vec<Position> {
        let admissions = self.store().append(delivery).await.unwrap();
        let position = |admission| match admission {
            Admission::Accepted(position) => position,
            Admission::Duplicate(_) | Admission::Conflict { .. } => panic!("not accepted: {admission:?}"),
        };
        admissions.into_iter().map(position).collect()
    }

    /// Takes over the shard of an entity.
    pub(crate) async fn adopt(&self, entity: &EntityKey) -> Epoch {
        self.store().adopt(entity.shard(SHARDS)).await.unwrap()
    }

    /// Commits these entries and judgements as the newest owner, on the newest version.
    pub(crate) async fn commit(
        &self,
        entity: &EntityKey,
        entries: Vec<Entry>,
        judged: Vec<Judged>,
    ) -> Result<u64, Error> {
        let before = self.load(entity).await;
        let commit = facts::commit(entity, before.as_ref(), self.adopt(entity).await);
        let commit = Commit { entries: entries.into(), judged, ..commit };
        self.store().commit(commit).await.map(|committed| committed.lsn.0)
    }

    /// What becomes of one event, and nothing else.
    pub(crate) async fn judge(&self, entity: &EntityKey, position: Position, disposition: Disposition) {
        self.commit(entity, Vec::new(), vec![facts::judged(position, disposition)]).await.unwrap();
    }

    /// Decides all that is pending of an entity.
    pub(crate) async fn decide(&self, entity: &EntityKey) -> Entity {
        self.decide_pending(entity).await;
        self.load(entity).await.unwrap()
    }

    /// Decides all that is pending of an entity; answers what that was.
    pub(crate) async fn decide_pending(&self, entity: &EntityKey) -> Vec<Position> {
        let (before, pending) = (self.load(entity).await, self.pending(entity, Timestamp::MAX).await);
        if !pending.is_empty() {
            let commit = facts::decide(entity, before.as_ref(), &pending, self.adopt(entity).await);
            self.store().commit(commit).await.unwrap();
        }
        pending.iter().map(|pending| pending.position).collect()
    }

    /// The entity.
    pub(crate) async fn load(&self, entity: &EntityKey) -> Option<Entity> {
        self.store().load(entity).await.unwrap()
    }

    /// What is pending of an entity.
    pub(crate) async fn pending(&self, entity: &EntityKey, now: Timestamp) -> Vec<Pending> {
        self.store().pending(Scope::Entity(entity), now, 1000).await.unwrap()
    }
}

impl Bench {
    fn new(options: Options) -> Self {
        let dir = TempDir::new().unwrap();
        let layout = Layout::new(&dir.path().join("data-0"));
        let journal = SimDisk::default();
        let gate = Gate::new(journal.clone());
        Self { dir, journal, gate, seen: SimDisk::default(), options, dice: Dice(7), crashes: 0, layout }
    }

    /// Opens the store.
    pub(crate) fn open(&self) -> Result<EmbeddedStore, Error> {
        fs::create_dir_all(self.layout.settings().parent().unwrap()).unwrap();
        let disks = Disks { journal: Arc::new(self.gate.clone()), seen: Arc::new(self.seen.clone()) };
        EmbeddedStore::open_on(&self.layout, self.layout.lock().unwrap(), &disks, &self.options)
    }

    /// The files of the view are left as they are in the middle of the work, and what was not synced of the journal is
    /// lost.
    fn crash(&mut self, drop_store: impl FnOnce()) {
        self.crashes += 1;
        let next = self.dir.path().join(format!("data-{}", self.crashes));
        copy(&self.layout.view(), &next.join("view"));
        fs::copy(self.layout.settings(), next.join("store.toml")).unwrap();
        drop_store();
        self.journal.crash(&mut self.dice);
        self.seen.crash(&mut self.dice);
        self.layout = Layout::new(&next);
    }
}

/// The options of the stores under test: small, so that every bound is met.
pub(crate) fn options() -> Options {
    let mut options = Options {
        shards: Some(SHARDS),
        window_decoded_bytes: 4000,
        entities_bytes: 2000,
        gather_for: GATHER_FOR,
        ..Options::default()
    };
    options.overlay_bytes = 4000;
    options.view_cache_bytes = 1 << 20;
    options.journal.segment_bytes = 8 << 10;
    options.journal.frame_bytes_max = 64 << 10;
    options
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
