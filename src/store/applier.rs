//! The applier: the one thread that writes the view. It takes what the committer made durable, fills the pending
//! window again when it has drained, and, when there is nothing else to do, proves the view whole.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::core::{Core, Ending};
use super::gather::{Gatherer, gather};
use super::overlay::Batch;
use super::view::Meta;
use super::window::Bounds;
use super::Error;
use crate::domain::Lsn;

/// About how many keys go to the view at once: sled's memory grows with the size of its batches.
const BATCH_KEYS: usize = 200;

/// How many records go to the view at once.
const BATCH_RECORDS: usize = 10_000;

/// How long a batch that is not full waits for more, so that writes of one entity are coalesced.
const GATHER_FOR: Duration = Duration::from_millis(20);

/// How many pairs of the view are walked at a time.
const WALK_PAIRS: usize = 1000;

/// How many records the window reads from the journal at a time.
const REFILL_RECORDS: usize = 2000;

/// The applier's own state.
pub(super) struct Applier {
    core: Arc<Core>,
    /// What the view says of itself.
    meta: Meta,
    walked: bool,
    /// Commits up to here may judge events beyond the window's cursor: they are of an earlier run.
    judged_upto: Lsn,
}

/// What the applier does next.
enum Task {
    Apply(Batch, Lsn),
    Refill,
    Walk,
    End,
}

impl Applier {
    pub(super) fn new(core: Arc<Core>, meta: Meta, walked: bool, judged_upto: Lsn) -> Self {
        Self { core, meta, walked, judged_upto }
    }

    /// Works until the store ends.
    pub(super) fn run(mut self) -> Result<(), Error> {
        loop {
            match self.next() {
                Task::Apply(batch, scan_from) => self.apply(&batch, scan_from)?,
                Task::Refill => self.refill()?,
                Task::Walk => self.walked = self.core.with_view(|view| view.walk(WALK_PAIRS))?,
                Task::End => return Ok(()),
            }
        }
    }

    fn next(&self) -> Task {
        let mut state = self.core.state();
        let mut gathered = false;
        loop {
            let failed = state.ending == Ending::Open && self.core.signals.check().is_err();
            if failed || state.ending == Ending::Drop || (state.ending == Ending::Drain && state.overlay.is_empty()) {
                return Task::End;
            }
            let ready = gathered || state.overlay.keys() >= BATCH_KEYS || state.ending == Ending::Drain;
            if !state.overlay.is_empty() && ready {
                return Task::Apply(state.overlay.batch(BATCH_KEYS, BATCH_RECORDS), state.window.low_water());
            }
            if state.window.wanted() > 0 {
                return Task::Refill;
            }
            if state.overlay.is_empty() && !self.walked {
                return Task::Walk;
            }
            if state.overlay.is_empty() {
                state = self.core.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                // Woken early by more work it still waits only once: what came first must not starve.
                state = self.core.work.wait_timeout(state, GATHER_FOR).unwrap_or_else(PoisonError::into_inner).0;
                gathered = true;
            }
        }
    }

    fn apply(&mut self, batch: &Batch, scan_from: Lsn) -> Result<(), Error> {
        let mut meta = self.meta;
        meta.applied = batch.through;
        meta.scan_from = scan_from.min(Lsn(batch.through.0 + 1));
        meta.counts += batch.counts;
        self.core.with_view(|view| view.apply(&batch.writes, meta))?;
        self.meta = meta;
        let mut state = self.core.state();
        state.overlay.forget(batch);
        state.applied = batch.through;
        self.core.room.notify_all();
        Ok(())
    }

    /// Reads on where the window's cursor stands.
    fn refill(&self) -> Result<(), Error> {
        let (from, wanted, synced) = {
            let state = self.core.state();
            let Some(from) = state.window.behind() else { return Ok(()) };
            (from, state.window.wanted(), state.synced)
        };
        let bounds = Bounds { events: wanted, decoded: self.core.options.window_decoded };
        let gatherer = Gatherer::new(self.core.shards, bounds, from);
        let found = gather(self.core.reader.scan(from), gatherer, REFILL_RECORDS, synced, self.judged_upto)?;
        let mut state = self.core.state();
        let synced = state.synced;
        let shards = state.window.refill(&found.arrivals, found.cursor, synced);
        drop(state);
        self.core.signals.ring(shards);
        Ok(())
    }
}
