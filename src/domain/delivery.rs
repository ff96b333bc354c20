//! Deliveries: HTTP requests as received, with the events found in them, and what became of each.

use std::sync::Arc;

use bytes::Bytes;

use super::event::{Event, EventDigest, Position};
use super::name::SourceName;
use super::outcome::Reason;
use super::time::Timestamp;

/// One HTTP request as received, with the events that the mapping found in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The source it came to.
    pub source: SourceName,
    /// When it was received.
    pub received_at: Timestamp,
    /// The headers that matter (signature, id, timestamp, content type), lower-case names.
    pub headers: Vec<(String, String)>,
    /// The raw body.
    pub body: Bytes,
    /// SHA-256 of the body.
    pub body_sha256: [u8; 32],
    /// Which of the source's secrets matched, by its place in the list, from 0.
    pub secret: u16,
    /// Its events; never empty.
    pub items: Vec<Item>,
}

/// One event of a delivery, and where it goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The event.
    pub event: Arc<Event>,
    /// [`Event::digest`] of it.
    pub digest: EventDigest,
    /// Where it goes when its id is new.
    pub admit: Admit,
}

/// Where an event goes at the door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admit {
    /// To its entity: it is pending until decided.
    Queue,
    /// Nowhere: it names no tracked entity, and is only recorded.
    Record,
    /// To the dead letters at once.
    DeadLetter(Reason),
}

/// What became of one item of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is new and durable here.
    Accepted(Position),
    /// Its id was seen with the same digest: the first stands here.
    Duplicate(Position),
    /// Its id was seen with another digest: the first stands here. The later one is durable as a dead letter.
    Conflict {
        /// The first.
        first: Position,
        /// The dead letter.
        dead: Position,
    },
}

/// A delivery as it was kept, for replays and auditors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The delivery; its body is empty if it was pruned.
    pub delivery: Delivery,
    /// The position of the item that was asked for within `delivery.items`.
    pub item: usize,
}
