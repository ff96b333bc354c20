//! A bounded map that keeps what was used lately: two generations, the older of which is dropped when the younger is
//! full. Every operation takes constant time, and about twice the capacity is held at most.

use std::hash::Hash;
use std::mem;

use super::map::Map;

/// Values used lately, by key.
pub(super) struct Recent<K, V> {
    /// How much the younger generation weighs, and may weigh.
    weight: usize,
    capacity: usize,
    young: Map<K, (V, usize)>,
    old: Map<K, (V, usize)>,
}

impl<K: Eq + Hash + Clone, V: Clone> Recent<K, V> {
    /// Holds values of at least `capacity` together before it forgets.
    pub(super) fn new(capacity: usize) -> Self {
        Self { weight: 0, capacity, young: Map::default(), old: Map::default() }
    }

    /// The value of a key, if it is still held; it counts as used.
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, weight)) = self.old.remove_entry(key)?;
        self.insert(key, value.clone(), weight);
        Some(value)
    }

    /// Holds a value of this weight in place of any other of its key.
    pub(super) fn insert(&mut self, key: K, value: V, weight: usize) {
        if let Some((held, replaced)) = self.young.get_mut(&key) {
            let after = self.weight.saturating_sub(*replaced).saturating_add(weight);
            if after <= self.capacity {
                (*held, *replaced, self.weight) = (value, weight, after);
                return;
            }
        }
        self.old.remove(&key);
        if let Some((_, replaced)) = self.young.remove(&key) {
            self.weight = self.weight.saturating_sub(replaced);
        }
        if self.weight.saturating_add(weight) > self.capacity {
            self.old = mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight = self.weight.saturating_add(weight);
        self.young.insert(key, (value, weight));
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn holds_what_was_used_lately_and_about_twice_its_capacity_at_most() {
        let mut recent = Recent::new(200);
        for key in 0..10 {
            recent.insert(key, key * 10, 100);
            assert_eq!(recent.get(&0), Some(0), "used again and again, so never forgotten (after {key})");
            assert!(recent.young.len() + recent.old.len() <= 4);
        }
        assert_eq!(recent.get(&9), Some(90));
        assert_eq!(recent.get(&3), None);
    }

    #[test]
    fn a_heavy_value_is_held_alone_and_makes_room_again_when_it_is_replaced() {
        let mut recent = Recent::new(200);
        recent.insert("a", 1, 1000);
        assert_eq!(recent.get(&"a"), Some(1));
        recent.insert("a", 2, 10);
        recent.insert("b", 3, 10);
        recent.insert("c", 4, 180);
        assert_eq!(recent.old.len(), 0, "together they are not too heavy");
        recent.insert("d", 5, 1);
        assert_eq!((recent.young.len(), recent.old.len()), (1, 3));
    }

    #[test]
    fn a_later_value_stands_in_place_of_an_earlier_one_in_either_generation() {
        let mut recent = Recent::new(1);
        recent.insert("a", 1, 1);
        recent.insert("b", 2, 1);
        recent.insert("a", 3, 1);
        assert_eq!(recent.get(&"a"), Some(3));
    }
}
