//! Entities as they are answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Fields, OrderKey, fields};
use crate::domain::{self, EntityKey};

/// A tracked thing: what is known of it now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Entity {
    /// The source that tells of it.
    #[schema(examples("stripe"))]
    pub source: String,
    /// Its kind within the source.
    #[schema(examples("subscription"))]
    pub kind: String,
    /// The source's id of it.
    #[schema(examples("sub_1"))]
    pub id: String,
    /// Its account and mode: `live`, `test`, `ACCOUNT:live` or `ACCOUNT:test`.
    #[schema(examples("live"))]
    pub partition: String,
    /// The state of its only machine, or of the one that is named `source/kind`; null while it has none.
    #[schema(examples("active"))]
    pub state: Option<String>,
    /// The state of each machine.
    pub states: BTreeMap<String, String>,
    /// How many entries it is the fold of.
    pub version: u64,
    /// What `state` is ordered by.
    pub order_key: Option<OrderKey>,
    /// More of each machine.
    pub machines: BTreeMap<String, MachineState>,
    /// The kept fields, as the source sent them.
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub fields: Fields,
    /// What the fields are ordered by; they move on their own.
    pub fields_order_key: Option<OrderKey>,
    /// What an operator should know: `diverged`, `quarantined`.
    pub flags: Vec<String>,
    /// The next look at the upstream, if one is due.
    pub check: Option<Check>,
    /// When its last entry was decided; RFC 3339, UTC.
    pub updated_at: String,
}

/// What identifies an entity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct EntityRef {
    /// The source that tells of it.
    pub source: String,
    /// Its kind within the source.
    pub kind: String,
    /// The source's id of it.
    pub id: String,
    /// Its account and mode.
    pub partition: String,
}

/// One machine's state of an entity.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MachineState {
    /// The state.
    pub state: String,
    /// The order key of the newest fact that agrees with it.
    pub order_key: OrderKey,
    /// The machine's version when the state was entered.
    pub machine_version: u32,
    /// When the state was entered here; RFC 3339, UTC.
    pub since: String,
}

/// "Look again at `due`, because `reason`, the last answer was `answer`."
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// When; RFC 3339, UTC.
    pub due: String,
    /// `unlike_claim`, `cycle`, `behind`, `stale_read` or `not_found`.
    pub reason: String,
    /// What the upstream answered last.
    pub answer: Option<Answer>,
    /// How many answers in a row did not settle it.
    pub answers: u32,
    /// How many calls in a row failed.
    pub failures: u32,
    /// The positions of the events that it is about.
    pub positions: Vec<String>,
}

/// What the upstream answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    /// Whether it knows the entity.
    pub found: bool,
    /// The state of each machine; empty if it does not know the entity.
    pub states: BTreeMap<String, String>,
}

impl From<&domain::Entity> for Entity {
    fn from(entity: &domain::Entity) -> Self {
        let body = entity.ladder();
        let EntityRef { source, kind, id, partition } = EntityRef::from(&entity.key);
        let main = main_machine(entity);
        Self {
            source,
            kind,
            id,
            partition,
            state: main.map(|held| held.state.to_string()),
            states: body.machines.iter().map(|(name, held)| (name.to_string(), held.state.to_string())).collect(),
            version: entity.version,
            order_key: main.map(|held| held.key.into()),
            machines: body.machines.iter().map(|(name, held)| (name.to_string(), held.into())).collect(),
            fields: fields(&body.fields),
            fields_order_key: body.fields_key.map(OrderKey::from),
            flags: entity.flags.iter().map(|flag| flag.as_str().to_owned()).collect(),
            check: entity.check.as_ref().map(Check::from),
            updated_at: entity.decided_at.to_string(),
        }
    }
}

/// The machine whose state is the entity's: the only one, or the one that is named for its kind.
fn main_machine(entity: &domain::Entity) -> Option<&domain::MachineState> {
    let machines = &entity.ladder().machines;
    if machines.len() == 1 {
        return machines.values().next();
    }
    machines.get(format!("{}/{}", entity.key.source, entity.key.kind).as_str())
}

impl From<&EntityKey> for EntityRef {
    fn from(key: &EntityKey) -> Self {
        Self {
            source: key.source.to_string(),
            kind: key.kind.to_string(),
            id: key.id.to_string(),
            partition: key.partition.to_string(),
        }
    }
}

impl From<&domain::MachineState> for MachineState {
    fn from(held: &domain::MachineState) -> Self {
        Self {
            state: held.state.to_string(),
            order_key: held.key.into(),
            machine_version: held.machine_version,
            since: held.since.to_string(),
        }
    }
}

impl From<&domain::Check> for Check {
    fn from(check: &domain::Check) -> Self {
        Self {
            due: check.due.to_string(),
            reason: check.reason.as_str().to_owned(),
            answer: check.answer.as_ref().map(Answer::from),
            answers: check.answers,
            failures: check.failures,
            positions: check.positions.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<&domain::Answer> for Answer {
    fn from(answer: &domain::Answer) -> Self {
        match answer {
            domain::Answer::States(states) => Self {
                found: true,
                states: states.iter().map(|(name, state)| (name.to_string(), state.to_string())).collect(),
            },
            domain::Answer::NotFound => Self { found: false, states: BTreeMap::new() },
        }
    }
}
