//! Supertraits that only this crate can name, so that the public traits can get new methods.

use redlocked::election::Term;
use redlocked::{CurrentLock, HandOver, LockGuard};

use crate::transaction::Dialect;

/// The types that are a [`FencedGuard`](crate::FencedGuard). Another crate cannot add one:
///
/// ```compile_fail,E0277
/// use redlocked::LockError;
/// use redlocked_sqlx::{FenceTable, FencedGuard, FencedTransaction};
///
/// struct Mine;
///
/// impl FencedGuard for Mine {
///     async fn fence_in_table<T: FencedTransaction>(&self, _tx: &mut T, _: &FenceTable) -> Result<(), LockError> {
///         Ok(())
///     }
///     async fn commit<T: FencedTransaction>(&self, _tx: T) -> Result<(), LockError> {
///         Ok(())
///     }
/// }
/// ```
#[expect(unnameable_types, reason = "no other crate may implement it")]
pub trait Guard {}

impl Guard for LockGuard {}
impl Guard for HandOver<'_> {}
impl Guard for CurrentLock {}
impl Guard for Term {}

/// The databases that are a [`FencedDatabase`](crate::FencedDatabase).
#[expect(unnameable_types, reason = "no other crate may implement it")]
pub trait Database {
    /// How it makes the table.
    const DIALECT: Dialect;
}
