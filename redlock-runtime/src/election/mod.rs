//! [`Election`]: one of many processes leads, the others wait to take over.
//!
//! A candidate is a waiter for the exclusive lock of that key, with a fencing token and without a
//! limit; the one that has the lock leads. So a term is a fencing token, the candidates get the
//! lock by hand-off in their order, and a body is stopped before its lease ends, as under any lock.
//! This module adds the turns of one value, the end of a term, and the next step after it.

mod error;
mod lead;
mod leader;
#[cfg(feature = "stream")]
mod stream;
mod term;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::base::error::LockError;
use crate::base::lease::MIN_TTL;
use crate::manager::LockManager;
use crate::request::LockRequest;
pub use error::LeadError;
pub use leader::{Leader, Observer};
#[cfg(feature = "stream")]
pub use stream::LeaderStream;
pub use term::Term;

/// A leader may be blocked for its TTL, and for this time at least: a busy machine is late, too.
const MAX_BLOCKED: Duration = Duration::from_secs(1);

/// A sync leader gives a sign of life between its steps only, so it has ten TTLs, and this time at
/// least.
const MAX_BLOCKED_BLOCKING: Duration = Duration::from_secs(60);

/// The name of the holder of an election's lock in metrics, spans and other processes, unless
/// [`label`](Election::label) says otherwise.
const LABEL: &str = "election";

/// One of many candidates for the lead under one key. It waits for the lock of that key, and
/// [leads](Self::lead) while it holds the lock.
///
/// [`LockManager::election`] makes it. A clone is the same candidate: of all its clones at most one
/// body runs at a time, also when a sync body goes on after its term.
///
/// [When a leader, when a lock](../../redlocked/docs/leader/index.html) has whole programs.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redlocked::election::Election;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://election-example").await?;
/// let election: Election = locks.election("billing-loop").ttl(Duration::from_secs(10));
/// let sent = election.lead(async |term| {
///     // Only one process of the fleet is here.
///     assert!(term.is_leading());
///     Ok::<_, LockError>(3)
/// });
/// assert_eq!(sent.await?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an election does nothing until it leads"]
pub struct Election {
    locks: LockManager,
    key: String,
    label: Arc<str>,
    ttl: Option<Duration>,
    /// The text that the leader announces; empty for none.
    text: Arc<str>,
    stops_on_error: bool,
    max_blocked: Option<Duration>,
    /// Held while a body of this value, or of a clone, waits or leads.
    turn: Arc<Mutex<()>>,
}

impl LockManager {
    /// A candidate for the lead under `key`. Nothing is sent before it [leads](Election::lead).
    ///
    /// The lead is the lock of that key: a [`lock`](Self::lock) with the same key excludes the
    /// leader, and the leader excludes it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::{LockError, LockManager};
    /// let locks = LockManager::connect_blocking("memory://")?;
    /// locks.election("billing-loop").lead_blocking(|_term| Ok::<_, LockError>(()))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn election(&self, key: impl Into<String>) -> Election {
        Election {
            locks: self.clone(),
            key: key.into(),
            label: LABEL.into(),
            ttl: None,
            text: "".into(),
            stops_on_error: false,
            max_blocked: None,
            turn: Arc::default(),
        }
    }
}

impl Election {
    /// Sets how long the lead outlives a leader that is killed, at least 10 ms; by default the
    /// [`default_ttl`](crate::LockManagerBuilder::default_ttl) of the manager, 30 s. A live leader
    /// renews it every third of this time.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://election-ttl-example")?;
    /// let election = locks.election("billing-loop").ttl(std::time::Duration::from_secs(10));
    /// # let _ = election;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets what metrics and logs call this election, and what others see of its leader in place of
    /// a function, as [`LockRequest::label`]; `election` by default.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://election-label-example")?;
    /// let election = locks.election("shard:7").label("shards");
    /// election.lead_blocking(|_term| {
    ///     let info = locks.inspect_blocking("shard:7")?;
    ///     assert!(info.is_some_and(|info| info.holder().function() == Some("shards")));
    ///     Ok::<_, LockError>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = label.as_ref().into();
        self
    }

    /// Lets an error of the body end [`lead`](Self::lead), which returns it as [`LeadError::Body`].
    /// Without this, the candidate waits again after a pause.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::election::LeadError;
    /// # let locks = redlocked::LockManager::connect("memory://stop-on-error-example").await?;
    /// let election = locks.election("billing-loop").stop_on_error();
    /// let outcome = election.lead(async |_term| Err::<(), _>("no such table")).await;
    /// assert!(matches!(outcome, Err(LeadError::Body("no such table"))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop_on_error(mut self) -> Self {
        self.stops_on_error = true;
        self
    }

    /// Sets for how long the body may give no sign of life before the manager stops renewing its
    /// lock, at least 10 ms. The next candidate then leads at most one TTL later. Otherwise, a body
    /// that blocks its thread forever, or deadlocks, would lead forever and do nothing.
    ///
    /// - The future of [`lead`](Self::lead) gives a sign of life when its task is polled, and it
    ///   wakes its task for that by itself, every quarter of this time. So a body that awaits
    ///   something is alive, however long it awaits it, and a body that sleeps with
    ///   [`std::thread::sleep`] is not. By default, it may be blocked for its TTL, and for 1 s at
    ///   least.
    /// - A body of [`lead_blocking`](Self::lead_blocking) gives one with each call of
    ///   [`is_leading`](crate::Term::is_leading), [`remaining`](crate::Term::remaining) or
    ///   [`fencing_token`](crate::Term::fencing_token), and while it awaits [`ended`](crate::Term::ended). By
    ///   default, one of its steps may take ten TTLs, and 60 s at least. If yours take longer, set
    ///   this.
    ///
    /// Those calls count for a body of [`lead`](Self::lead), too, if the body makes them itself, except
    /// `ended`: other tasks and threads go on while the body is blocked. A sync body may have threads
    /// of its own, so calls of any thread count for it. If a body runs again in time, the manager renews its
    /// lock at once, and the body keeps leading.
    /// [`Duration::MAX`] turns this off.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use redlocked::{LockError, LockManager};
    /// # let locks = LockManager::connect("memory://max-blocked-example").await?;
    /// // A step of this job takes up to a quarter of an hour.
    /// let election = locks.election("reports").max_blocked(Duration::from_secs(20 * 60));
    /// # let lead = tokio::task::spawn_blocking(move || {
    /// election.lead_blocking(|term| {
    ///     for _report in 0..3 {
    ///         if !term.is_leading() {
    ///             break;
    ///         }
    ///         // write the report
    ///     }
    ///     Ok::<_, LockError>(())
    /// })
    /// # });
    /// # lead.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_blocked(mut self, max_blocked: Duration) -> Self {
        self.max_blocked = Some(max_blocked);
        self
    }

    /// The key, without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://")?;
    /// assert_eq!(locks.election("billing-loop").key(), "billing-loop");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The TTL of the lock.
    fn lasting(&self) -> Duration {
        self.ttl.unwrap_or(self.locks.defaults().ttl)
    }

    /// For how long a body may give no sign of life.
    fn longest_silence(&self, is_blocking: bool) -> Duration {
        let ttl = self.lasting();
        let default =
            if is_blocking { ttl.saturating_mul(10).max(MAX_BLOCKED_BLOCKING) } else { ttl.max(MAX_BLOCKED) };
        self.max_blocked.unwrap_or(default)
    }

    /// An error unless the options of this election can be met.
    fn check(&self) -> Result<(), LockError> {
        if self.max_blocked.is_some_and(|max_blocked| max_blocked < MIN_TTL) {
            let reason = "a `max_blocked` must be at least 10 ms".into();
            return Err(LockError::InvalidRequest { key: self.key.as_str().into(), reason });
        }
        Ok(())
    }

    /// One attempt to lead, which waits without a limit.
    fn request(&self) -> LockRequest {
        let request = self.locks.lock(self.key.as_str()).label(Arc::clone(&self.label)).wait_forever();
        self.ttl.into_iter().fold(request, LockRequest::ttl)
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("key", &self.key).finish_non_exhaustive()
    }
}
