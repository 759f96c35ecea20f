//! The record of a body that runs once, from outside: what is known of it, and how it is cleared.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::base::error::LockError;
use crate::base::key;
use crate::base::owner::Owner;
use crate::block_on::block_on;
use crate::engine::operator_calls::OperatorCall;
use crate::engine::protocol::RunRecord;
use crate::manager::LockManager;

/// The record of a body that runs once on the server: its start, or its result.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::once::OnceRecord;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://once-record-example").await?;
/// let record: Option<OnceRecord> = locks.once_record("charge:7").await?;
/// assert!(record.is_none(), "nothing was done");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct OnceRecord {
    known: RunRecord,
}

impl OnceRecord {
    /// True when the body has run to its end, and its result is stored.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.known.result.is_some()
    }

    /// Since when the body runs, or when its result was stored: by the clock of the server.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        UNIX_EPOCH.checked_add(self.known.since).unwrap_or(UNIX_EPOCH)
    }

    /// `<host>:<pid>` of the process that runs it, or has run it. Whether a body that is not done
    /// still runs, [`inspect`](LockManager::inspect) tells: it holds the lock.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.known.owner.as_ref().map(Owner::name)
    }

    /// The function that runs it, or the [label](crate::LockRequest::label) of its request.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.known.owner.as_ref()?.function()
    }

    /// The stored result, as its codec has encoded it; `None` for a body that is not done.
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        self.known.result.as_deref()
    }
}

/// Without the result, which may be private.
impl std::fmt::Debug for OnceRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnceRecord")
            .field("is_done", &self.is_done())
            .field("since", &self.since())
            .field("name", &self.name())
            .field("function", &self.function())
            .finish_non_exhaustive()
    }
}

impl LockManager {
    /// Returns what the server knows of the body of `key` that runs once; `None` when it knows
    /// nothing.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect); [`LockError::InvalidRequest`] over a quorum, which keeps no
    /// such records.
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
    /// # let locks = redlocked::LockManager::connect("memory://once-known-example").await?;
    /// assert_eq!(locks.once_record("charge:7").await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn once_record(&self, key: &str) -> Result<Option<OnceRecord>, LockError> {
        self.check_records(key)?;
        let known = self.call(key, OperatorCall::record(self.name(key))).await?;
        Ok(known.map(|known| OnceRecord { known }))
    }

    /// [`once_record`](Self::once_record) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`once_record`](Self::once_record).
    pub fn once_record_blocking(&self, key: &str) -> Result<Option<OnceRecord>, LockError> {
        block_on(self.engine(), self.once_record(key))
    }

    /// Forgets what the server knows of the body of `key` that runs once: its next call runs it
    /// again. True when something was known.
    ///
    /// For an operator who has seen whether the effects of an interrupted body are done. A body that
    /// runs meanwhile goes on, and stores its result.
    ///
    /// # Errors
    ///
    /// As [`once_record`](Self::once_record).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://once-clear-example").await?;
    /// assert!(!locks.clear_once("charge:7").await?, "nothing was known");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn clear_once(&self, key: &str) -> Result<bool, LockError> {
        self.check_records(key)?;
        self.call(key, OperatorCall::clear_record(self.name(key))).await
    }

    /// [`clear_once`](Self::clear_once) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`once_record`](Self::once_record).
    pub fn clear_once_blocking(&self, key: &str) -> Result<bool, LockError> {
        block_on(self.engine(), self.clear_once(key))
    }

    fn check_records(&self, key: &str) -> Result<(), LockError> {
        key::validate(self.prefix(), key)?;
        let refused = self.engine().no_records();
        refused.map_or(Ok(()), |reason| Err(LockError::invalid(&key.into(), reason)))
    }
}
