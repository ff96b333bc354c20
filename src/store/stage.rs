//! Staging: each request is judged against what is durable, and becomes a record of the group that is written next.

use tokio::sync::oneshot;

use super::change::{self, Before, Change};
use super::door;
use super::gather::arrivals_of;
use super::ids::SeenIds;
use super::map::Set;
use super::records::{CommandRecord, CommitRecord, Record, Replay, StoredAction};
use super::seen::SeenKey;
use super::shared::Shared;
use super::window::Arrival;
use super::{Action, Command, Commit, Error, keys};
use crate::domain::{Admission, Delivery, EntityKey, Lsn, Position, Shard};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// Requests that become durable together.
pub(super) struct Group {
    /// The LSN of its first record.
    pub(super) first: Lsn,
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) bytes: usize,
    pub(super) staged: Vec<Staged>,
    pub(super) answers: Vec<Answer>,
    /// The ids that it marked.
    pub(super) marked: Vec<SeenKey>,
    entities: Set<EntityKey>,
    dead: Set<Position>,
}

/// What one record makes true once it is durable.
pub(super) struct Staged {
    pub(super) change: Change,
    pub(super) arrivals: Vec<Arrival>,
    /// Events that wait no longer for their first decision.
    pub(super) judged: Option<(Shard, EntityKey, Vec<Position>)>,
}

/// An answer that is held until the group is durable.
pub(super) enum Answer {
    /// Of [`super::Store::append`].
    Append(Vec<Admission>, Reply<Vec<Admission>>),
    /// Of [`super::Store::command`].
    Command(Position, Reply<Position>),
    /// Of [`super::Store::commit`].
    Commit(Lsn, Reply<Lsn>),
}

impl Group {
    /// A group behind what is synced.
    pub(super) fn behind(synced: Lsn) -> Self {
        Self {
            first: Lsn(synced.0 + 1),
            frames: Vec::new(),
            bytes: 0,
            staged: Vec::new(),
            answers: Vec::new(),
            marked: Vec::new(),
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
        delivery: Delivery,
        reply: Reply<Vec<Admission>>,
    ) {
        let lsn = self.next();
        let received_at = delivery.received_at;
        let admitted = match door::admit(delivery, lsn, shared.shards, ids) {
            Ok(admitted) => admitted,
            // The seen ids cannot be read: nobody could tell a duplicate any more.
            Err(error) => return answer(reply, Err(shared.fail(&error))),
        };
        let marked = ids.take_marked();
        let Some(record) = admitted.record else {
            // A first in this very group must be durable before its duplicates are answered.
            let durable =
                |admission: &Admission| matches!(admission, Admission::Duplicate(first) if first.lsn < self.first);
            if admitted.admissions.iter().all(durable) {
                return answer(reply, Ok(admitted.admissions));
            }
            return self.answers.push(Answer::Append(admitted.admissions, reply));
        };
        let change = change::of_delivery(lsn, &record);
        match change.and_then(|change| self.push(shared, &Record::Delivery(record), change, None)) {
            Ok(()) => {
                ids.received(received_at);
                self.marked.extend(marked);
                self.answers.push(Answer::Append(admitted.admissions, reply));
            }
            Err(error) => {
                ids.unmark(&marked);
                answer(reply, Err(error));
            }
        }
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
        self.push(shared, &Record::Command(record), change, None)?;
        self.dead.extend(dead);
        Ok(Position { lsn, item: 0 })
    }

    /// Stages a commit.
    pub(super) fn commit(&mut self, shared: &Shared, commit: Commit) -> Result<Lsn, Error> {
        let lsn = self.next();
        let owned_by = commit.entity.shard(shared.shards);
        if commit.epoch != shared.state().window.epoch(owned_by) {
            return Err(Error::Fenced { shard: owned_by });
        }
        let held = shared.held(&commit.entity)?;
        let actual = held.as_ref().map_or(0, |held| held.entity.version);
        if actual != commit.version {
            return Err(Error::Moved { entity: commit.entity, expected: commit.version, actual });
        }
        let mut before: Vec<Before> = Vec::with_capacity(commit.judged.len());
        let mut named = Set::default();
        for judged in &commit.judged {
            let known = shared.before(owned_by, &commit.entity, judged)?.filter(|_| named.insert(judged.position));
            before.push(known.ok_or(Error::NotPending { position: judged.position })?);
        }
        let record = CommitRecord::of(commit);
        let change = change::of_commit(lsn, &record, held.as_deref(), &before)?;
        let entity = record.entity.clone();
        let positions = record.judged.iter().map(|judged| judged.position).collect();
        self.push(shared, &Record::Commit(record), change, Some((owned_by, entity.clone(), positions)))?;
        self.entities.insert(entity);
        Ok(lsn)
    }

    /// The LSN of the next record.
    fn next(&self) -> Lsn {
        Lsn(self.first.0 + u64::try_from(self.frames.len()).unwrap_or(u64::MAX))
    }

    fn push(
        &mut self,
        shared: &Shared,
        record: &Record,
        change: Change,
        judged: Option<(Shard, EntityKey, Vec<Position>)>,
    ) -> Result<(), Error> {
        let frame = record.encode()?;
        let limit = shared.options.journal.frame_bytes_max;
        if frame.len() > limit {
            return Err(Error::TooLarge { bytes: frame.len(), limit });
        }
        let arrivals = arrivals_of(change.lsn, record, shared.shards);
        self.bytes += frame.len();
        self.frames.push(frame);
        self.staged.push(Staged { change, arrivals, judged });
        Ok(())
    }
}

impl Answer {
    /// The group is durable.
    pub(super) fn give(self) {
        match self {
            Self::Append(admissions, reply) => answer(reply, Ok(admissions)),
            Self::Command(position, reply) => answer(reply, Ok(position)),
            Self::Commit(lsn, reply) => answer(reply, Ok(lsn)),
        }
    }

    /// The group is not there.
    pub(super) fn refuse(self, error: &Error) {
        match self {
            Self::Append(_, reply) => answer(reply, Err(error.clone())),
            Self::Command(_, reply) => answer(reply, Err(error.clone())),
            Self::Commit(_, reply) => answer(reply, Err(error.clone())),
        }
    }
}

/// Gives an answer to whoever still waits for it.
pub(super) fn answer<T>(reply: Reply<T>, answer: Result<T, Error>) {
    drop(reply.send(answer));
}
