//! Who waits for whom when processors are scarce: the door answers first, then events are decided, then the view follows.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// How long a piece of work is after which there may be a pause.
const PIECE: Duration = Duration::from_micros(500);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(5);

thread_local! {
    /// Since when a thread that stepped back works without a pause; none on the others.
    static WORKS_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lets threads of a lower number go first; of this thread and those that it starts. Without the right to it, or on a
/// system where it would be the whole process, nothing changes but that [`pause`] pauses.
pub(crate) fn step_back(by: i32) {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(by);
    #[cfg(not(target_os = "linux"))]
    let _ = by;
    WORKS_SINCE.set(Some(Instant::now()));
}

/// Called between two pieces of long work: rests for as long as it took, if this thread stepped back. A number alone is
/// not enough: the system leaves the threads that should go first waiting behind one processor for as long as another is
/// kept busy without an end, by whomever.
pub(super) fn pause() {
    let Some(since) = WORKS_SINCE.get() else { return };
    if let Some(rest) = rest_after(since.elapsed()) {
        thread::sleep(rest);
        rested();
    }
}

/// Called when a thread that stepped back has waited for something: that was no work.
pub(super) fn rested() {
    if WORKS_SINCE.get().is_some() {
        WORKS_SINCE.set(Some(Instant::now()));
    }
}

/// How long to rest after so much work, if at all.
fn rest_after(worked: Duration) -> Option<Duration> {
    (worked >= PIECE).then_some(worked.min(PAUSE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_work_before_it_within_bounds() {
        let rest = |micros| rest_after(Duration::from_micros(micros)).map(|rest| rest.as_micros());
        assert_eq!(
            [rest(0), rest(499), rest(500), rest(4999), rest(5000), rest(1_000_000)],
            [None, None, Some(500), Some(4999), Some(5000), Some(5000)]
        );
    }

    #[test]
    fn only_a_thread_that_stepped_back_is_timed() {
        rested();
        assert_eq!(WORKS_SINCE.get(), None);
        let stepped_back = thread::spawn(|| {
            step_back(0);
            rested();
            WORKS_SINCE.get()
        });
        assert!(stepped_back.join().unwrap().is_some());
    }
}
