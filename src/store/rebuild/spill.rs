//! The one pass over the journal: what each record says of a key goes to the file of that key's partition.
//!
//! All that is about one entity comes to the same partition, in the order of the journal. Dead letters and machines,
//! whose keys name no entity, are spread by their keys.

use crate::domain::{Attempt, EntityKey, Lsn, Position};
use crate::store::change::{self, Change, Counts, Stored, Value};
use crate::store::disk::wide;
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

/// The most partitions: each has a file open. What is too much for one of them is spread again ([`split`]).
const PARTITIONS_MAX: usize = 512;

/// Into how many a partition is split that is too large.
const WAYS: usize = 16;

/// Spreads records over the partitions.
pub(super) struct Spill {
    spread: Spread,
    /// What is counted already, without the commits.
    pub(super) counts: Counts,
}

/// The files that records are spread over, by a digit of the hash that stands before each.
struct Spread {
    parts: Vec<(Part, Writer)>,
    /// The digits before this one, as the number that they divide a hash by.
    divisor: u64,
}

/// A file of records.
pub(super) struct Part {
    /// What its file and its run are named by.
    pub(super) name: String,
    /// How large it is.
    pub(super) bytes: u64,
    /// The hash of its first record, and whether all have that one: then it can't be split.
    first: Option<u32>,
    is_one: bool,
    /// What divides a hash for the digit that would split it.
    divisor: u64,
}

/// How many partitions a journal needs, and how large one may become before it is split.
pub(super) fn partitions(reader: &Reader, options: &Options) -> (usize, u64) {
    let bytes: u64 = reader.segments().iter().map(|segment| segment.bytes).sum();
    let partition_bytes = (options.journal.segment_bytes / PARTITION_PART).max(1);
    let count = usize::try_from(bytes / partition_bytes).unwrap_or(PARTITIONS_MAX).clamp(1, PARTITIONS_MAX);
    // What lies in it is without the bodies of deliveries: it is as large only where there is too much for all of them,
    // or very much of one entity.
    (count, partition_bytes)
}

/// Spreads a partition over several, in the order of its records, and drops its file.
pub(super) fn split(scratch: &Scratch, part: &Part) -> Result<Vec<Part>, Error> {
    let mut spread = Spread::new(scratch, &format!("{}.", part.name), WAYS, part.divisor)?;
    let mut records = scratch.open(&part.file())?;
    while let Some(bytes) = records.next()? {
        let (hash, record) = bytes.split_first_chunk().ok_or_else(malformed)?;
        spread.put(u32::from_be_bytes(*hash), &[record])?;
    }
    drop(records);
    scratch.remove(&part.file())?;
    spread.finish()
}

impl Part {
    /// Its file's name.
    pub(super) fn file(&self) -> String {
        format!("part.{}", self.name)
    }

    /// Whether it is to be split.
    pub(super) fn is_over(&self, limit: u64) -> bool {
        self.bytes > limit && !self.is_one
    }
}

impl Spread {
    fn new(scratch: &Scratch, prefix: &str, ways: usize, divisor: u64) -> Result<Self, Error> {
        let next = divisor.saturating_mul(u64::try_from(ways).unwrap_or(u64::MAX));
        let part = |way| {
            let name = format!("{prefix}{way}");
            let part = Part { name, bytes: 0, first: None, is_one: true, divisor: next };
            let writer = scratch.create(&part.file())?;
            Ok((part, writer))
        };
        Ok(Self { parts: (0..ways).map(part).collect::<Result<_, Error>>()?, divisor })
    }

    #[expect(clippy::indexing_slicing, reason = "a remainder is below its divisor, and there is a part at least")]
    fn put(&mut self, hash: u32, record: &[&[u8]]) -> Result<(), Error> {
        let digit = usize::try_from(u64::from(hash) / self.divisor).unwrap_or_default() % self.parts.len();
        let (part, writer) = &mut self.parts[digit];
        part.is_one &= *part.first.get_or_insert(hash) == hash;
        let hash = hash.to_be_bytes();
        let fields: Vec<&[u8]> = [&hash[..]].into_iter().chain(record.iter().copied()).collect();
        part.bytes += wide(fields.iter().map(|field| field.len()).sum());
        writer.put(&fields)
    }

    fn finish(self) -> Result<Vec<Part>, Error> {
        self.parts.into_iter().map(|(part, writer)| writer.finish().map(|()| part)).collect()
    }
}

impl Spill {
    pub(super) fn new(scratch: &Scratch, partitions: usize) -> Result<Self, Error> {
        Ok(Self { spread: Spread::new(scratch, "", partitions, 1)?, counts: Counts::default() })
    }

    /// Whether everything goes to one partition: then there is not much.
    pub(super) fn is_one(&self) -> bool {
        self.spread.parts.len() == 1
    }

    /// Takes a commit by its head.
    pub(super) fn commit(&mut self, lsn: Lsn, head: &[u8]) -> Result<(), Error> {
        let malformed = |error: postcard::Error| records::corrupt(lsn, format!("its head is malformed: {error}"));
        let (entity, _) = postcard::take_from_bytes::<EntityKey>(head).map_err(malformed)?;
        self.of_entity(&entity, &[&[COMMIT], &lsn.0.to_be_bytes(), head])
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

    /// Ends the files. Answers them, and what is counted already.
    pub(super) fn finish(self) -> Result<(Vec<Part>, Counts), Error> {
        Ok((self.spread.finish()?, self.counts))
    }

    fn arrival(&mut self, entity: &EntityKey, position: Position, attempts: &[Attempt]) -> Result<(), Error> {
        let attempts = change::encode(&attempts)?;
        self.of_entity(entity, &[&[ARRIVAL], &position.to_bytes(), &attempts])
    }

    fn change(&mut self, change: Change) -> Result<(), Error> {
        self.counts += change.counts;
        let lsn = change.lsn.0.to_be_bytes();
        for (key, value) in change.writes {
            let tag = if value.is_some() { WRITE } else { DELETE };
            let value = value.as_ref().map(Stored::bytes).transpose()?;
            let len = u32::try_from(key.len()).unwrap_or(u32::MAX).to_be_bytes();
            let value = value.as_deref().unwrap_or_default();
            self.spread.put(crc32fast::hash(&key), &[&[tag], &lsn, &len, &key, value])?;
        }
        Ok(())
    }

    fn of_entity(&mut self, entity: &EntityKey, record: &[&[u8]]) -> Result<(), Error> {
        self.spread.put(crc32fast::hash(&keys::entity(entity)), record)
    }
}

impl<'a> Spilled<'a> {
    /// Reads what was put.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let read = || {
            let (_, rest) = bytes.split_first_chunk::<4>()?;
            let (tag, rest) = rest.split_first()?;
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
        read().unwrap_or_else(|| Err(malformed()))
    }
}

fn malformed() -> Error {
    Error::Corrupt { place: "a temporary file".to_owned(), detail: "it is malformed".to_owned() }
}
