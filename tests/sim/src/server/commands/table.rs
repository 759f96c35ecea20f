//! The commands that a server knows.

use super::super::flags::Flags;
use super::super::resp::Bytes;
use super::super::sentinel::knows as sentinel_knows;
use super::super::state::State;
use super::super::version::Version;
use super::{
    Answer, Call, cluster, connection, info, keys, pubsub, replicas, scripts, sentinel, sorted_sets, strings,
};

pub(super) struct Command {
    /// In lower case.
    pub(super) name: &'static str,
    /// Its words, with its name; negative for at least so many.
    arity: i8,
    flags: Flags,
    pub(super) keys: Keys,
    pub(super) run: fn(&mut Call<'_>) -> Answer,
}

/// Which words are keys.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    None,
    First,
    All,
    /// As many as the third word says, behind it.
    Counted,
    /// The first word is a sharded channel, which lives in a slot.
    FirstChannel,
    AllChannels,
}

impl Keys {
    pub(super) fn of(self, words: &[Bytes]) -> &[Bytes] {
        match self {
            Self::First => words.get(1..2),
            Self::All => words.get(1..),
            Self::Counted => {
                let count =
                    words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse::<usize>().ok());
                words.get(3..3 + count.unwrap_or(0).min(words.len()))
            }
            Self::None | Self::FirstChannel | Self::AllChannels => None,
        }
        .unwrap_or_default()
    }

    /// They live in slots, as keys do.
    pub(super) fn sharded_channels_of(self, words: &[Bytes]) -> &[Bytes] {
        match self {
            Self::FirstChannel => words.get(1..2),
            Self::AllChannels => words.get(1..),
            _ => None,
        }
        .unwrap_or_default()
    }
}

impl Command {
    /// Some subcommands of Valkey 9 have a flag of their own.
    pub(super) fn flags(&self, version: Version, words: &[Bytes]) -> Flags {
        let flags = self.flags;
        match (version, self.name) {
            (Version::Redis5, "time" | "client") => flags.without(ALWAYS),
            (Version::Redis5, "select" | "eval" | "evalsha") | (Version::Redis62, "eval" | "evalsha") => {
                flags.without(Flags::STALE)
            }
            (Version::Redis5 | Version::Redis62, "ping") => flags.and(Flags::STALE),
            (Version::Valkey9, "select") => flags.and(Flags::BUSY),
            (Version::Valkey9, "client") if words.get(1).is_some_and(|word| is_one_of(word, &WHILE_BUSY)) => {
                flags.and(Flags::BUSY)
            }
            _ => flags,
        }
    }

    pub(super) fn is_known_to(&self, state: &State) -> bool {
        let version = state.version;
        if state.settings.sentinel {
            return sentinel_knows(self.name) && (self.name != "hello" || version.speaks_resp3());
        }
        match self.name {
            "sentinel" => false,
            "hello" | "reset" => version.speaks_resp3(),
            "spublish" | "ssubscribe" | "sunsubscribe" => version.is_7_or_later(),
            "delifeq" => version == Version::Valkey9,
            "delex" => version == Version::Redis84,
            _ => true,
        }
    }

    /// From Redis 7.0 on, a subcommand is looked up as a command is.
    pub(super) fn knows_subcommand(&self, version: Version, name: &[u8]) -> bool {
        let of_client: &[&str] = if version == Version::Redis70 { &CLIENT } else { &CLIENT_AND_SETINFO };
        let known = match self.name {
            "client" => of_client,
            "cluster" => &["SLOTS", "KEYSLOT", "MYID"],
            "config" => &["GET"],
            "sentinel" => &["GET-MASTER-ADDR-BY-NAME"],
            "pubsub" => &["NUMSUB", "SHARDNUMSUB", "CHANNELS", "SHARDCHANNELS", "NUMPAT"],
            "script" => &["LOAD", "EXISTS", "FLUSH"],
            _ => return true,
        };
        !version.is_7_or_later() || is_one_of(name, known)
    }

    pub(super) fn takes(&self, version: Version, words: usize) -> bool {
        let arity = match (version, self.name) {
            (Version::Redis5, "auth") => 2,
            (Version::Redis5 | Version::Redis62, "pexpire" | "expire" | "zrank")
            | (Version::Redis70, "zrank") => 3,
            _ => self.arity,
        };
        let wanted = usize::from(arity.unsigned_abs());
        if arity < 0 { words >= wanted } else { words == wanted }
    }

    /// The channels that it names.
    pub(super) fn channels<'a>(&self, words: &'a [Bytes]) -> &'a [Bytes] {
        match (self.name, self.keys) {
            ("sunsubscribe", _) => None,
            ("publish", _) | (_, Keys::FirstChannel) => words.get(1..2),
            ("subscribe" | "psubscribe", _) | (_, Keys::AllChannels) => words.get(1..),
            _ => None,
        }
        .unwrap_or_default()
    }
}

const WRITE: Flags = Flags::WRITES;
const GROW: Flags = Flags::WRITES.and(Flags::GROWS);
const READ: Flags = Flags::READS;
const ALWAYS: Flags = Flags::LOADING.and(Flags::STALE);
const SESSION: Flags = ALWAYS.and(Flags::NO_SCRIPT);
const LISTEN: Flags = SESSION.and(Flags::LISTENS);
const SUBCOMMANDS: Flags = Flags::HAS_SUBCOMMANDS;

const fn command(
    name: &'static str,
    arity: i8,
    flags: Flags,
    keys: Keys,
    run: fn(&mut Call<'_>) -> Answer,
) -> Command {
    Command { name, arity, flags, keys, run }
}

const CLIENT: [&str; 8] = ["ID", "INFO", "LIST", "GETNAME", "SETNAME", "KILL", "TRACKING", "CACHING"];
const CLIENT_AND_SETINFO: [&str; 9] =
    ["ID", "INFO", "LIST", "GETNAME", "SETNAME", "KILL", "TRACKING", "CACHING", "SETINFO"];

/// The subcommands of `CLIENT` that Valkey 9 serves then.
const WHILE_BUSY: [&str; 6] = ["CACHING", "ID", "SETNAME", "GETNAME", "SETINFO", "REPLY"];

fn is_one_of(word: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// By name.
static COMMANDS: [Command; 59] = [
    command("asking", 1, Flags::NONE, Keys::None, cluster::asking),
    command("auth", -2, SESSION.and(Flags::NO_AUTH).and(Flags::BUSY), Keys::None, connection::auth),
    command("client", -2, SESSION.and(SUBCOMMANDS), Keys::None, connection::client),
    command("cluster", -2, Flags::STALE.and(SUBCOMMANDS), Keys::None, cluster::cluster),
    command("config", -2, SESSION.and(SUBCOMMANDS), Keys::None, info::config),
    command("dbsize", 1, READ, Keys::None, keys::dbsize),
    command("del", -2, WRITE, Keys::All, keys::del),
    command("delex", -2, WRITE, Keys::First, strings::delex),
    command("delifeq", 3, WRITE, Keys::First, strings::delifeq),
    command("echo", 2, ALWAYS, Keys::None, connection::echo),
    command("eval", -3, Flags::NO_SCRIPT.and(Flags::STALE), Keys::Counted, scripts::eval),
    command("evalsha", -3, Flags::NO_SCRIPT.and(Flags::STALE), Keys::Counted, scripts::evalsha),
    command("exists", -2, READ, Keys::All, keys::exists),
    command("expire", -3, WRITE, Keys::First, keys::expire),
    command("flushall", -1, WRITE, Keys::None, keys::flushall),
    command("flushdb", -1, WRITE, Keys::None, keys::flushdb),
    command("get", 2, READ, Keys::First, strings::get),
    command("getrange", 4, READ, Keys::First, strings::getrange),
    command("getset", 3, GROW, Keys::First, strings::getset),
    command("hello", -1, SESSION.and(Flags::NO_AUTH).and(Flags::BUSY), Keys::None, connection::hello),
    command("incr", 2, GROW, Keys::First, strings::incr),
    command("info", -1, ALWAYS, Keys::None, info::info),
    command("keys", 2, READ, Keys::None, keys::keys),
    command("lpush", -3, GROW, Keys::First, keys::lpush),
    command("persist", 2, WRITE, Keys::First, keys::persist),
    command("pexpire", -3, WRITE, Keys::First, keys::pexpire),
    command("ping", -1, Flags::LISTENS.and(Flags::NEEDS_SAVES), Keys::None, connection::ping),
    command("psubscribe", -2, LISTEN, Keys::None, pubsub::psubscribe),
    command("pttl", 2, READ, Keys::First, keys::pttl),
    command("publish", 3, ALWAYS, Keys::None, pubsub::publish),
    command("pubsub", -2, ALWAYS.and(SUBCOMMANDS), Keys::None, pubsub::pubsub),
    command("punsubscribe", -1, LISTEN, Keys::None, pubsub::punsubscribe),
    command("quit", -1, LISTEN.and(Flags::NO_AUTH).and(Flags::BUSY), Keys::None, connection::quit),
    command("readonly", 1, ALWAYS, Keys::None, cluster::readonly),
    command("readwrite", 1, ALWAYS, Keys::None, cluster::readwrite),
    command("reset", 1, LISTEN.and(Flags::NO_AUTH).and(Flags::BUSY), Keys::None, connection::reset),
    command("role", 1, SESSION, Keys::None, replicas::role),
    command("scan", -2, READ, Keys::None, keys::scan),
    command("script", -2, Flags::NO_SCRIPT.and(SUBCOMMANDS), Keys::None, scripts::script),
    command("select", 2, ALWAYS, Keys::None, connection::select),
    command("sentinel", -2, SESSION.and(SUBCOMMANDS), Keys::None, sentinel::sentinel),
    command("set", -3, GROW, Keys::First, strings::set),
    command("spublish", 3, ALWAYS, Keys::FirstChannel, pubsub::spublish),
    command("ssubscribe", -2, LISTEN, Keys::AllChannels, pubsub::ssubscribe),
    command("subscribe", -2, LISTEN, Keys::None, pubsub::subscribe),
    command("sunsubscribe", -1, LISTEN, Keys::AllChannels, pubsub::sunsubscribe),
    command("time", 1, ALWAYS, Keys::None, info::time),
    command("ttl", 2, READ, Keys::First, keys::ttl),
    command("type", 2, READ, Keys::First, keys::kind),
    command("unsubscribe", -1, LISTEN, Keys::None, pubsub::unsubscribe),
    command("wait", 3, Flags::NO_SCRIPT, Keys::None, replicas::wait),
    command("zadd", -4, GROW, Keys::First, sorted_sets::zadd),
    command("zcard", 2, READ, Keys::First, sorted_sets::zcard),
    command("zcount", 4, READ, Keys::First, sorted_sets::zcount),
    command("zpopmin", -2, WRITE, Keys::First, sorted_sets::zpopmin),
    command("zrange", -4, READ, Keys::First, sorted_sets::zrange),
    command("zrank", -3, READ, Keys::First, sorted_sets::zrank),
    command("zrem", -3, WRITE, Keys::First, sorted_sets::zrem),
    command("zscore", 3, READ, Keys::First, sorted_sets::zscore),
];

pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let lower = |byte: &u8| byte.to_ascii_lowercase();
    let at = COMMANDS.binary_search_by(|command| command.name.bytes().cmp(name.iter().map(lower)));
    at.ok().map(|at| &COMMANDS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_the_order_of_their_names() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
        for command in &COMMANDS {
            assert!(
                find(command.name.to_uppercase().as_bytes()).is_some_and(|found| found.name == command.name)
            );
        }
    }
}
