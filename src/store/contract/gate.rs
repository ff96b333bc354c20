//! A disk whose syncs wait while its gate is shut, so that a test sees what is answered before something is durable.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use crate::store::disk::sim::SimDisk;
use crate::store::disk::{Disk, File, Lock, Space};

/// A disk with a gate. Clones are the same disk.
#[derive(Clone)]
pub(crate) struct Gate {
    disk: SimDisk,
    bar: Arc<Bar>,
}

#[derive(Default)]
struct Bar {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    shut: bool,
    /// How many syncs stand before the gate.
    waiting: usize,
}

struct GatedFile {
    file: Arc<dyn File>,
    bar: Arc<Bar>,
}

impl Gate {
    pub(crate) fn new(disk: SimDisk) -> Self {
        Self { disk, bar: Arc::default() }
    }

    /// From now on syncs wait.
    pub(crate) fn shut(&self) {
        self.bar.state.lock().unwrap().shut = true;
    }

    /// Syncs go on.
    pub(crate) fn open(&self) {
        self.bar.state.lock().unwrap().shut = false;
        self.bar.news.notify_all();
    }

    /// Blocks until a sync stands before the gate.
    pub(crate) fn wait_for_sync(&self) {
        let state = self.bar.state.lock().unwrap();
        drop(self.bar.news.wait_while(state, |state| state.waiting == 0).unwrap());
    }
}

impl Bar {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.news.notify_all();
        state = self.news.wait_while(state, |state| state.shut).unwrap();
        state.waiting -= 1;
    }
}

impl Gate {
    fn gated(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(GatedFile { file, bar: Arc::clone(&self.bar) })
    }
}

impl Disk for Gate {
    fn place(&self, name: &str) -> String {
        self.disk.place(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.create(name).map(|file| self.gated(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open(name).map(|file| self.gated(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        self.disk.lock()
    }
}

impl File for GatedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.bar.pass();
        self.file.sync()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.file.allocate(size)
    }
}
