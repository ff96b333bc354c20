//! What the applier does when a view finds no space, and how much it reads to fill the window again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::disk::sim::{Dice, SimDisk};
use super::super::embedded::EmbeddedStore;
use super::super::keys::Key;
use super::super::layout::Layout;
use super::super::open::{Disks, Opened, open};
use super::super::tree::sim::SimTrees;
use super::super::tree::{Pairs, See, Tree, Trees};
use super::super::{Action, Command, Error, Options, Store};
use super::Step;
use crate::domain::{Admission, Disposition, Lsn, Position, Shard, Timestamp};
use crate::store::contract::facts::{commit, judged, queued, sub};

/// Trees that find no space while they are told so. Clones are the same place.
#[derive(Clone, Default)]
struct Tight {
    trees: SimTrees,
    full: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

struct TightTree {
    tree: Box<dyn Tree>,
    of: Tight,
}

impl Trees for Tight {
    fn exists(&self) -> bool {
        self.trees.exists()
    }

    fn open(&self, cache_bytes: u64) -> Result<Box<dyn Tree>, Error> {
        Ok(Box::new(TightTree { tree: self.trees.open(cache_bytes)?, of: self.clone() }))
    }

    fn set_aside(&self) -> Result<(), Error> {
        self.trees.set_aside()
    }
}

impl Tree for TightTree {
    fn place(&self) -> String {
        self.tree.place()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.tree.get(key)
    }

    fn range(&self, from: &[u8], end: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        self.tree.range(from, end, limit)
    }

    fn visit(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error> {
        self.tree.visit(from, end, see)
    }

    fn visit_back(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error> {
        self.tree.visit_back(from, end, see)
    }

    fn apply(&self, batch: Vec<(Key, Option<Vec<u8>>)>) -> Result<(), Error> {
        if self.of.full.load(Ordering::SeqCst) {
            self.of.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Error::Full);
        }
        self.tree.apply(batch)
    }

    fn fill(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Error> {
        self.tree.fill(pairs)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.tree.is_empty()
    }

    fn flush(&self) -> Result<(), Error> {
        self.tree.flush()
    }

    fn close(self: Box<Self>) {
        self.tree.close();
    }
}

fn command(version: u32) -> Command {
    let action = Action::MachineChanged { machine: "m".into(), version, sha256: [7; 32] };
    Command { by: Arc::from("test"), at: Timestamp::EPOCH, action }
}

#[tokio::test]
async fn the_applier_stops_the_store_when_its_view_finds_no_space_and_the_next_opening_has_all() {
    let (files, journal, seen, view) = (SimDisk::default(), SimDisk::default(), SimDisk::default(), Tight::default());
    let layout = Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(view.clone()));
    let disks = Disks { journal: Arc::new(journal.clone()), seen: Arc::new(seen.clone()) };
    let options = Options { gather_for: Duration::from_millis(1), ..Options::default() };
    let open = || EmbeddedStore::open_on(&layout, layout.lock().unwrap(), &disks, &options).unwrap();
    let store = open();
    view.full.store(true, Ordering::SeqCst);
    store.command(command(3)).await.unwrap();
    // Resolves when the store stops.
    let stopped = store.synced_beyond(Lsn(u64::MAX)).await.unwrap_err();
    assert!(matches!(&stopped, Error::Stopped { reason } if reason.contains("full")), "{stopped}");
    assert!(matches!(store.command(command(4)).await, Err(Error::Stopped { .. })));
    assert!(matches!(store.load(&crate::store::contract::facts::sub("a")).await, Err(Error::Stopped { .. })));
    drop(store);
    assert_eq!(view.refused.load(Ordering::SeqCst), 1, "it was tried again, or closing wrote");
    view.full.store(false, Ordering::SeqCst);
    for disk in [&files, &journal, &seen] {
        disk.crash(&mut Dice(1));
    }
    view.trees.crash(&mut Dice(1));
    assert_eq!(open().machines().await.unwrap().get("m"), Some(&(3, [7; 32])));
}

/// A store in memory, small enough that its window meets its bound.
struct Small {
    files: SimDisk,
    journal: SimDisk,
    layout: Layout,
    disks: Disks,
    options: Options,
}

impl Small {
    fn new() -> Self {
        let (files, journal) = (SimDisk::default(), SimDisk::default());
        let layout = Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(SimTrees::default()));
        let disks = Disks { journal: Arc::new(journal.clone()), seen: Arc::new(SimDisk::default()) };
        // Nothing goes to the view by itself.
        let gather_for = Duration::from_secs(3600);
        let mut options = Options { shards: Some(1), window_events: 10, gather_for, ..Options::default() };
        options.journal.segment_bytes = 4000;
        Self { files, journal, layout, disks, options }
    }

    /// A store whose window holds all that will be pending.
    fn begin(&self) -> EmbeddedStore {
        let options = Options { window_events: 1000, ..self.options.clone() };
        EmbeddedStore::open_on(&self.layout, self.layout.lock().unwrap(), &self.disks, &options).unwrap()
    }

    fn open(&self) -> Opened {
        open(&self.layout, &self.disks, &self.options).unwrap()
    }
}

/// Takes what the window holds, as if it were decided.
fn drain(opened: &Opened) -> Vec<Position> {
    let mut state = opened.replay.shared.state();
    let held: Vec<Position> = state.window.of_shard(Shard(0), 1000).iter().map(|slot| slot.position).collect();
    for position in &held {
        state.window.remove(Shard(0), &sub("sub_a"), *position);
    }
    held
}

#[tokio::test]
async fn a_long_backlog_is_read_once_after_a_restart_and_not_to_its_end_for_each_filling_of_the_window() {
    let small = Small::new();
    let store = small.begin();
    for n in 0..400 {
        store.append(queued(&format!("evt_{n}"), &sub("sub_a"), "active")).await.unwrap();
    }
    // Beyond what the window holds after the restart.
    let early = [12, 15].map(|lsn| Position { lsn: Lsn(lsn), item: 0 });
    let mut decided = commit(&sub("sub_a"), None, store.adopt(Shard(0)).await.unwrap());
    decided.judged = early.iter().map(|position| judged(*position, Disposition::Done)).collect();
    store.commit(decided).await.unwrap();
    drop(store);
    let mut opened = small.open();
    let (before, mut fillings, mut met) = (small.journal.reads(), 0, Vec::new());
    loop {
        met.extend(drain(&opened));
        if opened.replay.applier.step(false).unwrap() != Step::Worked {
            break;
        }
        fillings += 1;
    }
    let must: Vec<Position> =
        (1..=400).map(|lsn| Position { lsn: Lsn(lsn), item: 0 }).filter(|position| !early.contains(position)).collect();
    assert_eq!(met, must, "each that is undecided, once");
    let reads = small.journal.reads() - before;
    assert!(fillings > 30 && reads < 10 * fillings, "{reads} reads for {fillings} fillings");
}

#[tokio::test]
async fn what_was_decided_before_a_restart_is_passed_over_at_once_however_small_the_window() {
    let small = Small::new();
    let store = small.begin();
    let (entity, epoch) = (sub("sub_a"), store.adopt(Shard(0)).await.unwrap());
    let mut taken = Vec::new();
    for n in 0..400 {
        taken.extend(store.append(queued(&format!("evt_{n}"), &entity, "active")).await.unwrap());
    }
    for admission in taken {
        let Admission::Accepted(position) = admission else { panic!("it is new") };
        let mut decided = commit(&entity, None, epoch);
        decided.judged = vec![judged(position, Disposition::Done)];
        store.commit(decided).await.unwrap();
    }
    store.append(queued("evt_last", &entity, "active")).await.unwrap();
    drop(store);
    let reads = |open: &dyn Fn()| {
        let before = small.journal.reads();
        open();
        small.journal.reads() - before
    };
    let (large_window, small_window) = (reads(&|| drop(small.begin())), reads(&|| drop(small.open())));
    assert!(
        small_window < 2 * large_window,
        "{small_window} reads with a small window, {large_window} with a large one"
    );
    let last = drain(&small.open());
    assert_eq!(last.len(), 1, "{last:?}");
}

#[tokio::test]
async fn a_window_is_filled_again_while_there_is_no_space_for_what_the_view_lacks() {
    let small = Small::new();
    let store = small.begin();
    for n in 0..30 {
        store.append(queued(&format!("evt_{n}"), &sub("sub_a"), "active")).await.unwrap();
    }
    // More than one batch of the view, so that a redo file is needed.
    for machine in 0..250 {
        let action =
            Action::MachineChanged { machine: format!("m{machine}").as_str().into(), version: 1, sha256: [7; 32] };
        store.command(Command { by: Arc::from("test"), at: Timestamp::EPOCH, action }).await.unwrap();
    }
    drop(store);
    let mut opened = small.open();
    small.files.limit_space(Some(0));
    assert_eq!(does(&mut opened, Step::Pause), Some(Step::Pause));
    let mut met = Vec::new();
    for _ in 0..10 {
        met.extend(drain(&opened));
        opened.replay.applier.step(true).unwrap();
    }
    assert_eq!(met.len(), 30, "{met:?}");
    assert_eq!(does(&mut opened, Step::Pause), Some(Step::Pause), "it is tried again and again");
    small.files.limit_space(None);
    assert_eq!(does(&mut opened, Step::Applied), Some(Step::Applied));
}

/// Steps until this is done, which other work may stand before.
fn does(opened: &mut Opened, step: Step) -> Option<Step> {
    (0..10).map(|_| opened.replay.applier.step(true).unwrap()).find(|done| *done == step)
}
