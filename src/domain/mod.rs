//! The words of Tollgate as types: identities, times, events, entities, decisions, entries.
//!
//! Nothing here does I/O, reads a clock, or knows how a webhook, a machine file or a store looks.
//! Everything is a value; the one function that changes an entity is [`entry::Entry::apply`].

pub mod check;
pub mod decision;
pub mod delivery;
pub mod entity;
pub mod entry;
pub mod event;
pub mod json;
pub mod name;
pub mod order;
pub mod outcome;
pub mod parts;
pub mod printable;
pub mod query;
pub mod snapshot;
pub mod suggest;
pub mod time;

pub use check::{Answer, Check, CheckChange, CheckReason};
pub use decision::{Ambiguity, Attempt, Decision, Disposition, Judged};
pub use delivery::{Admission, Admit, Delivery, Item, Kept};
pub use entity::{Body, Entity, EntityKey, Flag, LadderBody, MachineState, Mode, Partition, Shard};
pub use entry::{Entry, FieldChange, FlagChange, MachineRef, Move, Recorded};
pub use event::{Claim, Event, EventDigest, EventId, Lsn, Pending, Position};
pub use json::RawJson;
pub use name::{FieldName, Kind, MachineName, SourceName, StateName};
pub use order::{Order, OrderKey, TimeOf};
pub use outcome::{Cause, Outcome, Reason, Rule};
pub use printable::printable;
pub use snapshot::Snapshot;
pub use time::Timestamp;

#[cfg(test)]
mod tests;
