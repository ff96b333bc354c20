//! The rules of a machine that concern more than one place of its file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::STATES_MAX;
use super::problem::{Fault, Report};
use super::read::{Draft, DraftState, DraftTransition, Located};
use crate::domain::suggest::nearest;
use crate::domain::{MachineName, StateName};
use crate::machine::graph::{Machine, StateSpec, TransitionSpec};

/// A happening whose edges lead to more than one state.
///
/// Only the current state can say which of them is meant, so a source that has no upstream to ask must not claim it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AmbiguousHappening {
    /// The happening.
    pub event: StateName,
    /// The states that it leads to, in the order of the file.
    pub targets: Vec<StateName>,
}

/// The happenings of a machine that lead to more than one state.
#[must_use]
pub fn ambiguous_happenings(machine: &Machine) -> Vec<AmbiguousHappening> {
    let mut found = Vec::new();
    for event in machine.happenings() {
        let mut targets: Vec<_> = machine.happening(event).iter().map(|(_, to)| *to).collect();
        targets.sort();
        targets.dedup();
        if targets.len() > 1 {
            let targets = targets.iter().filter_map(|to| machine.state(*to)).map(|to| to.name.clone()).collect();
            found.push(AmbiguousHappening { event: event.clone(), targets });
        }
    }
    found
}

/// Checks a draft and builds its machine, which is good only if nothing was reported.
///
/// None if the draft says nothing of its states.
pub(super) fn check(
    draft: Draft,
    sha256: [u8; 32],
    expected: &MachineName,
    report: &mut Report<'_>,
) -> Option<Machine> {
    if let Some(name) = draft.name.filter(|name| crate::domain::name::is_valid(name.value.as_str()))
        && name.value != *expected
    {
        let fault = Fault::NameMismatch { name: name.value.to_string(), expected: expected.to_string() };
        report.add(name.at, fault);
    }
    let states = draft.states?;
    if states.value.is_empty() && !draft.partial {
        report.add(states.at, Fault::NoStates);
        return None;
    }
    if states.value.len() > STATES_MAX {
        report.add(states.at, Fault::TooManyStates(states.value.len()));
        return None;
    }
    let places = check_states(&states.value, report);
    let mut edges = Edges { machine: expected, places: &places, taken: BTreeMap::new(), partial: draft.partial };
    let transitions: Vec<_> =
        draft.transitions.into_iter().flat_map(|transition| edges.check(transition, report)).collect();
    let partial = edges.partial;
    let version = draft.version.unwrap_or(0);
    let specs = distinct(states.value);
    let machine = Machine::build(expected.clone(), version, draft.doc, sha256, specs, transitions, draft.policies);
    if !partial {
        check_relations(&machine, states.at, &places, report);
    }
    Some(machine)
}

/// The first place of each state's name.
type Places = BTreeMap<StateName, usize>;

/// The rules of the states among themselves.
fn check_states(states: &[DraftState], report: &mut Report<'_>) -> Places {
    let mut places = Places::new();
    let mut gone: Option<&Located<StateName>> = None;
    for state in states {
        let Located { value: name, at } = &state.name;
        if let Some(first) = places.get(name) {
            let line = report.line(*first);
            report.add(*at, Fault::DuplicateState { state: name.to_string(), line });
            continue;
        }
        places.insert(name.clone(), *at);
        if !state.gone {
            continue;
        }
        if !state.terminal {
            report.add(*at, Fault::GoneNotTerminal(name.to_string()));
        }
        if let Some(first) = gone {
            let line = report.line(first.at);
            let (state, first) = (name.to_string(), first.value.to_string());
            report.add(*at, Fault::SecondGone { state, first, line });
        } else {
            gone = Some(&state.name);
        }
    }
    places
}

/// The happening that takes an edge, if any, and the place of that.
type Taken = (Option<StateName>, usize);

/// The edges seen so far.
struct Edges<'c> {
    machine: &'c MachineName,
    places: &'c Places,
    /// By from and to.
    taken: BTreeMap<(StateName, StateName), Vec<Taken>>,
    partial: bool,
}

impl Edges<'_> {
    /// Checks a transition; answers its edges that can be used.
    fn check(&mut self, transition: DraftTransition, report: &mut Report<'_>) -> Vec<TransitionSpec> {
        let to = self.declared(&transition.to, report);
        let mut edges = Vec::new();
        for origin in transition.from {
            let from = self.declared(&origin, report);
            if origin.value == transition.to.value {
                report.add(origin.at, Fault::SelfLoop(origin.value.to_string()));
                continue;
            }
            let (Some(from), Some(to)) = (from, to.clone()) else {
                self.partial = true;
                continue;
            };
            if from == to {
                continue; // only by what one of them was taken for
            }
            self.check_repeated(&from, &to, transition.event.as_ref(), origin.at, report);
            edges.push(TransitionSpec { from, to, event: transition.event.clone() });
        }
        edges
    }

    /// The declared state that is meant.
    fn declared(&self, state: &Located<StateName>, report: &mut Report<'_>) -> Option<StateName> {
        if self.places.contains_key(&state.value) {
            return Some(state.value.clone());
        }
        let near = nearest(state.value.as_str(), self.places.keys().map(StateName::as_str));
        let fault = Fault::Undeclared {
            state: state.value.to_string(),
            machine: self.machine.to_string(),
            nearest: near.map(str::to_owned),
        };
        report.add(state.at, fault);
        near.map(StateName::new)
    }

    fn check_repeated(
        &mut self,
        from: &StateName,
        to: &StateName,
        event: Option<&StateName>,
        at: usize,
        report: &mut Report<'_>,
    ) {
        let seen = match self.taken.entry((from.clone(), to.clone())) {
            Entry::Vacant(entry) => {
                entry.insert(vec![(event.cloned(), at)]);
                return;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let (from, to) = (from.to_string(), to.to_string());
        if let Some((_, first)) = seen.iter().find(|(other, _)| other.as_ref() == event) {
            let line = report.line(*first);
            report.add(at, Fault::DuplicateTransition { from, to, line });
        } else if let Some((_, first)) = seen.iter().find(|(other, _)| other.is_none() || event.is_none()) {
            let line = report.line(*first);
            report.add(at, Fault::RedundantTransition { from, to, line });
        }
        seen.push((event.cloned(), at));
    }
}

/// The states without repetitions.
fn distinct(states: Vec<DraftState>) -> Vec<StateSpec> {
    let mut specs: Vec<StateSpec> = Vec::new();
    for DraftState { name, doc, initial, terminal, gone } in states {
        if specs.iter().all(|spec| spec.name != name.value) {
            specs.push(StateSpec { name: name.value, doc, initial, terminal, gone });
        }
    }
    specs
}

/// The rules of the graph as a whole.
fn check_relations(machine: &Machine, states_at: usize, places: &Places, report: &mut Report<'_>) {
    let all: Vec<_> = places.iter().filter_map(|(name, at)| Some((name, *at, machine.place(name)?))).collect();
    let initial: Vec<_> = all.iter().map(|(_, _, place)| *place).filter(|place| machine.is_initial(*place)).collect();
    if initial.is_empty() {
        report.add(states_at, Fault::NoInitial);
    }
    for (name, at, place) in &all {
        let reached = machine.is_initial(*place) || initial.iter().any(|from| machine.reaches(*from, *place));
        if !reached && !initial.is_empty() {
            report.add(*at, Fault::Unreachable(name.to_string()));
        }
        let leads_on = all.iter().any(|(_, _, to)| machine.has_edge(*place, *to));
        if !leads_on && !machine.is_terminal(*place) {
            report.add(*at, Fault::Stuck(name.to_string()));
        }
    }
}
