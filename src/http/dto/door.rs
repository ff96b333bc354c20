//! What a webhook sender is answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain;

/// The answer to a delivery: one admission, or a list for a delivery of several events.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Admitted {
    /// The delivery carried one event.
    One(Admission),
    /// The delivery carried several; in their order.
    Several(Vec<Admission>),
}

/// What became of one event at the door.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Admission {
    /// `accepted`, `duplicate` or `conflict`.
    #[schema(examples("accepted"))]
    pub outcome: String,
    /// The source's id of the event.
    #[schema(examples("evt_1"))]
    pub event_id: String,
    /// Where the first event of this id stands in the journal.
    #[schema(examples("42.0"))]
    pub position: String,
    /// Where a conflicting event stands as a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
}

impl Admitted {
    /// The answer for these admissions of events with these ids.
    pub fn of(ids: &[domain::EventId], admissions: &[domain::Admission]) -> Self {
        let mut all: Vec<_> = ids.iter().zip(admissions).map(|(id, admission)| Admission::of(id, *admission)).collect();
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Self::One(only),
            (last, _) => {
                all.extend(last);
                Self::Several(all)
            }
        }
    }

    /// The admissions, one or several.
    pub fn all(&self) -> &[Admission] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(all) => all,
        }
    }
}

impl Admission {
    fn of(id: &domain::EventId, admission: domain::Admission) -> Self {
        let (outcome, position, dead) = match admission {
            domain::Admission::Accepted(position) => ("accepted", position, None),
            domain::Admission::Duplicate(position) => ("duplicate", position, None),
            domain::Admission::Conflict { first, dead } => ("conflict", first, Some(dead)),
        };
        Self {
            outcome: outcome.to_owned(),
            event_id: id.as_str().to_owned(),
            position: position.to_string(),
            dead_letter: dead.map(|dead| dead.to_string()),
        }
    }
}
