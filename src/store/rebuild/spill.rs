//! The one pass over the journal: what each record says of a key goes to the file of that key's partition.
//!
//! All that is about one entity comes to the same partition, in the order of the journal. Dead letters and machines,
//! whose keys name no entity, are spread by their keys.

use crate::domain::{Attempt, EntityKey, Lsn, Position};
use crate::store::change::{self, Change, Counts, Stored, Value};
use crate::store::journal::Reader;
use crate::store::keys::{self, Key};
use crate::store::records::{self, CommandRecord, DeliveryRecord, StoredAction};
use crate::store::{Error, Options};

use super::scratch::{Scratch, Writer};

/// What stands in a partition's file.
pub(super) enum Spilled<'a> {
    /// The head of a commit.
    Commit(Lsn, &'a [u8]),
    /// An event waits for its decision from here on, with these tries behind it.
    Arrival(Position, Vec<Attempt>),
    /// A key gets this value, or none.
    Write(Lsn, Key, Value),
}

const COMMIT: u8 = 0;
const ARRIVAL: u8 = 1;
const WRITE: u8 = 2;
const DELETE: u8 = 3;

/// Which part of a segment's size makes a partition: what so much of the journal says of its entities has to fit into
/// memory, decoded, once for each thread.
const PARTITION_PART: u64 = 4;

/// The most partitions: each has a file open.
const PARTITIONS_MAX: usize = 512;

/// Spreads records over the partitions.
pub(super) struct Spill {
    partitions: Vec<Writer>,
    /// What is counted already, without the commits.
    pub(super) counts: Counts,
}

/// How many partitions a journal needs.
pub(super) fn partitions(reader: &Reader, options: &Options) -> usize {
    let bytes: u64 = reader.segments().iter().map(|segment| segment.bytes).sum();
    let partition_bytes = (options.journal.segment_bytes / PARTITION_PART).max(1);
    usize::try_from(bytes / partition_bytes).unwrap_or(PARTITIONS_MAX).clamp(1, PARTITIONS_MAX)
}

/// The name of a partition's file.
pub(super) fn name(partition: usize) -> String {
    format!("part.{partition}")
}

impl Spill {
    pub(super) fn new(scratch: &Scratch, partitions: usize) -> Result<Self, Error> {
        let partitions = (0..partitions).map(|partition| scratch.create(&name(partition))).collect::<Result<_, _>>()?;
        Ok(Self { partitions, counts: Counts::default() })
    }

    /// Whether everything goes to one partition: then there is not much.
    pub(super) fn is_one(&self) -> bool {
        self.partitions.len() == 1
    }

    /// Takes a commit by its head.
    pub(super) fn commit(&mut self, lsn: Lsn, head: &[u8]) -> Result<(), Error> {
        let malformed = |error: postcard::Error| records::corrupt(lsn, format!("its head is malformed: {error}"));
        let (entity, _) = postcard::take_from_bytes::<EntityKey>(head).map_err(malformed)?;
        self.of_entity(&entity).put(&[&[COMMIT], &lsn.0.to_be_bytes(), head])
    }

    /// Takes a delivery: its dead letters, and the events that join a queue.
    pub(super) fn delivery(&mut self, lsn: Lsn, record: &DeliveryRecord) -> Result<(), Error> {
        self.change(change::of_delivery(lsn, record)?)?;
        for (position, item) in record.items(lsn) {
            if let Some(entity) = item.queued_for() {
                self.arrival(entity, position, &[])?;
            }
        }
        Ok(())
    }

    /// Takes a command.
    pub(super) fn command(&mut self, lsn: Lsn, record: &CommandRecord) -> Result<(), Error> {
        self.change(change::of_command(lsn, record)?)?;
        match &record.action {
            StoredAction::Replay(replay) => match &replay.event.entity {
                Some(entity) => self.arrival(entity, Position { lsn, item: 0 }, &replay.attempts),
                None => Ok(()),
            },
            StoredAction::Discard { .. } | StoredAction::MachineChanged { .. } => Ok(()),
        }
    }

    /// Ends the files.
    pub(super) fn finish(self) -> Result<Counts, Error> {
        self.partitions.into_iter().try_for_each(Writer::finish)?;
        Ok(self.counts)
    }

    fn arrival(&mut self, entity: &EntityKey, position: Position, attempts: &[Attempt]) -> Result<(), Error> {
        let attempts = change::encode(&attempts)?;
        self.of_entity(entity).put(&[&[ARRIVAL], &position.to_bytes(), &attempts])
    }

    fn change(&mut self, change: Change) -> Result<(), Error> {
        self.counts += change.counts;
        let lsn = change.lsn.0.to_be_bytes();
        for (key, value) in change.writes {
            let tag = if value.is_some() { WRITE } else { DELETE };
            let value = value.as_ref().map(Stored::bytes).transpose()?;
            let len = u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes();
            self.of_key(&key).put(&[&[tag], &lsn, &len, &key, value.as_deref().unwrap_or_default()])?;
        }
        Ok(())
    }

    fn of_entity(&mut self, entity: &EntityKey) -> &mut Writer {
        self.of_key(&keys::entity(entity))
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is below its divisor, and there is a partition at least")]
    fn of_key(&mut self, key: &[u8]) -> &mut Writer {
        let hash = usize::try_from(crc32fast::hash(key)).unwrap_or_default();
        let partition = hash % self.partitions.len();
        &mut self.partitions[partition]
    }
}

impl<'a> Spilled<'a> {
    /// Reads what was put.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let read = || {
            let (tag, rest) = bytes.split_first()?;
            if *tag == ARRIVAL {
                let (position, attempts) = rest.split_first_chunk()?;
                return Some(
                    change::decode(bytes, attempts).map(|a| Self::Arrival(Position::from_bytes(*position), a)),
                );
            }
            let (lsn, rest) = rest.split_first_chunk()?;
            let lsn = Lsn(u64::from_be_bytes(*lsn));
            if *tag == COMMIT {
                return Some(Ok(Self::Commit(lsn, rest)));
            }
            let (len, rest) = rest.split_first_chunk()?;
            let (key, value) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
            let value = (*tag == WRITE).then(|| Stored::Bytes(value.into()));
            Some(Ok(Self::Write(lsn, key.to_vec(), value)))
        };
        let malformed =
            || Error::Corrupt { place: "a temporary file".to_owned(), detail: "it is malformed".to_owned() };
        read().unwrap_or_else(|| Err(malformed()))
    }
}
