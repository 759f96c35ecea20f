//! What a server does for a client: each command, and the checks in front of it.
#![expect(clippy::unnecessary_wraps, reason = "all commands have one signature")]

mod cluster;
mod connection;
mod info;
mod keys;
mod pubsub;
mod replicas;
mod scripts;
mod sentinel;
mod sorted_sets;
mod strings;
mod table;

use super::client::{Client, ClientId};
use super::cluster::RouteOf;
use super::errors::{ErrorReply, Refusal, WRONG_TYPE};
use super::flags::Flags;
use super::numbers;
use super::resp::{Bytes, Reply};
use super::sorted_set::SortedSet;
use super::state::State;
use super::store::Value;
use super::version::Version;
use table::Command;

pub(super) type Answer = Result<Reply, ErrorReply>;

/// One command under way.
pub(super) struct Call<'a> {
    state: &'a mut State,
    client: ClientId,
    /// The command and its arguments.
    words: &'a [Bytes],
    in_script: bool,
}

/// What a lock takes; the others are for connections and operators.
const FOR_LOCKS: [&str; 6] = ["evalsha", "eval", "set", "get", "delifeq", "delex"];

/// Executes the command of a client, and gives it the reply.
pub(super) fn run(state: &mut State, client: ClientId, words: &[Bytes]) {
    state.for_locks += u64::from(FOR_LOCKS.iter().any(|command| is(words, command)));
    state.current = Some(client);
    let reply = execute(state, client, words).unwrap_or_else(|ErrorReply(words)| Reply::Error(words));
    state.say(client, &reply);
    for push in std::mem::take(&mut state.behind_reply) {
        state.say(client, &push);
    }
    state.current = None;
    let Some(its) = state.clients.get_mut(&client) else {
        return;
    };
    // Both hold for one command.
    if !is(words, "client") {
        its.caching = false;
    }
    if !is(words, "asking") {
        its.asking = false;
    }
    if its.is_closing {
        state.close_client(client);
    }
}

fn is(words: &[Bytes], command: &str) -> bool {
    words.first().is_some_and(|name| name.eq_ignore_ascii_case(command.as_bytes()))
}

fn execute(state: &mut State, client: ClientId, words: &[Bytes]) -> Answer {
    let version = state.version;
    let refused = |refusal: Refusal| ErrorReply(refusal.words(version));
    let found = find(state, words);
    let is_known = |client: &Client| client.user.is_some();
    if version == Version::Valkey9 && found.is_err() && !state.clients.get(&client).is_some_and(is_known) {
        return Err(refused(Refusal::NotAuthenticated));
    }
    let command = found.map_err(refused)?;
    let flags = command.flags(version, words);
    check_access(state, client, command, flags, words).map_err(refused)?;
    route(state, client, command, flags, words).map_err(refused)?;
    if let Some(refusal) = state.refuses(flags) {
        return Err(refused(refusal));
    }
    if state.clients.get(&client).is_some_and(Client::only_listens) && !flags.is(Flags::LISTENS) {
        return Err(only_listens(version, command.name));
    }
    let answer = (command.run)(&mut Call { state, client, words, in_script: false });
    note_reads(state, client, command, words);
    answer
}

/// `line` of the script, for older servers. `has_written`: it has called a command that writes.
pub(super) fn run_in_script(
    state: &mut State,
    client: ClientId,
    words: Option<&[Bytes]>,
    has_written: &mut bool,
    line: impl Fn() -> usize,
) -> Answer {
    let version = state.version;
    let refused = |refusal: Refusal| ErrorReply(refusal.words_in_script(version, line()));
    let words = match words {
        Some([]) => return Err(ErrorReply(scripts::no_words(version, line()))),
        None => return Err(ErrorReply(scripts::other_words(version, line()))),
        Some(words) => words,
    };
    let command = find(state, words).map_err(refused)?;
    let flags = command.flags(version, words);
    if flags.is(Flags::NO_SCRIPT) {
        return Err(refused(Refusal::NotInScripts));
    }
    check_access(state, client, command, flags, words).map_err(refused)?;
    if let Some(refusal) = state.refuses_in_script(flags, *has_written) {
        return Err(refused(refusal));
    }
    *has_written |= flags.is(Flags::WRITES);
    route(state, client, command, flags, words).map_err(refused)?;
    let answer = (command.run)(&mut Call { state, client, words, in_script: true });
    note_reads(state, client, command, words);
    answer
}

/// The command, if its name and the number of its words are right.
fn find(state: &State, words: &[Bytes]) -> Result<&'static Command, Refusal> {
    let version = state.version;
    let [name, arguments @ ..] = words else {
        return Err(Refusal::Unknown { name: Bytes::new(), arguments: Vec::new() });
    };
    let Some(command) = table::find(name).filter(|command| command.is_known_to(state)) else {
        return Err(Refusal::Unknown { name: name.clone(), arguments: arguments.to_vec() });
    };
    if let Some(subcommand) = arguments.first().filter(|name| !command.knows_subcommand(version, name)) {
        let command = command.name.to_ascii_uppercase();
        return Err(Refusal::UnknownSubcommand { command, name: subcommand.clone() });
    }
    if command.takes(version, words.len()) {
        Ok(command)
    } else {
        Err(Refusal::Arity { command: command.name.to_owned() })
    }
}

fn check_access(
    state: &State,
    client: ClientId,
    command: &Command,
    flags: Flags,
    words: &[Bytes],
) -> Result<(), Refusal> {
    let Some(client) = state.clients.get(&client) else {
        return Ok(());
    };
    let Some(name) = &client.user else {
        return if flags.is(Flags::NO_AUTH) { Ok(()) } else { Err(Refusal::NotAuthenticated) };
    };
    let Some(user) = state.users.get(name).filter(|_| !flags.is(Flags::NO_AUTH)) else {
        return Ok(());
    };
    if !user.denied.is_empty() {
        let subcommand = flags.is(Flags::HAS_SUBCOMMANDS).then(|| words.get(1)).flatten();
        let subcommand = subcommand.map(|word| String::from_utf8_lossy(word).to_ascii_lowercase());
        if !user.may_run(command.name, subcommand.as_deref()) {
            let command = match subcommand {
                Some(subcommand) => format!("{}|{subcommand}", command.name),
                None => command.name.to_owned(),
            };
            return Err(Refusal::Command { user: name.clone(), command });
        }
    }
    if user.keys.is_some() && !command.keys.of(words).iter().all(|key| user.may_use_key(key)) {
        return Err(Refusal::Key);
    }
    if user.channels.is_some() && !command.channels(words).iter().all(|name| user.may_use_channel(name)) {
        return Err(Refusal::Channel);
    }
    Ok(())
}

/// In a Cluster, whether this node executes the command.
fn route(
    state: &mut State,
    client: ClientId,
    command: &'static Command,
    flags: Flags,
    words: &[Bytes],
) -> Result<(), Refusal> {
    if !state.settings.cluster {
        return Ok(());
    }
    let Some(route) = state.clients.get(&client).map(RouteOf::from) else {
        return Ok(());
    };
    let channels = command.keys.sharded_channels_of(words);
    let keys = if channels.is_empty() { command.keys.of(words) } else { channels };
    Ok(state.route(route, command.name, flags, keys, !channels.is_empty())?)
}

/// The server tells the client when a key changes that it has read, if it has asked for that: from the end of the command
/// on, so not of an expiry that the command itself runs into.
fn note_reads(state: &mut State, client: ClientId, command: &Command, words: &[Bytes]) {
    if !command.flags(state.version, words).is(Flags::READS) {
        return;
    }
    let Some(its) = state.clients.get(&client) else {
        return;
    };
    if its.tracking.is_some_and(|mode| !mode.opt_in || its.caching) {
        // Up to Redis 7.0, a script that reads any key is taken to read all that it was given.
        let keys = match &state.script {
            Some(keys) if !state.version.is_72_or_later() => keys,
            _ => command.keys.of(words),
        };
        for key in keys {
            state.tracking.note(key, client);
        }
    }
}

fn only_listens(version: Version, command: &str) -> ErrorReply {
    let words = if version == Version::Redis5 {
        "ERR only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT allowed in this context".to_owned()
    } else if version == Version::Redis62 {
        format!(
            "ERR Can't execute '{command}': only (P)SUBSCRIBE / (P)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )
    } else {
        format!(
            "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )
    };
    ErrorReply(words)
}

impl Call<'_> {
    fn word(&self, at: usize) -> &[u8] {
        self.words.get(at).map_or(&[], |word| &word[..])
    }

    /// An argument as a keyword, in upper case.
    fn keyword(&self, at: usize) -> String {
        String::from_utf8_lossy(self.word(at)).to_ascii_uppercase()
    }

    fn integer(&self, at: usize) -> Result<i64, ErrorReply> {
        numbers::integer(self.word(at)).ok_or_else(|| super::errors::NOT_AN_INTEGER.into())
    }

    fn version(&self) -> Version {
        self.state.version
    }

    fn me(&mut self) -> Result<&mut Client, ErrorReply> {
        self.state.clients.get_mut(&self.client).ok_or_else(|| "ERR this client is gone".into())
    }

    fn database(&self) -> usize {
        self.state.clients.get(&self.client).map_or(0, |client| client.database)
    }

    /// In a script, replies are those of RESP2.
    fn speaks_resp3(&self) -> bool {
        let protocol = self.state.clients.get(&self.client).map(|client| client.protocol);
        !self.in_script && protocol == Some(super::resp::Protocol::Resp3)
    }

    fn value(&mut self, key: &[u8]) -> Option<&Value> {
        self.state.get(self.database(), key).map(|entry| &entry.value)
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<&Bytes>, ErrorReply> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn sorted_set(&mut self, key: &[u8]) -> Result<Option<&SortedSet>, ErrorReply> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::SortedSet(set)) => Ok(Some(set)),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    fn unknown_subcommand(&self, command: &str) -> ErrorReply {
        let (command, name) = (command.to_owned(), self.word(1).to_vec());
        ErrorReply(Refusal::UnknownSubcommand { command, name }.words(self.version()))
    }

    /// An error of its own from Redis 7.0 on.
    fn wrong_number_of_arguments(&self, command: &str) -> ErrorReply {
        if !self.version().is_7_or_later() {
            return self.unknown_subcommand(command);
        }
        let subcommand = self.keyword(1);
        let command = format!("{command}|{subcommand}").to_ascii_lowercase();
        ErrorReply(Refusal::Arity { command }.words(self.version()))
    }
}
