//! The settings of an engine, and the part of them that its lock table reads.

use std::time::Duration;

/// The settings of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EngineSettings {
    /// The time limit of a reply.
    pub(crate) io_timeout: Duration,
    /// The replicas that must have a lock before its caller gets it.
    pub(crate) replicas: u32,
    /// The time limit of one node's reply in a quorum.
    pub(crate) node_timeout: Duration,
    /// The longest ttl that clients use with the nodes of a quorum.
    pub(crate) max_ttl: Duration,
    /// The local hand-overs before other processes have their turn; zero when each waiter queues on
    /// the server.
    pub(crate) cohort: u32,
    /// A wait that is longer is reported; `None` when none is.
    pub(crate) warn_after: Option<Duration>,
    /// The loop has a thread of its own; `Some(false)` says that the runtimes of its callers have
    /// I/O and timers.
    pub(crate) own_thread: Option<bool>,
}

/// The settings of a lock table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSettings {
    /// The time limit of a reply.
    pub(crate) io_timeout: Duration,
    /// The replicas that must have a lock before its caller gets it; zero when they are not asked.
    pub(crate) replicas: u32,
    /// The local hand-overs before other processes have their turn; zero when each waiter queues on
    /// the server.
    pub(crate) cohort: u32,
    /// A wait that is longer is reported; `None` when none is.
    pub(crate) warn_after: Option<Duration>,
}
