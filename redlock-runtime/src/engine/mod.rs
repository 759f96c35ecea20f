//! The engine: a loop per manager, which owns the connections, every timer and every renewal.
//!
//! ```text
//!   acquire, guard, release, inspect            callers: any executor, or none
//!        │ Command                ▲ AcquireOutcome, Lease, LockError
//! ┌──────┼────────────────────────┼───────────────────────────────────┐
//! │      ▼                        │                           handle  │  any thread
//! ├──────┼────────────────────────┼───────────────────────────────────┤
//! │      ▼                        │                           runner  │  a task on the callers' runtime,
//! │      ▼                        │                       event_loop  │  or on a thread of its own:
//! │  commands ─┐            ┌─ replies, pushes                        │  commands, events and timers,
//! │  timers   ─┤            │                                         │  each in its turn
//! │            ▼            ▼                                         │
//! │  ┌ lock_table ──────────────────────┐                             │  no I/O, no clock, no task
//! │  │ waiting ─▶ held ─▶ releasing     │─▶ outbox ─┐                 │
//! │  └──────────────────────────────────┘           │ Request         │
//! │                                                 ▼                 │
//! │  topology       one node │ quorum │ cluster                       │  which node gets a request
//! │                                                 │                 │
//! │                                                 ▼                 │
//! │  redis          connection, handshake, scripts, decode            │  the only place that names `redis`
//! └───────────────────────────────────────────────────────────────────┘
//!   protocol        Request, Reply, Push, Id: the messages between the layers
//!   memory          the same protocol in this process, without a server
//! ```
//!
//! The lifecycle of a lock:
//!
//! 1. A caller sends [`Command::Acquire`](command::Command::Acquire) through its
//!    [`Engine`](handle::Engine).
//! 2. The table registers a waiting attempt and pushes a `Request` into the outbox.
//! 3. The event loop takes a batch from the outbox, and the topology sends it to a node.
//! 4. The node runs `acquire.lua`. Its `Reply` is a grant, or a place in the queue.
//! 5. A queued waiter gets the lock by a `Push` when the holder before it releases.
//! 6. The attempt is held: the caller gets its `Lease`, which ends by itself at its deadline.
//! 7. The timer of the attempt rings after a third of the ttl, and a renewal goes out ahead of
//!    other requests.
//! 8. The guard is dropped: the table ends the lease, and sends a release until the node answers or
//!    the ttl is over.
//! 9. The node grants the lock to the next waiter, or frees it.
//! 10. The attempt is gone.
//!
//! **The loop.** Callers on any executor, callers without one, and `Drop` all send commands, and
//! read the outcome from the channel that came with the command. The loop runs on the callers'
//! runtime, and a stall watchdog moves it from a runtime that is starved or dropped to one of its own, so
//! that stops no renewal and no release. There a blocked caller polls it, or else a thread.
//!
//! **The order.** The commands of one caller are handled in the order in which it sent them, and
//! requests leave on one connection in that order. Only renewals and watches overtake: they are
//! urgent.
//!
//! | Question | File |
//! | --- | --- |
//! | Where does the loop run? | `runner/mod.rs`, `runner/stall_watch.rs`, `runner/fallback_runtime.rs` |
//! | Which states has an attempt? | `lock_table/lock/mod.rs`, and its `waiting.rs`, `held.rs`, `releasing.rs` |
//! | Which waiter asks, and when? | `lock_table/lock/acquiring.rs`, `lock_table/lock/queue.rs` |
//! | What does a reply or a push change? | `lock_table/lock/replies.rs`, `lock_table/lock/events.rs`, `lock_table/lock/holding.rs` |
//! | What happens when the connection breaks? | `lock_table/mod.rs`, `topology/link.rs` |
//! | Which waits are reported? | `lock_table/lock/long_wait.rs` |
//! | Several keys in one call | `multi_key.rs` |
//! | Hand-overs within a process | `lock_table/lock/local_hand_over.rs`, `lock_table/lock/local_successors.rs` |
//! | Votes | `topology/quorum/` |
//! | Slots and redirects | `slots.rs`, `topology/cluster/` |
//! | The bytes on the wire | `redis/requests/connection.rs`, `redis/requests/decode.rs`, `redis/scripts/` |

pub(crate) mod command;
mod event_loop;
mod fifo;
pub(crate) mod handle;
pub(crate) mod hold_times;
mod lock_table;
pub(crate) mod memory;
pub(crate) mod multi_key;
pub(crate) mod operator_calls;
mod outbox;
pub(crate) mod protocol;
pub(crate) mod redis;
pub(crate) mod runner;
pub(crate) mod slots;
#[cfg_attr(not(feature = "testing"), path = "untested.rs")]
pub(crate) mod tested;
pub(crate) mod timers;
pub(crate) mod topology;
mod wakers;

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

#[cfg(test)]
impl EngineSettings {
    pub(crate) fn for_a_test() -> Self {
        Self {
            io_timeout: Duration::from_secs(1),
            replicas: 0,
            node_timeout: Duration::from_millis(100),
            max_ttl: Duration::ZERO,
            cohort: 0,
            warn_after: None,
            own_thread: None,
        }
    }
}
