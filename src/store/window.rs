//! The pending index: which events of which entity wait for their first decision.
//!
//! It is a window over the journal, everything undecided before a cursor, so that the backlog is bounded by the disk
//! and not by memory. Appends extend it directly. When it is full, appends are not indexed any more and the cursor
//! stays behind; when it has drained below half, the journal is read from the cursor to fill it again. While it is
//! behind nothing newer is indexed, so the order of an entity's events holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Epoch, Error};
use crate::domain::{EntityKey, Lsn, Pending, Position, Shard};

/// What a decoded event takes besides its fields, about.
const EVENT_BYTES: usize = 1024;

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
}

impl Arrival {
    /// The event with all that is known of it; none if it names no entity.
    pub(super) fn of(shards: u16, pending: Pending) -> Option<Self> {
        let entity = pending.event.entity.clone()?;
        let (position, replay) = (pending.position, pending.replayed_by.is_some());
        let slot = Slot { position, replay, decoded: Some(Arc::new(pending)) };
        Some(Self { shard: entity.shard(shards), entity, slot })
    }
}

impl Slot {
    /// How much memory the decoded event takes, about.
    pub(super) fn bytes(&self) -> usize {
        let Some(pending) = &self.decoded else { return 0 };
        let fields = pending.event.fields.iter().map(|(name, value)| 64 + name.as_str().len() + value.as_str().len());
        EVENT_BYTES + fields.sum::<usize>()
    }
}

/// The pending index of all shards.
pub(super) struct Window {
    bounds: Bounds,
    shards: Vec<ShardWindow>,
    len: usize,
    decoded_bytes: usize,
    /// Records from here on are not indexed.
    cursor: Lsn,
    /// Whether records stand beyond the cursor that are not indexed.
    behind: bool,
}

#[derive(Default)]
struct ShardWindow {
    epoch: u64,
    slots: BTreeMap<Position, (EntityKey, Slot)>,
    entities: HashMap<EntityKey, Queue>,
    /// Entities that were not announced yet, in the order they came.
    fresh: BTreeMap<u64, EntityKey>,
    /// How many were ever put there; numbers the next.
    came: u64,
}

#[derive(Default)]
struct Queue {
    positions: BTreeSet<Position>,
    /// Its place among the fresh, until it is announced.
    fresh: Option<u64>,
}

impl Window {
    /// An empty window whose cursor stands at `cursor`.
    pub(super) fn new(shards: u16, bounds: Bounds, cursor: Lsn) -> Self {
        let shards = (0..shards).map(|_| ShardWindow::default()).collect();
        Self { bounds, shards, len: 0, decoded_bytes: 0, cursor, behind: false }
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

    /// Takes the events of the newest record, unless the window is full or behind. Answers the shards in which an
    /// entity got its first pending event.
    pub(super) fn extend(&mut self, lsn: Lsn, arrivals: &[Arrival]) -> BTreeSet<Shard> {
        if self.behind {
            return BTreeSet::new();
        }
        let full = self.len.saturating_add(arrivals.len()) > self.bounds.events;
        // A record that is larger than the whole window still enters an empty one.
        if full && self.len > 0 && !arrivals.is_empty() {
            self.cursor = lsn;
            self.behind = true;
            return BTreeSet::new();
        }
        self.cursor = Lsn(lsn.0 + 1);
        arrivals.iter().filter(|arrival| self.insert(arrival)).map(|arrival| arrival.shard).collect()
    }

    /// Takes what was read from the journal: everything undecided from the old cursor up to `cursor`. `synced` is the
    /// last record there is; the window is behind no longer if that was reached.
    pub(super) fn refill(&mut self, arrivals: &[Arrival], cursor: Lsn, synced: Lsn) -> BTreeSet<Shard> {
        self.cursor = cursor;
        self.behind = cursor <= synced;
        arrivals.iter().filter(|arrival| self.insert(arrival)).map(|arrival| arrival.shard).collect()
    }

    /// The event waits no longer.
    pub(super) fn remove(&mut self, shard: Shard, entity: &EntityKey, position: Position) {
        let Some(held) = self.shards.get_mut(usize::from(shard.0)) else { return };
        let Some((_, slot)) = held.slots.remove(&position) else { return };
        self.len = self.len.saturating_sub(1);
        self.decoded_bytes = self.decoded_bytes.saturating_sub(slot.bytes());
        let Some(queue) = held.entities.get_mut(entity) else { return };
        queue.positions.remove(&position);
        if queue.positions.is_empty() {
            if let Some(place) = queue.fresh {
                held.fresh.remove(&place);
            }
            held.entities.remove(entity);
        }
    }

    /// The event at a position, if it waits in this entity's queue.
    pub(super) fn slot(&self, shard: Shard, entity: &EntityKey, position: Position) -> Option<&Slot> {
        let (owner, slot) = self.shards.get(usize::from(shard.0))?.slots.get(&position)?;
        (owner == entity).then_some(slot)
    }

    /// The first events of an entity, by position.
    pub(super) fn of_entity(&self, shard: Shard, entity: &EntityKey, limit: usize) -> Vec<Slot> {
        let Some(held) = self.shards.get(usize::from(shard.0)) else { return Vec::new() };
        let positions = held.entities.get(entity).into_iter().flat_map(|queue| &queue.positions).take(limit);
        positions.filter_map(|position| held.slots.get(position)).map(|(_, slot)| slot.clone()).collect()
    }

    /// The first events of a shard, by position.
    pub(super) fn of_shard(&self, shard: Shard, limit: usize) -> Vec<Slot> {
        let slots = self.shards.get(usize::from(shard.0)).into_iter().flat_map(|held| held.slots.values());
        slots.take(limit).map(|(_, slot)| slot.clone()).collect()
    }

    /// The oldest record that a restart must read to know what waits.
    pub(super) fn low_water(&self) -> Lsn {
        let firsts = self.shards.iter().filter_map(|held| held.slots.keys().next());
        firsts.map(|position| position.lsn).min().map_or(self.cursor, |first| first.min(self.cursor))
    }

    /// A new owner of the shard: every entity that has pending events is announced anew.
    pub(super) fn adopt(&mut self, shard: Shard) -> Result<Epoch, Error> {
        let held = self.shards.get_mut(usize::from(shard.0)).ok_or(Error::Fenced { shard })?;
        held.epoch += 1;
        held.fresh.clear();
        held.entities.values_mut().for_each(|queue| queue.fresh = None);
        for (entity, _) in held.slots.values() {
            if let Some(queue) = held.entities.get_mut(entity).filter(|queue| queue.fresh.is_none()) {
                queue.fresh = Some(held.came);
                held.fresh.insert(held.came, entity.clone());
                held.came += 1;
            }
        }
        Ok(Epoch(held.epoch))
    }

    /// The newest owner of a shard.
    pub(super) fn epoch(&self, shard: Shard) -> Epoch {
        Epoch(self.shards.get(usize::from(shard.0)).map_or(0, |held| held.epoch))
    }

    /// The newest epoch, and the entities of the shard that have pending events and were not announced yet; they are
    /// now. Nothing is announced to a wait that began in an earlier epoch.
    pub(super) fn announce_to(&mut self, shard: Shard, began: Option<Epoch>) -> (Epoch, Vec<EntityKey>) {
        let Some(held) = self.shards.get_mut(usize::from(shard.0)) else { return (Epoch(0), Vec::new()) };
        let epoch = Epoch(held.epoch);
        if began.is_some_and(|began| began != epoch) {
            return (epoch, Vec::new());
        }
        let found: Vec<EntityKey> = std::mem::take(&mut held.fresh).into_values().collect();
        for entity in &found {
            if let Some(queue) = held.entities.get_mut(entity) {
                queue.fresh = None;
            }
        }
        (epoch, found)
    }

    /// Whether the entity had no pending event before.
    fn insert(&mut self, arrival: &Arrival) -> bool {
        let Some(held) = self.shards.get_mut(usize::from(arrival.shard.0)) else { return false };
        let mut slot = arrival.slot.clone();
        let position = slot.position;
        slot.decoded = slot.decoded.filter(|_| self.decoded_bytes < self.bounds.decoded_bytes);
        self.decoded_bytes += slot.bytes();
        self.len += 1;
        held.slots.insert(position, (arrival.entity.clone(), slot));
        let queue = held.entities.entry(arrival.entity.clone()).or_default();
        let first = queue.positions.is_empty();
        queue.positions.insert(position);
        if first {
            queue.fresh = Some(held.came);
            held.fresh.insert(held.came, arrival.entity.clone());
            held.came += 1;
        }
        first
    }
}
