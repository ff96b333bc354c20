//! The committer: the one writer of the journal. It takes what waits, judges each request against what is durable,
//! writes the group, syncs once, makes the group true in memory, and only then answers.
//!
//! [`Committer::step`] is all of that; [`run`] is the thread that does it again and again.

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::ids::SeenIds;
use super::journal::Journal;
use super::lock::unpoisoned;
use super::map::Set;
use super::prepared::{PreparedCommit, PreparedDelivery};
use super::seen::{Work, Worked};
use super::shared::{Ending, Shared, State};
use super::stage::{Answer, Group, Reply, Staged, answer};
use super::{Command, Committed, Error};
use crate::domain::{Admission, Lsn, Position};

/// What is asked of the committer.
pub(super) enum Request {
    /// Record a delivery.
    Append(Box<PreparedDelivery>, Reply<(Vec<Admission>, Box<PreparedDelivery>)>),
    /// Record a command.
    Command(Box<Command>, Reply<Position>),
    /// Record a decision.
    Commit(Box<PreparedCommit>, Reply<(Committed, Box<PreparedCommit>)>),
    /// File work of the seen ids is done.
    Worked(Box<Worked>),
    /// Finish what came before, then end.
    Close(Reply<()>),
}

/// The committer's own state.
pub(super) struct Committer {
    shared: Arc<Shared>,
    journal: Journal,
    ids: SeenIds,
    /// Requests that must see the group before them as durable.
    held_back: VecDeque<Request>,
    elsewhere: Elsewhere,
    closing: Option<Reply<()>>,
    /// How many requests the last group had.
    group_len: usize,
}

/// Has file work done by somebody who gives it back as a [`Request::Worked`]; answers what nobody takes.
pub(super) type Elsewhere = Box<dyn FnMut(Work) -> Option<Work> + Send>;

/// From how many requests in a group on the next one begins so much later than it did. Each group costs a sync and wakes
/// those who wait for it, so that many small ones take the processors from those who bring the next.
const GROUPS_APART: [(usize, Duration); 2] = [(32, Duration::from_millis(2)), (4, Duration::from_millis(1))];

/// Works until the store is closed or dropped.
pub(super) fn run(mut committer: Committer, mut requests: mpsc::Receiver<Request>) {
    let mut next = Instant::now();
    while let Some(request) = committer.held_back().or_else(|| requests.blocking_recv()) {
        committer.wait_for_room();
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        let ended = committer.step(request, &mut requests);
        next = began + apart(committer.group_len);
        if let Some(reply) = ended {
            let held_back = committer.close(reply);
            requests.close();
            let closed = Error::Stopped { reason: "it was closed".to_owned() };
            let rest = held_back.into_iter().chain(iter::from_fn(|| requests.blocking_recv()));
            return rest.for_each(|request| refuse(request, &closed));
        }
    }
    committer.abandon();
}

/// How long after a group of so many requests began the next one does, at the earliest.
fn apart(requests: usize) -> Duration {
    GROUPS_APART.into_iter().find(|(many, _)| requests >= *many).map_or(Duration::ZERO, |(_, apart)| apart)
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, journal: Journal, ids: SeenIds, elsewhere: Elsewhere) -> Self {
        Self { shared, journal, ids, held_back: VecDeque::new(), elsewhere, closing: None, group_len: 0 }
    }

    /// Makes one group of a request and those that wait, if they fit. Answers whom to tell that the store is closed, if
    /// that was asked for.
    pub(super) fn step(&mut self, request: Request, requests: &mut mpsc::Receiver<Request>) -> Option<Reply<()>> {
        if let Err(error) = self.shared.signals.check() {
            refuse(request, &error);
            return None;
        }
        let mut group = Group::behind(self.journal.synced(), self.group_len);
        self.stage(request, &mut group);
        while self.has_room(&group) {
            let Ok(request) = requests.try_recv() else { break };
            self.stage(request, &mut group);
        }
        self.group_len = group.answers.len();
        self.write(group);
        self.closing.take()
    }

    /// What comes before anything that waits: it was held back.
    pub(super) fn held_back(&mut self) -> Option<Request> {
        self.held_back.pop_front()
    }

    /// Nobody is there any more who could ask.
    pub(super) fn abandon(self) {
        self.shared.state().ending = Ending::Drop;
        self.shared.work.notify_all();
    }

    /// Ends well. Answers what was held back and is to be refused.
    pub(super) fn close(mut self, reply: Reply<()>) -> VecDeque<Request> {
        self.shared.state().ending = Ending::Drain;
        self.shared.stop("it was closed");
        self.ids.settle();
        answer(reply, self.journal.close());
        self.held_back
    }

    /// Whether the applier has to catch up first: what is not in the view yet is held in memory, which has a bound.
    pub(super) fn lacks_room(&self, state: &State) -> bool {
        state.overlay.bytes() > self.shared.options.overlay_bytes && self.shared.signals.check().is_ok()
    }

    fn wait_for_room(&self) {
        let state = self.shared.state();
        drop(unpoisoned(self.shared.room.wait_while(state, |state| self.lacks_room(state))));
    }

    fn has_room(&self, group: &Group) -> bool {
        let bounds = &self.shared.options;
        let small = group.bytes < bounds.group_bytes && group.answers.len() < bounds.waiting;
        small && self.closing.is_none() && self.held_back.is_empty()
    }

    fn stage(&mut self, request: Request, group: &mut Group) {
        match request {
            Request::Append(delivery, reply) => group.append(&self.shared, &mut self.ids, delivery, reply),
            Request::Command(command, reply) => {
                if group.touches_dead(&command.action) {
                    return self.held_back.push_back(Request::Command(command, reply));
                }
                match group.command(&self.shared, *command) {
                    Ok(position) => group.answers.push(Answer::Command(position, reply)),
                    Err(error) => answer(reply, Err(error)),
                }
            }
            Request::Commit(commit, reply) => {
                if group.touches(&commit.record.entity) {
                    return self.held_back.push_back(Request::Commit(commit, reply));
                }
                group.commit(&self.shared, commit, reply);
            }
            Request::Worked(worked) => self.ids.worked(*worked),
            Request::Close(reply) => self.closing = Some(reply),
        }
    }

    /// Makes the group durable, then true, then answers.
    fn write(&mut self, mut group: Group) {
        match self.journal.append(&group.frames) {
            Ok(_) => {
                let last = self.journal.synced();
                let published = self.shared.publish(std::mem::take(&mut group.staged), last);
                self.shared.signals.synced(last);
                if published.fresh {
                    self.shared.signals.ring();
                }
                group.give(&published.more);
                self.ids.keep();
                self.seal_ids();
            }
            Err(error) => {
                self.ids.unmark(0);
                let harmless = matches!(error, Error::Full | Error::TooLarge { .. } | Error::Io { .. });
                let error = if harmless { error } else { self.shared.fail(&error) };
                group.answers.into_iter().for_each(|answer| answer.refuse(&error));
            }
        }
    }

    /// When the journal begins a new segment, the ids of the old one move to a file of theirs, written elsewhere.
    fn seal_ids(&mut self) {
        self.ids.seal(self.journal.sealed(), self.shared.options.seen_for);
        let Some(work) = self.ids.work() else { return };
        if let Some(work) = (self.elsewhere)(work) {
            self.ids.worked(work.run());
        }
    }
}

/// What a group made true.
struct Published {
    /// Whether an entity got its first pending event.
    fresh: bool,
    /// The commits whose entities have more pending events.
    more: Set<Lsn>,
}

impl Shared {
    /// Makes durable records true in memory.
    fn publish(&self, staged: Vec<Staged>, last: Lsn) -> Published {
        let mut published = Published { fresh: false, more: Set::default() };
        let mut state = self.state();
        let rests = state.overlay.is_empty();
        for Staged { change, arrivals, judged } in staged {
            if let Some((shard, entity, positions)) = judged {
                for position in positions {
                    state.window.remove(shard, &entity, position);
                }
                // From here on, whatever comes to an empty queue is announced.
                if state.window.waits(shard, &entity) {
                    published.more.insert(change.lsn);
                }
            }
            published.fresh |= state.window.extend(change.lsn, arrivals);
            state.learn(change);
        }
        self.note_behind(&state);
        state.synced = last;
        // The applier rests, or waits until there is much: what lies between would wake it for nothing.
        if rests || self.is_much(&state) || state.window.wanted() > 0 {
            self.work.notify_all();
        }
        published
    }
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
