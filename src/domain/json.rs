//! A JSON value kept as the text it came in, so that no number ever passes through a float.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// One JSON value as compact text: what the source sent, without white space between tokens.
///
/// Two values are equal when their compact texts are: `1.50` and `1.5` differ, as they do to an auditor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(SmolStr);

impl RawJson {
    /// Takes text that is already known to be one JSON value, and drops the white space between its tokens.
    #[must_use]
    pub fn from_valid(text: &str) -> Self {
        Self(SmolStr::new(compact(text.trim())))
    }

    /// A JSON string with this content.
    #[must_use]
    pub fn string(content: &str) -> Self {
        Self(SmolStr::from(serde_json::Value::from(content).to_string()))
    }

    /// The compact text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the literal `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0 == "null"
    }

    /// The content if this is a string, the text if it is a number or a boolean; for showing to people.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::from_str::<String>(&self.0).unwrap_or_else(|_| self.0.to_string())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The text without white space outside strings; borrowed when there is none.
fn compact(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains([' ', '\t', '\n', '\r']) || !text.starts_with(['{', '[']) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            in_string = c == '"';
        }
        out.push(c);
    }
    out.into()
}
