//! Stand-in until the machine files land.
use super::Machine;
use crate::domain::MachineName;
use std::collections::BTreeMap;
use std::sync::Arc;
/// All machines by name.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<MachineName, Arc<Machine>>);
impl Registry {
    /// The machine of this name.
    #[must_use]
    pub fn get(&self, name: &MachineName) -> Option<&Arc<Machine>> {
        self.0.get(name)
    }
}
