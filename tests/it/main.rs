//! The one integration binary: stories, layers, and the running server.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]

mod cases;
mod cli;
mod dependencies;
mod kill;
mod layering;
mod scenario;
mod server;
mod sources;
mod turns;
