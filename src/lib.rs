//! Tollgate: a billing state engine.

pub mod domain;
pub mod machine;
pub mod source;
pub mod store;
