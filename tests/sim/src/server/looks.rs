//! What oracles see of a server. None of it changes anything: keys that have expired are passed
//! over, not removed.

use super::Server;
use super::client::ClientId;
use super::resp::Bytes;
use super::store::{Database, Entry, Value, is_over};

impl Server {
    fn entry(&self, now: u64, key: &[u8]) -> Option<&Entry> {
        let entry = self.state.databases.first()?.get(key)?;
        (!is_over(entry.expires, now / 1000)).then_some(entry)
    }

    /// All keys of database 0, in the order of their bytes.
    pub fn keys(&self, now: u64) -> impl Iterator<Item = &[u8]> {
        let entries = self.state.databases.first().into_iter().flat_map(Database::iter);
        entries.filter(move |(_, entry)| !is_over(entry.expires, now / 1000)).map(|(key, _)| key)
    }

    /// The value of a string; `None` also for another type.
    #[must_use]
    pub fn value(&self, now: u64, key: &[u8]) -> Option<&[u8]> {
        match &self.entry(now, key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As `TYPE` names it.
    #[must_use]
    pub fn kind(&self, now: u64, key: &[u8]) -> Option<&'static str> {
        self.entry(now, key).map(|entry| entry.value.kind())
    }

    /// In milliseconds: `None` without the key, `Some(None)` without an end.
    #[must_use]
    pub fn pttl(&self, now: u64, key: &[u8]) -> Option<Option<u64>> {
        Some(self.entry(now, key)?.expires.map(|expires| expires.saturating_sub(now / 1000)))
    }

    /// Returns the members of a sorted set, each with its score, the first one first. Empty for what is none.
    #[must_use]
    pub fn members(&self, now: u64, key: &[u8]) -> Vec<(Bytes, f64)> {
        match self.entry(now, key).map(|entry| &entry.value) {
            Some(Value::SortedSet(set)) => {
                set.iter().map(|(member, score)| (member.to_vec(), score)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// In milliseconds, as a score that says when a lease ends.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a time of 53 bits is enough for 285,000 years")]
    pub fn time(&self, now: u64) -> f64 {
        (now / 1000) as f64
    }

    /// Returns the subscribers of a plain channel.
    #[must_use]
    pub fn subscribers(&self, channel: &[u8]) -> Vec<ClientId> {
        self.state.channels.listeners(channel)
    }

    /// Returns the subscribers of a sharded channel.
    #[must_use]
    pub fn sharded_subscribers(&self, channel: &[u8]) -> Vec<ClientId> {
        self.state.sharded.listeners(channel)
    }

    /// Whether the client will hear of the next change of the key.
    #[must_use]
    pub fn is_tracked_by(&self, key: &[u8], client: ClientId) -> bool {
        self.state.tracking.is_tracked_by(key, client)
    }

    /// How many commands it has executed for locks so far, and how many clients have connected.
    #[must_use]
    pub fn costs(&self) -> (u64, u64) {
        (self.state.for_locks, self.state.next_client - 1)
    }

    /// All clients that are connected.
    pub fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.state.clients.keys().copied()
    }

    /// As the client sees itself: `host:port`.
    #[must_use]
    pub fn address_of(&self, client: ClientId) -> Option<&str> {
        self.state.clients.get(&client).map(|client| &*client.address)
    }
}
