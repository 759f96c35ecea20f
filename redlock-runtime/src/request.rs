//! [`LockRequest`]: what is asked for, and the ways to get it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::acquire_all::AcquireAll;
use crate::blocking::block_on_until;
use crate::engine::{Command, Engine, Id};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::guarded::until_lost;
use crate::lease::Lease;
use crate::manager::{ENGINE_GONE, LockManager};
use crate::nesting::{self, Hold};
use crate::terms::{Patience, Terms};

/// A lock that is asked for: which key, how long it outlives a vanished holder, how long to wait for it.
///
/// Nothing is sent before it is acquired. Made by [`LockManager::lock`], or for several keys by
/// [`LockManager::lock_all`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://request-example").await?;
/// let request = locks.lock("stock:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(5));
/// let guard = request.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is acquired or run"]
pub struct LockRequest {
    /// `None`: the process-wide one, looked up when it is acquired.
    manager: Option<LockManager>,
    keys: Keys,
    terms: Terms,
}

/// What is locked. Only the second one allocates more than a key.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(String),
    /// In order, each once; never a single one.
    Several(Box<[String]>),
}

impl Keys {
    /// Everybody who takes several locks takes them in this order, so that no two callers wait for each other.
    pub(crate) fn of(keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut keys: Vec<String> = keys.into_iter().map(Into::into).collect();
        keys.sort_unstable();
        keys.dedup();
        match <[String; 1]>::try_from(keys) {
            Ok([key]) => Self::One(key),
            Err(keys) => Self::Several(keys.into()),
        }
    }
}

/// What becomes of an async body whose lock is lost.
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
    /// It is dropped before anyone else can enter, and the caller gets [`LockError::Lost`].
    #[default]
    Cancel,
    /// It runs to its end. It should ask [`LockGuard::is_held`] before each step that needs the lock.
    Finish,
}

/// A lock on the process-wide manager.
#[doc(hidden)]
pub fn lock(key: String) -> LockRequest {
    LockRequest::new(None, Keys::One(key))
}

/// Several locks on the process-wide manager.
#[doc(hidden)]
pub fn lock_all<const N: usize>(keys: [String; N]) -> LockRequest {
    LockRequest::new(None, Keys::of(keys))
}

/// A caller that blocks gives up by itself when the engine is that much later than the limit.
const ENGINE_IS_LATE: Duration = Duration::from_millis(100);

impl LockRequest {
    pub(crate) fn new(manager: Option<LockManager>, keys: Keys) -> Self {
        Self { manager, keys, terms: Terms::default() }
    }

    /// How long the lock outlives a holder that has vanished; 30 s by default, at least 10 ms. It does not limit
    /// the holder: the lock is renewed every third of this time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://ttl-example")?;
    /// let guard = locks.lock("report").ttl(Duration::from_secs(5)).acquire_blocking()?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl;
        self
    }

    /// The longest to wait for the lock, over retries, reconnects and I/O; zero by default, which is one try.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://wait-example")?;
    /// let _held = locks.lock("report").acquire_blocking()?;
    /// let error = locks.lock("report").wait(Duration::from_millis(200)).acquire_blocking().unwrap_err();
    /// assert!(error.is_busy());
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// Waits until the lock is acquired, also while Redis is down or refuses it: a wrong password, a missing right or an
    /// eviction policy may be set right while the caller waits. The feature `tracing` tells of each as a warning. A
    /// manager that is shut down and a queue that is full still are errors.
    ///
    /// Dropping the future gives up its place in the queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://forever-example")?;
    /// let guard = locks.lock("leader").wait_forever().acquire_blocking()?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_forever(mut self) -> Self {
        self.terms.wait = None;
        self
    }

    /// Whether the lock is renewed while it is held; true by default. Without renewal it is lost when the ttl has
    /// passed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://renew-example").await?;
    /// let guard = locks.lock("burst").ttl(Duration::from_millis(20)).renew(false).acquire().await?;
    /// guard.lost().await;
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew(mut self, renew: bool) -> Self {
        self.terms.renew = renew;
        self
    }

    /// The longest that the lock is held, renewals and all; then it is treated as lost. Unlimited by default.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect("memory://max-hold-example").await?;
    /// let stuck = locks.lock("import").max_hold(Duration::from_millis(20)).run(async |_| std::future::pending::<()>().await);
    /// assert!(matches!(stuck.await, Err(redlocked::LockError::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// The shortest that the lock is held: when it is released earlier, its key stays until then. For a job that many
    /// replicas start at nearly the same time. None by default.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://min-hold-example")?;
    /// locks.lock("nightly").min_hold(Duration::from_secs(60)).run_blocking(|_guard| ())?;
    /// assert!(locks.lock("nightly").acquire_blocking().is_err(), "a clock that is a little late finds it taken");
    /// # Ok(())
    /// # }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.terms.min_hold = Some(min_hold);
        self
    }

    /// What becomes of an async body when the lock is lost; [`OnLost::Cancel`] by default. It concerns
    /// [`run`](Self::run); nobody can stop a sync body.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::OnLost;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://on-lost-example")?;
    /// let request = locks.lock("audit").on_lost(OnLost::Finish);
    /// # let _ = request;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.terms.on_lost = on_lost;
        self
    }

    /// Whether a call inside the body of another one, with the same key and manager, joins it; false by default: it
    /// gets [`LockError::Deadlock`] at once. A task that the body spawns is not inside it.
    ///
    /// Tasks of tokio are told apart also where a sync body runs a runtime (`block_on`) that polls others. Those of another
    /// executor are not: what that polls on the thread of a sync body counts as nested in it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://reentrant-example")?;
    /// let inner = || locks.lock("ledger").reentrant(true).run_blocking(|_guard| 42);
    /// assert_eq!(locks.lock("ledger").run_blocking(|_guard| inner())??, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.terms.reentrant = reentrant;
        self
    }

    pub(crate) fn policy(&self) -> OnLost {
        self.terms.on_lost
    }

    /// Acquires the lock. On any executor; no runtime is needed.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] at once when `wait` is zero and somebody else has the lock, [`LockError::TimedOut`]
    /// after `wait`; [`LockError::Unavailable`] when Redis could not be reached within `wait` (at once for a `wait`
    /// of zero), [`LockError::Misconfigured`] when it refused; [`LockError::ManagerClosed`] after
    /// [`shutdown`](LockManager::shutdown); [`LockError::NotReplicated`] when too few [`replicas`](crate::LockManagerBuilder::replicas)
    /// have it; [`LockError::InvalidKey`], [`LockError::InvalidRequest`], [`LockError::Deadlock`] and
    /// [`LockError::NotConfigured`] before anything is sent. Of several keys, [`LockError::Lost`] when one was lost
    /// before the last one was taken, and there was no time to begin again.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time: what has been acquired, or may still be, is released.
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
        Acquire { step: Step::New(self) }
    }

    /// [`acquire`](Self::acquire) with one try, whatever [`wait`](Self::wait) says.
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

    /// [`acquire`](Self::acquire) for sync code: parks this thread.
    ///
    /// It needs no runtime. On a worker of a multi-thread tokio runtime the worker's other tasks are moved away
    /// first; on a current-thread runtime they stand still meanwhile, so do not wait there for a lock that another
    /// task of the same runtime holds.
    ///
    /// A thread that waits keeps its limit by itself: it returns 100 ms after it at the latest, also when the manager's
    /// thread is far behind with its work. (With one try for several keys, each of them has the limit.)
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
        let Patience { gives_up_at, one_try, .. } = self.terms.patience(&manager);
        // The engine keeps the limit, and says what was in the way. Should it be too busy for that, the caller does. Of
        // several keys that get one try, each has its own limit.
        let limit = gives_up_at.filter(|_| !one_try || matches!(self.keys, Keys::One(_)));
        let mut acquire = Self { manager: Some(manager), ..self }.acquire();
        block_on_until(limit.map(|at| at.after(ENGINE_IS_LATE)), &mut acquire)
            .unwrap_or_else(|| Err(acquire.overdue()))
    }

    /// Acquires the lock, runs `body`, and releases it.
    ///
    /// Before each poll of the body its lease is checked: when the lease cannot be renewed in time, the body is
    /// dropped before the server may give the lock to somebody else.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when the body was stopped. The result of a body that
    /// ran to its end is never replaced: a release that fails is tried again in the background until the ttl has
    /// passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body first, then releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://run-example").await?;
    /// let pages = locks.lock("report").run(async |guard| guard.key().len()).await?;
    /// assert_eq!(pages, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<R>(self, body: impl AsyncFnOnce(&LockGuard) -> R) -> Result<R, LockError> {
        let on_lost = self.terms.on_lost;
        let guard = self.acquire().await?;
        let output = until_lost(&guard, on_lost, body(&guard)).await?;
        // The body is done and its result stands; the engine goes on releasing by itself.
        let _ = guard.release().await;
        Ok(output)
    }

    /// [`run`](Self::run) for sync code: parks this thread while it waits.
    ///
    /// A sync body cannot be stopped when the lease is lost; a long one asks [`LockGuard::is_held`].
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
    /// # let locks = redlocked::LockManager::connect_blocking("memory://run-blocking-example")?;
    /// let left = locks.lock("stock:42").run_blocking(|_guard| 41)?;
    /// assert_eq!(left, 41);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_blocking<R>(self, body: impl FnOnce(&LockGuard) -> R) -> Result<R, LockError> {
        let guard = self.acquire_blocking()?;
        let mut scope = Some(guard.scope());
        let here = nesting::enter(&mut scope);
        let output = body(&guard);
        drop(here);
        // As in `run`.
        let _ = guard.release_blocking();
        Ok(output)
    }

    /// Checks everything, registers the attempt and sends it off.
    fn start(self) -> Result<Step, LockError> {
        let manager = match self.manager {
            Some(manager) => manager,
            None => LockManager::global()?,
        };
        match self.keys {
            Keys::One(key) => {
                let key = self.terms.check(&manager, key)?;
                match self.terms.joins(&manager, &key)? {
                    Some(hold) => Ok(Step::Joined { engine: Arc::clone(manager.engine()), hold }),
                    None => self.terms.ask(&manager, key, self.terms.patience(&manager)),
                }
            }
            Keys::Several(keys) => Ok(Step::All(Box::new(AcquireAll::new(manager, self.terms, keys)?))),
        }
    }
}

/// The future of [`LockRequest::acquire`]. Dropping it releases what it may have acquired.
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
    pub(crate) step: Step,
}

pub(crate) enum Step {
    New(LockRequest),
    Joined {
        engine: Arc<Engine>,
        hold: Hold,
    },
    Asked {
        engine: Arc<Engine>,
        id: Id,
        key: Arc<str>,
        outcome: oneshot::Receiver<Result<Arc<Lease>, LockError>>,
    },
    /// Several keys.
    All(Box<AcquireAll>),
    Done,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::New(request) => request.fmt(f),
            Self::Asked { key, .. } => f.debug_struct("Asked").field("key", key).finish_non_exhaustive(),
            Self::Joined { .. } => f.write_str("Joined"),
            Self::All(all) => all.fmt(f),
            Self::Done => f.write_str("Done"),
        }
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Step::New(_) = self.step
            && let Step::New(request) = std::mem::replace(&mut self.step, Step::Done)
        {
            self.step = request.start()?;
        }
        if let Step::All(all) = &mut self.step {
            let outcome = ready!(all.poll(cx));
            self.step = Step::Done;
            return Poll::Ready(outcome);
        }
        let outcome = ready!(self.poll_one(cx));
        Poll::Ready(outcome.unwrap_or_else(|key| Err(LockError::closed(&key, ENGINE_GONE))))
    }
}

impl Acquire {
    /// The engine has let the limit pass without an outcome.
    fn overdue(&self) -> LockError {
        let key = match &self.step {
            Step::Asked { key, .. } => Some(key),
            Step::All(all) => all.first_key(),
            Step::New(_) | Step::Joined { .. } | Step::Done => None,
        };
        let reason = "the thread of this lock manager is far behind with its work".into();
        LockError::Unavailable { key: key.cloned(), reason }
    }

    /// The outcome for one key; or that key, when the engine will not tell any.
    pub(crate) fn poll_one(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<LockGuard, LockError>, Arc<str>>> {
        if let Step::Joined { .. } = self.step
            && let Step::Joined { engine, hold } = std::mem::replace(&mut self.step, Step::Done)
        {
            return Poll::Ready(Ok(Ok(LockGuard::joined(engine, hold))));
        }
        // As with an `async` block, polling again after the end never completes; it does not panic.
        let Step::Asked { outcome, .. } = &mut self.step else {
            return Poll::Pending;
        };
        let outcome = ready!(Pin::new(outcome).poll(cx));
        let Step::Asked { engine, id, key, .. } = std::mem::replace(&mut self.step, Step::Done) else {
            return Poll::Pending;
        };
        Poll::Ready(match outcome {
            Ok(Ok(lease)) => Ok(Ok(LockGuard::new(engine, id, lease))),
            Ok(Err(error)) => Ok(Err(error)),
            Err(_) => Err(key),
        })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let Step::Asked { engine, id, .. } = &self.step {
            engine.send(Command::Abandon { id: *id });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_blocks_keeps_its_limit_when_the_engine_is_late() {
        let limit = Duration::from_millis(20);
        let (engine, mut waiting) = Engine::stuck();
        let locks = LockManager::new(engine, "lock:".to_owned(), limit, 10);
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
        assert!(matches!(commands.next(), Some(Command::Abandon { .. })), "it may not be taken for nobody");
    }
}
