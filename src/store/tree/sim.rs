//! A simulated tree: what was not flushed is lost at a crash, bits flip, calls fail on demand.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Pairs, See, Tree, Trees};
use crate::store::Error;
use crate::store::disk::sim::{Dice, Filling};
use crate::store::keys::Key;

type Content = BTreeMap<Key, Vec<u8>>;
type Batch = Vec<(Key, Option<Vec<u8>>)>;

/// The place of one tree in memory. Clones are the same place.
#[derive(Clone, Default)]
pub(crate) struct SimTrees(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// None while no tree lies there.
    live: Option<Content>,
    synced: Option<Content>,
    /// What was applied since, in order.
    since: Vec<Batch>,
    /// How often it was moved out of the way.
    set_aside: u64,
    /// A call fails when this many more have been done.
    fail: Option<u64>,
    /// The disk that it shares with others.
    filling: Filling,
    life: u64,
}

struct SimTree {
    trees: SimTrees,
    life: u64,
}

impl SimTrees {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The power goes, or the process: what was applied since the last flush was in its memory, and is kept up to some
    /// point.
    pub(crate) fn crash(&self, dice: &mut Dice) {
        let mut state = self.state();
        let since = std::mem::take(&mut state.since);
        let kept = usize::try_from(dice.roll(u64::try_from(since.len()).unwrap() + 1)).unwrap();
        let mut content = state.synced.take().unwrap_or_default();
        since.into_iter().take(kept).for_each(|batch| write(&mut content, batch));
        state.synced = state.live.is_some().then(|| content.clone());
        state.live = state.synced.clone();
        state.end();
    }

    /// Somebody deletes it while it is closed.
    pub(crate) fn lose(&self) {
        let mut state = self.state();
        *state =
            State { life: state.life, set_aside: state.set_aside, filling: state.filling.clone(), ..State::default() };
    }

    /// Flips a bit of some value while it is closed; answers whether there was one.
    pub(crate) fn flip(&self, dice: &mut Dice) -> bool {
        let mut state = self.state();
        let Some(live) = state.live.as_mut() else { return false };
        let nth = usize::try_from(dice.roll(u64::try_from(live.len()).unwrap())).unwrap();
        let Some(value) = live.values_mut().nth(nth).filter(|value| !value.is_empty()) else { return false };
        let bit = usize::try_from(dice.roll(u64::try_from(value.len() * 8).unwrap())).unwrap();
        value[bit / 8] ^= 1 << (bit % 8);
        state.synced = state.live.clone();
        state.since.clear();
        true
    }

    /// The call after `n` more fails, and so does every later one, until a crash.
    pub(crate) fn fail_after(&self, n: Option<u64>) {
        self.state().fail = n;
    }

    /// It lies on a disk that fills up, with all that share this.
    pub(crate) fn lie_on(&self, filling: &Filling) {
        self.state().filling = filling.clone();
    }

    /// The write after `n` more finds no space, and so does every later one.
    pub(crate) fn full_after(&self, n: Option<u64>) {
        self.state().filling.after(n);
    }

    /// How often it was moved out of the way, for one that is built anew.
    pub(crate) fn times_set_aside(&self) -> u64 {
        self.state().set_aside
    }

    /// What lies there.
    pub(crate) fn content(&self) -> BTreeMap<Key, Vec<u8>> {
        self.state().live.clone().unwrap_or_default()
    }

    /// Puts an older content back, as somebody does who restores a copy.
    pub(crate) fn put(&self, content: BTreeMap<Key, Vec<u8>>) {
        let mut state = self.state();
        (state.live, state.synced) = (Some(content.clone()), Some(content));
        state.since.clear();
    }
}

impl State {
    fn end(&mut self) {
        self.life += 1;
        self.fail = None;
    }
}

fn write(content: &mut Content, batch: Batch) {
    for (key, value) in batch {
        match value {
            Some(value) => content.insert(key, value),
            None => content.remove(&key),
        };
    }
}

impl Trees for SimTrees {
    fn exists(&self) -> bool {
        self.state().live.is_some()
    }

    fn open(&self, _: u64) -> Result<Box<dyn Tree>, Error> {
        let mut state = self.state();
        if state.live.is_none() {
            state.filling.take().map_err(|_| Error::Full)?;
        }
        state.live.get_or_insert_default();
        Ok(Box::new(SimTree { trees: self.clone(), life: state.life }))
    }

    fn set_aside(&self) -> Result<(), Error> {
        let mut state = self.state();
        (state.live, state.synced) = (None, None);
        state.since.clear();
        state.set_aside += 1;
        Ok(())
    }
}

impl SimTree {
    fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        let failed =
            |detail: &str| Err(Error::Io { action: "using the view `sim`".to_owned(), detail: detail.to_owned() });
        let mut state = self.trees.state();
        if state.life != self.life {
            return failed("the tree was opened before a crash");
        }
        match &mut state.fail {
            Some(0) => return failed("simulated failure of the view"),
            Some(n) => *n -= 1,
            None => {}
        }
        Ok(call(&mut state))
    }
}

impl Tree for SimTree {
    fn place(&self) -> String {
        "sim/view".to_owned()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with(|state| state.live.as_ref().and_then(|live| live.get(key).cloned()))
    }

    fn range(&self, from: &[u8], end: Option<&[u8]>, limit: usize) -> Result<Pairs, Error> {
        let bounds = (Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded));
        self.with(|state| {
            let pairs = state.live.iter().flat_map(|live| live.range::<[u8], _>(bounds));
            pairs.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
        })
    }

    fn visit(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error> {
        let bounds = (Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded));
        self.with(|state| {
            let mut pairs = state.live.iter().flat_map(|live| live.range::<[u8], _>(bounds));
            while pairs.next().is_some_and(|(key, raw)| see(key, raw)) {}
        })
    }

    fn visit_back(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error> {
        let bounds = (Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded));
        self.with(|state| {
            let mut pairs = state.live.iter().flat_map(|live| live.range::<[u8], _>(bounds)).rev();
            while pairs.next().is_some_and(|(key, raw)| see(key, raw)) {}
        })
    }

    fn apply(&self, batch: Batch) -> Result<(), Error> {
        self.with(|state| {
            state.filling.take().map_err(|_| Error::Full)?;
            write(state.live.get_or_insert_default(), batch.clone());
            state.since.push(batch);
            Ok(())
        })?
    }

    fn fill(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Error> {
        pairs.iter().try_for_each(|(key, value)| self.apply(vec![(key.clone(), Some(value.clone()))]))
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.with(|state| state.live.as_ref().is_none_or(BTreeMap::is_empty))
    }

    fn flush(&self) -> Result<(), Error> {
        self.with(|state| {
            // What it holds in memory has no room on the disk yet.
            if !state.since.is_empty() {
                state.filling.take().map_err(|_| Error::Full)?;
            }
            state.synced = state.live.clone();
            state.since.clear();
            Ok(())
        })?
    }

    fn close(self: Box<Self>) {
        // Like sled, which writes out on its way down.
        let _ = self.flush();
    }
}
