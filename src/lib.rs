//! Tollgate: a billing state engine.

pub mod domain;
pub mod engine;
pub mod machine;
pub mod source;
pub mod store;
