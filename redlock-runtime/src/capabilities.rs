//! [`Capabilities`]: what a server allows beyond the bare lock.

/// What a server, and the access rules of the manager's user there, allow beyond the bare lock.
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
    /// A release passes the lock straight to its longest waiter. A server without that (no RESP3, no permission for
    /// `SUBSCRIBE`, `PUBLISH`, `PUBSUB` or a command of sorted sets) keeps no order among processes: the first waiter of
    /// each is woken when the lock becomes free, and asks. Where the server does not [tell of changes](Self::tracks_changes)
    /// either, that waiter asks about every 50 ms.
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

    /// The server tells of changed keys (client-side caching). A lock that was deleted or overwritten is known to be lost
    /// within a round trip, if it was held for longer than 100 ms, and a waiter learns when a client of another kind
    /// releases. A server without that (no RESP3, no permission for `CLIENT TRACKING` and `CLIENT CACHING`) shows a loss
    /// at the next renewal, and a waiter behind such a client asks about every 50 ms.
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
}

/// What a connection can do beyond the bare lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Abilities {
    /// A release passes the lock to its longest waiter; without that, waiters ask.
    pub(crate) hands_over: bool,
    /// The server reports a change of a watched lock at once; without that, a loss shows at the next renewal.
    pub(crate) tracks_changes: bool,
    /// A lock is taken on several nodes: an attempt may fail because others try at the same time.
    pub(crate) votes: bool,
}

impl Abilities {
    /// What both can do.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            hands_over: self.hands_over && other.hands_over,
            tracks_changes: self.tracks_changes && other.tracks_changes,
            votes: self.votes && other.votes,
        }
    }
}
