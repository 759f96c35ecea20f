//! A Redis server without a process, a socket or a clock: bytes in, bytes out.
//!
//! It runs the real scripts of this project, in Lua 5.1. Its data, its replies and its pushes are
//! held against real servers by `tests/like_real_servers`, for each version in [`Version`] but
//! Redis 8.4. Two servers that get the same commands at the same times give the same replies.
//!
//! | you want | take |
//! | --- | --- |
//! | a client | [`connect`](Server::connect), [`receive`](Server::receive), [`disconnect`](Server::disconnect) |
//! | what goes to clients | [`take_output`](Server::take_output), [`take_closed`](Server::take_closed) |
//! | time to pass | [`next_expiry`](Server::next_expiry), [`expire`](Server::expire); [`next_timeout`](Server::next_timeout), [`time_out`](Server::time_out) |
//! | something to go wrong | `hands.rs` |
//! | a primary and its replicas | [`set_role`](Server::set_role); `replication.rs` carries what was written from one to the other |
//! | a Cluster | [`ServerSettings::cluster`], [`set_layout`](Server::set_layout); `cluster.rs` moves slots and keys |
//! | sentinels | [`ServerSettings::sentinel`], [`set_primary`](Server::set_primary) |
//! | to look without being seen | `looks.rs` |
//!
//! Nothing goes from one server to another by itself: the caller carries it, when it wants.
//!
//! What a server does that this one does not: blocking commands but `WAIT`, transactions,
//! functions, modules, more types than strings, sorted sets and (to be of another type) lists.
//! `SCAN` and `CLIENT INFO` have another order and fewer fields.

mod access;
mod client;
mod cluster;
mod commands;
mod errors;
mod flags;
mod hands;
mod layout;
mod looks;
mod numbers;
mod pattern;
mod pubsub;
mod replication;
mod resp;
mod scripting;
mod scripts;
mod sentinel;
mod settings;
mod slots;
mod sorted_set;
mod state;
mod store;
mod tracking;
mod trouble;
mod version;

pub use access::DEFAULT_USER;
pub use client::ClientId;
pub use cluster::MovedKey;
pub use hands::Data;
pub use layout::{Layout, Node, Shard};
pub use replication::{Effect, ReplicaLink, Role};
pub use resp::Bytes;
pub use scripts::Rewrite;
pub use settings::ServerSettings;
pub use slots::{SLOTS, slot_of};
pub use trouble::Trouble;
pub use version::Version;

use client::Client;
use resp::{Reply, Request};
use state::State;

/// One server. Times are microseconds since 1970 on its own clock, which the caller holds.
pub struct Server {
    state: State,
}

impl Server {
    /// A primary without data.
    #[must_use]
    pub fn new(version: Version, settings: ServerSettings) -> Self {
        Self { state: State::new(version, settings) }
    }

    /// A client has connected. `address`: as `CLIENT INFO` shows it, `host:port`. If there are too
    /// many, the client gets an error, and its connection is closed.
    pub fn connect(&mut self, now: u64, address: &str) -> ClientId {
        let state = &mut self.state;
        state.now = now;
        let id = ClientId(state.next_client);
        state.next_client += 1;
        let is_full = state.clients.len() >= state.settings.max_clients;
        state.clients.insert(id, Client::new(id, address, now, state.users.at_first()));
        if is_full {
            state.say(id, &Reply::Error("ERR max number of clients reached".to_owned()));
            state.close_client(id);
        }
        id
    }

    /// Bytes have arrived: the server executes each command that is complete. Bytes of a client
    /// that is gone are ignored.
    pub fn receive(&mut self, now: u64, client: ClientId, bytes: &[u8]) {
        self.state.now = now;
        if let Some(client) = self.state.clients.get_mut(&client) {
            client.input.extend_from_slice(bytes);
        }
        self.execute(client);
    }

    fn execute(&mut self, id: ClientId) {
        let state = &mut self.state;
        let Some(client) = state.clients.get_mut(&id) else {
            return;
        };
        let input = std::mem::take(&mut client.input);
        let mut rest = &input[..];
        loop {
            if state.clients.get(&id).is_none_or(|client| client.waits.is_some()) {
                break;
            }
            match resp::read(rest) {
                Request::Complete(words, length) => {
                    rest = &rest[length..];
                    if !words.is_empty() {
                        commands::run(state, id, &words);
                    }
                }
                Request::Incomplete => break,
                Request::Malformed(words) => {
                    state.say(id, &Reply::Error(words));
                    state.close_client(id);
                }
            }
        }
        if let Some(client) = state.clients.get_mut(&id) {
            client.input = rest.to_vec();
        }
    }

    /// What the server has said since the last call, in its order: replies and pushes.
    pub fn take_output(&mut self) -> Vec<(ClientId, Bytes)> {
        std::mem::take(&mut self.state.output)
    }

    /// The clients that the server has closed since the last call, behind its output to them.
    pub fn take_closed(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.state.closed)
    }

    /// The client has closed its connection.
    pub fn disconnect(&mut self, client: ClientId) {
        self.state.forget_client(client);
    }

    /// When the next key expires: the first time at which [`expire`](Self::expire) removes one.
    /// Redis may take 100 ms more.
    #[must_use]
    pub fn next_expiry(&self) -> Option<u64> {
        let first = self.state.databases.iter().filter_map(|database| database.first_to_expire());
        first.map(|(expires, _)| (expires + 1) * 1000).min()
    }

    /// Removes all keys that have expired, and tells the clients that watch them. A replica leaves
    /// that to its primary.
    pub fn expire(&mut self, now: u64) {
        let state = &mut self.state;
        state.now = now;
        if !state.is_primary() {
            return;
        }
        let now = state.now_ms();
        for database in 0..state.databases.len() {
            while let Some((expires, key)) = state.databases[database].first_to_expire()
                && store::is_over(Some(expires), now)
            {
                let key = key.to_vec();
                state.drop_expired(database, &key);
            }
        }
    }

    /// When the first `WAIT` is over.
    #[must_use]
    pub fn next_timeout(&self) -> Option<u64> {
        self.state.clients.values().filter_map(|client| client.waits?.until).min()
    }

    /// Answers the `WAIT`s that are over, and executes what their clients have sent meanwhile.
    pub fn time_out(&mut self, now: u64) {
        self.state.now = now;
        for client in self.state.end_waits() {
            self.execute(client);
        }
    }
}
