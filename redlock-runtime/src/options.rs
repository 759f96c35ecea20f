//! The options of a request, their allowed ranges, and the deadline that follows from them.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::LockError;
use crate::key;
use crate::lease::{MAX_TTL_MS, MIN_TTL};
use crate::manager::LockManager;
use crate::origin::Origin;
use crate::reentrancy::{self, Hold};
use crate::telemetry;

/// The options that apply to each key of a request.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) ttl: Duration,
    /// `None`: without a limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) on_lost: OnLost,
    pub(crate) reentrant: bool,
    /// The body, or the caller, can see the fencing token. Several keys draw theirs in any case.
    pub(crate) fenced: bool,
    pub(crate) origin: Origin,
    /// Set by the first poll.
    pub(crate) call: telemetry::Call,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            wait: Some(Duration::ZERO),
            renew: true,
            max_hold: None,
            min_hold: None,
            on_lost: OnLost::default(),
            reentrant: false,
            fenced: true,
            origin: Origin::default(),
            call: telemetry::Call::default(),
        }
    }
}

/// When an attempt began, and when its caller stops waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitDeadline {
    pub(crate) started: Moment,
    /// The caller does not wait for another holder.
    pub(crate) one_try: bool,
    /// `None`: never.
    pub(crate) gives_up_at: Option<Moment>,
}

impl Options {
    /// The key, if key and options are within their ranges.
    pub(crate) fn check(&self, manager: &LockManager, key: String) -> Result<Arc<str>, LockError> {
        key::validate(manager.prefix(), &key)?;
        let key: Arc<str> = key.into();
        check_ttl(&key, self.ttl)?;
        check_hold(&key, self.min_hold, self.max_hold)?;
        Ok(key)
    }

    /// The lock that the caller already holds, for a `reentrant` request to join.
    pub(crate) fn joins(&self, manager: &LockManager, key: &Arc<str>) -> Result<Option<Hold>, LockError> {
        let outer = reentrancy::held_here(manager.engine(), key);
        if outer.is_some() && !self.reentrant {
            return Err(LockError::Deadlock { key: Arc::clone(key) });
        }
        Ok(outer)
    }

    pub(crate) fn deadline(&self, manager: &LockManager) -> WaitDeadline {
        let started = manager.engine().now();
        let one_try = self.wait == Some(Duration::ZERO);
        let limit = if one_try { Some(manager.io_timeout()) } else { self.wait };
        WaitDeadline { started, one_try, gives_up_at: limit.map(|limit| started.after(limit)) }
    }
}

pub(crate) fn check_ttl(key: &Arc<str>, ttl: Duration) -> Result<(), LockError> {
    if ttl >= MIN_TTL && ttl.as_millis() <= u128::from(MAX_TTL_MS) {
        return Ok(());
    }
    let reason = format!("a ttl of {ttl:?} is out of range; it must be at least 10 ms and below 2^53 ms");
    Err(LockError::InvalidRequest { key: Arc::clone(key), reason: reason.into() })
}

fn check_hold(key: &Arc<str>, min: Option<Duration>, max: Option<Duration>) -> Result<(), LockError> {
    let reason = if max.is_some_and(|max| max < MIN_TTL) {
        "a `max_hold` must be at least 10 ms"
    } else if min.is_some_and(|min| min.as_millis() > u128::from(MAX_TTL_MS)) {
        "a `min_hold` must be below 2^53 ms"
    } else if min.zip(max).is_some_and(|(min, max)| min > max) {
        "`min_hold` is longer than `max_hold`"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidRequest { key: Arc::clone(key), reason: reason.into() })
}

/// What happens to a body whose lock is lost while it runs.
///
/// A sync body cannot be stopped: with [`Cancel`](Self::Cancel), the default, and with
/// [`Finish`](Self::Finish) it runs to its end, and its caller gets its result as if nothing had
/// happened.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::{LockManager, OnLost};
///
/// let locks = LockManager::connect("memory://on-lost-type-example").await?;
/// let request = locks.lock("audit").ttl(Duration::from_millis(20)).renew(false).on_lost(OnLost::Finish);
/// let held = request.run(async |guard| {
///     guard.lost().await;
///     guard.is_held()
/// });
/// assert!(!held.await?, "it ran to its end");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLost {
    /// An async body is dropped before the server may give the lock to another caller, and its
    /// caller gets [`LockError::Lost`].
    #[default]
    Cancel,
    /// The body runs to its end. It should check [`LockGuard::is_held`](crate::LockGuard::is_held) before each step that
    /// needs the lock.
    Finish,
    /// The body, async or sync, runs to its end. Then its caller gets [`LockError::Lost`] instead
    /// of its result, whatever that is, if the lock was not held all the time, also where only the
    /// release has found that out.
    Error,
}
