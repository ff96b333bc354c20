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
    let worked = since.elapsed();
    if worked >= PIECE {
        thread::sleep(worked.min(PAUSE_MAX));
        WORKS_SINCE.set(Some(Instant::now()));
    }
}
