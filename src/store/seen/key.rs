//! What an id is known by, and what is known of it.

use std::fmt;

use crate::domain::parts::PartsHash;
use crate::domain::{EventId, Position, SourceName};

/// The bytes of a key and its entry in a bucket.
pub(super) const PAIR_LEN: usize = 44;

/// What an id is known by: the first 16 bytes of SHA-256 over its source and itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenKey(pub [u8; 16]);

/// What is known of a seen id; ordered by position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SeenEntry {
    /// Where its first stands.
    pub position: Position,
    /// The first 16 bytes of its first's digest.
    pub digest: [u8; 16],
}

impl SeenKey {
    /// The key of an event id. Source and id stand behind their lengths, so that no two pairs are the same bytes.
    pub fn of(source: &SourceName, id: &EventId) -> Self {
        let mut hash = PartsHash::default();
        hash.add(source.as_str().as_bytes());
        hash.add(id.as_str().as_bytes());
        Self(hash.finish().first_chunk().copied().unwrap_or_default())
    }

    /// The half of it that filters go by; it is a hash already.
    pub(super) fn half(&self) -> u64 {
        u64::from_be_bytes(self.0.first_chunk().copied().unwrap_or_default())
    }
}

/// A key and its entry: key, LSN, item, digest; big endian.
pub(super) fn encode(key: &SeenKey, entry: &SeenEntry, out: &mut Vec<u8>) {
    out.extend_from_slice(&key.0);
    out.extend_from_slice(&entry.position.to_bytes());
    out.extend_from_slice(&entry.digest);
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(bytes: &[u8; PAIR_LEN]) -> (SeenKey, SeenEntry) {
    let (key, rest) = bytes.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
    let (position, rest) = rest.split_first_chunk::<12>().unwrap_or((&[0; 12], &[]));
    let digest = rest.first_chunk().copied().unwrap_or_default();
    (SeenKey(*key), SeenEntry { position: Position::from_bytes(*position), digest })
}

impl fmt::Debug for SeenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}
