//! The machines that are loaded: those shipped in the binary, and those of files that somebody has read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::Machine;
use super::spec::{self, Problem};
use crate::domain::MachineName;
use crate::domain::suggest;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../state-machines/", $name, ".toml")))),*]
    };
}

/// The shipped files by machine name. A test compares this table with the directory.
const SHIPPED: &[(&str, &str)] = shipped![
    "credit_wallet",
    "flexprice/wallet",
    "paddle/adjustment",
    "paddle/subscription",
    "paddle/transaction",
    "payment",
    "stripe/charge",
    "stripe/checkout_payment",
    "stripe/checkout_session",
    "stripe/dispute",
    "stripe/invoice",
    "stripe/payment_intent",
    "stripe/refund",
    "stripe/subscription",
];

/// A machine file, as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineFile {
    /// How problems name it.
    pub shown: String,
    /// The machine that it must hold.
    pub name: MachineName,
    /// What it says.
    pub text: String,
}

/// The loaded machines by name.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<MachineName, Arc<Machine>>);

impl Registry {
    /// The shipped machines. [`Registry::load`] also says what is wrong with a shipped file; a test keeps that empty.
    #[must_use]
    pub fn shipped() -> Self {
        let mut problems = Vec::new();
        Self::collect(shipped_files(), &mut problems)
    }

    /// The shipped machines, overridden or extended by these files.
    ///
    /// # Errors
    /// Every problem of every file, file by file.
    pub fn load(files: impl IntoIterator<Item = MachineFile>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut registry = Self::collect(shipped_files(), &mut problems);
        registry.0.extend(Self::collect(files, &mut problems).0);
        problems.sort();
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    /// The machine of this name.
    #[must_use]
    pub fn get(&self, name: &MachineName) -> Option<&Arc<Machine>> {
        self.0.get(name)
    }

    /// All machines, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.0.values()
    }

    /// The name that was probably meant by one that is not loaded.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&MachineName> {
        let nearest = suggest::nearest(name, self.0.keys().map(MachineName::as_str))?;
        self.0.get_key_value(nearest).map(|(name, _)| name)
    }

    fn collect(files: impl IntoIterator<Item = MachineFile>, problems: &mut Vec<Problem>) -> Self {
        let parsed = files.into_iter().map(|file| spec::parse(&file.shown, &file.text, &file.name));
        parsed.filter_map(|machine| machine.map_err(|found| problems.extend(found)).ok()).collect()
    }
}

impl FromIterator<Machine> for Registry {
    fn from_iter<T: IntoIterator<Item = Machine>>(machines: T) -> Self {
        Self(machines.into_iter().map(|machine| (machine.name().clone(), Arc::new(machine))).collect())
    }
}

fn shipped_files() -> impl Iterator<Item = MachineFile> {
    SHIPPED.iter().map(|(name, text)| MachineFile {
        shown: format!("state-machines/{name}.toml"),
        name: MachineName::new(name),
        text: (*text).to_owned(),
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod shipped_tests;
