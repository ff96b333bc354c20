//! Logs: one structured line an event, as text or JSON, to the standard error stream.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::EnvFilter;

use crate::domain::suggest::{did_you_mean, nearest};

/// The words for how much is logged.
const WORDS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// What holds unless the level names the same target: a stranger's garbled request is no error of this server, and
/// what the HTTP library says of it is answered to the stranger too.
const QUIET: &str = "actix_http=off";

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
#[error(
    "`{text}` is no log level: {why}; use `error`, `warn`, `info`, `debug`, `trace`, `off`, or `info,tollgate=debug`"
)]
pub struct LevelError {
    text: String,
    why: String,
}

/// Starts logging. A second call changes nothing: the first has the process.
pub fn init(settings: &Settings, color: bool) {
    let lines = tracing_subscriber::fmt().with_env_filter(settings.level.filter()).with_writer(std::io::stderr);
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
        let wrong = |why: String| LevelError { text: text.to_owned(), why };
        text.split(',').try_for_each(directive).map_err(wrong)?;
        EnvFilter::builder().parse(text).map_err(|error| wrong(error.to_string()))?;
        Ok(Self(text.to_owned()))
    }
}

impl Level {
    fn filter(&self) -> EnvFilter {
        // The level was checked when it was read. Of two directives for one target the later counts.
        EnvFilter::builder().parse_lossy(format!("{QUIET},{}", self.0))
    }
}

/// Checks what the filter would take without a word: a bare word that is no level would be the name of a target.
fn directive(text: &str) -> Result<(), String> {
    let word = text.rsplit_once('=').map_or(text, |(_, word)| word).trim();
    let known = |known: &&str| known.eq_ignore_ascii_case(word);
    if word.is_empty() {
        return Err("a level is missing".to_owned());
    }
    // A span with its fields may have any form.
    if text.contains('[') || WORDS.iter().any(known) {
        return Ok(());
    }
    Err(format!("`{word}` is unknown{}", did_you_mean(nearest(word, WORDS))))
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
        check("ERROR", true);
        check("off", true);
        check("info,[request{id=1}]=debug", true);
        for wrong in ["info,tollgate=loud", "loud", "", " ", "info,", "tollgate", "tollgate="] {
            check(wrong, false);
        }
        let error = "info,tollgate=debgu".parse::<Level>().unwrap_err().to_string();
        assert!(error.contains("`debgu` is unknown (did you mean `debug`?)"), "{error}");
    }

    #[test]
    fn what_strangers_send_is_no_error_of_ours_unless_it_is_asked_for() {
        let check = |level: &str, quiet: bool| {
            let filter = level.parse::<Level>().unwrap().filter().to_string();
            assert_eq!(filter.contains("actix_http=off"), quiet, "{filter}");
        };
        check("info", true);
        check("debug,tollgate=trace", true);
        check("info,actix_http=debug", false);
    }
}
