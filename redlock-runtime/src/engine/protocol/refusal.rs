//! Requests that a node has not executed, or may not have.

use std::sync::Arc;

use crate::base::error::LockError;
use crate::engine::slots::Slot;

/// So a node of a Cluster says that a script has named a key that is on its way to another node. The
/// script may have done some of its work by then.
pub(crate) const IN_THE_MIDDLE: &str = "attempted to access a non local key";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The server does not have the script: the repeated request carries its source.
    NoScript,
    /// More dead waiters are in front than one call removes: the repeated request continues.
    Unfinished,
    /// A direct request found another value: the repeated request looks at the queue.
    Contended,
    /// A direct request may have taken the lock, and no fencing token came with it that is above all
    /// before: the repeated request draws one.
    NoFence,
    /// The fencing token is refused as in `NoFence`, and access rules forbid the command that tells whether
    /// the lock was held all the time: later requests are not direct.
    NoLook,
    /// The server is loading, failing over, busy with a script …
    Transient(Arc<str>),
    /// There was no reply and the connection is gone: the server may have executed it.
    OutcomeUnknown(Arc<str>),
    /// Another node of a Cluster has the slot.
    Moved(Redirect),
    /// No permission, out of memory, a key of another type …: until an operator acts.
    Permanent(Arc<str>),
}

impl Refusal {
    /// The request is repeated at once.
    pub(crate) fn is_asked_again(&self) -> bool {
        matches!(self, Self::NoScript | Self::Unfinished | Self::Contended | Self::NoFence | Self::NoLook)
    }

    /// True when the server has done nothing of the request. A script for `several` locks may have
    /// stopped behind one that it has taken, but not for what a server checks at the start of a
    /// script or at its first write.
    pub(crate) fn has_done_nothing(&self, several: bool) -> bool {
        let at_first = ["OOM", "NOPERM", "NOAUTH"];
        match self {
            Self::Transient(words) => !words.contains(IN_THE_MIDDLE),
            Self::NoScript | Self::Contended | Self::Moved(_) => true,
            Self::Unfinished | Self::NoFence | Self::NoLook | Self::OutcomeUnknown(_) => false,
            Self::Permanent(words) => !several || at_first.iter().any(|code| words.starts_with(code)),
        }
    }

    /// The node has become a replica, which takes no locks.
    pub(crate) fn is_of_a_replica(&self) -> bool {
        matches!(self, Self::Transient(words) if words.starts_with("READONLY"))
    }

    /// Access rules forbid a command that only the hand-off needs. The handshake had found it
    /// allowed, or the server would not have been asked.
    pub(crate) fn forbids_hand_off(&self) -> bool {
        const ONLY_FOR_HAND_OFF: [&str; 10] = [
            "PUBLISH", "PUBSUB", "SPUBLISH", "ZADD", "ZCARD", "ZPOPMIN", "ZRANGE", "ZRANK", "ZREM", "ZSCORE",
        ];
        let Self::Permanent(words) = self else {
            return false;
        };
        // In the words of each version.
        let is_forbidden =
            ["ermission", "can't run", "can't publish"].iter().any(|part| words.contains(part));
        let words = words.to_ascii_uppercase();
        let mut words = words.split(|letter: char| !letter.is_ascii_alphanumeric());
        is_forbidden && words.any(|word| ONLY_FOR_HAND_OFF.contains(&word))
    }

    /// The server does not know any more who we are.
    pub(crate) fn wants_credentials(&self) -> bool {
        matches!(self, Self::Permanent(words) if words.starts_with("NOAUTH"))
    }

    /// True when the same server refuses for an unknown time. In a failover, another server soon
    /// accepts.
    pub(crate) fn lasts(&self) -> bool {
        let lasting = ["MISCONF", "LOADING", "NOREPLICAS"];
        matches!(self, Self::Transient(words) if lasting.iter().any(|code| words.starts_with(code)))
    }

    /// The caller's error: an outage passes, the rest stays until an operator acts.
    pub(crate) fn error(self, key: Option<Arc<str>>) -> LockError {
        match self {
            Self::NoScript
            | Self::Unfinished
            | Self::Contended
            | Self::NoFence
            | Self::NoLook
            | Self::Transient(_)
            | Self::OutcomeUnknown(_) => LockError::Unavailable { key, reason: self.words() },
            Self::Moved(_) | Self::Permanent(_) => LockError::Misconfigured { key, reason: self.words() },
        }
    }

    pub(crate) fn words(self) -> Arc<str> {
        match self {
            Self::NoScript => "the server has forgotten a script".into(),
            Self::Unfinished => "the server is still removing dead waiters".into(),
            Self::Contended => "the lock has another value".into(),
            Self::NoFence | Self::NoLook => "the lock has no fencing token yet".into(),
            Self::Transient(words) | Self::OutcomeUnknown(words) | Self::Permanent(words) => words,
            Self::Moved(redirect) => redirect.words(),
        }
    }
}

/// The node of a Cluster that has the slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Redirect {
    pub(in crate::engine) slot: Slot,
    /// `host:port`; without a host, that of the node that answered.
    pub(in crate::engine) to: Arc<str>,
    /// The slot is moving there: only this request goes there.
    pub(in crate::engine) once: bool,
}

impl Redirect {
    /// For a caller whose address is that of one server.
    fn words(&self) -> Arc<str> {
        format!("{}: an address that starts with redis+cluster:// finds it there", self.place()).into()
    }

    pub(in crate::engine) fn place(&self) -> String {
        format!("slot {} is at {}", self.slot.index(), self.to)
    }
}
