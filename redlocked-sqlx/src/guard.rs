//! [`FencedGuard`]: what a guard can do with a transaction.

use redlocked::election::Term;
use redlocked::{CurrentLock, Fence, HandOver, LockError, LockGuard, ReleaseOutcome};

use crate::sealed;
use crate::table::FenceTable;
use crate::transaction::FencedTransaction;

/// Fenced transactions, of a [`LockGuard`], of the [`HandOver`] that `ticket = lock` binds, of the
/// [`CurrentLock`] that code runs under, and of the [`Term`] of a leader.
///
/// Only this crate implements it. `0.1.x` may add methods.
pub trait FencedGuard: sealed::Guard + Send + Sync + Sized {
    /// Records the fencing token of each lock of the guard in the table `redlocked_fences`: one
    /// statement for each lock, in the order of the keys. From then on, all of the transaction is
    /// fenced:
    ///
    /// * It fails when a later holder of the lock has committed, or commits first.
    /// * A later holder that does the same waits until this transaction has ended.
    ///
    /// So it comes first, in a transaction that was begun after the lock was taken: what is read
    /// behind it is what the last holder has committed. `READ COMMITTED` is enough. One holder may
    /// do it in many transactions.
    ///
    /// # Errors
    ///
    /// [`LockError::Fenced`] when a later holder was there before; [`LockError::Lost`] when the lease
    /// has ended; [`LockError::Store`] with the error of the database as its source, such as a missing table ([`create_table`](crate::create_table)), or a failure to
    /// serialize in a stricter isolation than `READ COMMITTED`. After each, drop the transaction.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, drop the transaction as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redlocked::{Fence, LockManager, distributed_lock};
    /// use redlocked_sqlx::{FencedGuard, record};
    /// use sqlx::SqlitePool;
    ///
    /// # #[derive(Debug)]
    /// # struct Failure(String);
    /// # impl<E: std::error::Error> From<E> for Failure {
    /// #     fn from(error: E) -> Self { Self(error.to_string()) }
    /// # }
    /// #[distributed_lock(key = "account:{id}", guard = lock)]
    /// async fn deposit(pool: &SqlitePool, id: u32, amount: i64) -> Result<Option<Fence>, Failure> {
    ///     let mut tx = pool.begin().await?;
    ///     lock.fence_in(&mut tx).await?;
    ///     let deposit = sqlx::query("UPDATE account SET balance = balance + ? WHERE id = ?");
    ///     deposit.bind(amount).bind(id).execute(&mut *tx).await?;
    ///     lock.commit(tx).await?; // in the body, where the lock is held
    ///     Ok(lock.fences().next())
    /// }
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// redlocked_sqlx::create_table(&pool).await?;
    /// sqlx::query("CREATE TABLE account (id INT, balance INT)").execute(&pool).await?;
    /// LockManager::connect("memory://").await?.set_global();
    /// let early = deposit(&pool, 7, 100).await.unwrap();
    /// let late = deposit(&pool, 7, -30).await.unwrap();
    ///
    /// // A writer that was suspended for so long that another one has come and gone.
    /// let mut tx = pool.begin().await?;
    /// let refused = record(&mut tx, &early.unwrap()).await;
    /// assert!(refused.is_err_and(|error| error.is_fenced()));
    /// # let _ = (late, Duration::ZERO);
    /// # Ok(())
    /// # }
    /// ```
    fn fence_in<T: FencedTransaction>(
        &self,
        tx: &mut T,
    ) -> impl Future<Output = Result<(), LockError>> + Send {
        self.fence_in_table(tx, FenceTable::standard())
    }

    /// [`fence_in`](Self::fence_in) with a table of another name than `redlocked_fences`.
    ///
    /// # Errors
    ///
    /// As [`fence_in`](Self::fence_in).
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, drop the transaction as well.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked_sqlx::{FenceTable, FencedGuard};
    /// # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
    /// # let locks = redlocked::LockManager::connect("memory://").await?;
    /// let fences = FenceTable::new("shop_fences")?;
    /// fences.create(&pool).await?;
    /// let guard = locks.lock("account:7").acquire().await?;
    /// let mut tx = pool.begin().await?;
    /// guard.fence_in_table(&mut tx, &fences).await?;
    /// guard.commit(tx).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn fence_in_table<T: FencedTransaction>(
        &self,
        tx: &mut T,
        table: &FenceTable,
    ) -> impl Future<Output = Result<(), LockError>> + Send;

    /// Commits while the lock is held. The lock stays held afterwards, so that one holder can commit
    /// many transactions.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lease has ended: nothing was sent, and the transaction is rolled
    /// back. [`LockError::Store`] with the error of the database as its source: where
    /// its connection broke, the transaction may have been committed, so look before the work is done
    /// again.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the transaction may be committed or not.
    ///
    /// # Examples
    ///
    /// The guard may be a field, or in an `Arc`:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlocked::{LockError, LockGuard, LockManager};
    /// use redlocked_sqlx::FencedGuard;
    /// use sqlx::{Sqlite, SqlitePool, Transaction};
    ///
    /// struct Job {
    ///     guard: LockGuard,
    /// }
    ///
    /// impl Job {
    ///     async fn finish(&self, mut tx: Transaction<'static, Sqlite>) -> Result<(), LockError> {
    ///         self.guard.fence_in(&mut tx).await?;
    ///         self.guard.commit(tx).await
    ///     }
    /// }
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// redlocked_sqlx::create_table(&pool).await?;
    /// let locks = LockManager::connect("memory://").await?;
    /// let job = Job { guard: locks.lock("job:7").acquire().await? };
    /// job.finish(pool.begin().await?).await?;
    /// job.finish(pool.begin().await?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn commit<T: FencedTransaction>(&self, tx: T) -> impl Future<Output = Result<(), LockError>> + Send;

    /// Commits while the lock is held, and then releases it. Only a [`LockGuard`] can do this: the
    /// lock of an annotated function, of [`CurrentLock`] and of a [`Term`] is released when the
    /// function or the term ends.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit). The lock is released in each case.
    ///
    /// A release that fails is no error, because the transaction is committed: [`Committed::release`]
    /// returns its result. It is retried until the TTL has passed.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the lock is released, and the transaction may be committed or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redlocked::{LockManager, ReleaseOutcome};
    /// use redlocked_sqlx::FencedGuard;
    /// use sqlx::SqlitePool;
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// redlocked_sqlx::create_table(&pool).await?;
    /// sqlx::query("CREATE TABLE account (id INT, balance INT)").execute(&pool).await?;
    ///
    /// let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock("account:7").acquire().await?;
    /// let mut tx = pool.begin().await?;
    /// guard.fence_in(&mut tx).await?;
    /// sqlx::query("INSERT INTO account VALUES (7, 100)").execute(&mut *tx).await?;
    /// let committed = guard.commit_and_release(tx).await?;
    /// assert_eq!(committed.release(), Ok(ReleaseOutcome::Released));
    /// # Ok(())
    /// # }
    /// ```
    fn commit_and_release<T: FencedTransaction>(
        self,
        tx: T,
    ) -> impl Future<Output = Result<Committed, LockError>> + Send
    where
        Self: Into<LockGuard>,
    {
        async move {
            let guard: LockGuard = self.into();
            guard.commit(tx).await?;
            Ok(Committed { release: guard.release().await })
        }
    }
}

impl FencedGuard for LockGuard {
    async fn fence_in_table<T: FencedTransaction>(
        &self,
        tx: &mut T,
        table: &FenceTable,
    ) -> Result<(), LockError> {
        self.ensure_held()?;
        record_all(tx, table, self.fences()).await
    }

    async fn commit<T: FencedTransaction>(&self, tx: T) -> Result<(), LockError> {
        self.ensure_held()?;
        commit(tx, self.fences().next()).await
    }
}

/// The body commits before it hands the lock over: `into_ticket` ends the lease here.
impl FencedGuard for HandOver<'_> {
    async fn fence_in_table<T: FencedTransaction>(
        &self,
        tx: &mut T,
        table: &FenceTable,
    ) -> Result<(), LockError> {
        (**self).fence_in_table(tx, table).await
    }

    async fn commit<T: FencedTransaction>(&self, tx: T) -> Result<(), LockError> {
        (**self).commit(tx).await
    }
}

impl FencedGuard for CurrentLock {
    async fn fence_in_table<T: FencedTransaction>(
        &self,
        tx: &mut T,
        table: &FenceTable,
    ) -> Result<(), LockError> {
        self.ensure_held()?;
        record_all(tx, table, self.fences().await?).await
    }

    async fn commit<T: FencedTransaction>(&self, tx: T) -> Result<(), LockError> {
        self.ensure_held()?;
        commit(tx, self.fences().await?.into_iter().next()).await
    }
}

impl FencedGuard for Term {
    async fn fence_in_table<T: FencedTransaction>(
        &self,
        tx: &mut T,
        table: &FenceTable,
    ) -> Result<(), LockError> {
        self.ensure_leading()?;
        record_all(tx, table, self.fences()).await
    }

    async fn commit<T: FencedTransaction>(&self, tx: T) -> Result<(), LockError> {
        self.ensure_leading()?;
        commit(tx, self.fences().next()).await
    }
}

/// What [`commit_and_release`](FencedGuard::commit_and_release) returns: the transaction is
/// committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    release: Result<ReleaseOutcome, LockError>,
}

impl Committed {
    /// Returns what [`LockGuard::release`] has returned.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`]. The transaction is committed all the same.
    pub fn release(self) -> Result<ReleaseOutcome, LockError> {
        self.release
    }
}

/// [`fence_in`](FencedGuard::fence_in) for one fence, for code that has no guard. Nothing looks at
/// the lease: the database decides.
///
/// # Errors
///
/// As [`fence_in`](FencedGuard::fence_in), except for [`LockError::Lost`].
///
/// # Cancel safety
///
/// When the future is dropped, drop the transaction as well.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// # redlocked_sqlx::create_table(&pool).await?;
/// # let locks = redlocked::LockManager::connect("memory://").await?;
/// let guard = locks.lock("account:7").acquire().await?;
/// let fence = guard.fences().next().ok_or("a guard holds a lock")?;
/// let mut tx = pool.begin().await?;
/// redlocked_sqlx::record(&mut tx, &fence).await?;
/// # Ok(())
/// # }
/// ```
pub async fn record<T: FencedTransaction>(tx: &mut T, fence: &Fence) -> Result<(), LockError> {
    FenceTable::standard().record(tx, fence).await
}

async fn record_all<T: FencedTransaction>(
    tx: &mut T,
    table: &FenceTable,
    fences: impl IntoIterator<Item = Fence, IntoIter: Send>,
) -> Result<(), LockError> {
    for fence in fences {
        table.record(tx, &fence).await?;
    }
    Ok(())
}

/// `fence` names the lock in an error.
async fn commit<T: FencedTransaction>(tx: T, fence: Option<Fence>) -> Result<(), LockError> {
    match (tx.commit().await, fence) {
        (Ok(()), _) => Ok(()),
        (Err(error), Some(fence)) => Err(fence.failed("the commit", error)),
        (Err(_), None) => Err(LockError::NotLocked),
    }
}
