//! The data of one database: values and when they expire.

use std::collections::{BTreeMap, BTreeSet};

use super::resp::Bytes;
use super::sorted_set::SortedSet;

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(Bytes),
    SortedSet(SortedSet),
    /// Locks are never lists: a foreign client may write one in their place.
    List(Vec<Bytes>),
}

impl Value {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::SortedSet(_) => "zset",
            Self::List(_) => "list",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// In milliseconds since 1970.
    pub(super) expires: Option<u64>,
}

/// All keys, also those that have expired and were not yet touched.
#[derive(Clone, Default, Debug)]
pub(super) struct Database {
    entries: BTreeMap<Bytes, Entry>,
    expiries: BTreeSet<(u64, Bytes)>,
}

impl Database {
    pub(super) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Its expiry is changed by [`set_expiry`](Self::set_expiry).
    pub(super) fn value_mut(&mut self, key: &[u8]) -> Option<&mut Value> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(super) fn put(&mut self, key: &[u8], entry: Entry) {
        self.remove(key);
        if let Some(expires) = entry.expires {
            self.expiries.insert((expires, key.to_vec()));
        }
        self.entries.insert(key.to_vec(), entry);
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if let Some(expires) = entry.expires {
            self.expiries.remove(&(expires, key.to_vec()));
        }
        Some(entry)
    }

    pub(super) fn set_expiry(&mut self, key: &[u8], expires: Option<u64>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if let Some(before) = std::mem::replace(&mut entry.expires, expires) {
            self.expiries.remove(&(before, key.to_vec()));
        }
        if let Some(expires) = expires {
            self.expiries.insert((expires, key.to_vec()));
        }
    }

    /// The key that expires first, and when.
    pub(super) fn first_to_expire(&self) -> Option<(u64, &[u8])> {
        self.expiries.first().map(|(expires, key)| (*expires, &key[..]))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.entries.iter().map(|(key, entry)| (&key[..], entry))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Redis shows a key until its expiry is over, to the millisecond.
pub(super) fn is_over(expires: Option<u64>, now_ms: u64) -> bool {
    expires.is_some_and(|expires| now_ms > expires)
}
