//! The words of refusals, as each version has them, for a client and in the middle of a script.

use super::cluster::Misrouted;
use super::resp::Bytes;
use super::version::Version;

/// An error reply, without its leading `-`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ErrorReply(pub(super) String);

impl From<&str> for ErrorReply {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}

impl From<String> for ErrorReply {
    fn from(words: String) -> Self {
        Self(words)
    }
}

pub(super) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
pub(super) const NOT_A_FLOAT: &str = "ERR value is not a valid float";
pub(super) const SYNTAX: &str = "ERR syntax error";

/// Why a command is not executed at all.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Refusal {
    Unknown {
        name: Bytes,
        arguments: Vec<Bytes>,
    },
    UnknownSubcommand {
        command: String,
        name: Bytes,
    },
    Arity {
        command: String,
    },
    NotInScripts,
    NotAuthenticated,
    Command {
        user: String,
        command: String,
    },
    Key,
    Channel,
    /// Another node of the Cluster has the slot.
    Misrouted(Misrouted),
    /// The code tells the reason: the words are the same everywhere.
    Coded(String),
}

impl Refusal {
    /// The reply to a client.
    pub(super) fn words(&self, version: Version) -> String {
        let since_7 = version.is_7_or_later();
        let names_user = version.is_72_or_later();
        let text = String::from_utf8_lossy;
        match self {
            Self::Unknown { name, arguments } if since_7 => {
                let arguments = quoted(arguments, ["'", "' "]);
                format!("ERR unknown command '{}', with args beginning with: {arguments}", text(name))
            }
            Self::Unknown { name, arguments } => {
                let arguments = quoted(arguments, ["`", "`, "]);
                format!("ERR unknown command `{}`, with args beginning with: {arguments}", text(name))
            }
            Self::UnknownSubcommand { command, name } if since_7 => {
                format!("ERR unknown subcommand '{}'. Try {command} HELP.", text(name))
            }
            Self::UnknownSubcommand { command, name } => {
                let stop = if version == Version::Redis5 && command == "CLIENT" { "" } else { "." };
                format!(
                    "ERR Unknown subcommand or wrong number of arguments for '{}'. Try {command} HELP{stop}",
                    text(name)
                )
            }
            Self::Arity { command } => format!("ERR wrong number of arguments for '{command}' command"),
            Self::NotInScripts => "ERR This Redis command is not allowed from script".to_owned(),
            Self::NotAuthenticated => "NOAUTH Authentication required.".to_owned(),
            Self::Command { user, command } if names_user => {
                format!("NOPERM User {user} has no permissions to run the '{command}' command")
            }
            Self::Command { command, .. } if since_7 => {
                format!("NOPERM this user has no permissions to run the '{command}' command")
            }
            Self::Command { command, .. } => {
                let command = command.split('|').next().unwrap_or_default();
                format!(
                    "NOPERM this user has no permissions to run the '{command}' command or its subcommand"
                )
            }
            Self::Key if names_user => "NOPERM No permissions to access a key".to_owned(),
            Self::Key => {
                "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
            }
            Self::Channel if names_user => "NOPERM No permissions to access a channel".to_owned(),
            Self::Channel => {
                "NOPERM this user has no permissions to access one of the channels used as arguments"
                    .to_owned()
            }
            Self::Misrouted(misrouted) => misrouted.words(),
            Self::Coded(words) => words.clone(),
        }
    }

    /// What a script gets, in place of the reply. Up to Redis 6.2 it tells the line of the script.
    pub(super) fn words_in_script(&self, version: Version, line: usize) -> String {
        if !version.is_7_or_later() {
            return format!("@user_script: {line}: {}", self.words_before_7(version));
        }
        match self {
            Self::Unknown { .. } | Self::UnknownSubcommand { .. } if version.is_valkey() => {
                "ERR Unknown command called from script".to_owned()
            }
            Self::Unknown { .. } | Self::UnknownSubcommand { .. } => {
                "ERR Unknown Redis command called from script".to_owned()
            }
            Self::Arity { .. } if version.is_valkey() => {
                "ERR Wrong number of args calling command from script".to_owned()
            }
            Self::Arity { .. } => "ERR Wrong number of args calling Redis command from script".to_owned(),
            Self::NotInScripts => {
                let name = if version == Version::Valkey9 { "Valkey" } else { "Redis" };
                format!("ERR This {name} command is not allowed from script")
            }
            Self::Command { .. } | Self::Key | Self::Channel if version.is_72_or_later() => {
                let words = self.words(version);
                format!("ERR ACL failure in script: {}", words.trim_start_matches("NOPERM "))
            }
            Self::Command { .. } | Self::Key | Self::Channel => format!("ERR {}", self.forbidden_to_script()),
            Self::Misrouted(misrouted) => format!("ERR {}", misrouted.words_in_script(version)),
            _ => self.words(version),
        }
    }

    fn forbidden_to_script(&self) -> &'static str {
        match self {
            Self::Key => {
                "The user executing the script can't access at least one of the keys mentioned in the command arguments"
            }
            Self::Channel => {
                "The user executing the script can't publish to the channel mentioned in the command"
            }
            _ => "The user executing the script can't run this command or subcommand",
        }
    }

    fn words_before_7(&self, version: Version) -> String {
        match self {
            Self::Unknown { .. } => "Unknown Redis command called from Lua script".to_owned(),
            Self::Arity { .. } => "Wrong number of args calling Redis command From Lua script".to_owned(),
            Self::NotInScripts => "This Redis command is not allowed from scripts".to_owned(),
            Self::Command { .. } | Self::Key | Self::Channel => self.forbidden_to_script().to_owned(),
            Self::Coded(words) => {
                // Redis 5 makes spaces of the end of the line.
                format!("-{words}{}", if version == Version::Redis5 { "  " } else { "" })
            }
            Self::Misrouted(misrouted) => misrouted.words_in_script(version),
            other => other.words(version),
        }
    }
}

fn quoted(words: &[Bytes], [before, behind]: [&str; 2]) -> String {
    let mut quoted = String::new();
    for word in words {
        quoted.push_str(before);
        quoted.push_str(&String::from_utf8_lossy(word));
        quoted.push_str(behind);
    }
    quoted
}

pub(super) fn loading(version: Version) -> Refusal {
    Refusal::Coded(format!("LOADING {} is loading the dataset in memory", version.name()))
}

pub(super) fn busy(version: Version) -> Refusal {
    let name = version.name();
    Refusal::Coded(format!(
        "BUSY {name} is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    ))
}

pub(super) fn cannot_save(version: Version) -> Refusal {
    let name = version.name();
    let how = if version.is_7_or_later() {
        "but it's currently unable to persist to disk"
    } else {
        "but it is currently not able to persist on disk"
    };
    Refusal::Coded(format!(
        "MISCONF {name} is configured to save RDB snapshots, {how}. Commands that may modify the data set are \
         disabled, because this instance is configured to report errors during writes if RDB snapshotting fails \
         (stop-writes-on-bgsave-error option). Please check the {name} logs for details about the RDB error."
    ))
}

pub(super) fn coded(words: &str) -> Refusal {
    Refusal::Coded(words.to_owned())
}

pub(super) const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";
pub(super) const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
pub(super) const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
pub(super) const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
