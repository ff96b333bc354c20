//! One kind's object: where its id, states, order and fields lie, in an event as in an upstream's answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::pattern::Patterns;
use super::pointer::{Captured, Pointer, Slot, Trie};
use super::problem::Problems;
use super::spec::{EntitySpec, MachineSpec, TimeUnit};
use super::value::{Value, check_object};
use crate::domain::name::{self, NAME_LEN_MAX};
use crate::domain::order::TimeOf;
use crate::domain::{Claim, FieldName, Kind, MachineName, OrderKey, RawJson, StateName, Timestamp};

/// The largest value of a kept field in bytes. What is larger, or nested deeper than [`FIELD_DEPTH_MAX`], is kept as
/// `{"left_out":{"bytes":N,"sha256":"..."}}`, so that a change still shows and the old value does not stay.
pub const FIELD_LEN_MAX: usize = 4 * 1024;
/// How far a time may lie ahead of our own clock and still be believed. A clock that is off by more than a day is
/// broken (a wrong zone is off by less), and a time that is believed makes everything before it "older": an entity
/// that nobody can be asked about would never move again.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);
/// The deepest nesting of a kept field.
pub const FIELD_DEPTH_MAX: usize = 32;

/// Where the parts of an object lie in one tree of pointers.
#[derive(Debug)]
pub(super) struct ObjectPlan {
    /// The object itself, unless it is the whole text.
    root: Option<Slot>,
    id: Vec<Slot>,
    version: Vec<Slot>,
    updated_at: Vec<Slot>,
    updated_at_unit: Option<TimeUnit>,
    fields: Vec<(FieldName, Vec<Slot>)>,
    machines: Vec<MachinePlan>,
}

#[derive(Debug)]
struct MachinePlan {
    machine: MachineName,
    state: Vec<Slot>,
    overrides: Patterns<ClaimForm>,
    fallback: Patterns<ClaimForm>,
}

/// A claim as a file declares it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ClaimForm {
    Fixed(Claim),
    /// What happened is what the event's type says.
    HappenedType,
}

/// Where the order of an object lies.
pub(super) struct OrderSpec<'a> {
    pub(super) version: &'a [String],
    pub(super) updated_at: &'a [String],
    pub(super) unit: Option<TimeUnit>,
}

impl ObjectPlan {
    /// Adds an object's pointers, which start at `root`, to a tree.
    pub(super) fn compile(
        key: &str,
        root: &str,
        spec: &EntitySpec,
        order: &OrderSpec<'_>,
        trie: &mut Trie,
        problems: &mut Problems,
    ) -> Self {
        let root = problems.take(&format!("{key}.object"), Pointer::parse(root)).unwrap_or_default();
        let mut slots = |part: &str, pointers: &[String], problems: &mut Problems| -> Vec<Slot> {
            let key = format!("{key}.{part}");
            let parsed = pointers.iter().filter_map(|text| problems.take(&key, Pointer::parse(text)));
            parsed.map(|pointer| trie.add(&root.join(&pointer))).collect()
        };
        let id = slots("id", &spec.id, problems);
        let version = slots("version", order.version, problems);
        let updated_at = slots("updated_at", order.updated_at, problems);
        let mut fields = Vec::new();
        for (name, pointers) in &spec.fields {
            check_name(&format!("{key}.fields"), name.as_str(), problems);
            fields.push((name.clone(), slots(&format!("fields.{name}"), pointers, problems)));
        }
        let mut machines = Vec::new();
        for (machine, spec) in &spec.machines {
            check_name(&format!("{key}.machines"), machine.as_str(), problems);
            let state = slots(&format!("machines.{machine}.state"), &spec.state, problems);
            machines.push(MachinePlan::compile(key, machine, state, spec, problems));
        }
        if id.is_empty() {
            problems.add(format!("{key}.id"), "it is empty; an entity needs an id");
        }
        if machines.is_empty() {
            problems.add(format!("{key}.machines"), "it is empty; name a machine");
        }
        if updated_at.is_empty() != order.unit.is_none() {
            problems.add(format!("{key}.updated_at_unit"), "it is needed exactly if `updated_at` is given");
        }
        let root = (root != Pointer::default()).then(|| trie.add(&root));
        Self { root, id, version, updated_at, updated_at_unit: order.unit, fields, machines }
    }

    /// The machines, in the order of their names.
    pub(super) fn machines(&self) -> impl Iterator<Item = &MachineName> {
        self.machines.iter().map(|plan| &plan.machine)
    }

    /// The object's id; none if it, or the whole object, is missing or null.
    pub(super) fn id(&self, found: &Captured<'_>, trie: &Trie) -> Result<Option<Arc<str>>, String> {
        if let Some((slot, json)) = self.root.and_then(|slot| Some((slot, found.get(slot)?)))
            && json != "null"
        {
            check_object(json).map_err(|why| at(trie, slot, &why))?;
        }
        let Some((slot, value)) = first(found, &self.id) else { return Ok(None) };
        value.entity_id().map(Some).map_err(|why| at(trie, slot, &why))
    }

    /// The order key that the object itself gives, if it does.
    pub(super) fn order_key(&self, found: &Captured<'_>, trie: &Trie) -> Result<Option<OrderKey>, String> {
        if let Some((slot, value)) = first(found, &self.version) {
            return value.version().map(|n| Some(OrderKey::Version(n))).map_err(|why| at(trie, slot, &why));
        }
        if let (Some((slot, value)), Some(unit)) = (first(found, &self.updated_at), self.updated_at_unit) {
            let key = |at| Some(OrderKey::Time { at, of: TimeOf::Object });
            return value.time(unit).map(key).map_err(|why| at(trie, slot, &why));
        }
        Ok(None)
    }

    /// The kept fields that the object speaks of. A `null` is kept: it says that there is no value any more, which
    /// is not the same as saying nothing.
    pub(super) fn fields(&self, found: &Captured<'_>) -> BTreeMap<FieldName, RawJson> {
        let value = |slots: &[Slot]| {
            let given = || slots.iter().filter_map(|slot| found.get(*slot));
            given().find(|json| *json != "null").or_else(|| given().next()).map(kept)
        };
        self.fields.iter().filter_map(|(name, slots)| Some((name.clone(), value(slots)?))).collect()
    }

    /// The state of each machine that the object speaks of.
    pub(super) fn states(&self, found: &Captured<'_>, trie: &Trie) -> Result<BTreeMap<MachineName, StateName>, String> {
        let mut states = BTreeMap::new();
        for plan in &self.machines {
            if let Some(state) = plan.observed(found, trie)? {
                states.insert(plan.machine.clone(), state);
            }
        }
        Ok(states)
    }

    /// What an event of this type says of each machine.
    pub(super) fn claims(
        &self,
        event_type: &str,
        found: &Captured<'_>,
        trie: &Trie,
    ) -> Result<BTreeMap<MachineName, Claim>, String> {
        let claim = |plan: &MachinePlan| Ok((plan.machine.clone(), plan.claim(event_type, found, trie)?));
        self.machines.iter().map(claim).collect()
    }
}

impl MachinePlan {
    fn compile(
        key: &str,
        machine: &MachineName,
        state: Vec<Slot>,
        spec: &MachineSpec,
        problems: &mut Problems,
    ) -> Self {
        let mut forms = |part: &str, claims: &BTreeMap<String, String>| {
            let key = format!("{key}.machines.{machine}.{part}");
            let form = |(pattern, text): (&String, &String)| Some((pattern.clone(), ClaimForm::parse(text)?));
            for (pattern, text) in claims.iter().filter(|(_, text)| ClaimForm::parse(text).is_none()) {
                let expected = "expected `observed:STATE`, `happened:NAME`, `happened`, `none` or `hint`";
                problems.add(&key, format!("`{pattern}`: `{text}` is not a claim; {expected}"));
            }
            Patterns::compile(&key, claims.iter().filter_map(form).collect(), problems)
        };
        let (overrides, fallback) = (forms("override", &spec.overrides), forms("fallback", &spec.fallback));
        Self { machine: machine.clone(), state, overrides, fallback }
    }

    fn claim(&self, event_type: &str, found: &Captured<'_>, trie: &Trie) -> Result<Claim, String> {
        if let Some(form) = self.overrides.find(event_type) {
            return form.claim(event_type);
        }
        if let Some(state) = self.observed(found, trie)? {
            return Ok(Claim::Observed(state));
        }
        self.fallback.find(event_type).map_or(Ok(Claim::Hint), |form| form.claim(event_type))
    }

    /// The state that the object has; none if it is missing, null or empty. Another type is an error: whoever sent it
    /// meant a state, and as a hint it would be blamed on the event.
    fn observed(&self, found: &Captured<'_>, trie: &Trie) -> Result<Option<StateName>, String> {
        let Some((slot, value)) = first(found, &self.state) else { return Ok(None) };
        let expected = format!("expected a state: a string of at most {NAME_LEN_MAX} bytes");
        let fitting = value.string().filter(|state| state.len() <= NAME_LEN_MAX);
        let state = fitting.ok_or_else(|| at(trie, slot, &format!("found {value}, {expected}")))?;
        Ok((!state.is_empty()).then(|| StateName::new(&state)))
    }
}

impl ClaimForm {
    fn parse(text: &str) -> Option<Self> {
        let named = |name: &str| name::is_valid(name).then(|| StateName::new(name));
        match text.split_once(':') {
            Some(("observed", state)) => Some(Self::Fixed(Claim::Observed(named(state)?))),
            Some(("happened", name)) => Some(Self::Fixed(Claim::Happened(named(name)?))),
            Some(_) => None,
            None => match text {
                "happened" => Some(Self::HappenedType),
                "none" => Some(Self::Fixed(Claim::None)),
                "hint" => Some(Self::Fixed(Claim::Hint)),
                _ => None,
            },
        }
    }

    fn claim(&self, event_type: &str) -> Result<Claim, String> {
        match self {
            Self::Fixed(claim) => Ok(claim.clone()),
            Self::HappenedType if event_type.len() <= NAME_LEN_MAX => Ok(Claim::Happened(StateName::new(event_type))),
            Self::HappenedType => Err(format!("the type has more than {NAME_LEN_MAX} bytes, it names no happening")),
        }
    }
}

/// What is wrong, behind the place where it was found.
fn at(trie: &Trie, slot: Slot, why: &str) -> String {
    format!("`{}`: {why}", trie.pointer(slot))
}

/// The order key, unless it is a time too far ahead of the clock to prove anything: then the other one.
pub(super) fn believable(key: OrderKey, clock: Timestamp, otherwise: OrderKey) -> OrderKey {
    match key {
        OrderKey::Time { at, of: _ } if at.since(clock) > AHEAD_MAX => otherwise,
        OrderKey::Time { .. } | OrderKey::Version(_) => key,
    }
}

/// Reports a kind whose name is none.
pub(super) fn check_kind(kind: &Kind, problems: &mut Problems) {
    check_name("entities", kind.as_str(), problems);
}

fn check_name(key: &str, text: &str, problems: &mut Problems) {
    if !name::is_valid(text) {
        let allowed = "expected 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit";
        problems.add(key, format!("`{text}` is not a name; {allowed}"));
    }
}

/// The first value that is there and not null.
fn first<'a>(found: &Captured<'a>, slots: &[Slot]) -> Option<(Slot, Value<'a>)> {
    let values = slots.iter().filter_map(|slot| Some((*slot, Value::Json(found.get(*slot)?))));
    values.into_iter().find(|(_, value)| !value.is_null())
}

/// A field's value, or what stands for it if it is too large.
fn kept(json: &str) -> RawJson {
    let value = RawJson::from_valid(json);
    let bytes = value.as_str().len();
    if bytes <= FIELD_LEN_MAX && depth(json) <= FIELD_DEPTH_MAX {
        return value;
    }
    let sha256 = hex::encode(Sha256::digest(value.as_str()));
    RawJson::from_valid(&format!(r#"{{"left_out":{{"bytes":{bytes},"sha256":"{sha256}"}}}}"#))
}

/// How deep a JSON text is nested.
fn depth(json: &str) -> usize {
    let (mut deepest, mut depth, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in json.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
