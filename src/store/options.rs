//! How an embedded store is kept.

use std::sync::Arc;
use std::time::Duration;

use super::journal;

/// Told how far a long piece of work has come: records done, records in all.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How an embedded store is kept. Every bound is there so that memory has one.
#[derive(Clone)]
pub struct Options {
    /// The count of shards: fixed when a store is created. None takes what the store has, or 64 for a new one.
    pub shards: Option<u16>,
    /// How the journal is kept.
    pub journal: journal::Options,
    /// How many requests may wait for the committer; more are [`super::Error::Busy`].
    pub waiting: usize,
    /// About how many bytes become durable with one sync.
    pub group_bytes: usize,
    /// How many pending events are indexed in memory, at least one; the backlog beyond them waits in the journal.
    pub window_events: usize,
    /// About how many bytes of those are kept decoded; the others are read from the journal when they are asked for.
    pub window_decoded_bytes: usize,
    /// About how many bytes of entities are kept decoded, at least; at most twice as many.
    pub entities_bytes: usize,
    /// How many bytes of changes may wait for the view before nothing more is committed.
    pub overlay_bytes: usize,
    /// About how many keys are written to the view at once.
    pub batch_keys: usize,
    /// How long changes wait for more before they go to the view: the longer, the more writes of one entity become one.
    /// A restart after a crash reads what waited from the journal again.
    pub gather_for: Duration,
    /// How much memory the view's cache takes, about.
    pub view_cache_bytes: u64,
    /// A view of up to so many pairs is proved whole before the store opens; a larger one while it runs, and until then
    /// nothing is decided on it.
    pub prove_at_once_pairs: u64,
    /// How many threads build the view anew at most; with one, nothing of it runs beside anything else.
    pub rebuild_threads: usize,
    /// How long event ids are remembered, so that a late duplicate is known.
    pub seen_for: Duration,
    /// Told how far building the view anew has come.
    pub progress: Option<Progress>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shards: None,
            journal: journal::Options::default(),
            waiting: 4096,
            group_bytes: 4 << 20,
            window_events: 200_000,
            window_decoded_bytes: 32 << 20,
            entities_bytes: 32 << 20,
            overlay_bytes: 64 << 20,
            batch_keys: 200,
            gather_for: Duration::from_secs(2),
            view_cache_bytes: 64 << 20,
            prove_at_once_pairs: 200_000,
            rebuild_threads: 4,
            seen_for: Duration::from_secs(90 * 24 * 60 * 60),
            progress: None,
        }
    }
}

impl Options {
    /// Tells how far a piece of work has come.
    pub(super) fn tell(&self, done: u64, total: u64) {
        if let Some(progress) = &self.progress {
            progress(done, total);
        }
    }
}
