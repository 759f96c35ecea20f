//! The settings of an engine, and the part of them that its lock table reads.

use std::time::Duration;

/// How an engine does its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineSettings {
    /// How long a node may take to answer.
    pub(crate) io_timeout: Duration,
    /// How many replicas have to have a lock before its caller has it.
    pub(crate) replicas: u32,
    /// In a quorum, the longest that a node's answer is waited for.
    pub(crate) node_timeout: Duration,
    /// In a quorum, the longest ttl that anybody uses with its nodes, as far as it is known.
    pub(crate) max_ttl: Duration,
    /// How many of this process follow on one of its own, before others have their turn.
    pub(crate) cohort: u32,
}

/// The settings of a lock table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSettings {
    /// The time limit of a reply.
    pub(crate) io_timeout: Duration,
    /// The replicas that must have a lock before its caller gets it; zero when they are not asked.
    pub(crate) replicas: u32,
    /// The local hand-overs before other processes have their turn; zero when each waiter queues on the server.
    pub(crate) cohort: u32,
}
