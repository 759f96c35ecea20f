//! Who leads, as everybody sees it: [`Leader`], and its changes.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use super::Election;
use super::term::first;
use crate::base::clock::Moment;
use crate::base::error::{Holder, LockError};
use crate::base::key;
use crate::base::token::Token;
use crate::block_on::block_on;
use crate::engine::command::Command;
use crate::engine::multi_key::MultiKey;
use crate::engine::operator_calls::OperatorCall;
use crate::engine::protocol::{Inspection, Record};
use crate::manager::LockManager;

/// An observer looks again after this time while nobody leads, or a client of another kind does, and
/// after an error.
const UNTOLD: Duration = Duration::from_secs(1);

/// The reason of an error where the server cannot tell.
const TELLS_NOTHING: &str = "this server tells no client of changed keys (CLIENT TRACKING with RESP3), so there is nothing to observe: \
                             ask `leader()` from time to time";

/// The reason of an error over a quorum.
pub(super) const NO_RECORD: &str =
    "a quorum keeps no record of its leader: leave out `announce`, and ask `leader()` instead of observing";

/// The leader of a key, as the server reports it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlocked::election::Leader;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://leader-example").await?;
/// let election = locks.election("billing-loop").announce("10.0.0.5:8080");
/// let seen = election.lead(async |term| {
///     let leader: Option<Leader> = election.leader().await?;
///     assert!(leader.as_ref().is_some_and(|leader| leader.fencing_token() == Some(term.fencing_token())));
///     Ok::<_, LockError>(leader)
/// });
/// let seen = seen.await?;
/// assert_eq!(seen.as_ref().and_then(Leader::announced), Some("10.0.0.5:8080"));
/// assert_eq!(election.leader().await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    holder: Holder,
    /// [Names](Token::naming) the value of the lock. It is shown to nobody.
    value: Token,
    record: Option<Record>,
}

impl Leader {
    fn new(found: Inspection) -> Self {
        Self { holder: found.holder, value: found.value, record: found.record.map(|record| *record) }
    }

    /// `<host>:<pid>` of the leader, control characters escaped; `None` for a client of another
    /// kind, such as a leader by hand.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.holder.name()
    }

    /// The fencing token of its lock, as [`Term::fencing_token`](crate::Term::fencing_token) returns
    /// it. `None` in the moment before the leader has announced itself, over a quorum, and for a
    /// holder that has the lock without an election.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.record.as_ref().map(|record| record.term)
    }

    /// Since when it leads, to the millisecond, by the clock of the server; `None` where
    /// [`fencing_token`](Self::fencing_token) is.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(self.record.as_ref()?.since)
    }

    /// Returns what the leader has [announced](Election::announce); `None` without a text.
    #[must_use]
    pub fn announced(&self) -> Option<&str> {
        self.record.as_ref().map(|record| record.text.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns how long the lease of the leader lasts unless it is renewed. `None` if a client of
    /// another kind holds the key and set no expiry.
    #[must_use]
    pub fn expires_in(&self) -> Option<Duration> {
        self.holder.expires_in()
    }

    /// True when both show the same term. Times do not count: a record that was lost and is written
    /// again may differ by milliseconds.
    #[must_use]
    pub fn is_same_term(&self, other: &Self) -> bool {
        self.value == other.value
            && self.fencing_token() == other.fencing_token()
            && self.announced() == other.announced()
    }
}

impl Election {
    /// Sets what others see of the leader while it is this process, up to 512 bytes without control
    /// characters: an address to send work to, a version. Nothing by default.
    ///
    /// It is written beside the lock at the start of a term, together with the term and since when
    /// it lasts, and counts only while this leader has the lock. Not over a quorum: there
    /// [`lead`](Self::lead) fails with [`LockError::Misconfigured`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://announce-example")?;
    /// let election = locks.election("billing-loop").announce("10.0.0.5:8080");
    /// # let _ = election;
    /// # Ok(())
    /// # }
    /// ```
    pub fn announce(mut self, text: impl AsRef<str>) -> Self {
        self.text = text.as_ref().into();
        self
    }

    /// Returns the leader of now; `None` if nobody leads. Sends one command.
    ///
    /// Over a quorum it has no term, no time and no announcement.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the server cannot be reached or does not answer in time,
    /// [`LockError::Misconfigured`] when it refuses; [`LockError::InvalidKey`];
    /// [`LockError::ManagerClosed`] after [`shutdown`](crate::LockManager::shutdown).
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing; its future can be dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://who-leads-example").await?;
    /// assert_eq!(locks.election("billing-loop").leader().await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn leader(&self) -> Result<Option<Leader>, LockError> {
        ask(&self.locks, &self.key, false).await
    }

    /// [`leader`](Self::leader) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://who-leads-blocking-example")?;
    /// assert_eq!(locks.election("billing-loop").leader_blocking()?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn leader_blocking(&self) -> Result<Option<Leader>, LockError> {
        block_on(self.locks.engine(), self.leader())
    }

    /// Observes who leads, from now on: [`Observer::changed`] waits for the next leader.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlocked::election::Leader;
    /// use redlocked::{LockError, LockManager};
    ///
    /// let locks = LockManager::connect("memory://observe-example").await?;
    /// let election = locks.election("billing-loop").announce("10.0.0.5:8080");
    /// let mut observer = election.observe();
    /// observer.changed().await?;
    /// assert_eq!(observer.leader(), None);
    /// election
    ///     .lead(async |_term| {
    ///         observer.changed().await?;
    ///         assert_eq!(observer.leader().and_then(Leader::announced), Some("10.0.0.5:8080"));
    ///         Ok::<_, LockError>(())
    ///     })
    ///     .await?;
    /// observer.changed().await?;
    /// assert_eq!(observer.leader(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(&self) -> Observer {
        let (locks, told) = (self.locks.clone(), Arc::new(Notify::new()));
        let (name, observer) = (locks.name(&self.key), Arc::downgrade(&told));
        locks.engine().send(Command::Observe { name, observer });
        Observer { locks, key: self.key.clone(), told, has_looked: false, last: None, looks_at: None }
    }

    /// Returns what a leader writes beside its lock, if that can be done.
    pub(super) fn announcement(&self) -> Result<Arc<str>, LockError> {
        let key = || Arc::from(self.key.as_str());
        if self.text.len() > 512 || self.text.chars().any(char::is_control) {
            let reason = "an announcement has at most 512 bytes and no control characters".into();
            return Err(LockError::InvalidRequest { key: key(), reason });
        }
        if !self.text.is_empty() && is_quorum(&self.locks) {
            return Err(LockError::Misconfigured { key: Some(key()), reason: NO_RECORD.into() });
        }
        Ok(Arc::clone(&self.text))
    }
}

fn is_quorum(locks: &LockManager) -> bool {
    matches!(locks.engine().multi_key(), MultiKey::Never)
}

async fn ask(locks: &LockManager, key: &str, watches: bool) -> Result<Option<Leader>, LockError> {
    key::validate(locks.prefix(), key)?;
    let name = locks.name(key);
    if watches {
        locks.call(key, OperatorCall::watch_leader(Arc::clone(&name))).await?;
    }
    Ok(locks.call(key, OperatorCall::leader(name)).await?.map(Leader::new))
}

/// Shows who leads, and waits for changes; from [`Election::observe`].
///
/// The server notifies it of each new leader, and of a leader that steps down. It detects a killed
/// leader when the lease has expired. An observer looks after each change, and with every second
/// renewal of the leader, which writes its record again: three times in two TTLs. While nobody leads,
/// or a client of another kind does, it looks each second. A look is three commands.
///
/// As a [`tokio::sync::watch`] receiver, it shows the value of now: [`changed`](Self::changed)
/// waits for another one, and [`leader`](Self::leader) shows it. With the feature `stream`,
/// `into_stream` makes a `Stream` of it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::election::Observer;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://observer-example").await?;
/// let mut observer: Observer = locks.election("billing-loop").observe();
/// observer.changed().await?;
/// assert_eq!(observer.leader(), None, "nobody leads");
/// # Ok(())
/// # }
/// ```
#[must_use = "an observer does nothing unless its changes are awaited"]
pub struct Observer {
    locks: LockManager,
    key: String,
    told: Arc<Notify>,
    /// Whether anything was returned, and the last one that was.
    has_looked: bool,
    last: Option<Leader>,
    /// Until when it waits to be told before it looks again. A call that is dropped and made again
    /// does not begin again.
    looks_at: Option<Moment>,
}

impl Observer {
    /// Completes when another one leads, or nobody does; the first call completes with who leads
    /// now. [`leader`](Self::leader) then shows it. Changes that follow each other at once may be
    /// seen as one.
    ///
    /// # Errors
    ///
    /// As [`Election::leader`], and [`LockError::Misconfigured`] where the server does not notify
    /// of changes: over a quorum, and without `CLIENT TRACKING`, as
    /// [`Capabilities`](crate::Capabilities) say. After an error the next call looks again when
    /// there is a connection again, or after a second.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change: the next call returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://observer-changed-example").await?;
    /// let mut observer = locks.election("billing-loop").observe();
    /// observer.changed().await?;
    /// assert!(observer.leader().is_none());
    /// let held = locks.lock("billing-loop").acquire().await?;
    /// observer.changed().await?;
    /// assert!(observer.leader().is_some_and(|holder| holder.fencing_token().is_none()), "a lock, and no leader");
    /// # drop(held);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn changed(&mut self) -> Result<(), LockError> {
        loop {
            if let Some(looks_at) = self.looks_at {
                self.wait_until(looks_at).await;
                // Until the look has succeeded: this future may be dropped before that.
                self.looks_at = None;
            }
            let seen = match self.look().await {
                Ok(seen) => seen,
                Err(error) => {
                    self.looks_at = Some(self.locks.engine().now().after(UNTOLD));
                    return Err(error);
                }
            };
            let told = seen.as_ref().filter(|leader| leader.record.is_some()).and_then(Leader::expires_in);
            let pause = told.map_or(UNTOLD, |left| left + Duration::from_millis(1));
            self.looks_at = Some(self.locks.engine().now().after(pause));
            let is_same = match (&self.last, &seen) {
                (Some(last), Some(seen)) => last.is_same_term(seen),
                (None, None) => self.has_looked,
                _ => false,
            };
            if !is_same {
                (self.has_looked, self.last) = (true, seen);
                return Ok(());
            }
        }
    }

    /// Returns the leader of the time when [`changed`](Self::changed) completed last; `None` if
    /// nobody led, and before the first call.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://observer-leader-example").await?;
    /// let mut observer = locks.election("billing-loop").observe();
    /// observer.changed().await?;
    /// match observer.leader() {
    ///     Some(leader) => println!("{:?} leads", leader.announced()),
    ///     None => println!("nobody leads"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        self.last.as_ref()
    }

    async fn look(&self) -> Result<Option<Leader>, LockError> {
        let cannot = |reason: &str| {
            Err(LockError::Misconfigured { key: Some(self.key.as_str().into()), reason: reason.into() })
        };
        if is_quorum(&self.locks) {
            return cannot(NO_RECORD);
        }
        // In memory, the node tells of itself.
        let is_in_memory = self.locks.engine().tested().is_some();
        if !is_in_memory && !self.locks.capabilities().await?.tracks_changes() {
            return cannot(TELLS_NOTHING);
        }
        ask(&self.locks, &self.key, true).await
    }

    async fn wait_until(&self, limit: Moment) {
        let engine = self.locks.engine();
        let over = engine.sleep(limit.since(engine.now()));
        first(pin!(self.told.notified()), pin!(over)).await;
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("key", &self.key).finish_non_exhaustive()
    }
}
