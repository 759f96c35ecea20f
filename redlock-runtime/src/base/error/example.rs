//! An error of each kind, for tests: ours, and those of users.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::{Holder, LockError, LockErrorKind};
use crate::base::outcome::LostReason;
use crate::base::owner::Owner;
use crate::base::store_error::StoreError;

/// The rest of the holder's lease.
pub(crate) const LEASE: Duration = Duration::from_millis(20_300);

/// For how long such locks are usually held.
pub(crate) const USUAL: Duration = Duration::from_millis(2_300);

#[cfg(feature = "testing")]
impl LockErrorKind {
    /// An error of this kind about `key`, for a test of a program that handles errors: its other
    /// fields have some value. An error that is about no key does not name it. Needs the feature
    /// `testing`.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::{LockError, LockErrorKind};
    ///
    /// fn status(error: &LockError) -> u16 {
    ///     if error.is_busy() { 409 } else { 500 }
    /// }
    ///
    /// assert_eq!(status(&LockErrorKind::Busy.example("stock:42")), 409);
    /// assert_eq!(status(&LockErrorKind::QueueFull.example("stock:42")), 500);
    /// ```
    #[must_use]
    pub fn example(self, key: &str) -> LockError {
        of_kind(self, key.into(), "example")
    }
}

/// An error of the kind with `text` as its reason, its holder and its result.
pub(crate) fn of_kind(kind: LockErrorKind, key: Arc<str>, text: &'static str) -> LockError {
    let holder = Box::new(Holder {
        owner: Some(Owner::read(text)),
        expires_in: Some(LEASE),
        usual_hold: Some(USUAL),
        ..Holder::default()
    });
    let reason = text;
    match kind {
        LockErrorKind::Busy => LockError::Busy { key, holder },
        LockErrorKind::TimedOut => {
            LockError::TimedOut { key, waited: Duration::ZERO, holder, in_front: Some(1) }
        }
        LockErrorKind::TickTaken => LockError::TickTaken { key, tick: UNIX_EPOCH, by: holder },
        LockErrorKind::Deadlock => LockError::Deadlock { key, advice: reason },
        LockErrorKind::QueueFull => LockError::QueueFull { key, waiters: 3 },
        LockErrorKind::Lost => LockError::Lost { key, reason: LostReason::Expired },
        LockErrorKind::Fenced => LockError::Fenced { key, fencing_token: 7 },
        LockErrorKind::Store => {
            LockError::Store { key, step: "the commit".into(), source: StoreError::new(fmt::Error) }
        }
        LockErrorKind::KeyReused => LockError::KeyReused { key },
        LockErrorKind::Interrupted => LockError::Interrupted { key, by: holder, since: UNIX_EPOCH },
        LockErrorKind::Undecodable => LockError::Undecodable { key, reason: reason.into() },
        LockErrorKind::NotStored => {
            LockError::NotStored { key, reason: reason.into(), result: Some(Arc::new(text.into())) }
        }
        LockErrorKind::NotReplicated => LockError::NotReplicated { key, wanted: 2, reached: 1 },
        LockErrorKind::Unavailable => LockError::unavailable(&key, reason),
        LockErrorKind::Misconfigured => LockError::misconfigured(&key, reason),
        LockErrorKind::ManagerClosed => LockError::closed(&key, reason),
        LockErrorKind::ShutdownIncomplete => LockError::ShutdownIncomplete { stopped: 1, unreleased: 1 },
        LockErrorKind::InvalidKey => LockError::InvalidKey { key, reason },
        LockErrorKind::InvalidRequest => LockError::InvalidRequest { key, reason: reason.into() },
        LockErrorKind::InvalidSetting => LockError::InvalidSetting { setting: reason, reason: reason.into() },
        LockErrorKind::InvalidUrl => LockError::InvalidUrl { url: key, reason: reason.into() },
        LockErrorKind::NotConfigured => LockError::NotConfigured,
        LockErrorKind::NotLocked => LockError::NotLocked,
    }
}
