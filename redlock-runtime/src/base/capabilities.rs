//! [`Capabilities`]: the optional features of a server.

/// The optional features that a server supports and its access rules permit, without which every
/// lock works more slowly, and whether it may [evict](Self::may_evict) locks.
///
/// [Access rules](../redlocked/docs/access_rules/index.html) lists the permission for each.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// let locks = redlocked::LockManager::connect("memory://").await?;
/// let capabilities = locks.capabilities().await?;
/// assert!(capabilities.hands_over() && !capabilities.tracks_changes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities(pub(crate) Abilities);

impl Capabilities {
    /// True when a release passes the lock straight to its longest waiter.
    ///
    /// A server without that (no RESP3, no permission for `SUBSCRIBE`, `PUBLISH`, `PUBSUB` or a
    /// command of sorted sets) keeps no order among processes: when the lock becomes free, the
    /// first waiter of each process wakes up and asks for it. Where the server does not [report
    /// changes](Self::tracks_changes) either, that waiter asks about every 50 ms.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://")?;
    /// # let capabilities = locks.capabilities_blocking()?;
    /// assert!(capabilities.hands_over());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hands_over(&self) -> bool {
        self.0.hands_over
    }

    /// True when the server reports changed keys ([client-side
    /// caching](https://redis.io/docs/latest/develop/reference/client-side-caching/)).
    ///
    /// The holder of a deleted or overwritten lock then learns of the loss within a round trip,
    /// once it has held the lock for 100 ms, and a waiter learns when a client of another kind
    /// releases. Without that (no RESP3, no permission for `CLIENT TRACKING` and `CLIENT CACHING`)
    /// the holder learns of a loss at its next renewal, and a waiter behind such a client asks
    /// about every 50 ms.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://")?;
    /// # let capabilities = locks.capabilities_blocking()?;
    /// assert!(!capabilities.tracks_changes()); // no other client can change a lock of `memory://`
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn tracks_changes(&self) -> bool {
        self.0.tracks_changes
    }

    /// True when the `maxmemory-policy` of the server was changed while the manager ran, so that it
    /// may evict locks when its memory is full, or when the server no longer says whether it may. A
    /// manager that connects now is refused; this one keeps the locks that it holds.
    ///
    /// The manager sees the policy when it connects again: so ask from time to time, as for a health
    /// check. False with [`allow_eviction`](crate::LockManagerBuilder::allow_eviction), which does
    /// not look at the policy, and over a quorum, of which one server may lose a lock. In a Cluster it
    /// is true for any of its primaries.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://")?;
    /// if locks.capabilities_blocking()?.may_evict() {
    ///     eprintln!("set maxmemory-policy of the server of the locks to noeviction");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn may_evict(&self) -> bool {
        self.0.may_evict
    }
}

/// The optional features of one connection.
#[expect(clippy::struct_excessive_bools, reason = "each is another question to the server")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Abilities {
    /// The server passes a free lock to its longest waiter; otherwise waiters have to ask.
    pub(crate) hands_over: bool,
    /// The server reports a changed lock at once; otherwise a loss shows at the next renewal.
    pub(crate) tracks_changes: bool,
    /// A lock is taken on several nodes: callers that ask at the same time may split the votes.
    pub(crate) votes: bool,
    /// Its policy was changed while the manager ran, and nobody has accepted that it evicts locks.
    pub(crate) may_evict: bool,
}

impl Abilities {
    /// The features of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            hands_over: self.hands_over && other.hands_over,
            tracks_changes: self.tracks_changes && other.tracks_changes,
            votes: self.votes && other.votes,
            may_evict: self.may_evict || other.may_evict,
        }
    }
}
