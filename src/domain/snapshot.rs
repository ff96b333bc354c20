//! Snapshots: what an upstream answered of an entity when it was asked.

use std::collections::BTreeMap;

use super::json::RawJson;
use super::name::{FieldName, MachineName, StateName};
use super::order::OrderKey;

/// The current state of an entity as the upstream gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The state of each machine that the answer speaks of.
    pub states: BTreeMap<MachineName, StateName>,
    /// The kept fields that it carries.
    pub fields: BTreeMap<FieldName, RawJson>,
    /// The upstream's version or updated-at, or else the clock of the fetch.
    pub key: OrderKey,
}
