//! Machines: declarative state machines, and the pure functions that judge facts by them.
//!
//! [`decide`] judges events by the ladder, [`settle`] judges what an upstream answered. Both are total: any
//! entity, any event and any answer gets a decision. Neither reads a clock or does I/O.

mod graph;

pub use graph::{Machine, OnDivergence, OnGap, Place, Policies, StateSpec, TransitionSpec};
