//! Entries: the lines of the transition log, and the fold that makes an entity of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entity::{Body, Check, Entity, EntityKey, Flag, MachineState};
use super::event::{Claim, EventId, Position};
use super::json::RawJson;
use super::name::{FieldName, MachineName, StateName};
use super::order::OrderKey;
use super::time::Timestamp;

/// One line of the transition log: what was decided of one machine (or of the whole entity), and why.
///
/// Stored with the entity's key beside it; [`Recorded`] carries both and the position.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The machine, and its version then; none if the entry is about the entity as a whole.
    pub machine: Option<MachineRef>,
    /// The state before and after; equal when nothing moved.
    pub states: Move,
    /// What came of it.
    pub outcome: Outcome,
    /// The rule that answered.
    pub rule: Rule,
    /// What made us decide.
    pub cause: Cause,
    /// The claim that was judged, if there was one.
    pub claim: Option<Claim>,
    /// The events that this entry decides, in order.
    pub positions: Vec<Position>,
    /// The id of the last of those events.
    pub event_id: Option<EventId>,
    /// The type of the last of those events.
    pub event_type: Option<Arc<str>>,
    /// The source's time of that event.
    pub event_time: Option<Timestamp>,
    /// When that event was received.
    pub received_at: Option<Timestamp>,
    /// When this was decided.
    pub decided_at: Timestamp,
    /// The state's order key before.
    pub key_before: Option<OrderKey>,
    /// The state's order key after.
    pub key_after: Option<OrderKey>,
    /// Fields that changed.
    pub fields: Option<FieldChange>,
    /// Flags set or cleared.
    pub flags: Vec<FlagChange>,
    /// The check set or cleared.
    pub check: Option<CheckChange>,
    /// Whether the upstream answered with the entity.
    pub fetched: bool,
    /// What went wrong, for a dead letter or a refusal.
    pub reason: Option<Reason>,
    /// SHA-256 of the body that the last event came in, or of the fetched answer.
    pub body_sha256: Option<[u8; 32]>,
}

/// An entry where it stands: position, entity, and what was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// The commit's LSN and the entry's place in it.
    pub position: Position,
    /// The entity.
    pub entity: EntityKey,
    /// The entry.
    pub entry: Entry,
}

/// A machine by name and version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MachineRef {
    /// The name.
    pub name: MachineName,
    /// The version in its file.
    pub version: u32,
}

/// A state before and a state after.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Move {
    /// Before; none if the machine had no state.
    pub from: Option<StateName>,
    /// After; none if it still has none.
    pub to: Option<StateName>,
}

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
    /// An operator decided.
    Operator,
}

/// What made us decide.
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
    /// A time that came.
    Timer,
}

/// Fields that changed, and what they are ordered by now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FieldChange {
    /// New values by name.
    pub set: BTreeMap<FieldName, RawJson>,
    /// The fields' order key after.
    pub key: OrderKey,
    /// The event they came from; none after a fetch.
    pub event: Option<EventId>,
}

/// A flag set or cleared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FlagChange {
    /// The flag holds from now on.
    Set(Flag),
    /// The flag holds no longer.
    Cleared(Flag),
}

/// A check set (in place of any other) or cleared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CheckChange {
    /// This check is due.
    Set(Check),
    /// No check is due.
    Cleared,
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

impl Entry {
    /// An entry of this outcome with everything else empty.
    #[must_use]
    pub fn new(outcome: Outcome, rule: Rule, cause: Cause, decided_at: Timestamp) -> Self {
        Self {
            machine: None,
            states: Move::default(),
            outcome,
            rule,
            cause,
            claim: None,
            positions: Vec::new(),
            event_id: None,
            event_type: None,
            event_time: None,
            received_at: None,
            decided_at,
            key_before: None,
            key_after: None,
            fields: None,
            flags: Vec::new(),
            check: None,
            fetched: false,
            reason: None,
            body_sha256: None,
        }
    }

    /// Whether the entry moved a state: the change feed shows these.
    #[must_use]
    pub fn is_move(&self) -> bool {
        self.states.from != self.states.to
    }

    /// Makes the entry true of the entity: one step of the fold.
    pub fn apply(&self, entity: &mut Entity) {
        entity.version += 1;
        entity.decided_at = self.decided_at;
        for change in &self.flags {
            match change {
                FlagChange::Set(flag) => entity.flags.insert(*flag),
                FlagChange::Cleared(flag) => entity.flags.remove(flag),
            };
        }
        match &self.check {
            Some(CheckChange::Set(check)) => entity.check = Some(check.clone()),
            Some(CheckChange::Cleared) => entity.check = None,
            None => {}
        }
        let Body::Ladder(body) = &mut entity.body;
        body.fetched |= self.fetched;
        if let Some(change) = &self.fields {
            body.fields.extend(change.set.iter().map(|(name, value)| (name.clone(), value.clone())));
            body.fields_key = Some(change.key);
            body.fields_event.clone_from(&change.event);
        }
        if let (Some(machine), Some(to), Some(key)) = (&self.machine, &self.states.to, self.key_after) {
            let unmoved = body.machines.get(&machine.name).filter(|_| !self.is_move());
            let (since, machine_version) =
                unmoved.map_or((self.decided_at, machine.version), |held| (held.since, held.machine_version));
            let state = MachineState { state: to.clone(), key, machine_version, since };
            body.machines.insert(machine.name.clone(), state);
        }
    }
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
    pub const ALL: [Self; 22] = [
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
        Self::Operator,
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
            Self::Operator => "operator",
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
            Self::Timer => "timer",
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
