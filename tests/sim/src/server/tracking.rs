//! Client tracking: the clients that have read a key hear of its next change.

use std::collections::{BTreeMap, BTreeSet};

use super::client::ClientId;
use super::resp::Bytes;

/// The readers of each key, until it changes once.
#[derive(Clone, Default, Debug)]
pub(super) struct Tracking(BTreeMap<Bytes, BTreeSet<ClientId>>);

impl Tracking {
    pub(super) fn note(&mut self, key: &[u8], client: ClientId) {
        self.0.entry(key.to_vec()).or_default().insert(client);
    }

    /// The readers of a key, which are forgotten.
    pub(super) fn take(&mut self, key: &[u8]) -> BTreeSet<ClientId> {
        if self.0.is_empty() { BTreeSet::new() } else { self.0.remove(key).unwrap_or_default() }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_tracked_by(&self, key: &[u8], client: ClientId) -> bool {
        self.0.get(key).is_some_and(|readers| readers.contains(&client))
    }
}
