//! Reading the journal on: what the view, the seen ids and the pending window lack is taken from it in one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, RwLock};

use super::applier::{Applier, Earlier};
use super::change::{self, Before, Change};
use super::gather::{Gatherer, gather};
use super::ids::SeenIds;
use super::journal::{Reader, SegmentMeta};
use super::keys::{self, Table};
use super::layout::Layout;
use super::overlay::Overlay;
use super::recent::Recent;
use super::records::{Kind, Record};
use super::shared::{Ending, Shared, State};
use super::signals::Signals;
use super::view::{Meta, View};
use super::window::{Bounds, Window};
use super::{Error, Options};
use crate::domain::Lsn;

/// How many events are looked at, at least, each time that the journal is read to fill the window.
const FILL_EVENTS: usize = 10_000;

/// The journal is read into these.
pub(super) struct Replay {
    pub(super) shared: Arc<Shared>,
    pub(super) applier: Applier,
    /// The last record there is.
    last: Lsn,
}

impl Replay {
    /// Begins with what the view has.
    pub(super) fn new(
        layout: &Layout,
        options: &Options,
        shards: u16,
        reader: Reader,
        view: View,
    ) -> Result<Self, Error> {
        let (meta, last) = (view.meta(), reader.synced());
        let shared = Arc::new(shared(layout, options, shards, reader, view)?);
        let applier = Applier::new(Arc::clone(&shared), meta, Earlier { last, judged: Lsn(0) });
        Ok(Self { shared, applier, last })
    }

    /// Reads from the oldest record that anything lacks to the end. The seen ids lack those from `ids_from` on.
    pub(super) fn read(&mut self, mut ids: Option<&mut SeenIds>, ids_from: Lsn) -> Result<(), Error> {
        let Meta { applied, scan_from, .. } = self.applier.meta();
        let shared = Arc::clone(&self.shared);
        let mut gatherer = Gatherer::new(shared.shards, bounds(&shared.options), scan_from);
        let sealed: BTreeSet<Lsn> =
            shared.reader.segments().iter().filter(|s| s.sealed).map(|s: &SegmentMeta| s.last).collect();
        for frame in shared.reader.scan(ids_from.min(scan_from).min(Lsn(applied.0 + 1))) {
            let (lsn, bytes) = frame?;
            let judges_only = lsn <= applied && lsn < ids_from && gatherer.is_full();
            if judges_only && Kind::of(lsn, &bytes)? != Kind::Commit {
                continue;
            }
            let record = Record::decode(lsn, bytes)?;
            if let Record::Commit(commit) = &record {
                commit.judged.iter().for_each(|judged| self.applier.learn_judged(judged.position.lsn));
            }
            if let Some(ids) = ids.as_deref_mut() {
                if let Record::Delivery(delivery) = &record {
                    ids.replay(lsn, delivery);
                }
                if sealed.contains(&lsn) {
                    ids.seal(lsn, shared.options.seen_for);
                    ids.settle();
                }
            }
            if lsn > applied {
                self.imply(lsn, &record)?;
            }
            if lsn >= scan_from {
                gatherer.take(lsn, &record);
            }
        }
        self.fill_window(gatherer)
    }

    /// Takes what a record changes in the view, and writes the view where memory has a bound.
    fn imply(&mut self, lsn: Lsn, record: &Record) -> Result<(), Error> {
        let change = self.shared.change(lsn, record)?;
        let full = {
            let mut state = self.shared.state();
            state.learn(change);
            state.overlay.bytes() > self.shared.options.overlay_bytes
        };
        if full { self.applier.catch_up() } else { Ok(()) }
    }

    /// The window holds what was gathered; if that was cut by its bound, the rest is read as it drains.
    fn fill_window(&self, gatherer: Gatherer) -> Result<(), Error> {
        let mut found = gatherer.finish();
        let mut state = self.shared.state();
        state.window.refill(found.arrivals, found.cursor, self.last);
        // What was judged in an earlier run left room: read on until it is full or nothing is left. Each time the rest of
        // the journal is read, so much is taken at once, also where most of it turns out to be judged.
        while state.window.wanted() > 0 {
            let wanted = state.window.wanted();
            let bounds = Bounds { events: wanted.max(FILL_EVENTS), ..bounds(&self.shared.options) };
            let gatherer = Gatherer::new(self.shared.shards, bounds, found.cursor);
            let judged_upto = self.applier.earlier().judged_upto(found.cursor);
            let scan = self.shared.reader.scan(found.cursor);
            found = gather(scan, gatherer, usize::MAX, self.last, judged_upto)?.cut(wanted);
            state.window.refill(found.arrivals, found.cursor, self.last);
        }
        Ok(())
    }
}

/// The bounds of the window.
fn bounds(options: &Options) -> Bounds {
    Bounds { events: options.window_events.max(1), decoded_bytes: options.window_decoded_bytes }
}

/// The shared parts, with everything in memory as the view has it.
fn shared(layout: &Layout, options: &Options, shards: u16, reader: Reader, view: View) -> Result<Shared, Error> {
    let (meta, synced, proved) = (view.meta(), reader.synced(), view.is_proved());
    let state = State {
        window: Window::new(shards, bounds(options), meta.scan_from),
        overlay: Overlay::default(),
        entities: Recent::new(options.entities_bytes),
        machines: BTreeMap::new(),
        counts: meta.counts,
        synced,
        applied: meta.applied,
        ending: Ending::Open,
    };
    let shared = Shared {
        shards,
        layout: layout.clone(),
        options: options.clone(),
        signals: Signals::new(synced, proved),
        state: Mutex::new(state),
        work: Condvar::new(),
        room: Condvar::new(),
        reader,
        behind: AtomicBool::new(false),
        view: RwLock::new(Some(view)),
    };
    for (key, value) in shared.range(&Table::Machine.all(), usize::MAX)? {
        let form = shared.decode(&key, &value)?;
        shared.state().machines.insert(keys::read_machine(&key)?, form);
    }
    Ok(shared)
}

impl Shared {
    /// What a durable record changes in the view.
    fn change(&self, lsn: Lsn, record: &Record) -> Result<Change, Error> {
        match record {
            Record::Delivery(delivery) => change::of_delivery(lsn, delivery),
            Record::Command(command) => change::of_command(lsn, command),
            Record::Commit(commit) => {
                let held = self.held(&commit.entity)?;
                let before = commit.judged.iter().map(|judged| {
                    Ok(match self.waiting(&commit.entity, judged.position)? {
                        Some(waiting) => Before::Waiting(waiting),
                        None => Before::Fresh { attempts: self.attempts_of(judged)? },
                    })
                });
                let before: Vec<Before> = before.collect::<Result<_, Error>>()?;
                change::of_commit(lsn, commit, held.as_deref(), &before)
            }
        }
    }
}
