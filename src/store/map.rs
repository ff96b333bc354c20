//! The hash maps of what is looked up for every event. Their keys are long texts, and the standard hasher, which no
//! sender can steer here anyway, takes several times as long for them. Seeded anew in each process.

/// A map.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// A set.
pub(crate) type Set<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
