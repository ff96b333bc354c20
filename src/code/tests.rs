use std::collections::BTreeSet;
use std::path::Path;

use super::*;
use crate::domain::{MachineName, Position, Reason, Rule, StateName};

#[test]
fn no_two_codes_share_a_name_and_names_are_snake_case() {
    let ids: BTreeSet<_> = ALL.iter().map(|code| code.id).collect();
    assert_eq!(ids.len(), ALL.len());
    for code in ALL {
        assert!(code.id.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", code.id);
    }
}

#[test]
fn titles_start_small_without_a_full_stop_and_fixes_are_sentences() {
    for code in ALL {
        assert!(code.title.starts_with(|c: char| c.is_ascii_lowercase()) && !code.title.ends_with('.'), "{code:?}");
        assert!(code.fix.starts_with(|c: char| c.is_ascii_uppercase()) && code.fix.ends_with('.'), "{code:?}");
        assert!(!code.title.contains('|') && !code.fix.contains('|'), "a bar would break the table: {code:?}");
    }
}

#[test]
fn every_http_status_is_an_error() {
    for code in ALL {
        assert!((400..600).contains(&code.http_status()), "{code:?}");
    }
}

#[test]
fn every_reason_of_the_domain_is_in_the_table() {
    let detail = String::new;
    let reasons = [
        Reason::UnknownState { machine: MachineName::new("m"), state: StateName::new("s") },
        Reason::UnknownMachine { machine: MachineName::new("m") },
        Reason::Ambiguous { rule: Rule::Tie },
        Reason::UpstreamNotFound,
        Reason::UpstreamUnavailable { detail: detail() },
        Reason::UpstreamInvalid { detail: detail() },
        Reason::EventIdReused { first: Position::default() },
        Reason::BodyNotJson { detail: detail() },
        Reason::MappingFailed { detail: detail() },
        Reason::Panicked { detail: detail() },
    ];
    for reason in reasons {
        let code = find(reason.code()).unwrap_or_else(|| panic!("{} is not in the table", reason.code()));
        assert_eq!(code.status, Status::DeadLetter);
    }
    assert_eq!(reasons_counted(), ALL.iter().filter(|code| code.status == Status::DeadLetter).count());
}

/// Fails to compile when the domain gains a reason, so that the list above is not forgotten.
fn reasons_counted() -> usize {
    match Reason::UpstreamNotFound {
        Reason::UnknownState { .. }
        | Reason::UnknownMachine { .. }
        | Reason::Ambiguous { .. }
        | Reason::UpstreamNotFound
        | Reason::UpstreamUnavailable { .. }
        | Reason::UpstreamInvalid { .. }
        | Reason::EventIdReused { .. }
        | Reason::BodyNotJson { .. }
        | Reason::MappingFailed { .. }
        | Reason::Panicked { .. } => 10,
    }
}

#[test]
fn the_error_reference_in_docs_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors.md");
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == reference(),
        "docs/errors.md is out of date; make it anew with `TOLLGATE_WRITE_DOCS=1 cargo test --lib code::`"
    );
}
