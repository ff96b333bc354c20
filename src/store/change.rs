//! What one record changes in the view: pure, so that applying it at once, after a restart and in a rebuild are the
//! same thing.

use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Error;
use super::keys::{self, DueKey, Key};
use super::records::{CommandRecord, CommitRecord, DeliveryRecord, StoredAction, corrupt};
use crate::domain::{
    Attempt, Disposition, Entity, EntityKey, Judged, Lsn, MachineName, Position, StateName, Timestamp,
};

/// The version of the form of the view's values.
const VALUE_VERSION: u8 = 3;

/// How many of an entity's commits are listed beside its snapshot before they move to a key of their own: one write
/// less for each commit, and a bound on the value.
const RECENT_MAX: usize = 32;

/// What an entity in memory takes besides what it holds, about.
const HELD_BYTES: usize = 256;

/// What a field takes besides its text, about.
const FIELD_BYTES: usize = 80;

/// What a machine's state takes, about.
const MACHINE_BYTES: usize = 160;

/// A value; none deletes the key.
pub(super) type Value = Option<Stored>;

/// A value as it waits for the view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stored {
    /// Its bytes.
    Bytes(Arc<[u8]>),
    /// An entity, which becomes bytes only when it is written: by then most of its versions are outdated.
    Held(Arc<Held>),
}

/// What one record changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    pub(super) lsn: Lsn,
    pub(super) writes: Vec<(Key, Value)>,
    pub(super) counts: Counts,
    /// The entity after it, if it is about one.
    pub(super) held: Option<Arc<Held>>,
    /// The machine that it records.
    pub(super) machine: Option<(MachineName, (u32, [u8; 32]))>,
}

/// An entity as the view holds it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) entity: Entity,
    /// Its newest commits; older ones stand under [`keys::Table::Commits`].
    pub(super) recent: Vec<Lsn>,
}

/// An event that waits for a retry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) due: Timestamp,
    pub(super) attempts: Vec<Attempt>,
}

/// How an event stands before a commit judges it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Before {
    /// Never decided; it has earlier tries only if it is a replay.
    Fresh {
        /// Those tries.
        attempts: Vec<Attempt>,
    },
    /// It was put off.
    Waiting(Waiting),
}

/// Counts of what a store holds, or by how much a record changes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) pending: i64,
    pub(super) retries: i64,
    pub(super) checks: i64,
    pub(super) dead_letters: i64,
    pub(super) entities: i64,
}

impl Stored {
    /// The bytes.
    pub(super) fn bytes(&self) -> Result<Arc<[u8]>, Error> {
        match self {
            Self::Bytes(bytes) => Ok(Arc::clone(bytes)),
            Self::Held(held) => encode(&**held),
        }
    }

    /// How much memory it takes, about.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Held(held) => held.weight(),
        }
    }
}

impl Change {
    fn put(&mut self, key: Key, value: &impl Serialize) -> Result<(), Error> {
        self.writes.push((key, Some(Stored::Bytes(encode(value)?))));
        Ok(())
    }

    fn mark(&mut self, key: Key) {
        self.writes.push((key, Some(Stored::Bytes(Arc::from([])))));
    }

    fn delete(&mut self, key: Key) {
        self.writes.push((key, None));
    }
}

/// What a delivery changes: its dead letters, and how many events wait.
pub(super) fn of_delivery(lsn: Lsn, record: &DeliveryRecord) -> Result<Change, Error> {
    let mut change = of_waiting(lsn, waiting(record));
    for (position, item) in record.items(lsn) {
        if let Some(reason) = item.dead_reason() {
            change.put(keys::dead(position), &vec![Attempt { at: record.received_at, reason }])?;
            change.counts.dead_letters += 1;
        }
    }
    Ok(change)
}

/// How many events of a delivery wait for a decision.
pub(super) fn waiting(record: &DeliveryRecord) -> usize {
    record.items.iter().filter(|item| item.queued_for().is_some()).count()
}

/// What a delivery changes whose new events wait or are only recorded, and that has no other.
pub(super) fn of_waiting(lsn: Lsn, events: usize) -> Change {
    let pending = i64::try_from(events).unwrap_or(i64::MAX);
    Change { lsn, counts: Counts { pending, ..Counts::default() }, ..Change::default() }
}

/// What a command changes.
pub(super) fn of_command(lsn: Lsn, record: &CommandRecord) -> Result<Change, Error> {
    let mut change = Change { lsn, ..Change::default() };
    match &record.action {
        StoredAction::Replay(replay) => {
            change.delete(keys::dead(replay.dead));
            change.counts.dead_letters -= 1;
            change.counts.pending += 1;
        }
        StoredAction::Discard { dead } => {
            change.delete(keys::dead(*dead));
            change.counts.dead_letters -= 1;
        }
        StoredAction::MachineChanged { machine, version, sha256 } => {
            change.put(keys::machine(machine), &(*version, *sha256))?;
            change.machine = Some((machine.clone(), (*version, *sha256)));
        }
    }
    Ok(change)
}

/// What a commit changes: the entity as the fold of its entries, and what became of each event. `held` is the entity
/// before, `before` stands beside `record.judged`.
pub(super) fn of_commit(
    lsn: Lsn,
    record: &CommitRecord,
    held: Option<&Held>,
    before: &[Before],
) -> Result<Change, Error> {
    let mut change = Change { lsn, ..Change::default() };
    for (judged, before) in record.judged.iter().zip(before) {
        judge(&mut change, &record.entity, judged, before)?;
    }
    if record.entries.is_empty() {
        return Ok(change);
    }
    let version = held.map_or(0, |held| held.entity.version);
    if version != record.version {
        let detail = format!("it was decided on version {} of `{}`, not {version}", record.version, record.entity);
        return Err(corrupt(lsn, detail));
    }
    let mut after = held.cloned().unwrap_or_else(|| Held::unknown(record.entity.clone()));
    record.entries.iter().for_each(|entry| entry.apply(&mut after.entity));
    after.recent.push(lsn);
    if after.recent.len() >= RECENT_MAX {
        change.put(keys::commits(&record.entity, lsn), &after.recent)?;
        after.recent.clear();
    }
    list_states(&mut change, held, &after);
    schedule_check(&mut change, held, &after);
    let after = Arc::new(after);
    change.writes.push((keys::entity(&record.entity), Some(Stored::Held(Arc::clone(&after)))));
    change.counts.entities += i64::from(held.is_none());
    change.held = Some(after);
    Ok(change)
}

/// The form of a value: a version byte, then postcard.
pub(super) fn encode(value: &impl Serialize) -> Result<Arc<[u8]>, Error> {
    let bytes = postcard::to_extend(value, vec![VALUE_VERSION])
        .map_err(|error| Error::Corrupt { place: "a new value of the view".to_owned(), detail: error.to_string() })?;
    Ok(bytes.into())
}

/// Reads a value.
pub(super) fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, Error> {
    let malformed = |detail: String| Error::Corrupt { place: format!("view, key {}", hex::encode(key)), detail };
    match value {
        [VALUE_VERSION, rest @ ..] => postcard::from_bytes(rest).map_err(|error| malformed(error.to_string())),
        [version, ..] => Err(malformed(format!("version {version} is unknown"))),
        [] => Err(malformed("it is empty".to_owned())),
    }
}

impl Held {
    fn unknown(key: EntityKey) -> Self {
        Self { entity: Entity::unknown(key), recent: Vec::new() }
    }

    /// How much memory it takes, about; its fields are often shared with an older version, which is not considered.
    pub(super) fn weight(&self) -> usize {
        let body = self.entity.ladder();
        let fields = body.fields.iter().map(|(name, value)| FIELD_BYTES + name.as_str().len() + value.as_str().len());
        let machines = body.machines.len() * MACHINE_BYTES;
        let check = self.entity.check.as_ref().map_or(0, |check| MACHINE_BYTES + check.positions.len() * 16);
        HELD_BYTES + self.recent.capacity() * 8 + fields.sum::<usize>() + machines + check
    }

    fn states(&self) -> BTreeSet<&StateName> {
        self.entity.ladder().machines.values().map(|machine| &machine.state).collect()
    }

    fn check(&self) -> Option<DueKey> {
        let check = self.entity.check.as_ref()?;
        Some(DueKey { at: check.due, entity: self.entity.key.clone(), retry: None })
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.pending += other.pending;
        self.retries += other.retries;
        self.checks += other.checks;
        self.dead_letters += other.dead_letters;
        self.entities += other.entities;
    }
}

fn judge(change: &mut Change, entity: &EntityKey, judged: &Judged, before: &Before) -> Result<(), Error> {
    let position = judged.position;
    let earlier = match before {
        Before::Fresh { attempts } => {
            change.counts.pending -= 1;
            attempts
        }
        Before::Waiting(waiting) => {
            change.counts.retries -= 1;
            change.delete(keys::due(&due_retry(entity, position, waiting.due)));
            change.delete(keys::retry(entity, position));
            &waiting.attempts
        }
    };
    let with = |attempt: &Attempt| earlier.iter().chain([attempt]).cloned().collect::<Vec<_>>();
    match &judged.disposition {
        Disposition::Done => {}
        Disposition::Wait { at } => {
            change.put(keys::retry(entity, position), &Waiting { due: *at, attempts: earlier.clone() })?;
            change.mark(keys::due(&due_retry(entity, position, *at)));
            change.counts.retries += 1;
        }
        Disposition::Retry { at, attempt } => {
            change.put(keys::retry(entity, position), &Waiting { due: *at, attempts: with(attempt) })?;
            change.mark(keys::due(&due_retry(entity, position, *at)));
            change.counts.retries += 1;
        }
        Disposition::Dead { attempt } => {
            change.put(keys::dead(position), &with(attempt))?;
            change.counts.dead_letters += 1;
        }
    }
    Ok(())
}

fn due_retry(entity: &EntityKey, position: Position, at: Timestamp) -> DueKey {
    DueKey { at, entity: entity.clone(), retry: Some(position) }
}

fn list_states(change: &mut Change, before: Option<&Held>, after: &Held) {
    let (old, new) = (before.map(Held::states).unwrap_or_default(), after.states());
    for gone in old.difference(&new) {
        change.delete(keys::state(gone.as_str(), &after.entity.key));
    }
    for come in new.difference(&old) {
        change.mark(keys::state(come.as_str(), &after.entity.key));
    }
}

fn schedule_check(change: &mut Change, before: Option<&Held>, after: &Held) {
    let (old, new) = (before.and_then(Held::check), after.check());
    change.counts.checks += i64::from(new.is_some()) - i64::from(old.is_some());
    if old == new {
        return;
    }
    if let Some(due) = old {
        change.delete(keys::due(&due));
    }
    if let Some(due) = new {
        change.mark(keys::due(&due));
    }
}
