//! What a journal says, told by the simplest means there are: one pass over all records with plain maps. What the
//! store answers by its windows, overlays and views is compared with this.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::embedded::EmbeddedStore;
use super::layout::Layout;
use super::records::{self, PREFIX_LEN, Record, Standing, StoredAction};
use super::replay::Replay;
use super::tree::sim::SimTrees;
use super::view::{Meta, View};
use super::{Error, Options, keys};
use crate::domain::{Disposition, Entity, EntityKey, EventId, Lsn, Position, Recorded, SourceName, Timestamp};
use crate::store::disk::sim::SimDisk;
use crate::store::tree::Trees as _;

/// Everything that a journal says.
#[derive(Default)]
pub(crate) struct Told {
    /// Where the first of each event id stands.
    pub(crate) firsts: BTreeMap<(SourceName, EventId), Position>,
    /// Every event id that is there, also as a dead letter.
    pub(crate) ids: BTreeMap<Position, EventId>,
    /// Events that wait for their first decision, and whose they are.
    pub(crate) pending: BTreeMap<Position, EntityKey>,
    /// Events that wait for a retry, and until when.
    pub(crate) waiting: BTreeMap<Position, (EntityKey, Timestamp)>,
    pub(crate) dead: BTreeSet<Position>,
    /// What operators asked for: of which dead letter, and whether it is to be tried again.
    pub(crate) commands: BTreeMap<Lsn, (Position, bool)>,
    /// What was decided for good, and how often.
    pub(crate) done: BTreeMap<Position, u32>,
    pub(crate) entities: BTreeMap<EntityKey, Entity>,
    /// Every entry in order.
    pub(crate) entries: Vec<Recorded>,
    /// What contradicts itself.
    pub(crate) problems: Vec<String>,
}

impl Told {
    /// Reads the records.
    pub(crate) fn of(records: &[(Lsn, Vec<u8>)]) -> Self {
        let mut told = Self::default();
        for (place, (lsn, bytes)) in (1..).zip(records) {
            if lsn.0 != place {
                told.problems.push(format!("record {place} has the LSN {}", lsn.0));
            }
            match Record::decode(*lsn, bytes.clone()) {
                Ok(record) => told.take(*lsn, record),
                Err(error) => told.problems.push(error.to_string()),
            }
        }
        told
    }

    fn take(&mut self, lsn: Lsn, record: Record) {
        match record {
            Record::Delivery(delivery) => {
                for (position, item) in delivery.items(lsn) {
                    let id = (item.event.source.clone(), item.event.id.clone());
                    self.ids.insert(position, id.1.clone());
                    match (item.standing, self.firsts.get(&id)) {
                        (Standing::New, None) => {
                            self.firsts.insert(id, position);
                        }
                        (Standing::New, Some(first)) => {
                            self.problems.push(format!("{} at {position} is new, and stands at {first}", id.1));
                        }
                        (Standing::Duplicate(first) | Standing::Conflict(first), known) if known != Some(&first) => {
                            self.problems.push(format!("{} at {position} repeats {first}, not {known:?}", id.1));
                        }
                        (Standing::Duplicate(_) | Standing::Conflict(_), _) => {}
                    }
                    if let Some(entity) = item.queued_for() {
                        self.pending.insert(position, entity.clone());
                    }
                    if item.dead_reason().is_some() {
                        self.dead.insert(position);
                    }
                }
            }
            Record::Command(command) => match command.action {
                StoredAction::Replay(replay) => {
                    self.bury(lsn, replay.dead, true);
                    match replay.event.entity.clone() {
                        Some(entity) => drop(self.pending.insert(Position { lsn, item: 0 }, entity)),
                        None => self.problems.push(format!("the replay {} names no entity", lsn.0)),
                    }
                }
                StoredAction::Discard { dead } => self.bury(lsn, dead, false),
                StoredAction::MachineChanged { .. } => {}
            },
            Record::Commit(commit) => {
                let entity = commit.entity.clone();
                for judged in &commit.judged {
                    self.judge(lsn, &entity, judged.position, &judged.disposition);
                }
                let held = self.entities.get(&entity).cloned();
                let version = held.as_ref().map_or(0, |held| held.version);
                if version != commit.version && !commit.entries.is_empty() {
                    self.problems.push(format!("record {} was decided on version {}", lsn.0, commit.version));
                }
                let mut held = held.unwrap_or_else(|| Entity::unknown(entity.clone()));
                for (position, entry) in commit.entries(lsn) {
                    entry.apply(&mut held);
                    self.entries.push(Recorded { position, entity: entity.clone(), entry: entry.clone() });
                }
                if !commit.entries.is_empty() {
                    self.entities.insert(entity, held);
                }
            }
        }
    }

    fn judge(&mut self, lsn: Lsn, entity: &EntityKey, position: Position, disposition: &Disposition) {
        let fresh = self.pending.remove(&position);
        let waited = self.waiting.remove(&position).map(|(entity, _)| entity);
        if fresh.or(waited).as_ref() != Some(entity) {
            self.problems.push(format!("record {} judges {position}, which does not wait for `{entity}`", lsn.0));
        }
        match disposition {
            Disposition::Done => *self.done.entry(position).or_default() += 1,
            Disposition::Dead { .. } => drop(self.dead.insert(position)),
            Disposition::Retry { at, .. } | Disposition::Wait { at } => {
                self.waiting.insert(position, (entity.clone(), *at));
            }
        }
    }

    fn bury(&mut self, lsn: Lsn, dead: Position, is_replay: bool) {
        self.commands.insert(lsn, (dead, is_replay));
        if !self.dead.remove(&dead) {
            self.problems.push(format!("command {} is about {dead}, which is no dead letter", lsn.0));
        }
    }
}

/// What pruning leaves of a record; none if that is all of it.
pub(crate) fn pruned(lsn: Lsn, bytes: &[u8]) -> Option<Vec<u8>> {
    let len = PREFIX_LEN + records::head(lsn, bytes).ok()?.len();
    (len < bytes.len()).then(|| bytes[..len].to_vec())
}

impl EmbeddedStore {
    /// All durable records.
    pub(crate) fn records(&self) -> Result<Vec<(Lsn, Vec<u8>)>, Error> {
        self.shared.reader.scan(Lsn(1)).collect()
    }

    /// How many segments of the journal are sealed.
    pub(crate) fn sealed_segments(&self) -> usize {
        self.shared.reader.segments().iter().filter(|segment| segment.sealed).count()
    }

    /// How many segments of the journal are pruned copies.
    pub(crate) fn pruned_segments(&self) -> usize {
        self.shared.reader.segments().iter().filter(|segment| segment.pruned).count()
    }

    /// Whether the view is proved whole, so that what is read of it is right.
    pub(crate) fn is_proved(&self) -> bool {
        self.shared.signals.is_proved()
    }

    /// From where on a restart would look for undecided events, as the view says; the first record if it cannot be asked.
    pub(crate) fn scan_from(&self) -> Lsn {
        self.shared.with_view(|view| Ok(view.meta().scan_from)).unwrap_or_default()
    }

    /// How many events, and how many bytes on their way to the view, are held in memory.
    pub(crate) fn held_in_memory(&self) -> (usize, usize) {
        let state = self.shared.state();
        (state.window.len(), state.overlay.bytes())
    }

    /// Where the view differs from one that is built from the journal now. Everything must have been applied.
    pub(crate) fn differences(&self, view: &SimTrees) -> Result<Vec<String>, Error> {
        let (fresh, files) = (SimTrees::default(), Arc::new(SimDisk::default()));
        let layout = Layout::on(Path::new("proof"), files, Arc::new(fresh.clone()));
        let options = Options { progress: None, ..self.shared.options.clone() };
        let tree = View::open(
            fresh.open(0)?,
            Meta { store_id: self.shared.reader.store_id().0, scan_from: Lsn(1), ..Meta::default() },
        )?;
        let mut replay = Replay::new(&layout, &options, self.shared.shards, self.shared.reader.clone(), tree)?;
        replay.read(None, Lsn(u64::MAX))?;
        replay.applier.catch_up()?;
        let (mut is, mut must) = (view.content(), fresh.content());
        // Up to where a restart reads may differ, and is proved by restarts.
        is.remove(&keys::meta());
        must.remove(&keys::meta());
        let mut found: Vec<String> =
            must.iter().filter(|(key, value)| is.get(*key) != Some(value)).map(|(key, _)| hex::encode(key)).collect();
        found.extend(is.keys().filter(|key| !must.contains_key(*key)).map(hex::encode));
        let (counts, proof) = (self.shared.state().counts, replay.shared.state().counts);
        if counts != proof {
            found.push(format!("it counts {counts:?}, not {proof:?}"));
        }
        Ok(found)
    }
}
