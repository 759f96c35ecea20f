//! [`ReleaseOutcome`]: whether a lock was still held when it was released.

/// Whether a lock was still held when it was released.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockManager, ReleaseOutcome};
///
/// let locks = LockManager::connect_blocking("memory://outcome-example")?;
/// let outcome = locks.lock("stock:42").acquire_blocking()?.release_blocking()?;
/// assert_eq!(outcome, ReleaseOutcome::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReleaseOutcome {
    /// The lock was held until this release.
    Released,
    /// The lock had been lost before: its lease ended, or the key was deleted or overwritten. Another caller may have
    /// been inside.
    AlreadyLost,
}
