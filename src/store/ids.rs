//! The seen ids as the door asks them: what was lost of them is read from the journal again, and what a request marked
//! can be taken back.

use super::Error;
use super::door::Ids;
use super::journal::Reader;
use super::records::{DeliveryRecord, Record, Standing, StoredItem};
use super::seen::{Gap, Seen, SeenEntry, SeenKey, Worked};
use crate::domain::{Lsn, Position, Timestamp};

/// An event as the seen ids know it.
#[derive(Clone, Copy)]
pub(super) struct SeenEvent {
    key: SeenKey,
    /// The part of its digest that is kept.
    digest: [u8; 16],
}

/// The seen ids, with the journal behind them.
pub(super) struct SeenIds {
    seen: Seen,
    reader: Reader,
    /// The time of the youngest delivery.
    newest: Timestamp,
    /// What was marked since the last group.
    marked: Vec<SeenKey>,
}

impl SeenIds {
    pub(super) fn new(seen: Seen, reader: Reader) -> Self {
        Self { seen, reader, newest: Timestamp::EPOCH, marked: Vec::new() }
    }

    /// Takes the ids of a delivery that stands in the journal, unless they are known.
    pub(super) fn replay(&mut self, lsn: Lsn, delivery: &DeliveryRecord) {
        self.newest = self.newest.max(delivery.received_at);
        if lsn > self.seen.sealed() {
            for (key, entry) in firsts(lsn, delivery) {
                self.seen.insert(key, entry);
            }
        }
    }

    /// A delivery of this time was recorded.
    pub(super) fn received(&mut self, at: Timestamp) {
        self.newest = self.newest.max(at);
    }

    /// How many marks the group has so far.
    pub(super) fn marks(&self) -> usize {
        self.marked.len()
    }

    /// Takes the group's marks back from that one on: their append failed.
    pub(super) fn unmark(&mut self, from: usize) {
        for key in self.marked.split_off(from.min(self.marked.len())) {
            self.seen.remove(&key);
        }
    }

    /// The group is durable, and so are its marks.
    pub(super) fn keep(&mut self) {
        self.marked.clear();
    }

    /// The ids up to a sealed segment's end move to a file, written by [`Seen::work`].
    pub(super) fn seal(&mut self, through: Lsn, keep: std::time::Duration) {
        if through <= self.seen.sealed() {
            return;
        }
        self.seen.seal(through, self.newest);
        if let Err(error) = self.seen.expire(self.newest.minus(keep)) {
            tracing::warn!(error = %error, "old seen ids are not dropped yet");
        }
    }

    /// The next piece of file work.
    pub(super) fn work(&mut self) -> Option<super::seen::Work> {
        self.seen.work()
    }

    /// Takes file work back. What failed stays in memory.
    pub(super) fn worked(&mut self, worked: Worked) {
        if let Err(error) = self.seen.worked(worked) {
            tracing::warn!(error = %error, "seen ids stay in memory for now");
        }
    }

    /// Does all file work here and now. What fails is done after the next opening.
    pub(super) fn settle(&mut self) {
        if let Err(error) = self.seen.settle() {
            tracing::warn!(error = %error, "seen ids are not all in files");
        }
    }

    /// Reads the stretches of the journal whose ids were lost.
    pub(super) fn heal(&mut self) -> Result<(), Error> {
        for gap in self.seen.gaps().to_vec() {
            tracing::warn!(first = gap.first.0, last = gap.last.0, "lost seen ids are read from the journal again");
            let (found, newest) = self.read(gap)?;
            self.seen.rebuild(gap, newest, found)?;
        }
        Ok(())
    }

    fn read(&self, gap: Gap) -> Result<(Vec<(SeenKey, SeenEntry)>, Timestamp), Error> {
        let (mut found, mut newest) = (Vec::new(), Timestamp::EPOCH);
        for frame in self.reader.scan(gap.first) {
            let (lsn, bytes) = frame?;
            if lsn > gap.last {
                break;
            }
            if let Record::Delivery(delivery) = Record::decode(lsn, bytes)? {
                newest = newest.max(delivery.received_at);
                found.extend(firsts(lsn, &delivery));
            }
        }
        Ok((found, newest))
    }

    fn get(&mut self, key: &SeenKey) -> Result<Option<SeenEntry>, Error> {
        match self.seen.get(key) {
            Err(Error::Corrupt { .. }) if !self.seen.gaps().is_empty() => {
                self.heal()?;
                self.seen.get(key)
            }
            found => found,
        }
    }
}

impl Ids for SeenIds {
    type Known = SeenEvent;

    fn meet(&mut self, event: &SeenEvent, position: Position) -> Result<Option<(Position, bool)>, Error> {
        let SeenEvent { key, digest } = *event;
        if let Some(entry) = self.get(&key)? {
            return Ok(Some((entry.position, entry.digest == digest)));
        }
        self.seen.insert(key, SeenEntry { position, digest });
        self.marked.push(key);
        Ok(None)
    }
}

impl SeenEvent {
    /// What is kept of an event of a delivery.
    pub(super) fn of(item: &StoredItem) -> Self {
        let digest = item.digest.first_chunk().copied().unwrap_or_default();
        Self { key: SeenKey::of(&item.event.source, &item.event.id), digest }
    }
}

/// The ids that a delivery is the first with.
fn firsts(lsn: Lsn, delivery: &DeliveryRecord) -> impl Iterator<Item = (SeenKey, SeenEntry)> {
    let new = delivery.items(lsn).filter(|(_, item)| item.standing == Standing::New);
    new.map(|(position, item)| {
        let SeenEvent { key, digest } = SeenEvent::of(item);
        (key, SeenEntry { position, digest })
    })
}
