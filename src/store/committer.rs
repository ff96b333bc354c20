//! The committer: the one thread that writes the journal. It takes what waits, judges each request against what is
//! durable, writes the group, syncs once, makes the group true in memory, and only then answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use super::ids::SeenIds;
use super::journal::Journal;
use super::lock::unpoisoned;
use super::seen::{Work, Worked};
use super::shared::{Ending, Shared};
use super::stage::{Answer, Group, Reply, Staged, answer};
use super::{Command, Commit, Error};
use crate::domain::{Admission, Delivery, Lsn, Position, Shard};

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
    shared: Arc<Shared>,
    journal: Journal,
    ids: SeenIds,
    requests: mpsc::Receiver<Request>,
    /// Requests that must see the group before them as durable.
    held_back: VecDeque<Request>,
    /// Gives file work back.
    back: mpsc::WeakSender<Request>,
    closing: Option<Reply<()>>,
}

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        journal: Journal,
        ids: SeenIds,
        requests: mpsc::Receiver<Request>,
        back: mpsc::WeakSender<Request>,
    ) -> Self {
        Self { shared, journal, ids, requests, held_back: VecDeque::new(), back, closing: None }
    }

    /// Works until the store is closed or dropped.
    pub(super) fn run(mut self) {
        while let Some(request) = self.next() {
            if let Err(error) = self.shared.signals.check() {
                refuse(request, &error);
                continue;
            }
            self.wait_for_room();
            let mut group = Group::behind(self.journal.synced());
            self.stage(request, &mut group);
            while self.has_room(&group) {
                let Ok(request) = self.requests.try_recv() else { break };
                self.stage(request, &mut group);
            }
            self.write(group);
            if let Some(reply) = self.closing.take() {
                return self.close(reply);
            }
        }
        self.shared.state().ending = Ending::Drop;
        self.shared.work.notify_all();
    }

    fn next(&mut self) -> Option<Request> {
        self.held_back.pop_front().or_else(|| self.requests.blocking_recv())
    }

    /// Lets the applier catch up: what is not in the view yet is held in memory, which has a bound.
    fn wait_for_room(&self) {
        let mut state = self.shared.state();
        while state.overlay.bytes() > self.shared.options.overlay_bytes && self.shared.signals.check().is_ok() {
            state = unpoisoned(self.shared.room.wait(state));
        }
    }

    fn has_room(&self, group: &Group) -> bool {
        let bounds = &self.shared.options;
        let small = group.bytes < bounds.group_bytes && group.answers.len() < bounds.waiting;
        small && self.closing.is_none() && self.held_back.is_empty()
    }

    fn stage(&mut self, request: Request, group: &mut Group) {
        match request {
            Request::Append(delivery, reply) => group.append(&self.shared, &mut self.ids, *delivery, reply),
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
                if group.touches(&commit.entity) {
                    return self.held_back.push_back(Request::Commit(commit, reply));
                }
                match group.commit(&self.shared, *commit) {
                    Ok(lsn) => group.answers.push(Answer::Commit(lsn, reply)),
                    Err(error) => answer(reply, Err(error)),
                }
            }
            Request::Worked(worked) => self.ids.worked(*worked),
            Request::Close(reply) => self.closing = Some(reply),
        }
    }

    /// Makes the group durable, then true, then answers.
    fn write(&mut self, group: Group) {
        match self.journal.append(&group.frames) {
            Ok(_) => {
                let last = self.journal.synced();
                let shards = self.shared.publish(group.staged, last);
                self.shared.signals.synced(last);
                self.shared.signals.ring(shards);
                group.answers.into_iter().for_each(Answer::give);
                self.seal_ids();
            }
            Err(error) => {
                self.ids.unmark(&group.marked);
                let harmless = matches!(error, Error::Full | Error::TooLarge { .. } | Error::Io { .. });
                let error = if harmless { error } else { self.shared.fail(&error) };
                group.answers.into_iter().for_each(|answer| answer.refuse(&error));
            }
        }
    }

    /// When the journal begins a new segment, the ids of the old one move to a file of theirs, written elsewhere.
    fn seal_ids(&mut self) {
        self.ids.seal(self.journal.sealed(), self.shared.options.seen_for);
        let Some(back) = self.back.upgrade() else { return };
        let Some(work) = self.ids.work() else { return };
        let (give, taken) = oneshot::channel::<Work>();
        let write = move || {
            if let Ok(work) = taken.blocking_recv() {
                // If nobody takes it back the store has ended, and the next opening does it again.
                drop(back.blocking_send(Request::Worked(Box::new(work.run()))));
            }
        };
        if let Err(error) = thread::Builder::new().name("store-seen-ids".to_owned()).spawn(write) {
            tracing::warn!(%error, "no thread for the file of seen ids; it is written between two groups");
        }
        // Without a thread there is nobody to take it, so it is done here: senders wait a little.
        if let Err(work) = give.send(work) {
            self.ids.worked(work.run());
        }
    }

    fn close(mut self, reply: Reply<()>) {
        self.shared.state().ending = Ending::Drain;
        self.shared.stop("it was closed");
        self.ids.settle();
        answer(reply, self.journal.close());
        self.requests.close();
        let closed = Error::Stopped { reason: "it was closed".to_owned() };
        while let Some(request) = self.held_back.pop_front().or_else(|| self.requests.blocking_recv()) {
            refuse(request, &closed);
        }
    }
}

impl Shared {
    /// Makes durable records true in memory; answers the shards in which an entity got its first pending event.
    fn publish(&self, staged: Vec<Staged>, last: Lsn) -> Vec<Shard> {
        let mut shards = Vec::new();
        let mut state = self.state();
        for Staged { change, arrivals, judged } in staged {
            if let Some((shard, entity, positions)) = judged {
                for position in positions {
                    state.window.remove(shard, &entity, position);
                }
            }
            shards.extend(state.window.extend(change.lsn, &arrivals));
            state.learn(change);
        }
        state.synced = last;
        self.work.notify_all();
        shards
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
