//! What the test of a user controls: the node in memory, and the count of calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::command::{Ask, Command};
use super::memory::MemoryNode;
use super::topology::Deployment;

/// The calls for one key so far, of one manager and its clones.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect_blocking("memory://calls-example")?;
/// let _guard = locks.lock("stock:42").acquire_blocking()?;
/// assert!(locks.lock("stock:42").acquire_blocking().is_err());
/// let calls = locks.testing()?.calls("stock:42");
/// assert_eq!((calls.attempts, calls.acquired), (2, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Calls {
    /// How many callers asked for the lock. A nested call that joins its caller's lock is not
    /// counted.
    pub attempts: u64,
    /// How many of them got it.
    pub acquired: u64,
}

pub(crate) struct Tested {
    node: MemoryNode,
    calls: Mutex<HashMap<Arc<str>, Calls>>,
}

impl Tested {
    pub(super) fn of(deployment: &Deployment) -> Option<Self> {
        let node = deployment.node_in_memory()?.clone();
        Some(Self { node, calls: Mutex::default() })
    }

    #[expect(clippy::unused_self, reason = "without the feature it is asked")]
    pub(crate) fn is_beside_a_paused_clock(&self) -> bool {
        false
    }

    /// With the clock of the manager.
    pub(crate) fn node(&self) -> &MemoryNode {
        &self.node
    }

    pub(crate) fn calls(&self, key: &str) -> Calls {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.get(key).copied().unwrap_or_default()
    }

    pub(super) fn on_sent(&self, command: &Command) {
        let attempt = |ask: &Ask| self.count(&ask.key, |calls| &mut calls.attempts);
        match command {
            Command::Acquire { ask, .. } => attempt(ask),
            Command::AcquireAll { asks } => asks.iter().for_each(|(_, ask, _)| attempt(ask)),
            _ => {}
        }
    }

    pub(crate) fn on_acquired(&self, key: &Arc<str>) {
        self.count(key, |calls| &mut calls.acquired);
    }

    fn count(&self, key: &Arc<str>, counter: impl FnOnce(&mut Calls) -> &mut u64) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *counter(calls.entry(Arc::clone(key)).or_default()) += 1;
    }
}
