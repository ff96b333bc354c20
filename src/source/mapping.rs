//! Mapping: the bytes of a verified delivery become events.
//!
//! Mapping never fails. What cannot be read becomes a dead letter that says why; what names no tracked entity is
//! recorded. Of a delivery's entities only the one that the event is about is taken: a copy of another that is
//! embedded in it may be older than the event.

mod event;

use serde_json::value::RawValue;

use super::object::{self, ObjectPlan, OrderSpec};
use super::pattern::Patterns;
use super::pointer::{Pointer, Slot};
use super::problem::Problems;
use super::reference::{Reference, Tries};
use super::scheme::{Scheme, Selected};
use super::spec::{EntitySpec, EventSpec, SourceSpec, ThinSpec, TimeUnit};
use super::value;
use crate::domain::{Item, Kind, MachineName, Reason, SourceName, Timestamp};

/// The most events of one delivery. One that holds more becomes a single dead letter.
pub const ITEMS_MAX: usize = 1000;

/// The checked mapping of one source.
#[derive(Debug)]
pub(super) struct Mapping {
    source: SourceName,
    tries: Tries,
    id: Vec<Reference>,
    event_type: Vec<Reference>,
    time: TimeRule,
    account: Vec<Reference>,
    live: Vec<Reference>,
    thin: Option<ThinPlan>,
    rules: Vec<Rule>,
    by_type: Patterns<usize>,
    by_thin: Patterns<usize>,
}

#[derive(Debug)]
struct TimeRule {
    places: Vec<Reference>,
    unit: Option<TimeUnit>,
}

#[derive(Debug)]
struct ThinPlan {
    marker: Slot,
    value: String,
    id: Vec<Reference>,
    object_type: Vec<Reference>,
    time: TimeRule,
}

#[derive(Debug)]
struct Rule {
    kind: Kind,
    object: ObjectPlan,
}

/// A delivery on its way.
struct Received<'a> {
    headers: &'a [(String, String)],
    signed: Option<Selected<'a>>,
    body_sha256: [u8; 32],
    at: Timestamp,
}

impl Mapping {
    /// Checks the mapping; what is wrong goes to the problems.
    pub(super) fn compile(spec: &SourceSpec, scheme: &Scheme, problems: &mut Problems) -> Self {
        let mut compiler = Compiler {
            tries: Tries::new(spec.event.items.as_deref(), problems),
            scheme,
            trust: spec.event.trust_unsigned_headers,
            problems,
        };
        let EventSpec { items: _, id, event_type, time, time_unit, account, live, trust_unsigned_headers: _ } =
            &spec.event;
        let id = compiler.places("event.id", id);
        let event_type = compiler.places("event.type", event_type);
        let time = compiler.time("event", time, *time_unit);
        let account = compiler.places("event.account", account);
        let live = compiler.places("event.live", live);
        let thin = spec.thin.as_ref().map(|thin| compiler.thin(thin));
        let (mut rules, mut by_type, mut by_thin) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, entity) in &spec.entities {
            by_type.extend(entity.types.iter().map(|pattern| (pattern.clone(), rules.len())));
            by_thin.extend(entity.thin.iter().map(|pattern| (pattern.clone(), rules.len())));
            rules.push(compiler.rule(kind, entity, thin.is_some()));
        }
        let tries = compiler.tries;
        let by_type = Patterns::compile("entities: types", by_type, problems);
        let by_thin = Patterns::compile("entities: thin", by_thin, problems);
        let source = spec.name.clone();
        Self { source, tries, id, event_type, time, account, live, thin, rules, by_type, by_thin }
    }

    /// The kinds, and the machines of each.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&Kind, Vec<MachineName>)> {
        self.rules.iter().map(|rule| (&rule.kind, rule.object.machines().cloned().collect()))
    }

    /// The headers that the mapping reads beside those of the signature.
    pub(super) fn headers(&self) -> impl Iterator<Item = &str> {
        let all = [&self.id, &self.event_type, &self.time.places, &self.account, &self.live];
        all.into_iter().flatten().filter_map(|reference| match reference {
            Reference::Header(name) => Some(name.as_str()),
            Reference::Item(_) | Reference::Body(_) | Reference::SignedId | Reference::SignedTimestamp => None,
        })
    }

    /// The events of a verified delivery; never none.
    pub(super) fn map(
        &self,
        headers: &[(String, String)],
        signed: Option<Selected<'_>>,
        body: &[u8],
        body_sha256: [u8; 32],
        at: Timestamp,
    ) -> Vec<Item> {
        let received = Received { headers, signed, body_sha256, at };
        self.items(&received, body).unwrap_or_else(|reason| vec![self.unreadable(&received, reason)])
    }

    fn items(&self, received: &Received<'_>, body: &[u8]) -> Result<Vec<Item>, Reason> {
        let text = std::str::from_utf8(body)
            .map_err(|e| event::not_json(&format!("not UTF-8 from byte {} on", e.valid_up_to())))?;
        let outer = if self.tries.items.is_some() { &self.tries.body } else { &self.tries.item };
        let found = outer.walk(text).map_err(|e| event::not_json(&e.to_string()))?;
        let Some(list) = self.tries.items else {
            value::check_object(text).map_err(|what| event::not_json(&what))?;
            return Ok(vec![self.item(received, None, None, &found)]);
        };
        let failed = |why: &str| {
            let detail = format!("`{}`: {why}", self.tries.body.pointer(list));
            Reason::MappingFailed { detail }
        };
        let list = found.get(list).and_then(|json| serde_json::from_str::<Vec<&RawValue>>(json).ok());
        let list = list.ok_or_else(|| failed("expected a list of items"))?;
        if list.len() > ITEMS_MAX {
            return Err(failed(&format!("found {} items, at most {ITEMS_MAX} are taken apart", list.len())));
        }
        let items = list.iter().zip(0_u32..).map(|(raw, n)| self.batch_item(received, &found, n, raw.get()));
        let items: Vec<_> = items.collect();
        if items.is_empty() { Ok(vec![self.empty(received)]) } else { Ok(items) }
    }
}

/// Builds the parts of a mapping: one tree of pointers, one list of problems.
struct Compiler<'s, 'p> {
    tries: Tries,
    scheme: &'s Scheme,
    trust: bool,
    problems: &'p mut Problems,
}

impl Compiler<'_, '_> {
    fn places(&mut self, key: &str, texts: &[String]) -> Vec<Reference> {
        self.tries.add(key, texts, self.scheme, self.trust, self.problems)
    }

    fn time(&mut self, key: &str, texts: &[String], unit: Option<TimeUnit>) -> TimeRule {
        if texts.is_empty() != unit.is_none() {
            self.problems.add(format!("{key}.time_unit"), "it is needed exactly if `time` is given");
        }
        TimeRule { places: self.places(&format!("{key}.time"), texts), unit }
    }

    fn thin(&mut self, spec: &ThinSpec) -> ThinPlan {
        let marker = self.problems.take("thin.marker", Pointer::parse(&spec.marker)).unwrap_or_default();
        ThinPlan {
            marker: self.tries.item.add(&marker),
            value: spec.value.clone(),
            id: self.places("thin.id", &spec.id),
            object_type: self.places("thin.type", &spec.object_type),
            time: self.time("thin", &spec.time, spec.time_unit),
        }
    }

    fn rule(&mut self, kind: &Kind, spec: &EntitySpec, thin: bool) -> Rule {
        let key = format!("entities.{kind}");
        object::check_kind(kind, self.problems);
        if !thin && !spec.thin.is_empty() {
            self.problems.add(format!("{key}.thin"), "it says nothing without a section `thin`");
        }
        if spec.types.is_empty() && spec.thin.is_empty() {
            self.problems.add(format!("{key}.types"), "no event is about this kind; name types");
        }
        let order = OrderSpec { version: &spec.version, updated_at: &spec.updated_at, unit: spec.updated_at_unit };
        let object = ObjectPlan::compile(&key, &spec.object, spec, &order, &mut self.tries.item, self.problems);
        Rule { kind: kind.clone(), object }
    }
}
