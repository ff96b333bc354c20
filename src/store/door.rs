//! The door's judgement: which items of a delivery are new, which repeat, which contradict.
//!
//! One function for every engine, over whatever the engine keeps its seen ids in.

use super::Error;
use super::records::{DeliveryRecord, Standing, StoredItem};
use crate::domain::{Admission, Delivery, Lsn, Position};

/// The seen ids, as the door needs them.
pub(super) trait Ids {
    /// What tells one event from another, and whether two of one id say the same.
    type Known;

    /// Where the first of this id stands and whether it says the same. None if the id is new: its first is marked as
    /// standing at `position` then.
    fn meet(&mut self, event: &Self::Known, position: Position) -> Result<Option<(Position, bool)>, Error>;
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

/// Judges each event against the seen ids (and the events before it) and marks the new ones, as if their delivery were
/// recorded at `lsn`.
pub(super) fn admit<I: Ids>(events: &[I::Known], lsn: Lsn, ids: &mut I) -> Result<Admitted, Error> {
    let mut admissions = Vec::with_capacity(events.len());
    for (event, item) in events.iter().zip(0_u32..) {
        let position = Position { lsn, item };
        admissions.push(match ids.meet(event, position)? {
            None => Admission::Accepted(position),
            Some((first, true)) => Admission::Duplicate(first),
            Some((first, false)) => Admission::Conflict { first, dead: position },
        });
    }
    let all = |is: fn(&Admission) -> bool| admissions.iter().all(is);
    let repeats = if all(|admission| matches!(admission, Admission::Duplicate(_))) {
        Repeats::All
    } else if all(|admission| matches!(admission, Admission::Accepted(_))) {
        Repeats::None
    } else {
        Repeats::Some
    };
    Ok(Admitted { admissions, repeats })
}

/// Writes into a record what was answered of its items.
pub(super) fn stand(record: &mut DeliveryRecord, admissions: &[Admission]) {
    for (item, admission) in record.items.iter_mut().zip(admissions) {
        item.standing = match admission {
            Admission::Accepted(_) => Standing::New,
            Admission::Duplicate(first) => Standing::Duplicate(*first),
            Admission::Conflict { first, .. } => Standing::Conflict(*first),
        };
    }
}
