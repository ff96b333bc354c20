//! Opening an embedded store: the journal says what is true, and the seen ids, the view and the pending window are
//! brought to where it ends, in one reading from the oldest record that any of them lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, RwLock};

use super::applier::Applier;
use super::change::{self, Before, Change};
use super::core::{Core, Ending, State};
use super::disk::Disk;
use super::gather::{Gatherer, gather};
use super::ids::SeenIds;
use super::journal::{Journal, Recovery};
use super::keys::{self, Table};
use super::layout::{Fixed, Layout};
use super::overlay::Overlay;
use super::recent::Recent;
use super::records::{Kind, Record};
use super::seen::Seen;
use super::signals::Signals;
use super::view::{Meta, View};
use super::window::{Bounds, Window};
use super::{Error, Options};
use crate::domain::Lsn;

/// Shards of a new store, unless another count is asked for.
const SHARDS: u16 = 64;

/// A view of up to so many pairs is proved whole before the store opens; a larger one while it runs.
const WALK_AT_ONCE_PAIRS: u64 = 200_000;

/// How often progress is told, in records.
const PROGRESS_EVERY: u64 = 1000;

/// A store that is open, before its threads are started.
pub(super) struct Opened {
    pub(super) core: Arc<Core>,
    pub(super) journal: Journal,
    pub(super) ids: SeenIds,
    pub(super) applier: Applier,
}

/// Where the bytes of the journal and of the seen ids lie: folders, except in tests.
#[derive(Clone)]
pub(super) struct Disks {
    pub(super) journal: Arc<dyn Disk>,
    pub(super) seen: Arc<dyn Disk>,
}

/// Opens, or creates, what lies in a locked directory.
pub(super) fn open(layout: &Layout, disks: &Disks, options: &Options) -> Result<Opened, Error> {
    let fixed = layout.read_settings()?;
    let view = existing_view(layout, fixed.as_ref(), options);
    let vouched = view.as_ref().map_or(Lsn(0), |view| view.meta().applied);
    let (journal, recovery) = Journal::open_on(Arc::clone(&disks.journal), options.journal, vouched)?;
    if let Some(cut) = &recovery.cut {
        tracing::warn!(lsn = cut.lsn.0, bytes = cut.bytes, why = %cut.why, "torn end of the journal cut off");
    }
    let shards = settle_fixed(layout, fixed, &recovery, options)?;
    let view = match view.filter(|view| belongs(view, &recovery)) {
        Some(view) => view,
        None => fresh_view(layout, &recovery, options)?,
    };
    let disk = Arc::clone(&disks.seen);
    let (seen, found) = Seen::open_on(disk, recovery.store_id, recovery.last, options.seen_for)?;
    for why in found.garbled {
        tracing::warn!(why, "a file of seen ids was set aside");
    }
    let mut ids = SeenIds::new(seen, journal.reader());
    ids.heal()?;
    let core = Arc::new(core(layout, options, shards, &journal, view)?);
    let applier = Applier::new(Arc::clone(&core), core.with_view(|view| Ok(view.meta()))?, recovery.last);
    let mut opened = Opened { core, journal, ids, applier };
    opened.read_on(found.replay_from, recovery.last)?;
    Ok(opened)
}

/// The view that is there, if it can be used.
fn existing_view(layout: &Layout, fixed: Option<&Fixed>, options: &Options) -> Option<View> {
    let unusable = |why: &str| tracing::warn!(why, "the view cannot be used and is built anew");
    if !layout.view().exists() {
        return None;
    }
    if let Some(why) = layout.condemned() {
        unusable(&why);
        return None;
    }
    let open = || {
        let view = View::open(&layout.view(), options.view_cache_bytes, Meta::default())?;
        while view.meta().pairs <= WALK_AT_ONCE_PAIRS && !view.walk(1000)? {}
        Ok::<View, Error>(view)
    };
    match open() {
        Err(error) => {
            unusable(&error.to_string());
            None
        }
        Ok(view) if !view.meta().complete => {
            unusable("it was not built to the end");
            view.close();
            None
        }
        Ok(view) if fixed.is_none_or(|fixed| fixed.store_id != hex::encode(view.meta().store_id)) => {
            unusable("it is of another store");
            view.close();
            None
        }
        Ok(view) => Some(view),
    }
}

/// Whether the view shows what this journal says, or a beginning of it.
fn belongs(view: &View, recovery: &Recovery) -> bool {
    let meta = view.meta();
    let belongs = meta.store_id == recovery.store_id.0 && meta.applied <= recovery.last;
    if !belongs {
        tracing::warn!(applied = meta.applied.0, last = recovery.last.0, "the view is of another journal");
    }
    belongs
}

/// A new view, in place of whatever lies there.
fn fresh_view(layout: &Layout, recovery: &Recovery, options: &Options) -> Result<View, Error> {
    layout.set_view_aside()?;
    let meta = Meta { store_id: recovery.store_id.0, scan_from: Lsn(1), ..Meta::default() };
    let view = View::open(&layout.view(), options.view_cache_bytes, meta)?;
    layout.acquit_view()?;
    Ok(view)
}

/// Compares what is fixed with what is asked, or fixes it in a new store. Answers the count of shards.
fn settle_fixed(layout: &Layout, fixed: Option<Fixed>, recovery: &Recovery, options: &Options) -> Result<u16, Error> {
    let corrupt = |detail: String| Error::Corrupt { place: layout.settings().display().to_string(), detail };
    let Some(fixed) = fixed else {
        if recovery.last > Lsn(0) {
            let detail = format!("the file is missing, but the journal has {} records; restore it", recovery.last.0);
            return Err(corrupt(detail));
        }
        let shards = options.shards.unwrap_or(SHARDS).max(1);
        layout.write_settings(&Fixed::new(recovery.store_id.0, shards))?;
        return Ok(shards);
    };
    if fixed.store_id != recovery.store_id.to_string() {
        let detail = format!("it is of store {}, the journal is of store {}", fixed.store_id, recovery.store_id);
        return Err(corrupt(detail));
    }
    match options.shards {
        Some(asked) if asked != fixed.shards => Err(Error::OtherShards { stored: fixed.shards, asked }),
        Some(_) | None => Ok(fixed.shards),
    }
}

/// The shared parts, with everything in memory as the view has it.
fn core(layout: &Layout, options: &Options, shards: u16, journal: &Journal, view: View) -> Result<Core, Error> {
    let meta = view.meta();
    let bounds = Bounds { events: options.window_events, decoded: options.window_decoded };
    let state = State {
        window: Window::new(shards, bounds, meta.scan_from),
        overlay: Overlay::default(),
        entities: Recent::new(options.entities_at_hand),
        machines: BTreeMap::new(),
        counts: meta.counts,
        synced: journal.synced(),
        applied: meta.applied,
        ending: Ending::Open,
    };
    let core = Core {
        shards,
        layout: layout.clone(),
        options: options.clone(),
        signals: Signals::new(shards, journal.synced()),
        state: Mutex::new(state),
        work: Condvar::new(),
        room: Condvar::new(),
        reader: journal.reader(),
        view: RwLock::new(Some(view)),
    };
    let machines = core.range(&Table::Machine.all(), usize::MAX)?;
    for (key, value) in machines {
        let held = change::decode(&key, &value)?;
        core.state().machines.insert(keys::read_machine(&key)?, held);
    }
    Ok(core)
}

impl Opened {
    /// Reads the journal from the oldest record that the seen ids, the view or the window lack.
    fn read_on(&mut self, seen_from: Lsn, last: Lsn) -> Result<(), Error> {
        let Meta { applied, scan_from, complete, .. } = self.applier.meta();
        let core = Arc::clone(&self.core);
        let bounds = Bounds { events: core.options.window_events, decoded: core.options.window_decoded };
        let mut gatherer = Gatherer::new(core.shards, bounds, scan_from);
        let sealed: BTreeSet<Lsn> = self.journal.segments().iter().filter(|s| s.sealed).map(|s| s.last).collect();
        let from = seen_from.min(scan_from).min(Lsn(applied.0 + 1));
        for frame in core.reader.scan(from) {
            let (lsn, bytes) = frame?;
            let judges_only = lsn <= applied && lsn < seen_from && gatherer.is_full();
            if judges_only && Kind::of(lsn, &bytes)? != Kind::Commit {
                continue;
            }
            let record = Record::decode(lsn, bytes)?;
            if let Record::Delivery(delivery) = &record {
                self.ids.replay(lsn, delivery);
            }
            if sealed.contains(&lsn) {
                self.ids.seal(lsn, core.options.seen_for);
                self.ids.settle();
            }
            if lsn > applied {
                self.imply(lsn, &record)?;
            }
            if lsn >= scan_from {
                gatherer.take(lsn, &record);
            }
            if !complete && lsn.0.is_multiple_of(PROGRESS_EVERY) {
                core.options.tell(lsn.0, last.0);
            }
        }
        if !complete {
            self.applier.load(Some(last))?;
            core.options.tell(last.0, last.0);
        }
        self.fill_window(gatherer, last)
    }

    /// Takes what a record changes in the view, and writes the view where memory has a bound.
    fn imply(&mut self, lsn: Lsn, record: &Record) -> Result<(), Error> {
        let change = self.core.change(lsn, record)?;
        let full = {
            let mut state = self.core.state();
            state.learn(change);
            state.overlay.bytes() > self.core.options.overlay_bytes
        };
        if full { self.applier.catch_up() } else { Ok(()) }
    }

    /// The window holds what was gathered; if that was cut by its bound, the rest is read as it drains.
    fn fill_window(&self, gatherer: Gatherer, last: Lsn) -> Result<(), Error> {
        let mut found = gatherer.finish();
        let mut state = self.core.state();
        state.window.refill(&found.arrivals, found.cursor, last);
        // What was judged in an earlier run left room: read on until it is full or nothing is left.
        while state.window.wanted() > 0 {
            let bounds = Bounds { events: state.window.wanted(), decoded: self.core.options.window_decoded };
            let gatherer = Gatherer::new(self.core.shards, bounds, found.cursor);
            found = gather(self.core.reader.scan(found.cursor), gatherer, usize::MAX, last, last)?;
            state.window.refill(&found.arrivals, found.cursor, last);
        }
        Ok(())
    }
}

impl Core {
    /// What a durable record changes in the view.
    pub(super) fn change(&self, lsn: Lsn, record: &Record) -> Result<Change, Error> {
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
