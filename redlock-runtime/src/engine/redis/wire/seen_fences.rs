//! The largest fencing token that a manager has seen of each clock, over all its connections.
//!
//! A server may get older data at any time, and draw a number again that it gave before. So a grant
//! counts only if its number is above each one that the manager knew when it sent the request, or
//! when the push arrived. One server has one clock, a Cluster has one for each slot.
//!
//! Replies and pushes arrive in the order in which the server drew their numbers, but the engine
//! may read a grant before the replies in front of it. So a push is compared as it arrives, and a
//! reply with what was known when its request was sent: no right number is ever taken for a wrong
//! one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::keyspace::Keyspace;
use crate::base::host::HashMap;
use crate::engine::protocol::{Push, PushKind, ServerTime};
use crate::engine::redis::connect::fence_floor::ABOVE_ALL;
use crate::engine::slots::Slot;

/// A number that is so far below the server's time was drawn without a floor, in us: a clock that
/// our clients use is behind the time by some 30 ms, and by as much as a request takes.
const TOO_FAR_BEHIND: u64 = 1_000_000;

/// Shared by all connections of a manager.
#[derive(Clone, Default)]
pub(crate) struct SeenFences(Arc<Seen>);

#[derive(Default)]
struct Seen {
    on_a_server: AtomicU64,
    in_a_cluster: Mutex<HashMap<Slot, u64>>,
    /// A push had a number that is too small.
    was_undercut: AtomicBool,
}

impl SeenFences {
    /// The largest number from the clock that this lock draws from; 0 when none was seen.
    pub(crate) fn largest(&self, keyspace: &Keyspace, lock: &str) -> u64 {
        match keyspace {
            Keyspace::Server { .. } => self.on_a_server(),
            Keyspace::Cluster { .. } => {
                let seen = self.0.in_a_cluster.lock().unwrap_or_else(PoisonError::into_inner);
                seen.get(&Slot::of(lock)).copied().unwrap_or(0)
            }
        }
    }

    /// The largest number of a server, which has one clock for all its locks.
    pub(crate) fn on_a_server(&self) -> u64 {
        self.0.on_a_server.load(Ordering::Relaxed)
    }

    /// A number beyond all times is that of an operator: Lua cannot compare it.
    pub(crate) fn learn(&self, keyspace: &Keyspace, lock: &str, fence: u64) {
        if fence >= ABOVE_ALL {
            return;
        }
        match keyspace {
            // The loop alone writes it.
            Keyspace::Server { .. } if fence > self.on_a_server() => {
                self.0.on_a_server.store(fence, Ordering::Relaxed);
            }
            Keyspace::Server { .. } => {}
            Keyspace::Cluster { .. } => {
                let mut seen = self.0.in_a_cluster.lock().unwrap_or_else(PoisonError::into_inner);
                let largest = seen.entry(Slot::of(lock)).or_default();
                *largest = fence.max(*largest);
            }
        }
    }

    /// A push has arrived: compares the number of a grant.
    pub(crate) fn on_push(&self, keyspace: &Keyspace, push: &mut Push) {
        let PushKind::Granted { fence: fence @ 1.., at: ServerTime(at), .. } = push.kind else { return };
        push.is_undercut =
            fence <= self.largest(keyspace, &push.name) || fence.saturating_add(TOO_FAR_BEHIND) < at;
        if push.is_undercut {
            self.0.was_undercut.store(true, Ordering::Relaxed);
        } else {
            self.learn(keyspace, &push.name, fence);
        }
    }

    /// True once after a push with a number that is too small.
    pub(crate) fn take_undercut(&self) -> bool {
        self.0.was_undercut.load(Ordering::Relaxed) && self.0.was_undercut.swap(false, Ordering::Relaxed)
    }
}
