//! Laws over every shipped machine, tried exhaustively: all orders of delivery of all short legal histories.
//!
//! Run in release mode: `cargo test --release --test laws`. Two ways that lead to the same entity are followed once,
//! which tries every permutation without walking each.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may panic, and say how much they tried"
)]

mod delays;
mod world;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate::domain::Timestamp;
use tollgate::machine::{Machine, Registry};
use world::{History, Upstream, World, fingerprint, paths};

const START: i64 = 1_700_000_000;

#[test]
fn with_strict_keys_every_order_of_delivery_ends_in_the_last_state_without_an_upstream() {
    let registry = Registry::shipped();
    for machine in registry.iter() {
        let mut histories = 0_u64;
        let mut worlds = 0_u64;
        for len in 1..=6 {
            for path in paths(machine, len) {
                let at = |step: usize| Timestamp::from_secs(START + 10 * i64::try_from(step).unwrap());
                let steps = path.into_iter().enumerate().map(|(step, state)| (at(step), state)).collect();
                let history = History { machine: Arc::clone(machine), steps };
                worlds += every_order(&World::new(&registry, &history, None));
                histories += 1;
            }
        }
        println!("{}: {histories} histories, {worlds} worlds", machine.name());
    }
}

/// Delivers all steps in every order, after the whole history has happened.
fn every_order(start: &World<'_>) -> u64 {
    let len = start.history.steps.len();
    let now = start.history.steps.last().unwrap().0.plus(Duration::from_secs(60));
    let mut layer = HashMap::from([((0_u32, String::new()), start.clone())]);
    let mut worlds = 0;
    for _ in 0..len {
        let mut next = HashMap::new();
        for ((delivered, _), world) in layer {
            for step in (0..len).filter(|step| delivered & (1 << step) == 0) {
                let mut world = world.clone();
                world.deliver(step, step, now);
                worlds += 1;
                let print = fingerprint(&world.entity, world.history.machine.name());
                next.insert((delivered | (1 << step), print), world);
            }
        }
        layer = next;
    }
    for world in layer.values() {
        assert_ended_right(world, "strict keys, no upstream");
    }
    worlds
}

#[test]
fn with_ties_and_an_upstream_that_moves_with_the_history_every_order_ends_in_the_last_state() {
    let registry = Registry::shipped();
    for machine in registry.iter() {
        let (mut histories, mut worlds) = (0_u64, 0_u64);
        for len in 1..=5 {
            for path in paths(machine, len) {
                // Each step follows the one before within the same second, or after the checks have come due.
                for gaps in 0..(1_u32 << (len - 1)) {
                    let history = history(machine, &path, gaps);
                    let upstream = Upstream::default();
                    worlds += every_interleaving(&World::new(&registry, &history, Some(upstream)));
                    histories += 1;
                }
            }
        }
        println!("{}: {histories} histories, {worlds} worlds", machine.name());
    }
}

fn history(machine: &Arc<Machine>, path: &[tollgate::domain::StateName], gaps: u32) -> History {
    let mut at = Timestamp::from_secs(START);
    let mut steps = Vec::with_capacity(path.len());
    for (step, state) in path.iter().enumerate() {
        if step > 0 {
            let long = gaps & (1 << (step - 1)) != 0;
            at = at.plus(if long { Duration::from_secs(20) } else { Duration::from_millis(100) });
        }
        steps.push((at, state.clone()));
    }
    History { machine: Arc::clone(machine), steps }
}

/// Every interleaving of "the next step happens" and "an event of a step that has happened is delivered".
fn every_interleaving<'a>(start: &World<'a>) -> u64 {
    let steps = &start.history.steps;
    let all = (1_u32 << steps.len()) - 1;
    let mut layer = HashMap::from([((1_usize, 0_u32, String::new()), start.clone())]);
    let mut worlds = 0;
    let mut ended = Vec::new();
    while !layer.is_empty() {
        let mut next = HashMap::new();
        for ((happened, delivered, _), world) in layer {
            if happened == steps.len() && delivered == all {
                ended.push(world);
                continue;
            }
            let mut keep = |happened: usize, delivered: u32, world: World<'a>| {
                let print = fingerprint(&world.entity, world.history.machine.name());
                next.insert((happened, delivered, print), world);
            };
            if let Some((at, _)) = steps.get(happened) {
                let mut world = world.clone();
                // Checks that come due before the next step happens are run before it.
                world.run_due_check(at.minus(Duration::from_nanos(1)));
                keep(happened + 1, delivered, world);
            }
            let now = steps[happened - 1].0.plus(Duration::from_millis(50));
            for step in (0..happened).filter(|step| delivered & (1 << step) == 0) {
                let mut world = world.clone();
                world.deliver(step, step, now);
                worlds += 1;
                keep(happened, delivered | (1 << step), world);
            }
        }
        layer = next;
    }
    for mut world in ended {
        assert!(world.rest(), "the checks of {:?} do not end", world.history.steps);
        assert_ended_right(&world, "ties, an upstream");
    }
    worlds
}

fn assert_ended_right(world: &World<'_>, what: &str) {
    let last = &world.history.steps.last().unwrap().1;
    assert_eq!(world.state(), Some(last), "{what}: {:?} ended as {:?}", world.history.steps, world.entity);
    assert_eq!(world.dead, 0, "{what}: a dead letter in {:?}", world.history.steps);
    assert!(world.entity.flags.is_empty(), "{what}: flagged in {:?}", world.history.steps);
}
