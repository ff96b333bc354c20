//! Secrets: read from the variables and files that sources name, and given to nobody but the compiled source.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use secrecy::SecretString;

use super::{Config, Environment, Problem};
use crate::domain::SourceName;
use crate::source::spec::SourceSpec;
use crate::source::{Secrets, SigningSecret, Source};

/// The sources of a configuration, ready to verify and map.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Those that are on.
    pub on: BTreeMap<SourceName, Arc<Source>>,
    /// Those that are off, and why.
    pub off: Vec<Off>,
}

/// A source that is off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Off {
    /// The source.
    pub source: SourceName,
    /// Why, and what would turn it on.
    pub why: String,
}

impl Config {
    /// Reads the secrets and compiles the sources. A source without a signing secret is off, and one without an
    /// API key has no upstream.
    ///
    /// # Errors
    /// Every secret that can't be used, and every declaration that doesn't fit together.
    pub fn sources(&self, environment: &Environment) -> Result<Sources, Vec<Problem>> {
        let mut sources = Sources::default();
        let mut problems = Vec::new();
        for (name, declared) in &self.sources {
            match one(&declared.spec, environment) {
                Ok(Ok(source)) => {
                    sources.on.insert(name.clone(), Arc::new(source));
                }
                Ok(Err(why)) => sources.off.push(Off { source: name.clone(), why }),
                Err(found) => problems.extend(found),
            }
        }
        if problems.is_empty() { Ok(sources) } else { Err(problems) }
    }
}

/// The source, or why it is off.
fn one(spec: &SourceSpec, environment: &Environment) -> Result<Result<Source, String>, Vec<Problem>> {
    let signing = signing(spec, environment).map_err(|problem| vec![problem])?;
    if signing.is_empty() {
        return Ok(Err(why_off(spec)));
    }
    let key = |variable: Option<&String>| api_key(spec, variable, environment).map_err(|problem| vec![problem]);
    let upstream = spec.upstream.as_ref();
    let secrets = Secrets {
        signing,
        api_key: key(upstream.and_then(|upstream| upstream.api_key_env.as_ref()))?,
        api_key_test: key(upstream.and_then(|upstream| upstream.api_key_test_env.as_ref()))?,
    };
    let problem = |found: crate::source::Problem| {
        let origin = format!("source `{}`", found.name);
        if found.key.starts_with("secret") {
            Problem::of_secret(&origin, &found.key, &found.message)
        } else {
            Problem::new(&origin, &found.key, &found.message)
        }
    };
    Source::compile(spec, &secrets).map(Ok).map_err(|found| found.into_iter().map(problem).collect())
}

fn why_off(spec: &SourceSpec) -> String {
    match &spec.secrets_env {
        Some(variable) => format!("`{variable}` is not set; set it to the source's signing secret"),
        None => format!("it names no secret; set `sources.{}.secrets_env` or `secrets_file`", spec.name),
    }
}

/// The signing secrets: those of the variable, then those of the file.
fn signing(spec: &SourceSpec, environment: &Environment) -> Result<Vec<SigningSecret>, Problem> {
    let mut secrets = Vec::new();
    if let Some((variable, text)) = spec.secrets_env.as_ref().and_then(|name| Some((name, environment.get(name)?))) {
        let unreadable = |error: crate::source::Unreadable| {
            let origin = format!("environment variable `{variable}`");
            Problem::of_secret(&origin, &format!("sources.{}.secrets_env", spec.name), &error.to_string())
        };
        secrets.extend(SigningSecret::from_variable(text).map_err(unreadable)?);
    }
    if let Some(file) = &spec.secrets_file {
        let (origin, key) = (format!("file `{file}`"), format!("sources.{}.secrets_file", spec.name));
        let unusable = |detail: &str| Problem::of_secrets_file(&origin, &key, detail);
        let text = std::fs::read_to_string(Path::new(file))
            .map_err(|error| unusable(&format!("it can't be read: {error}")))?;
        let found =
            SigningSecret::from_file(&text).map_err(|error| Problem::of_secret(&origin, &key, &error.to_string()))?;
        if found.is_empty() {
            // Whoever names a file means the source to be on.
            return Err(unusable("it holds no secret; empty lines and lines that start with `#` don't count"));
        }
        secrets.extend(found);
    }
    Ok(secrets)
}

/// The API key of a variable. Padding is refused rather than trimmed: it hides what else went wrong in copying.
fn api_key(
    spec: &SourceSpec,
    variable: Option<&String>,
    environment: &Environment,
) -> Result<Option<SecretString>, Problem> {
    let Some((variable, text)) = variable.and_then(|variable| Some((variable, environment.get(variable)?))) else {
        return Ok(None);
    };
    let wrong = |detail: &str| {
        let key = format!("sources.{}.upstream", spec.name);
        Err(Problem::of_secret(&format!("environment variable `{variable}`"), &key, detail))
    };
    if text.is_empty() {
        return wrong("the API key is empty; unset the variable, or set it to what the provider shows");
    }
    if !text.chars().all(|c| c.is_ascii_graphic()) {
        return wrong("the API key has spaces or characters that no header can carry; copy it again");
    }
    Ok(Some(SecretString::from(text)))
}
