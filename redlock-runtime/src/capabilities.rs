//! [`Capabilities`]: what a server allows beyond the bare lock.

use crate::engine::Abilities;

/// What a server, and the access rules of our user there, allow beyond the bare lock.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock_runtime::LockError> {
/// let locks = redlock_runtime::LockManager::connect("memory://").await?;
/// let capabilities = locks.capabilities().await?;
/// assert!(capabilities.hands_off() && !capabilities.watches());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities(pub(crate) Abilities);

impl Capabilities {
    /// A free lock is passed straight to its longest waiter. Without that (no RESP3, no permission for `SUBSCRIBE`,
    /// `PUBLISH` or `PUBSUB`) the first waiter of each process asks again about every 50 ms, and there is no order
    /// among processes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://")?;
    /// # let capabilities = locks.capabilities_blocking()?;
    /// assert!(capabilities.hands_off());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hands_off(&self) -> bool {
        self.0.hands_off
    }

    /// A lock that was deleted or overwritten is known to be lost within a round trip, if it was held for longer than
    /// 100 ms. Without that (no RESP3, no permission for `CLIENT TRACKING`) it shows at the next renewal.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlock_runtime::LockError> {
    /// # let locks = redlock_runtime::LockManager::connect_blocking("memory://")?;
    /// # let capabilities = locks.capabilities_blocking()?;
    /// assert!(!capabilities.watches()); // nobody can change a lock of `memory://` behind our back
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watches(&self) -> bool {
        self.0.watches
    }
}
