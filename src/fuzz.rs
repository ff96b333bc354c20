//! What a fuzzer throws bytes at, and tests do too: one function a subject, which takes any bytes and panics only if
//! a law of ours is broken.
//!
//! The bodies live beside what they try, in a file `fuzz` of each layer. `fuzz/` wraps each for cargo-fuzz, and the
//! tests here run each over its seeds and over mutations of them. Compiled for tests and fuzzers only.

mod input;
#[cfg(test)]
mod tests;

pub use input::Input;

pub use crate::config::fuzz::configuration;
pub use crate::http::fuzz::queries;
pub use crate::machine::fuzz::machine_files;
pub use crate::source::fuzz::{mappings, signature_headers, signed_requests};
pub use crate::store::fuzz::{journal_damage, journal_frames, records, seen_files, view_values};

/// One subject.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of its file in `fuzz/targets`, and of its folder in `fuzz/seeds`.
    pub name: &'static str,
    /// What takes any bytes.
    pub run: fn(&[u8]),
    /// Bytes to begin with, each with a name.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

/// All of them.
pub const TARGETS: [Target; 11] = [
    Target { name: "signature_headers", run: signature_headers, seeds: crate::source::fuzz::header_seeds },
    Target { name: "signed_requests", run: signed_requests, seeds: crate::source::fuzz::signed_seeds },
    Target { name: "mappings", run: mappings, seeds: crate::source::fuzz::mapping_seeds },
    Target { name: "machine_files", run: machine_files, seeds: crate::machine::fuzz::seeds },
    Target { name: "configuration", run: configuration, seeds: crate::config::fuzz::seeds },
    Target { name: "records", run: records, seeds: crate::store::fuzz::record_seeds },
    Target { name: "view_values", run: view_values, seeds: crate::store::fuzz::view_seeds },
    Target { name: "journal_frames", run: journal_frames, seeds: crate::store::fuzz::frame_seeds },
    Target { name: "journal_damage", run: journal_damage, seeds: crate::store::fuzz::damage_seeds },
    Target { name: "seen_files", run: seen_files, seeds: crate::store::fuzz::seen_seeds },
    Target { name: "queries", run: queries, seeds: crate::http::fuzz::seeds },
];
