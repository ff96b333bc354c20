//! Events: verified, parsed facts, and where they stand in the journal.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::decision::Attempt;
use super::entity::EntityKey;
use super::json::RawJson;
use super::name::{FieldName, MachineName, SourceName, StateName};
use super::order::OrderKey;
use super::parts::PartsHash;
use super::printable::printable;
use super::time::Timestamp;

/// The longest event id in bytes; a longer one is a dead letter.
pub const EVENT_ID_LEN_MAX: usize = 255;

/// The source's id of an event, compared as bytes. An item of a batch has `#n` behind its delivery's id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(pub Arc<str>);

/// A position in the journal: log sequence number, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lsn(pub u64);

/// Where one fact stands: the journal record, and the item within it. Its text is `lsn.item`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Position {
    /// The journal record.
    pub lsn: Lsn,
    /// The item within the record, from 0.
    pub item: u32,
}

/// What an event says of one machine of its entity.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Claim {
    /// The entity was in this state.
    Observed(StateName),
    /// This happened, which leads to the state that the machine's edges of that name lead to.
    Happened(StateName),
    /// Nothing of the state, for example `trial_will_end`.
    None,
    /// Something changed: look. What a thin or unsigned event says.
    Hint,
}

/// One verified, parsed fact of a delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The source that sent it.
    pub source: SourceName,
    /// Its id.
    pub id: EventId,
    /// Its type in the source's words, for example `invoice.paid`.
    pub event_type: Arc<str>,
    /// The entity that it is about, if it names one that is tracked.
    pub entity: Option<EntityKey>,
    /// When it happened, by the source's clock.
    pub event_time: Option<Timestamp>,
    /// What it is ordered by.
    pub order_key: OrderKey,
    /// What it says of each machine of its entity.
    pub claims: BTreeMap<MachineName, Claim>,
    /// The kept fields that it carries.
    pub fields: BTreeMap<FieldName, RawJson>,
}

/// SHA-256 of what the mapping took of an event: two deliveries of one id must agree on it.
pub type EventDigest = [u8; 32];

/// An event that waits for its decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Where it stands: the event's own position, or that of the command which replays it.
    pub position: Position,
    /// The event, shared by all that hold it on its way.
    pub event: Arc<Event>,
    /// When its delivery was received.
    pub received_at: Timestamp,
    /// SHA-256 of its delivery's body.
    pub body_sha256: [u8; 32],
    /// The tries so far that came to nothing.
    pub attempts: Vec<Attempt>,
    /// The name of the operator key that replayed it, if it is a replay.
    pub replayed_by: Option<Arc<str>>,
}

impl Event {
    /// The digest of what was taken: entity, type, event time, claims and kept fields.
    ///
    /// The body is left out on purpose: a provider's replay differs in delivery counters.
    #[must_use]
    pub fn digest(&self) -> EventDigest {
        let mut hash = PartsHash::default();
        hash.add(&self.entity.as_ref().map(EntityKey::to_bytes).unwrap_or_default());
        hash.add(self.event_type.as_bytes());
        hash.add(self.event_time.map(|at| at.nanos().to_be_bytes()).as_ref().map_or(&[], |bytes| bytes));
        for (machine, claim) in &self.claims {
            let (tag, text) = claim.parts();
            hash.add(machine.as_str().as_bytes());
            hash.add(tag.as_bytes());
            hash.add(text.as_bytes());
        }
        hash.add(b"fields");
        for (name, value) in &self.fields {
            hash.add(name.as_str().as_bytes());
            hash.add(value.as_str().as_bytes());
        }
        hash.finish()
    }
}

impl Claim {
    /// The word of the claim's sort and the name it carries (empty without one).
    #[must_use]
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Observed(state) => ("observed", state.as_str()),
            Self::Happened(name) => ("happened", name.as_str()),
            Self::None => ("none", ""),
            Self::Hint => ("hint", ""),
        }
    }
}

impl EventId {
    /// The id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Position {
    /// Reads `lsn.item`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (lsn, item) = text.split_once('.')?;
        Some(Self { lsn: Lsn(lsn.parse().ok()?), item: item.parse().ok()? })
    }

    /// Twelve bytes whose order is the positions' order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 12] {
        let mut out = [0; 12];
        let (lsn, item) = out.split_at_mut(8);
        lsn.copy_from_slice(&self.lsn.0.to_be_bytes());
        item.copy_from_slice(&self.item.to_be_bytes());
        out
    }

    /// Reads what [`Position::to_bytes`] wrote.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 12]) -> Self {
        let [lsn @ .., a, b, c, d] = bytes;
        Self { lsn: Lsn(u64::from_be_bytes(lsn)), item: u32::from_be_bytes([a, b, c, d]) }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (sort, "") => f.write_str(sort),
            (sort, name) => write!(f, "{sort}({name})"),
        }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&printable(&self.0))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}", self.lsn.0, self.item))
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
