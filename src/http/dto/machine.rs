//! Machines as they are answered.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::machine;

/// A machine in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MachineSummary {
    /// Its name.
    #[schema(examples("stripe/subscription"))]
    pub name: String,
    /// Its version, as its file says.
    pub version: u32,
    /// What it is about.
    pub doc: String,
    /// How many states it has.
    pub states: usize,
    /// How many transitions it has.
    pub transitions: usize,
    /// SHA-256 of its file; hexadecimal.
    pub sha256: String,
}

/// A machine with all that it declares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its version, as its file says.
    pub version: u32,
    /// What it is about.
    pub doc: String,
    /// Its states, in the order of the file.
    pub states: Vec<State>,
    /// Its transitions, in the order of the file.
    pub transitions: Vec<Transition>,
    /// What it does in place of the ladder's default.
    pub policies: Policies,
    /// SHA-256 of its file; hexadecimal.
    pub sha256: String,
}

/// A declared state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MachineStateDeclared)]
pub struct State {
    /// Its name.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// Whether an entity may be seen first in it.
    pub initial: bool,
    /// Whether it is final.
    pub terminal: bool,
    /// Whether the upstream answers 404 for an entity in it.
    pub gone: bool,
}

/// A declared transition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Transition {
    /// From this state.
    pub from: String,
    /// To this state.
    pub to: String,
    /// The happening that takes it, if it has a name.
    pub event: Option<String>,
}

/// What a machine does in place of the ladder's default.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Policies {
    /// `fetch` or `accept`.
    pub on_gap: String,
    /// `flag` or `accept`.
    pub on_divergence: String,
}

impl From<&machine::Machine> for MachineSummary {
    fn from(machine: &machine::Machine) -> Self {
        Self {
            name: machine.name().to_string(),
            version: machine.version(),
            doc: machine.doc().to_owned(),
            states: machine.states().len(),
            transitions: machine.transitions().len(),
            sha256: hex::encode(machine.sha256()),
        }
    }
}

impl From<&machine::Machine> for Machine {
    fn from(machine: &machine::Machine) -> Self {
        Self {
            name: machine.name().to_string(),
            version: machine.version(),
            doc: machine.doc().to_owned(),
            states: machine.states().iter().map(State::from).collect(),
            transitions: machine.transitions().iter().map(Transition::from).collect(),
            policies: machine.policies().into(),
            sha256: hex::encode(machine.sha256()),
        }
    }
}

impl From<&machine::StateSpec> for State {
    fn from(state: &machine::StateSpec) -> Self {
        Self {
            name: state.name.to_string(),
            doc: state.doc.clone(),
            initial: state.initial,
            terminal: state.terminal,
            gone: state.gone,
        }
    }
}

impl From<&machine::TransitionSpec> for Transition {
    fn from(transition: &machine::TransitionSpec) -> Self {
        Self {
            from: transition.from.to_string(),
            to: transition.to.to_string(),
            event: transition.event.as_ref().map(ToString::to_string),
        }
    }
}

impl From<machine::Policies> for Policies {
    fn from(policies: machine::Policies) -> Self {
        let machine::Policies { on_gap, on_divergence } = policies;
        Self { on_gap: on_gap.as_str().to_owned(), on_divergence: on_divergence.as_str().to_owned() }
    }
}
