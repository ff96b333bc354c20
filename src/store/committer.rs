//! The committer: the one thread that writes the journal. It takes what waits, judges each request against what is
//! durable, writes the group, syncs once, makes the group true in memory, and only then answers.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::change::{self, Before, Change};
use super::core::{Core, Ending};
use super::door::{self, Ids};
use super::gather::arrivals_of;
use super::journal::Journal;
use super::records::{CommandRecord, CommitRecord, Record, Replay, StoredAction};
use super::seen::{Seen, SeenEntry, SeenKey, Worked};
use super::window::Arrival;
use super::{Action, Command, Commit, Error, keys};
use crate::domain::{
    Admission, Delivery, EntityKey, EventDigest, EventId, Lsn, Position, Shard, SourceName, Timestamp,
};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What is asked of the committer.
pub(super) enum Request {
    /// Record a delivery.
    Append(Box<Delivery>, Reply<Vec<Admission>>),
    /// Record a command.
    Command(Box<Command>, Reply<Position>),
    /// Record a decision.
    Commit(Box<Commit>, Reply<Lsn>),
    /// File work of the seen ids is done.
    Worked(Box<Worked>),
    /// Finish what came before, then end.
    Close(Reply<()>),
}

/// The committer's own state.
pub(super) struct Committer {
    core: Arc<Core>,
    journal: Journal,
    seen: Seen,
    /// The time of the youngest delivery.
    newest: Timestamp,
    requests: mpsc::Receiver<Request>,
    /// Requests that must see the group before them as durable.
    held_back: VecDeque<Request>,
    /// Gives file work back.
    back: mpsc::WeakSender<Request>,
    closing: Option<Reply<()>>,
}

/// Requests that become durable together.
struct Group {
    first: Lsn,
    frames: Vec<Vec<u8>>,
    bytes: usize,
    staged: Vec<Staged>,
    replies: Vec<Answer>,
    marked: Vec<SeenKey>,
    entities: HashSet<EntityKey>,
    dead: HashSet<Position>,
}

/// What one record makes true once it is durable.
struct Staged {
    change: Change,
    arrivals: Vec<Arrival>,
    /// Events that wait no longer for their first decision.
    judged: Option<(Shard, EntityKey, Vec<Position>)>,
    action: Option<StoredAction>,
}

/// An answer that is held until the group is durable.
enum Answer {
    Append(Vec<Admission>, Reply<Vec<Admission>>),
    Command(Position, Reply<Position>),
    Commit(Lsn, Reply<Lsn>),
}

impl Committer {
    pub(super) fn new(
        core: Arc<Core>,
        journal: Journal,
        seen: Seen,
        newest: Timestamp,
        requests: mpsc::Receiver<Request>,
        back: mpsc::WeakSender<Request>,
    ) -> Self {
        Self { core, journal, seen, newest, requests, held_back: VecDeque::new(), back, closing: None }
    }

    /// Works until the store is closed or dropped.
    pub(super) fn run(mut self) {
        while let Some(request) = self.next() {
            if let Err(error) = self.core.signals.check() {
                refuse(request, &error);
                continue;
            }
            self.wait_for_room();
            let mut group = Group::new(self.journal.synced());
            self.stage(request, &mut group);
            while group.has_room(&self.core) && self.closing.is_none() && self.held_back.is_empty() {
                let Ok(request) = self.requests.try_recv() else { break };
                self.stage(request, &mut group);
            }
            self.write(group);
            if let Some(reply) = self.closing.take() {
                return self.close(reply);
            }
        }
        self.core.state().ending = Ending::Drop;
        self.core.work.notify_all();
    }

    fn next(&mut self) -> Option<Request> {
        self.held_back.pop_front().or_else(|| self.requests.blocking_recv())
    }

    /// Lets the applier catch up: what is not in the view yet is held in memory, which has a bound.
    fn wait_for_room(&self) {
        let mut state = self.core.state();
        while state.overlay.bytes() > self.core.options.overlay_bytes && self.core.signals.check().is_ok() {
            state = self.core.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stage(&mut self, request: Request, group: &mut Group) {
        match request {
            Request::Append(delivery, reply) => self.stage_append(*delivery, reply, group),
            Request::Command(command, reply) => {
                if group.touches_dead(&command.action) {
                    return self.held_back.push_back(Request::Command(command, reply));
                }
                match self.stage_command(*command, group) {
                    Ok(position) => group.replies.push(Answer::Command(position, reply)),
                    Err(error) => answer(reply, Err(error)),
                }
            }
            Request::Commit(commit, reply) => {
                if group.entities.contains(&commit.entity) {
                    return self.held_back.push_back(Request::Commit(commit, reply));
                }
                match self.stage_commit(*commit, group) {
                    Ok(lsn) => group.replies.push(Answer::Commit(lsn, reply)),
                    Err(error) => answer(reply, Err(error)),
                }
            }
            Request::Worked(worked) => {
                if let Err(error) = self.seen.worked(*worked) {
                    tracing::warn!(error = %error, "seen ids stay in memory");
                }
            }
            Request::Close(reply) => self.closing = Some(reply),
        }
    }

    fn stage_append(&mut self, delivery: Delivery, reply: Reply<Vec<Admission>>, group: &mut Group) {
        let lsn = group.next();
        let received_at = delivery.received_at;
        let mut ids = Marking { seen: &mut self.seen, marked: Vec::new() };
        let admitted = match door::admit(delivery, lsn, self.core.shards, &mut ids) {
            Ok(admitted) => admitted,
            // The seen ids cannot be read: nobody could tell a duplicate any more.
            Err(error) => return answer(reply, Err(self.core.fail(&error))),
        };
        let marked = ids.marked;
        let Some(record) = admitted.record else {
            // Firsts of this very group must be durable before their duplicates are answered.
            let durable = admitted.admissions.iter().all(|a| matches!(a, Admission::Duplicate(p) if p.lsn < group.first));
            return if durable {
                answer(reply, Ok(admitted.admissions));
            } else {
                group.replies.push(Answer::Append(admitted.admissions, reply));
            };
        };
        let staged = change::of_delivery(lsn, &record);
        let record = Record::Delivery(record);
        let arrivals = arrivals_of(lsn, &record, self.core.shards);
        let staged = staged.map(|change| Staged { change, arrivals, judged: None, action: None });
        match staged.and_then(|staged| group.push(&record, staged, &self.core)) {
            Ok(()) => {
                self.newest = self.newest.max(received_at);
                group.marked.extend(marked);
                group.replies.push(Answer::Append(admitted.admissions, reply));
            }
            Err(error) => {
                marked.iter().for_each(|key| self.seen.remove(key));
                answer(reply, Err(error));
            }
        }
    }

    fn stage_command(&mut self, command: Command, group: &mut Group) -> Result<Position, Error> {
        let lsn = group.next();
        let position = Position { lsn, item: 0 };
        let action = match command.action {
            Action::Replay { dead, event } => {
                let letter = self.core.dead_letter(dead)?.filter(|_| event.entity.is_some());
                let letter = letter.ok_or(Error::NotDead { position: dead })?;
                group.dead.insert(dead);
                StoredAction::Replay(Box::new(Replay {
                    dead,
                    origin: self.core.origin(dead)?,
                    event,
                    received_at: letter.received_at,
                    body_sha256: letter.body_sha256,
                    attempts: letter.attempts,
                }))
            }
            Action::Discard { dead } => {
                self.core.get(&keys::dead(dead))?.ok_or(Error::NotDead { position: dead })?;
                group.dead.insert(dead);
                StoredAction::Discard { dead }
            }
            Action::MachineChanged { machine, version, sha256 } => StoredAction::MachineChanged { machine, version, sha256 },
        };
        let record = CommandRecord { by: command.by, at: command.at, action };
        let change = change::of_command(lsn, &record)?;
        let action = Some(record.action.clone());
        let record = Record::Command(record);
        let arrivals = arrivals_of(lsn, &record, self.core.shards);
        let staged = Staged { change, arrivals, judged: None, action };
        group.push(&record, staged, &self.core)?;
        Ok(position)
    }

    fn stage_commit(&mut self, commit: Commit, group: &mut Group) -> Result<Lsn, Error> {
        let lsn = group.next();
        let shard = commit.entity.shard(self.core.shards);
        if commit.epoch != self.core.state().window.epoch(shard) {
            return Err(Error::Fenced { shard });
        }
        let held = self.core.held(&commit.entity)?;
        let actual = held.as_ref().map_or(0, |held| held.entity.version);
        if actual != commit.version {
            return Err(Error::Moved { entity: commit.entity, expected: commit.version, actual });
        }
        let mut before: Vec<Before> = Vec::with_capacity(commit.judged.len());
        let mut named = HashSet::new();
        for judged in &commit.judged {
            let refused = Error::NotPending { position: judged.position };
            let known = self.core.before(&commit.entity, judged)?.filter(|_| named.insert(judged.position));
            before.push(known.ok_or(refused)?);
        }
        let record = CommitRecord::of(commit);
        let change = change::of_commit(lsn, &record, held.as_deref(), &before)?;
        let positions = record.judged.iter().map(|judged| judged.position).collect();
        let judged = Some((shard, record.entity.clone(), positions));
        let entity = record.entity.clone();
        let staged = Staged { change, arrivals: Vec::new(), judged, action: None };
        group.push(&Record::Commit(record), staged, &self.core)?;
        group.entities.insert(entity);
        Ok(lsn)
    }

    /// Makes the group durable, then true, then answers.
    fn write(&mut self, group: Group) {
        let outcome = if group.frames.is_empty() { Ok(group.first) } else { self.journal.append(&group.frames) };
        match outcome {
            Ok(_) => {
                let last = self.journal.synced();
                let shards = self.core.publish(group.staged, last);
                self.core.journal_bytes.store(self.journal.bytes(), Ordering::Relaxed);
                self.core.signals.synced(last);
                self.core.signals.ring(shards);
                group.replies.into_iter().for_each(Answer::give);
                self.seal_seen();
            }
            Err(error) => {
                group.marked.iter().for_each(|key| self.seen.remove(key));
                let error = match error {
                    Error::Full | Error::TooLarge { .. } => error,
                    Error::Busy
                    | Error::Fenced { .. }
                    | Error::Moved { .. }
                    | Error::NotPending { .. }
                    | Error::NotDead { .. }
                    | Error::Stopped { .. }
                    | Error::Corrupt { .. }
                    | Error::Io { .. }
                    | Error::Locked { .. } => self.core.fail(&error),
                };
                group.replies.into_iter().for_each(|answer| answer.refuse(&error));
            }
        }
    }

    /// When the journal begins a new segment, the ids of the old one move to a file of theirs, written elsewhere.
    fn seal_seen(&mut self) {
        let sealed = self.journal.sealed();
        if sealed > self.seen.sealed() {
            self.seen.seal(sealed, self.newest);
            if let Err(error) = self.seen.expire(self.newest.minus(self.core.options.seen_for)) {
                tracing::warn!(error = %error, "old seen ids were not dropped");
            }
        }
        let Some(back) = self.back.upgrade() else { return };
        if let Some(work) = self.seen.work() {
            thread::spawn(move || drop(back.blocking_send(Request::Worked(Box::new(work.run())))));
        }
    }

    fn close(mut self, reply: Reply<()>) {
        self.core.state().ending = Ending::Drain;
        self.core.work.notify_all();
        self.core.signals.stop("it was closed");
        let settled = self.seen.settle();
        let closed = self.journal.close();
        answer(reply, settled.and(closed));
        self.requests.close();
        let stopped = Error::Stopped { reason: "it was closed".to_owned() };
        while let Some(request) = self.held_back.pop_front().or_else(|| self.requests.blocking_recv()) {
            refuse(request, &stopped);
        }
    }
}

impl Group {
    fn new(synced: Lsn) -> Self {
        Self {
            first: Lsn(synced.0 + 1),
            frames: Vec::new(),
            bytes: 0,
            staged: Vec::new(),
            replies: Vec::new(),
            marked: Vec::new(),
            entities: HashSet::new(),
            dead: HashSet::new(),
        }
    }

    /// The LSN of the next record.
    fn next(&self) -> Lsn {
        Lsn(self.first.0 + u64::try_from(self.frames.len()).unwrap_or(u64::MAX))
    }

    fn has_room(&self, core: &Core) -> bool {
        self.bytes < core.options.group_bytes && self.replies.len() < core.options.waiting
    }

    fn touches_dead(&self, action: &Action) -> bool {
        match action {
            Action::Replay { dead, .. } | Action::Discard { dead } => self.dead.contains(dead),
            Action::MachineChanged { .. } => false,
        }
    }

    fn push(&mut self, record: &Record, staged: Staged, core: &Core) -> Result<(), Error> {
        let frame = record.encode()?;
        let limit = core.options.journal.frame_bytes_max;
        if frame.len() > limit {
            return Err(Error::TooLarge { bytes: frame.len(), limit });
        }
        self.bytes += frame.len();
        self.frames.push(frame);
        self.staged.push(staged);
        Ok(())
    }
}

impl Core {
    /// Makes durable records true in memory; answers the shards in which an entity got its first pending event.
    fn publish(&self, staged: Vec<Staged>, last: Lsn) -> Vec<Shard> {
        let mut shards = Vec::new();
        let mut state = self.state();
        for Staged { change, arrivals, judged, action } in staged {
            for (shard, entity, positions) in judged {
                positions.iter().for_each(|position| state.window.remove(shard, &entity, *position));
            }
            shards.extend(state.window.extend(change.lsn, &arrivals));
            if let Some(held) = &change.held {
                state.entities.insert(held.entity.key.clone(), Some(Arc::clone(held)));
            }
            if let Some(StoredAction::MachineChanged { machine, version, sha256 }) = action {
                state.machines.insert(machine, (version, sha256));
            }
            state.counts += change.counts;
            state.overlay.add(change);
        }
        state.synced = last;
        self.work.notify_all();
        shards
    }
}

impl Answer {
    fn give(self) {
        match self {
            Self::Append(admissions, reply) => answer(reply, Ok(admissions)),
            Self::Command(position, reply) => answer(reply, Ok(position)),
            Self::Commit(lsn, reply) => answer(reply, Ok(lsn)),
        }
    }

    fn refuse(self, error: &Error) {
        match self {
            Self::Append(_, reply) => answer(reply, Err(error.clone())),
            Self::Command(_, reply) => answer(reply, Err(error.clone())),
            Self::Commit(_, reply) => answer(reply, Err(error.clone())),
        }
    }
}

/// The seen ids, and which of them this delivery marked.
struct Marking<'a> {
    seen: &'a mut Seen,
    marked: Vec<SeenKey>,
}

impl Ids for Marking<'_> {
    fn seen(
        &mut self,
        source: &SourceName,
        id: &EventId,
        digest: &EventDigest,
    ) -> Result<Option<(Position, bool)>, Error> {
        let known = self.seen.get(&SeenKey::of(source, id))?;
        Ok(known.map(|entry| (entry.position, entry.digest == short(digest))))
    }

    fn mark(&mut self, source: &SourceName, id: &EventId, digest: &EventDigest, position: Position) {
        let key = SeenKey::of(source, id);
        self.seen.insert(key, SeenEntry { position, digest: short(digest) });
        self.marked.push(key);
    }
}

/// The part of a digest that the seen ids keep.
pub(super) fn short(digest: &EventDigest) -> [u8; 16] {
    digest.first_chunk().copied().unwrap_or_default()
}

fn refuse(request: Request, error: &Error) {
    match request {
        Request::Append(_, reply) => answer(reply, Err(error.clone())),
        Request::Command(_, reply) => answer(reply, Err(error.clone())),
        Request::Commit(_, reply) => answer(reply, Err(error.clone())),
        Request::Close(reply) => answer(reply, Err(error.clone())),
        Request::Worked(_) => {}
    }
}

/// Gives an answer to whoever still waits for it.
fn answer<T>(reply: Reply<T>, answer: Result<T, Error>) {
    drop(reply.send(answer));
}
