//! Entries: the lines of the transition log, and the fold that makes an entity of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::check::CheckChange;
use super::entity::{Body, Entity, EntityKey, Flag, MachineState};
use super::event::{Claim, EventId, Position};
use super::json::RawJson;
use super::name::{FieldName, MachineName, StateName};
use super::order::OrderKey;
use super::outcome::{Cause, Outcome, Reason, Rule};
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
            if !change.set.is_empty() {
                let set = change.set.iter().map(|(name, value)| (name.clone(), value.clone()));
                Arc::make_mut(&mut body.fields).extend(set);
            }
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
