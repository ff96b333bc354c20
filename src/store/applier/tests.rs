//! What the applier does when a view finds no space.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::disk::sim::{Dice, SimDisk};
use super::super::embedded::EmbeddedStore;
use super::super::keys::Key;
use super::super::layout::Layout;
use super::super::open::Disks;
use super::super::tree::sim::SimTrees;
use super::super::tree::{Pairs, See, Tree, Trees};
use super::super::{Action, Command, Error, Options, Store};
use crate::domain::{Lsn, Timestamp};

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
