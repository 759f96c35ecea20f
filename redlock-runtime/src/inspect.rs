//! Locks from outside: the holder of one, the list of all, and a release by force.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::block_on::block_on;
use crate::clock::Moment;
use crate::engine::command::{AdminCall, AdminOp, Command};
use crate::engine::handle::ENGINE_GONE;
use crate::error::{Holder, LockError};
use crate::key;
use crate::manager::LockManager;

/// A held lock, as the server reports it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockInfo, LockManager};
///
/// let locks = LockManager::connect("memory://lock-info-example").await?;
/// let _guard = locks.lock("stock:42").acquire().await?;
/// let info: Option<LockInfo> = locks.inspect("stock:42").await?;
/// assert!(info.is_some_and(|info| info.waiters() == 0 && info.holder().name().is_some()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    holder: Holder,
    waiters: u32,
}

impl LockInfo {
    /// The holder, and how long until the lock is free unless the holder renews it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-holder-example")?;
    /// let _guard = locks.lock("stock:42").acquire_blocking()?;
    /// let info = locks.inspect_blocking("stock:42")?;
    /// assert!(info.is_some_and(|info| info.holder().expires_in().is_some()));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// How many callers wait in the queue on the server. With a [`cohort`](crate::LockManagerBuilder::cohort) these are one
    /// for each process; on several servers there is no queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://info-waiters-example")?;
    /// let _guard = locks.lock("stock:42").acquire_blocking()?;
    /// let info = locks.inspect_blocking("stock:42")?;
    /// assert!(info.is_some_and(|info| info.waiters() == 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.waiters
    }
}

impl LockManager {
    /// The holder and the waiters of the lock on `key`; `None` when it is free.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the server cannot be reached or does not answer in time,
    /// [`LockError::Misconfigured`] when it refuses; [`LockError::InvalidKey`]; [`LockError::ManagerClosed`] after
    /// [`shutdown`](Self::shutdown).
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
    /// # let locks = redlocked::LockManager::connect("memory://inspect-example").await?;
    /// assert_eq!(locks.inspect("stock:42").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, key: &str) -> Result<Option<LockInfo>, LockError> {
        key::validate(self.prefix(), key)?;
        let (caller, outcome) = oneshot::channel();
        let name = self.name(key);
        let found = self.call_admin(Some(key), AdminOp::Inspect { name, caller }, outcome).await?;
        Ok(found.map(|(holder, waiters)| LockInfo { holder, waiters }))
    }

    /// [`inspect`](Self::inspect) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://inspect-blocking-example")?;
    /// assert_eq!(locks.inspect_blocking("stock:42")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect_blocking(&self, key: &str) -> Result<Option<LockInfo>, LockError> {
        block_on(self.inspect(key))
    }

    /// Takes the lock on `key` away from its holder and passes it to the longest waiter. Returns the former holder, which
    /// learns that its lock is lost; `None` when the lock was free.
    ///
    /// For an operator who knows that a holder hangs. Writes of its body may still be in flight; only
    /// [fencing tokens](crate::LockGuard::fencing_token) keep them out.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://force-example").await?;
    /// let hung = locks.lock("stock:42").acquire().await?;
    /// assert!(locks.force_release("stock:42").await?.is_some());
    /// let _next = locks.lock("stock:42").acquire().await?;
    /// # drop(hung);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, key: &str) -> Result<Option<Holder>, LockError> {
        key::validate(self.prefix(), key)?;
        let (caller, outcome) = oneshot::channel();
        let name = self.name(key);
        let found = self.call_admin(Some(key), AdminOp::ForceRelease { name, caller }, outcome).await?;
        Ok(found.map(|(holder, _)| holder))
    }

    /// [`force_release`](Self::force_release) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://force-blocking-example")?;
    /// assert_eq!(locks.force_release_blocking("stock:42")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn force_release_blocking(&self, key: &str) -> Result<Option<Holder>, LockError> {
        block_on(self.force_release(key))
    }

    /// The keys, without the prefix, of all held locks that match `pattern`, sorted. `*` stands for any characters, `?` for
    /// one.
    ///
    /// The call walks over all keys of the server, locks or not, with [`SCAN`](https://redis.io/docs/latest/commands/scan/):
    /// one round trip for about 1,000 keys, so other clients do not wait for long. Each round trip may take the
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout). A lock that is taken or released meanwhile may be missing.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
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
    /// # let locks = redlocked::LockManager::connect("memory://list-example").await?;
    /// let _guards = [locks.lock("stock:1").acquire().await?, locks.lock("cron").acquire().await?];
    /// assert_eq!(locks.list("stock:*").await?, ["stock:1"]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self, pattern: &str) -> Result<Vec<String>, LockError> {
        let (caller, outcome) = oneshot::channel();
        let pattern = format!("{}{pattern}", escape_pattern(self.prefix())).into();
        let op = AdminOp::List { pattern, cursor: 0, found: Vec::new(), caller };
        let names = self.call_admin(None, op, outcome).await?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(self.prefix())).map(str::to_owned).collect())
    }

    /// [`list`](Self::list) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://list-blocking-example")?;
    /// assert!(locks.list_blocking("*")?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_blocking(&self, pattern: &str) -> Result<Vec<String>, LockError> {
        block_on(self.list(pattern))
    }

    async fn call_admin<T>(
        &self,
        key: Option<&str>,
        op: AdminOp,
        outcome: oneshot::Receiver<Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let key: Option<Arc<str>> = key.map(Arc::from);
        let call = AdminCall { key: key.clone(), op, by: Moment::now().after(self.io_timeout()) };
        let id = self.engine().new_id();
        self.engine().send(Command::Admin { id, call });
        outcome.await.unwrap_or_else(|_| Err(LockError::ManagerClosed { key, reason: ENGINE_GONE }))
    }
}

/// A pattern that matches `text` only.
fn escape_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}
