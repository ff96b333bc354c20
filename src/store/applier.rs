//! The applier: the one writer of the view. It takes what the committer made durable, fills the pending window again
//! when it has drained, and, when there is nothing else to do, proves the view whole.
//!
//! [`Applier::step`] is one piece of that; [`Applier::run`] is the thread that does them one after the other.

use std::sync::Arc;
use std::time::Instant;

use super::Error;
use super::courtesy;
use super::gather::{Gatherer, gather};
use super::lock::unpoisoned;
use super::overlay::Table;
use super::records;
use super::redo;
use super::shared::{Ending, Shared, State};
use super::view::Meta;
use super::window::Bounds;
use crate::domain::Lsn;

/// How many pairs of the view are walked at a time, from each end: some tenths of a second, in which nothing else is
/// applied.
const WALK_PAIRS: usize = 100_000;

/// How many records the window reads from the journal at a time.
const REFILL_RECORDS: usize = 2000;

/// From how many pending events on decisions are behind.
const BEHIND_EVENTS: usize = 1024;

/// The applier's own state.
pub(super) struct Applier {
    shared: Arc<Shared>,
    /// What the view says of itself.
    meta: Meta,
    /// Whether the view is proved whole.
    walked: bool,
    /// Whether the next turn is the walk's.
    walks: bool,
    /// Whether there was no space for the last table.
    tight: bool,
    earlier: Earlier,
}

/// What earlier runs decided.
#[derive(Clone, Copy)]
pub(super) struct Earlier {
    /// Their last record.
    pub(super) last: Lsn,
    /// The newest record with an event that they decided.
    pub(super) judged: Lsn,
}

impl Earlier {
    /// Up to where commits may stand that judge events from a record on. This run's judge only what the window has held,
    /// so beyond what was decided before there are none: a backlog must not be read to its end for each part of it.
    pub(super) fn judged_upto(self, from: Lsn) -> Lsn {
        if from > self.judged { Lsn(0) } else { self.last }
    }
}

/// What the applier does next.
enum Task {
    Apply(Arc<Table>, Lsn),
    Refill,
    Walk,
    Gather,
    Rest,
    End,
}

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// What changed is in the view.
    Applied,
    /// Another piece of work was done.
    Worked,
    /// What changed waits for more: see [`super::Options::gather_for`].
    Gather,
    /// There is no space to write; to be tried again after a moment.
    Pause,
    /// There is nothing to do.
    Rest,
    /// The store ends.
    End,
}

impl Applier {
    pub(super) fn new(shared: Arc<Shared>, meta: Meta, earlier: Earlier) -> Self {
        Self { shared, meta, walked: false, walks: false, tight: false, earlier }
    }

    /// What earlier runs decided.
    pub(super) fn earlier(&self) -> Earlier {
        self.earlier
    }

    /// Earlier runs decided an event of this record.
    pub(super) fn learn_judged(&mut self, lsn: Lsn) {
        self.earlier.judged = self.earlier.judged.max(lsn);
    }

    /// What the view says of itself.
    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    /// Works until the store ends.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let gather_for = self.shared.options.gather_for;
        let mut gathers_until: Option<Instant> = None;
        let shared = Arc::clone(&self.shared);
        let runs = |state: &State| state.ending == Ending::Open && shared.signals.check().is_ok();
        loop {
            match self.step(gathers_until.is_some_and(|until| Instant::now() >= until))? {
                Step::Applied => {
                    gathers_until = None;
                    continue;
                }
                Step::Worked => continue,
                Step::Gather => {
                    let until = *gathers_until.get_or_insert_with(|| Instant::now() + gather_for);
                    let left = until.saturating_duration_since(Instant::now());
                    let waits = |state: &mut State| runs(state) && !self.is_pressed(state);
                    drop(unpoisoned(self.shared.work.wait_timeout_while(self.shared.state(), left, waits)));
                }
                Step::Pause => {
                    let waits = |state: &mut State| runs(state);
                    drop(unpoisoned(self.shared.work.wait_timeout_while(self.shared.state(), gather_for, waits)));
                }
                Step::Rest => {
                    let rests = |state: &mut State| matches!(self.task(state, false), Task::Rest);
                    drop(unpoisoned(self.shared.work.wait_while(self.shared.state(), rests)));
                }
                Step::End => return Ok(()),
            }
            courtesy::rested();
        }
    }

    /// Does one piece of work, if there is one. `gathered` says that the batch has waited for more.
    pub(super) fn step(&mut self, gathered: bool) -> Result<Step, Error> {
        // Commits wait for the walk: it takes turns with everything else.
        self.walks = !self.walks && !self.walked;
        let task = self.task(&mut self.shared.state(), gathered);
        match task {
            Task::Apply(table, low_water) => {
                if self.apply(&table, low_water)? {
                    return Ok(Step::Applied);
                }
                // The journal has it all; the view follows when there is space again.
                let ends = self.shared.state().ending != Ending::Open;
                return Ok(if ends { Step::End } else { Step::Pause });
            }
            Task::Refill => self.refill()?,
            Task::Walk => self.walk()?,
            Task::Gather => return Ok(Step::Gather),
            Task::Rest => return Ok(Step::Rest),
            Task::End => return Ok(Step::End),
        }
        Ok(Step::Worked)
    }

    /// Writes everything that waits, before the store is open.
    pub(super) fn catch_up(&mut self) -> Result<(), Error> {
        // The window is not known yet, so the view keeps the low water that it has.
        let low_water = self.meta.scan_from;
        loop {
            let Some(table) = self.shared.state().overlay.freeze() else { return Ok(()) };
            if !self.apply(&table, low_water)? {
                return Err(Error::Full);
            }
        }
    }

    fn task(&self, state: &mut State, gathered: bool) -> Task {
        let failed = state.ending == Ending::Open && self.shared.signals.check().is_err();
        if failed || state.ending == Ending::Drop || (state.ending == Ending::Drain && state.overlay.is_empty()) {
            return Task::End;
        }
        if self.walks && state.ending == Ending::Open {
            return Task::Walk;
        }
        // Turns go on while the view waits for space, as far as there is room in memory.
        if self.tight && state.window.wanted() > 0 {
            return Task::Refill;
        }
        if (gathered || self.is_ripe(state))
            && let Some(table) = state.overlay.freeze()
        {
            return Task::Apply(table, state.window.low_water());
        }
        if state.window.wanted() > 0 {
            return Task::Refill;
        }
        if !self.walked {
            return Task::Walk;
        }
        if state.overlay.is_empty() { Task::Rest } else { Task::Gather }
    }

    fn walk(&mut self) -> Result<(), Error> {
        self.walked = self.shared.with_view(|view| view.walk(WALK_PAIRS))?;
        if self.walked {
            self.shared.signals.prove();
        }
        Ok(())
    }

    /// Writes a table to the view; answers whether there was space.
    fn apply(&mut self, table: &Table, low_water: Lsn) -> Result<bool, Error> {
        let mut meta = self.meta;
        meta.applied = table.through;
        meta.mark = records::mark(&self.shared.reader, table.through)?.unwrap_or_default();
        meta.scan_from = low_water.min(Lsn(table.through.0 + 1));
        meta.counts += table.counts;
        let rest = || {
            let state = self.shared.state();
            // While decisions are behind a pause only takes from them.
            let calm = !self.is_pressed(&state) && state.window.len() < BEHIND_EVENTS;
            drop(state);
            if calm {
                courtesy::pause();
            }
        };
        let (disk, writes) = (self.shared.layout.files(), table.encode(rest)?);
        let batch_keys = self.shared.options.batch_keys;
        let written = self.shared.with_view(|view| redo::write(disk, view, &writes, meta, batch_keys, &rest))?;
        self.tight = !written;
        if written {
            self.applied(meta, table.through);
        }
        Ok(written)
    }

    /// The view shows a table now.
    fn applied(&mut self, meta: Meta, through: Lsn) {
        self.meta = meta;
        let mut state = self.shared.state();
        state.overlay.forget();
        state.applied = state.applied.max(through);
        self.shared.room.notify_all();
    }

    /// Whether changes need not wait for more.
    fn is_ripe(&self, state: &State) -> bool {
        self.shared.is_much(state) || state.ending != Ending::Open
    }

    /// Whether somebody waits for this thread.
    fn is_pressed(&self, state: &State) -> bool {
        self.is_ripe(state) || state.window.wanted() > 0
    }

    /// Reads on where the window's cursor stands.
    fn refill(&self) -> Result<(), Error> {
        let (from, wanted, synced) = {
            let state = self.shared.state();
            let Some(from) = state.window.behind() else { return Ok(()) };
            (from, state.window.wanted(), state.synced)
        };
        let bounds = Bounds { events: wanted, decoded_bytes: self.shared.options.window_decoded_bytes };
        let gatherer = Gatherer::new(self.shared.shards, bounds, from);
        let judged_upto = self.earlier.judged_upto(from);
        let found = gather(self.shared.reader.scan(from), gatherer, REFILL_RECORDS, synced, judged_upto)?;
        let mut state = self.shared.state();
        let synced = state.synced;
        let fresh = state.window.refill(found.arrivals, found.cursor, synced);
        self.shared.note_behind(&state);
        drop(state);
        if fresh {
            self.shared.signals.ring();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
