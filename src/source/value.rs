//! Values of an event as they were written, and what they mean: ids, times, versions.

use std::fmt;
use std::sync::Arc;

use super::spec::TimeUnit;
use crate::domain::Timestamp;
use crate::domain::entity::ENTITY_ID_LEN_MAX;

/// How much of a value is shown in an error.
const SHOWN_MAX: usize = 64;

/// A value of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    /// Of the body: JSON text.
    Json(&'a str),
    /// Of a header: plain text.
    Header(&'a str),
}

impl Value<'_> {
    /// Whether it is `null`, which is as good as missing.
    pub(super) fn is_null(self) -> bool {
        self == Value::Json("null")
    }

    /// The content of a string.
    pub(super) fn string(self) -> Option<String> {
        match self {
            Self::Json(json) if json.starts_with('"') => serde_json::from_str(json).ok(),
            Self::Json(_) => None,
            Self::Header(text) => Some(text.to_owned()),
        }
    }

    /// An id: the content of a string, or the digits of a whole number; never empty.
    pub(super) fn id(self) -> Option<String> {
        let digits = |json: &str| json.bytes().all(|b| b.is_ascii_digit()).then(|| json.to_owned());
        match self {
            Self::Json(json) => self.string().or_else(|| digits(json)),
            Self::Header(_) => self.string(),
        }
        .filter(|id| !id.is_empty())
    }

    /// An entity's id. One that is there but cannot be used is an error, not silence: its entity would be missed.
    pub(super) fn entity_id(self) -> Result<Arc<str>, String> {
        self.id().filter(|id| id.len() <= ENTITY_ID_LEN_MAX).map(Arc::from).ok_or_else(|| {
            format!("found {self}, expected an id: a string of 1 to {ENTITY_ID_LEN_MAX} bytes, or a whole number")
        })
    }

    /// A version: a whole number, as such or in a string.
    pub(super) fn version(self) -> Result<u64, String> {
        let read = self.id().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        read.and_then(|text| text.parse().ok()).ok_or_else(|| format!("found {self}, expected a whole number"))
    }

    /// Whether this is live traffic: `true` or `false`, as such or in a string.
    pub(super) fn live(self) -> Result<bool, String> {
        match self.string().as_deref().or(match self {
            Self::Json(json) => Some(json),
            Self::Header(_) => None,
        }) {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) | None => Err(format!("found {self}, expected true or false")),
        }
    }

    /// An instant.
    pub(super) fn time(self, unit: TimeUnit) -> Result<Timestamp, String> {
        let text = match self {
            Self::Json(json) if json.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Some(json.to_owned()),
            Self::Json(_) | Self::Header(_) => self.string(),
        };
        text.as_deref().and_then(|text| unit.read(text)).ok_or_else(|| {
            let in_ms = || text.as_deref().and_then(|text| TimeUnit::UnixMs.read(text));
            let milliseconds = unit == TimeUnit::UnixS && in_ms().is_some();
            let near = if milliseconds { " (is it `unix_ms`?)" } else { "" };
            format!("found {self}, expected {}{near}", unit.expected())
        })
    }
}

impl fmt::Display for Value<'_> {
    /// The value between backticks, cut if it is long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Json(text) | Self::Header(text)) = self;
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => write!(f, "`{}...` ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
            None => write!(f, "`{text}`"),
        }
    }
}

/// Whether a JSON text is an object, or else what it is.
pub(super) fn check_object(json: &str) -> Result<(), String> {
    let what = match json.trim_start().bytes().next() {
        Some(b'{') => return Ok(()),
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "null",
        Some(_) | None => "a number",
    };
    Err(format!("expected an object, found {what}"))
}
