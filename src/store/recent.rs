//! A bounded map that keeps what was used lately: two generations, the older of which is dropped when the younger is
//! full. Every operation takes constant time, and at most twice the capacity is held.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Values used lately, by key.
pub(super) struct Recent<K, V> {
    capacity: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V: Clone> Recent<K, V> {
    /// Holds at least `capacity` values (at least one) before it forgets.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), young: HashMap::new(), old: HashMap::new() }
    }

    /// The value of a key, if it is still held; it counts as used.
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    /// Holds a value in place of any other of its key.
    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn holds_what_was_used_lately_and_no_more_than_twice_its_capacity() {
        let mut recent = Recent::new(2);
        for key in 0..10 {
            recent.insert(key, key * 10);
            assert_eq!(recent.get(&0), Some(0), "used again and again, so never forgotten (after {key})");
            assert!(recent.young.len() + recent.old.len() <= 4);
        }
        assert_eq!(recent.get(&9), Some(90));
        assert_eq!(recent.get(&3), None);
    }

    #[test]
    fn a_later_value_stands_in_place_of_an_earlier_one_in_either_generation() {
        let mut recent = Recent::new(1);
        recent.insert("a", 1);
        recent.insert("b", 2);
        recent.insert("a", 3);
        assert_eq!(recent.get(&"a"), Some(3));
    }
}
