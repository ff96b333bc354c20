//! Reading from the journal which events wait for their first decision.

use std::collections::BTreeMap;

use super::Error;
use super::records::{DeliveryRecord, Kind, Record};
use super::window::{Arrival, Bounds};
use crate::domain::{Lsn, Position};

/// What was gathered: everything undecided before the cursor.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) arrivals: Vec<Arrival>,
    /// Reading goes on here.
    pub(super) cursor: Lsn,
}

impl Gathered {
    /// As much of it as is at most so many events, but at least one record; the rest is to be read again.
    pub(super) fn cut(mut self, events: usize) -> Self {
        let lsn_at = |place: usize| self.arrivals.get(place).map(|arrival| arrival.slot.position.lsn);
        let (Some(first), Some(beyond)) = (lsn_at(0), lsn_at(events)) else { return self };
        self.cursor = beyond.max(Lsn(first.0 + 1));
        self.arrivals.retain(|arrival| arrival.slot.position.lsn < self.cursor);
        self
    }
}

/// Undecided events, as records are met in order.
pub(super) struct Gatherer {
    shards: u16,
    /// How many events may be held; beyond them no record is taken.
    bounds: Bounds,
    waiting: BTreeMap<Position, Arrival>,
    decoded_bytes: usize,
    cursor: Lsn,
    full: bool,
}

impl Gatherer {
    /// Nothing yet; records before `from` have been read elsewhere.
    pub(super) fn new(shards: u16, bounds: Bounds, from: Lsn) -> Self {
        Self { shards, bounds, waiting: BTreeMap::new(), decoded_bytes: 0, cursor: from, full: false }
    }

    /// Whether no further event is taken.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Takes the events of a record, or those away that it judges.
    pub(super) fn take(&mut self, lsn: Lsn, record: &Record) {
        if let Record::Commit(commit) = record {
            for judged in &commit.judged {
                let gone = self.waiting.remove(&judged.position);
                self.decoded_bytes -= gone.map_or(0, |gone| gone.slot.bytes());
            }
        }
        let arrivals = arrivals_of(lsn, record, self.shards);
        let too_many = self.waiting.len() + arrivals.len() > self.bounds.events;
        // A record that is larger than all the room still enters an empty window.
        self.full |= too_many && !arrivals.is_empty() && !self.waiting.is_empty();
        if self.full {
            return;
        }
        self.cursor = Lsn(lsn.0 + 1);
        for mut arrival in arrivals {
            arrival.slot.decoded = arrival.slot.decoded.filter(|_| self.decoded_bytes < self.bounds.decoded_bytes);
            self.decoded_bytes += arrival.slot.bytes();
            self.waiting.insert(arrival.slot.position, arrival);
        }
    }

    /// What waits.
    pub(super) fn finish(self) -> Gathered {
        Gathered { arrivals: self.waiting.into_values().collect(), cursor: self.cursor }
    }
}

/// Reads up to `records` records for undecided events, at most about `events` of them, and on as far as `judged_upto`
/// for the commits that judge them.
pub(super) fn gather(
    scan: impl Iterator<Item = Result<(Lsn, Vec<u8>), Error>>,
    mut gatherer: Gatherer,
    records: usize,
    synced: Lsn,
    judged_upto: Lsn,
) -> Result<Gathered, Error> {
    for (read, frame) in scan.enumerate() {
        let (lsn, bytes) = frame?;
        let enough = read >= records || gatherer.is_full();
        if lsn > synced || (enough && lsn > judged_upto) {
            break;
        }
        // Once full, only what was judged is of interest.
        if !gatherer.is_full() || Kind::of(lsn, &bytes)? == Kind::Commit {
            gatherer.take(lsn, &Record::decode(lsn, bytes)?);
        }
    }
    Ok(gatherer.finish())
}

/// The events of a record that join a queue.
pub(super) fn arrivals_of(lsn: Lsn, record: &Record, shards: u16) -> Vec<Arrival> {
    match record {
        Record::Delivery(delivery) => arrivals_of_delivery(lsn, delivery, shards),
        Record::Command(_) => {
            let pending = record.pending(Position { lsn, item: 0 });
            pending.and_then(|pending| Arrival::of(shards, None, pending)).into_iter().collect()
        }
        Record::Commit(_) => Vec::new(),
    }
}

/// The events of a delivery that join a queue.
pub(super) fn arrivals_of_delivery(lsn: Lsn, delivery: &DeliveryRecord, shards: u16) -> Vec<Arrival> {
    let queued = delivery.items(lsn).filter(|(_, item)| item.queued_for().is_some());
    queued.filter_map(|(at, item)| Arrival::of(shards, item.shard, delivery.pending(at, item))).collect()
}
