//! The form of a story.

use std::collections::BTreeMap;
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
    /// The source that the deliveries come from, unless a step names another.
    pub(crate) source: String,
    /// When it starts (RFC 3339). A story ends on the same day, so that times of day say everything.
    pub(crate) start: String,
    /// Whether the source can be asked; without it nobody can.
    #[serde(default)]
    pub(crate) upstream: bool,
    /// The states that are right in the end, by entity: those of its machines in the order of their names, with
    /// commas between. The snapshot shows much more; this is what the story is about.
    pub(crate) ends: BTreeMap<String, String>,
    /// What happens, in order.
    pub(crate) step: Vec<Step>,
}

/// One step: what is done, and what is said of it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    /// A remark for the reader.
    pub(crate) note: Option<String>,
    /// A delivery's body, as JSON text.
    pub(crate) deliver: Option<String>,
    /// The source that it comes from, if not the story's.
    pub(crate) from: Option<String>,
    /// The delivery's id in the header, for sources that have one there.
    pub(crate) id: Option<String>,
    /// Deliver it this often.
    pub(crate) times: Option<u32>,
    /// Sign as if this many seconds ago.
    pub(crate) signed_ago_s: Option<i64>,
    /// Change the body after signing.
    pub(crate) forged: bool,
    /// The engine is busy elsewhere: the event waits in the queue until a later step.
    pub(crate) busy: bool,
    /// Let time pass, in seconds: what falls due meanwhile is done when it is due.
    pub(crate) pass_s: Option<f64>,
    /// What the upstream answers from now on.
    pub(crate) answer: Option<Answer>,
    /// A machine's file, which is loaded in place of the one of its name.
    pub(crate) machine: Option<MachineFile>,
    /// Replay all dead letters.
    pub(crate) replay: bool,
}

/// What the upstream answers for a path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// The path and query.
    pub(crate) path: String,
    /// For which account it is asked: it does not know the objects of another.
    pub(crate) account: Option<String>,
    /// Whether it is asked with the key of the test mode: it does not know live objects then.
    #[serde(default)]
    pub(crate) test: bool,
    /// The status; 0 for no answer at all.
    pub(crate) status: u16,
    /// The body.
    #[serde(default)]
    pub(crate) body: String,
}

/// A machine that an operator loads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    /// Its name.
    pub(crate) name: String,
    /// The file.
    pub(crate) text: String,
}

pub(crate) fn read(path: &Path) -> Story {
    let text = std::fs::read_to_string(path).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
