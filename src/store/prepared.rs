//! What is made ready of a request by whoever brings it: all that does not depend on what came before. There are many who
//! bring and only one committer, and what was just made is still in their processor's cache.
//!
//! With its answer a request gets back what was prepared, to drop it: memory that is freed where it was taken is at hand
//! there at once, while other threads' frees are collected one by one.

use bytes::Bytes;

use super::gather::arrivals_of_delivery;
use super::journal;
use super::records::{self, CommitRecord, DeliveryRecord};
use super::window::Arrival;
use super::{Commit, Epoch, Error, door};
use crate::domain::{Delivery, Lsn, Shard};

/// A record's bytes. The body is what came in: it is copied only once, into the group that is written.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
}

/// A delivery as the record that it becomes if every event of it is new.
pub(super) struct PreparedDelivery {
    /// Without the headers and the body, which the frame has.
    pub(super) record: DeliveryRecord,
    pub(super) frame: Frame,
    /// The events that then join a queue, once the record has an LSN; none if the pending window takes none now.
    pub(super) arrivals: Option<Vec<Arrival>>,
}

/// A commit as its record.
pub(super) struct PreparedCommit {
    /// Without the body, which the frame has.
    pub(super) record: CommitRecord,
    pub(super) epoch: Epoch,
    /// The shard of its entity.
    pub(super) shard: Shard,
    pub(super) frame: Frame,
}

impl Frame {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl journal::Frame for Frame {
    fn parts(&self) -> [&[u8]; 2] {
        [&self.head, &self.body]
    }
}

impl PreparedDelivery {
    /// `waits` says that its events will wait in the journal alone.
    pub(super) fn of(delivery: Delivery, shards: u16, waits: bool) -> Result<Self, Error> {
        let mut record = door::record_of(delivery, shards);
        let frame = Frame { head: record.encode_head()?, body: std::mem::take(&mut record.body) };
        let arrivals = (!waits).then(|| arrivals_of_delivery(Lsn(0), &record, shards));
        // Dropped while they are at hand; almost no record is encoded again.
        record.headers = Vec::new();
        Ok(Self { record, frame, arrivals })
    }

    /// Makes the frame anew, now that the record says more of its items.
    pub(super) fn encode_again(&mut self) -> Result<(), Error> {
        let nowhere = Lsn(0);
        let before: DeliveryRecord = records::decode_head(nowhere, records::head(nowhere, &self.frame.head)?)?;
        self.record.headers = before.headers;
        self.frame.head = self.record.encode_head()?;
        Ok(())
    }
}

impl PreparedCommit {
    pub(super) fn of(commit: Commit, shards: u16) -> Result<Self, Error> {
        let (epoch, shard, mut record) = (commit.epoch, commit.entity.shard(shards), CommitRecord::of(commit));
        let frame = Frame { head: record.encode_head()?, body: std::mem::take(&mut record.body) };
        Ok(Self { record, epoch, shard, frame })
    }
}
