//! How the embedded store answers questions: from memory, the view and the journal, as of the last durable record.
//! These calls may read the disk, so they run on threads that may wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::change::{Held, Waiting};
use super::keys::{self, Key, Table};
use super::page::{self, FEED_END};
use super::records::{Kind, Record, StoredAction};
use super::shared::{Pair, Shared};
use super::window::Slot;
use super::{Due, Error, Scope};
use crate::domain::query::{DeadLetter, EntityCursor, EntityFilter, Page};
use crate::domain::{Attempt, Entity, EntityKey, Kept, Lsn, Pending, Position, Recorded, Timestamp};

/// How many records or pairs one call looks at, at most: a page may be short and still have a next.
const LOOKS_MAX: usize = 10_000;

/// The most pairs read at once.
const PAIRS_MAX: usize = 512;

/// The pairs of a range, in order.
struct Pairs<'a> {
    shared: &'a Shared,
    rest: Range<Key>,
    read: VecDeque<Pair>,
    next: usize,
}

impl Shared {
    /// [`super::Store::pending`], if memory can answer it.
    pub(super) fn pending_at_hand(&self, scope: Scope<'_>, limit: usize) -> Option<Vec<Pending>> {
        let (slots, retries) = self.slots(scope, limit);
        let decoded: Option<Vec<Pending>> = slots.iter().map(|slot| slot.decoded.as_deref().cloned()).collect();
        decoded.filter(|_| retries == 0)
    }

    /// [`super::Store::pending`].
    pub(super) fn pending(&self, scope: Scope<'_>, now: Timestamp, limit: usize) -> Result<Vec<Pending>, Error> {
        let (slots, retries) = self.slots(scope, limit);
        let mut found: BTreeMap<Position, Option<Arc<Pending>>> =
            slots.into_iter().map(|slot| (slot.position, slot.decoded)).collect();
        let mut waiting = BTreeMap::new();
        if retries > 0 {
            waiting = match scope {
                Scope::Entity(entity) => self.retries_of(entity, now, limit)?,
                Scope::Shard(_) => self.retries_due(scope, now, limit)?,
            };
            found.extend(waiting.keys().map(|position| (*position, None)));
        }
        let mut record: Option<(Lsn, Record)> = None;
        let mut pending = Vec::new();
        for (position, decoded) in found.into_iter().take(limit) {
            let mut event = match decoded {
                Some(decoded) => (*decoded).clone(),
                None => self.event_in(&mut record, position)?,
            };
            if let Some(waiting) = waiting.remove(&position) {
                event.attempts = waiting.attempts;
            }
            pending.push(event);
        }
        Ok(pending)
    }

    /// [`super::Store::due`].
    pub(super) fn due(&self, now: Timestamp, limit: usize) -> Result<Due, Error> {
        page::due(self.pairs(Table::Due.all()).map(|pair| keys::read_due(&pair?.0)), now, limit)
    }

    /// [`super::Store::entities`].
    pub(super) fn entities(
        &self,
        filter: &EntityFilter,
        after: Option<&EntityCursor>,
        limit: usize,
    ) -> Result<Page<Entity, EntityCursor>, Error> {
        let mut page = Page { items: Vec::new(), next: None };
        for (pair, looks) in self.pairs(keys::matching(filter, after)).zip(0..) {
            if page.items.len() >= limit.max(1) || looks >= LOOKS_MAX {
                return Ok(page);
            }
            let (key, value) = pair?;
            let entity = keys::read_entity(&key)?;
            let held = match filter.state {
                Some(_) => self.held(&entity)?,
                None => Some(Arc::new(self.decode::<Held>(&key, &value)?)),
            };
            page.items.extend(held.filter(|held| page::matches(filter, &held.entity)).map(|held| held.entity.clone()));
            page.next = Some(entity);
        }
        page.next = None;
        Ok(page)
    }

    /// [`super::Store::entries`] of one entity.
    pub(super) fn entries_of(
        &self,
        entity: &EntityKey,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<Recorded, Position>, Error> {
        let from = after.unwrap_or_default().lsn;
        // The newest first: what moves to the older ones meanwhile is then met twice, and not never.
        let recent = self.held(entity)?.map(|held| held.recent.clone()).unwrap_or_default();
        let mut lsns = BTreeSet::new();
        for pair in self.pairs(keys::commits_from(entity, from)) {
            let (key, value) = pair?;
            lsns.extend(self.decode::<Vec<Lsn>>(&key, &value)?.into_iter().filter(|lsn| *lsn >= from));
            if lsns.len() > limit {
                break;
            }
        }
        lsns.extend(recent.into_iter().filter(|lsn| *lsn >= from));
        let mut found = Vec::new();
        for lsn in lsns {
            let Some(Record::Commit(commit)) = self.record(lsn)? else {
                return Err(super::records::corrupt(lsn, format!("it is no commit of `{entity}`, as the view says")));
            };
            let entries = commit.entries(lsn).filter(|(position, _)| Some(*position) > after);
            let recorded = |(position, entry): (Position, &crate::domain::Entry)| Recorded {
                position,
                entity: entity.clone(),
                entry: entry.clone(),
            };
            found.extend(entries.map(recorded));
            if found.len() > limit {
                break;
            }
        }
        Ok(page::of(found.into_iter(), limit, |recorded| recorded.position))
    }

    /// The entries of all entities, or the moves among them, from the journal. `next` is some unless nothing was
    /// read; the flag says whether the end was reached.
    pub(super) fn entries(
        &self,
        after: Option<Position>,
        limit: usize,
        wanted: impl Fn(&crate::domain::Entry) -> bool,
    ) -> Result<(Page<Recorded, Position>, bool), Error> {
        let mut page = Page { items: Vec::new(), next: None };
        let from = after.map_or(Lsn(1), |after| Lsn(after.lsn.0.saturating_add(u64::from(after.item == FEED_END))));
        let synced = self.state().synced;
        for (frame, looks) in self.reader.scan(from).zip(0..) {
            let (lsn, bytes) = frame?;
            if lsn > synced {
                break;
            }
            if looks >= LOOKS_MAX {
                return Ok((page, false));
            }
            if Kind::of(lsn, &bytes)? == Kind::Commit
                && let Record::Commit(commit) = Record::decode(lsn, bytes)?
            {
                for (position, entry) in commit.entries(lsn).filter(|(position, _)| Some(*position) > after) {
                    if wanted(entry) {
                        if page.items.len() >= limit.max(1) {
                            return Ok((page, false));
                        }
                        let recorded = Recorded { position, entity: commit.entity.clone(), entry: entry.clone() };
                        page.items.push(recorded);
                    }
                    page.next = Some(position);
                }
            }
            page.next = Some(Position { lsn, item: FEED_END });
        }
        Ok((page, true))
    }

    /// [`super::Store::dead_letters`].
    pub(super) fn dead_letters(
        &self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Page<DeadLetter, Position>, Error> {
        let mut range = Table::Dead.all();
        if let Some(after) = after {
            range.start = keys::dead(after);
            range.start.push(0);
        }
        let mut found = Vec::new();
        for pair in self.pairs(range).take(limit.max(1).saturating_add(1)) {
            let (key, value) = pair?;
            found.push(self.letter(keys::read_position(&key)?, self.decode(&key, &value)?)?);
        }
        Ok(page::of(found.into_iter(), limit, |dead| dead.position))
    }

    /// [`super::Store::dead_letter`].
    pub(super) fn dead_letter(&self, position: Position) -> Result<Option<DeadLetter>, Error> {
        let key = keys::dead(position);
        let attempts = self.get(&key)?.map(|value| self.decode(&key, &value)).transpose()?;
        attempts.map(|attempts| self.letter(position, attempts)).transpose()
    }

    /// The item of a delivery that stands behind a position: another one if a replay command stands there.
    pub(super) fn origin(&self, position: Position) -> Result<Position, Error> {
        Ok(match self.record(position.lsn)? {
            Some(Record::Command(command)) => match command.action {
                StoredAction::Replay(replay) if position.item == 0 => replay.origin,
                StoredAction::Replay(_) | StoredAction::Discard { .. } | StoredAction::MachineChanged { .. } => {
                    position
                }
            },
            Some(Record::Delivery(_) | Record::Commit(_)) | None => position,
        })
    }

    /// [`super::Store::delivery`].
    pub(super) fn delivery(&self, position: Position) -> Result<Option<Kept>, Error> {
        if position.lsn > self.state().synced {
            return Ok(None);
        }
        let origin = self.origin(position)?;
        let Some(Record::Delivery(record)) = self.record(origin.lsn)? else { return Ok(None) };
        let item = usize::try_from(origin.item).ok().filter(|item| *item < record.items.len());
        Ok(item.map(|item| Kept { delivery: record.into_delivery(), item }))
    }

    /// The pending events of a scope that were never tried, and how many wait for a retry anywhere.
    fn slots(&self, scope: Scope<'_>, limit: usize) -> (Vec<Slot>, i64) {
        let shard = match scope {
            Scope::Entity(entity) => entity.shard(self.shards),
            Scope::Shard(shard) => shard,
        };
        let state = self.state();
        let slots = match scope {
            Scope::Entity(entity) => state.window.of_entity(shard, entity, limit),
            Scope::Shard(_) => state.window.of_shard(shard, limit),
        };
        (slots, state.counts.retries)
    }

    /// The first retries of an entity that are due.
    fn retries_of(
        &self,
        entity: &EntityKey,
        now: Timestamp,
        limit: usize,
    ) -> Result<BTreeMap<Position, Waiting>, Error> {
        let mut found = BTreeMap::new();
        for pair in self.pairs(keys::retries(entity)) {
            let (key, value) = pair?;
            let waiting: Waiting = self.decode(&key, &value)?;
            if found.len() >= limit {
                break;
            }
            if waiting.due <= now {
                found.insert(keys::read_position(&key)?, waiting);
            }
        }
        Ok(found)
    }

    /// The first retries of a scope that are due, by position: the list of what is due is by time, so all of it is
    /// read, and no more than `limit` of it is held.
    fn retries_due(
        &self,
        scope: Scope<'_>,
        now: Timestamp,
        limit: usize,
    ) -> Result<BTreeMap<Position, Waiting>, Error> {
        let mut first: BTreeMap<Position, EntityKey> = BTreeMap::new();
        for pair in self.pairs(Table::Due.all()) {
            let due = keys::read_due(&pair?.0)?;
            if due.at > now {
                break;
            }
            let meant = match scope {
                Scope::Shard(shard) => due.entity.shard(self.shards) == shard,
                Scope::Entity(entity) => due.entity == *entity,
            };
            if let Some(position) = due.retry.filter(|_| meant) {
                first.insert(position, due.entity);
                if first.len() > limit {
                    first.pop_last();
                }
            }
        }
        let waiting = |(position, entity)| Ok(self.waiting(&entity, position)?.map(|waiting| (position, waiting)));
        first.into_iter().filter_map(|due| waiting(due).transpose()).collect()
    }

    fn letter(&self, position: Position, attempts: Vec<Attempt>) -> Result<DeadLetter, Error> {
        let Pending { position, event, received_at, body_sha256, .. } = self.event(position)?;
        Ok(DeadLetter { position, event, received_at, body_sha256, attempts })
    }

    /// The event at a position; `record` keeps the record read last, since neighbours often stand in one.
    fn event_in(&self, record: &mut Option<(Lsn, Record)>, position: Position) -> Result<Pending, Error> {
        if record.as_ref().is_none_or(|(lsn, _)| *lsn != position.lsn) {
            *record = self.record(position.lsn)?.map(|record| (position.lsn, record));
        }
        let pending = record.as_ref().and_then(|(_, record)| record.pending(position));
        pending.ok_or_else(|| super::records::corrupt(position.lsn, format!("no event stands at {position}")))
    }

    /// The pairs of a range, read as they are asked for.
    fn pairs(&self, range: Range<Key>) -> Pairs<'_> {
        Pairs { shared: self, rest: range, read: VecDeque::new(), next: 16 }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<Pair, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty() && self.rest.start < self.rest.end {
            match self.shared.range(&self.rest, self.next) {
                Ok(read) => self.read.extend(read),
                Err(error) => {
                    self.rest.start.clone_from(&self.rest.end);
                    return Some(Err(error));
                }
            }
            match self.read.back().filter(|_| self.read.len() == self.next) {
                Some((last, _)) => {
                    self.rest.start.clone_from(last);
                    self.rest.start.push(0);
                }
                None => self.rest.start.clone_from(&self.rest.end),
            }
            self.next = (self.next * 2).min(PAIRS_MAX);
        }
        self.read.pop_front().map(Ok)
    }
}
