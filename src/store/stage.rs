//! Staging: each request is judged against what is durable, and becomes a record of the group that is written next.

use tokio::sync::oneshot;

use super::change::{self, Before, Change};
use super::door::{self, Admitted, Repeats};
use super::gather::{arrivals_of, arrivals_of_delivery};
use super::ids::SeenIds;
use super::map::Set;
use super::prepared::{Frame, PreparedCommit, PreparedDelivery};
use super::records::{CommandRecord, Record, Replay, StoredAction};
use super::shared::Shared;
use super::window::Arrival;
use super::{Action, Command, Committed, Error, keys};
use crate::domain::{Admission, EntityKey, Lsn, Position, Shard};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// Requests that become durable together.
pub(super) struct Group {
    /// The LSN of its first record.
    pub(super) first: Lsn,
    pub(super) frames: Vec<Frame>,
    pub(super) bytes: usize,
    pub(super) staged: Vec<Staged>,
    pub(super) answers: Vec<Answer>,
    entities: Set<EntityKey>,
    dead: Set<Position>,
}

/// What one record makes true once it is durable.
pub(super) struct Staged {
    pub(super) change: Change,
    /// None if they were not made ready.
    pub(super) arrivals: Option<Vec<Arrival>>,
    /// Events that wait no longer for their first decision.
    pub(super) judged: Option<(Shard, EntityKey, Vec<Position>)>,
}

/// An answer that is held until the group is durable.
pub(super) enum Answer {
    /// Of [`super::Store::append`].
    Append(Vec<Admission>, Box<PreparedDelivery>, Reply<(Vec<Admission>, Box<PreparedDelivery>)>),
    /// Of [`super::Store::command`].
    Command(Position, Reply<Position>),
    /// Of [`super::Store::commit`].
    Commit(Lsn, Box<PreparedCommit>, Reply<(Committed, Box<PreparedCommit>)>),
}

impl Group {
    /// A group behind what is synced, of about so many requests.
    pub(super) fn behind(synced: Lsn, requests: usize) -> Self {
        Self {
            first: Lsn(synced.0 + 1),
            frames: Vec::with_capacity(requests),
            bytes: 0,
            staged: Vec::with_capacity(requests),
            answers: Vec::with_capacity(requests),
            entities: Set::default(),
            dead: Set::default(),
        }
    }

    /// Whether a command is about a dead letter that this group changes: it has to see that as durable.
    pub(super) fn touches_dead(&self, action: &Action) -> bool {
        match action {
            Action::Replay { dead, .. } | Action::Discard { dead } => self.dead.contains(dead),
            Action::MachineChanged { .. } => false,
        }
    }

    /// Whether a commit is about an entity that this group changes.
    pub(super) fn touches(&self, entity: &EntityKey) -> bool {
        self.entities.contains(entity)
    }

    /// Stages a delivery. An answer at once is one that waits for nothing in this group.
    pub(super) fn append(
        &mut self,
        shared: &Shared,
        ids: &mut SeenIds,
        mut delivery: Box<PreparedDelivery>,
        reply: Reply<(Vec<Admission>, Box<PreparedDelivery>)>,
    ) {
        let (lsn, marks) = (self.next(), ids.marks());
        let admitted = match door::admit(&delivery.events, lsn, ids) {
            Ok(admitted) => admitted,
            // The seen ids cannot be read: nobody could tell a duplicate any more.
            Err(error) => return answer(reply, Err(shared.fail(&error))),
        };
        if admitted.repeats == Repeats::All {
            let admissions = admitted.admissions;
            // A first in this very group must be durable before its duplicates are answered.
            let durable =
                |admission: &Admission| matches!(admission, Admission::Duplicate(first) if first.lsn < self.first);
            if admissions.iter().all(durable) {
                return answer(reply, Ok((admissions, delivery)));
            }
            return self.answers.push(Answer::Append(admissions, delivery, reply));
        }
        match self.deliver(shared, lsn, &mut delivery, &admitted) {
            Ok(()) => {
                ids.received(delivery.received_at);
                self.answers.push(Answer::Append(admitted.admissions, delivery, reply));
            }
            Err(error) => {
                ids.unmark(marks);
                answer(reply, Err(error));
            }
        }
    }

    fn deliver(
        &mut self,
        shared: &Shared,
        lsn: Lsn,
        delivery: &mut PreparedDelivery,
        admitted: &Admitted,
    ) -> Result<(), Error> {
        let (change, arrivals) = if let Some(waiting) = delivery.waiting.filter(|_| admitted.repeats == Repeats::None) {
            let prepared = delivery.arrivals.take();
            let arrivals = prepared.map(|prepared| prepared.into_iter().map(|arrival| arrival.at(lsn)).collect());
            (change::of_waiting(lsn, waiting), arrivals)
        } else {
            let mut record = delivery.record()?;
            door::stand(&mut record, &admitted.admissions);
            delivery.frame.head = record.encode_head()?;
            (change::of_delivery(lsn, &record)?, Some(arrivals_of_delivery(lsn, &record, shared.shards)))
        };
        self.push(shared, &mut delivery.frame, Staged { change, arrivals, judged: None })
    }

    /// Stages a command.
    pub(super) fn command(&mut self, shared: &Shared, command: Command) -> Result<Position, Error> {
        let lsn = self.next();
        let action = match command.action {
            Action::Replay { dead, event } => {
                let letter = shared.dead_letter(dead)?.filter(|_| event.entity.is_some());
                let letter = letter.ok_or(Error::NotDead { position: dead })?;
                StoredAction::Replay(Box::new(Replay {
                    dead,
                    origin: shared.origin(dead)?,
                    event,
                    received_at: letter.received_at,
                    body_sha256: letter.body_sha256,
                    attempts: letter.attempts,
                }))
            }
            Action::Discard { dead } => {
                shared.get(&keys::dead(dead))?.ok_or(Error::NotDead { position: dead })?;
                StoredAction::Discard { dead }
            }
            Action::MachineChanged { machine, version, sha256 } => {
                StoredAction::MachineChanged { machine, version, sha256 }
            }
        };
        let dead = match &action {
            StoredAction::Replay(replay) => Some(replay.dead),
            StoredAction::Discard { dead } => Some(*dead),
            StoredAction::MachineChanged { .. } => None,
        };
        let record = CommandRecord { by: command.by, at: command.at, action };
        let change = change::of_command(lsn, &record)?;
        let mut frame = Frame { head: record.encode()?, ..Frame::default() };
        let record = Record::Command(record);
        let arrivals = Some(arrivals_of(lsn, &record, shared.shards));
        self.push(shared, &mut frame, Staged { change, arrivals, judged: None })?;
        self.dead.extend(dead);
        Ok(Position { lsn, item: 0 })
    }

    /// Stages a commit, or refuses it at once.
    pub(super) fn commit(
        &mut self,
        shared: &Shared,
        mut commit: Box<PreparedCommit>,
        reply: Reply<(Committed, Box<PreparedCommit>)>,
    ) {
        match self.decided(shared, &mut commit) {
            Ok(lsn) => self.answers.push(Answer::Commit(lsn, commit, reply)),
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn decided(&mut self, shared: &Shared, commit: &mut PreparedCommit) -> Result<Lsn, Error> {
        let lsn = self.next();
        let (record, owned_by) = (&commit.record, commit.shard);
        if commit.epoch != shared.state().window.epoch(owned_by) {
            return Err(Error::Fenced { shard: owned_by });
        }
        let held = shared.held(&record.entity)?;
        let actual = held.as_ref().map_or(0, |held| held.entity.version);
        if actual != record.version {
            return Err(Error::Moved { entity: record.entity.clone(), expected: record.version, actual });
        }
        let mut before: Vec<Before> = Vec::with_capacity(record.judged.len());
        let mut named = Set::default();
        for judged in &record.judged {
            let known = shared.before(owned_by, &record.entity, judged)?.filter(|_| named.insert(judged.position));
            before.push(known.ok_or(Error::NotPending { position: judged.position })?);
        }
        let change = change::of_commit(lsn, record, held.as_deref(), &before)?;
        let entity = record.entity.clone();
        let positions = record.judged.iter().map(|judged| judged.position).collect();
        let staged = Staged { change, arrivals: Some(Vec::new()), judged: Some((owned_by, entity.clone(), positions)) };
        self.push(shared, &mut commit.frame, staged)?;
        self.entities.insert(entity);
        Ok(lsn)
    }

    /// The LSN of the next record.
    fn next(&self) -> Lsn {
        Lsn(self.first.0 + u64::try_from(self.frames.len()).unwrap_or(u64::MAX))
    }

    /// Takes a frame into the group, with what it makes true.
    fn push(&mut self, shared: &Shared, frame: &mut Frame, staged: Staged) -> Result<(), Error> {
        let limit = shared.options.journal.frame_bytes_max;
        if frame.len() > limit {
            return Err(Error::TooLarge { bytes: frame.len(), limit });
        }
        self.bytes += frame.len();
        self.frames.push(std::mem::take(frame));
        self.staged.push(staged);
        Ok(())
    }

    /// The group is durable: gives the answers, and the frames back to those who made them. `more` are the commits whose
    /// entities have more pending events.
    pub(super) fn give(self, more: &Set<Lsn>) {
        let (first, mut frames) = (self.first, self.frames);
        let mut frame_of = |lsn: Lsn| {
            let place = lsn.0.checked_sub(first.0).and_then(|place| usize::try_from(place).ok());
            place.and_then(|place| frames.get_mut(place)).map(std::mem::take).unwrap_or_default()
        };
        for answer in self.answers {
            answer.give(&mut frame_of, more);
        }
    }
}

impl Answer {
    /// The group is durable. `frame_of` gives the frame of a record back.
    fn give(self, frame_of: &mut impl FnMut(Lsn) -> Frame, more: &Set<Lsn>) {
        match self {
            Self::Append(admissions, mut delivery, reply) => {
                if let Some(Admission::Accepted(first) | Admission::Conflict { dead: first, .. }) = admissions.first() {
                    delivery.frame = frame_of(first.lsn);
                }
                answer(reply, Ok((admissions, delivery)));
            }
            Self::Command(position, reply) => answer(reply, Ok(position)),
            Self::Commit(lsn, mut commit, reply) => {
                commit.frame = frame_of(lsn);
                answer(reply, Ok((Committed { lsn, more: more.contains(&lsn) }, commit)));
            }
        }
    }

    /// The group is not there.
    pub(super) fn refuse(self, error: &Error) {
        match self {
            Self::Append(_, _, reply) => answer(reply, Err(error.clone())),
            Self::Command(_, reply) => answer(reply, Err(error.clone())),
            Self::Commit(_, _, reply) => answer(reply, Err(error.clone())),
        }
    }
}

/// Gives an answer to whoever still waits for it.
pub(super) fn answer<T>(reply: Reply<T>, answer: Result<T, Error>) {
    drop(reply.send(answer));
}
