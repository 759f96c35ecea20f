//! A compile-time question for functions that are not `async`: is what they return a future?
//!
//! Such a future would run after its lock was released. `FromLockError` refuses it, unless `on_error` stands in for
//! that trait; then the attribute asks here. It cannot ask the type, which may be `impl Trait`, so it asks the value:
//! method lookup takes `ReturnsFuture` when it applies, and else `ReturnsValue`, one reference further away. The method has
//! a name that no trait of a user's has, as a lookup would find that too.

use std::future::Future;
use std::marker::PhantomData;

/// Stands for a value of type `R`, without holding it.
pub struct SyncReturn<R>(PhantomData<R>);

impl<R> SyncReturn<R> {
    /// The question about `value`.
    #[must_use]
    pub fn of(_value: &R) -> Self {
        Self(PhantomData)
    }
}

/// The answer for a future: [`__redlock_probe`](Self::__redlock_probe) does not compile.
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

/// The answer for everything else.
pub trait ReturnsValue: Sized {
    /// Does nothing.
    fn __redlock_probe(self) {}
}

impl<R> ReturnsValue for &SyncReturn<R> {}

/// Implemented by nothing.
#[diagnostic::on_unimplemented(
    message = "the lock would be released before this future runs",
    label = "this function is not `async`, but returns a future",
    note = "write `async fn`, or let `Box::pin(async move {{ ... }})` be the whole body"
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
