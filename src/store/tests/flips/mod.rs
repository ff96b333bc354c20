//! Flipped bits in every field of every kind of record, and in seen ids and view: the store says so, or answers as
//! before. `TOLLGATE_FLIPS` says how many flips are tried at random (60 without it).

mod base;
mod regions;

use std::collections::BTreeSet;

use base::{Base, Damage};
use regions::{Region, journal_regions, seen_regions};

use crate::store::disk::sim::Dice;

/// Every kind of record, and every field of one.
const RECORDS: [&str; 5] = ["delivery", "replay", "discard", "machine change", "commit"];
const FIELDS: [&str; 7] = ["length", "checksum", "record version", "record kind", "head length", "head", "body"];

/// Records that have a body.
const WITH_BODY: [&str; 2] = ["delivery", "commit"];

#[tokio::test]
async fn a_flip_in_any_field_of_the_journal_is_told_or_changes_nothing() {
    let base = Base::furnished().await;
    let regions = journal_regions(&base.files.journal);
    let names: BTreeSet<&str> = regions.iter().map(|region| region.what.as_str()).collect();
    for record in RECORDS {
        for field in FIELDS.into_iter().filter(|field| *field != "body" || WITH_BODY.contains(&record)) {
            let found =
                ["sealed", "open"].iter().any(|where_| names.contains(format!("{where_} {record}: {field}").as_str()));
            assert!(found, "no {record} with {field} in {names:?}");
        }
    }
    for name in ["open mark closed: checksum", "sealed group: known synced", "sealed trailer: last LSN", "open zeros"] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    for (round, name) in names.iter().enumerate() {
        let of_name: Vec<&Region> = regions.iter().filter(|region| region.what == *name).collect();
        // The first of its name in one round, the last in another, and every place within it in turn.
        let region = of_name[if round % 2 == 0 { 0 } else { of_name.len() - 1 }];
        let at = region.range.start + (round * 7) % region.range.len();
        let damage = Damage::flip(&region.file, at, 1 << (round % 8)).in_journal();
        base.check(&damage, round % 3 == 0, &format!("{name} at {at}")).await;
    }
}

#[tokio::test]
async fn a_flip_in_any_field_of_the_seen_ids_is_told_or_changes_nothing() {
    let base = Base::furnished().await;
    let regions = seen_regions(&base.files.seen);
    assert!(regions.len() > 10, "{regions:?}");
    for (round, region) in regions.iter().enumerate() {
        for at in [region.range.start, region.range.start + region.range.len() / 2, region.range.end - 1] {
            let damage = Damage::flip(&region.file, at, 1 << (round % 8)).in_seen();
            base.check(&damage, true, &format!("seen {} at {at}", region.what)).await;
        }
    }
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the figures of a long run")]
async fn flips_at_random_are_told_or_change_nothing() {
    #[expect(clippy::disallowed_methods, reason = "how many flips is told from outside")]
    let flips = std::env::var("TOLLGATE_FLIPS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let base = Base::furnished().await;
    let regions = journal_regions(&base.files.journal);
    let killed = base.without_the_closing_mark(&regions);
    let mut dice = Dice(9);
    let mut told = 0;
    for round in 0..flips {
        let (base, is_killed) = if dice.roll(2) == 0 { (&base, false) } else { (&killed, true) };
        let keep_view = dice.roll(2) == 0;
        let damage = base.random_damage(&mut dice);
        // Damage of the last group after a crash can't be told from a torn write, if nothing vouches for it.
        let in_doubt = is_killed && !keep_view && damage.touches(regions.iter().filter(|region| region.is_last));
        if !in_doubt {
            told += usize::from(base.check(&damage, keep_view, &format!("round {round}: {damage:?}")).await);
        }
    }
    println!("{flips} flips: {told} told, the others changed nothing");
}
