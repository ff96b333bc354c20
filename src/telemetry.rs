//! Logs: one structured line an event, as text or JSON, to the standard error stream.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::{EnvFilter, ParseError};

/// How logs are written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is written.
    pub level: Level,
    /// In which form.
    pub format: Format,
}

/// What is logged: a level, or directives such as `info,tollgate::engine=debug`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Level(String);

/// The form of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What is wrong with a level.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is no log level: {source}; use `error`, `warn`, `info`, `debug`, `trace`, or `info,tollgate=debug`")]
pub struct LevelError {
    text: String,
    source: ParseError,
}

/// Starts logging. A second call changes nothing: the first has the process.
pub fn init(settings: &Settings, color: bool) {
    // The level was checked when it was read.
    let filter = EnvFilter::builder().parse_lossy(&settings.level.0);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.format {
        Format::Text => lines.with_ansi(color).try_init(),
        Format::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging was started before");
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        let text = text.trim();
        match EnvFilter::builder().parse(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(source) => Err(LevelError { text: text.to_owned(), source }),
        }
    }
}

impl TryFrom<String> for Level {
    type Error = LevelError;

    fn try_from(text: String) -> Result<Self, LevelError> {
        text.parse()
    }
}

impl From<Level> for String {
    fn from(level: Level) -> Self {
        level.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_checked_when_it_is_read() {
        let check = |text: &str, fits: bool| assert_eq!(text.parse::<Level>().is_ok(), fits, "{text}");
        check("info", true);
        check(" debug ", true);
        check("warn,tollgate::engine=trace", true);
        check("info,tollgate=loud", false);
    }
}
