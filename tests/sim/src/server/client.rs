//! One connection, as the server sees it.

use std::collections::BTreeSet;

use super::resp::{Bytes, Protocol};

/// The number of a connection: the server never uses it again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

#[expect(clippy::struct_excessive_bools, reason = "each is another command")]
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) address: String,
    pub(super) connected: u64,
    pub(super) name: Bytes,
    pub(super) library: [Bytes; 2],
    pub(super) protocol: Protocol,
    pub(super) database: usize,
    /// `None` before it has given a password.
    pub(super) user: Option<String>,
    pub(super) tracking: Option<TrackingMode>,
    /// `CLIENT CACHING`: holds for the next command.
    pub(super) caching: bool,
    pub(super) channels: BTreeSet<Bytes>,
    pub(super) patterns: BTreeSet<Bytes>,
    pub(super) sharded: BTreeSet<Bytes>,
    /// What was not executed yet.
    pub(super) input: Bytes,
    /// `WAIT` has no answer yet.
    pub(super) waits: Option<Waiting>,
    /// `ASKING`: holds for the next command.
    pub(super) asking: bool,
    /// `READONLY`, in a Cluster.
    pub(super) reads_replicas: bool,
    /// It is closed behind the reply.
    pub(super) is_closing: bool,
    /// The offset of its last write.
    pub(super) written: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TrackingMode {
    pub(super) opt_in: bool,
    pub(super) no_loop: bool,
}

/// A client that is blocked by `WAIT`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) replicas: usize,
    pub(super) offset: u64,
    /// In microseconds since 1970; `None` waits forever.
    pub(super) until: Option<u64>,
}

impl Client {
    pub(super) fn new(id: ClientId, address: &str, now: u64, user: Option<String>) -> Self {
        Self {
            id,
            address: address.to_owned(),
            connected: now,
            name: Bytes::new(),
            library: [Bytes::new(), Bytes::new()],
            protocol: Protocol::Resp2,
            database: 0,
            user,
            tracking: None,
            caching: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            sharded: BTreeSet::new(),
            input: Bytes::new(),
            waits: None,
            asking: false,
            reads_replicas: false,
            is_closing: false,
            written: 0,
        }
    }

    /// It has subscribed.
    pub(super) fn listens(&self) -> bool {
        !(self.channels.is_empty() && self.patterns.is_empty() && self.sharded.is_empty())
    }

    /// It speaks RESP2 and has subscribed, so it may do little else.
    pub(super) fn only_listens(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.listens()
    }
}
