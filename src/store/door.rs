//! The door's judgement: which items of a delivery are new, which repeat, which contradict.
//!
//! One function for every engine, over whatever the engine keeps its seen ids in.

use super::Error;
use super::records::{DeliveryRecord, Standing, StoredItem};
use crate::domain::{Admission, Delivery, EventDigest, EventId, Lsn, Position, SourceName};

/// The seen ids, as the door needs them.
pub(super) trait Ids {
    /// Where the first of this id stands and whether its digest is this one. None if the id is new: its first is marked
    /// as standing at `position` then.
    fn meet(
        &mut self,
        source: &SourceName,
        id: &EventId,
        digest: &EventDigest,
        position: Position,
    ) -> Result<Option<(Position, bool)>, Error>;
}

/// What the door made of a delivery.
pub(super) struct Admitted {
    /// An answer for each item.
    pub(super) admissions: Vec<Admission>,
    /// Which of its items repeat what was seen.
    pub(super) repeats: Repeats,
}

/// Which items of a delivery repeat what was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeats {
    /// None, and none contradicts it either: the record stands as it was made.
    None,
    /// Some, or some contradict it.
    Some,
    /// All: nothing is to be recorded.
    All,
}

/// The record that a delivery becomes if every item of it is new.
pub(super) fn record_of(delivery: Delivery, shards: u16) -> DeliveryRecord {
    let Delivery { source, received_at, headers, body, body_sha256, secret, items } = delivery;
    let stored = items.into_iter().map(|item| {
        let shard = item.event.entity.as_ref().map(|entity| entity.shard(shards));
        StoredItem { event: item.event, digest: item.digest, shard, admit: item.admit.into(), standing: Standing::New }
    });
    let items = stored.collect();
    DeliveryRecord { source, received_at, headers, body_sha256, secret, items, body }
}

/// Judges each item against the seen ids (and the items before it) and marks the new ones, as if the delivery were
/// recorded at `lsn`.
pub(super) fn admit(record: &mut DeliveryRecord, lsn: Lsn, ids: &mut impl Ids) -> Result<Admitted, Error> {
    let mut admissions = Vec::with_capacity(record.items.len());
    for (item, place) in record.items.iter_mut().zip(0_u32..) {
        let position = Position { lsn, item: place };
        let (standing, admission) = match ids.meet(&item.event.source, &item.event.id, &item.digest, position)? {
            None => (Standing::New, Admission::Accepted(position)),
            Some((first, true)) => (Standing::Duplicate(first), Admission::Duplicate(first)),
            Some((first, false)) => (Standing::Conflict(first), Admission::Conflict { first, dead: position }),
        };
        item.standing = standing;
        admissions.push(admission);
    }
    let all = |is: fn(&Standing) -> bool| record.items.iter().all(|item| is(&item.standing));
    let repeats = if all(|standing| matches!(standing, Standing::Duplicate(_))) {
        Repeats::All
    } else if all(|standing| *standing == Standing::New) {
        Repeats::None
    } else {
        Repeats::Some
    };
    Ok(Admitted { admissions, repeats })
}
