//! Machines: declarative state machines, and the pure functions that judge facts by them.
//!
//! [`decide`] judges events by the [`ladder`], [`settle`] judges what an upstream answered. Both are total: any
//! entity, any event and any answer gets a decision. Neither reads a clock or does I/O.

pub mod decide;
pub mod diagram;
mod graph;
pub mod ladder;
pub mod postpone;
mod registry;
pub mod settle;
pub mod spec;

pub use decide::{Context, Schedule, decide};
pub use graph::{Machine, OnDivergence, OnGap, Place, Policies, StateSpec, TransitionSpec};
pub use postpone::{hold_back, postpone};
pub use registry::{MachineFile, Registry};
pub use settle::{Asked, Reading, settle};
pub use spec::Problem;

#[cfg(any(test, fuzzing))]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken law is told by a panic"
)]
pub(crate) mod fuzz;
#[cfg(test)]
mod ladder_tests;
#[cfg(test)]
mod settle_tests;
