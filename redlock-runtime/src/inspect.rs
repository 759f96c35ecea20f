//! Looking at locks from outside: who holds one, which there are, and taking one away.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::block_on::block_on;
use crate::clock::Moment;
use crate::engine::command::{AdminCall, AdminOp, Command};
use crate::engine::handle::ENGINE_GONE;
use crate::error::{Holder, LockError};
use crate::key;
use crate::manager::LockManager;

/// A lock that is held, as the server sees it.
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
    /// Who holds it, and when it is free at the latest unless it is renewed.
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

    /// How many callers wait for it in the queue on the server; with a
    /// [`cohort`](crate::LockManagerBuilder::cohort), one for each process.
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
    /// Who holds the lock `key`; `None` when it is free.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the server cannot be reached or does not answer in time,
    /// [`LockError::Misconfigured`] when it refuses; [`LockError::InvalidKey`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed; the future can be dropped.
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
        let name = self.name_of(key);
        let found = self.ask(Some(key), AdminOp::Inspect { name, caller }, outcome).await?;
        Ok(found.map(|(holder, waiters)| LockInfo { holder, waiters }))
    }

    /// [`inspect`](Self::inspect) for sync code; parks this thread.
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

    /// Takes the lock on `key` away from its holder and passes it to the longest waiter. The holder learns that it is
    /// lost. Returns the holder; `None` when the lock was free.
    ///
    /// For an operator who knows that a holder hangs. Side effects of its body may still be on their way; only
    /// [fencing tokens](crate::LockGuard::fencing_token) keep them out.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take it back.
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
        let name = self.name_of(key);
        let found = self.ask(Some(key), AdminOp::ForceRelease { name, caller }, outcome).await?;
        Ok(found.map(|(holder, _)| holder))
    }

    /// [`force_release`](Self::force_release) for sync code; parks this thread.
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

    /// The keys, without the prefix, of all locks that are held and match `pattern`, sorted. `*` stands for any
    /// characters, `?` for one.
    ///
    /// It walks over all keys of the server with `SCAN`, about 1,000 at a time, without holding up other clients: one round
    /// trip for each 1,000 keys, whether they are locks or not. Each step may take the
    /// [`io_timeout`](crate::LockManagerBuilder::io_timeout). Locks that are taken or released meanwhile may be in the
    /// answer or not.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed; the future can be dropped.
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
        let pattern = format!("{}{pattern}", literally(self.prefix())).into();
        let op = AdminOp::List { pattern, cursor: 0, found: Vec::new(), caller };
        let names = self.ask(None, op, outcome).await?;
        Ok(names.iter().filter_map(|name| name.strip_prefix(self.prefix())).map(str::to_owned).collect())
    }

    /// [`list`](Self::list) for sync code; parks this thread.
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

    fn name_of(&self, key: &str) -> Arc<str> {
        format!("{}{key}", self.prefix()).into()
    }

    async fn ask<T>(
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

/// A pattern that matches `text` and nothing else.
fn literally(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern
}
