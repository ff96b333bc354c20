//! One item of a delivery becomes one event.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Mapping, Received, Rule, ThinPlan, TimeRule};
use crate::domain::entity::ENTITY_ID_LEN_MAX;
use crate::domain::event::EVENT_ID_LEN_MAX;
use crate::domain::order::TimeOf;
use crate::domain::{Admit, Claim, EntityKey, Event, EventId, Item, Mode, OrderKey, Partition, Reason, Timestamp};
use crate::source::object;
use crate::source::pattern::TYPE_LEN_MAX;
use crate::source::pointer::Captured;
use crate::source::reference::{Found, Reference};
use crate::source::value::{Value, check_object};

/// How much of a parser's words is kept in a dead letter.
const DETAIL_LEN_MAX: usize = 200;

/// What an event is about.
#[derive(Clone, Copy)]
enum About<'m> {
    /// An object that it carries.
    Object(&'m Rule),
    /// An object that it only names.
    Named(&'m Rule, &'m ThinPlan),
}

/// The first thing that could not be read.
#[derive(Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn take<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|why| self.0.get_or_insert(why).len()).ok()
    }
}

impl Mapping {
    /// The event of an item: of the whole body, or the `n`th of a batch.
    pub(super) fn item(
        &self,
        received: &Received<'_>,
        body: Option<&Captured<'_>>,
        n: Option<u32>,
        item: &Captured<'_>,
    ) -> Item {
        let found = Found { headers: received.headers, signed: received.signed, body, item };
        let mut trouble = Trouble::default();
        let id = trouble.take(self.event_id(received, n, &found)).unwrap_or_else(|| received.hash_id(n));
        let event_type = trouble.take(self.event_type(&found)).unwrap_or_default();
        let about = self.about(&found, &event_type);
        let entity = about.and_then(|about| self.entity(about, &found, &mut trouble));
        let time = self.time_rule(about).read(self, &found);
        // An unreadable time matters only where something is ordered by it.
        let event_time = if entity.is_some() { trouble.take(time) } else { time.ok() }.flatten();
        let mut event = Event {
            source: self.source.clone(),
            id,
            event_type: Arc::from(event_type),
            order_key: event_time.map_or(received.receipt(), OrderKey::event),
            entity,
            event_time,
            claims: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        if let (Some(about), true) = (about, event.entity.is_some()) {
            self.take_object(about, &found, &mut event, &mut trouble);
        }
        event.order_key = object::believable(event.order_key, received.at, received.receipt());
        let admit = match (trouble.0, &event.entity) {
            (Some(detail), _) => Admit::DeadLetter(Reason::MappingFailed { detail }),
            (None, Some(_)) => Admit::Queue,
            (None, None) => Admit::Record,
        };
        Item { digest: event.digest(), event: Arc::new(event), admit }
    }

    /// The event of the `n`th item of a batch. What is wrong with it concerns it alone.
    pub(super) fn batch_item(&self, received: &Received<'_>, body: &Captured<'_>, n: u32, json: &str) -> Item {
        let failed = |what: String| {
            let reason = Reason::MappingFailed { detail: format!("item {n}: {what}") };
            self.bare(received, received.hash_id(Some(n)), Admit::DeadLetter(reason))
        };
        if let Err(what) = check_object(json) {
            return failed(what);
        }
        match self.tries.item.walk(json) {
            Ok(item) => self.item(received, Some(body), Some(n), &item),
            Err(e) => failed(cut(&e.to_string())),
        }
    }

    /// The event of a delivery without items: recorded, so that it is not sent again.
    pub(super) fn empty(&self, received: &Received<'_>) -> Item {
        self.bare(received, self.delivery_id(received), Admit::Record)
    }

    /// The event of a body that cannot be taken apart.
    pub(super) fn unreadable(&self, received: &Received<'_>, reason: Reason) -> Item {
        self.bare(received, self.delivery_id(received), Admit::DeadLetter(reason))
    }

    fn bare(&self, received: &Received<'_>, id: EventId, admit: Admit) -> Item {
        let event = Event {
            source: self.source.clone(),
            id,
            event_type: Arc::from(""),
            entity: None,
            event_time: None,
            order_key: received.receipt(),
            claims: BTreeMap::new(),
            fields: BTreeMap::new(),
        };
        Item { digest: event.digest(), event: Arc::new(event), admit }
    }

    /// The signed id of the delivery if events are known by it, else the hash of the body.
    fn delivery_id(&self, received: &Received<'_>) -> EventId {
        let signed = received.signed.and_then(|signed| signed.id).filter(|_| self.id.contains(&Reference::SignedId));
        let fitting = signed.filter(|id| !id.is_empty() && id.len() <= EVENT_ID_LEN_MAX);
        fitting.map_or_else(|| received.hash_id(None), |id| EventId(Arc::from(id)))
    }

    /// The event's own id; one that belongs to the whole delivery gets the item's number.
    fn event_id(&self, received: &Received<'_>, n: Option<u32>, found: &Found<'_>) -> Result<EventId, String> {
        let given = found.each(&self.id).find_map(|(place, value)| Some((place, value, value.id()?)));
        let Some((place, value, id)) = given else { return Ok(received.hash_id(n)) };
        let id = match (place, n) {
            (Reference::Item(_), _) | (_, None) => id,
            (_, Some(n)) => format!("{id}#{n}"),
        };
        if id.len() > EVENT_ID_LEN_MAX {
            let place = self.tries.describe(place, received.signed);
            return Err(format!("{place}: found {value}, expected an id of at most {EVENT_ID_LEN_MAX} bytes"));
        }
        Ok(EventId(Arc::from(id)))
    }

    /// The event's type; empty if there is none.
    fn event_type(&self, found: &Found<'_>) -> Result<String, String> {
        let Some((place, value)) = found.first(&self.event_type) else { return Ok(String::new()) };
        value.string().filter(|text| text.len() <= TYPE_LEN_MAX).ok_or_else(|| {
            let place = self.tries.describe(place, found.signed);
            format!("{place}: found {value}, expected a type of at most {TYPE_LEN_MAX} bytes")
        })
    }

    fn about<'m>(&'m self, found: &Found<'_>, event_type: &str) -> Option<About<'m>> {
        if let Some(thin) = &self.thin {
            let marker = found.item.get(thin.marker).and_then(|json| Value::Json(json).string());
            if marker.as_deref() == Some(thin.value.as_str()) {
                let object_type = found.first(&thin.object_type).and_then(|(_, value)| value.string())?;
                let rule = self.by_thin.find(&object_type).and_then(|index| self.rules.get(*index))?;
                return Some(About::Named(rule, thin));
            }
        }
        self.by_type.find(event_type).and_then(|index| self.rules.get(*index)).map(About::Object)
    }

    /// The entity that the event is about; none if its id is missing or null: such an event is recorded.
    fn entity(&self, about: About<'_>, found: &Found<'_>, trouble: &mut Trouble) -> Option<EntityKey> {
        let (kind, id) = match about {
            About::Object(rule) => (&rule.kind, rule.object.id(found.item, &self.tries.item)),
            About::Named(rule, thin) => (&rule.kind, self.named_id(thin, found)),
        };
        let id = trouble.take(id)??;
        let partition = trouble.take(self.partition(found))?;
        Some(EntityKey { partition, source: self.source.clone(), kind: kind.clone(), id })
    }

    /// The id of the object that a thin event names, if it names one.
    fn named_id(&self, thin: &ThinPlan, found: &Found<'_>) -> Result<Option<Arc<str>>, String> {
        let Some((place, value)) = found.first(&thin.id) else { return Ok(None) };
        let wrong = |why| format!("{}: {why}", self.tries.describe(place, found.signed));
        value.entity_id().map(Some).map_err(wrong)
    }

    /// The partition. A mode that cannot be read is no reason to guess: test and live must never mix.
    fn partition(&self, found: &Found<'_>) -> Result<Partition, String> {
        let mode = match found.first(&self.live) {
            None => Mode::Live,
            Some((place, value)) => match value.live() {
                Ok(true) => Mode::Live,
                Ok(false) => Mode::Test,
                Err(why) => return Err(format!("{}: {why}", self.tries.describe(place, found.signed))),
            },
        };
        let Some((place, value)) = found.first(&self.account) else { return Ok(Partition { account: None, mode }) };
        let account = value.id().filter(|id| id.len() <= ENTITY_ID_LEN_MAX).ok_or_else(|| {
            let place = self.tries.describe(place, found.signed);
            format!("{place}: found {value}, expected an account of at most {ENTITY_ID_LEN_MAX} bytes")
        })?;
        Ok(Partition { account: Some(Arc::from(account)), mode })
    }

    fn time_rule<'m>(&'m self, about: Option<About<'m>>) -> &'m TimeRule {
        match about {
            Some(About::Named(_, thin)) if !thin.time.places.is_empty() => &thin.time,
            Some(About::Named(..) | About::Object(_)) | None => &self.time,
        }
    }

    /// Takes what the object says: claims, fields and, if it has one, its own order.
    fn take_object(&self, about: About<'_>, found: &Found<'_>, event: &mut Event, trouble: &mut Trouble) {
        match about {
            About::Object(rule) => {
                let trie = &self.tries.item;
                let own = trouble.take(rule.object.order_key(found.item, trie)).flatten();
                event.order_key = own.unwrap_or(event.order_key);
                let claims = rule.object.claims(&event.event_type, found.item, trie);
                event.claims = trouble.take(claims).unwrap_or_default();
                event.fields = rule.object.fields(found.item);
            }
            About::Named(rule, _) => {
                event.claims = rule.object.machines().map(|machine| (machine.clone(), Claim::Hint)).collect();
            }
        }
    }
}

impl TimeRule {
    fn read(&self, mapping: &Mapping, found: &Found<'_>) -> Result<Option<Timestamp>, String> {
        let (Some((place, value)), Some(unit)) = (found.first(&self.places), self.unit) else { return Ok(None) };
        let wrong = |why| format!("{}: {why}", mapping.tries.describe(place, found.signed));
        value.time(unit).map(Some).map_err(wrong)
    }
}

impl Received<'_> {
    /// The id of an event that has none: the hash of the body, so that a resend is a duplicate.
    fn hash_id(&self, n: Option<u32>) -> EventId {
        let hash = hex::encode(self.body_sha256);
        EventId(Arc::from(n.map_or_else(|| format!("sha256:{hash}"), |n| format!("sha256:{hash}#{n}"))))
    }

    /// The order key of an event that gives no believable time: it proves nothing of the order.
    fn receipt(&self) -> OrderKey {
        OrderKey::Time { at: self.at, of: TimeOf::Receipt }
    }
}

/// A body that is not JSON, with the parser's words cut to a bound.
pub(super) fn not_json(detail: &str) -> Reason {
    Reason::BodyNotJson { detail: cut(detail) }
}

fn cut(detail: &str) -> String {
    detail.chars().take(DETAIL_LEN_MAX).collect()
}
