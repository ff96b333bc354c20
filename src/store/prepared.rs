//! What is made ready of a request by whoever brings it: all that does not depend on what came before. There are many who
//! bring and only one committer, and what was just made is still in their processor's cache.
//!
//! With its answer a request gets back what was prepared, to drop it: memory that is freed where it was taken is at hand
//! there at once, while other threads' frees are collected one by one.

use bytes::Bytes;

use super::gather::arrivals_of_delivery;
use super::ids::SeenEvent;
use super::journal;
use super::records::{self, CommitRecord, DeliveryRecord};
use super::window::Arrival;
use super::{Commit, Epoch, Error, change, door};
use crate::domain::{Delivery, Lsn, Shard, Timestamp};

/// A record's bytes. The body is what came in: it is copied only once, into the group that is written.
#[derive(Default)]
pub(super) struct Frame {
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
}

/// A delivery as the record that it becomes if every event of it is new.
pub(super) struct PreparedDelivery {
    /// What its events are known by.
    pub(super) events: Vec<SeenEvent>,
    pub(super) received_at: Timestamp,
    /// How many of its events then wait; none if it makes more true than that.
    pub(super) waiting: Option<usize>,
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
        let plain = record.items.iter().all(|item| item.dead_reason().is_none());
        let waiting = plain.then(|| change::waiting(&record));
        let arrivals = (plain && !waits).then(|| arrivals_of_delivery(Lsn(0), &record, shards));
        let events = record.items.iter().map(SeenEvent::of).collect();
        Ok(Self { events, received_at: record.received_at, waiting, frame, arrivals })
    }

    /// The record, without its body. It is read from the frame: almost none is asked for, and what is dropped when it was
    /// made need not be dropped when it has long left the processor's cache.
    pub(super) fn record(&self) -> Result<DeliveryRecord, Error> {
        let nowhere = Lsn(0);
        records::decode_head(nowhere, records::head(nowhere, &self.frame.head)?)
    }
}

impl PreparedCommit {
    pub(super) fn of(commit: Commit, shards: u16) -> Result<Self, Error> {
        let (epoch, shard, mut record) = (commit.epoch, commit.entity.shard(shards), CommitRecord::of(commit));
        let frame = Frame { head: record.encode_head()?, body: std::mem::take(&mut record.body) };
        Ok(Self { record, epoch, shard, frame })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract::facts::{queued, sub};

    #[test]
    fn the_record_is_read_from_the_frame_with_all_that_it_had() {
        let mut delivery = queued("evt_1", &sub("sub_1"), "active");
        delivery.headers = vec![("stripe-signature".to_owned(), "t=1,v1=ab".to_owned())];
        let whole = door::record_of(delivery.clone(), 4);
        for waits in [false, true] {
            let prepared = PreparedDelivery::of(delivery.clone(), 4, waits).unwrap();
            assert_eq!(prepared.frame.body, whole.body);
            assert_eq!(prepared.record().unwrap(), DeliveryRecord { body: Bytes::new(), ..whole.clone() });
            assert_eq!(
                (prepared.waiting, prepared.arrivals.map(|arrivals| arrivals.len())),
                (Some(1), (!waits).then_some(1))
            );
        }
    }
}
