//! Configuration: layers of settings, merged key by key, checked as a whole before anything starts.
//!
//! From the weakest: `config/default.toml` (the only place for defaults) and `config/sources/*.toml`, both part of
//! the program; the folder of sources that the configuration names; the file of `--config`; the environment
//! (`TOLLGATE__SECTION__KEY`); flags. An unknown key is an error that names its origin and the nearest right one.
//!
//! Secrets are no part of it: a source names the variable or the file that has them, and [`Config::sources`] reads
//! those, here and nowhere else.

mod environment;
mod extract;
mod layer;
pub mod machines;
mod rules;
mod secret;
mod section;
mod show;
mod unit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use figment::Figment;
use figment::value::{Dict, Value};

use crate::code::{self, Code};
use crate::domain::SourceName;
use crate::domain::suggest::{did_you_mean, nearest};
use crate::source::SHIPPED;
use crate::source::spec::SourceSpec;
use crate::telemetry;
use layer::Layer;

pub use environment::Environment;
pub use secret::{Off, Sources};
pub use section::{Engine, Paths, Retry, RetryOverride, Server, Store};
pub use show::Shown;
pub use unit::{Size, Span};

/// The text of `config/default.toml`.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// Everything that a server can be told.
#[derive(Clone, Debug)]
pub struct Config {
    /// The HTTP server.
    pub server: Server,
    /// Where things lie on the disk.
    pub paths: Paths,
    /// The store.
    pub store: Store,
    /// The engine.
    pub engine: Engine,
    /// Logs.
    pub telemetry: telemetry::Settings,
    /// The sources, on or off.
    pub sources: BTreeMap<SourceName, Declared>,
}

/// A source as it is declared, and what the engine does differently for it.
#[derive(Clone, Debug)]
pub struct Declared {
    /// How it signs, maps and can be asked.
    pub spec: SourceSpec,
    /// Its own retry times.
    pub retry: RetryOverride,
}

/// What a configuration is loaded from, beside what is part of the program.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The file of `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Environment,
    /// Flags that set keys; the strongest.
    pub flags: Vec<Flag>,
}

/// A flag that sets a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flag {
    /// The flag as it is written, for example `--listen`.
    pub name: &'static str,
    /// The key, for example `server.listen`.
    pub key: &'static str,
    /// The value.
    pub value: String,
}

/// One thing that is wrong with a configuration. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{origin}: {}{message}", if key.is_empty() { String::new() } else { format!("`{key}`: ") })]
pub struct Problem {
    /// The file, variable or flag.
    pub origin: String,
    /// The key; empty if it is about the whole.
    pub key: String,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The row of the table of codes.
    pub code: &'static Code,
}

/// Where the sections stand in the order of the default file.
const SECTIONS: [&str; 6] = ["server", "paths", "store", "engine", "telemetry", "sources"];

impl Config {
    /// Merges the layers and checks the result.
    ///
    /// # Errors
    /// Every problem that can be found at once: one for each section and source at least.
    pub fn load(inputs: &Inputs) -> Result<Self, Vec<Problem>> {
        let merged = layer::merge(layers(inputs)?);
        let root = extract::root(&merged);
        let mut problems = unknown_sections(&merged, &root);
        let empty = Value::from(Dict::new());
        let at = |name: &str| root.get(name).unwrap_or(&empty);
        let server = take(&mut problems, extract::section(&merged, at("server"), &["server"]));
        let paths = take(&mut problems, extract::section(&merged, at("paths"), &["paths"]));
        let store = take(&mut problems, extract::section(&merged, at("store"), &["store"]));
        let engine = take(&mut problems, extract::section(&merged, at("engine"), &["engine"]));
        let telemetry = take(&mut problems, extract::section(&merged, at("telemetry"), &["telemetry"]));
        let sources = declared(&merged, at("sources"), &mut problems);
        match (server, paths, store, engine, telemetry) {
            (Some(server), Some(paths), Some(store), Some(engine), Some(telemetry)) if problems.is_empty() => {
                let config = Self { server, paths, store, engine, telemetry, sources };
                let origin = |path: &[&str]| origin_of(&merged, &root, path);
                let problems = section::check(&config, &origin);
                if problems.is_empty() { Ok(config) } else { Err(problems) }
            }
            _ => Err(problems),
        }
    }
}

fn take<T>(problems: &mut Vec<Problem>, result: Result<T, Problem>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

/// The layers that are part of the program: the default file and, behind it, the shipped sources. They are read once:
/// that is most of what loading a configuration takes, and a fuzzer loads many.
static EMBEDDED: LazyLock<Result<(Layer, Vec<Layer>), Problem>> = LazyLock::new(|| {
    let shipped = SHIPPED.iter().map(|(name, text)| {
        let layer = Layer::embedded(&format!("config/sources/{name}.toml"), text);
        layer.map(|layer| layer.below(&["sources", name]))
    });
    Ok((Layer::embedded("config/default.toml", DEFAULT)?, shipped.collect::<Result<_, _>>()?))
});

/// All layers, the weakest first. The folder of sources is itself a setting, so it is read in between.
fn layers(inputs: &Inputs) -> Result<Vec<Layer>, Vec<Problem>> {
    let (default, shipped) = EMBEDDED.as_ref().map_err(|problem| vec![problem.clone()])?;
    let mut problems = Vec::new();
    let mut strong: Vec<Layer> = Vec::new();
    strong.extend(inputs.file.as_deref().and_then(|file| take(&mut problems, Layer::file(file))));
    strong.extend(inputs.environment.settings().map(|setting| Layer::variable(&setting)));
    strong.extend(inputs.flags.iter().map(|flag| Layer::flag(flag.name, flag.key, &flag.value)));
    let first = layer::merge(std::iter::once(default).chain(&strong).cloned());
    let folder: Option<Paths> =
        extract::root(&first).get("paths").and_then(|value| extract::section(&first, value, &["paths"]).ok());
    let own = folder.and_then(|paths| paths.sources()).map(|folder| in_folder(&folder, &mut problems));
    if problems.is_empty() {
        let embedded = std::iter::once(default).chain(shipped).cloned();
        Ok(embedded.chain(own.into_iter().flatten()).chain(strong).collect())
    } else {
        Err(problems)
    }
}

/// The sources of a folder: each `NAME.toml` is the source of that name.
fn in_folder(folder: &Path, problems: &mut Vec<Problem>) -> Vec<Layer> {
    let origin = format!("folder `{}`", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(Problem::new(&origin, "paths.sources", &format!("it can't be read: {error}")));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let layer = |file: &PathBuf| {
        let name = file.file_stem()?.to_str()?;
        take(problems, Layer::file(file)).map(|layer| layer.below(&["sources", name]))
    };
    files.iter().filter_map(layer).collect()
}

fn unknown_sections(merged: &Figment, root: &Dict) -> Vec<Problem> {
    let unknown = root.iter().filter(|(name, _)| !SECTIONS.contains(&name.as_str()));
    let problem = |(name, value): (&String, &Value)| {
        let message = format!("it is unknown{}", did_you_mean(nearest(name, SECTIONS)));
        Problem::new(&extract::origin(merged, value, &[]), name, &message)
    };
    unknown.map(problem).collect()
}

/// The sources, each checked on its own.
fn declared(merged: &Figment, value: &Value, problems: &mut Vec<Problem>) -> BTreeMap<SourceName, Declared> {
    let Some(all) = value.as_dict() else {
        problems.push(Problem::new(&extract::origin(merged, value, &[]), "sources", "expected a table of sources"));
        return BTreeMap::new();
    };
    let mut sources = BTreeMap::new();
    for (name, value) in all {
        let declared = one(merged, name, value).map_err(|problem| with_nearest(problem, name, all));
        if let Some(declared) = take(problems, declared) {
            sources.insert(SourceName::new(name), declared);
        }
    }
    sources
}

fn one(merged: &Figment, name: &str, value: &Value) -> Result<Declared, Problem> {
    let path = ["sources", name];
    let wrong = |key: &str, message: &str| {
        Problem::new(&extract::origin(merged, value, &[key.to_owned()]), &format!("sources.{name}.{key}"), message)
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(wrong("", "a source's name is made of small letters, digits, `_` and `-`"));
    }
    let mut spec = value.clone();
    let mut retry = RetryOverride::default();
    if let Value::Dict(tag, dict) = &mut spec {
        if let Some(own) = dict.remove("retry") {
            retry = extract::section(merged, &own, &["sources", name, "retry"])?;
        }
        // A source that is declared below `sources.NAME` has said its name.
        dict.entry("name".to_owned()).or_insert_with(|| Value::String(*tag, name.to_owned()));
    }
    let spec: SourceSpec = extract::section(merged, &spec, &path)?;
    if spec.name.as_str() == name {
        Ok(Declared { spec, retry })
    } else {
        Err(wrong("name", &format!("it is `{}`, and the source stands under `{name}`; make them one", spec.name)))
    }
}

/// A source that lacks most of its keys is more likely a slip in the name of another.
fn with_nearest(mut problem: Problem, name: &str, all: &Dict) -> Problem {
    if problem.message.ends_with("is missing") {
        let others = all.keys().map(String::as_str).filter(|other| *other != name);
        problem.message.push_str(&did_you_mean(nearest(name, others)));
    }
    problem
}

/// The layer that a key was set in.
fn origin_of(merged: &Figment, root: &Dict, path: &[&str]) -> String {
    let path: Vec<_> = path.iter().map(|key| (*key).to_owned()).collect();
    extract::origin(merged, &Value::from(root.clone()), &path)
}

impl Problem {
    fn new(origin: &str, key: &str, message: &str) -> Self {
        let (origin, key) = (origin.to_owned(), key.to_owned());
        Self { origin, key, message: message.to_owned(), code: &code::CONFIG_INVALID }
    }

    fn of_secrets_file(origin: &str, key: &str, message: &str) -> Self {
        Self { code: &code::SECRETS_FILE_INVALID, ..Self::new(origin, key, message) }
    }

    fn of_secret(origin: &str, key: &str, message: &str) -> Self {
        Self { code: &code::SECRET_INVALID, ..Self::new(origin, key, message) }
    }
}

#[cfg(any(test, fuzzing))]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken law is told by a panic"
)]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;
