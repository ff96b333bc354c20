//! Lines of the transition log as they are answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::entity::{Check, EntityRef};
use super::{Fields, OrderKey, fields};
use crate::domain::{self, Cause, FlagChange, Recorded};

/// One line of the transition log: what was decided, by which rule, and why.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Where it stands in the journal.
    #[schema(examples("43.0"))]
    pub position: String,
    /// The entity that it is about.
    pub entity: EntityRef,
    /// The machine that it is about; null if it is about the entity as a whole.
    pub machine: Option<String>,
    /// The machine's version then.
    pub machine_version: Option<u32>,
    /// The state before.
    pub from: Option<String>,
    /// The state after; equal to `from` when nothing moved.
    pub to: Option<String>,
    /// What came of it, for example `advanced`, `stale`, `refused`.
    #[schema(examples("advanced"))]
    pub outcome: String,
    /// The rule of the ladder that answered.
    #[schema(examples("advance"))]
    pub rule: String,
    /// What made us decide: `webhook`, `fetch`, `check` or `command`.
    pub cause: String,
    /// The name of the operator key, if the cause is a command.
    pub by: Option<String>,
    /// The claim that was judged.
    pub claim: Option<Claim>,
    /// The events that this entry decides, in order.
    pub positions: Vec<String>,
    /// The id of the last of those events.
    pub event_id: Option<String>,
    /// Its type.
    pub event_type: Option<String>,
    /// When it happened, by the source's clock; RFC 3339, UTC.
    pub event_time: Option<String>,
    /// When it was received; RFC 3339, UTC.
    pub received_at: Option<String>,
    /// When this was decided; RFC 3339, UTC.
    pub decided_at: String,
    /// The state's order key before.
    pub order_key_before: Option<OrderKey>,
    /// The state's order key after.
    pub order_key_after: Option<OrderKey>,
    /// Fields that changed, with their new values as the source sent them.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub fields: Fields,
    /// What the fields are ordered by from now on; null if none changed.
    pub fields_order_key: Option<OrderKey>,
    /// Flags set.
    pub flags_set: Vec<String>,
    /// Flags cleared.
    pub flags_cleared: Vec<String>,
    /// The check set or cleared; null if neither.
    pub check: Option<CheckChange>,
    /// Whether the upstream answered with the entity.
    pub fetched: bool,
    /// What went wrong, for a dead letter or a refusal.
    pub reason: Option<Reason>,
    /// SHA-256 of the body that the last event came in, or of the fetched answer; hexadecimal.
    pub body_sha256: Option<String>,
}

/// What an event said of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Claim {
    /// `observed` (a state), `happened` (a happening), `none` or `hint`.
    pub sort: String,
    /// The state or the happening.
    pub name: Option<String>,
}

/// A change of the entity's check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckChange {
    /// The check that is due from now on; null if none is due any more.
    pub set: Option<Check>,
}

/// Why an event was retried, given up or refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reason {
    /// The stable code, which the error reference explains.
    pub code: String,
    /// What it was in this case.
    pub detail: String,
}

impl From<&Recorded> for Entry {
    fn from(recorded: &Recorded) -> Self {
        let Recorded { position, entity, entry } = recorded;
        Self {
            position: position.to_string(),
            entity: entity.into(),
            machine: entry.machine.as_ref().map(|machine| machine.name.to_string()),
            machine_version: entry.machine.as_ref().map(|machine| machine.version),
            from: entry.states.from.as_ref().map(ToString::to_string),
            to: entry.states.to.as_ref().map(ToString::to_string),
            outcome: entry.outcome.as_str().to_owned(),
            rule: entry.rule.as_str().to_owned(),
            cause: entry.cause.as_str().to_owned(),
            by: operator(&entry.cause),
            claim: entry.claim.as_ref().map(Claim::from),
            positions: entry.positions.iter().map(ToString::to_string).collect(),
            event_id: entry.event_id.as_ref().map(|id| id.as_str().to_owned()),
            event_type: entry.event_type.as_ref().map(ToString::to_string),
            event_time: entry.event_time.map(|at| at.to_string()),
            received_at: entry.received_at.map(|at| at.to_string()),
            decided_at: entry.decided_at.to_string(),
            order_key_before: entry.key_before.map(OrderKey::from),
            order_key_after: entry.key_after.map(OrderKey::from),
            fields: entry.fields.as_ref().map(|change| fields(&change.set)).unwrap_or_default(),
            fields_order_key: entry.fields.as_ref().map(|change| change.key.into()),
            flags_set: flags(&entry.flags, true),
            flags_cleared: flags(&entry.flags, false),
            check: entry.check.as_ref().map(CheckChange::from),
            fetched: entry.fetched,
            reason: entry.reason.as_ref().map(Reason::from),
            body_sha256: entry.body_sha256.map(hex::encode),
        }
    }
}

fn operator(cause: &Cause) -> Option<String> {
    match cause {
        Cause::Command(by) => Some(by.to_string()),
        Cause::Webhook | Cause::Fetch | Cause::Check => None,
    }
}

fn flags(changes: &[FlagChange], set: bool) -> Vec<String> {
    let wanted = |change: &FlagChange| match change {
        FlagChange::Set(flag) => set.then_some(*flag),
        FlagChange::Cleared(flag) => (!set).then_some(*flag),
    };
    changes.iter().filter_map(wanted).map(|flag| flag.as_str().to_owned()).collect()
}

impl From<&domain::Claim> for Claim {
    fn from(claim: &domain::Claim) -> Self {
        let (sort, name) = claim.parts();
        Self { sort: sort.to_owned(), name: (!name.is_empty()).then(|| name.to_owned()) }
    }
}

impl From<&domain::CheckChange> for CheckChange {
    fn from(change: &domain::CheckChange) -> Self {
        match change {
            domain::CheckChange::Set(check) => Self { set: Some(check.into()) },
            domain::CheckChange::Cleared => Self { set: None },
        }
    }
}

impl From<&domain::Reason> for Reason {
    fn from(reason: &domain::Reason) -> Self {
        Self { code: reason.code().to_owned(), detail: reason.to_string() }
    }
}
