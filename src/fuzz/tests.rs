//! Each subject over its seeds, and over mutations of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// How often each subject is tried, unless `TOLLGATE_FUZZ_CASES` says otherwise. Loading a configuration is slow.
const CASES: u32 = 2_000;
const CASES_OF_SLOW: u32 = 150;
const SLOW: [&str; 1] = ["configuration"];

/// One change to a seed.
#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
    /// Takes over what another seed has from there on.
    Splice(Index, Index),
}

impl Edit {
    fn any() -> impl Strategy<Value = Self> {
        let telling = prop_oneof![Just(0), Just(255), Just(127), Just(128), any::<u8>()];
        prop_oneof![
            4 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Self::Flip(at, 1 << bit)),
            4 => (any::<Index>(), telling).prop_map(|(at, byte)| Self::Set(at, byte)),
            2 => (any::<Index>(), vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Self::Insert(at, bytes)),
            2 => (any::<Index>(), 1..20_usize).prop_map(|(at, len)| Self::Remove(at, len)),
            1 => (any::<Index>(), 1..40_usize).prop_map(|(at, len)| Self::Repeat(at, len)),
            1 => any::<Index>().prop_map(Self::Cut),
            1 => (any::<Index>(), any::<Index>()).prop_map(|(seed, from)| Self::Splice(seed, from)),
        ]
    }

    fn apply(&self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match self {
            Self::Flip(at, mask) => {
                let at = place(at);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= mask);
            }
            Self::Set(at, value) => {
                let at = place(at);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = *value);
            }
            Self::Insert(at, new) => {
                let at = place(at);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Remove(at, len) => {
                let at = place(at);
                bytes.drain(at..(at + len).min(bytes.len()));
            }
            Self::Repeat(at, len) => {
                let at = place(at);
                let piece = bytes[at..(at + len).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            Self::Cut(at) => {
                let at = place(at);
                bytes.truncate(at);
            }
            Self::Splice(seed, from) => {
                let other = &seeds[seed.index(seeds.len())];
                let from = from.index(other.len() + 1);
                bytes.truncate(from);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
}

fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target.name)
}

/// The committed seeds of a subject, with those that a fuzzer once found.
fn committed(target: &Target) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = std::fs::read_dir(folder(target)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn try_all(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = committed(target);
    for seed in &seeds {
        (target.run)(seed);
    }
    (target.run)(&[]);
    #[expect(clippy::disallowed_methods, reason = "how many cases is told from outside")]
    let cases = std::env::var("TOLLGATE_FUZZ_CASES");
    let cases = cases.ok().and_then(|text| text.parse().ok());
    let cases = cases.unwrap_or(if SLOW.contains(&name) { CASES_OF_SLOW } else { CASES });
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let edits = (any::<Index>(), vec(Edit::any(), 1..8));
    let tried = TestRunner::new(config).run(&edits, |(seed, edits)| {
        let mut bytes = seeds[seed.index(seeds.len())].clone();
        for edit in &edits {
            edit.apply(&mut bytes, &seeds);
        }
        (target.run)(&bytes);
        Ok(())
    });
    tried.unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn no_header_is_accepted_without_the_secret() {
    try_all("signature_headers");
}

#[test]
fn what_is_signed_verifies_and_what_is_changed_does_not() {
    try_all("signed_requests");
}

#[test]
fn any_body_is_mapped_the_same_way_twice() {
    try_all("mappings");
}

#[test]
fn any_text_is_a_machine_or_has_problems_with_places() {
    try_all("machine_files");
}

#[test]
fn any_file_and_environment_are_a_configuration_or_have_problems_without_secrets() {
    try_all("configuration");
}

#[test]
fn any_bytes_are_a_record_that_is_written_as_itself_or_none() {
    try_all("records");
}

#[test]
fn any_bytes_are_a_value_of_the_view_that_is_written_as_itself_or_none() {
    try_all("view_values");
}

#[test]
fn any_pieces_are_a_journal_or_none() {
    try_all("journal_frames");
}

#[test]
fn a_damaged_journal_reads_as_it_was_or_not_at_all() {
    try_all("journal_damage");
}

#[test]
fn an_id_that_was_seen_is_never_taken_for_new() {
    try_all("seen_files");
}

#[test]
fn any_query_and_any_cursor_is_read_or_refused() {
    try_all("queries");
}

#[test]
fn every_target_has_its_file_its_entry_and_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    let tests = include_str!("tests.rs");
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"targets/{name}.rs\"")), "{name}");
        let file = std::fs::read_to_string(root.join(format!("fuzz/targets/{name}.rs"))).unwrap();
        assert!(file.contains(&format!("tollgate::fuzz::{name}(data)")), "{name}");
        assert!(tests.contains(&format!("try_all(\"{name}\")")), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

#[test]
fn the_committed_seeds_are_those_that_our_fixtures_give() {
    for target in TARGETS {
        let folder = folder(&target);
        let seeds = (target.seeds)();
        if std::env::var_os("TOLLGATE_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            for (name, bytes) in &seeds {
                std::fs::write(folder.join(name), bytes).unwrap();
            }
        }
        let names: BTreeSet<_> = seeds.iter().map(|(name, _)| name).collect();
        assert!(names.len() == seeds.len() && seeds.len() >= 3, "{}", target.name);
        for (name, bytes) in &seeds {
            let written = std::fs::read(folder.join(name)).unwrap_or_default();
            let how = "make it anew with `TOLLGATE_WRITE_SEEDS=1 cargo test --lib fuzz::`";
            assert!(&written == bytes, "fuzz/seeds/{}/{name} is out of date; {how}", target.name);
        }
    }
}
