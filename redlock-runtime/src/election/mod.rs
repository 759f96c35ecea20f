//! [`Election`]: one of many processes leads, the others stand by.
//!
//! A candidate is a waiter for the exclusive lock of that key, with a fencing token and without a
//! limit; the one that has the lock leads. So a term is a fencing token, standbys get the lock by
//! hand-off in their order, and a body is stopped before its lease ends, as under any lock. What is
//! here: the turns of one value, the end of a term, and what follows it.

mod error;
mod lead;
mod leader;
mod term;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::manager::LockManager;
use crate::request::LockRequest;
pub use error::LeadError;
pub use leader::{Leader, Observer};
pub use term::Term;

/// What metrics, spans and other processes call the holder of an election's lock, unless
/// [`label`](Election::label) says otherwise.
const LABEL: &str = "election";

/// One of many candidates for the lead under one key: it [leads](Self::lead) while it has the lock
/// of that key, and stands by until then.
///
/// [`LockManager::election`] makes it. A clone is the same candidate: of all its clones at most one
/// body runs at a time, also when a sync body goes on after its term.
///
/// [When a leader, when a lock](../redlocked/docs/leader/index.html) has whole programs.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redlocked::{Election, LockError, LockManager};
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
    /// What the leader announces; empty for nothing.
    text: Arc<str>,
    stops_on_error: bool,
    /// Held while a body of this value, or of a clone, stands by or leads.
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
            turn: Arc::default(),
        }
    }
}

impl Election {
    /// How long the lead outlives a leader that is killed, at least 10 ms; by default the
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

    /// What metrics and logs call this election, and what others see of its leader in place of a
    /// function, as [`LockRequest::label`]; `election` by default.
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
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = label.into();
        self
    }

    /// An error of the body ends [`lead`](Self::lead), which returns it as [`LeadError::Body`].
    /// Without this the candidate stands by again after a pause.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LeadError;
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
