//! Outcomes: what came of a fact, the rule that said so, what made us decide, and what went wrong.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Position;
use super::name::{MachineName, StateName};

/// What came of a fact. Stored: variants are only ever added at the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The first state was taken.
    Created,
    /// The state moved along a declared edge.
    Advanced,
    /// The state moved over a gap that version numbers prove.
    AdvancedGapProven,
    /// The state moved over a gap that nobody could be asked about.
    AdvancedGapAccepted,
    /// The state moved to what the upstream answered.
    Reconciled,
    /// The state is already that.
    Unchanged,
    /// Recorded without a claim on the state.
    Noted,
    /// Older than what is known.
    Stale,
    /// Not allowed: the state is final.
    Refused,
    /// Not applied yet: a check follows.
    Held,
    /// The upstream contradicts what is known; an operator should look.
    Diverged,
    /// Given up, with its reasons; it can be replayed.
    DeadLettered,
}

/// The rule that answered. Stored: variants are only ever added at the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Rule {
    /// The claim says nothing of the state.
    Noted,
    /// Something changed: look.
    Hint,
    /// The claimed state is not in the machine.
    UnknownState,
    /// The entity was unknown and the claim is an initial state.
    Created,
    /// The entity was unknown and the claim is no initial state.
    Unknown,
    /// The order of claim and state cannot be told.
    Unsure,
    /// The claim is older than the state.
    Older,
    /// The claim is the current state.
    Same,
    /// Equal order, equal state, other fields.
    Fields,
    /// The current state is final.
    Terminal,
    /// A declared edge leads there.
    Advance,
    /// A declared edge leads there, equal order, and a way back exists.
    Tie,
    /// The claim lies strictly behind.
    Backward,
    /// The claim is reachable only over several edges.
    Gap,
    /// Neither state reaches the other.
    Unrelated,
    /// A happening that leads to several states, none of them from here.
    NoTarget,
    /// A check looked again.
    Check,
    /// The upstream did not find the entity.
    NotFound,
    /// The upstream could not be asked.
    Unavailable,
    /// The upstream's answer could not be used.
    Invalid,
    /// The entity's decider failed.
    Panic,
}

/// What made us decide. Stored: variants are only ever added at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Cause {
    /// An event.
    Webhook,
    /// An answer fetched for an event.
    Fetch,
    /// An answer fetched for a check.
    Check,
    /// A command of the operator key with this name.
    Command(Arc<str>),
}

/// Why an event was retried, given up or refused. Stored: variants are only ever added at the end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reason {
    /// The claimed or answered state is not declared in the machine.
    UnknownState {
        /// The machine.
        machine: MachineName,
        /// The state.
        state: StateName,
    },
    /// No machine of that name is loaded.
    UnknownMachine {
        /// The machine.
        machine: MachineName,
    },
    /// The sequence is ambiguous and the source has no upstream to ask.
    Ambiguous {
        /// The rule that would have asked.
        rule: Rule,
    },
    /// The upstream answered that it does not know the entity.
    UpstreamNotFound,
    /// The upstream could not be asked.
    UpstreamUnavailable {
        /// What happened, without secrets.
        detail: String,
    },
    /// The upstream's answer could not be used.
    UpstreamInvalid {
        /// What was wrong with it.
        detail: String,
    },
    /// An id that was seen came with other content.
    EventIdReused {
        /// Where the first stands.
        first: Position,
    },
    /// The verified body is not JSON.
    BodyNotJson {
        /// Where and why, from the parser.
        detail: String,
    },
    /// The mapping could not read the event.
    MappingFailed {
        /// Which pointer, what was expected.
        detail: String,
    },
    /// The entity's decider failed again and again.
    Panicked {
        /// The panic's text.
        detail: String,
    },
}

impl Outcome {
    /// Every one of them, for readers that ask by word.
    pub const ALL: [Self; 12] = [
        Self::Created,
        Self::Advanced,
        Self::AdvancedGapProven,
        Self::AdvancedGapAccepted,
        Self::Reconciled,
        Self::Unchanged,
        Self::Noted,
        Self::Stale,
        Self::Refused,
        Self::Held,
        Self::Diverged,
        Self::DeadLettered,
    ];

    /// The word used in answers, logs and snapshots.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Advanced => "advanced",
            Self::AdvancedGapProven => "advanced_gap_proven",
            Self::AdvancedGapAccepted => "advanced_gap_accepted",
            Self::Reconciled => "reconciled",
            Self::Unchanged => "unchanged",
            Self::Noted => "noted",
            Self::Stale => "stale",
            Self::Refused => "refused",
            Self::Held => "held",
            Self::Diverged => "diverged",
            Self::DeadLettered => "dead_lettered",
        }
    }
}

impl Rule {
    /// Every one of them, for readers that ask by word.
    pub const ALL: [Self; 21] = [
        Self::Noted,
        Self::Hint,
        Self::UnknownState,
        Self::Created,
        Self::Unknown,
        Self::Unsure,
        Self::Older,
        Self::Same,
        Self::Fields,
        Self::Terminal,
        Self::Advance,
        Self::Tie,
        Self::Backward,
        Self::Gap,
        Self::Unrelated,
        Self::NoTarget,
        Self::Check,
        Self::NotFound,
        Self::Unavailable,
        Self::Invalid,
        Self::Panic,
    ];

    /// The word used in answers, logs and snapshots.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Noted => "noted",
            Self::Hint => "hint",
            Self::UnknownState => "unknown_state",
            Self::Created => "created",
            Self::Unknown => "unknown",
            Self::Unsure => "unsure",
            Self::Older => "older",
            Self::Same => "same",
            Self::Fields => "fields",
            Self::Terminal => "terminal",
            Self::Advance => "advance",
            Self::Tie => "tie",
            Self::Backward => "backward",
            Self::Gap => "gap",
            Self::Unrelated => "unrelated",
            Self::NoTarget => "no_target",
            Self::Check => "check",
            Self::NotFound => "not_found",
            Self::Unavailable => "unavailable",
            Self::Invalid => "invalid",
            Self::Panic => "panic",
        }
    }

    /// What the rule found, as a sentence for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Noted => "the event says nothing of the state",
            Self::Hint => "something changed",
            Self::UnknownState => "the state is not declared in the machine",
            Self::Created => "the first word of it, in a state that it can begin in",
            Self::Unknown => "the first word of it, in a state that it cannot begin in",
            Self::Unsure => "which came first cannot be told from the two times",
            Self::Older => "it is older than what is known",
            Self::Same => "that is the state already",
            Self::Fields => "the same state at the same time, with other fields",
            Self::Terminal => "the state is final",
            Self::Advance => "a declared step leads there",
            Self::Tie => "the same time, and the step can be taken both ways",
            Self::Backward => "it lies behind the state, and yet is newer",
            Self::Gap => "no single step leads there, so something is missing",
            Self::Unrelated => "no steps connect the two states",
            Self::NoTarget => "the happening leads to several states, none of them from here",
            Self::Check => "the upstream was asked once more",
            Self::NotFound => "the upstream does not know it",
            Self::Unavailable => "the upstream could not be asked",
            Self::Invalid => "the upstream's answer could not be used",
            Self::Panic => "deciding failed",
        }
    }
}

impl Cause {
    /// The word used in answers, logs and snapshots.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Fetch => "fetch",
            Self::Check => "check",
            Self::Command(_) => "command",
        }
    }
}

impl Reason {
    /// The stable code, which the error reference explains.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownState { .. } => "unknown_state",
            Self::UnknownMachine { .. } => "unknown_machine",
            Self::Ambiguous { .. } => "ambiguous",
            Self::UpstreamNotFound => "upstream_not_found",
            Self::UpstreamUnavailable { .. } => "upstream_unavailable",
            Self::UpstreamInvalid { .. } => "upstream_invalid",
            Self::EventIdReused { .. } => "event_id_reused",
            Self::BodyNotJson { .. } => "body_not_json",
            Self::MappingFailed { .. } => "mapping_failed",
            Self::Panicked { .. } => "panicked",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownState { machine, state } => {
                write!(f, "state `{state}` is not declared in machine `{machine}`; declare it, then replay")
            }
            Self::UnknownMachine { machine } => {
                write!(f, "machine `{machine}` is not loaded; add its file, then replay")
            }
            Self::Ambiguous { rule } => {
                write!(
                    f,
                    "rule `{}` needs the upstream, and the source has none; set its API key, then replay",
                    rule.as_str()
                )
            }
            Self::UpstreamNotFound => {
                f.write_str("the upstream answered 404; check that its API key is of the entity's account and mode")
            }
            Self::UpstreamUnavailable { detail } => write!(f, "the upstream could not be asked: {detail}"),
            Self::UpstreamInvalid { detail } => write!(f, "the upstream's answer could not be used: {detail}"),
            Self::EventIdReused { first } => {
                write!(f, "this event id stands at {first} with other content; the first stands")
            }
            Self::BodyNotJson { detail } => write!(f, "the verified body is not JSON: {detail}"),
            Self::MappingFailed { detail } => write!(f, "the event could not be mapped: {detail}"),
            Self::Panicked { detail } => write!(f, "deciding failed: {detail}"),
        }
    }
}
