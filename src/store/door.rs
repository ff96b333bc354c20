//! The door's judgement: which items of a delivery are new, which repeat, which contradict.
//!
//! One function for every engine, over whatever the engine keeps its seen ids in.

use super::records::{DeliveryRecord, Standing, StoredItem};
use super::{Error, Shard};
use crate::domain::{Admission, Delivery, EventDigest, EventId, Lsn, Position, SourceName};

/// The seen ids, as the door needs them.
pub(super) trait Ids {
    /// Where the first of this id stands and whether its digest is this one; none if the id is new.
    fn seen(
        &mut self,
        source: &SourceName,
        id: &EventId,
        digest: &EventDigest,
    ) -> Result<Option<(Position, bool)>, Error>;

    /// Marks the id: its first stands there.
    fn mark(&mut self, source: &SourceName, id: &EventId, digest: &EventDigest, position: Position);
}

/// What the door made of a delivery.
pub(super) struct Admitted {
    /// An answer for each item.
    pub(super) admissions: Vec<Admission>,
    /// What is to be recorded; none if every item repeats one that was seen.
    pub(super) record: Option<DeliveryRecord>,
}

/// Judges each item against the seen ids (and the items before it) and marks the new ones, as if the delivery were
/// recorded at `lsn`.
pub(super) fn admit(delivery: Delivery, lsn: Lsn, shards: u16, ids: &mut impl Ids) -> Result<Admitted, Error> {
    let Delivery { source, received_at, headers, body, body_sha256, secret, items } = delivery;
    let mut admissions = Vec::with_capacity(items.len());
    let mut stored: Vec<StoredItem> = Vec::with_capacity(items.len());
    for (item, place) in items.into_iter().zip(0_u32..) {
        let position = Position { lsn, item: place };
        let event = item.event;
        let (standing, admission) = match ids.seen(&event.source, &event.id, &item.digest)? {
            None => {
                ids.mark(&event.source, &event.id, &item.digest, position);
                (Standing::New, Admission::Accepted(position))
            }
            Some((first, true)) => (Standing::Duplicate(first), Admission::Duplicate(first)),
            Some((first, false)) => (Standing::Conflict(first), Admission::Conflict { first, dead: position }),
        };
        admissions.push(admission);
        let shard: Option<Shard> = event.entity.as_ref().map(|entity| entity.shard(shards));
        stored.push(StoredItem { event, digest: item.digest, shard, admit: item.admit.into(), standing });
    }
    let repeats = stored.iter().all(|item| matches!(item.standing, Standing::Duplicate(_)));
    let record = DeliveryRecord { source, received_at, headers, body_sha256, secret, items: stored, body };
    Ok(Admitted { admissions, record: Some(record).filter(|_| !repeats) })
}
