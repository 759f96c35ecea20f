//! Access rules: the commands, keys and channels of each user.

use std::collections::{BTreeMap, BTreeSet};

use super::pattern;
use super::resp::Bytes;

/// The user of a client that has given no name.
pub const DEFAULT_USER: &str = "default";

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) enabled: bool,
    /// None: any password is right.
    pub(super) passwords: Option<BTreeSet<String>>,
    /// Commands, or `command|subcommand`, in lower case.
    pub(super) denied: BTreeSet<String>,
    /// None: all keys.
    pub(super) keys: Option<Vec<Bytes>>,
    /// None: all channels.
    pub(super) channels: Option<Vec<Bytes>>,
}

impl User {
    fn new(password: Option<String>) -> Self {
        Self {
            enabled: true,
            passwords: password.map(|password| [password].into()),
            denied: BTreeSet::new(),
            keys: None,
            channels: None,
        }
    }

    pub(super) fn may_run(&self, command: &str, subcommand: Option<&str>) -> bool {
        !self.denied.contains(command)
            && subcommand.is_none_or(|subcommand| !self.denied.contains(&format!("{command}|{subcommand}")))
    }

    pub(super) fn may_use_key(&self, key: &[u8]) -> bool {
        allows(self.keys.as_deref(), key)
    }

    pub(super) fn may_use_channel(&self, channel: &[u8]) -> bool {
        allows(self.channels.as_deref(), channel)
    }
}

fn allows(patterns: Option<&[Bytes]>, name: &[u8]) -> bool {
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern::matches(pattern, name)))
}

#[derive(Clone, Debug)]
pub(super) struct Users(BTreeMap<String, User>);

impl Default for Users {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Users {
    pub(super) fn new(password: Option<String>) -> Self {
        Self([(DEFAULT_USER.to_owned(), User::new(password))].into())
    }

    pub(super) fn get(&self, name: &str) -> Option<&User> {
        self.0.get(name)
    }

    pub(super) fn change(&mut self, name: &str) -> &mut User {
        self.0.entry(name.to_owned()).or_insert_with(|| User::new(None))
    }

    /// The user of a new connection; `None` where a password is wanted.
    pub(super) fn at_first(&self) -> Option<String> {
        let default = self.get(DEFAULT_USER)?;
        (default.enabled && default.passwords.is_none()).then(|| DEFAULT_USER.to_owned())
    }

    pub(super) fn accepts(&self, name: &str, password: &str) -> bool {
        self.get(name).is_some_and(|user| {
            user.enabled && user.passwords.as_ref().is_none_or(|passwords| passwords.contains(password))
        })
    }
}
