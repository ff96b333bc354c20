//! Entities: the tracked things, their keys and what is known of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check::Check;
use super::event::EventId;
use super::json::RawJson;
use super::name::{FieldName, Kind, MachineName, SourceName, StateName};
use super::order::OrderKey;
use super::printable::printable;
use super::time::Timestamp;

/// The longest entity id in bytes; a longer one is refused at the door.
pub const ENTITY_ID_LEN_MAX: usize = 255;

/// Live or test traffic of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// Real money. Also the mode of a source that has no test mode.
    Live,
    /// The source's test mode.
    Test,
}

/// The account and mode that an entity belongs to: two partitions never share an entity.
///
/// Its text is `live`, `test`, `acct_1:live` or `acct_1:test`: the mode is what follows the last colon.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// The source's account, if the event names one.
    pub account: Option<Arc<str>>,
    /// Live or test.
    pub mode: Mode,
}

/// What identifies an entity. No two different tuples have the same [`EntityKey::to_bytes`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntityKey {
    /// Its account and mode.
    pub partition: Partition,
    /// The source that tells of it.
    pub source: SourceName,
    /// Its kind within the source.
    pub kind: Kind,
    /// The source's id of it: compared as bytes, never trimmed or lower-cased.
    pub id: Arc<str>,
}

/// The unit of order and ownership: a number below the store's count of shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Shard(pub u16);

/// A tracked thing as the fold of its entries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entity {
    /// Which one it is.
    pub key: EntityKey,
    /// How many entries it is the fold of; a commit names the version it was decided on.
    pub version: u64,
    /// When its last entry was decided.
    pub decided_at: Timestamp,
    /// What an operator should know of it.
    pub flags: BTreeSet<Flag>,
    /// The next look at the upstream, if one is due.
    pub check: Option<Check>,
    /// What is held for its kind.
    pub body: Body,
}

/// What an entity holds, by the decider of its kind. Stored: variants are only ever added at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// Machines and fields, judged by the ladder.
    Ladder(LadderBody),
}

/// States and fields of an entity that the ladder judges.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LadderBody {
    /// The state of each machine that has one.
    pub machines: BTreeMap<MachineName, MachineState>,
    /// The kept fields as the source sent them. Shared: most decisions leave them as they are.
    pub fields: Arc<BTreeMap<FieldName, RawJson>>,
    /// The order key of the fields; they move on their own.
    pub fields_key: Option<OrderKey>,
    /// The event that the fields came from; none after a fetch.
    pub fields_event: Option<EventId>,
    /// Whether the upstream has ever answered with this entity: two 404s mean something only then.
    pub fetched: bool,
}

/// One machine's state of an entity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineState {
    /// The state.
    pub state: StateName,
    /// The order key of the newest fact that agrees with it.
    pub key: OrderKey,
    /// The machine's version when the state was entered.
    pub machine_version: u32,
    /// When the state was entered here.
    pub since: Timestamp,
}

/// What an operator should know of an entity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Flag {
    /// The upstream steadily answers a state that no allowed move leads to.
    Diverged,
    /// Deciding one of its events failed again and again: that event is a dead letter, and waits for an operator.
    Quarantined,
}

impl Entity {
    /// An entity of which nothing is known yet: what the fold of its entries starts from.
    #[must_use]
    pub fn unknown(key: EntityKey) -> Self {
        let body = Body::Ladder(LadderBody::default());
        Self { key, version: 0, decided_at: Timestamp::EPOCH, flags: BTreeSet::new(), check: None, body }
    }

    /// The states and fields.
    #[must_use]
    pub fn ladder(&self) -> &LadderBody {
        match &self.body {
            Body::Ladder(body) => body,
        }
    }

    /// Whether any machine has a state: an entity with only dead letters has none.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.ladder().machines.is_empty()
    }
}

impl EntityKey {
    /// The key as bytes: each part behind its length (two bytes, big endian), so that no two keys collide.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.parts();
        let mut out = Vec::with_capacity(parts.iter().map(|(len, text)| len.len() + text.len()).sum());
        for (len, text) in parts {
            out.extend_from_slice(&len);
            out.extend_from_slice(text);
        }
        out
    }

    /// The parts of the key, each behind its length.
    fn parts(&self) -> [([u8; 2], &[u8]); 5] {
        let account = self.partition.account.as_deref().unwrap_or("");
        let mode = match (self.partition.mode, self.partition.account.is_some()) {
            (Mode::Live, false) => "l",
            (Mode::Test, false) => "t",
            (Mode::Live, true) => "L",
            (Mode::Test, true) => "T",
        };
        [self.source.as_str(), self.kind.as_str(), mode, account, &self.id].map(|text| {
            let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
            (len.to_be_bytes(), text.as_bytes().get(..usize::from(len)).unwrap_or_default())
        })
    }

    /// The shard that owns this entity: the first 8 bytes of the SHA-256 of the key, modulo `shards`.
    #[must_use]
    pub fn shard(&self, shards: u16) -> Shard {
        let mut hash = Sha256::new();
        for (len, text) in self.parts() {
            hash.update(len);
            hash.update(text);
        }
        let digest = hash.finalize();
        let first = digest.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        Shard(u16::try_from(first % u64::from(shards.max(1))).unwrap_or(0))
    }
}

impl Partition {
    /// The partition of a source without accounts and test mode.
    pub const LIVE: Self = Self { account: None, mode: Mode::Live };

    /// Reads `live`, `test`, `ACCOUNT:live` or `ACCOUNT:test`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (account, mode) = match text.rsplit_once(':') {
            Some((account, mode)) if !account.is_empty() => (Some(Arc::from(account)), mode),
            Some(_) => return None,
            None => (None, text),
        };
        let mode = match mode {
            "live" => Mode::Live,
            "test" => Mode::Test,
            _ => return None,
        };
        Some(Self { account, mode })
    }
}

impl Mode {
    /// `live` or `test`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }
}

impl Flag {
    /// The word used in answers and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Diverged => "diverged",
            Self::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.account {
            Some(account) => write!(f, "{account}:{}", self.mode.as_str()),
            None => f.write_str(self.mode.as_str()),
        }
    }
}

impl fmt::Display for EntityKey {
    /// `stripe/subscription/sub_1`, with `@partition` unless that is plain `live`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.source, self.kind, printable(&self.id))?;
        if self.partition == Partition::LIVE {
            Ok(())
        } else {
            write!(f, "@{}", printable(&self.partition.to_string()))
        }
    }
}

impl fmt::Debug for EntityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
