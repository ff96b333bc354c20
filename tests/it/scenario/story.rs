//! The form of a story.

use std::path::Path;

use serde::Deserialize;

/// A story.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Story {
    /// What it shows, as a sentence.
    pub(crate) title: String,
    /// Why it matters, for the reader of the snapshot.
    pub(crate) about: String,
    /// The source that the deliveries come from.
    pub(crate) source: String,
    /// When it starts (RFC 3339).
    pub(crate) start: String,
    /// Whether the source can be asked; without it nobody can.
    #[serde(default)]
    pub(crate) upstream: bool,
    /// What happens, in order.
    pub(crate) step: Vec<Step>,
}

/// One step: exactly one of its parts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    /// A remark for the reader.
    pub(crate) note: Option<String>,
    /// A delivery's body, as JSON text.
    pub(crate) deliver: Option<String>,
    /// The delivery's id in the header, for sources that have one there.
    pub(crate) id: Option<String>,
    /// Deliver it this often.
    pub(crate) times: Option<u32>,
    /// Sign as if this many seconds ago.
    pub(crate) signed_ago_s: Option<i64>,
    /// Change the body after signing.
    pub(crate) forged: bool,
    /// Let time pass, in seconds.
    pub(crate) pass_s: Option<f64>,
    /// What the upstream answers from now on.
    pub(crate) answer: Option<Answer>,
    /// Replay all dead letters.
    pub(crate) replay: bool,
}

/// What the upstream answers for a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// The path and query.
    pub(crate) path: String,
    /// The status; 0 for no answer at all.
    pub(crate) status: u16,
    /// The body.
    #[serde(default)]
    pub(crate) body: String,
}

pub(crate) fn read(path: &Path) -> Story {
    let text = std::fs::read_to_string(path).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
