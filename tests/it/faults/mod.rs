//! Real faults under a running server: bursts, slow senders, a stop in mid-load, a disk that fills up.
//!
//! Small by default. `TOLLGATE_FAULTS` says how many times larger (see `scripts/faults`).

mod burst;
mod full;
mod slow;
mod stop;

/// How many times larger than in CI.
fn scale() -> usize {
    crate::load::told("TOLLGATE_FAULTS", 1)
}
