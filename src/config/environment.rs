//! The environment: the one place that reads it.

use std::collections::BTreeMap;
use std::fmt;

use super::SECTIONS;

/// What configuration variables start with.
const PREFIX: &str = "TOLLGATE__";

/// Environment variables, taken once. Their values may be secrets, so they are never printed.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

/// A variable that sets a configuration key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Setting<'a> {
    /// The variable's name.
    pub(super) variable: &'a str,
    /// The key's parts, for example `server`, `listen`.
    pub(super) path: Vec<String>,
    /// The text.
    pub(super) value: &'a str,
}

impl Environment {
    /// The variables of this process. A variable whose name or value is not UTF-8 can't be one of ours.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    /// These variables, for tests and for servers within a process.
    pub fn of<K: Into<String>, V: Into<String>>(variables: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// The value of a variable, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether output may be coloured: not if `NO_COLOR` is set to anything.
    #[must_use]
    pub fn allows_color(&self) -> bool {
        self.get("NO_COLOR").is_none_or(str::is_empty)
    }

    /// Variables that look as if they should set a key and set nothing, each with what would.
    #[must_use]
    pub fn slips(&self) -> Vec<String> {
        let slip = |name: &String| {
            let rest = name.strip_prefix("TOLLGATE_")?;
            let (section, key) = SECTIONS.iter().find_map(|section| {
                let section = section.to_uppercase();
                let key = rest.strip_prefix(&section)?.strip_prefix('_')?.to_owned();
                Some((section, key))
            })?;
            let right = format!("{PREFIX}{section}__{}", key.trim_start_matches('_'));
            let message = "sets nothing; two underscores stand between the parts";
            Some(format!("environment variable `{name}` {message}: `{right}`"))
        };
        self.0.keys().filter_map(slip).collect()
    }

    /// The variables `TOLLGATE__SECTION__KEY` as settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = Setting<'_>> {
        self.0.iter().filter_map(|(variable, value)| {
            let path = variable.strip_prefix(PREFIX)?.split("__").map(str::to_lowercase).collect();
            Some(Setting { variable, path, value })
        })
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
