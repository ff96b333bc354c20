//! How an upstream's answer about one entity is read.

use super::object::{self, ObjectPlan, OrderSpec};
use super::pointer::Trie;
use super::problem::Problems;
use super::spec::{EntitySpec, LookupSpec};
use crate::domain::{EntityKey, Kind, OrderKey, Reason, Snapshot, Timestamp};

/// How the answer of one kind is read.
#[derive(Debug)]
pub(super) struct AnswerPlan {
    trie: Trie,
    object: ObjectPlan,
}

impl AnswerPlan {
    /// Checks how a kind's answer is read.
    pub(super) fn compile(kind: &Kind, spec: &EntitySpec, lookup: &LookupSpec, problems: &mut Problems) -> Self {
        let key = format!("entities.{kind}.upstream");
        let order =
            OrderSpec { version: &lookup.version, updated_at: &lookup.updated_at, unit: lookup.updated_at_unit };
        let mut trie = Trie::new();
        let object = ObjectPlan::compile(&key, &lookup.object, spec, &order, &mut trie, problems);
        Self { trie, object }
    }

    /// Reads an answer. An answer about another object, or one without a state, is of no use.
    pub(super) fn read(&self, key: &EntityKey, body: &[u8], clock: Timestamp) -> Result<Snapshot, Reason> {
        self.try_read(key, body, clock).map_err(|detail| Reason::UpstreamInvalid { detail })
    }

    fn try_read(&self, key: &EntityKey, body: &[u8], clock: Timestamp) -> Result<Snapshot, String> {
        let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8".to_owned())?;
        let found = self.trie.walk(text).map_err(|e| format!("the answer is not JSON: {e}"))?;
        match self.object.id(&found, &self.trie)? {
            Some(id) if id == key.id => {}
            Some(id) => return Err(format!("the answer is about `{id}`, asked for was `{}`", key.id)),
            None => return Err(format!("the answer has no id where `{}` was expected", key.id)),
        }
        let states = self.object.states(&found, &self.trie)?;
        if states.is_empty() {
            return Err("the answer has no state".to_owned());
        }
        let fetched = OrderKey::clock(clock);
        let own = self.object.order_key(&found, &self.trie)?.unwrap_or(fetched);
        let key = object::believable(own, clock, fetched);
        Ok(Snapshot { states, fields: self.object.fields(&found), key })
    }
}
