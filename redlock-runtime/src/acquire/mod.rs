//! From a request to a guard, of one lock or of several.
//!
//! The first poll checks the request, and sends one command to the engine; nothing is sent before.
//! The engine keeps the limit of the wait and answers once, with a grant or an error. A nested call
//! whose caller holds the key joins that hold and asks nobody. A blocked caller has a limit of its
//! own, a little later, for an engine that is too busy to answer. Where the future is dropped, the
//! command `Abandon` follows, and the engine gives back whatever the attempt still gets.

mod many;
mod one;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::base::error::LockError;
use crate::base::telemetry;
use crate::block_on::block_on_until;
use crate::engine::command::WaitDeadline;
use crate::engine::handle::Engine;
use crate::guard::LockGuard;
use crate::lock_key::Keys;
use crate::manager::LockManager;
use crate::reentrancy::HeldLock;
use crate::request::LockRequest;
use many::AcquireAll;
use one::{AcquireOne, OneOutcome};

/// A blocked caller gives up by itself when the engine is later by this much: `io_timeout` after
/// the limit of a wait, the engine awaits no answer any more, and one try has no more than
/// `io_timeout` in all.
const ENGINE_IS_LATE: Duration = Duration::from_millis(200);

/// The reason of an error that a key asked for alone never has: the engine skips none.
const SKIPPED: &str = "the lock was not asked for";

/// For a test whose clock the manager does not obey: the paused clock would run ahead of the locks,
/// and the test could hang.
const PAUSED: &str = "the clock of this tokio runtime is paused, which the locks of `memory://` obey with the feature `testing` \
                      alone: `cargo add --dev redlocked --features testing`";

/// The future of [`LockRequest::acquire`]. Nothing is sent before its first poll. Dropping it
/// leaves the queue, and releases a lock that it may have acquired.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// # let locks = redlocked::LockManager::connect("memory://acquire-type-example").await?;
/// let acquire: redlocked::Acquire = locks.lock("stock:42").acquire();
/// let guard = acquire.await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Acquire {
    state: AcquireState,
    wait: telemetry::Wait,
}

/// Who waits for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Task,
    /// A thread, on which the clock of its runtime does not move either.
    Blocked,
}

enum AcquireState {
    New(LockRequest),
    One(AcquireOne),
    Many(Box<AcquireAll>),
    Done,
}

impl LockRequest {
    /// Acquires the lock. Runs on any executor; it needs no runtime.
    ///
    /// # Errors
    ///
    /// - [`LockError::Busy`] at once when `wait` is zero and another caller has the lock,
    ///   [`LockError::TimedOut`] after `wait`, [`LockError::QueueFull`] when no more callers may
    ///   wait.
    /// - [`LockError::Unavailable`] when Redis could not be reached within `wait` (at once for a
    ///   `wait` of zero), [`LockError::Misconfigured`] when it refused,
    ///   [`LockError::NotReplicated`] when too few
    ///   [`replicas`](crate::LockManagerBuilder::replicas) have the lock.
    /// - [`LockError::ManagerClosed`] after [`shutdown`](LockManager::shutdown).
    /// - [`LockError::InvalidKey`], [`LockError::InvalidRequest`], [`LockError::Deadlock`] and
    ///   [`LockError::NotConfigured`] before anything is sent.
    /// - [`LockError::Lost`] when one of several keys was lost before the last one was taken, and
    ///   no time was left to start over.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time: the caller leaves the queue, and a lock that it has
    /// acquired, or may still acquire, is released.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://acquire-example").await?;
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert!(guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(self) -> Acquire {
        Acquire { state: AcquireState::New(self), wait: telemetry::Wait::called() }
    }

    /// [`acquire`](Self::acquire) with one try, whatever [`wait`](Self::wait) the request or the
    /// [manager](crate::LockManagerBuilder::default_wait) has. Without either, `acquire` makes one try,
    /// too. Errors and cancel safety are the same.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://try-example").await?;
    /// let _guard = locks.lock("stock:42").try_acquire().await?;
    /// assert!(locks.lock("stock:42").try_acquire().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire(self) -> Acquire {
        self.wait(Duration::ZERO).acquire()
    }

    /// [`acquire`](Self::acquire) for sync code: blocks this thread.
    ///
    /// It needs no runtime. On a worker of a multi-thread tokio runtime the worker's other tasks
    /// move to another thread first. On a current-thread runtime the other tasks do not run
    /// meanwhile: do not wait there for a lock that one of them holds.
    ///
    /// Even when the engine is far behind with its work, the thread returns: for one try 200 ms
    /// after `io_timeout`, else 200 ms after the latest answer that [`wait`](Self::wait) allows
    /// for. With one try for several keys, each key has the limit.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// On a multi-thread tokio runtime inside a `LocalSet`, where tokio allows no blocking.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://blocking-example")?;
    /// let guard = locks.lock("stock:42").acquire_blocking()?;
    /// guard.release_blocking()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire_blocking(mut self) -> Result<LockGuard, LockError> {
        let manager = match self.manager.take() {
            Some(manager) => manager,
            None => LockManager::global()?,
        };
        let WaitDeadline { gives_up_at, one_try, .. } = self.options.deadline(&manager);
        // The engine keeps the limit, and its error says why the lock was not acquired. The caller
        // keeps it when the engine is too busy. Of several keys that get one try, each has its own
        // limit.
        let limit = gives_up_at.filter(|_| !one_try || self.keys.is_one());
        let last_answer = if one_try { Duration::ZERO } else { manager.io_timeout() };
        let limit = limit.map(|at| at.after(last_answer).after(ENGINE_IS_LATE));
        let engine = Arc::clone(manager.engine());
        let mut acquire = Self { manager: Some(manager), ..self }.acquire();
        let outcome = poll_fn(|cx| acquire.poll_as(Caller::Blocked, cx));
        block_on_until(&engine, limit.map(|at| (engine.clock(), at)), outcome)
            .unwrap_or_else(|| Err(acquire.overdue()))
    }

    /// [`try_acquire`](Self::try_acquire) for sync code: blocks this thread for a round trip, and for
    /// at most 200 ms more than the [`io_timeout`](crate::LockManagerBuilder::io_timeout).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// As [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://try-blocking-example")?;
    /// let _guard = locks.lock("stock:42").try_acquire_blocking()?;
    /// assert!(locks.lock("stock:42").try_acquire_blocking().is_err_and(|error| error.is_busy()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_acquire_blocking(self) -> Result<LockGuard, LockError> {
        self.wait(Duration::ZERO).acquire_blocking()
    }

    /// Checks the request, then sends it.
    fn start(self, caller: Caller) -> Result<AcquireState, LockError> {
        let manager = match self.manager {
            Some(manager) => manager,
            None => LockManager::global()?,
        };
        if caller == Caller::Task && manager.engine().is_beside_a_paused_clock() {
            let key = self.keys.first().map(Into::into);
            return Err(LockError::Misconfigured { key, reason: PAUSED.into() });
        }
        match self.keys {
            Keys::One(key) => {
                let key = self.options.check(&manager, key)?;
                let acquire = match self.options.joins(&manager, &key)? {
                    Some(hold) => AcquireOne::joined(Arc::clone(manager.engine()), hold, self.options.fenced),
                    None => self.options.ask(&manager, key, self.options.deadline(&manager))?,
                };
                Ok(AcquireState::One(acquire))
            }
            Keys::Many(keys) => {
                Ok(AcquireState::Many(Box::new(AcquireAll::new(manager, self.options, *keys)?)))
            }
        }
    }
}

/// The lock that the caller holds already, with its fencing token.
pub(crate) async fn with_fence(engine: Arc<Engine>, hold: HeldLock) -> Result<LockGuard, LockError> {
    let key = Arc::clone(hold.lease.key());
    let mut joined = AcquireOne::joined(engine, hold, true);
    match poll_fn(|cx| joined.poll(cx)).await {
        OneOutcome::Done(outcome) => outcome,
        OneOutcome::Skipped => Err(LockError::unavailable(&key, SKIPPED)),
    }
}

impl AcquireState {
    fn poll(&mut self, caller: Caller, cx: &mut Context<'_>) -> Poll<Result<LockGuard, LockError>> {
        if let Self::New(_) = self
            && let Self::New(request) = std::mem::replace(self, Self::Done)
        {
            *self = request.start(caller)?;
        }
        let (events, outcome) = match self {
            Self::One(one) => {
                let (key, events) = (one.asked_key().cloned(), one.events());
                let outcome = match ready!(one.poll(cx)) {
                    OneOutcome::Done(outcome) => outcome,
                    OneOutcome::Skipped => Err(LockError::Unavailable { key, reason: SKIPPED.into() }),
                };
                (events, outcome)
            }
            Self::Many(many) => {
                let outcome = ready!(many.poll(cx));
                (many.events(), outcome)
            }
            // Polling after completion stays pending, and does not panic.
            Self::New(_) | Self::Done => return Poll::Pending,
        };
        *self = Self::Done;
        if let Err(error) = &outcome {
            events.fails(error);
        }
        Poll::Ready(outcome)
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_as(Caller::Task, cx)
    }
}

impl Acquire {
    fn poll_as(&mut self, caller: Caller, cx: &mut Context<'_>) -> Poll<Result<LockGuard, LockError>> {
        let Self { state, wait } = self;
        if let AcquireState::New(LockRequest { keys, options, .. }) = state {
            let limit = keys.least(options.sharing.limit());
            options.call = wait.begins(keys.texts(), &options.origin, limit);
        }
        let polled = {
            let _span = wait.enter();
            ready!(state.poll(caller, cx))
        };
        Poll::Ready(match polled {
            Ok(guard) => guard.observed(wait).started(),
            Err(error) => {
                wait.fails(&error);
                Err(error)
            }
        })
    }

    /// The error when the engine sends no outcome within the limit.
    fn overdue(&mut self) -> LockError {
        let key = match &self.state {
            AcquireState::One(one) => one.asked_key(),
            AcquireState::Many(many) => many.first_key(),
            AcquireState::New(_) | AcquireState::Done => None,
        };
        let reason = "the engine of this lock manager is far behind with its work".into();
        let error = LockError::Unavailable { key: key.cloned(), reason };
        self.wait.fails(&error);
        error
    }
}

impl fmt::Debug for AcquireState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(request) => request.fmt(f),
            Self::One(one) => one.fmt(f),
            Self::Many(many) => many.fmt(f),
            Self::Done => f.write_str("Done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defaults::Defaults;
    use crate::engine::command::Command;
    use crate::engine::handle::Engine;

    #[test]
    fn a_blocked_caller_keeps_its_limit_when_the_engine_is_late() {
        let limit = Duration::from_millis(20);
        let (engine, mut waiting) = Engine::stuck();
        let locks = LockManager::new(engine, limit, 10, Defaults::default());
        let requests = [locks.lock("a"), locks.lock("a").wait(limit), locks.lock_all(["a", "b"]).wait(limit)];
        let (told, outcomes) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for request in requests {
                let _ = told.send(request.acquire_blocking().err());
            }
        });
        for _ in 0..3 {
            let outcome = outcomes.recv_timeout(Duration::from_secs(20));
            assert!(
                matches!(&outcome, Ok(Some(LockError::Unavailable { key: Some(key), .. })) if &**key == "a"),
                "{outcome:?}"
            );
        }
        let mut commands = std::iter::from_fn(|| waiting.try_recv().ok());
        assert!(matches!(commands.next(), Some(Command::Acquire { .. })));
        assert!(
            matches!(commands.next(), Some(Command::Abandon { .. })),
            "a lock whose caller has left must be released"
        );
    }
}
