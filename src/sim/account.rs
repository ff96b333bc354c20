//! The account of a run: what was sent, answered, decided and broken, in order, with the simulated time; and how often
//! each thing happened, so that no check is passed by what never came up.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

/// The account of one run. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Account(Arc<Mutex<State>>);

struct State {
    began: Instant,
    /// None if only counts are kept.
    text: Option<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Account {
    pub(crate) fn new(told: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            began: Instant::now(),
            text: told.then(String::new),
            counts: BTreeMap::new(),
        })))
    }

    /// Notes what happened.
    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        let mut state = self.0.lock().unwrap();
        let at = state.began.elapsed();
        if let Some(text) = &mut state.text {
            writeln!(text, "{:>9.3} s  {}", at.as_secs_f64(), line()).unwrap();
        }
    }

    /// Counts something.
    pub(crate) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts so many of something.
    pub(crate) fn add(&self, what: &'static str, many: u64) {
        *self.0.lock().unwrap().counts.entry(what).or_default() += many;
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap().counts.clone()
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().text.clone().unwrap_or_default()
    }
}
