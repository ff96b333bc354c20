//! The log lines of requests that are put off. A burst brings thousands a second, and a line for each would take what it
//! needs most: so there is one for the first, and then, at most once a second, one that says how many there were.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::code::Code;

/// How often there is a line, at most.
const EVERY: Duration = Duration::from_secs(1);

static LINES: Lines = Lines(Mutex::new(Since { line: None, requests: 0 }));

/// When there is a line.
struct Lines(Mutex<Since>);

struct Since {
    /// When the last line was.
    line: Option<Instant>,
    /// How many requests there were since.
    requests: u64,
}

/// A request is put off; `why` is for the log alone. The last of a burst are counted by the next line, whenever it comes.
pub(super) fn log(code: Code, why: &dyn Display) {
    if let Some(requests) = LINES.count(Instant::now()) {
        tracing::warn!(code = code.id, error = %why, requests, "put off");
    }
}

impl Lines {
    /// Counts a request; answers how many a line is to tell of, if there is to be one.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        since.requests += 1;
        if since.line.is_some_and(|line| now.saturating_duration_since(line) < EVERY) {
            return None;
        }
        since.line = Some(now);
        Some(std::mem::take(&mut since.requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_by_number_once_a_second() {
        let lines = Lines(Mutex::new(Since { line: None, requests: 0 }));
        let began = Instant::now();
        let told: Vec<_> = (0..=2500).map(|ms| (ms, lines.count(began + Duration::from_millis(ms)))).collect();
        let told: Vec<_> = told.into_iter().filter_map(|(ms, told)| told.map(|requests| (ms, requests))).collect();
        assert_eq!(told, [(0, 1), (1000, 1000), (2000, 1000)]);
        assert_eq!(lines.count(began + Duration::from_secs(60)), Some(501), "those that were not told yet");
    }
}
