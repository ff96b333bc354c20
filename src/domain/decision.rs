//! Decisions: what the pure functions answer, before anything is written.

use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::event::Position;
use super::outcome::{Reason, Rule};
use super::time::Timestamp;

/// What `decide` or `settle` answers of a run of events of one entity.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    /// The entries to record, in order.
    pub entries: Vec<Entry>,
    /// What becomes of each event that this decision covers.
    pub judged: Vec<Judged>,
    /// The first event that cannot be judged without the upstream; it and those behind it are not covered.
    pub ambiguity: Option<Ambiguity>,
}

impl Decision {
    /// Adds what was decided after this.
    pub fn join(&mut self, later: Self) {
        self.entries.extend(later.entries);
        self.judged.extend(later.judged);
        self.ambiguity = self.ambiguity.or(later.ambiguity);
    }
}

/// What becomes of one event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The event (or the command that replays it).
    pub position: Position,
    /// What becomes of it.
    pub disposition: Disposition,
}

/// Where an event goes from here. Stored: variants are only ever added at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Disposition {
    /// Decided.
    Done,
    /// It waits until then.
    Retry {
        /// When it is pending again.
        at: Timestamp,
        /// Why it could not be decided now.
        attempt: Attempt,
    },
    /// It gave up.
    Dead {
        /// The last reason.
        attempt: Attempt,
    },
    /// It waits until then, and nothing was tried: a call that is held back is no attempt.
    Wait {
        /// When it is pending again.
        at: Timestamp,
    },
}

/// One try that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: Reason,
}

/// Where a run of events became ambiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ambiguity {
    /// Index of the event in the run that was judged.
    pub index: usize,
    /// The rule that asks for the truth.
    pub rule: Rule,
}
