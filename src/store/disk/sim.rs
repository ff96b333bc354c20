//! A simulated disk: what was not synced is lost or torn at a crash, space is bounded, calls fail on demand.
//!
//! A crash keeps, of what was written since a file's last sync, any subset of its sectors, and of the last sector
//! kept any part. Names (created, renamed, removed) survive up to some point in their order.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Disk, File, Lock, Space, wide};

mod filling;

pub(crate) use filling::Filling;

/// The unit in which writes reach the platter.
const SECTOR: u64 = 512;

/// Numbers that look random and are the same for a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

/// A disk of memory. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    names_synced: BTreeMap<String, u64>,
    /// Every state of the names since they were synced, oldest first.
    names_since: Vec<BTreeMap<String, u64>>,
    next_inode: u64,
    space: Option<u64>,
    /// The disk that it shares with others.
    filling: Filling,
    /// What the disk says of its room; plenty without it.
    said: Option<Space>,
    /// Sync fails when this many more have been done.
    fail_sync: Option<u64>,
    /// A write fails when this many more have been done.
    fail_write: Option<u64>,
    reads: u64,
    /// Held by each open file.
    open: Arc<()>,
    open_most: usize,
    life: u64,
    locked: Arc<()>,
}

#[derive(Default)]
struct Inode {
    synced: Vec<u8>,
    live: Vec<u8>,
    reserved: u64,
    since: Vec<Change>,
}

enum Change {
    Write { at: u64, bytes: Vec<u8> },
    Size(u64),
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    life: u64,
    _open: Arc<()>,
}

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides.max(1)
    }
}

impl SimDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The power goes: open files are dead, what was not synced is lost, kept or torn as the dice fall.
    pub(crate) fn crash(&self, dice: &mut Dice) {
        let mut state = self.state();
        state.life += 1;
        state.locked = Arc::new(());
        state.fail_sync = None;
        state.fail_write = None;
        let kept = usize::try_from(dice.roll(wide(state.names_since.len()) + 1)).unwrap();
        if kept > 0 {
            state.names_synced = state.names_since[kept - 1].clone();
        }
        state.names = state.names_synced.clone();
        state.names_since.clear();
        for inode in state.inodes.values_mut() {
            inode.crash(dice);
        }
        let State { names, inodes, .. } = &mut *state;
        inodes.retain(|inode, _| names.values().any(|named| named == inode));
    }

    /// The process goes, the system stays: nothing is lost, but nothing more than before is synced.
    pub(crate) fn kill(&self) {
        let mut state = self.state();
        state.life += 1;
        state.locked = Arc::new(());
        state.fail_sync = None;
        state.fail_write = None;
    }

    /// At most this many bytes may be reserved from now on.
    pub(crate) fn limit_space(&self, bytes: Option<u64>) {
        self.state().space = bytes;
    }

    /// It lies on a disk that fills up, with all that share this.
    pub(crate) fn lie_on(&self, filling: &Filling) {
        self.state().filling = filling.clone();
    }

    /// What the disk says of its room from now on.
    pub(crate) fn say_space(&self, said: Option<Space>) {
        self.state().said = said;
    }

    /// The sync after `n` more fails, and so does every later one.
    pub(crate) fn fail_sync_after(&self, n: Option<u64>) {
        self.state().fail_sync = n;
    }

    /// The write after `n` more fails half-way, and so does every later one.
    pub(crate) fn fail_write_after(&self, n: Option<u64>) {
        self.state().fail_write = n;
    }

    /// How often something was read.
    pub(crate) fn reads(&self) -> u64 {
        self.state().reads
    }

    /// How many files were open at once, at most.
    pub(crate) fn open_most(&self) -> usize {
        self.state().open_most
    }

    /// The content of a file.
    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.inodes[&state.names[name]].live.clone()
    }

    /// Replaces a file's content, as somebody who meddles would.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let file = self.create(name).unwrap();
        file.write_at(bytes, 0).unwrap();
        file.sync().unwrap();
        self.sync().unwrap();
    }

    /// The names of its files in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// A disk of its own with the same files, all synced.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::default();
        for name in self.names() {
            copy.put(&name, &self.content(&name));
        }
        copy
    }
}

impl State {
    fn file(&mut self, disk: &SimDisk, inode: u64) -> Arc<dyn File> {
        let file = SimFile { disk: disk.clone(), inode, life: self.life, _open: self.open.clone() };
        self.open_most = self.open_most.max(Arc::strong_count(&self.open) - 1);
        Arc::new(file)
    }

    fn used(&self) -> u64 {
        self.inodes.values().map(|inode| inode.reserved).sum()
    }

    fn reserve(&mut self, inode: u64, size: u64) -> io::Result<()> {
        let more = size.saturating_sub(self.inodes[&inode].reserved);
        if self.space.is_some_and(|space| more > 0 && self.used() + more > space) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if more > 0 {
            self.filling.take()?;
        }
        self.inodes.get_mut(&inode).unwrap().reserved += more;
        Ok(())
    }

    fn renamed(&mut self) {
        self.names_since.push(self.names.clone());
    }

    /// Counts down to a failure.
    fn fails(counter: &mut Option<u64>) -> bool {
        match counter {
            Some(0) => true,
            Some(n) => {
                *n -= 1;
                false
            }
            None => false,
        }
    }
}

impl Inode {
    fn crash(&mut self, dice: &mut Dice) {
        let mood = dice.roll(3);
        for change in std::mem::take(&mut self.since) {
            match change {
                Change::Size(size) => {
                    if mood != 0 {
                        self.synced.resize(usize::try_from(size).unwrap(), 0);
                    }
                }
                Change::Write { at, bytes } => self.tear(at, &bytes, mood, dice),
            }
        }
        self.live = self.synced.clone();
        self.reserved = wide(self.live.len());
    }

    fn tear(&mut self, at: u64, bytes: &[u8], mood: u64, dice: &mut Dice) {
        let mut from = at;
        let end = at + wide(bytes.len());
        while from < end {
            let to = ((from / SECTOR + 1) * SECTOR).min(end);
            let part = &bytes[usize::try_from(from - at).unwrap()..usize::try_from(to - at).unwrap()];
            let kept = match (mood, dice.roll(4)) {
                (0, _) | (2, 0) => 0,
                (2, 1) => usize::try_from(dice.roll(wide(part.len()))).unwrap(),
                _ => part.len(),
            };
            put(&mut self.synced, from, &part[..kept]);
            from = to;
        }
    }
}

fn put(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap();
    if bytes.is_empty() {
        return;
    }
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Disk for SimDisk {
    fn place(&self, name: &str) -> String {
        format!("sim/{name}")
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.filling.take()?;
        let inode = state.next_inode;
        state.next_inode += 1;
        state.inodes.insert(inode, Inode::default());
        state.names.insert(name.to_owned(), inode);
        state.renamed();
        Ok(state.file(self, inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let inode = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.file(self, inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), inode);
        state.renamed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.inodes.get_mut(&inode).unwrap().reserved = 0;
        state.renamed();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if State::fails(&mut state.fail_sync) {
            return Err(io::Error::other("simulated failure of a folder's sync"));
        }
        state.names_synced = state.names.clone();
        state.names_since.clear();
        Ok(())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(self.state().said.unwrap_or(Space { free: u64::MAX, total: u64::MAX }))
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        let state = self.state();
        Ok((Arc::strong_count(&state.locked) == 1).then(|| -> Lock { state.locked.clone() }))
    }
}

impl SimFile {
    fn with<T>(&self, f: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        if state.life != self.life {
            return Err(io::Error::other("the file was opened before a crash"));
        }
        f(&mut state, self.inode)
    }
}

impl File for SimFile {
    fn size(&self) -> io::Result<u64> {
        self.with(|state, inode| Ok(wide(state.inodes[&inode].live.len())))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            state.reads += 1;
            let live = &state.inodes[&inode].live;
            let from = usize::try_from(at).unwrap().min(live.len());
            let n = buffer.len().min(live.len() - from);
            buffer[..n].copy_from_slice(&live[from..from + n]);
            Ok(n)
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.with(|state, inode| {
            let fails = State::fails(&mut state.fail_write);
            let bytes = if fails { &bytes[..bytes.len() / 2] } else { bytes };
            state.reserve(inode, at + wide(bytes.len()))?;
            let inode = state.inodes.get_mut(&inode).unwrap();
            put(&mut inode.live, at, bytes);
            inode.since.push(Change::Write { at, bytes: bytes.to_vec() });
            if fails { Err(io::Error::other("simulated failure of a write")) } else { Ok(()) }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state, inode| {
            if State::fails(&mut state.fail_sync) {
                return Err(io::Error::other("simulated failure of a sync"));
            }
            let inode = state.inodes.get_mut(&inode).unwrap();
            inode.synced = inode.live.clone();
            inode.since.clear();
            Ok(())
        })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.with(|state, inode| {
            let inode = state.inodes.get_mut(&inode).unwrap();
            inode.live.resize(usize::try_from(size).unwrap(), 0);
            inode.reserved = inode.reserved.min(size);
            inode.since.push(Change::Size(size));
            Ok(())
        })
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.reserve(inode, size)?;
            let inode = state.inodes.get_mut(&inode).unwrap();
            if wide(inode.live.len()) < size {
                inode.live.resize(usize::try_from(size).unwrap(), 0);
                inode.since.push(Change::Size(size));
            }
            Ok(())
        })
    }
}
