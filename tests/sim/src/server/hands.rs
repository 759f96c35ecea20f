//! What tests do to a server.

use std::rc::Rc;

use super::access::User;
use super::client::ClientId;
use super::replication::Role;
use super::resp::Bytes;
use super::scripts::Rewrite;
use super::settings::ServerSettings;
use super::state::State;
use super::store::{Database, Value};
use super::trouble::Trouble;
use super::version::Version;
use super::{Server, commands};

/// The data of a server, as a file would keep them.
#[derive(Clone, Debug, Default)]
pub struct Data(Vec<Database>);

impl Server {
    /// `FLUSHALL`, by an operator.
    pub fn flush_all(&mut self, now: u64) {
        self.state.now = now;
        self.state.flush(None);
    }

    /// `DEL`, by a foreign client: false when there was no such key. Eviction looks the same.
    pub fn delete(&mut self, now: u64, key: &[u8]) -> bool {
        self.state.now = now;
        self.state.remove(0, key)
    }

    /// `SET key value [PX ms]`, by a foreign client.
    pub fn set(&mut self, now: u64, key: &[u8], value: &[u8], px: Option<u64>) {
        self.state.now = now;
        let expires = px.map(|px| self.state.now_ms() + px);
        self.state.put(0, key, Value::Text(value.to_vec()), expires);
    }

    /// A foreign client makes a list of the key, which no lock is.
    pub fn set_to_a_list(&mut self, now: u64, key: &[u8]) {
        self.state.now = now;
        self.state.put(0, key, Value::List(vec![b"item".to_vec()]), None);
    }

    /// Any message, by a foreign client: to how many it went.
    pub fn publish(&mut self, now: u64, channel: &[u8], message: &[u8]) -> usize {
        self.state.now = now;
        self.state.publish(channel, message)
    }

    /// Which locks waiters were granted since it was asked last: how many microseconds ago, and what
    /// they were told.
    pub fn take_grants(&mut self, now: u64) -> Vec<(u64, Bytes)> {
        let grants = std::mem::take(&mut self.state.grants).into_iter();
        grants.map(|(at, message)| (now.saturating_sub(at), message)).collect()
    }

    /// The user may not run this command, or `command|subcommand`, in lower case.
    pub fn deny(&mut self, user: &str, command: &str) {
        self.state.users.change(user).denied.insert(command.to_owned());
    }

    /// The user may run this command again.
    pub fn allow(&mut self, user: &str, command: &str) {
        self.state.users.change(user).denied.remove(command);
    }

    /// The user may use only keys and channels of these patterns; `None` is all. A new user has all
    /// of them, and no password.
    pub fn limit(&mut self, user: &str, keys: Option<&[&str]>, channels: Option<&[&str]>) {
        let bytes = |patterns: &[&str]| patterns.iter().map(|pattern| pattern.as_bytes().to_vec()).collect();
        let User { keys: of_user, channels: its_channels, .. } = self.state.users.change(user);
        (*of_user, *its_channels) = (keys.map(bytes), channels.map(bytes));
    }

    /// The passwords of a user; `None` for any. Clients that are logged in stay so.
    pub fn set_passwords(&mut self, user: &str, passwords: Option<&[&str]>) {
        self.state.users.change(user).passwords =
            passwords.map(|passwords| passwords.iter().map(|password| (*password).to_owned()).collect());
    }

    /// The troubles that it has from now on.
    pub fn set_trouble(&mut self, trouble: Trouble) {
        self.state.trouble = trouble;
    }

    /// The troubles that it has.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        self.state.trouble
    }

    /// Settings that may change while it runs.
    pub fn settings_mut(&mut self) -> &mut ServerSettings {
        &mut self.state.settings
    }

    /// It becomes a primary or a replica. Its data stay.
    pub fn set_role(&mut self, role: Role) {
        self.state.role = role;
    }

    /// The server drops a client, as `CLIENT KILL` or the limit of its output does: false when
    /// there is none.
    pub fn close(&mut self, client: ClientId) -> bool {
        self.state.close_client(client)
    }

    /// Sharded channels have moved to another server: their listeners get a message.
    pub fn end_sharded_channels(&mut self, now: u64, moved: impl Fn(&[u8]) -> bool) {
        self.state.now = now;
        self.state.end_sharded(moved);
    }

    /// `SCRIPT FLUSH`.
    pub fn forget_scripts(&mut self) {
        self.state.scripts.forget();
    }

    /// From now on, the server executes what this makes of each new script; its digest stays that
    /// of what was sent. Scripts that it knows are forgotten. It survives a restart.
    pub fn set_script_rewrite(&mut self, rewrite: Option<Rewrite>) {
        self.state.scripts.forget();
        self.state.scripts.rewrite = rewrite;
    }

    /// [`set_script_rewrite`](Self::set_script_rewrite) by a function.
    pub fn rewrite_scripts(&mut self, rewrite: impl Fn(&str) -> String + 'static) {
        self.set_script_rewrite(Some(Rc::new(rewrite)));
    }

    /// A copy of all data.
    #[must_use]
    pub fn data(&self) -> Data {
        Data(self.state.databases.clone())
    }

    /// Other data take the place of its own, as after `REPLICAOF` another server, then
    /// `REPLICAOF NO ONE`. Connections stay.
    pub fn replace_data(&mut self, now: u64, data: Data) {
        self.state.now = now;
        self.state.flush(None);
        self.state.databases = data.0;
    }

    /// The process ends: all clients are closed, scripts and watches are forgotten. It starts again
    /// with these data and this `run_id`, as a primary or replica as before, and with its users.
    pub fn restart(&mut self, now: u64, run_id: &str, data: Data) {
        for client in self.state.clients.keys().copied().collect::<Vec<_>>() {
            self.state.close_client(client);
        }
        let before = std::mem::take(&mut self.state);
        let settings = ServerSettings { run_id: run_id.to_owned(), started: now, ..before.settings };
        let mut state = State::new(before.version, settings);
        state.now = now;
        state.databases = data.0;
        state.users = before.users;
        state.role = before.role;
        state.scripts.rewrite = before.scripts.rewrite;
        // As its configuration file keeps them.
        state.cluster = before.cluster;
        state.primaries = before.primaries;
        state.output = before.output;
        state.closed = before.closed;
        // A connection of the next process has another number, so that the simulation never takes
        // one for another.
        state.next_client = before.next_client;
        self.state = state;
    }

    /// Which server it is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.state.version
    }

    /// One command by a client of its own, and the reply as RESP2: for tests.
    pub fn run(&mut self, now: u64, words: &[&str]) -> Bytes {
        let client = self.connect(now, "0.0.0.0:1");
        let before = self.take_output();
        let words: Vec<Bytes> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        commands::run(&mut self.state, client, &words);
        let (mine, others): (Vec<_>, Vec<_>) =
            self.take_output().into_iter().partition(|(to, _)| *to == client);
        self.state.output = before.into_iter().chain(others).collect();
        self.disconnect(client);
        mine.into_iter().flat_map(|(_, bytes)| bytes).collect()
    }
}
