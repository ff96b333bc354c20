//! Dead letters as they are answered.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::entity::EntityRef;
use super::entry::{Claim, Reason};
use crate::domain::{self, Kept, Position};

/// An event that gave up, with every attempt's reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// Where the event stands; this names the dead letter.
    #[schema(examples("42.0"))]
    pub position: String,
    /// The source that sent it.
    pub source: String,
    /// The source's id of it.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// The entity that it is about; null if it names none that is tracked.
    pub entity: Option<EntityRef>,
    /// When it happened, by the source's clock; RFC 3339, UTC.
    pub event_time: Option<String>,
    /// When its delivery was received; RFC 3339, UTC.
    pub received_at: String,
    /// What it says of each machine.
    pub claims: BTreeMap<String, Claim>,
    /// SHA-256 of its delivery's body; hexadecimal.
    pub body_sha256: String,
    /// The tries, oldest first; the last says why it gave up.
    pub attempts: Vec<Attempt>,
}

/// A dead letter with the delivery that it came in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterShown {
    /// The dead letter.
    pub dead_letter: DeadLetter,
    /// The delivery as it was received; null if it is no longer kept.
    pub delivery: Option<KeptDelivery>,
}

/// A delivery as it was kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeptDelivery {
    /// The headers that were kept.
    pub headers: BTreeMap<String, String>,
    /// The raw body, if it is text.
    pub body: Option<String>,
    /// The raw body in base64, if it is not text.
    pub body_base64: Option<String>,
    /// Which of the source's secrets matched, by its place in the list, from 0.
    pub secret: u16,
    /// Which event of the delivery this is, from 0.
    pub item: usize,
}

/// One try that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// When; RFC 3339, UTC.
    pub at: String,
    /// Why.
    pub reason: Reason,
}

/// A command that was carried out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// `replay` or `discard`.
    pub command: String,
    /// The dead letter that it was about.
    pub dead_letter: String,
    /// Where the command stands in the journal; a replayed event is pending here.
    pub position: String,
    /// The name of the operator key.
    pub by: String,
}

impl From<&domain::query::DeadLetter> for DeadLetter {
    fn from(dead: &domain::query::DeadLetter) -> Self {
        let event = &dead.event;
        Self {
            position: dead.position.to_string(),
            source: event.source.to_string(),
            event_id: event.id.as_str().to_owned(),
            event_type: event.event_type.to_string(),
            entity: event.entity.as_ref().map(EntityRef::from),
            event_time: event.event_time.map(|at| at.to_string()),
            received_at: dead.received_at.to_string(),
            claims: event.claims.iter().map(|(machine, claim)| (machine.to_string(), claim.into())).collect(),
            body_sha256: hex::encode(dead.body_sha256),
            attempts: dead.attempts.iter().map(Attempt::from).collect(),
        }
    }
}

impl From<&Kept> for KeptDelivery {
    fn from(kept: &Kept) -> Self {
        let delivery = &kept.delivery;
        let text = std::str::from_utf8(&delivery.body).ok().map(ToOwned::to_owned);
        Self {
            headers: delivery.headers.iter().cloned().collect(),
            body_base64: text.is_none().then(|| STANDARD.encode(&delivery.body)),
            body: text,
            secret: delivery.secret,
            item: kept.item,
        }
    }
}

impl From<&domain::Attempt> for Attempt {
    fn from(attempt: &domain::Attempt) -> Self {
        Self { at: attempt.at.to_string(), reason: (&attempt.reason).into() }
    }
}

impl Done {
    /// The answer to a command.
    pub fn of(command: &str, dead: Position, position: Position, by: &str) -> Self {
        Self {
            command: command.to_owned(),
            dead_letter: dead.to_string(),
            position: position.to_string(),
            by: by.to_owned(),
        }
    }
}
