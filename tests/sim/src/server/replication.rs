//! Primary and replicas: what was written, and how far each replica has come.

use super::Server;
use super::client::ClientId;
use super::resp::{Bytes, Reply};
use super::state::State;
use super::store::Entry;

/// What a server is in a group of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// It takes writes. Its replicas are those that the plan names.
    Primary {
        /// As they identify themselves, and up to which effect each has what was written.
        replicas: Vec<ReplicaLink>,
    },
    /// It has what its primary had a moment ago.
    Replica {
        /// Where that is.
        host: String,
        /// As `host`.
        port: u16,
        /// False while there is no connection.
        link_is_up: bool,
        /// `replica-serve-stale-data`: whether it answers without that connection.
        serves_stale_data: bool,
    },
}

impl Default for Role {
    fn default() -> Self {
        Self::Primary { replicas: Vec::new() }
    }
}

/// A replica, as its primary knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaLink {
    /// Where it is.
    pub host: String,
    /// As `host`.
    pub port: u16,
    /// How many effects it has.
    pub acknowledged: u64,
}

/// What a command has done to the data, for a replica.
#[derive(Clone, Debug)]
pub struct Effect {
    pub(super) number: u64,
    pub(super) change: Change,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The key has this now.
    Key { database: usize, key: Bytes, entry: Option<Entry> },
    /// One database, or all.
    Flushed(Option<usize>),
}

impl Server {
    /// What was written since the last call, for the replicas. A server without replicas keeps
    /// none.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.state.effects.drain(..).collect()
    }

    /// A replica does what its primary has done: how many effects it has now.
    pub fn apply(&mut self, now: u64, effects: &[Effect]) -> u64 {
        self.state.now = now;
        for effect in effects {
            self.state.offset = effect.number;
            self.state.apply(&effect.change);
        }
        self.state.offset
    }

    /// How many effects there were on a primary, or have come to a replica.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.state.offset
    }

    /// A replica gets a copy of all data of its primary, which had so many effects.
    pub fn copy_from(&mut self, now: u64, primary: &Self) {
        self.state.now = now;
        self.state.flush(None);
        self.state.databases.clone_from(&primary.state.databases);
        self.state.offset = primary.state.offset;
    }

    /// A replica has said how many effects it has: a client that waits for them with `WAIT` is
    /// answered.
    pub fn acknowledge(&mut self, now: u64, host: &str, port: u16, effects: u64) {
        self.state.now = now;
        if let Role::Primary { replicas } = &mut self.state.role {
            for replica in
                replicas.iter_mut().filter(|replica| (&*replica.host, replica.port) == (host, port))
            {
                replica.acknowledged = effects;
            }
        }
        self.time_out(now);
    }
}

impl State {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Key { database, key, entry } => {
                match entry {
                    Some(entry) => self.database(*database).put(key, entry.clone()),
                    None => {
                        self.database(*database).remove(key);
                    }
                }
                self.tell_readers(key, None);
            }
            Change::Flushed(database) => self.clear(*database),
        }
    }

    pub(super) fn note_effect(&mut self, database: usize, key: &[u8]) {
        self.note(|state| {
            let entry = state.databases.get(database).and_then(|database| database.get(key)).cloned();
            Change::Key { database, key: key.to_vec(), entry }
        });
    }

    pub(super) fn note_flush(&mut self, database: Option<usize>) {
        self.note(|_| Change::Flushed(database));
    }

    fn note(&mut self, change: impl FnOnce(&Self) -> Change) {
        self.offset += 1;
        if let Some(client) = self.current.and_then(|client| self.clients.get_mut(&client)) {
            client.written = self.offset;
        }
        if self.has_replicas() {
            let change = change(self);
            self.effects.push_back(Effect { number: self.offset, change });
        }
    }

    pub(super) fn has_replicas(&self) -> bool {
        matches!(&self.role, Role::Primary { replicas } if !replicas.is_empty())
    }

    /// `min-replicas-to-write`.
    pub(super) fn lacks_replicas(&self) -> bool {
        match &self.role {
            Role::Primary { replicas } => replicas.len() < self.settings.replicas_to_write,
            Role::Replica { .. } => false,
        }
    }

    /// A replica without its primary, that does not answer from what it has.
    pub(super) fn is_cut_off(&self) -> bool {
        matches!(self.role, Role::Replica { link_is_up: false, serves_stale_data: false, .. })
    }

    /// How many replicas have all effects up to this one.
    pub(super) fn replicas_with(&self, offset: u64) -> usize {
        match &self.role {
            Role::Primary { replicas } => {
                replicas.iter().filter(|replica| replica.acknowledged >= offset).count()
            }
            Role::Replica { .. } => 0,
        }
    }

    /// Answers those whose `WAIT` is over. Their later commands are executed by the caller.
    pub(super) fn end_waits(&mut self) -> Vec<ClientId> {
        let mut ended = Vec::new();
        for client in self.clients.values() {
            if let Some(waiting) = client.waits {
                let reached = self.replicas_with(waiting.offset);
                if reached >= waiting.replicas || waiting.until.is_some_and(|until| self.now >= until) {
                    ended.push((client.id, reached));
                }
            }
        }
        for (client, reached) in &ended {
            if let Some(client) = self.clients.get_mut(client) {
                client.waits = None;
            }
            self.say(*client, &Reply::count(*reached));
        }
        ended.into_iter().map(|(client, _)| client).collect()
    }
}
