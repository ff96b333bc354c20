//! Layers: dictionaries of settings, each of which knows where it came from.

use std::path::Path;

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::Problem;
use super::environment::Setting;

/// One layer; a later one overrides an earlier one key by key.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// Where it came from, for example `` file `tollgate.toml` ``.
    origin: String,
    dict: Dict,
}

impl Layer {
    /// A file that is part of the program. It is checked by tests, but its origin is named like any other.
    pub(super) fn embedded(path: &str, text: &str) -> Result<Self, Problem> {
        Self::read(format!("built-in `{path}`"), text)
    }

    /// A file.
    pub(super) fn file(path: &Path) -> Result<Self, Problem> {
        let origin = format!("file `{}`", path.display());
        match std::fs::read_to_string(path) {
            Ok(text) => Self::read(origin, &text),
            Err(error) => Err(Problem::new(&origin, "", &format!("it can't be read: {error}"))),
        }
    }

    fn read(origin: String, text: &str) -> Result<Self, Problem> {
        let wrong = |detail: &str, offset: Option<usize>| {
            let before = offset.and_then(|offset| text.get(..offset)).map(|before| before.matches('\n').count() + 1);
            let place = before.map_or_else(|| origin.clone(), |line| format!("{origin}, line {line}"));
            Problem::new(&place, "", detail.trim())
        };
        let table: toml::Table =
            toml::from_str(text).map_err(|error| wrong(error.message(), error.span().map(|span| span.start)))?;
        let value = Value::serialize(&table).map_err(|error| wrong(&error.to_string(), None))?;
        Ok(Self { dict: value.into_dict().unwrap_or_default(), origin })
    }

    /// The same below these keys: a source's file stands below `sources.NAME`.
    pub(super) fn below(self, path: &[&str]) -> Self {
        let dict = path.iter().rev().fold(self.dict, |dict, key| Dict::from([((*key).to_owned(), dict.into())]));
        Self { dict, ..self }
    }

    /// A variable of the environment. Its text is read as a number or a boolean where it is one.
    pub(super) fn variable(setting: &Setting<'_>) -> Self {
        // Reading a value can't fail: what is nothing else is text.
        let value: Value = setting.value.parse().unwrap_or_else(|never: std::convert::Infallible| match never {});
        Self::one(format!("environment variable `{}`", setting.variable), &setting.path, value)
    }

    /// A flag of the command line.
    pub(super) fn flag(flag: &str, key: &str, value: &str) -> Self {
        let path: Vec<_> = key.split('.').map(ToOwned::to_owned).collect();
        Self::one(format!("flag `{flag}`"), &path, Value::from(value))
    }

    fn one(origin: String, path: &[String], value: Value) -> Self {
        let nested = path.iter().rev().fold(value, |value, key| Value::from(Dict::from([(key.clone(), value)])));
        Self { origin, dict: nested.into_dict().unwrap_or_default() }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

/// The layers as one dictionary whose values know their layer.
pub(super) fn merge(layers: impl IntoIterator<Item = Layer>) -> Figment {
    layers.into_iter().fold(Figment::new(), Figment::merge)
}
