//! JSON Pointers (RFC 6901) over raw text: one pass finds what many pointers name, and gives it as it was written.
//!
//! - No number passes through a float: what is found is text.
//! - Of equal keys in one object the last counts, as in `JSON.parse`.
//! - A pointer that leads through a null finds that null: what would hold the value says that there is none.
//! - What no pointer leads into is skipped without recursion, however deep it is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most steps a pointer may have: the walk recurses this deep at most.
const STEPS_MAX: usize = 16;

/// A JSON Pointer. The empty one names the whole value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Pointer {
    steps: Vec<String>,
}

/// Where one pointer's finding is put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot(usize);

/// Pointers, merged into a tree by their common beginnings.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    pointers: Vec<Pointer>,
}

/// What was found, by slot.
#[derive(Debug)]
pub(super) struct Captured<'a> {
    values: Vec<Option<&'a RawValue>>,
    visited: Vec<bool>,
}

#[derive(Debug, Default)]
struct Node {
    slot: Option<usize>,
    keys: BTreeMap<String, usize>,
    /// Those of the keys that can be an index of an array.
    indexes: BTreeMap<usize, usize>,
}

impl Pointer {
    /// Reads `/data/object`, with `~0` for `~` and `~1` for `/`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let Some(steps) = text.strip_prefix('/') else {
            return Err(format!("`{text}` is not a JSON pointer; it must start with `/`"));
        };
        let steps: Vec<_> = steps.split('/').map(unescape).collect::<Option<_>>().ok_or_else(|| {
            format!("`{text}` holds a `~` that is not part of `~0` (which means `~`) or `~1` (which means `/`)")
        })?;
        if steps.len() > STEPS_MAX {
            return Err(format!("`{text}` has {} steps, at most {STEPS_MAX} are followed", steps.len()));
        }
        Ok(Self { steps })
    }

    /// The pointer that leads from this one's value to the other's.
    pub(super) fn join(&self, relative: &Self) -> Self {
        Self { steps: self.steps.iter().chain(&relative.steps).cloned().collect() }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| write!(f, "/{}", step.replace('~', "~0").replace('/', "~1")))
    }
}

impl Trie {
    /// A tree without pointers.
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::default()], pointers: Vec::new() }
    }

    /// Adds a pointer; one that is there already keeps its slot.
    pub(super) fn add(&mut self, pointer: &Pointer) -> Slot {
        let mut at = 0;
        for step in &pointer.steps {
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else { break };
            at = *node.keys.entry(step.clone()).or_insert(fresh);
            if at == fresh {
                if let Some(index) = array_index(step) {
                    node.indexes.insert(index, fresh);
                }
                self.nodes.push(Node::default());
            }
        }
        let fresh = self.pointers.len();
        let slot = self.nodes.get_mut(at).map_or(fresh, |node| *node.slot.get_or_insert(fresh));
        if slot == fresh {
            self.pointers.push(pointer.clone());
        }
        Slot(slot)
    }

    /// The pointer of a slot.
    pub(super) fn pointer(&self, slot: Slot) -> Cow<'_, Pointer> {
        self.pointers.get(slot.0).map_or_else(Cow::default, Cow::Borrowed)
    }

    /// Finds what the pointers name in a JSON text.
    pub(super) fn walk<'a>(&self, text: &'a str) -> Result<Captured<'a>, serde_json::Error> {
        // The quick way reads a number or a string that stands where an object was expected, and refuses some that
        // are legal JSON (1e999, half a surrogate pair). The careful way only skips them, but passes over the
        // text once for every step. It also has the last word on what is no JSON.
        self.walk_with(text, false).or_else(|_| self.walk_with(text, true))
    }

    fn walk_with<'a>(&self, text: &'a str, careful: bool) -> Result<Captured<'a>, serde_json::Error> {
        let mut captured = Captured { values: vec![None; self.pointers.len()], visited: vec![false; self.nodes.len()] };
        let mut json = serde_json::Deserializer::from_str(text);
        Step { trie: self, node: 0, captured: &mut captured, careful }.deserialize(&mut json)?;
        json.end()?;
        Ok(captured)
    }

    /// Puts a null wherever a pointer leads on from this node.
    fn end_in_null(&self, at: usize, captured: &mut Captured<'_>) {
        let Some(node) = self.nodes.get(at) else { return };
        for child in node.keys.values() {
            let slot = self.nodes.get(*child).and_then(|child| child.slot);
            if let Some(value) = slot.and_then(|slot| captured.values.get_mut(slot)) {
                *value = Some(RawValue::NULL);
            }
            self.end_in_null(*child, captured);
        }
    }

    /// Forgets what was found at this node and below it.
    fn forget(&self, at: usize, captured: &mut Captured<'_>) {
        let Some(node) = self.nodes.get(at) else { return };
        if let Some(value) = node.slot.and_then(|slot| captured.values.get_mut(slot)) {
            *value = None;
        }
        for child in node.keys.values() {
            self.forget(*child, captured);
        }
    }
}

impl<'a> Captured<'a> {
    /// What was found for a slot, as it was written.
    pub(super) fn get(&self, slot: Slot) -> Option<&'a str> {
        self.values.get(slot.0).copied().flatten().map(RawValue::get)
    }
}

/// One node of the tree against one value of the text.
struct Step<'t, 'c, 'a> {
    trie: &'t Trie,
    node: usize,
    captured: &'c mut Captured<'a>,
    careful: bool,
}

impl<'a> Step<'_, '_, 'a> {
    fn child(&mut self, node: usize) -> Step<'_, '_, 'a> {
        if let Some(visited) = self.captured.visited.get_mut(node)
            && std::mem::replace(visited, true)
        {
            self.trie.forget(node, self.captured);
        }
        Step { trie: self.trie, node, captured: &mut *self.captured, careful: self.careful }
    }
}

impl<'a> DeserializeSeed<'a> for Step<'_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<(), D::Error> {
        let Some(node) = self.trie.nodes.get(self.node) else { return Ok(()) };
        if node.slot.is_none() && !self.careful {
            return json.deserialize_any(self);
        }
        let raw: &'a RawValue = serde::Deserialize::deserialize(json)?;
        if let Some(value) = node.slot.and_then(|slot| self.captured.values.get_mut(slot)) {
            *value = Some(raw);
        }
        if raw.get() == "null" {
            self.trie.end_in_null(self.node, self.captured);
        }
        if node.keys.is_empty() || !raw.get().starts_with(['{', '[']) {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'a> Visitor<'a> for Step<'_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        let trie = self.trie;
        let Some(node) = trie.nodes.get(self.node) else { return Ok(()) };
        while let Some(found) = map.next_key_seed(KeyOf(node))? {
            match found {
                Some(child) => map.next_value_seed(self.child(child))?,
                None => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'a>>(mut self, mut seq: S) -> Result<(), S::Error> {
        let trie = self.trie;
        let Some(node) = trie.nodes.get(self.node) else { return Ok(()) };
        for index in 0_usize.. {
            let more = match node.indexes.get(&index) {
                Some(child) => seq.next_element_seed(self.child(*child))?,
                None => seq.next_element::<IgnoredAny>()?.map(|_| ()),
            };
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.trie.end_in_null(self.node, self.captured);
        Ok(())
    }
}

/// Reads a key of an object, and answers the child of this node that it leads to.
///
/// The key is read as bytes: as text, half a surrogate pair in a key of no interest would refuse the whole body.
struct KeyOf<'t>(&'t Node);

impl<'a> DeserializeSeed<'a> for KeyOf<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'a>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_bytes(self)
    }
}

impl Visitor<'_> for KeyOf<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(std::str::from_utf8(key).ok().and_then(|key| self.0.keys.get(key)).copied())
    }
}

fn unescape(step: &str) -> Option<String> {
    let mut parts = step.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix('0') {
            out.push('~');
            out.push_str(rest);
        } else {
            out.push('/');
            out.push_str(part.strip_prefix('1')?);
        }
    }
    Some(out)
}

/// The index that a step means in an array: digits without a leading zero.
fn array_index(step: &str) -> Option<usize> {
    let index: usize = step.parse().ok()?;
    (index.to_string() == step).then_some(index)
}
