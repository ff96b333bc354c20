//! What is wrong with a source's declaration, all of it at once.

use crate::domain::{SourceName, name};

/// One thing that is wrong with a source's declaration or its secrets. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("source `{name}`: {key}: {message}")]
pub struct Problem {
    /// The source.
    pub name: String,
    /// The key in the source's file, for example `signature.tolerance_s`.
    pub key: String,
    /// What is wrong, and what to do.
    pub message: String,
}

/// Collects the problems of one source.
#[derive(Debug)]
pub(super) struct Problems {
    name: String,
    found: Vec<Problem>,
}

impl Problems {
    /// None yet.
    pub(super) fn of(name: &str) -> Self {
        Self { name: name.to_owned(), found: Vec::new() }
    }

    /// One more.
    pub(super) fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.found.push(Problem { name: self.name.clone(), key: key.into(), message: message.into() });
    }

    /// The value of a result, or one more problem.
    pub(super) fn take<T>(&mut self, key: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.add(key, message)).ok()
    }

    /// One more if this is no name of an HTTP header.
    pub(super) fn check_header_name(&mut self, key: &str, name: &str) {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)) {
            self.add(key, format!("`{name}` is not the name of a header"));
        }
    }

    /// The source's name; one more if it cannot stand in an address.
    pub(super) fn check_source_name(&mut self, name: &SourceName) -> SourceName {
        if !name::is_valid(name.as_str()) || name.as_str().contains('/') {
            self.add("name", format!("`{name}` is not a name; expected 1 to 64 of `A-Z a-z 0-9 _ - .`"));
        }
        name.clone()
    }

    /// The problems, if there are any.
    pub(super) fn into_result(self) -> Result<(), Vec<Problem>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}
