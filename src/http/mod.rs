//! The edge: HTTP requests in, answers out. Nothing is decided here.
//!
//! [`serve`] binds and answers until it is told to stop. `routes` is the table of everything there is; each of the
//! files it names is one resource. Verification comes first at the door, on the raw bytes; every other address but
//! the health checks needs a key. Each error is a [`problem`] with a code of the table in `code.rs`.

mod auth;
mod budget;
mod cursor;
mod dead_letters;
pub mod demo_upstream;
mod door;
pub mod dto;
mod entities;
mod entries;
mod health;
pub mod keys;
mod machines;
mod metrics;
mod openapi;
mod problem;
mod put_off;
mod query;
mod routes;
mod server;
mod shared;
mod transitions;
mod unread;
pub mod yardstick;

pub use openapi::document;
pub use problem::Problem;
pub use server::{Error, Refusing, Server, Settings, refuse, serve};

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
mod tests;
