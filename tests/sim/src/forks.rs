//! A forked child of a process that holds a lock: it has the memory of its parent, but no thread
//! that runs the loop.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redlock_runtime::{LockError, LockGuard, LockManager, LostReason};
use tokio::task::unconstrained;

use crate::world::World;

/// What a child can do with the lock of its parent, or without it, and should not be able to.
#[must_use]
pub fn powers_of_a_child(locks: &LockManager, guard: &LockGuard, key: &str) -> Vec<&'static str> {
    let at_once = |outcome| matches!(outcome, Some(Err(LockError::ManagerClosed { .. })));
    World::here().as_forked_child(|| {
        let extends = at_first_poll(guard.extend(Duration::from_secs(1)));
        let is_refused = [
            ("holds", !guard.is_held() && guard.remaining().is_zero()),
            ("is told that it holds", guard.lost_reason() == Some(LostReason::Forked)),
            ("waits for its loss", at_first_poll(guard.lost()) == Some(LostReason::Forked)),
            ("extends", matches!(extends, Some(Err(LockError::Lost { reason: LostReason::Forked, .. })))),
            (
                "acquires",
                at_once(at_first_poll(locks.lock(key).wait_forever().acquire()).map(|got| got.map(drop))),
            ),
            ("inspects", at_once(at_first_poll(locks.inspect(key)).map(|got| got.map(drop)))),
            ("releases by force", at_once(at_first_poll(locks.force_release(key)).map(|got| got.map(drop)))),
        ];
        is_refused.into_iter().filter(|(_, is_refused)| !is_refused).map(|(power, _)| power).collect()
    })
}

/// The output of a future that does not wait.
fn at_first_poll<F: Future>(future: F) -> Option<F::Output> {
    // The budget of the parent's task is not the child's.
    match pin!(unconstrained(future)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
