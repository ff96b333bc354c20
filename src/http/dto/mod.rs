//! What goes over the wire as JSON. The command line reads the same types that the server writes.
//!
//! Domain types are not sent as they are: their stored form is frozen, while an answer speaks in words, and may
//! gain fields. Values that came from a source are embedded as the text they came in, so that no number passes
//! through a float on its way out.

mod dead_letter;
mod door;
mod entity;
mod entry;
mod health;
mod machine;
mod problem;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub use dead_letter::{Attempt, DeadLetter, DeadLetterShown, Done, KeptDelivery};
pub use door::{Admission, Admitted};
pub use entity::{Answer, Check, Entity, EntityRef, MachineState};
pub use entry::{CheckChange, Claim, Entry, Reason};
pub use health::{Health, Readiness};
pub use machine::{Machine, MachineSummary, Policies, State, Transition};
pub use problem::Problem;

use crate::domain::{self, FieldName, RawJson};

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items, in order. A page may be shorter than `limit`, even empty, while `next` says that more follows.
    pub items: Vec<T>,
    /// Pass this as `after` for what follows; null at the end.
    pub next: Option<String>,
}

/// What a fact is ordered by: a version number of the source, or an instant and whose clock gave it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OrderKey {
    /// A number that the source raises with every change.
    Version {
        /// The number.
        version: u64,
    },
    /// An instant.
    Time {
        /// RFC 3339, UTC.
        time: String,
        /// `event`, `object`, `clock` or `receipt`.
        of: String,
    },
}

impl From<domain::OrderKey> for OrderKey {
    fn from(key: domain::OrderKey) -> Self {
        match key {
            domain::OrderKey::Version(version) => Self::Version { version },
            domain::OrderKey::Time { at, of } => Self::Time { time: at.to_string(), of: of.as_str().to_owned() },
        }
    }
}

/// Kept fields by name, each as the text it came in.
pub type Fields = BTreeMap<String, Box<RawValue>>;

fn fields(held: &BTreeMap<FieldName, RawJson>) -> Fields {
    held.iter().map(|(name, value)| (name.to_string(), raw(value))).collect()
}

/// The value verbatim. Text that isn't JSON after all is sent as a string rather than breaking the answer.
fn raw(value: &RawJson) -> Box<RawValue> {
    RawValue::from_string(value.as_str().to_owned())
        .or_else(|_| serde_json::value::to_raw_value(value.as_str()))
        .unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests;
