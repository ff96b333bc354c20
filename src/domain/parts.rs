//! A hash over parts, each behind its length: no two lists of parts are the same bytes.

use sha2::{Digest as _, Sha256};

/// SHA-256 over parts, each behind its length in eight bytes, big endian.
#[derive(Clone, Debug, Default)]
pub struct PartsHash(Sha256);

impl PartsHash {
    /// Adds the next part.
    pub fn add(&mut self, part: &[u8]) {
        self.0.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(part);
    }

    /// The hash of the parts.
    #[must_use]
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}
