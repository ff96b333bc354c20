//! Questions that readers ask, and pages of answers.

use std::sync::Arc;

use super::decision::Attempt;
use super::entity::{EntityKey, Partition};
use super::event::{Event, Position};
use super::name::{Kind, SourceName, StateName};
use super::time::Timestamp;

/// Which entities are meant: all those that match every part that is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EntityFilter {
    /// Of this source.
    pub source: Option<SourceName>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// With this id.
    pub id: Option<String>,
    /// In this partition.
    pub partition: Option<Partition>,
    /// With any machine in this state.
    pub state: Option<StateName>,
}

/// One page of answers, and where the next begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T, C> {
    /// The answers, in order.
    pub items: Vec<T>,
    /// Pass this as `after` for what follows; none at the end.
    pub next: Option<C>,
}

/// An event that gave up, with every attempt's reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// Where the event stands; this names the dead letter.
    pub position: Position,
    /// The event.
    pub event: Arc<Event>,
    /// When its delivery was received.
    pub received_at: Timestamp,
    /// SHA-256 of its delivery's body.
    pub body_sha256: [u8; 32],
    /// The tries, oldest first; the last says why it gave up.
    pub attempts: Vec<Attempt>,
}

/// A cursor over entities: the key of the last one shown.
pub type EntityCursor = EntityKey;
