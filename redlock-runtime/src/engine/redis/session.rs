//! What is known of an open connection.

use std::sync::Arc;

use super::handshake::{LateRequests, NativeDelete};
use super::keyspace::Keyspace;
use super::server_identity::ClaimedIdentity;
use crate::engine::protocol::ServerInfo;
use crate::ground::capabilities::Abilities;

/// What the handshake has found, and the settings of the node.
pub(super) struct Session {
    pub(super) keyspace: Keyspace,
    pub(super) inbox: Arc<str>,
    /// The inbox is a sharded channel.
    pub(super) sharded: bool,
    pub(super) server_info: ServerInfo,
    /// Other lock clients use the keys, too.
    pub(super) foreign_clients: bool,
    /// Locks have queues of waiters: the node is none of a quorum, and access rules allow what a
    /// queue needs.
    pub(super) queues: bool,
    pub(super) abilities: Abilities,
    pub(super) late_requests: LateRequests,
    pub(super) native_delete: Option<NativeDelete>,
    /// In a quorum, held as long as the connection lasts.
    pub(super) _identity: Option<ClaimedIdentity>,
}

#[cfg(test)]
impl Session {
    pub(super) fn for_a_test() -> Self {
        let up_for = std::time::Duration::ZERO;
        Self {
            keyspace: Keyspace::on_a_server("lock:"),
            inbox: "lock:%inbox:1".into(),
            sharded: false,
            server_info: ServerInfo { clock: 1, up_for, durable: false, round_trip: up_for },
            foreign_clients: false,
            queues: true,
            abilities: Abilities { hands_over: true, tracks_changes: false, votes: false },
            late_requests: LateRequests::Impossible,
            native_delete: None,
            _identity: None,
        }
    }
}
