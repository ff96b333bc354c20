//! A checked machine: its states, and the relations between them that its edges imply.
//!
//! "Strictly ahead", "strictly behind" and rank all come from reachability. Nobody writes ranks by hand.

use std::collections::{BTreeMap, HashMap};

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Bfs, Walker};

use crate::domain::{MachineName, StateName};

/// A state's place in its file, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(usize);

/// A declared state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateSpec {
    /// Its name.
    pub name: StateName,
    /// What it means; empty if the file does not say.
    pub doc: String,
    /// Whether an entity may be seen first in it.
    pub initial: bool,
    /// Whether it is final.
    pub terminal: bool,
    /// Whether the upstream answers 404 for an entity in it.
    pub gone: bool,
}

/// A declared edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitionSpec {
    /// From this state.
    pub from: StateName,
    /// To this state.
    pub to: StateName,
    /// The happening that takes this edge, if it has a name.
    pub event: Option<StateName>,
}

/// What a machine does in place of the ladder's default. Each use is recorded like any other outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policies {
    /// What to do when a claim is reachable only over several edges.
    pub on_gap: OnGap,
    /// What to do when the upstream steadily answers a state that no allowed move leads to.
    pub on_divergence: OnDivergence,
}

/// What to do when a claim is reachable only over several edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnGap {
    /// Ask the upstream.
    #[default]
    Fetch,
    /// Take a newer claim as it is.
    Accept,
}

/// What to do when the upstream steadily answers a state that no allowed move leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnDivergence {
    /// Flag the entity for an operator.
    #[default]
    Flag,
    /// Take the upstream's answer once a check confirms it.
    Accept,
}

/// A checked state machine.
#[derive(Clone, Debug)]
pub struct Machine {
    name: MachineName,
    version: u32,
    doc: String,
    sha256: [u8; 32],
    states: Vec<StateSpec>,
    transitions: Vec<TransitionSpec>,
    policies: Policies,
    places: HashMap<StateName, Place>,
    /// `edges[from * n + to]`.
    edges: Vec<bool>,
    /// `reach[from * n + to]`: over one or more edges.
    reach: Vec<bool>,
    /// By place: how many states reach it that it can't reach.
    ranks: Vec<usize>,
    happenings: BTreeMap<StateName, Vec<(Place, Place)>>,
}

impl OnGap {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Fetch, Self::Accept];

    /// The word used in machine files and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Accept => "accept",
        }
    }
}

impl OnDivergence {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Flag, Self::Accept];

    /// The word used in machine files and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Accept => "accept",
        }
    }
}

impl Machine {
    /// Builds the relations. The parts must have been checked: a transition over an undeclared state is left out.
    #[must_use]
    pub fn build(
        name: MachineName,
        version: u32,
        doc: String,
        sha256: [u8; 32],
        states: Vec<StateSpec>,
        transitions: Vec<TransitionSpec>,
        policies: Policies,
    ) -> Self {
        let n = states.len();
        let places: HashMap<_, _> = states.iter().enumerate().map(|(i, s)| (s.name.clone(), Place(i))).collect();
        let mut graph = DiGraph::<(), ()>::with_capacity(n, transitions.len());
        let nodes: Vec<NodeIndex> = states.iter().map(|_| graph.add_node(())).collect();
        let mut edges = vec![false; n * n];
        let mut happenings: BTreeMap<StateName, Vec<(Place, Place)>> = BTreeMap::new();
        for transition in &transitions {
            let (Some(from), Some(to)) = (places.get(&transition.from), places.get(&transition.to)) else { continue };
            if let (Some(a), Some(b), Some(edge)) =
                (nodes.get(from.0), nodes.get(to.0), edges.get_mut(from.0 * n + to.0))
            {
                graph.add_edge(*a, *b, ());
                *edge = true;
            }
            if let Some(event) = &transition.event {
                happenings.entry(event.clone()).or_default().push((*from, *to));
            }
        }
        let reach = reachability(&graph, &nodes);
        let reaches = |a: usize, b: usize| reach.get(a * n + b).copied().unwrap_or(false);
        let ranks = (0..n).map(|s| (0..n).filter(|o| reaches(*o, s) && !reaches(s, *o)).count()).collect();
        Self { name, version, doc, sha256, states, transitions, policies, places, edges, reach, ranks, happenings }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &MachineName {
        &self.name
    }

    /// Its version, as its file says.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// What it is about.
    #[must_use]
    pub fn doc(&self) -> &str {
        &self.doc
    }

    /// SHA-256 of its file.
    #[must_use]
    pub const fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// Its states, in the order of the file.
    #[must_use]
    pub fn states(&self) -> &[StateSpec] {
        &self.states
    }

    /// Its edges, in the order of the file.
    #[must_use]
    pub fn transitions(&self) -> &[TransitionSpec] {
        &self.transitions
    }

    /// Its policies.
    #[must_use]
    pub const fn policies(&self) -> Policies {
        self.policies
    }

    /// The place of a state, if it is declared.
    #[must_use]
    pub fn place(&self, state: &StateName) -> Option<Place> {
        self.places.get(state).copied()
    }

    /// The state at a place.
    #[must_use]
    pub fn state(&self, place: Place) -> Option<&StateSpec> {
        self.states.get(place.0)
    }

    /// Whether an entity may be seen first in this state.
    #[must_use]
    pub fn is_initial(&self, place: Place) -> bool {
        self.state(place).is_some_and(|state| state.initial)
    }

    /// Whether this state is final.
    #[must_use]
    pub fn is_terminal(&self, place: Place) -> bool {
        self.state(place).is_some_and(|state| state.terminal)
    }

    /// The state that a 404 of the upstream stands for, if the machine has one.
    #[must_use]
    pub fn gone(&self) -> Option<&StateName> {
        self.states.iter().find(|state| state.gone).map(|state| &state.name)
    }

    /// Whether a declared edge leads from one to the other.
    #[must_use]
    pub fn has_edge(&self, from: Place, to: Place) -> bool {
        self.edges.get(from.0 * self.states.len() + to.0).copied().unwrap_or(false)
    }

    /// Whether one or more edges lead from one to the other.
    #[must_use]
    pub fn reaches(&self, from: Place, to: Place) -> bool {
        self.reach.get(from.0 * self.states.len() + to.0).copied().unwrap_or(false)
    }

    /// Whether `state` is reachable from `from`, and there is no way back.
    #[must_use]
    pub fn is_strictly_ahead(&self, state: Place, from: Place) -> bool {
        self.reaches(from, state) && !self.reaches(state, from)
    }

    /// What breaks a tie when nobody can be asked: how many states reach this one that it can't reach, then its
    /// place in the file.
    #[must_use]
    pub fn rank(&self, place: Place) -> (usize, usize) {
        (self.ranks.get(place.0).copied().unwrap_or(0), place.0)
    }

    /// The edges that a happening takes, as (from, to); empty if no edge has this name.
    #[must_use]
    pub fn happening(&self, name: &StateName) -> &[(Place, Place)] {
        self.happenings.get(name).map_or(&[], Vec::as_slice)
    }

    /// The names of all happenings.
    pub fn happenings(&self) -> impl Iterator<Item = &StateName> {
        self.happenings.keys()
    }
}

/// The matrix of "reachable over one or more edges".
fn reachability(graph: &DiGraph<(), ()>, nodes: &[NodeIndex]) -> Vec<bool> {
    let n = nodes.len();
    let mut reach = vec![false; n * n];
    for from in nodes {
        for next in graph.neighbors(*from) {
            for found in Bfs::new(graph, next).iter(graph) {
                if let Some(cell) = reach.get_mut(from.index() * n + found.index()) {
                    *cell = true;
                }
            }
        }
    }
    reach
}

#[cfg(test)]
mod tests;
