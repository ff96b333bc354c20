//! Faults that are planted one at a time, to see that the simulation finds them: each in a decorator around what it
//! would be a fault of, so that the product has no hook for them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::upstream::SimUpstream;
use crate::domain::query::Page;
use crate::domain::{
    Admission, CheckChange, Decision, Delivery, Disposition, Entity, EntityKey, EventId, Lsn, OrderKey, Pending,
    Position, Recorded,
};
use crate::engine::decider::Decider;
use crate::engine::upstream::{Answered, Unanswered, Upstream};
use crate::machine::{Asked, Context, Reading};
use crate::source::Request;
use crate::store::disk::{Disk, File, Lock, Space};
use crate::store::{Commit, Committed, Due, Error, Store};

/// The faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Planted {
    /// The journal answers before its disk has synced.
    AnswerBeforeSync,
    /// A duplicate is answered while its first is on its way.
    DuplicateBeforeFirst,
    /// The id of a failed append stays seen.
    SeenAfterFailure,
    /// After a crash a decision is applied twice.
    AppliedTwice,
    /// An answer's order key is the time of its end.
    KeyOfTheEnd,
    /// A check is not kept.
    LostCheck,
    /// What waits for a time is forgotten by a crash.
    DueForgotten,
    /// An event whose turn failed is taken as decided.
    RetryTakenAsDone,
    /// What stands behind a hole among the pending events is passed over.
    HoleSkipped,
    /// An entity is not announced.
    WakeLost,
    /// The feed shows a decision before it is durable.
    UnsyncedInFeed,
    /// Of two events of one instant the later delivered counts.
    LastWriteWins,
    /// An id from the tail of the journal that a crash cut off is known still, at an LSN that another gets.
    LsnReused,
    /// A view that is ahead of its journal is believed.
    ViewAhead,
}

impl Planted {
    pub(crate) const ALL: [Self; 14] = [
        Self::AnswerBeforeSync,
        Self::DuplicateBeforeFirst,
        Self::SeenAfterFailure,
        Self::AppliedTwice,
        Self::KeyOfTheEnd,
        Self::LostCheck,
        Self::DueForgotten,
        Self::RetryTakenAsDone,
        Self::HoleSkipped,
        Self::WakeLost,
        Self::UnsyncedInFeed,
        Self::LastWriteWins,
        Self::LsnReused,
        Self::ViewAhead,
    ];
}

/// A disk whose syncs do nothing.
struct Unsynced(Arc<dyn Disk>);

struct UnsyncedFile(Arc<dyn File>);

/// The journal's disk with the fault in it, if it is one of the disk.
pub(crate) fn disk(planted: Option<Planted>, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    if planted == Some(Planted::AnswerBeforeSync) { Arc::new(Unsynced(disk)) } else { disk }
}

impl Disk for Unsynced {
    fn place(&self, name: &str) -> String {
        self.0.place(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UnsyncedFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UnsyncedFile(self.0.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        self.0.lock()
    }
}

impl File for UnsyncedFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.0.allocate(size)
    }
}

/// An upstream whose answers are taken for as new as their end.
struct Late(Arc<SimUpstream>);

/// The upstream with the fault in it, if it is one of the upstream.
pub(crate) fn upstream(planted: Option<Planted>, upstream: Arc<SimUpstream>) -> Arc<dyn Upstream> {
    if planted == Some(Planted::KeyOfTheEnd) { Arc::new(Late(upstream)) } else { upstream }
}

#[async_trait]
impl Upstream for Late {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        let answered = self.0.ask(request).await?;
        let date = answered.date.map(|date| date.plus(answered.to_headers));
        Ok(Answered { date, to_headers: Duration::ZERO, ..answered })
    }
}

/// A decider that forgets checks, or takes what came last for the newest.
struct Wrong {
    inner: Arc<dyn Decider>,
    planted: Planted,
}

/// The decider with the fault in it, if it is one of the decider.
pub(crate) fn decider(planted: Option<Planted>, inner: Arc<dyn Decider>) -> Arc<dyn Decider> {
    match planted {
        Some(planted @ (Planted::LostCheck | Planted::LastWriteWins)) => Arc::new(Wrong { inner, planted }),
        _ => inner,
    }
}

impl Decider for Wrong {
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
        let mut run = run.to_vec();
        if self.planted == Planted::LastWriteWins {
            for pending in &mut run {
                if let OrderKey::Time { at, .. } = &mut Arc::make_mut(&mut pending.event).order_key {
                    *at = at.plus(Duration::from_nanos(pending.position.lsn.0));
                }
            }
        }
        self.inner.decide(entity, &run, context)
    }

    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision {
        let mut decision = self.inner.settle(entity, run, asked, reading, context);
        if self.planted == Planted::LostCheck {
            for entry in &mut decision.entries {
                entry.check = entry.check.take().filter(|check| *check == CheckChange::Cleared);
            }
        }
        decision
    }
}

/// A store at fault in one life.
pub(crate) struct StoreFault {
    planted: Planted,
    /// Whether there were lives before.
    later: bool,
    memory: Mutex<Memory>,
    tail: Arc<Mutex<Tail>>,
}

/// Where ids were to stand whose delivery is on its way, and was when a life ended.
#[derive(Default)]
pub(crate) struct Tail {
    on_the_way: BTreeMap<EventId, Position>,
    cut: BTreeMap<EventId, Position>,
}

#[derive(Default)]
struct Memory {
    ids: BTreeMap<EventId, Position>,
    entities: BTreeSet<EntityKey>,
    positions: BTreeSet<Position>,
    early: Vec<Recorded>,
}

impl StoreFault {
    pub(crate) fn of(planted: Option<Planted>, nth: u64, tail: &Arc<Mutex<Tail>>) -> Option<Self> {
        let planted = planted?;
        {
            let mut tail = tail.lock().unwrap();
            let cut = std::mem::take(&mut tail.on_the_way);
            tail.cut.extend(cut);
        }
        Some(Self { planted, later: nth > 0, memory: Mutex::default(), tail: Arc::clone(tail) })
    }

    fn next(store: &dyn Store) -> Position {
        Position { lsn: Lsn(store.status().synced.0 + 1), item: 0 }
    }

    pub(crate) async fn append(&self, store: &dyn Store, delivery: Delivery) -> Result<Vec<Admission>, Error> {
        let ids: Vec<EventId> = delivery.items.iter().map(|item| item.event.id.clone()).collect();
        if self.planted == Planted::LsnReused {
            return self.append_after_cut(store, delivery, &ids).await;
        }
        let remembers = matches!(self.planted, Planted::DuplicateBeforeFirst | Planted::SeenAfterFailure);
        let known = ids.iter().map(|id| self.memory.lock().unwrap().ids.get(id).copied()).collect::<Option<Vec<_>>>();
        if let Some(known) = known.filter(|_| remembers) {
            return Ok(known.into_iter().map(Admission::Duplicate).collect());
        }
        let place = Self::next(store);
        if self.planted == Planted::DuplicateBeforeFirst {
            self.memory.lock().unwrap().ids.extend(ids.iter().map(|id| (id.clone(), place)));
        }
        let answer = store.append(delivery).await;
        let mut memory = self.memory.lock().unwrap();
        if self.planted == Planted::SeenAfterFailure && answer.is_err() {
            memory.ids.extend(ids.into_iter().map(|id| (id, place)));
        } else {
            for id in &ids {
                memory.ids.remove(id);
            }
        }
        answer
    }

    async fn append_after_cut(
        &self,
        store: &dyn Store,
        delivery: Delivery,
        ids: &[EventId],
    ) -> Result<Vec<Admission>, Error> {
        let known: Option<Vec<_>> = ids.iter().map(|id| self.tail.lock().unwrap().cut.get(id).copied()).collect();
        // Only what is durable by now is told.
        if let Some(known) = known.filter(|known| known.iter().all(|place| place.lsn <= store.status().synced)) {
            return Ok(known.into_iter().map(Admission::Duplicate).collect());
        }
        let Position { lsn, .. } = Self::next(store);
        let places = ids.iter().cloned().zip((0..).map(|item| Position { lsn, item }));
        self.tail.lock().unwrap().on_the_way.extend(places);
        let answer = store.append(delivery).await;
        self.tail.lock().unwrap().on_the_way.retain(|id, _| !ids.contains(id));
        answer
    }

    pub(crate) async fn commit(&self, store: &dyn Store, mut commit: Commit) -> Result<Committed, Error> {
        let first = {
            let mut memory = self.memory.lock().unwrap();
            if self.planted == Planted::UnsyncedInFeed {
                let place = Self::next(store);
                let early = commit.entries.iter().zip(0..).map(|(entry, item)| Recorded {
                    position: Position { item, ..place },
                    entity: commit.entity.clone(),
                    entry: entry.clone(),
                });
                memory.early = early.filter(|recorded| recorded.entry.is_move()).collect();
            }
            memory.entities.insert(commit.entity.clone())
        };
        if self.planted == Planted::RetryTakenAsDone {
            for judged in &mut commit.judged {
                if let Disposition::Retry { .. } = judged.disposition {
                    judged.disposition = Disposition::Done;
                }
            }
        }
        let again = Commit {
            version: commit.version + u64::try_from(commit.entries.len()).unwrap(),
            judged: Vec::new(),
            ..commit.clone()
        };
        let committed = store.commit(commit).await?;
        if self.planted == Planted::AppliedTwice && self.later && first && !again.entries.is_empty() {
            store.commit(again).await?;
            // The caller must learn that the entity has moved on.
            return Err(Error::Busy);
        }
        Ok(committed)
    }

    pub(crate) fn pending(&self, found: Vec<Pending>) -> Vec<Pending> {
        if self.planted != Planted::HoleSkipped {
            return found;
        }
        let mut memory = self.memory.lock().unwrap();
        for two in found.windows(2) {
            if two[1].position.lsn.0 > two[0].position.lsn.0 + 1 {
                memory.positions.insert(two[1].position);
            }
        }
        found.into_iter().filter(|pending| !memory.positions.contains(&pending.position)).collect()
    }

    pub(crate) fn arrivals(&self, found: Vec<EntityKey>) -> Vec<EntityKey> {
        let is_lost = |at: usize| self.planted == Planted::WakeLost && at > 0;
        found.into_iter().enumerate().filter(|(at, _)| !is_lost(*at)).map(|(_, key)| key).collect()
    }

    pub(crate) fn due(&self, mut found: Due) -> Due {
        if self.planted == Planted::DueForgotten {
            let memory = self.memory.lock().unwrap();
            found.entities.retain(|entity| !self.later || memory.entities.contains(entity));
        }
        found
    }

    pub(crate) fn feed(&self, mut page: Page<Recorded, Position>) -> Page<Recorded, Position> {
        let early = std::mem::take(&mut self.memory.lock().unwrap().early);
        let last = page.next;
        for recorded in early.into_iter().filter(|recorded| Some(recorded.position) > last) {
            page.next = Some(recorded.position);
            page.items.push(recorded);
        }
        page
    }
}
