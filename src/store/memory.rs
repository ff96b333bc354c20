//! The store in memory: the model of what a store is, against which the embedded one is tested.
//!
//! Every call is one step under one lock. Nothing is durable.

use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use super::door::{self, Ids, Repeats};
use super::keys::{self, DueKey, Key};
use super::lock::unpoisoned;
use super::page::{self, FEED_END};
use super::records::{CommitRecord, DeliveryRecord, StoredItem};
use super::signals::Signals;
use super::window::{Arrival, Bounds, Slot, Window};
use super::{Action, Command, Commit, Committed, Due, Epoch, Error, Scope, Status, Store};
use crate::domain::query::{DeadLetter, EntityCursor, EntityFilter, Page};
use crate::domain::{
    Admission, Attempt, Delivery, Disposition, Entity, EntityKey, EventDigest, EventId, Kept, Lsn, MachineName,
    Pending, Position, Recorded, Shard, SourceName, Timestamp,
};

/// The store in memory.
pub struct MemoryStore {
    shards: u16,
    signals: Signals,
    model: Mutex<Model>,
}

struct Model {
    shards: u16,
    last: Lsn,
    seen: HashMap<(SourceName, EventId), (EventDigest, Position)>,
    deliveries: BTreeMap<Lsn, DeliveryRecord>,
    /// Replay commands: the item that each is about.
    origins: BTreeMap<Lsn, Position>,
    window: Window,
    /// Events that wait for a retry, with the time.
    waiting: BTreeMap<Position, (Timestamp, Pending)>,
    dead: BTreeMap<Position, DeadLetter>,
    /// By the order that readers see.
    entities: BTreeMap<Key, Entity>,
    entries: Vec<Recorded>,
    machines: BTreeMap<MachineName, (u32, [u8; 32])>,
}

impl MemoryStore {
    /// An empty store of so many shards.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        let bounds = Bounds { events: usize::MAX, decoded_bytes: usize::MAX };
        let model = Model {
            shards,
            last: Lsn(0),
            seen: HashMap::new(),
            deliveries: BTreeMap::new(),
            origins: BTreeMap::new(),
            window: Window::new(shards, bounds, Lsn(1)),
            waiting: BTreeMap::new(),
            dead: BTreeMap::new(),
            entities: BTreeMap::new(),
            entries: Vec::new(),
            machines: BTreeMap::new(),
        };
        Self { shards, signals: Signals::new(Lsn(0), true), model: Mutex::new(model) }
    }

    fn model(&self) -> Result<MutexGuard<'_, Model>, Error> {
        self.signals.check()?;
        Ok(self.peek())
    }

    fn peek(&self) -> MutexGuard<'_, Model> {
        unpoisoned(self.model.lock())
    }

    fn tell(&self, lsn: Lsn) {
        self.signals.synced(lsn);
        self.signals.ring();
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn shards(&self) -> u16 {
        self.shards
    }

    /// Zeros: what is gone with its process is mistaken for no other.
    fn id(&self) -> [u8; 16] {
        [0; 16]
    }

    async fn append(&self, delivery: Delivery) -> Result<Vec<Admission>, Error> {
        let mut model = self.model()?;
        let lsn = model.next();
        let mut record = door::record_of(delivery, self.shards);
        let admitted = door::admit(&record.items, lsn, &mut Seen(&mut model.seen))?;
        door::stand(&mut record, &admitted.admissions);
        if admitted.repeats != Repeats::All {
            model.deliver(lsn, record);
            self.tell(lsn);
        }
        Ok(admitted.admissions)
    }

    async fn command(&self, command: Command) -> Result<Position, Error> {
        let mut model = self.model()?;
        let lsn = model.next();
        model.command(lsn, command)?;
        self.tell(lsn);
        Ok(Position { lsn, item: 0 })
    }

    async fn adopt(&self, shard: Shard) -> Result<Epoch, Error> {
        let epoch = self.model()?.window.adopt(shard)?;
        self.signals.ring();
        Ok(epoch)
    }

    async fn arrivals(&self, shards: &[Shard]) -> Result<Vec<EntityKey>, Error> {
        self.signals.arrivals(|began| self.peek().window.announce_to(shards, began)).await
    }

    async fn pending(&self, scope: Scope<'_>, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        Ok(self.model()?.pending(scope, now, limit))
    }

    async fn load(&self, key: &EntityKey) -> Result<Option<Entity>, Error> {
        Ok(self.model()?.entities.get(&keys::entity_order(key)).cloned())
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        let mut model = self.model()?;
        model.refuse(&commit)?;
        let lsn = model.next();
        let record = CommitRecord::of(commit);
        model.commit(lsn, &record);
        let more = model.window.waits(record.entity.shard(self.shards), &record.entity);
        self.tell(lsn);
        Ok(Committed { lsn, more })
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, Error> {
        let model = self.model()?;
        let retries = model.waiting.iter().filter_map(|(position, (at, pending))| {
            Some(DueKey { at: *at, entity: pending.event.entity.clone()?, retry: Some(*position) })
        });
        let checks = model.entities.values().filter_map(|entity| {
            let check = entity.check.as_ref()?;
            Some(DueKey { at: check.due, entity: entity.key.clone(), retry: None })
        });
        let sorted: BTreeMap<Key, DueKey> = retries.chain(checks).map(|due| (keys::due(&due), due)).collect();
        page::due(sorted.into_values().map(Ok), now, limit)
    }

    async fn entities(
        &self,
        filter: &EntityFilter,
        after: Option<&EntityCursor>,
        limit: usize,
    ) -> Result<Page<Entity, EntityCursor>, Error> {
        let model = self.model()?;
        let after = after.map(keys::entity_order);
        let behind = model.entities.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let found = behind.map(|(_, entity)| entity).filter(|entity| page::matches(filter, entity));
        Ok(page::of(found.cloned(), limit, |entity| entity.key.clone()))
    }

    async fn entries(
        &self,
        entity: Option<&EntityKey>,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<Recorded, Position>, Error> {
        let model = self.model()?;
        let found = model.entries.iter().filter(|recorded| Some(recorded.position) > after);
        let found = found.filter(|recorded| entity.is_none_or(|entity| recorded.entity == *entity));
        Ok(page::of(found.cloned(), limit, |recorded| recorded.position))
    }

    async fn feed(&self, after: Option<Position>, limit: usize) -> Result<Page<Recorded, Position>, Error> {
        let model = self.model()?;
        let moves = model.entries.iter().filter(|recorded| Some(recorded.position) > after && recorded.entry.is_move());
        let mut page = page::of(moves.cloned(), limit, |recorded| recorded.position);
        let end = Position { lsn: model.last, item: FEED_END };
        if page.next.is_none() && after.unwrap_or_default() < end && model.last > Lsn(0) {
            page.next = Some(end);
        }
        Ok(page)
    }

    async fn synced_beyond(&self, lsn: Lsn) -> Result<Lsn, Error> {
        self.signals.synced_beyond(lsn).await
    }

    async fn dead_letters(&self, after: Option<Position>, limit: usize) -> Result<Page<DeadLetter, Position>, Error> {
        let model = self.model()?;
        let found = model.dead.values().filter(|dead| Some(dead.position) > after);
        Ok(page::of(found.cloned(), limit, |dead| dead.position))
    }

    async fn dead_letter(&self, position: Position) -> Result<Option<DeadLetter>, Error> {
        Ok(self.model()?.dead.get(&position).cloned())
    }

    async fn delivery(&self, position: Position) -> Result<Option<Kept>, Error> {
        let model = self.model()?;
        Ok(model.item(position).map(|(record, item)| Kept { delivery: record.clone().into_delivery(), item }))
    }

    async fn machines(&self) -> Result<BTreeMap<MachineName, (u32, [u8; 32])>, Error> {
        Ok(self.model()?.machines.clone())
    }

    fn status(&self) -> Status {
        let model = self.peek();
        let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        Status {
            synced: model.last,
            applied: model.last,
            pending: count(model.window.len()),
            retries: count(model.waiting.len()),
            checks: count(model.entities.values().filter(|entity| entity.check.is_some()).count()),
            dead_letters: count(model.dead.len()),
            entities: count(model.entities.len()),
            journal_bytes: 0,
            proving: false,
        }
    }

    async fn close(&self) -> Result<(), Error> {
        self.signals.stop("it was closed");
        Ok(())
    }
}

struct Seen<'a>(&'a mut HashMap<(SourceName, EventId), (EventDigest, Position)>);

impl Ids for Seen<'_> {
    type Known = StoredItem;

    fn meet(&mut self, item: &StoredItem, position: Position) -> Result<Option<(Position, bool)>, Error> {
        match self.0.entry((item.event.source.clone(), item.event.id.clone())) {
            Place::Occupied(first) => Ok(Some((first.get().1, first.get().0 == item.digest))),
            Place::Vacant(new) => {
                new.insert((item.digest, position));
                Ok(None)
            }
        }
    }
}

impl Model {
    fn next(&self) -> Lsn {
        Lsn(self.last.0 + 1)
    }

    fn deliver(&mut self, lsn: Lsn, record: DeliveryRecord) {
        let mut arrivals = Vec::new();
        for (position, item) in record.items(lsn) {
            let pending = record.pending(position, item);
            if let Some(reason) = item.dead_reason() {
                let attempts = vec![Attempt { at: record.received_at, reason }];
                self.dead.insert(position, dead_letter(Pending { attempts, ..pending }));
            } else if item.queued_for().is_some() {
                arrivals.extend(Arrival::of(self.shards, item.shard, pending));
            }
        }
        self.last = lsn;
        self.deliveries.insert(lsn, record);
        self.window.extend(lsn, Some(arrivals));
    }

    fn command(&mut self, lsn: Lsn, command: Command) -> Result<(), Error> {
        let mut arrivals = Vec::new();
        match command.action {
            Action::Replay { dead, event } => {
                let letter = self.dead.get(&dead).filter(|_| event.entity.is_some());
                let letter = letter.ok_or(Error::NotDead { position: dead })?;
                let pending = Pending {
                    position: Position { lsn, item: 0 },
                    event,
                    received_at: letter.received_at,
                    body_sha256: letter.body_sha256,
                    attempts: letter.attempts.clone(),
                    replayed_by: Some(command.by),
                };
                arrivals.extend(Arrival::of(self.shards, None, pending));
                self.dead.remove(&dead);
                let origin = self.origins.get(&dead.lsn).copied().unwrap_or(dead);
                self.origins.insert(lsn, origin);
            }
            Action::Discard { dead } => {
                self.dead.remove(&dead).ok_or(Error::NotDead { position: dead })?;
            }
            Action::MachineChanged { machine, version, sha256 } => {
                self.machines.insert(machine, (version, sha256));
            }
        }
        self.last = lsn;
        self.window.extend(lsn, Some(arrivals));
        Ok(())
    }

    fn refuse(&self, commit: &Commit) -> Result<(), Error> {
        let shard = commit.entity.shard(self.shards);
        if commit.epoch != self.window.epoch(shard) {
            return Err(Error::Fenced { shard });
        }
        let actual = self.entities.get(&keys::entity_order(&commit.entity)).map_or(0, |entity| entity.version);
        if actual != commit.version {
            return Err(Error::Moved { entity: commit.entity.clone(), expected: commit.version, actual });
        }
        let mut named = BTreeSet::new();
        for judged in &commit.judged {
            let position = judged.position;
            let fresh = self.window.slot(shard, &commit.entity, position).is_some();
            let waiting = self.waiting.get(&position);
            let waits = waiting.is_some_and(|(_, pending)| pending.event.entity.as_ref() == Some(&commit.entity));
            if !named.insert(position) || !(fresh || waits) {
                return Err(Error::NotPending { position });
            }
        }
        Ok(())
    }

    fn commit(&mut self, lsn: Lsn, record: &CommitRecord) {
        let shard = record.entity.shard(self.shards);
        for judged in &record.judged {
            let position = judged.position;
            let fresh =
                self.window.slot(shard, &record.entity, position).and_then(|slot| slot.decoded.as_deref().cloned());
            self.window.remove(shard, &record.entity, position);
            let waited = self.waiting.remove(&position).map(|(_, pending)| pending);
            let Some(mut pending) = fresh.or(waited) else { continue };
            match &judged.disposition {
                Disposition::Done => {}
                Disposition::Wait { at } => {
                    self.waiting.insert(position, (*at, pending));
                }
                Disposition::Retry { at, attempt } => {
                    pending.attempts.push(attempt.clone());
                    self.waiting.insert(position, (*at, pending));
                }
                Disposition::Dead { attempt } => {
                    pending.attempts.push(attempt.clone());
                    self.dead.insert(position, dead_letter(pending));
                }
            }
        }
        for (position, entry) in record.entries(lsn) {
            let order = keys::entity_order(&record.entity);
            let entity = self.entities.entry(order).or_insert_with(|| Entity::unknown(record.entity.clone()));
            entry.apply(entity);
            self.entries.push(Recorded { position, entity: record.entity.clone(), entry: entry.clone() });
        }
        self.last = lsn;
        self.window.extend(lsn, Some(Vec::new()));
    }

    fn pending(&self, scope: Scope<'_>, now: Timestamp, limit: usize) -> Vec<Pending> {
        let fresh = match scope {
            Scope::Shard(shard) => self.window.of_shard(shard, limit),
            Scope::Entity(entity) => self.window.of_entity(entity.shard(self.shards), entity, limit),
        };
        let meant = |entity: &EntityKey| match scope {
            Scope::Shard(shard) => entity.shard(self.shards) == shard,
            Scope::Entity(asked) => entity == asked,
        };
        let waiting = self.waiting.values().filter(|(at, _)| *at <= now).map(|(_, pending)| pending);
        let waiting = waiting.filter(|pending| pending.event.entity.as_ref().is_some_and(&meant)).cloned();
        let fresh = fresh.iter().filter_map(|slot: &Slot| slot.decoded.as_deref().cloned());
        let sorted: BTreeMap<Position, Pending> =
            fresh.chain(waiting).map(|pending| (pending.position, pending)).collect();
        sorted.into_values().take(limit).collect()
    }

    /// The delivery record that holds a position's event, and the event's place in it.
    fn item(&self, position: Position) -> Option<(&DeliveryRecord, usize)> {
        let replayed = self.origins.get(&position.lsn).filter(|_| position.item == 0);
        let position = replayed.copied().unwrap_or(position);
        let record = self.deliveries.get(&position.lsn)?;
        let item = usize::try_from(position.item).ok().filter(|item| *item < record.items.len())?;
        Some((record, item))
    }
}

/// The dead letter that an event becomes.
fn dead_letter(pending: Pending) -> DeadLetter {
    DeadLetter {
        position: pending.position,
        event: pending.event,
        received_at: pending.received_at,
        body_sha256: pending.body_sha256,
        attempts: pending.attempts,
    }
}
