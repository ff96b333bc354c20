//! The records of the journal: what is stored of a delivery, a command and a commit, and its bytes.
//!
//! A record is `version (1), kind (1), head length (4, big endian), head (postcard), body (the rest)`. The raw body
//! of a delivery or of a fetched answer stands outside the head, so that it is never copied byte by byte and a
//! pruned copy is the same record with nothing behind its head. `docs/format.md` writes it down.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::journal::Reader;
use super::{Commit, Error, Fetched};
use crate::domain::{
    Admit, Attempt, Delivery, EntityKey, Entry, Event, EventDigest, Item, Judged, Lsn, MachineName, Pending, Position,
    Reason, Shard, SourceName, Timestamp,
};

/// The version of the form that this program writes.
pub(super) const VERSION: u8 = 1;

/// How much room a head gets at first.
const HEAD_LEN_USUAL: usize = 1024;

/// Bytes before the head: version, kind, head length.
pub(super) const PREFIX_LEN: usize = 6;

/// The kinds of records. A number is never used again: a retired kind stays listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A delivery with its items.
    Delivery,
    /// An operator's command.
    Command,
    /// A decision.
    Commit,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Record {
    /// A delivery with its items.
    Delivery(DeliveryRecord),
    /// An operator's command.
    Command(CommandRecord),
    /// A decision.
    Commit(CommitRecord),
}

/// A delivery as received, and where each of its events went.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct DeliveryRecord {
    pub(super) source: SourceName,
    pub(super) received_at: Timestamp,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body_sha256: [u8; 32],
    pub(super) secret: u16,
    pub(super) items: Vec<StoredItem>,
    /// Stands behind the head; empty if it was pruned.
    #[serde(skip)]
    pub(super) body: Bytes,
}

/// One event of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct StoredItem {
    pub(super) event: Arc<Event>,
    pub(super) digest: EventDigest,
    /// The shard of its entity, if it names one.
    pub(super) shard: Option<Shard>,
    pub(super) admit: StoredAdmit,
    pub(super) standing: Standing,
}

/// Where an event goes when its id is new.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum StoredAdmit {
    Queue,
    Record,
    DeadLetter(Reason),
}

/// What the seen ids said of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Standing {
    /// Its id is new.
    New,
    /// Its first, with the same digest, stands there.
    Duplicate(Position),
    /// Its first, with another digest, stands there.
    Conflict(Position),
}

/// An operator's command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CommandRecord {
    pub(super) by: Arc<str>,
    pub(super) at: Timestamp,
    pub(super) action: StoredAction,
}

/// What a command does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum StoredAction {
    /// A dead letter is pending again, at the command's position.
    Replay(Box<Replay>),
    /// A dead letter is dropped.
    Discard {
        /// The dead letter.
        dead: Position,
    },
    /// A machine was loaded in a new form.
    MachineChanged {
        /// Its name.
        machine: MachineName,
        /// Its version.
        version: u32,
        /// SHA-256 of its file.
        sha256: [u8; 32],
    },
}

/// A replay carries all that its event needs, so that judging it reads no other record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Replay {
    /// The dead letter.
    pub(super) dead: Position,
    /// The item of the delivery that the event came in: the dead letter's own, or that of the replay it was.
    pub(super) origin: Position,
    pub(super) event: Arc<Event>,
    pub(super) received_at: Timestamp,
    pub(super) body_sha256: [u8; 32],
    /// The tries before.
    pub(super) attempts: Vec<Attempt>,
}

/// A decision made true.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct CommitRecord {
    pub(super) entity: EntityKey,
    /// The version that was decided on.
    pub(super) version: u64,
    pub(super) entries: Arc<[Entry]>,
    pub(super) judged: Vec<Judged>,
    pub(super) fetched: Option<StoredFetch>,
    /// The body of the fetched answer; stands behind the head.
    #[serde(skip)]
    pub(super) body: Bytes,
}

/// What the upstream answered, without the body.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct StoredFetch {
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) sent_at: Timestamp,
}

impl Kind {
    /// The number in the record.
    const fn code(self) -> u8 {
        match self {
            Self::Delivery => 1,
            Self::Command => 2,
            Self::Commit => 3,
        }
    }

    /// The kind of a record's bytes; an error if this program does not know it.
    pub(super) fn of(lsn: Lsn, bytes: &[u8]) -> Result<Self, Error> {
        match bytes {
            [VERSION, 1, ..] => Ok(Self::Delivery),
            [VERSION, 2, ..] => Ok(Self::Command),
            [VERSION, 3, ..] => Ok(Self::Commit),
            [version, kind, ..] => Err(corrupt(
                lsn,
                format!("version {version}, kind {kind} is unknown; a newer tollgate may have written it"),
            )),
            [] | [_] => Err(corrupt(lsn, "it is shorter than its prefix".to_owned())),
        }
    }
}

impl Record {
    /// The record's bytes, in one part.
    #[cfg(any(test, fuzzing))]
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        let (head, body) = match self {
            Self::Delivery(record) => (record.encode_head()?, &record.body),
            Self::Command(record) => (record.encode()?, &Bytes::new()),
            Self::Commit(record) => (record.encode_head()?, &record.body),
        };
        Ok([head.as_slice(), body].concat())
    }

    /// Reads a record from its bytes.
    pub(super) fn decode(lsn: Lsn, bytes: Vec<u8>) -> Result<Self, Error> {
        let kind = Kind::of(lsn, &bytes)?;
        let bytes = Bytes::from(bytes);
        Ok(match kind {
            Kind::Delivery => {
                let (mut record, body) = parts::<DeliveryRecord>(lsn, &bytes)?;
                record.body = body;
                Self::Delivery(record)
            }
            Kind::Command => Self::Command(parts(lsn, &bytes)?.0),
            Kind::Commit => {
                let (mut record, body) = parts::<CommitRecord>(lsn, &bytes)?;
                record.body = body;
                Self::Commit(record)
            }
        })
    }

    /// The event that stands at `item` of this record, as it waits for its decision; none if the record holds no
    /// such event.
    pub(super) fn pending(&self, position: Position) -> Option<Pending> {
        match self {
            Self::Delivery(record) => {
                let item = record.items.get(usize::try_from(position.item).ok()?)?;
                Some(record.pending(position, item))
            }
            Self::Command(record) => match &record.action {
                StoredAction::Replay(replay) if position.item == 0 => Some(Pending {
                    position,
                    event: replay.event.clone(),
                    received_at: replay.received_at,
                    body_sha256: replay.body_sha256,
                    attempts: replay.attempts.clone(),
                    replayed_by: Some(Arc::clone(&record.by)),
                }),
                StoredAction::Replay(_) | StoredAction::Discard { .. } | StoredAction::MachineChanged { .. } => None,
            },
            Self::Commit(_) => None,
        }
    }
}

impl DeliveryRecord {
    /// One of its events, as it waits for its decision.
    pub(super) fn pending(&self, position: Position, item: &StoredItem) -> Pending {
        Pending {
            position,
            event: item.event.clone(),
            received_at: self.received_at,
            body_sha256: self.body_sha256,
            attempts: Vec::new(),
            replayed_by: None,
        }
    }

    /// Its items with their positions.
    pub(super) fn items(&self, lsn: Lsn) -> impl Iterator<Item = (Position, &StoredItem)> {
        (0_u32..).map(move |item| Position { lsn, item }).zip(&self.items)
    }

    /// Its bytes before the body.
    pub(super) fn encode_head(&self) -> Result<Vec<u8>, Error> {
        encode_head(Kind::Delivery, self)
    }

    /// The delivery as it came.
    pub(super) fn into_delivery(self) -> Delivery {
        Delivery {
            source: self.source,
            received_at: self.received_at,
            headers: self.headers,
            body: self.body,
            body_sha256: self.body_sha256,
            secret: self.secret,
            items: self
                .items
                .into_iter()
                .map(|item| Item { event: item.event, digest: item.digest, admit: item.admit.into() })
                .collect(),
        }
    }
}

impl StoredItem {
    /// The entity in whose queue the event stands, if it stands in one: its id is new and it is to be judged.
    pub(super) fn queued_for(&self) -> Option<&EntityKey> {
        let queued = self.standing == Standing::New && self.admit == StoredAdmit::Queue;
        self.event.entity.as_ref().filter(|_| queued)
    }

    /// Why the event is a dead letter from the start, if it is one.
    pub(super) fn dead_reason(&self) -> Option<Reason> {
        match (&self.standing, &self.admit) {
            (Standing::Conflict(first), _) => Some(Reason::EventIdReused { first: *first }),
            (Standing::New, StoredAdmit::DeadLetter(reason)) => Some(reason.clone()),
            (Standing::New, StoredAdmit::Queue | StoredAdmit::Record) | (Standing::Duplicate(_), _) => None,
        }
    }
}

impl CommandRecord {
    /// Its bytes.
    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        encode_head(Kind::Command, self)
    }
}

impl CommitRecord {
    /// Its bytes before the body.
    pub(super) fn encode_head(&self) -> Result<Vec<u8>, Error> {
        encode_head(Kind::Commit, self)
    }

    /// The record of a commit.
    pub(super) fn of(commit: Commit) -> Self {
        let (fetched, body) = match commit.fetched {
            Some(Fetched { url, status, body, sent_at }) => (Some(StoredFetch { url, status, sent_at }), body),
            None => (None, Bytes::new()),
        };
        Self {
            entity: commit.entity,
            version: commit.version,
            entries: commit.entries,
            judged: commit.judged,
            fetched,
            body,
        }
    }

    /// Its entries with their positions.
    pub(super) fn entries(&self, lsn: Lsn) -> impl Iterator<Item = (Position, &Entry)> {
        (0_u32..).map(move |item| Position { lsn, item }).zip(&*self.entries)
    }
}

impl From<Admit> for StoredAdmit {
    fn from(admit: Admit) -> Self {
        match admit {
            Admit::Queue => Self::Queue,
            Admit::Record => Self::Record,
            Admit::DeadLetter(reason) => Self::DeadLetter(reason),
        }
    }
}

impl From<StoredAdmit> for Admit {
    fn from(admit: StoredAdmit) -> Self {
        match admit {
            StoredAdmit::Queue => Self::Queue,
            StoredAdmit::Record => Self::Record,
            StoredAdmit::DeadLetter(reason) => Self::DeadLetter(reason),
        }
    }
}

/// What is wrong with the record at an LSN.
pub(super) fn corrupt(lsn: Lsn, detail: String) -> Error {
    Error::Corrupt { place: format!("journal record {}", lsn.0), detail }
}

/// The bytes before the body.
fn encode_head(kind: Kind, head: &impl Serialize) -> Result<Vec<u8>, Error> {
    let unwritable = |error: String| Error::Corrupt { place: "a new record".to_owned(), detail: error };
    // Most heads have less: growing step by step costs more than the room.
    let mut prefix = Vec::with_capacity(HEAD_LEN_USUAL);
    prefix.extend_from_slice(&[VERSION, kind.code(), 0, 0, 0, 0]);
    let mut bytes = postcard::to_extend(head, prefix).map_err(|error| unwritable(error.to_string()))?;
    let head_len = u32::try_from(bytes.len().saturating_sub(PREFIX_LEN))
        .map_err(|_| Error::TooLarge { bytes: bytes.len(), limit: usize::try_from(u32::MAX).unwrap_or(usize::MAX) })?;
    if let Some(field) = bytes.get_mut(2..PREFIX_LEN) {
        field.copy_from_slice(&head_len.to_be_bytes());
    }
    Ok(bytes)
}

fn parts<T: DeserializeOwned>(lsn: Lsn, bytes: &Bytes) -> Result<(T, Bytes), Error> {
    let head = head(lsn, bytes)?;
    Ok((decode_head(lsn, head)?, bytes.slice(PREFIX_LEN + head.len()..)))
}

/// The head of a record's bytes.
pub(super) fn head(lsn: Lsn, bytes: &[u8]) -> Result<&[u8], Error> {
    let too_short = || corrupt(lsn, format!("it has {} bytes, fewer than its head", bytes.len()));
    let field: [u8; 4] = bytes.get(2..PREFIX_LEN).and_then(|field| field.try_into().ok()).ok_or_else(too_short)?;
    let end = usize::try_from(u32::from_be_bytes(field)).ok().and_then(|len| len.checked_add(PREFIX_LEN));
    end.and_then(|end| bytes.get(PREFIX_LEN..end)).ok_or_else(too_short)
}

/// By what the record at an LSN is known again: the checksum of all but its body, which pruning takes away. None if there
/// is no such record; 0 for the place before the first.
pub(super) fn mark(reader: &Reader, lsn: Lsn) -> Result<Option<u32>, Error> {
    if lsn == Lsn(0) {
        return Ok(Some(0));
    }
    let Some(bytes) = reader.read(lsn)? else { return Ok(None) };
    let end = PREFIX_LEN + head(lsn, &bytes)?.len();
    Ok(bytes.get(..end).map(crc32fast::hash))
}

/// Reads a head, all of it.
pub(super) fn decode_head<'a, T: Deserialize<'a>>(lsn: Lsn, head: &'a [u8]) -> Result<T, Error> {
    let (head, rest) =
        postcard::take_from_bytes(head).map_err(|error| corrupt(lsn, format!("its head is malformed: {error}")))?;
    if !rest.is_empty() {
        return Err(corrupt(lsn, format!("{} bytes follow its head", rest.len())));
    }
    Ok(head)
}

#[cfg(test)]
mod tests;
