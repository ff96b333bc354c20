use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A machine of `n` states whose edges are those set in the matrix.
fn machine(n: usize, edges: &[bool]) -> Machine {
    let name = |state: usize| StateName::new(&format!("s{state}"));
    let states = (0..n).map(|state| StateSpec {
        name: name(state),
        doc: String::new(),
        initial: state == 0,
        terminal: false,
        gone: false,
    });
    let transitions = edges.iter().enumerate().filter(|(_, is_set)| **is_set).map(|(cell, _)| TransitionSpec {
        from: name(cell / n),
        to: name(cell % n),
        event: None,
    });
    let (states, transitions) = (states.collect(), transitions.collect());
    Machine::build("m".into(), 1, String::new(), [0; 32], states, transitions, Policies::default())
}

/// What is reachable over one or more edges, by trying every state as a stop on the way.
fn naive_reach(n: usize, edges: &[bool]) -> Vec<bool> {
    let mut reach = edges.to_vec();
    for via in 0..n {
        for from in 0..n {
            for to in 0..n {
                reach[from * n + to] |= reach[from * n + via] && reach[via * n + to];
            }
        }
    }
    reach
}

fn graph() -> impl Strategy<Value = (usize, Vec<bool>)> {
    (1..9_usize, 0.0..0.5_f64).prop_flat_map(|(n, density)| (Just(n), vec(prop::bool::weighted(density), n * n)))
}

proptest! {
    #[test]
    fn edges_and_reachability_agree_with_the_naive_ones((n, edges) in graph()) {
        let machine = machine(n, &edges);
        let reach = naive_reach(n, &edges);
        for from in 0..n {
            for to in 0..n {
                prop_assert_eq!(machine.has_edge(Place(from), Place(to)), edges[from * n + to]);
                prop_assert_eq!(machine.reaches(Place(from), Place(to)), reach[from * n + to], "{} -> {}", from, to);
            }
        }
    }

    #[test]
    fn strictly_ahead_is_a_strict_partial_order_and_the_rank_follows_it((n, edges) in graph()) {
        let machine = machine(n, &edges);
        let ahead = |a: usize, b: usize| machine.is_strictly_ahead(Place(a), Place(b));
        for a in 0..n {
            prop_assert!(!ahead(a, a), "irreflexive");
            for b in 0..n {
                prop_assert!(!(ahead(a, b) && ahead(b, a)), "asymmetric");
                prop_assert!(!ahead(a, b) || machine.rank(Place(a)) > machine.rank(Place(b)), "rank");
                for c in 0..n {
                    prop_assert!(!(ahead(a, b) && ahead(b, c)) || ahead(a, c), "transitive");
                }
            }
        }
    }
}

#[test]
fn places_outside_the_machine_are_related_to_nothing() {
    let machine = machine(2, &[false, true, false, false]);
    let outside = Place(7);
    assert_eq!(machine.state(outside), None);
    assert!(!machine.is_initial(outside) && !machine.is_terminal(outside));
    assert!(!machine.reaches(Place(1), outside) && !machine.is_strictly_ahead(outside, Place(0)));
    assert_eq!(machine.place(&"s9".into()), None);
    assert_eq!(machine.happening(&"nothing".into()), []);
}
