//! What is made ready of a request by whoever brings it: all that does not depend on what came before. There are many who
//! bring and only one committer, and what was just made is still in their processor's cache.
//!
//! With its answer a request gets back what was prepared, to drop it: memory that is freed where it was taken is at hand
//! there at once, while other threads' frees are collected one by one.

use super::records::{self, CommitRecord, DeliveryRecord};
use super::{Commit, Epoch, Error, door};
use crate::domain::{Delivery, Shard};

/// A delivery as the record that it becomes if every event of it is new.
pub(super) struct PreparedDelivery {
    pub(super) record: DeliveryRecord,
    /// The record's bytes.
    pub(super) frame: Vec<u8>,
}

/// A commit as its record.
pub(super) struct PreparedCommit {
    pub(super) record: CommitRecord,
    pub(super) epoch: Epoch,
    /// The shard of its entity.
    pub(super) shard: Shard,
    /// The record's bytes.
    pub(super) frame: Vec<u8>,
}

impl PreparedDelivery {
    pub(super) fn of(delivery: Delivery, shards: u16) -> Result<Self, Error> {
        let record = door::record_of(delivery, shards);
        let frame = records::encode_delivery(&record)?;
        Ok(Self { record, frame })
    }
}

impl PreparedCommit {
    pub(super) fn of(commit: Commit, shards: u16) -> Result<Self, Error> {
        let (epoch, shard, record) = (commit.epoch, commit.entity.shard(shards), CommitRecord::of(commit));
        let frame = records::encode_commit(&record)?;
        Ok(Self { record, epoch, shard, frame })
    }
}
