//! [`ReleaseOutcome`]: what a release found.

/// What a release found.
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
    /// The lock was ours until now, and is free.
    Released,
    /// The lock had been lost before: its lease ended, or the key was deleted or overwritten. Somebody else may
    /// have been inside.
    AlreadyLost,
}
