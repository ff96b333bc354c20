//! Made-up facts: events, deliveries and decisions in few words.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::domain::{
    Admit, Attempt, Cause, Check, CheckChange, CheckReason, Claim, Delivery, Disposition, Entity, EntityKey, Entry,
    Event, EventId, FieldChange, FieldName, Item, Judged, Kind, MachineName, MachineRef, Move, OrderKey, Outcome,
    Partition, Pending, Position, RawJson, Reason, Rule, SourceName, StateName, Timestamp,
};
use crate::store::{Commit, Epoch, Fetched};

/// A second of the tests' time.
pub(crate) const fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + secs)
}

/// A subscription of the source `stripe`.
pub(crate) fn sub(id: &str) -> EntityKey {
    EntityKey {
        partition: Partition::LIVE,
        source: SourceName::new("stripe"),
        kind: Kind::new("subscription"),
        id: Arc::from(id),
    }
}

/// The machine of the tests.
pub(crate) fn machine() -> MachineName {
    MachineName::new("stripe/subscription")
}

/// An event that claims a state of an entity.
pub(crate) fn event(id: &str, entity: &EntityKey, state: &str) -> Event {
    Event {
        source: entity.source.clone(),
        id: EventId(Arc::from(id)),
        event_type: Arc::from("customer.subscription.updated"),
        entity: Some(entity.clone()),
        event_time: Some(at(0)),
        order_key: OrderKey::event(at(0)),
        claims: BTreeMap::from([(machine(), Claim::Observed(StateName::new(state)))]),
        fields: BTreeMap::from([(FieldName::new("customer"), RawJson::string("cus_1"))]),
    }
}

/// An item with its event's own digest.
pub(crate) fn item(event: impl Into<Arc<Event>>, admit: Admit) -> Item {
    let event = event.into();
    Item { digest: event.digest(), event, admit }
}

/// A delivery of these items.
pub(crate) fn delivery(items: Vec<Item>) -> Delivery {
    let body = Bytes::from(format!("{{\"items\":{}}}", items.len()));
    Delivery {
        source: SourceName::new("stripe"),
        received_at: at(1),
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body_sha256: Sha256::digest(&body).into(),
        body,
        secret: 0,
        items,
    }
}

/// A delivery of one event that goes to its entity.
pub(crate) fn queued(id: &str, entity: &EntityKey, state: &str) -> Delivery {
    delivery(vec![item(event(id, entity, state), Admit::Queue)])
}

/// A reason to try again.
pub(crate) fn unavailable(at: Timestamp) -> Attempt {
    Attempt { at, reason: Reason::UpstreamUnavailable { detail: "timeout".to_owned() } }
}

/// What becomes of an event.
pub(crate) fn judged(position: Position, disposition: Disposition) -> Judged {
    Judged { position, disposition }
}

/// The event is put off.
pub(crate) fn retry(due: Timestamp) -> Disposition {
    Disposition::Retry { at: due, attempt: unavailable(at(2)) }
}

/// The event is given up.
pub(crate) fn dead() -> Disposition {
    Disposition::Dead { attempt: Attempt { at: at(3), reason: Reason::UpstreamNotFound } }
}

/// An entry that moves an entity, or notes something of it if the states are the same.
pub(crate) fn entry(from: Option<&str>, to: &str, positions: Vec<Position>) -> Entry {
    let (outcome, rule) =
        if from == Some(to) { (Outcome::Unchanged, Rule::Same) } else { (Outcome::Advanced, Rule::Advance) };
    let mut entry = Entry::new(outcome, rule, Cause::Webhook, at(5));
    entry.machine = Some(MachineRef { name: machine(), version: 1 });
    entry.states = Move { from: from.map(StateName::new), to: Some(StateName::new(to)) };
    entry.key_after = Some(OrderKey::event(at(0)));
    entry.positions = positions;
    entry
}

/// An entry that sets a field.
pub(crate) fn field_entry(name: &str, value: &str) -> Entry {
    let mut entry = Entry::new(Outcome::Noted, Rule::Noted, Cause::Webhook, at(5));
    let set = BTreeMap::from([(FieldName::new(name), RawJson::string(value))]);
    entry.fields = Some(FieldChange { set, key: OrderKey::event(at(0)), event: None });
    entry
}

/// An entry that sets or clears a check.
pub(crate) fn check_entry(due: Option<Timestamp>) -> Entry {
    let mut entry = Entry::new(Outcome::Held, Rule::Check, Cause::Check, at(5));
    let set = |due| {
        let (reason, answer, positions) = (CheckReason::Cycle, None, Vec::new());
        CheckChange::Set(Check { due, reason, answer, answers: 0, failures: 0, positions })
    };
    entry.check = Some(due.map_or(CheckChange::Cleared, set));
    entry
}

/// A commit on an entity as it was loaded.
pub(crate) fn commit(entity: &EntityKey, before: Option<&Entity>, epoch: Epoch) -> Commit {
    Commit {
        entity: entity.clone(),
        epoch,
        version: before.map_or(0, |before| before.version),
        entries: Arc::default(),
        judged: Vec::new(),
        fetched: None,
    }
}

/// The decision that an entity is in the state that its first pending event claims, and every event is done.
pub(crate) fn decide(entity: &EntityKey, before: Option<&Entity>, pending: &[Pending], epoch: Epoch) -> Commit {
    let mut commit = commit(entity, before, epoch);
    let mut entries = Vec::new();
    let mut state = before.and_then(|before| before.ladder().machines.get(&machine())).map(|held| held.state.clone());
    for pending in pending {
        let Some(Claim::Observed(claimed)) = pending.event.claims.get(&machine()) else { continue };
        let from = state.as_ref().map(StateName::as_str);
        entries.push(entry(from, claimed.as_str(), vec![pending.position]));
        commit.judged.push(judged(pending.position, Disposition::Done));
        state = Some(claimed.clone());
    }
    commit.entries = entries.into();
    commit
}

/// An answer of an upstream.
pub(crate) fn fetched() -> Fetched {
    Fetched {
        url: "https://api.example.com/v1/subscriptions/sub_1".to_owned(),
        status: 200,
        body: Bytes::from_static(b"{\"status\":\"active\"}"),
        sent_at: at(4),
    }
}
