//! Tollgate: a billing state engine.

pub mod domain;
pub mod machine;
pub mod source;
pub mod store;

pub mod engine;

pub mod http;

pub mod cli;

pub mod code;
pub mod config;
pub mod telemetry;

#[cfg(any(test, fuzzing))]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "what a fuzzer calls tells of a broken law by a panic"
)]
pub mod fuzz;

#[cfg(test)]
mod sim;
