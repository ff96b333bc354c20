//! The one integration binary: stories, layers, and the running server.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic"
)]

mod cases;
mod cli;
mod dependencies;
mod faults;
mod kill;
mod layering;
mod load;
mod outage;
mod scenario;
mod server;
mod sources;
mod turns;
