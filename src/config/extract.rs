//! From merged layers to typed sections, with errors that name the key, its origin and the nearest right name.

use figment::Figment;
use figment::error::{Error, Kind};
use figment::value::{Dict, Value};
use serde::de::DeserializeOwned;

use super::Problem;
use crate::domain::suggest::{did_you_mean, nearest};

/// The merged dictionary; empty if there is none.
pub(super) fn root(merged: &Figment) -> Dict {
    merged.extract::<Value>().ok().and_then(Value::into_dict).unwrap_or_default()
}

/// A section (or a source) as its type. `path` is where it stands, for example `["sources", "stripe"]`.
pub(super) fn section<T: DeserializeOwned>(merged: &Figment, value: &Value, path: &[&str]) -> Result<T, Problem> {
    value.deserialize::<T>().map_err(|error| problem(merged, value, path, &error))
}

fn problem(merged: &Figment, value: &Value, path: &[&str], error: &Error) -> Problem {
    // An unknown name is not in the value's keys as such; the walk then stops at the table that has it.
    let origin = origin(merged, value, &error.path);
    let key: Vec<_> = path.iter().copied().chain(error.path.iter().map(String::as_str)).collect();
    let message = match &error.kind {
        Kind::UnknownField(name, known) => {
            format!("it is unknown{}", did_you_mean(nearest(name, known.iter().copied())))
        }
        Kind::UnknownVariant(word, known) => {
            let all = known.join("`, `");
            format!("`{word}` is not one of `{all}`{}", did_you_mean(nearest(word, known.iter().copied())))
        }
        Kind::MissingField(name) => format!("`{name}` is missing"),
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            format!("expected {expected}, found {actual}")
        }
        Kind::Message(_)
        | Kind::InvalidLength(..)
        | Kind::DuplicateField(_)
        | Kind::ISizeOutOfRange(_)
        | Kind::USizeOutOfRange(_)
        | Kind::Unsupported(_)
        | Kind::UnsupportedKey(..) => error.kind.to_string(),
    };
    Problem::new(&origin, &key.join("."), &message)
}

/// The layer of the deepest value on the path that exists.
pub(super) fn origin(merged: &Figment, value: &Value, path: &[String]) -> String {
    let mut at = value;
    for key in path {
        let next = match at {
            Value::Dict(_, dict) => dict.get(key),
            Value::Array(_, items) => key.parse().ok().and_then(|index: usize| items.get(index)),
            Value::String(..) | Value::Char(..) | Value::Bool(..) | Value::Num(..) | Value::Empty(..) => None,
        };
        let Some(next) = next else { break };
        at = next;
    }
    let metadata = merged.get_metadata(at.tag());
    metadata.map_or_else(|| "configuration".to_owned(), |metadata| metadata.name.to_string())
}
