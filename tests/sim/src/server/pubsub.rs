//! Channels and their listeners.

use std::collections::{BTreeMap, BTreeSet};

use super::client::ClientId;
use super::pattern;
use super::resp::Bytes;

/// The listeners of each channel. A channel without listeners is none.
#[derive(Clone, Default, Debug)]
pub(super) struct Channels(BTreeMap<Bytes, BTreeSet<ClientId>>);

impl Channels {
    pub(super) fn join(&mut self, channel: &[u8], client: ClientId) {
        self.0.entry(channel.to_vec()).or_default().insert(client);
    }

    pub(super) fn leave(&mut self, channel: &[u8], client: ClientId) {
        if let Some(listeners) = self.0.get_mut(channel) {
            listeners.remove(&client);
            if listeners.is_empty() {
                self.0.remove(channel);
            }
        }
    }

    pub(super) fn listeners(&self, channel: &[u8]) -> Vec<ClientId> {
        self.0.get(channel).into_iter().flatten().copied().collect()
    }

    pub(super) fn count(&self, channel: &[u8]) -> usize {
        self.0.get(channel).map_or(0, BTreeSet::len)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Bytes> {
        self.0.keys()
    }

    /// For channels that are patterns: those that match a channel, each with its listeners.
    pub(super) fn matching(&self, channel: &[u8]) -> Vec<(Bytes, Vec<ClientId>)> {
        let matching = self.0.iter().filter(|(pattern, _)| pattern::matches(pattern, channel));
        matching.map(|(pattern, clients)| (pattern.clone(), clients.iter().copied().collect())).collect()
    }
}
