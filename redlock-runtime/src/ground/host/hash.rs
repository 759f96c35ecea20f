//! Hash maps whose seeds are random; in a simulation they are the same in each run, and so is the
//! order of the entries.

#[cfg(not(feature = "__simulation"))]
pub(crate) use foldhash::{HashMap, HashSet};

#[cfg(feature = "__simulation")]
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

#[cfg(feature = "__simulation")]
pub(crate) type HashSet<T> = std::collections::HashSet<T, foldhash::fast::FixedState>;
