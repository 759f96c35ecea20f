//! The names of the keys beside a lock: its queue, its claim, its holders, and the clock of fencing
//! tokens.
//!
//! A single server has one clock. In a Cluster, all keys of a script live in one slot, so each slot
//! has a clock. What else is beside a lock with a hash tag has that tag; any others get a
//! tag of the lock's slot in front. All names start with the prefix, so that access rules can name
//! them.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use super::command::Command;
use crate::base::key::{CLAIM, CLOCK, HOLDERS, LEADER, ONCE, PERMITS, QUEUE, TICK, is_side_name};
use crate::engine::slots::{Slot, hash_tag};

#[derive(Clone)]
pub(crate) enum Keyspace {
    Server { clock: Arc<str> },
    Cluster { prefix: Arc<str> },
}

impl Keyspace {
    pub(crate) fn on_a_server(prefix: &str) -> Self {
        Self::Server { clock: format!("{prefix}{CLOCK}").into() }
    }

    pub(crate) fn in_a_cluster(prefix: &str) -> Self {
        Self::Cluster { prefix: prefix.into() }
    }

    /// Appends the name of the queue of a lock.
    pub(crate) fn write_queue(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, QUEUE);
    }

    /// Appends the name of the claim of a lock.
    pub(crate) fn write_claim(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, CLAIM);
    }

    /// Appends the name of the set of those that have a counted lock.
    pub(crate) fn write_holders(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, HOLDERS);
    }

    /// Appends the name of the central limit of a lock.
    pub(crate) fn write_permits(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, PERMITS);
    }

    /// Appends the name of the record of a lock's leader.
    pub(crate) fn write_leader(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, LEADER);
    }

    /// Appends the name of the record of a lock's last tick.
    pub(crate) fn write_tick(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, TICK);
    }

    /// Appends the name of the record of a body that runs once.
    pub(crate) fn write_once(&self, command: &mut Command<'_>, lock: &str) {
        self.write_beside(command, lock, ONCE);
    }

    /// The name of what has changed, as on one server.
    pub(crate) fn changed(&self, name: &str) -> Arc<str> {
        if let Self::Cluster { prefix } = self
            && let Some((before, key)) = name.split_once(LEADER)
            && let Some(key) = key.strip_prefix(':')
            && before.starts_with(&**prefix)
        {
            return format!("{prefix}{key}{LEADER}").into();
        }
        name.into()
    }

    /// Appends the name of a queue that does not exist, in the slot of the lock.
    pub(crate) fn write_no_queue(&self, command: &mut Command<'_>, lock: &str) {
        match self {
            Self::Server { clock } => command.joined(clock, QUEUE),
            Self::Cluster { prefix } => {
                command.arg(format_args!("{}{QUEUE}", ClockOf(prefix, Slot::of(lock))))
            }
        };
    }

    fn write_beside(&self, command: &mut Command<'_>, lock: &str, side: &str) {
        match self {
            Self::Cluster { prefix } if hash_tag(lock).is_none() => {
                let (tag, key) = (Slot::of(lock).tag(), lock.get(prefix.len()..).unwrap_or_default());
                // Unlike the queue of a lock named `{tag}key`.
                command.arg(format_args!("{prefix}{{{tag}}}{side}:{key}"));
            }
            _ => {
                command.joined(lock, side);
            }
        }
    }

    /// Appends the name of the clock of fencing tokens of a lock.
    pub(crate) fn write_clock(&self, command: &mut Command<'_>, lock: &str) {
        match self {
            Self::Server { clock } => command.arg(&**clock),
            Self::Cluster { prefix } => command.arg(format_args!("{}", ClockOf(prefix, Slot::of(lock)))),
        };
    }

    /// True for the name of a lock with our prefix.
    pub(crate) fn holds(&self, lock: &str) -> bool {
        let prefix = match self {
            Self::Server { clock } => clock.strip_suffix(CLOCK).unwrap_or(clock),
            Self::Cluster { prefix } => prefix,
        };
        lock.starts_with(prefix)
    }
}

/// The name of the clock of a slot, below a prefix.
pub(crate) struct ClockOf<'a>(pub(crate) &'a str, pub(crate) Slot);

impl Display for ClockOf<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(prefix, slot) = self;
        write!(f, "{prefix}{{{}}}{CLOCK}", slot.tag())
    }
}

/// Why no server can use this prefix.
pub(crate) fn refused_prefix(prefix: &str) -> Option<&'static str> {
    if is_side_name(prefix) {
        Some("it must not contain %clock, %queue or %inbox")
    } else if prefix.contains('|') {
        Some("it must not contain |, which separates the parts of a push")
    } else {
        None
    }
}

/// Why a prefix cannot be used in a Cluster: behind an open brace there is no place for a tag.
pub(crate) fn misfit(prefix: &str) -> Option<&'static str> {
    (prefix.contains('{') && hash_tag(prefix).is_none())
        .then_some("in a Cluster, a prefix with a brace must contain a whole hash tag, as {shop}: does")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redis::wire::command::words_of;

    fn side_names(prefix: &str, key: &str) -> [String; 7] {
        let (keyspace, lock) = (Keyspace::in_a_cluster(prefix), format!("{prefix}{key}"));
        let mut written = Vec::new();
        let mut command = Command::begin(&mut written, 0);
        keyspace.write_queue(&mut command, &lock);
        keyspace.write_claim(&mut command, &lock);
        keyspace.write_holders(&mut command, &lock);
        keyspace.write_permits(&mut command, &lock);
        keyspace.write_tick(&mut command, &lock);
        keyspace.write_once(&mut command, &lock);
        keyspace.write_clock(&mut command, &lock);
        command.end();
        words_of(&written).try_into().unwrap_or_default()
    }

    #[test]
    fn all_names_live_in_the_slot_of_the_lock() {
        let keys = ["k", "a{b}c", "a{}b", "}{", "{x", "x}", "{}", "{{y}}", "grün:日本", "{日本}", "}{z}"];
        for prefix in ["lock:", "", "{shop}:", "a}b", "%"] {
            assert_eq!(misfit(prefix), None);
            for key in keys {
                let lock = format!("{prefix}{key}");
                for name in side_names(prefix, key) {
                    assert_eq!(Slot::of(&name), Slot::of(&lock), "{name} beside {lock}");
                    assert!(name.starts_with(prefix) && is_side_name(&name), "{name}");
                }
            }
        }
        for prefix in ["{", "a{b", "{}", "x{}y"] {
            assert!(misfit(prefix).is_some(), "{prefix}");
        }
    }

    #[test]
    fn two_locks_never_share_a_queue_a_claim_holders_or_a_record() {
        let tag = Slot::of("lock:k").tag();
        let beside = |key: &str| side_names("lock:", key)[..6].to_vec();
        let names = [beside("k"), beside(&format!("{{{tag}}}k"))].concat();
        assert!((0..12).all(|at| !names[at + 1..].contains(&names[at])), "{names:?}");
    }
}
