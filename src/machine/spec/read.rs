//! Reading: TOML text to a draft, key by key, with a place for everything.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::problem::{Fault, Part, Report};
use crate::domain::name::is_valid;
use crate::domain::suggest::nearest;
use crate::domain::{MachineName, StateName};
use crate::machine::graph::{OnDivergence, OnGap, Policies};

const FILE_KEYS: &[&str] = &["name", "version", "doc", "states", "transitions", "policies"];
const STATE_KEYS: &[&str] = &["name", "initial", "terminal", "gone", "doc"];
const TRANSITION_KEYS: &[&str] = &["from", "to", "event"];
const POLICY_KEYS: &[&str] = &["on_gap", "on_divergence"];

/// A value, and the byte of the text at which it stands.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// What a file says, as far as it could be read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: Option<Located<MachineName>>,
    pub(super) version: Option<u32>,
    pub(super) doc: String,
    /// None if the key is missing or no array.
    pub(super) states: Option<Located<Vec<DraftState>>>,
    pub(super) transitions: Vec<DraftTransition>,
    pub(super) policies: Policies,
    /// Whether a part of a state or of a transition could not be read, so that what follows from all of them is
    /// not known.
    pub(super) partial: bool,
}

/// A state as written.
#[derive(Debug)]
pub(super) struct DraftState {
    pub(super) name: Located<StateName>,
    pub(super) doc: String,
    pub(super) initial: bool,
    pub(super) terminal: bool,
    pub(super) gone: bool,
}

/// A transition as written: from several states to one.
#[derive(Debug)]
pub(super) struct DraftTransition {
    pub(super) from: Vec<Located<StateName>>,
    pub(super) to: Located<StateName>,
    pub(super) event: Option<StateName>,
}

/// Reads a draft, and reports everything that is wrong with a single place of the text.
pub(super) fn read(text: &str, report: &mut Report<'_>) -> Draft {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or(text.len(), |span| span.start.min(text.len()));
        report.add(at, Fault::Syntax(error.message().to_owned()));
    }
    let mut reader = Reader { report, partial: false };
    let file = reader.table(Part::File, 0, document.get_ref(), FILE_KEYS);
    let name = reader.required(&file, "name").and_then(|value| reader.name("name", "machine", value));
    let version = reader.required(&file, "version").and_then(|value| reader.version(value));
    let doc = reader.doc(&file);
    let states = reader.states(&file);
    let transitions = reader.transitions(&file);
    let policies = reader.policies(&file);
    let partial = reader.partial;
    let name = name.map(|name| Located { value: MachineName::new(&name.value), at: name.at });
    Draft { name, version, doc, states, transitions, policies, partial }
}

type Value<'d> = &'d Spanned<DeValue<'d>>;

/// A table's known keys.
struct Table<'d> {
    part: Part,
    at: usize,
    values: BTreeMap<&'static str, Value<'d>>,
}

impl<'d> Table<'d> {
    fn get(&self, key: &str) -> Option<Value<'d>> {
        self.values.get(key).copied()
    }
}

struct Reader<'r, 't> {
    report: &'r mut Report<'t>,
    partial: bool,
}

impl Reader<'_, '_> {
    /// Takes a table's known keys and reports the others. A key that is almost a known one is read as that.
    fn table<'d>(
        &mut self,
        part: Part,
        at: usize,
        table: &'d DeTable<'d>,
        known: &'static [&'static str],
    ) -> Table<'d> {
        let mut values = BTreeMap::new();
        let has = |key: &str| table.keys().any(|other| other.get_ref() == key);
        for (key, value) in table {
            let (text, key_at) = (key.get_ref().as_ref(), key.span().start);
            if let Some(key) = known.iter().find(|key| **key == text) {
                values.insert(*key, value);
                continue;
            }
            self.report.add(key_at, Fault::UnknownKey { key: text.to_owned(), part, known });
            if let Some(key) = nearest(text, known.iter().copied()).filter(|key| !has(key)) {
                values.entry(key).or_insert(value);
            }
        }
        Table { part, at, values }
    }

    fn required<'d>(&mut self, table: &Table<'d>, key: &'static str) -> Option<Value<'d>> {
        let value = table.get(key);
        if value.is_none() {
            self.report.add(table.at, Fault::MissingKey { key, part: table.part });
        }
        value
    }

    fn wrong_type(&mut self, key: &'static str, expected: &'static str, value: Value<'_>) {
        self.report.add(value.span().start, Fault::WrongType { key, expected, found: type_of(value.get_ref()) });
    }

    fn text(&mut self, key: &'static str, value: Value<'_>) -> Option<Located<String>> {
        if let DeValue::String(text) = value.get_ref() {
            return Some(Located { value: text.clone().into_owned(), at: value.span().start });
        }
        self.wrong_type(key, "a string", value);
        None
    }

    /// A name. A malformed one is reported and kept, so that what refers to it is not reported as well.
    fn name(&mut self, key: &'static str, what: &'static str, value: Value<'_>) -> Option<Located<String>> {
        let name = self.text(key, value)?;
        if !is_valid(&name.value) {
            self.report.add(name.at, Fault::BadName { what, name: name.value.clone() });
        }
        Some(name)
    }

    fn doc(&mut self, table: &Table<'_>) -> String {
        let text = table.get("doc").and_then(|value| self.text("doc", value));
        text.map(|text| text.value.trim().to_owned()).unwrap_or_default()
    }

    fn flag(&mut self, table: &Table<'_>, key: &'static str) -> bool {
        let Some(value) = table.get(key) else { return false };
        if let DeValue::Boolean(flag) = value.get_ref() {
            return *flag;
        }
        self.wrong_type(key, "true or false", value);
        self.partial = true;
        false
    }

    fn version(&mut self, value: Value<'_>) -> Option<u32> {
        let DeValue::Integer(number) = value.get_ref() else {
            self.wrong_type("version", "a whole number", value);
            return None;
        };
        let version = whole(number).filter(|version| *version > 0);
        if version.is_none() {
            self.report.add(value.span().start, Fault::BadVersion(number.to_string()));
        }
        version
    }

    /// The tables of an array; None if there is no array.
    fn tables<'d>(&mut self, file: &Table<'d>, key: &'static str) -> Option<Vec<(usize, &'d DeTable<'d>)>> {
        let value = self.required(file, key)?;
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_type(key, "an array of tables", value);
            self.partial = true;
            return None;
        };
        let mut tables = Vec::new();
        for item in items {
            if let DeValue::Table(table) = item.get_ref() {
                tables.push((item.span().start, table));
            } else {
                self.wrong_type(key, "an array of tables", item);
                self.partial = true;
            }
        }
        Some(tables)
    }

    fn states(&mut self, file: &Table<'_>) -> Option<Located<Vec<DraftState>>> {
        let tables = self.tables(file, "states")?;
        let at = file.get("states").map_or(0, |value| value.span().start);
        let mut states = Vec::new();
        for (at, table) in tables {
            let table = self.table(Part::State, at, table, STATE_KEYS);
            let name = self.required(&table, "name").and_then(|value| self.name("name", "state", value));
            let doc = self.doc(&table);
            let [initial, terminal, gone] = ["initial", "terminal", "gone"].map(|key| self.flag(&table, key));
            if let Some(name) = name.as_ref().map(state) {
                states.push(DraftState { name, doc, initial, terminal, gone });
            } else {
                self.partial = true;
            }
        }
        Some(Located { value: states, at })
    }

    fn transitions(&mut self, file: &Table<'_>) -> Vec<DraftTransition> {
        let Some(tables) = self.tables(file, "transitions") else {
            self.partial = true;
            return Vec::new();
        };
        let mut transitions = Vec::new();
        for (at, table) in tables {
            let table = self.table(Part::Transition, at, table, TRANSITION_KEYS);
            let from = self.required(&table, "from").map(|value| self.from(value));
            let to = self.required(&table, "to").and_then(|value| self.text("to", value));
            let event = table.get("event").and_then(|value| self.name("event", "event", value));
            if let (Some(from), Some(to)) = (from, to.as_ref().map(state)) {
                transitions.push(DraftTransition { from, to, event: event.map(|event| StateName::new(&event.value)) });
            } else {
                self.partial = true;
            }
        }
        transitions
    }

    fn from(&mut self, value: Value<'_>) -> Vec<Located<StateName>> {
        let at = value.span().start;
        if let DeValue::String(text) = value.get_ref() {
            self.report.add(at, Fault::BareFrom { state: text.clone().into_owned() });
            return vec![Located { value: StateName::new(text), at }];
        }
        let DeValue::Array(items) = value.get_ref() else {
            self.wrong_type("from", "an array of strings", value);
            self.partial = true;
            return Vec::new();
        };
        if items.is_empty() {
            self.report.add(at, Fault::EmptyFrom);
            self.partial = true;
        }
        items.iter().filter_map(|item| self.origin(item)).collect()
    }

    fn origin(&mut self, item: Value<'_>) -> Option<Located<StateName>> {
        if let DeValue::String(text) = item.get_ref() {
            return Some(Located { value: StateName::new(text), at: item.span().start });
        }
        self.wrong_type("from", "an array of strings", item);
        self.partial = true;
        None
    }

    fn policies(&mut self, file: &Table<'_>) -> Policies {
        let Some(value) = file.get("policies") else { return Policies::default() };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type("policies", "a table", value);
            return Policies::default();
        };
        let table = self.table(Part::Policies, value.span().start, table, POLICY_KEYS);
        Policies {
            on_gap: self.choice(&table, "on_gap", OnGap::ALL, OnGap::as_str),
            on_divergence: self.choice(&table, "on_divergence", OnDivergence::ALL, OnDivergence::as_str),
        }
    }

    /// One of a closed set of words; the default without one.
    fn choice<T: Copy + Default, const N: usize>(
        &mut self,
        table: &Table<'_>,
        key: &'static str,
        all: [T; N],
        as_str: fn(T) -> &'static str,
    ) -> T {
        let Some(text) = table.get(key).and_then(|value| self.text(key, value)) else { return T::default() };
        let choice = all.into_iter().find(|choice| as_str(*choice) == text.value);
        choice.unwrap_or_else(|| {
            let known = all.map(as_str).to_vec();
            self.report.add(text.at, Fault::BadPolicy { key, value: text.value, known });
            T::default()
        })
    }
}

fn state(text: &Located<String>) -> Located<StateName> {
    Located { value: StateName::new(&text.value), at: text.at }
}

fn whole(number: &DeInteger<'_>) -> Option<u32> {
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
