//! The events of a measurement: signed, unique, about 1.2 KB, of subscriptions that go back and forth between two
//! states. Each is later than all before it of its subscription, so that it can be decided without asking anybody.

use crate::domain::Timestamp;
use crate::source::Source;

/// How far in the past the events lie: what is measured twice on one store must not lie in the future.
const BEHIND_S: i64 = 20 * 3600;

/// The body, with places for what differs.
const BODY: &str = r#"{"id":"evt_{event}","object":"event","api_version":"2026-09-30","created":{created},"data":{"object":{"id":"sub_{entity}","object":"subscription","application":null,"application_fee_percent":null,"automatic_tax":{"enabled":true,"liability":{"type":"self"}},"billing_cycle_anchor":1780000000,"cancel_at":null,"cancel_at_period_end":false,"canceled_at":null,"collection_method":"charge_automatically","created":1760000000,"currency":"eur","customer":"cus_QyBench0000001","days_until_due":null,"default_payment_method":"pm_1QyBench0000001","description":"Team plan, billed monthly","discounts":[],"ended_at":null,"items":{"object":"list","data":[{"id":"si_QyBench0000001","object":"subscription_item","created":1760000000,"current_period_end":1782592000,"current_period_start":1780000000,"metadata":{},"price":{"id":"price_1QyBench0000001","object":"price","active":true,"currency":"eur","unit_amount":4900},"quantity":3}],"has_more":false,"total_count":1},"latest_invoice":"in_1QyBench0000001","livemode":true,"metadata":{"team":"measurement"},"pause_collection":null,"status":"{status}","trial_end":null}},"livemode":true,"pending_webhooks":1,"request":{"id":null,"idempotency_key":null},"type":"customer.subscription.updated"}"#;

/// The names of the places, as long as what is put there.
const PLACES: [(&str, usize); 4] = [("{event}", 20), ("{created}", 14), ("{entity}", 12), ("{status}", 8)];

/// A stream of events over some subscriptions in turn.
pub(super) struct Events {
    /// Unique for a measurement.
    run: u64,
    entities: u64,
    next: u64,
    began: Timestamp,
    /// The pieces of the body, each before a place.
    pieces: [&'static str; 5],
}

impl Events {
    /// Events of so many subscriptions, from this one on.
    pub(super) fn of(entities: u64, now: Timestamp) -> Self {
        let run = u64::try_from(now.nanos() / 1_000_000).unwrap_or(0);
        let mut pieces = [""; 5];
        let mut rest = BODY;
        for (piece, (place, _)) in pieces.iter_mut().zip(PLACES) {
            let (before, after) = rest.split_once(place).unwrap_or((rest, ""));
            (*piece, rest) = (before, after);
        }
        if let Some(last) = pieces.last_mut() {
            *last = rest;
        }
        Self { run, entities: entities.max(1), next: 0, began: now, pieces }
    }

    /// Goes on with the subscription of this number.
    pub(super) fn from(self, entity: u64) -> Self {
        Self { next: entity, ..self }
    }

    /// The body of the next event.
    pub(super) fn body(&mut self) -> Vec<u8> {
        let (n, entity, visit) = (self.next, self.next % self.entities, self.next / self.entities);
        self.next += 1;
        let millis = self.began.nanos() / 1_000_000 - BEHIND_S * 1000 + i64::try_from(visit).unwrap_or(0);
        let status = if visit.is_multiple_of(2) { "active" } else { "past_due" };
        let values = [
            format!("{:x}{n:09}", self.run),
            format!("{}.{:03}", millis / 1000, millis % 1000),
            format!("{entity:012}"),
            status.to_owned(),
            String::new(),
        ];
        let mut body = Vec::with_capacity(BODY.len() + 64);
        for (piece, value) in self.pieces.iter().zip(&values) {
            body.extend_from_slice(piece.as_bytes());
            body.extend_from_slice(value.as_bytes());
        }
        body
    }

    /// Writes the next event as a signed request to this path.
    pub(super) fn request(&mut self, source: &Source, path: &str, now: Timestamp, out: &mut Vec<u8>) {
        let body = self.body();
        out.clear();
        out.extend_from_slice(format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n").as_bytes());
        out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        out.extend_from_slice(b"content-type: application/json\r\n");
        for (name, value) in source.sign(0, "", &body, now) {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_json_of_its_own_id_and_later_than_the_one_before_it_of_its_subscription() {
        let mut events = Events::of(2, Timestamp::from_nanos(1_790_000_000_000_000_000));
        let bodies: Vec<serde_json::Value> = (0..4).map(|_| serde_json::from_slice(&events.body()).unwrap()).collect();
        let at = |n: usize, pointer: &str| bodies[n].pointer(pointer).unwrap().clone();
        assert_eq!(at(0, "/data/object/id"), at(2, "/data/object/id"));
        assert_ne!(at(0, "/data/object/id"), at(1, "/data/object/id"));
        assert!(at(0, "/created").as_f64() < at(2, "/created").as_f64());
        assert_eq!((at(1, "/data/object/status"), at(3, "/data/object/status")), ("active".into(), "past_due".into()));
        let ids: std::collections::BTreeSet<_> = (0..4).map(|n| at(n, "/id").to_string()).collect();
        assert_eq!(ids.len(), 4);
    }
}
