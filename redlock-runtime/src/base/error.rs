//! [`LockError`] for every failure, with its key and the remedy; [`Holder`]; and the return types
//! that can carry an error.
//!
//! [`LockErrorKind`]: an error without its details, for labels and for tables by kind.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod example;
#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::environment;
use crate::base::limit::Limit;
use crate::base::outcome::LostReason;
use crate::base::owner::Owner;
use crate::base::span::Span;
use crate::base::store_error::StoreError;
use crate::base::token::Token;
use crate::base::utc::utc;

/// When to try again after a failure whose end is not known.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The shortest `retry_after`, unless the lease ends sooner.
const SOONEST: Duration = Duration::from_millis(10);

/// Why a lock was not acquired, or not kept.
///
/// Each message names the key and the remedy; none contains a token.
/// [Errors](../redlocked/docs/errors/index.html) lists all messages. `{:?}` is the message, too, with
/// those of its [`source`](Error::source)s, so that it is what `fn main() -> Result<(), LockError>`,
/// `unwrap` and a failed `assert_eq!` print; `{:#?}` has the variant in front of it.
///
/// # Examples
///
/// ```
/// use redlocked::{LockError, LockManager};
///
/// # fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect_blocking("memory://error-example")?;
/// let _guard = locks.lock("stock:42").acquire_blocking()?;
///
/// let error = locks.lock("stock:42").acquire_blocking().unwrap_err();
/// assert!(matches!(error, LockError::Busy { .. }));
/// assert_eq!(error.key(), Some("stock:42"));
/// assert!(error.to_string().starts_with("`stock:42` is held by "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Another caller has the lock, and the request was for one try (`wait` of zero).
    #[non_exhaustive]
    Busy {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The holder, as the server reports it; in a box, so that the error is small.
        holder: Box<Holder>,
    },
    /// Other callers had the lock for as long as the request was ready to wait.
    #[non_exhaustive]
    TimedOut {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The time that the caller waited.
        waited: Duration,
        /// The last holder that the caller saw.
        holder: Box<Holder>,
        /// The number of waiters in front when the caller last asked; `None` where waiters are not
        /// queued.
        in_front: Option<u32>,
    },
    /// The tick of the request is over, or a later one is: another caller has begun it, or, with
    /// [`TickMissed::Retry`](crate::TickMissed::Retry), has ended it well. Nothing is left to do
    /// until the next one.
    #[non_exhaustive]
    TickTaken {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The last tick that is over, by its nominal time.
        tick: SystemTime,
        /// The caller that has run that tick: its name and its function. It is boxed, so that the
        /// error is small.
        by: Box<Holder>,
    },
    /// The caller holds the lock itself and would wait for itself, so the call fails at once. A
    /// [`reentrant`](crate::LockRequest::reentrant) call joins the outer lock instead.
    #[non_exhaustive]
    Deadlock {
        /// The key, without the prefix.
        key: Arc<str>,
        /// What to do instead.
        advice: &'static str,
    },
    /// As many callers wait for the lock as [`max_waiters`](crate::LockManagerBuilder::max_waiters)
    /// allows.
    #[non_exhaustive]
    QueueFull {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The number of callers that wait.
        waiters: u32,
    },
    /// The lock was held, and is no longer. An async body was stopped: where its lease ended,
    /// before the server could give the lock to another caller.
    #[non_exhaustive]
    Lost {
        /// The key, without the prefix.
        key: Arc<str>,
        /// Why.
        reason: LostReason,
    },
    /// The resource has refused a write, because a later holder of the lock was there before: the
    /// caller had lost the lock, and did not know. Nothing of it was written.
    #[non_exhaustive]
    Fenced {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The [fencing token](crate::LockGuard::fencing_token) that came too late.
        fencing_token: u64,
    },
    /// The store of a fenced write has refused it for a reason of its own, or gave no answer: the
    /// database, the connection to it, the script. Without an answer, the write may have been made.
    #[non_exhaustive]
    Store {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The step that failed, such as `the commit`.
        step: Arc<str>,
        /// The error of the store; it is also the [`source`](Error::source) of this one.
        source: StoreError,
    },
    /// The record of a body that runs once is that of another request:
    /// the same key was used with another fingerprint. The body did not run.
    #[non_exhaustive]
    KeyReused {
        /// The key, without the prefix.
        key: Arc<str>,
    },
    /// A body that runs once has begun before, and nobody knows whether its effects are done: its
    /// process died, it was cancelled, or it lost the lock. Only with
    /// `OnInterrupted::Error`. It stays so until an operator has
    /// looked, and clears the record ([`clear_once`](crate::LockManager::clear_once), or `redlocked
    /// once clear KEY`), or until the record expires.
    #[non_exhaustive]
    Interrupted {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The caller that ran it, without a lease.
        by: Box<Holder>,
        /// Since when, by the clock of the server.
        since: SystemTime,
    },
    /// The stored result of a body that runs once cannot be decoded: its type has changed since. The
    /// body did not run. `OnUndecodable::Rerun` runs it again.
    #[non_exhaustive]
    Undecodable {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The message of the codec.
        reason: Arc<str>,
    },
    /// A body that runs once has run to its end, and its result was not stored: it is too large, it
    /// cannot be encoded, the lock was lost meanwhile, or Redis gave no answer. Its effects are done.
    /// Other callers do not get this result: for them it was interrupted.
    #[non_exhaustive]
    NotStored {
        /// The key, without the prefix.
        key: Arc<str>,
        /// Why it was not stored.
        reason: Arc<str>,
        /// The result as it was to be stored, if it could be encoded. It is not part of the message.
        result: Option<Arc<Vec<u8>>>,
    },
    /// The lock was taken and released at once, because too few
    /// [`replicas`](crate::LockManagerBuilder::replicas) confirmed it in time.
    #[non_exhaustive]
    NotReplicated {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The number of replicas that had to confirm the lock.
        wanted: u32,
        /// The number of replicas that confirmed the lock.
        reached: u32,
    },
    /// Redis could not be reached, gave no answer in time, or is not ready: an outage. Trying again
    /// later may succeed. This is never used for a lock that another client holds.
    #[non_exhaustive]
    Unavailable {
        /// The key, without the prefix; `None` where no single key is concerned, as when
        /// connecting.
        key: Option<Arc<str>>,
        /// The failure, in the words of the server or of the operating system.
        reason: Arc<str>,
    },
    /// Redis refused: a wrong password, a missing permission, a certificate that is not trusted, a
    /// server that may evict locks or is full, a key of another type. Trying again fails until a
    /// setting of the manager or of the server is changed: the reason says which.
    #[non_exhaustive]
    Misconfigured {
        /// The key, without the prefix; `None` where no single key is concerned, as when
        /// connecting.
        key: Option<Arc<str>>,
        /// The refusal, in the words of the server where it gave any.
        reason: Arc<str>,
    },
    /// This manager takes no more calls: the program called
    /// [`shutdown`](crate::LockManager::shutdown), or forked after the manager had started, which
    /// leaves its engine behind. At the end of a process, stop; in a forked child, connect a new
    /// manager.
    #[non_exhaustive]
    ManagerClosed {
        /// The key, without the prefix; `None` where no single key is concerned.
        key: Option<Arc<str>>,
        /// Why it is closed.
        reason: &'static str,
    },
    /// [`shutdown`](crate::LockManager::shutdown) reached its limit. An unreleased lock is free
    /// when its TTL has passed.
    #[non_exhaustive]
    ShutdownIncomplete {
        /// The number of locks that were still held at the limit. Their async bodies were stopped;
        /// for sync bodies [`is_held`](crate::LockGuard::is_held) became false.
        stopped: usize,
        /// The number of locks, of these and others, that are not released: a sync body still runs,
        /// or Redis does not answer.
        unreleased: usize,
    },
    /// The key is empty, longer than 1 KiB with its prefix, or holds control characters or one of
    /// `%queue`, `%clock` and `%inbox`, which are reserved for the library's own keys. Nothing was
    /// sent.
    #[non_exhaustive]
    InvalidKey {
        /// The refused key, cut after 64 characters, control characters escaped.
        key: Arc<str>,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// A TTL or another parameter is out of range. Nothing was sent, except for a
    /// [`tick_at`](crate::LockRequest::tick_at) that is too far from the server's time.
    #[non_exhaustive]
    InvalidRequest {
        /// The key, without the prefix.
        key: Arc<str>,
        /// The parameter, and its allowed range.
        reason: Arc<str>,
    },
    /// A setting of the manager cannot be used, such as a `default_ttl` out of range. Nothing was
    /// connected.
    #[non_exhaustive]
    InvalidSetting {
        /// The setting, as the builder calls it, such as `default_ttl`.
        setting: &'static str,
        /// What it can be.
        reason: Arc<str>,
    },
    /// The address of the server cannot be used.
    #[non_exhaustive]
    InvalidUrl {
        /// The address, without user and password.
        url: Arc<str>,
        /// The part that cannot be used, and why.
        reason: Arc<str>,
    },
    /// There is no process-wide manager: the program has not called
    /// [`set_global`](crate::LockManager::set_global), and neither `REDLOCK_URL` nor `REDIS_URL` is
    /// set. In a process that has used `Testing` those two do not count.
    NotConfigured,
    /// [`current`](crate::current) was called by code that runs under no lock.
    NotLocked,
}

impl LockError {
    /// True when another caller has the lock, or has run its tick: [`Busy`](Self::Busy),
    /// [`TimedOut`](Self::TimedOut) and [`TickTaken`](Self::TickTaken).
    ///
    /// The attribute's `on_busy` handles these three.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!redlocked::LockError::NotConfigured.is_busy());
    /// ```
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::TimedOut { .. } | Self::TickTaken { .. })
    }

    /// True for [`Fenced`](Self::Fenced): a later holder of the lock has written.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!redlocked::LockError::NotConfigured.is_fenced());
    /// ```
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// The kind of the error: its variant without the details.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::{LockError, LockErrorKind};
    ///
    /// fn is_outage(error: &LockError) -> bool {
    ///     matches!(error.kind(), LockErrorKind::Unavailable | LockErrorKind::NotReplicated)
    /// }
    /// assert!(!is_outage(&LockError::NotConfigured));
    /// ```
    #[must_use]
    pub fn kind(&self) -> LockErrorKind {
        match self {
            Self::Busy { .. } => LockErrorKind::Busy,
            Self::TimedOut { .. } => LockErrorKind::TimedOut,
            Self::TickTaken { .. } => LockErrorKind::TickTaken,
            Self::Deadlock { .. } => LockErrorKind::Deadlock,
            Self::QueueFull { .. } => LockErrorKind::QueueFull,
            Self::Lost { .. } => LockErrorKind::Lost,
            Self::Fenced { .. } => LockErrorKind::Fenced,
            Self::Store { .. } => LockErrorKind::Store,
            Self::KeyReused { .. } => LockErrorKind::KeyReused,
            Self::Interrupted { .. } => LockErrorKind::Interrupted,
            Self::Undecodable { .. } => LockErrorKind::Undecodable,
            Self::NotStored { .. } => LockErrorKind::NotStored,
            Self::NotReplicated { .. } => LockErrorKind::NotReplicated,
            Self::Unavailable { .. } => LockErrorKind::Unavailable,
            Self::Misconfigured { .. } => LockErrorKind::Misconfigured,
            Self::ManagerClosed { .. } => LockErrorKind::ManagerClosed,
            Self::ShutdownIncomplete { .. } => LockErrorKind::ShutdownIncomplete,
            Self::InvalidKey { .. } => LockErrorKind::InvalidKey,
            Self::InvalidRequest { .. } => LockErrorKind::InvalidRequest,
            Self::InvalidSetting { .. } => LockErrorKind::InvalidSetting,
            Self::InvalidUrl { .. } => LockErrorKind::InvalidUrl,
            Self::NotConfigured => LockErrorKind::NotConfigured,
            Self::NotLocked => LockErrorKind::NotLocked,
        }
    }

    /// The key that the error is about, without the prefix; `None` where it is about none: the
    /// connection, the end of the manager, a missing one.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{LockError, LockManager};
    ///
    /// let locks = LockManager::connect_blocking("memory://error-key-example")?;
    /// let _guard = locks.lock("stock:42").acquire_blocking()?;
    ///
    /// let busy = locks.lock("stock:42").acquire_blocking().unwrap_err();
    /// assert_eq!(busy.key(), Some("stock:42"));
    /// assert_eq!(LockError::NotConfigured.key(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Busy { key, .. }
            | Self::TimedOut { key, .. }
            | Self::TickTaken { key, .. }
            | Self::Deadlock { key, .. }
            | Self::QueueFull { key, .. }
            | Self::Lost { key, .. }
            | Self::Fenced { key, .. }
            | Self::Store { key, .. }
            | Self::KeyReused { key }
            | Self::Interrupted { key, .. }
            | Self::Undecodable { key, .. }
            | Self::NotStored { key, .. }
            | Self::NotReplicated { key, .. }
            | Self::InvalidKey { key, .. }
            | Self::InvalidRequest { key, .. } => Some(key),
            Self::Unavailable { key, .. }
            | Self::Misconfigured { key, .. }
            | Self::ManagerClosed { key, .. } => key.as_deref(),
            Self::ShutdownIncomplete { .. }
            | Self::InvalidSetting { .. }
            | Self::InvalidUrl { .. }
            | Self::NotConfigured
            | Self::NotLocked => None,
        }
    }

    /// The holder that kept the caller out: of [`Busy`](Self::Busy) and
    /// [`TimedOut`](Self::TimedOut); `None` for every other error.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::{Holder, LockError, LockManager};
    ///
    /// let locks = LockManager::connect_blocking("memory://error-holder-example")?;
    /// let _guard = locks.lock("report").label("nightly").acquire_blocking()?;
    ///
    /// let busy = locks.lock("report").acquire_blocking().unwrap_err();
    /// assert_eq!(busy.holder().and_then(Holder::function), Some("nightly"));
    /// assert_eq!(LockError::NotConfigured.holder(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Busy { holder, .. } | Self::TimedOut { holder, .. } => Some(holder),
            _ => None,
        }
    }

    /// Returns when the same call may succeed; `None` if a retry does not help, or may do
    /// the work twice.
    ///
    /// - [`Busy`](Self::Busy) and [`TimedOut`](Self::TimedOut): for how long this manager's callers
    ///   of late have held a lock of the same template or [`label`](crate::LockRequest::label), at
    ///   least 10 ms; one second before the first of them has released one, and for a request
    ///   without either. Never more than what is left of the holder's lease, which is
    ///   [`Holder::expires_in`].
    ///   Under a [`rate`](crate::LockRequest::rate), when the next start is free.
    /// - [`QueueFull`](Self::QueueFull), [`NotReplicated`](Self::NotReplicated),
    ///   [`Unavailable`](Self::Unavailable): one second.
    /// - [`TickTaken`](Self::TickTaken) has none: the next tick comes at its time.
    /// - [`Lost`](Self::Lost), [`Fenced`](Self::Fenced), [`Store`](Self::Store),
    ///   [`Interrupted`](Self::Interrupted) and [`NotStored`](Self::NotStored) have none: the body has begun, and only its author knows
    ///   whether it can be repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// use std::thread::sleep;
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager};
    ///
    /// let locks = LockManager::connect_blocking("memory://retry-after-example")?;
    /// let purchase = || locks.lock("stock:42").label("purchase");
    /// purchase().run_value_blocking(|_guard| sleep(Duration::from_millis(50)))?;
    ///
    /// let _guard = purchase().acquire_blocking()?;
    /// let after = purchase().acquire_blocking().unwrap_err().retry_after();
    /// assert!(after.is_some_and(|after| after >= Duration::from_millis(50) && after < Duration::from_secs(10)));
    /// assert_eq!(LockError::NotConfigured.retry_after(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { holder, .. } | Self::TimedOut { holder, .. } if holder.rate.is_some() => {
                Some(holder.expires_in.map_or(TRY_AGAIN, |left| left.max(SOONEST)))
            }
            Self::Busy { holder, .. } | Self::TimedOut { holder, .. } => {
                let usual = holder.usual_hold.map_or(TRY_AGAIN, |usual| usual.max(SOONEST));
                Some(holder.expires_in.into_iter().fold(usual, Ord::min))
            }
            Self::QueueFull { .. } | Self::NotReplicated { .. } | Self::Unavailable { .. } => Some(TRY_AGAIN),
            Self::TickTaken { .. }
            | Self::Deadlock { .. }
            | Self::Lost { .. }
            | Self::Fenced { .. }
            | Self::Store { .. }
            | Self::KeyReused { .. }
            | Self::Interrupted { .. }
            | Self::Undecodable { .. }
            | Self::NotStored { .. }
            | Self::Misconfigured { .. }
            | Self::ManagerClosed { .. }
            | Self::ShutdownIncomplete { .. }
            | Self::InvalidKey { .. }
            | Self::InvalidRequest { .. }
            | Self::InvalidSetting { .. }
            | Self::InvalidUrl { .. }
            | Self::NotConfigured
            | Self::NotLocked => None,
        }
    }

    /// For how long the lock that kept the caller out is usually held.
    pub(crate) fn set_usual_hold(&mut self, usual: Option<Duration>) {
        if let Self::Busy { holder, .. } | Self::TimedOut { holder, .. } = self {
            holder.usual_hold = usual;
        }
    }

    /// The caller has asked for a start under this rate.
    pub(crate) fn set_rate(&mut self, starts: u32, per: Duration) {
        if let Self::Busy { holder, .. } | Self::TimedOut { holder, .. } = self {
            holder.rate = Some((starts, per));
        }
    }

    /// The message, and that of each [`source`](Error::source) behind a colon: for a log.
    pub(crate) fn with_sources(&self) -> WithSources<'_> {
        WithSources(self)
    }

    pub(crate) fn unavailable(key: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Unavailable { key: Some(Arc::clone(key)), reason: reason.into() }
    }

    pub(crate) fn misconfigured(key: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Misconfigured { key: Some(Arc::clone(key)), reason: reason.into() }
    }

    pub(crate) fn invalid(key: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::InvalidRequest { key: Arc::clone(key), reason: reason.into() }
    }

    pub(crate) fn interrupted(key: Arc<str>, owner: Option<Owner>, since: Duration) -> Self {
        let by = Box::new(Holder { owner, ..Holder::default() });
        let since = UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
        Self::Interrupted { key, by, since }
    }

    pub(crate) fn closed(key: &Arc<str>, reason: &'static str) -> Self {
        Self::ManagerClosed { key: Some(Arc::clone(key)), reason }
    }
}

const NOT_CONFIGURED: &str = "no lock manager is configured: call `LockManager::set_global` at startup, or set REDLOCK_URL or \
                              REDIS_URL";

const NOT_CONFIGURED_IN_A_TEST: &str = "no lock manager is configured for this thread: keep the value of \
                                        `locks.testing()?.global_here()` in the test, on the thread that makes the call, or \
                                        call `LockManager::set_global` where the code runs on several threads; in a process \
                                        that uses `Testing`, REDLOCK_URL and REDIS_URL do not count";

/// In a process that uses `Testing`, the message names what a test can do.
fn not_configured() -> &'static str {
    if environment::is_ignored() { NOT_CONFIGURED_IN_A_TEST } else { NOT_CONFIGURED }
}

const NOT_LOCKED: &str = "this code does not run under a lock: call it from the body of a function with `#[distributed_lock]`, or of \
                          `run`, in the same task; a task or a thread that a body starts is not under its lock";

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { key, holder } => match holder.rate {
                Some(rate) => write!(f, "`{key}` {}", Starts { rate, next: holder.expires_in }),
                None => write!(f, "`{key}` is held by {holder}"),
            },
            Self::TimedOut { key, waited, holder, in_front } => {
                write!(f, "timed out after {} waiting for `{key}`", Span(*waited))?;
                match holder.rate {
                    Some(rate) => write!(f, ", which {}", Starts { rate, next: holder.expires_in })?,
                    None => write!(f, ": held by {holder}")?,
                }
                write_in_front(f, *in_front)
            }
            Self::TickTaken { key, tick, by } => {
                let by: &dyn fmt::Display = by.owner.as_ref().map_or(&ANOTHER_KIND, |owner| owner);
                let at = utc(*tick);
                write!(
                    f,
                    "the tick of `{key}` at {at} was taken by {by}: nothing is left to do until the next tick"
                )
            }
            Self::Deadlock { key, advice } => {
                write!(f, "deadlock: this task already holds `{key}`: {advice}")
            }
            Self::QueueFull { key, waiters } => write_queue_full(f, key, *waiters),
            Self::Lost { key, reason } => write!(f, "the lock on `{key}` was lost: {reason}"),
            Self::Fenced { key, fencing_token } => write_fenced(f, key, *fencing_token),
            Self::Store { key, step, .. } => write!(f, "`{key}`: {step} failed"),
            Self::KeyReused { key } => write_reused(f, key),
            Self::Interrupted { key, by, .. } => write_interrupted(f, key, by),
            Self::Undecodable { key, reason } => write_undecodable(f, key, reason),
            Self::NotStored { key, reason, .. } => write_not_stored(f, key, reason),
            Self::NotReplicated { key, wanted, reached } => write!(
                f,
                "`{key}` was locked and released again: {reached} of {wanted} replicas confirmed it in time"
            ),
            Self::Unavailable { key: Some(key), reason } => write!(f, "`{key}` is unavailable: {reason}"),
            Self::Misconfigured { key: Some(key), reason } => {
                write!(f, "`{key}` is unavailable, and a retry does not help: {reason}")
            }
            Self::Unavailable { key: None, reason } | Self::Misconfigured { key: None, reason } => {
                f.write_str(reason)
            }
            Self::ManagerClosed { key: Some(key), reason } => write!(f, "`{key}` is unavailable: {reason}"),
            Self::ManagerClosed { key: None, reason } => f.write_str(reason),
            Self::InvalidRequest { key, reason } => write!(f, "invalid request for `{key}`: {reason}"),
            Self::ShutdownIncomplete { stopped, unreleased } => write_incomplete(f, *stopped, *unreleased),
            Self::InvalidKey { key, reason } => write!(f, "`{key}` cannot be the key of a lock: {reason}"),
            Self::InvalidSetting { setting, reason } => write!(f, "`{setting}` cannot be used: {reason}"),
            Self::InvalidUrl { url, reason } => write!(f, "cannot connect to `{url}`: {reason}"),
            Self::NotConfigured => f.write_str(not_configured()),
            Self::NotLocked => f.write_str(NOT_LOCKED),
        }
    }
}

/// Why there is no start under a rate now, and when there is the next one.
struct Starts {
    rate: (u32, Duration),
    next: Option<Duration>,
}

impl fmt::Display for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (starts, per) = self.rate;
        match starts {
            1 => write!(f, "has had its start in {}", Span(per))?,
            starts => write!(f, "has had its {starts} starts in {}", Span(per))?,
        }
        self.next.map_or(Ok(()), |next| write!(f, ": the next one is free in {}", Span(next)))
    }
}

fn write_in_front(f: &mut fmt::Formatter<'_>, in_front: Option<u32>) -> fmt::Result {
    match in_front {
        Some(1) => f.write_str(", with 1 waiter in front"),
        Some(in_front) if in_front > 1 => write!(f, ", with {in_front} waiters in front"),
        _ => Ok(()),
    }
}

fn write_queue_full(f: &mut fmt::Formatter<'_>, key: &str, waiters: u32) -> fmt::Result {
    write!(f, "the queue of `{key}` is full: {waiters} callers wait, and `max_waiters` allows no more")
}

fn write_fenced(f: &mut fmt::Formatter<'_>, key: &str, fence: u64) -> fmt::Result {
    write!(
        f,
        "a later holder has locked `{key}`, so the write with fencing token {fence} was refused: drop the transaction, and \
         lock again if the work can be repeated"
    )
}

fn write_reused(f: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    write!(f, "`{key}` was already used for another request: use a separate key for each request")
}

fn write_interrupted(f: &mut fmt::Formatter<'_>, key: &str, by: &Holder) -> fmt::Result {
    write!(
        f,
        "the body of `{key}`, which runs once, was interrupted in {}: check whether its effects are done, then `redlocked once \
         clear {key}` lets it run again",
        by.runner()
    )
}

fn write_undecodable(f: &mut fmt::Formatter<'_>, key: &str, reason: &str) -> fmt::Result {
    write!(
        f,
        "the stored result of `{key}` cannot be decoded: {reason}. `redlocked once clear {key}` forgets it, and \
         `on_undecodable = \"rerun\"` runs the body again"
    )
}

fn write_not_stored(f: &mut fmt::Formatter<'_>, key: &str, reason: &str) -> fmt::Result {
    write!(f, "the body of `{key}` completed, but its result was not stored: {reason}")
}

fn write_incomplete(f: &mut fmt::Formatter<'_>, stopped: usize, unreleased: usize) -> fmt::Result {
    let locks = |count: usize| if count == 1 { "lock" } else { "locks" };
    write!(f, "the shutdown timed out with {stopped} {} still held", locks(stopped))?;
    write!(f, "; {unreleased} {} not released: each is free when its TTL has expired", locks(unreleased))
}

/// An error, and each of its sources behind a colon.
pub(crate) struct WithSources<'a>(&'a LockError);

impl fmt::Display for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// The message, as [`Display`](fmt::Display), and that of each [`source`](Error::source) behind it;
/// with `{:#?}` in the variant.
impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(&self.with_sources(), f);
        }
        f.debug_tuple(&format!("{:?}", self.kind())).field(&format_args!("{}", self.with_sources())).finish()
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// The holder of a lock, as the server reports it; without its token.
///
/// # Examples
///
/// ```
/// use redlocked::{LockError, LockManager};
///
/// # fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect_blocking("memory://holder-example")?;
/// let _guard = locks.lock("report").label("nightly-report").acquire_blocking()?;
/// if let Err(LockError::Busy { holder, .. }) = locks.lock("report").acquire_blocking() {
///     assert!(holder.name().is_some_and(|name| name.ends_with(&std::process::id().to_string())));
///     assert_eq!(holder.function(), Some("nightly-report"));
///     assert!(holder.granted() >= holder.asked() && holder.expires_in().is_some());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub(crate) owner: Option<Owner>,
    /// In seconds since 1970, unless it is when its owner asked.
    pub(crate) granted: Option<NonZeroU64>,
    pub(crate) expires_in: Option<Duration>,
    /// For how long locks of its kind are held, as far as the process that was refused has seen.
    pub(crate) usual_hold: Option<Duration>,
    /// It has left the lock to a ticket.
    pub(crate) is_ticket: bool,
    /// The rate of the request that was refused: so many starts in this time.
    pub(crate) rate: Option<(u32, Duration)>,
    /// The number of holders, if the lock is [counted](crate::base::limit::Limit::is_counted), and
    /// else 0.
    pub(crate) inside: u32,
    /// The least that one of these allows, and how many permits they take together.
    pub(crate) limit: Option<Limit>,
    /// That is the central limit, in the place of theirs.
    pub(crate) is_central: bool,
    /// The first waiter, where that one keeps out the caller that was refused.
    pub(crate) waiter: Option<Box<InFront>>,
    /// [Names](Token::naming) the call, where an operator has looked. It is shown to nobody.
    pub(crate) call: Option<Token>,
}

/// A waiter that another caller does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InFront {
    pub(crate) owner: Option<Owner>,
    /// The number of holders that it allows.
    pub(crate) limit: Limit,
}

impl fmt::Display for InFront {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Some(owner) => owner.fmt(f)?,
            None => f.write_str(ANOTHER_KIND)?,
        }
        match self.limit.number() {
            0 => f.write_str(", which waits for a shared lock"),
            1 => f.write_str(", which waits for an exclusive lock"),
            permits => write!(f, ", which waits for {} of {permits} permits", self.limit.take()),
        }
    }
}

/// The name of a holder or waiter whose value is not a token.
const ANOTHER_KIND: &str = "a client of another kind";

impl Holder {
    /// `<host>:<pid>` of the holder, control characters escaped; `None` when another kind of client
    /// holds the lock. In an error about a lock that several hold together, it is the one whose
    /// lease ends first of those that must leave before the caller has room; `None` where an
    /// operator looks at such a lock: see [`LockInfo::holders`](crate::LockInfo::holders).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.owner.as_ref().map(Owner::name)
    }

    /// Its name and its function.
    fn runner(&self) -> Cow<'_, str> {
        match (self.name(), self.function()) {
            (Some(name), Some(function)) => format!("{name} in {function}").into(),
            (Some(name), None) => name.into(),
            (None, _) => "an unknown process".into(),
        }
    }

    /// Its name, or what else there is to say of it.
    pub(crate) fn who(&self) -> Cow<'_, str> {
        match (self.name(), self.inside) {
            (Some(name), 0 | 1) => name.into(),
            (None, 0) => ANOTHER_KIND.into(),
            (None, 1) => "1 holder".into(),
            (_, inside) => format!("{inside} holders").into(),
        }
    }

    /// `a reader`, `3 readers`, `1 of 3 permits`, `7 of 10 permits, 3 holders`, `2 of 20 permits (set centrally)`: what those have that are inside together.
    fn together(&self) -> Option<String> {
        let limit = self.limit?;
        let central = if self.is_central { " (set centrally)" } else { "" };
        Some(match (limit.number(), self.inside) {
            (0, 1) => "a reader".to_owned(),
            (0, inside) => format!("{inside} readers"),
            (permits, 1) => format!("{} of {permits} permits{central}", limit.take().max(1)),
            (permits, inside) if limit.take() > inside => {
                format!("{} of {permits} permits{central}, {inside} holders", limit.take())
            }
            (permits, inside) => format!("{inside} of {permits} permits{central}"),
        })
        .filter(|_| self.inside > 0)
    }

    /// `<host>:<pid>` of the caller that waits in front, where it keeps out the one that was
    /// refused, and the holders do not: readers do not pass a writer that waits. `None` otherwise.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// use redlocked::Holder;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://holder-waiter-example").await?;
    /// let _reader = locks.lock("catalogue").shared().label("read").acquire().await?;
    /// let writes = locks.lock("catalogue").wait(Duration::from_secs(5)).label("write").acquire();
    /// let writer = tokio::spawn(writes);
    /// # while locks.inspect("catalogue").await?.is_none_or(|info| info.waiters() == 0) {}
    /// let busy = locks.lock("catalogue").shared().acquire().await.unwrap_err();
    /// assert_eq!(busy.holder().and_then(Holder::function), Some("read"));
    /// assert_eq!(busy.holder().and_then(Holder::waiter_function), Some("write"));
    /// # writer.abort();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waiter_name(&self) -> Option<&str> {
        self.waiter.as_ref()?.owner.as_ref().map(Owner::name)
    }

    /// The function of the caller that waits in front, as [`waiter_name`](Self::waiter_name); or its
    /// [`label`](crate::LockRequest::label).
    #[must_use]
    pub fn waiter_function(&self) -> Option<&str> {
        self.waiter.as_ref()?.owner.as_ref()?.function()
    }

    /// Returns how many permits the holder [takes](crate::LockRequest::take), or those together
    /// that [`inside`](Self::inside) counts; 1 if one caller holds the lock alone.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://holder-taken-example")?;
    /// let _job = locks.lock("gpu").permits(10).take(7).acquire_blocking()?;
    /// let busy = locks.lock("gpu").permits(10).take(4).acquire_blocking().unwrap_err();
    /// assert_eq!(busy.holder().map(redlocked::Holder::taken), Some(7));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.limit.map_or(1, Limit::take)
    }

    /// Returns how many callers hold the lock together, [`shared`](crate::LockRequest::shared) or
    /// with [`permits`](crate::LockRequest::permits); `None` if one caller holds it alone.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://holder-inside-example")?;
    /// let readers = [1, 2].map(|_| locks.lock("catalogue").shared().acquire_blocking());
    /// let busy = locks.lock("catalogue").acquire_blocking().unwrap_err();
    /// assert_eq!(busy.holder().and_then(redlocked::Holder::inside), Some(2));
    /// assert!(busy.to_string().starts_with("`catalogue` is held by 2 holders (lease expires in "));
    /// # drop(readers);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn inside(&self) -> Option<u32> {
        Some(self.inside).filter(|inside| *inside > 0)
    }

    /// True when both were [inspected](crate::LockManager::inspect) and are the same call, not only
    /// the same process and function. Clients of another kind differ if they wrote different
    /// values into the key.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://holder-same-call-example")?;
    /// let look = || locks.inspect_blocking("catalogue");
    /// let _reader = locks.lock("catalogue").shared().acquire_blocking()?;
    /// let before = look()?;
    /// let _other = locks.lock("catalogue").shared().acquire_blocking()?;
    /// if let (Some(before), Some(now)) = (before, look()?) {
    ///     let was_inside = |holder: &&redlocked::Holder| holder.is_same_call(&before.holders()[0]);
    ///     assert_eq!(now.holders().iter().filter(was_inside).count(), 1);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_same_call(&self, other: &Self) -> bool {
        self.call.is_some() && self.call == other.call
    }

    /// The function that holds the lock, as `module::function`: the last 64 characters. For a
    /// request made by hand, its [`label`](crate::LockRequest::label); `None` without one, or when
    /// another kind of client holds the lock.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.owner.as_ref()?.function()
    }

    /// Returns when the holder asked for the lock, to the second, by the clock of its host, which
    /// may differ from yours. `None` when another kind of client holds the lock.
    #[must_use]
    pub fn asked(&self) -> Option<SystemTime> {
        self.owner.as_ref()?.asked()
    }

    /// Since when the holder has the lock, to the second. For one that had to wait, that is when
    /// the server granted it, by the server's clock; else when it [asked](Self::asked). Renewals do
    /// not change it. `None` when another kind of client holds the lock.
    #[must_use]
    pub fn granted(&self) -> Option<SystemTime> {
        let granted =
            self.granted.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds.get())));
        granted.or_else(|| self.asked())
    }

    /// True while a [ticket](crate::Ticket) carries the lock: the holder has given it away, and nobody
    /// has redeemed the ticket. The lock is not renewed then, and [`granted`](Self::granted) is since
    /// when the ticket has it, by the server's clock. False where a client of another kind has made
    /// the ticket.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://is-ticket-example").await?;
    /// let is_ticket = async || locks.inspect("export:7").await.map(|info| info.is_some_and(|info| info.holder().is_ticket()));
    /// let guard = locks.lock("export:7").acquire().await?;
    /// assert!(!is_ticket().await?);
    /// let ticket = guard.into_ticket(Duration::from_secs(60)).await?;
    /// assert!(is_ticket().await?);
    /// let _guard = locks.redeem(ticket).await?;
    /// assert!(!is_ticket().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_ticket(&self) -> bool {
        self.is_ticket
    }

    /// Returns how long the lease of the holder lasted when the server answered, unless the holder
    /// renews it. If several callers hold the lock together, it is the time until the refused caller
    /// has room: an exclusive caller waits for the last lease, another caller for the first ones.
    /// `None` if a client of another kind took the key and set no expiry.
    #[must_use]
    pub fn expires_in(&self) -> Option<Duration> {
        self.expires_in
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let together = self.together();
        match (&self.owner, &together) {
            (Some(owner), Some(together)) if self.inside == 1 => write!(f, "{owner}, {together}")?,
            (Some(owner), None) => owner.fmt(f)?,
            _ => f.write_str(&self.who())?,
        }
        match self.expires_in {
            Some(left) => write!(f, " (lease expires in {} unless renewed)", Span(left))?,
            None => f.write_str(" (without a TTL: held until the key is deleted)")?,
        }
        if let (Some(owner), Some(together)) = (&self.owner, &together)
            && self.inside > 1
        {
            write!(f, ": {together}, among them {owner}")?;
        }
        self.waiter.as_ref().map_or(Ok(()), |waiter| write!(f, ", behind {waiter}"))
    }
}

/// A return type that can carry a lock failure to the caller.
///
/// The attribute turns a [`LockError`] into the return value of the annotated function with it.
/// Every `Result<T, E>` with `E: From<LockError>` implements it.
///
/// # Examples
///
/// ```
/// use redlocked::{FromLockError, LockError};
///
/// enum Outcome { Done, Skipped }
///
/// impl FromLockError for Outcome {
///     fn from_lock_error(_: LockError) -> Self {
///         Outcome::Skipped
///     }
/// }
/// assert!(matches!(Outcome::from_lock_error(LockError::NotConfigured), Outcome::Skipped));
/// # let _ = Outcome::Done;
/// ```
#[diagnostic::on_unimplemented(
    message = "the return type `{Self}` cannot carry a lock failure",
    label = "there is no place for a `LockError` in `{Self}`",
    note = "return a `Result<_, E>`, with `impl From<redlocked::LockError> for E`, or say what to return instead with \
            `on_error = |error| ...`"
)]
pub trait FromLockError {
    /// The value that stands for `error`.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// The kind of a [`LockError`](crate::LockError), one for each of its variants.
/// [`LockError::kind`](crate::LockError::kind) returns it.
///
/// It has no key and no reason, so it is cheap to copy, can be a key of a map, and is safe to show
/// to anyone.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use std::collections::HashMap;
/// use redlocked::{LockErrorKind, LockManager};
///
/// let locks = LockManager::connect_blocking("memory://error-kind-example")?;
/// let _guard = locks.lock("stock:42").acquire_blocking()?;
///
/// let mut failures: HashMap<LockErrorKind, u32> = HashMap::new();
/// if let Err(error) = locks.lock("stock:42").acquire_blocking() {
///     *failures.entry(error.kind()).or_default() += 1;
/// }
/// assert_eq!(failures[&LockErrorKind::Busy], 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LockErrorKind {
    /// [`LockError::Busy`](crate::LockError::Busy)
    Busy,
    /// [`LockError::TimedOut`](crate::LockError::TimedOut)
    TimedOut,
    /// [`LockError::TickTaken`](crate::LockError::TickTaken)
    TickTaken,
    /// [`LockError::Deadlock`](crate::LockError::Deadlock)
    Deadlock,
    /// [`LockError::QueueFull`](crate::LockError::QueueFull)
    QueueFull,
    /// [`LockError::Lost`](crate::LockError::Lost)
    Lost,
    /// [`LockError::Fenced`](crate::LockError::Fenced)
    Fenced,
    /// [`LockError::Store`](crate::LockError::Store)
    Store,
    /// [`LockError::KeyReused`](crate::LockError::KeyReused)
    KeyReused,
    /// [`LockError::Interrupted`](crate::LockError::Interrupted)
    Interrupted,
    /// [`LockError::Undecodable`](crate::LockError::Undecodable)
    Undecodable,
    /// [`LockError::NotStored`](crate::LockError::NotStored)
    NotStored,
    /// [`LockError::NotReplicated`](crate::LockError::NotReplicated)
    NotReplicated,
    /// [`LockError::Unavailable`](crate::LockError::Unavailable)
    Unavailable,
    /// [`LockError::Misconfigured`](crate::LockError::Misconfigured)
    Misconfigured,
    /// [`LockError::ManagerClosed`](crate::LockError::ManagerClosed)
    ManagerClosed,
    /// [`LockError::ShutdownIncomplete`](crate::LockError::ShutdownIncomplete)
    ShutdownIncomplete,
    /// [`LockError::InvalidKey`](crate::LockError::InvalidKey)
    InvalidKey,
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest)
    InvalidRequest,
    /// [`LockError::InvalidSetting`](crate::LockError::InvalidSetting)
    InvalidSetting,
    /// [`LockError::InvalidUrl`](crate::LockError::InvalidUrl)
    InvalidUrl,
    /// [`LockError::NotConfigured`](crate::LockError::NotConfigured)
    NotConfigured,
    /// [`LockError::NotLocked`](crate::LockError::NotLocked)
    NotLocked,
}

impl LockErrorKind {
    /// The name in `snake_case`, which stays the same over versions: for the label of a metric or a
    /// field of a log.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::LockError;
    ///
    /// assert_eq!(LockError::NotConfigured.kind().as_str(), "not_configured");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::TickTaken => "tick_taken",
            Self::Deadlock => "deadlock",
            Self::QueueFull => "queue_full",
            Self::Lost => "lost",
            Self::Fenced => "fenced",
            Self::Store => "store",
            Self::KeyReused => "key_reused",
            Self::Interrupted => "interrupted",
            Self::Undecodable => "undecodable",
            Self::NotStored => "not_stored",
            Self::NotReplicated => "not_replicated",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
            Self::ManagerClosed => "manager_closed",
            Self::ShutdownIncomplete => "shutdown_incomplete",
            Self::InvalidKey => "invalid_key",
            Self::InvalidRequest => "invalid_request",
            Self::InvalidSetting => "invalid_setting",
            Self::InvalidUrl => "invalid_url",
            Self::NotConfigured => "not_configured",
            Self::NotLocked => "not_locked",
        }
    }
}

impl fmt::Display for LockErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
