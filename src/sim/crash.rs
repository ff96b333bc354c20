//! A process's disks, and the fuse that ends it in the midst of one of their operations.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::schedule::Life;
use crate::store::disk::sim::{Dice, SimDisk};
use crate::store::disk::{Disk, File, Lock, Space};
use crate::store::{self, Disks, Layout, SimTrees, Trees};

/// All that outlives a process.
#[derive(Clone, Default)]
pub(crate) struct Platters {
    pub(crate) files: SimDisk,
    pub(crate) journal: SimDisk,
    pub(crate) seen: SimDisk,
    pub(crate) view: SimTrees,
}

/// Ends a life after so many operations of its disks. Clones are the same fuse.
#[derive(Clone, Default)]
pub(crate) struct Fuse(Arc<Mutex<Wire>>);

#[derive(Default)]
struct Wire {
    left: Option<u64>,
    burnt: bool,
    /// Whether the disks of the dead may be read.
    examined: bool,
    rings: Arc<Notify>,
}

/// The disks as one life sees them.
#[derive(Clone)]
struct Wired {
    fuse: Fuse,
    life: Life,
}

struct FusedDisk {
    disk: Arc<dyn Disk>,
    wired: Wired,
}

struct FusedFile {
    file: Arc<dyn File>,
    wired: Wired,
}

struct FusedTrees {
    trees: SimTrees,
    wired: Wired,
}

struct FusedTree {
    tree: Box<dyn store::tree::Tree>,
    wired: Wired,
}

impl Platters {
    /// The power goes.
    pub(crate) fn crash(&self, dice: &mut Dice) {
        for disk in [&self.files, &self.journal, &self.seen] {
            disk.crash(dice);
        }
        self.view_ends(dice);
    }

    /// The process goes; what it wrote is with the system, except for what its view held in memory.
    pub(crate) fn kill(&self, dice: &mut Dice) {
        [&self.files, &self.journal, &self.seen].into_iter().for_each(SimDisk::kill);
        self.view_ends(dice);
    }

    /// The view's handle goes with the process, and with it what hindered it.
    fn view_ends(&self, dice: &mut Dice) {
        self.view.crash(dice);
        self.view.full_after(None);
    }

    /// As the store of a life sees them. `journal` stands before the journal's own.
    pub(crate) fn parts(&self, journal: Arc<dyn Disk>, fuse: &Fuse, life: &Life) -> (Layout, Disks) {
        let wired = Wired { fuse: fuse.clone(), life: life.clone() };
        let fused = |disk: Arc<dyn Disk>| -> Arc<dyn Disk> { Arc::new(FusedDisk { disk, wired: wired.clone() }) };
        let trees = Arc::new(FusedTrees { trees: self.view.clone(), wired: wired.clone() });
        let layout = Layout::on(Path::new("sim"), fused(Arc::new(self.files.clone())), trees);
        (layout, Disks { journal: fused(journal), seen: fused(Arc::new(self.seen.clone())) })
    }
}

impl Fuse {
    /// The life that goes on ends at the operation after `left` more, if that is some.
    pub(crate) fn arm(&self, left: Option<u64>) {
        let mut wire = self.0.lock().unwrap();
        (wire.left, wire.burnt) = (left, false);
    }

    pub(crate) fn is_burnt(&self) -> bool {
        self.0.lock().unwrap().burnt
    }

    /// Resolves when it burns.
    pub(crate) async fn burns(&self) {
        let rings = Arc::clone(&self.0.lock().unwrap().rings);
        while !self.is_burnt() {
            rings.notified().await;
        }
    }

    /// Whether what the dead had on their disks may be read.
    pub(crate) fn examine(&self, examined: bool) {
        self.0.lock().unwrap().examined = examined;
    }
}

impl Wired {
    /// Passes one operation of a disk, unless the fuse burns at it or its process is dead.
    fn pass<T>(&self, operation: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut wire = self.fuse.0.lock().unwrap();
        if !wire.examined {
            if self.life.goes_on() {
                match &mut wire.left {
                    Some(0) => {
                        wire.burnt = true;
                        self.life.end();
                        wire.rings.notify_one();
                    }
                    Some(left) => *left -= 1,
                    None => {}
                }
            }
            if !self.life.goes_on() {
                return Err(io::Error::other("the process is dead"));
            }
        }
        drop(wire);
        operation()
    }
}

impl Disk for FusedDisk {
    fn place(&self, name: &str) -> String {
        self.disk.place(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.wired.pass(|| self.disk.list())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.wired.pass(|| self.disk.create(name))?;
        Ok(Arc::new(FusedFile { file, wired: self.wired.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.wired.pass(|| self.disk.open(name))?;
        Ok(Arc::new(FusedFile { file, wired: self.wired.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.wired.pass(|| self.disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.wired.pass(|| self.disk.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.wired.pass(|| self.disk.sync())
    }

    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        self.disk.lock()
    }
}

impl File for FusedFile {
    fn size(&self) -> io::Result<u64> {
        self.wired.pass(|| self.file.size())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.wired.pass(|| self.file.read_at(buffer, at))
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.wired.pass(|| self.file.write_at(bytes, at))
    }

    fn sync(&self) -> io::Result<()> {
        self.wired.pass(|| self.file.sync())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.wired.pass(|| self.file.set_size(size))
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.wired.pass(|| self.file.allocate(size))
    }
}

impl FusedTree {
    fn pass<T>(&self, operation: impl FnOnce() -> Result<T, store::Error>) -> Result<T, store::Error> {
        let dead =
            |error: io::Error| store::Error::Io { action: "using the view".to_owned(), detail: error.to_string() };
        self.wired.pass(|| Ok(())).map_err(dead)?;
        operation()
    }
}

impl Trees for FusedTrees {
    fn exists(&self) -> bool {
        self.trees.exists()
    }

    fn open(&self, cache_bytes: u64) -> Result<Box<dyn store::tree::Tree>, store::Error> {
        Ok(Box::new(FusedTree { tree: self.trees.open(cache_bytes)?, wired: self.wired.clone() }))
    }

    fn set_aside(&self) -> Result<(), store::Error> {
        self.trees.set_aside()
    }
}

impl store::tree::Tree for FusedTree {
    fn place(&self) -> String {
        self.tree.place()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, store::Error> {
        self.pass(|| self.tree.get(key))
    }

    fn range(&self, from: &[u8], end: Option<&[u8]>, limit: usize) -> Result<store::tree::Pairs, store::Error> {
        self.pass(|| self.tree.range(from, end, limit))
    }

    fn visit(&self, from: &[u8], end: Option<&[u8]>, see: &mut store::tree::See<'_>) -> Result<(), store::Error> {
        self.pass(|| self.tree.visit(from, end, see))
    }

    fn visit_back(&self, from: &[u8], end: Option<&[u8]>, see: &mut store::tree::See<'_>) -> Result<(), store::Error> {
        self.pass(|| self.tree.visit_back(from, end, see))
    }

    fn apply(&self, batch: Vec<(Vec<u8>, Option<Vec<u8>>)>) -> Result<(), store::Error> {
        self.pass(|| self.tree.apply(batch))
    }

    fn fill(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<(), store::Error> {
        self.pass(|| self.tree.fill(pairs))
    }

    fn is_empty(&self) -> Result<bool, store::Error> {
        self.pass(|| self.tree.is_empty())
    }

    fn flush(&self) -> Result<(), store::Error> {
        self.pass(|| self.tree.flush())
    }

    fn close(self: Box<Self>) {
        if self.wired.life.goes_on() {
            self.tree.close();
        }
    }
}
