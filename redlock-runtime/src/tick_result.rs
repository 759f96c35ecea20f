//! Bodies with `tick_missed = "retry"`: one whose value is an `Err` has not run its tick.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::guard::LockGuard;
use crate::reentrancy;

/// The value of a body.
pub struct TickOutcome<'a, R>(&'a R);

impl<'a, R> TickOutcome<'a, R> {
    /// Looks at `output`.
    #[must_use]
    pub fn of(output: &'a R) -> Self {
        Self(output)
    }
}

impl<T, E> TickOutcome<'_, Result<T, E>> {
    /// True for an `Err`.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.0.is_err()
    }
}

/// Each other value: method lookup comes here where the type is no `Result`.
pub trait IsNoResult {
    /// False: nothing is known to have failed.
    fn has_failed(&self) -> bool {
        false
    }
}

impl<R> IsNoResult for TickOutcome<'_, R> {}

pin_project! {
    /// A body that marks its tick as failed if it returns an `Err`, while its lock is still held.
    ///
    /// The check is a plain function, because a closure would be a type parameter: rustc cannot prove
    /// `FnOnce(&F::Output)` of a closure in a task that is spawned, where the output borrows or is a
    /// `Box<dyn …>`.
    #[must_use = "futures do nothing unless polled"]
    pub struct FailTickOnErr<F>
    where
        F: Future,
    {
        #[pin]
        body: F,
        has_failed: fn(&F::Output) -> bool,
    }
}

/// Returns a body that marks its tick as failed if it returns an `Err`: another process may run it.
pub fn fail_tick_on_err<F: Future>(body: F, has_failed: fn(&F::Output) -> bool) -> FailTickOnErr<F> {
    FailTickOnErr { body, has_failed }
}

impl<F: Future> Future for FailTickOnErr<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = ready!(this.body.poll(cx));
        if (this.has_failed)(&output)
            && let Some(scope) = reentrancy::innermost()
        {
            scope.holds.as_slice().iter().for_each(|hold| hold.lease.fails_tick());
        }
        Poll::Ready(output)
    }
}

/// Does the same as [`fail_tick_on_err`] for a sync body.
pub fn fail_tick_on_err_blocking<R>(
    body: impl FnOnce(&LockGuard) -> R,
    has_failed: impl FnOnce(&R) -> bool,
) -> impl FnOnce(&LockGuard) -> R {
    move |guard| {
        let output = body(guard);
        if has_failed(&output) {
            guard.fail_tick();
        }
        output
    }
}

#[cfg(test)]
mod tests {
    #[allow(unused_imports, reason = "in scope, as in an expansion, and passed over")]
    use super::{IsNoResult as _, TickOutcome};

    type Alias = std::io::Result<u32>;

    fn generic<T, E>(result: &Result<T, E>) -> bool {
        TickOutcome::of(result).has_failed()
    }

    #[test]
    fn an_err_has_failed_and_no_other_value() {
        let alias: Alias = Err(std::io::ErrorKind::Other.into());
        assert!(TickOutcome::of(&alias).has_failed() && generic(&alias));
        assert!(!TickOutcome::of(&Ok::<u32, ()>(1)).has_failed());
        assert!(!TickOutcome::of(&None::<u32>).has_failed());
        assert!(!TickOutcome::of(&()).has_failed());
    }
}
