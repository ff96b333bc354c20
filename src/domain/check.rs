//! Checks: the next look at the upstream that an entity waits for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::event::Position;
use super::name::{MachineName, StateName};
use super::time::Timestamp;

/// "Look again at `due`, because `reason`, the last answer was `answer`."
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// When to look.
    pub due: Timestamp,
    /// Why.
    pub reason: CheckReason,
    /// What the upstream answered last, for the comparison.
    pub answer: Option<Answer>,
    /// How many answers in a row did not settle it; drives the schedule, and ends it.
    pub answers: u32,
    /// How many calls in a row failed; drives the schedule, and never ends it: they say nothing of the entity.
    pub failures: u32,
    /// The positions of the events that the answer is about.
    pub positions: Vec<Position>,
}

/// Why a check is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CheckReason {
    /// The answer was unlike the claim that led to the fetch.
    UnlikeClaim,
    /// The answer lies in a cycle with the current state: it needs a second look that agrees.
    Cycle,
    /// The answer lies behind the current state or is unrelated to it.
    Behind,
    /// The answer was older than what is known.
    StaleRead,
    /// The upstream did not find the entity.
    NotFound,
}

/// What the upstream said of an entity, as far as a later look compares it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It has these states.
    States(BTreeMap<MachineName, StateName>),
    /// It does not know the entity (404).
    NotFound,
}

/// A check set (in place of any other) or cleared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum CheckChange {
    /// This check is due.
    Set(Check),
    /// No check is due.
    Cleared,
}

/// What is stored of a change. Variants are only ever added at the end; a retired one stays listed.
#[derive(Clone, Serialize, Deserialize)]
enum Stored {
    /// Retired: a check with one count.
    SetWithOneCount(WithOneCount),
    Cleared,
    Set(Check),
}

/// A check as it was stored when answers that did not settle it and calls that failed were counted as one.
#[derive(Clone, Serialize, Deserialize)]
struct WithOneCount {
    due: Timestamp,
    reason: CheckReason,
    answer: Option<Answer>,
    tries: u32,
    positions: Vec<Position>,
}

impl CheckReason {
    /// The word used in answers and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnlikeClaim => "unlike_claim",
            Self::Cycle => "cycle",
            Self::Behind => "behind",
            Self::StaleRead => "stale_read",
            Self::NotFound => "not_found",
        }
    }
}

impl From<Stored> for CheckChange {
    fn from(stored: Stored) -> Self {
        match stored {
            // Nobody can tell which of the two it counted: a look too many is cheaper than a flag too many.
            Stored::SetWithOneCount(WithOneCount { due, reason, answer, tries, positions }) => {
                Self::Set(Check { due, reason, answer, answers: 0, failures: tries, positions })
            }
            Stored::Cleared => Self::Cleared,
            Stored::Set(check) => Self::Set(check),
        }
    }
}

impl From<CheckChange> for Stored {
    fn from(change: CheckChange) -> Self {
        match change {
            CheckChange::Set(check) => Self::Set(check),
            CheckChange::Cleared => Self::Cleared,
        }
    }
}
