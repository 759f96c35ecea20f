//! All that a server has: its data, its clients, and what it is about to say to them.

use std::collections::{BTreeMap, VecDeque};

use super::access::Users;
use super::client::{Client, ClientId};
use super::cluster::ClusterView;
use super::pubsub::Channels;
use super::replication::{Effect, Role};
use super::resp::{self, Bytes, Reply};
use super::scripts::Scripts;
use super::settings::ServerSettings;
use super::store::{Database, Entry, Value, is_over};
use super::tracking::Tracking;
use super::trouble::Trouble;
use super::version::Version;

/// Redis has as many databases unless it is configured otherwise.
pub(super) const DATABASES: usize = 16;

pub(super) struct State {
    pub(super) version: Version,
    pub(super) settings: ServerSettings,
    /// The time of the call that is executed, in microseconds since 1970.
    pub(super) now: u64,
    pub(super) databases: Vec<Database>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) next_client: u64,
    /// How many commands of clients were for locks.
    pub(super) for_locks: u64,
    /// What was published of locks that waiters were granted since it was asked for last, and when.
    pub(super) grants: Vec<(u64, Bytes)>,
    pub(super) channels: Channels,
    pub(super) patterns: Channels,
    pub(super) sharded: Channels,
    pub(super) tracking: Tracking,
    pub(super) scripts: Scripts,
    pub(super) users: Users,
    pub(super) role: Role,
    /// The view of a node of a Cluster.
    pub(super) cluster: ClusterView,
    /// The addresses of the primaries, which a sentinel knows.
    pub(super) primaries: BTreeMap<String, (String, u16)>,
    /// The messages of a node of a Cluster for the others.
    pub(super) broadcasts: Vec<(Bytes, Bytes)>,
    pub(super) trouble: Trouble,
    /// The client whose command is executed.
    pub(super) current: Option<ClientId>,
    /// The keys of the script that is running.
    pub(super) script: Option<Vec<Bytes>>,
    /// For the current client, behind its reply.
    pub(super) behind_reply: Vec<Reply>,
    pub(super) output: Vec<(ClientId, Bytes)>,
    pub(super) closed: Vec<ClientId>,
    /// What was written since the replicas were last told.
    pub(super) effects: VecDeque<Effect>,
    /// How many effects there were.
    pub(super) offset: u64,
}

impl Default for State {
    fn default() -> Self {
        Self::new(Version::Redis70, ServerSettings::default())
    }
}

impl State {
    pub(super) fn new(version: Version, settings: ServerSettings) -> Self {
        Self {
            version,
            now: settings.started,
            databases: Vec::new(),
            clients: BTreeMap::new(),
            next_client: 1,
            for_locks: 0,
            grants: Vec::new(),
            channels: Channels::default(),
            patterns: Channels::default(),
            sharded: Channels::default(),
            tracking: Tracking::default(),
            scripts: Scripts::default(),
            users: Users::new(settings.password.clone()),
            role: Role::default(),
            cluster: ClusterView::default(),
            primaries: BTreeMap::new(),
            broadcasts: Vec::new(),
            trouble: Trouble::default(),
            current: None,
            script: None,
            behind_reply: Vec::new(),
            output: Vec::new(),
            closed: Vec::new(),
            effects: VecDeque::new(),
            offset: 0,
            settings,
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now / 1000
    }

    pub(super) fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary { .. })
    }

    // Data.

    pub(super) fn database(&mut self, number: usize) -> &mut Database {
        if self.databases.len() <= number {
            self.databases.resize_with(number + 1, Database::default);
        }
        &mut self.databases[number]
    }

    /// A key that has expired is removed when it is looked at, but on a replica its primary does
    /// that.
    pub(super) fn get(&mut self, database: usize, key: &[u8]) -> Option<&Entry> {
        let now = self.now_ms();
        let expires = self.databases.get(database)?.get(key)?.expires;
        if is_over(expires, now) {
            if self.is_primary() {
                self.drop_expired(database, key);
            }
            return None;
        }
        self.databases.get(database)?.get(key)
    }

    pub(super) fn drop_expired(&mut self, database: usize, key: &[u8]) {
        // From Redis 7.0 on, the client that runs into the expiry has changed the key.
        let by = self.current.filter(|_| self.version.is_7_or_later());
        self.database(database).remove(key);
        self.on_changed(database, key, by);
    }

    pub(super) fn put(&mut self, database: usize, key: &[u8], value: Value, expires: Option<u64>) {
        // Its expiry is published before.
        self.get(database, key);
        self.database(database).put(key, Entry { value, expires });
        self.on_changed(database, key, self.writer());
    }

    pub(super) fn remove(&mut self, database: usize, key: &[u8]) -> bool {
        if self.get(database, key).is_none() {
            return false;
        }
        self.database(database).remove(key);
        self.on_changed(database, key, self.writer());
        true
    }

    /// The client that changes a key now. Redis 6.2 takes the script for another client.
    pub(super) fn writer(&self) -> Option<ClientId> {
        let is_another = self.version == Version::Redis62 && self.script.is_some();
        self.current.filter(|_| !is_another)
    }

    /// Tells the clients that watch the key, and the replicas. `by`: the client that has changed
    /// it; none when it has expired.
    pub(super) fn on_changed(&mut self, database: usize, key: &[u8], by: Option<ClientId>) {
        self.tell_readers(key, by);
        self.note_effect(database, key);
    }

    pub(super) fn tell_readers(&mut self, key: &[u8], by: Option<ClientId>) {
        for reader in self.tracking.take(key) {
            let Some(mode) = self.clients.get(&reader).and_then(|client| client.tracking) else {
                continue;
            };
            if !(mode.no_loop && by == Some(reader)) {
                let keys = Reply::Array(vec![Reply::Bulk(key.to_vec())]);
                self.tell_change(reader, keys, self.version.tells_of_changes_behind_reply());
            }
        }
    }

    pub(super) fn flush(&mut self, database: Option<usize>) {
        self.clear(database);
        self.note_flush(database);
    }

    /// Clears one database, or all. Each client that tracks keys is notified.
    pub(super) fn clear(&mut self, database: Option<usize>) {
        match database {
            Some(number) => self.database(number).clear(),
            None => self.databases.clear(),
        }
        self.tracking.clear();
        let readers = self.clients.values().filter(|client| client.tracking.is_some());
        for reader in readers.map(|client| client.id).collect::<Vec<_>>() {
            self.tell_change(reader, Reply::Nil, self.version.tells_of_flush_behind_reply());
        }
    }

    // Output.

    fn tell_change(&mut self, reader: ClientId, keys: Reply, behind_reply: bool) {
        let speaks_resp2 =
            self.clients.get(&reader).is_none_or(|client| client.protocol == resp::Protocol::Resp2);
        if speaks_resp2 {
            return;
        }
        let push = Reply::Push(vec![Reply::text("invalidate"), keys]);
        if self.current == Some(reader) && behind_reply {
            self.behind_reply.push(push);
        } else {
            self.say(reader, &push);
        }
    }

    /// To a client that listens.
    pub(super) fn push(&mut self, to: ClientId, push: Reply) {
        if self.current == Some(to) && self.version.delivers_behind_reply() {
            self.behind_reply.push(push);
        } else {
            self.say(to, &push);
        }
    }

    pub(super) fn say(&mut self, to: ClientId, reply: &Reply) {
        let Some(client) = self.clients.get(&to) else {
            return;
        };
        if let Some((_, bytes)) = self.output.last_mut().filter(|(last, _)| *last == to) {
            resp::write(reply, client.protocol, bytes);
            return;
        }
        let mut bytes = Bytes::new();
        resp::write(reply, client.protocol, &mut bytes);
        if !bytes.is_empty() {
            self.output.push((to, bytes));
        }
    }

    /// The client is gone, and all that it has subscribed to.
    pub(super) fn forget_client(&mut self, id: ClientId) -> bool {
        let Some(client) = self.clients.remove(&id) else {
            return false;
        };
        client.channels.iter().for_each(|channel| self.channels.leave(channel, id));
        client.patterns.iter().for_each(|pattern| self.patterns.leave(pattern, id));
        client.sharded.iter().for_each(|channel| self.sharded.leave(channel, id));
        true
    }

    /// The server ends the connection, behind what it has said.
    pub(super) fn close_client(&mut self, id: ClientId) -> bool {
        let was_there = self.forget_client(id);
        if was_there {
            self.closed.push(id);
        }
        was_there
    }
}
