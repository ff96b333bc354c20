//! What the threads of the embedded store share: the state in memory, the journal's reader, the view, and how a
//! question is answered from the three.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock};

use serde::de::DeserializeOwned;

use super::change::{self, Before, Change, Counts, Held, Stored, Value, Waiting};
use super::journal::Reader;
use super::keys::{self, Key};
use super::layout::Layout;
use super::lock::unpoisoned;
use super::overlay::Overlay;
use super::recent::Recent;
use super::records::Record;
use super::signals::Signals;
use super::view::View;
use super::window::Window;
use super::{Error, Options};
use crate::domain::{Attempt, Disposition, EntityKey, Judged, Lsn, MachineName, Pending, Position, Shard};

/// What it takes to know that an entity is unknown, about.
const UNKNOWN_BYTES: usize = 128;

/// Which part of the overlay's room makes its changes go to the view without waiting for more.
const RIPE_PART: usize = 2;

/// What the threads share.
pub(super) struct Shared {
    pub(super) shards: u16,
    pub(super) layout: Layout,
    pub(super) options: Options,
    pub(super) signals: Signals,
    pub(super) state: Mutex<State>,
    /// Rings when the applier has work.
    pub(super) work: Condvar,
    /// Rings when the overlay got smaller.
    pub(super) room: Condvar,
    pub(super) reader: Reader,
    /// Whether the pending window took nothing a moment ago.
    pub(super) behind: AtomicBool,
    /// None once the store is closed.
    pub(super) view: RwLock<Option<View>>,
}

/// What is known in memory, all of it durable.
pub(super) struct State {
    pub(super) window: Window,
    pub(super) overlay: Overlay,
    /// Entities used lately; none for one that is unknown.
    pub(super) entities: Recent<EntityKey, Option<Arc<Held>>>,
    pub(super) machines: BTreeMap<MachineName, (u32, [u8; 32])>,
    pub(super) counts: Counts,
    pub(super) synced: Lsn,
    pub(super) applied: Lsn,
    pub(super) ending: Ending,
}

/// Memory can't tell: the view has to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unread;

/// A key of the view with its value.
pub(super) type Pair = (Key, Arc<[u8]>);

/// Whether the applier goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// It goes on.
    Open,
    /// It brings the view up to date, then ends.
    Drain,
    /// It ends at once.
    Drop,
}

impl State {
    /// Takes what a durable record changes.
    pub(super) fn learn(&mut self, mut change: Change) {
        if let Some(held) = change.held.take() {
            let weight = held.weight();
            self.entities.insert(held.entity.key.clone(), Some(held), weight);
        }
        if let Some((machine, form)) = change.machine.take() {
            self.machines.insert(machine, form);
        }
        self.counts += change.counts;
        self.overlay.add(change);
    }
}

impl Shared {
    /// Whether so much waits for the view that it need not wait for more.
    pub(super) fn is_much(&self, state: &State) -> bool {
        state.overlay.waiting_bytes() >= self.options.overlay_bytes / RIPE_PART
    }

    /// Whether the pending window takes nothing now, as it was a moment ago.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// Tells those who bring deliveries whether the pending window takes them.
    pub(super) fn note_behind(&self, state: &State) {
        self.behind.store(state.window.behind().is_some(), Ordering::Relaxed);
    }

    /// The state, locked.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        unpoisoned(self.state.lock())
    }

    /// Stops the store, wakes everybody, and answers the error.
    pub(super) fn fail(&self, error: &Error) -> Error {
        tracing::error!(error = %error, "the store stops");
        self.stop(&error.to_string());
        error.clone()
    }

    /// Stops the store and wakes everybody.
    pub(super) fn stop(&self, reason: &str) {
        self.signals.stop(reason);
        // Under the lock, so that nobody stands between looking and waiting.
        let state = self.state();
        self.work.notify_all();
        self.room.notify_all();
        drop(state);
    }

    /// Asks the view. An error of it stops the store: from then on it cannot be trusted.
    pub(super) fn with_view<T>(&self, ask: impl FnOnce(&View) -> Result<T, Error>) -> Result<T, Error> {
        let view = unpoisoned(self.view.read());
        let closed = || Error::Stopped { reason: "it was closed".to_owned() };
        let answer = ask(view.as_ref().ok_or_else(closed)?);
        answer.map_err(|error| self.condemn(error))
    }

    /// Reads a value. One that cannot be read condemns the view as an error of it does, or it would be met again and
    /// again, in the worst case at each opening.
    pub(super) fn decode<T: DeserializeOwned>(&self, key: &[u8], value: &[u8]) -> Result<T, Error> {
        change::decode(key, value).map_err(|error| self.condemn(error))
    }

    /// The value of a key as of the last durable record.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Arc<[u8]>>, Error> {
        let newer = self.state().overlay.get(key);
        match newer {
            Some(value) => value.map(|value| value.bytes()).transpose(),
            None => Ok(self.with_view(|view| view.get(key))?.map(Arc::from)),
        }
    }

    /// The first `limit` pairs of a range.
    pub(super) fn range(&self, range: &Range<Key>, limit: usize) -> Result<Vec<Pair>, Error> {
        let mut found = Vec::new();
        let mut rest = range.clone();
        while found.len() < limit && rest.start < rest.end {
            let want = limit - found.len();
            // One look at each; a side that was cut says nothing about what lies behind its last key.
            let newer = self.state().overlay.range(&rest, want);
            let older = self.with_view(|view| view.range(&rest, want))?;
            let cut = |last: Option<&Key>, len: usize| last.filter(|_| len == want).cloned();
            let ends = [cut(newer.last().map(|(k, _)| k), newer.len()), cut(older.last().map(|(k, _)| k), older.len())];
            let end = ends.into_iter().flatten().min();
            let mut merged: BTreeMap<Key, Value> =
                older.into_iter().map(|(key, value)| (key, Some(Stored::Bytes(value.into())))).collect();
            merged.extend(newer);
            let known = merged.into_iter().filter(|(key, _)| end.as_ref().is_none_or(|end| key <= end));
            let pairs = known.filter_map(|(key, value)| Some((key, value?))).take(want);
            for (key, value) in pairs {
                found.push((key, value.bytes()?));
            }
            match end {
                Some(mut last) => {
                    last.push(0);
                    rest.start = last;
                }
                None => break,
            }
        }
        Ok(found)
    }

    /// The entity, if memory can tell.
    pub(super) fn held_at_hand(&self, entity: &EntityKey) -> Result<Option<Arc<Held>>, Unread> {
        self.state().entities.get(entity).ok_or(Unread)
    }

    /// The entity as of the last durable commit.
    pub(super) fn held(&self, entity: &EntityKey) -> Result<Option<Arc<Held>>, Error> {
        if let Ok(held) = self.held_at_hand(entity) {
            return Ok(held);
        }
        let key = keys::entity(entity);
        let (newer, applied) = {
            let state = self.state();
            (state.overlay.get(&key), state.applied)
        };
        let decoded = |bytes: &[u8]| self.decode(&key, bytes).map(Arc::new);
        let held: Option<Arc<Held>> = match newer {
            Some(Some(Stored::Held(held))) => Some(held),
            Some(Some(Stored::Bytes(bytes))) => Some(decoded(&bytes)?),
            Some(None) => None,
            None => self.with_view(|view| view.get(&key))?.map(|bytes| decoded(&bytes)).transpose()?,
        };
        let weight = held.as_ref().map_or(UNKNOWN_BYTES, |held| held.weight());
        let mut state = self.state();
        // What was read is still the newest only if nothing was applied meanwhile and nothing newer waits.
        if state.applied == applied && state.overlay.get(&key).is_none() && state.entities.get(entity).is_none() {
            state.entities.insert(entity.clone(), held.clone(), weight);
        }
        Ok(held)
    }

    /// How an event of an entity stands; none if it does not wait for a decision.
    pub(super) fn before(&self, shard: Shard, entity: &EntityKey, judged: &Judged) -> Result<Option<Before>, Error> {
        let replay = self.state().window.slot(shard, entity, judged.position).map(|slot| slot.replay);
        match replay {
            Some(true) => Ok(Some(Before::Fresh { attempts: self.attempts_of(judged)? })),
            Some(_) => Ok(Some(Before::Fresh { attempts: Vec::new() })),
            None => Ok(self.waiting(entity, judged.position)?.map(Before::Waiting)),
        }
    }

    /// The tries of a fresh event before this judgement: a replay has some. Not read where nobody needs them.
    pub(super) fn attempts_of(&self, judged: &Judged) -> Result<Vec<Attempt>, Error> {
        match judged.disposition {
            Disposition::Done => Ok(Vec::new()),
            Disposition::Retry { .. } | Disposition::Wait { .. } | Disposition::Dead { .. } => {
                Ok(self.event(judged.position)?.attempts)
            }
        }
    }

    /// The event that waits for a retry at a position.
    pub(super) fn waiting(&self, entity: &EntityKey, position: Position) -> Result<Option<Waiting>, Error> {
        if self.state().counts.retries == 0 {
            return Ok(None);
        }
        let key = keys::retry(entity, position);
        self.get(&key)?.map(|value| self.decode(&key, &value)).transpose()
    }

    /// The record at an LSN; none beyond the end.
    pub(super) fn record(&self, lsn: Lsn) -> Result<Option<Record>, Error> {
        self.reader.read(lsn)?.map(|bytes| Record::decode(lsn, bytes)).transpose()
    }

    /// The event at a position, from the journal.
    pub(super) fn event(&self, position: Position) -> Result<Pending, Error> {
        let pending = self.record(position.lsn)?.and_then(|record| record.pending(position));
        pending.ok_or_else(|| super::records::corrupt(position.lsn, format!("no event stands at {position}")))
    }

    /// Stops the store for an error of the view, and leaves a note that it must be built anew. After want of space it is
    /// good, but sled answers nothing any more: the store has to be opened again.
    fn condemn(&self, error: Error) -> Error {
        if matches!(error, Error::Corrupt { .. } | Error::Io { .. }) {
            self.layout.condemn_view(&error.to_string());
        }
        if matches!(error, Error::Corrupt { .. } | Error::Io { .. } | Error::Full) {
            return self.fail(&error);
        }
        error
    }
}
