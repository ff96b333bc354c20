//! One partition folded in memory: the final keys and values of its entities, as one sorted run.

use std::collections::BTreeMap;

use crate::domain::{Attempt, EntityKey, Judged, Lsn, Position};
use crate::store::Error;
use crate::store::change::{self, Before, Change, Counts, Stored, Value};
use crate::store::keys::{self, Key, Table};
use crate::store::map::Map;
use crate::store::records::{self, CommitRecord};

use super::merge;
use super::scratch::{Scratch, Writer};
use super::spill::{self, Part, Spilled};

/// What a partition comes to.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    /// What its commits count.
    pub(super) counts: Counts,
    /// The oldest record with an event that waits for its first decision.
    pub(super) waits: Option<Lsn>,
    /// How much was folded at once, at most.
    pub(super) largest: u64,
}

/// The keys of a partition as they stand after the records so far.
#[derive(Default)]
struct Fold {
    /// The last write of each key, and whose it is: a dead letter may be written here and dropped elsewhere.
    writes: BTreeMap<Key, (Lsn, Value)>,
    /// Events that wait for their first decision, with the tries behind them.
    waits: Map<Position, Vec<Attempt>>,
    counts: Counts,
}

/// The name of the file of a partition's run.
pub(super) fn run(partition: &str) -> String {
    format!("run.{partition}")
}

/// Folds a partition into its run, and drops its file. One that is over the limit is folded part by part.
pub(super) fn partition(scratch: &Scratch, partition: &Part, limit: u64) -> Result<Sum, Error> {
    if !partition.is_over(limit) {
        return at_once(scratch, partition);
    }
    let parts = spill::split(scratch, partition)?;
    let mut sum = Sum::default();
    for part in &parts {
        sum += self::partition(scratch, part, limit)?;
    }
    let names: Vec<String> = parts.into_iter().map(|part| part.name).collect();
    merge::join(scratch, &names, &partition.name)?;
    Ok(sum)
}

fn at_once(scratch: &Scratch, partition: &Part) -> Result<Sum, Error> {
    let mut fold = Fold::default();
    let mut spilled = scratch.open(&partition.file())?;
    while let Some(bytes) = spilled.next()? {
        match Spilled::read(bytes)? {
            Spilled::Commit(lsn, head) => fold.commit(lsn, &records::decode_head(lsn, head)?)?,
            Spilled::Arrival(position, attempts) => drop(fold.waits.insert(position, attempts)),
            Spilled::Write(lsn, key, value) => drop(fold.writes.insert(key, (lsn, value))),
        }
    }
    drop(spilled);
    scratch.remove(&partition.file())?;
    let waits = fold.waits.keys().map(|position| position.lsn).min();
    let sum = Sum { counts: fold.counts, waits, largest: partition.bytes };
    fold.write(scratch.create(&run(&partition.name))?)?;
    Ok(sum)
}

impl Fold {
    fn commit(&mut self, lsn: Lsn, record: &CommitRecord) -> Result<(), Error> {
        let held = match self.writes.get(&keys::entity(&record.entity)) {
            Some((_, Some(Stored::Held(held)))) => Some(std::sync::Arc::clone(held)),
            Some((_, Some(Stored::Bytes(_)) | None)) | None => None,
        };
        let before = record.judged.iter().map(|judged| self.before(&record.entity, judged));
        let before: Vec<Before> = before.collect::<Result<_, Error>>()?;
        let Change { writes, counts, .. } = change::of_commit(lsn, record, held.as_deref(), &before)?;
        self.counts += counts;
        self.writes.extend(writes.into_iter().map(|(key, value)| (key, (lsn, value))));
        Ok(())
    }

    /// How an event stands before it is judged.
    fn before(&mut self, entity: &EntityKey, judged: &Judged) -> Result<Before, Error> {
        if let Some(attempts) = self.waits.remove(&judged.position) {
            return Ok(Before::Fresh { attempts });
        }
        let key = keys::retry(entity, judged.position);
        if let Some((_, Some(waiting))) = self.writes.get(&key) {
            return Ok(Before::Waiting(change::decode(&key, &waiting.bytes()?)?));
        }
        // Every arrival was met: it is not there, or is decided already.
        let detail = format!("no event of `{entity}` waits at {}", judged.position);
        Err(records::corrupt(judged.position.lsn, detail))
    }

    /// Writes the run. What was deleted is left out, unless it is of another partition that has its value.
    fn write(self, mut run: Writer) -> Result<(), Error> {
        for (key, (lsn, value)) in self.writes {
            let elsewhere = matches!(Table::of(&key), Some(Table::Dead));
            if value.is_none() && !elsewhere {
                continue;
            }
            let bytes = value.as_ref().map(Stored::bytes).transpose()?;
            merge::put(&mut run, &key, lsn, bytes.as_deref())?;
        }
        run.finish()
    }
}
