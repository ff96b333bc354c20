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

#[cfg(test)]
mod sim;
