//! Random worlds: deliveries that take up to a minute, twice or once, and an upstream whose reads lag and whose
//! clock is off, within what `clock_skew` allows (clock error + read lag + 1 s <= 5 s).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::domain::Timestamp;
use tollgate::machine::{Machine, Registry};

use crate::world::{History, Upstream, World};

/// A random history as choices: which initial state, which edge, how long after the step before.
#[derive(Clone, Debug)]
struct Choices {
    start_millis: i64,
    steps: Vec<(u32, u8)>,
    /// For each step, the delays of its one or two deliveries in milliseconds; two have ids of their own.
    deliveries: Vec<(u64, Option<u64>)>,
    clock_off_millis: i64,
    seed: u64,
}

fn choices() -> impl Strategy<Value = Choices> {
    let delay = || prop_oneof![0..100_u64, 0..500_u64, 0..2_000_u64, 0..10_000_u64, 0..60_000_u64];
    let steps = prop::collection::vec((any::<u32>(), 0..4_u8), 2..=7);
    let deliveries = prop::collection::vec((delay(), prop::option::weighted(0.33, delay())), 7);
    (0..1_000_i64, steps, deliveries, -2_000..=2_000_i64, any::<u64>()).prop_map(
        |(start_millis, steps, deliveries, clock_off_millis, seed)| Choices {
            start_millis,
            steps,
            deliveries,
            clock_off_millis,
            seed,
        },
    )
}

fn history(machine: &Arc<Machine>, choices: &Choices) -> History {
    let mut at = Timestamp::from_millis(1_700_000_000_000 + choices.start_millis);
    let mut steps = Vec::new();
    for (choice, gap) in &choices.steps {
        let next: Vec<_> = match steps.last() {
            None => machine.states().iter().filter(|state| state.initial).collect(),
            Some((_, last)) => {
                let last = machine.place(last).unwrap();
                let follows =
                    |state: &&tollgate::machine::StateSpec| machine.has_edge(last, machine.place(&state.name).unwrap());
                machine.states().iter().filter(follows).collect()
            }
        };
        let Some(state) = next.get(usize::try_from(*choice).unwrap() % next.len().max(1)) else { break };
        at = at.plus(Duration::from_millis([200, 900, 3_000, 20_000][usize::from(*gap)]));
        steps.push((at, state.name.clone()));
    }
    History { machine: Arc::clone(machine), steps }
}

/// Lives through the history. Answers how many fetches there were.
fn live(registry: &Registry, machine: &Arc<Machine>, choices: &Choices) -> Result<u32, TestCaseError> {
    let history = history(machine, choices);
    let upstream = Upstream {
        read_lag_max: Duration::from_secs(2),
        clock_off: choices.clock_off_millis * 1_000_000,
        seed: choices.seed,
    };
    let mut world = World::new(registry, &history, Some(upstream));
    let mut queue = BinaryHeap::new();
    for (step, (at, _)) in history.steps.iter().enumerate() {
        let (first, second) = choices.deliveries[step];
        queue.push(Reverse((at.plus(Duration::from_millis(first)), step, step)));
        if let Some(second) = second {
            queue.push(Reverse((at.plus(Duration::from_millis(second)), step, step + 100)));
        }
    }
    while let Some(Reverse((now, step, id))) = queue.pop() {
        world.deliver(step, id, now);
    }
    prop_assert!(world.rest(), "the checks do not end: {:?}", history.steps);
    let last = history.steps.last().map(|(_, state)| state);
    prop_assert_eq!(world.state(), last, "{:?} ended as {:?}", history.steps, world.entity);
    prop_assert!(world.entity.flags.is_empty(), "flagged: {:?}", world.entity);
    prop_assert_eq!(world.dead, 0);
    Ok(world.fetches)
}

#[test]
fn delayed_and_repeated_deliveries_end_in_the_last_state_although_reads_lag_and_clocks_differ() {
    let registry = Registry::shipped();
    #[expect(clippy::disallowed_methods, reason = "how many cases to run is told from outside")]
    let cases = std::env::var("TOLLGATE_LAW_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    for machine in registry.iter() {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let result = runner.run(&choices(), |choices| live(&registry, machine, &choices).map(|_| ()));
        if let Err(failure) = result {
            panic!("{}: {failure}", machine.name());
        }
    }
}
