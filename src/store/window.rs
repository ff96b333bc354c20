//! The pending index: which events of which entity wait for their first decision.
//!
//! It is a window over the journal, everything undecided before a cursor, so that the backlog is bounded by the disk
//! and not by memory. Appends extend it directly. When it is full, appends are not indexed any more and the cursor
//! stays behind; when it has drained below half, the journal is read from the cursor to fill it again. While it is
//! behind nothing newer is indexed, so the order of an entity's events holds.

use std::collections::VecDeque;
use std::sync::Arc;

use super::map::{Map, Set};
use super::{Epoch, Error};
use crate::domain::{EntityKey, Lsn, Pending, Position, Shard};

/// What a decoded event takes besides its fields, about.
const EVENT_BYTES: usize = 1024;

/// How many rows of the fresh may be stale beside those of as many entities as have pending events.
const STALE_MAX: usize = 64;

/// How much a window holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Events; beyond them the journal is read again.
    pub(super) events: usize,
    /// Bytes of decoded events kept at hand; the others are read from the journal when they are asked for.
    pub(super) decoded_bytes: usize,
}

/// An event that joins its entity's queue.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) entity: EntityKey,
    pub(super) shard: Shard,
    pub(super) slot: Slot,
}

/// What is known of a pending event without reading the journal.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) position: Position,
    /// Whether it is a replay, and so may have been tried before.
    pub(super) replay: bool,
    /// The event, if it is at hand.
    pub(super) decoded: Option<Arc<Pending>>,
    /// How much memory it takes when it is at hand, about: reckoned once, where it was made.
    weight: usize,
}

impl Arrival {
    /// The event with all that is known of it; none if it names no entity. Its shard, if that is not known, is reckoned.
    pub(super) fn of(shards: u16, shard: Option<Shard>, pending: Pending) -> Option<Self> {
        let entity = pending.event.entity.clone()?;
        let shard = shard.unwrap_or_else(|| entity.shard(shards));
        let (position, replay) = (pending.position, pending.replayed_by.is_some());
        let weight = weight_of(&pending);
        let slot = Slot { position, replay, decoded: Some(Arc::new(pending)), weight };
        Some(Self { entity, shard, slot })
    }

    /// The same event, now that its record has an LSN.
    pub(super) fn at(mut self, lsn: Lsn) -> Self {
        self.slot.position.lsn = lsn;
        // One that somebody holds already would say the wrong place: it is read from the journal instead.
        match self.slot.decoded.as_mut().and_then(Arc::get_mut) {
            Some(pending) => pending.position.lsn = lsn,
            None => self.slot.decoded = None,
        }
        self
    }
}

impl Slot {
    /// How much memory the decoded event takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.decoded.as_ref().map_or(0, |_| self.weight)
    }
}

fn weight_of(pending: &Pending) -> usize {
    let fields = pending.event.fields.iter().map(|(name, value)| 64 + name.as_str().len() + value.as_str().len());
    EVENT_BYTES + fields.sum::<usize>()
}

/// The pending index of all shards.
pub(super) struct Window {
    bounds: Bounds,
    shards: Vec<ShardWindow>,
    len: usize,
    decoded_bytes: usize,
    /// How many events of each record it holds, oldest first: tells where a restart must begin to read.
    records: VecDeque<(Lsn, u32)>,
    /// Records from here on are not indexed.
    cursor: Lsn,
    /// Whether records stand beyond the cursor that are not indexed.
    behind: bool,
}

#[derive(Default)]
struct ShardWindow {
    epoch: u64,
    entities: Map<EntityKey, Queue>,
    /// Entities that were not announced yet, in the order they came. A row counts while its queue says that it is fresh.
    fresh: VecDeque<EntityKey>,
}

/// The pending events of an entity.
struct Queue {
    /// By position: an event that joins is newer than those that are there.
    slots: VecDeque<Slot>,
    /// Whether it was not announced yet.
    fresh: bool,
}

impl Window {
    /// An empty window whose cursor stands at `cursor`.
    pub(super) fn new(shards: u16, bounds: Bounds, cursor: Lsn) -> Self {
        let shards = (0..shards).map(|_| ShardWindow::default()).collect();
        Self { bounds, shards, len: 0, decoded_bytes: 0, records: VecDeque::new(), cursor, behind: false }
    }

    /// How many events it holds.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Where reading the journal goes on, if records stand there that are not indexed.
    pub(super) fn behind(&self) -> Option<Lsn> {
        self.behind.then_some(self.cursor)
    }

    /// How many events may be read from the journal now: none unless it is behind and has drained below half.
    pub(super) fn wanted(&self) -> usize {
        let drained = self.behind && self.len <= self.bounds.events / 2;
        if drained { self.bounds.events.saturating_sub(self.len) } else { 0 }
    }

    /// Takes the events of the newest record, unless the window is full or behind, or they are not at hand: then it is
    /// behind from here on. Answers whether an entity got its first pending event.
    pub(super) fn extend(&mut self, lsn: Lsn, arrivals: Option<Vec<Arrival>>) -> bool {
        if self.behind {
            return false;
        }
        let Some(arrivals) = arrivals else {
            self.cursor = lsn;
            self.behind = true;
            return false;
        };
        let full = self.len.saturating_add(arrivals.len()) > self.bounds.events;
        // A record that is larger than the whole window still enters an empty one.
        if full && self.len > 0 && !arrivals.is_empty() {
            self.cursor = lsn;
            self.behind = true;
            return false;
        }
        self.cursor = Lsn(lsn.0 + 1);
        self.insert_all(arrivals)
    }

    /// Takes what was read from the journal: everything undecided from the old cursor up to `cursor`. `synced` is the
    /// last record there is; the window is behind no longer if that was reached.
    pub(super) fn refill(&mut self, arrivals: Vec<Arrival>, cursor: Lsn, synced: Lsn) -> bool {
        self.cursor = cursor;
        self.behind = cursor <= synced;
        self.insert_all(arrivals)
    }

    /// The event waits no longer.
    pub(super) fn remove(&mut self, shard: Shard, entity: &EntityKey, position: Position) {
        let Some(held) = self.shards.get_mut(usize::from(shard.0)) else { return };
        let Some(queue) = held.entities.get_mut(entity) else { return };
        let Some(slot) = queue.place(position).and_then(|place| queue.slots.remove(place)) else { return };
        self.len = self.len.saturating_sub(1);
        self.decoded_bytes = self.decoded_bytes.saturating_sub(slot.bytes());
        if queue.slots.is_empty() {
            held.entities.remove(entity);
            held.forget_stale();
        }
        self.forget(position.lsn);
    }

    /// Whether events of this entity wait.
    pub(super) fn waits(&self, shard: Shard, entity: &EntityKey) -> bool {
        self.shards.get(usize::from(shard.0)).is_some_and(|held| held.entities.contains_key(entity))
    }

    /// The event at a position, if it waits in this entity's queue.
    pub(super) fn slot(&self, shard: Shard, entity: &EntityKey, position: Position) -> Option<&Slot> {
        let queue = self.shards.get(usize::from(shard.0))?.entities.get(entity)?;
        queue.slots.get(queue.place(position)?)
    }

    /// The first events of an entity, by position.
    pub(super) fn of_entity(&self, shard: Shard, entity: &EntityKey, limit: usize) -> Vec<Slot> {
        let queue = self.shards.get(usize::from(shard.0)).and_then(|held| held.entities.get(entity));
        queue.into_iter().flat_map(|queue| &queue.slots).take(limit).cloned().collect()
    }

    /// The first events of a shard, by position.
    pub(super) fn of_shard(&self, shard: Shard, limit: usize) -> Vec<Slot> {
        let queues = self.shards.get(usize::from(shard.0)).into_iter().flat_map(|held| held.entities.values());
        let mut slots: Vec<Slot> = queues.flat_map(|queue| &queue.slots).cloned().collect();
        slots.sort_unstable_by_key(|slot| slot.position);
        slots.truncate(limit);
        slots
    }

    /// The oldest record that a restart must read to know what waits.
    pub(super) fn low_water(&self) -> Lsn {
        self.records.front().map_or(self.cursor, |(first, _)| *first)
    }

    /// A new owner of the shard: every entity that has pending events is announced anew.
    pub(super) fn adopt(&mut self, shard: Shard) -> Result<Epoch, Error> {
        let held = self.shards.get_mut(usize::from(shard.0)).ok_or(Error::Fenced { shard })?;
        held.epoch += 1;
        held.fresh.clear();
        let first = |queue: &Queue| queue.slots.front().map(|slot| slot.position);
        let mut fresh: Vec<_> = held.entities.iter().map(|(entity, queue)| (first(queue), entity.clone())).collect();
        fresh.sort_unstable_by_key(|(first, _)| *first);
        held.fresh.extend(fresh.into_iter().map(|(_, entity)| entity));
        held.entities.values_mut().for_each(|queue| queue.fresh = true);
        Ok(Epoch(held.epoch))
    }

    /// The newest owner of a shard.
    pub(super) fn epoch(&self, shard: Shard) -> Epoch {
        Epoch(self.shards.get(usize::from(shard.0)).map_or(0, |held| held.epoch))
    }

    /// The entities of these shards that have pending events and were not announced yet; they are now. Nothing is
    /// announced to a wait that began in an earlier epoch of one of them; a wait that begins learns the epochs here.
    pub(super) fn announce_to(&mut self, shards: &[Shard], began: &mut Vec<Epoch>) -> Result<Vec<EntityKey>, Error> {
        let begins = began.is_empty();
        for (place, shard) in shards.iter().enumerate() {
            let held = self.shards.get(usize::from(shard.0)).ok_or(Error::Fenced { shard: *shard })?;
            if begins {
                began.push(Epoch(held.epoch));
            } else if began.get(place) != Some(&Epoch(held.epoch)) {
                return Err(Error::Fenced { shard: *shard });
            }
        }
        let mut found = Vec::new();
        for shard in shards {
            let held = self.shards.get_mut(usize::from(shard.0)).into_iter();
            held.for_each(|held| held.announce(&mut found));
        }
        Ok(found)
    }

    /// Whether an entity had no pending event before.
    fn insert_all(&mut self, arrivals: Vec<Arrival>) -> bool {
        let mut fresh = false;
        for arrival in arrivals {
            fresh |= self.insert(arrival);
        }
        fresh
    }

    /// Whether the entity had no pending event before.
    fn insert(&mut self, Arrival { entity, shard, mut slot }: Arrival) -> bool {
        let Some(held) = self.shards.get_mut(usize::from(shard.0)) else { return false };
        slot.decoded = slot.decoded.filter(|_| self.decoded_bytes < self.bounds.decoded_bytes);
        self.decoded_bytes += slot.bytes();
        self.len += 1;
        match self.records.back_mut() {
            Some((last, count)) if *last == slot.position.lsn => *count += 1,
            Some(_) | None => self.records.push_back((slot.position.lsn, 1)),
        }
        if let Some(queue) = held.entities.get_mut(&entity) {
            queue.slots.push_back(slot);
            return false;
        }
        held.entities.insert(entity.clone(), Queue { slots: VecDeque::from([slot]), fresh: true });
        held.fresh.push_back(entity);
        true
    }

    /// An event of this record waits no longer.
    fn forget(&mut self, lsn: Lsn) {
        let place = self.records.binary_search_by_key(&lsn, |(lsn, _)| *lsn);
        if let Some((_, count)) = place.ok().and_then(|place| self.records.get_mut(place)) {
            *count = count.saturating_sub(1);
        }
        while self.records.front().is_some_and(|(_, count)| *count == 0) {
            self.records.pop_front();
        }
        // One event that waits for long must not keep a row of each record behind it.
        if self.records.len() > 2 * self.len + STALE_MAX {
            self.records.retain(|(_, count)| *count > 0);
        }
    }
}

impl Queue {
    /// Where the event of this position stands, if it is here.
    fn place(&self, position: Position) -> Option<usize> {
        self.slots.binary_search_by_key(&position, |slot| slot.position).ok()
    }
}

impl ShardWindow {
    /// Announces what is fresh.
    fn announce(&mut self, found: &mut Vec<EntityKey>) {
        for entity in self.fresh.drain(..) {
            if let Some(queue) = self.entities.get_mut(&entity).filter(|queue| queue.fresh) {
                queue.fresh = false;
                found.push(entity);
            }
        }
    }

    /// Drops rows that count no longer before they are more than those that may.
    fn forget_stale(&mut self) {
        if self.fresh.len() > 2 * self.entities.len() + STALE_MAX {
            let entities = &self.entities;
            let mut seen = Set::default();
            self.fresh
                .retain(|entity| entities.get(entity).is_some_and(|queue| queue.fresh) && seen.insert(entity.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_were_not_made_ready_are_read_from_the_journal() {
        let mut window = Window::new(1, Bounds { events: 10, decoded_bytes: 1000 }, Lsn(1));
        assert!(!window.extend(Lsn(1), Some(Vec::new())));
        assert_eq!((window.behind(), window.wanted()), (None, 0));
        assert!(!window.extend(Lsn(2), None));
        assert!(!window.extend(Lsn(3), Some(Vec::new())), "nothing newer is taken before it");
        assert_eq!((window.behind(), window.wanted(), window.low_water()), (Some(Lsn(2)), 10, Lsn(2)));
        window.refill(Vec::new(), Lsn(4), Lsn(3));
        assert_eq!((window.behind(), window.low_water()), (None, Lsn(4)));
    }
}
