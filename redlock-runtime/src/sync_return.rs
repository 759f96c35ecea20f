//! Refuses, at compile time, a function that is not `async` and returns a future.
//!
//! Such a future would run after its lock was released. `FromLockError` refuses it, unless
//! `on_error` replaces that trait; then the attribute expands to this check. The type may be `impl
//! Trait`, so the check is a method call on the value: method lookup finds `ReturnsFuture` where it
//! applies, else `ReturnsValue`, which needs one more reference. The method's name is one that no
//! trait of a user has, because lookup would find that too.

use std::future::Future;
use std::marker::PhantomData;

/// The type of a value, without the value.
pub struct SyncReturn<R>(PhantomData<R>);

impl<R> SyncReturn<R> {
    /// The type of `value`.
    #[must_use]
    pub fn of(_value: &R) -> Self {
        Self(PhantomData)
    }
}

/// A return value that is a future: [`__redlock_probe`](Self::__redlock_probe) does not compile.
pub trait ReturnsFuture: Sized {
    /// Never callable.
    fn __redlock_probe(self)
    where
        Self: RunsUnderItsLock;
}

impl<R: Future> ReturnsFuture for SyncReturn<R> {
    fn __redlock_probe(self)
    where
        Self: RunsUnderItsLock,
    {
    }
}

/// Every other return value.
pub trait ReturnsValue: Sized {
    /// Does nothing.
    fn __redlock_probe(self) {}
}

impl<R> ReturnsValue for &SyncReturn<R> {}

/// No type implements it.
#[diagnostic::on_unimplemented(
    message = "the lock would be released before this future runs",
    label = "this function is not `async`, but returns a future",
    note = "write `async fn`, and await the future in the body",
    note = "if the lock is for this call alone, and not for what the future does, return the future in a `Result`"
)]
pub trait RunsUnderItsLock {}

#[cfg(test)]
mod tests {
    #[allow(unused_imports, reason = "in scope, as in an expansion, and passed over")]
    use super::ReturnsFuture as _;
    use super::{ReturnsValue as _, SyncReturn};

    fn generic<T>(value: &T) {
        SyncReturn::of(value).__redlock_probe();
    }

    #[test]
    fn values_pass() {
        SyncReturn::of(&()).__redlock_probe();
        SyncReturn::of(&Some("text")).__redlock_probe();
        SyncReturn::of(&(|| 1)).__redlock_probe();
        generic(&std::future::ready(1));
    }
}
