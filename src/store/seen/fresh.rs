//! The ids since the last seal, in the order that they came, with where each stands among them.
//!
//! A seal takes them away as a whole, whatever their number. They are sorted where their file is written, since all
//! senders wait while the owner of the seen ids does something else.

use std::sync::Arc;

use crate::domain::Lsn;
use crate::store::map::Map;

use super::key::{SeenEntry, SeenKey};

/// Ids in the order that they came.
#[derive(Default)]
pub(super) struct Fresh {
    pairs: Vec<(SeenKey, SeenEntry)>,
    places: Map<SeenKey, usize>,
}

/// Ids that are taken away.
pub(super) struct Taken {
    /// Of an id that is there twice the earlier stands.
    pub(super) pairs: Arc<Vec<(SeenKey, SeenEntry)>>,
    places: Map<SeenKey, usize>,
}

impl Fresh {
    fn with_capacity(count: usize) -> Self {
        let mut places = Map::default();
        places.reserve(count);
        Self { pairs: Vec::with_capacity(count), places }
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn get(&self, key: &SeenKey) -> Option<&SeenEntry> {
        self.pairs.get(*self.places.get(key)?).map(|(_, entry)| entry)
    }

    /// Takes an id; one that is there keeps its entry. The LSN of a new one is not below those before. Answers whether it
    /// is new.
    pub(super) fn insert(&mut self, key: SeenKey, entry: SeenEntry) -> bool {
        let mut new = false;
        self.places.entry(key).or_insert_with(|| {
            new = true;
            self.pairs.len()
        });
        if new {
            let in_order = self.pairs.last().is_none_or(|(_, last)| last.position.lsn <= entry.position.lsn);
            debug_assert!(in_order, "{entry:?} came behind {:?}", self.pairs.last());
            self.pairs.push((key, entry));
        }
        new
    }

    /// Takes one of the last LSN away.
    pub(super) fn remove(&mut self, key: &SeenKey) {
        let Some(place) = self.places.remove(key).filter(|place| *place < self.pairs.len()) else { return };
        self.pairs.swap_remove(place);
        if let Some(moved) = self.pairs.get(place).and_then(|(key, _)| self.places.get_mut(key)) {
            *moved = place;
        }
    }

    /// Takes those away whose LSN is not beyond `through`.
    pub(super) fn take(&mut self, through: Lsn) -> Taken {
        let taken = self.pairs.partition_point(|(_, entry)| entry.position.lsn <= through);
        let beyond = self.pairs.split_off(taken);
        // As many will come until the next seal: growing would make somebody wait.
        let old = std::mem::replace(self, Self::with_capacity(taken));
        for (key, entry) in beyond {
            self.insert(key, entry);
        }
        Taken { pairs: Arc::new(old.pairs), places: old.places }
    }
}

impl Taken {
    pub(super) fn get(&self, key: &SeenKey) -> Option<SeenEntry> {
        // The place of an id that was not taken is behind the end.
        self.pairs.get(*self.places.get(key)?).map(|(_, entry)| *entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Position;

    fn key(n: u8) -> SeenKey {
        SeenKey([n; 16])
    }

    fn entry(lsn: u64) -> SeenEntry {
        SeenEntry { position: Position { lsn: Lsn(lsn), item: 0 }, digest: [0; 16] }
    }

    fn known(get: impl Fn(&SeenKey) -> Option<u64>) -> Vec<Option<u64>> {
        (1..=5).map(|n| get(&key(n))).collect()
    }

    #[test]
    fn what_is_taken_and_what_is_left_are_found_each_in_its_own() {
        let mut fresh = Fresh::default();
        for (n, lsn) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)] {
            assert!(fresh.insert(key(n), entry(lsn)), "{n}");
        }
        assert!(!fresh.insert(key(1), entry(4)), "it keeps its entry");
        fresh.remove(&key(4));
        fresh.remove(&key(4));
        let lsn = |entry: &SeenEntry| entry.position.lsn.0;
        assert_eq!(known(|key| fresh.get(key).map(lsn)), [Some(1), Some(1), Some(2), None, Some(3)]);
        let taken = fresh.take(Lsn(2));
        assert_eq!(known(|key| taken.get(key).as_ref().map(lsn)), [Some(1), Some(1), Some(2), None, None]);
        assert_eq!(known(|key| fresh.get(key).map(lsn)), [None, None, None, None, Some(3)]);
        assert_eq!((taken.pairs.len(), fresh.len()), (3, 1));
        assert!(fresh.insert(key(1), entry(4)), "it is new among those since the seal");
    }
}
