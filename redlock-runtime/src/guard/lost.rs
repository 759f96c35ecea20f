//! [`Lost`]: a future that watches the lease of a guard.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::base::lease::LeaseEnd;
use crate::base::outcome::LostReason;

/// A future that completes with the reason when a lock is no longer held.
///
/// [`LockGuard::lost`](super::LockGuard::lost) returns it. It can be moved to another task or thread
/// while the owner keeps the guard. It does not keep the lock: when the guard is released or dropped,
/// it completes with [`LostReason::Released`].
///
/// # Cancel safety
///
/// It can be dropped at any time. It may be polled by one task after the other.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlocked::{LockManager, LostReason};
///
/// let locks = LockManager::connect("memory://lost-type-example").await?;
/// let guard = locks.lock("import").acquire().await?;
/// let watcher = tokio::spawn(guard.lost());
/// drop(guard);
/// assert_eq!(watcher.await?, LostReason::Released);
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    // In a box, so that `Lost` is `Unpin`. `None` in a process that was forked from the holder.
    end: Option<Pin<Box<LeaseEnd>>>,
}

impl Lost {
    pub(super) fn new(end: Option<LeaseEnd>) -> Self {
        Self { end: end.map(Box::pin) }
    }
}

impl Future for Lost {
    type Output = LostReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        let Some(end) = &mut self.end else {
            return Poll::Ready(LostReason::Forked);
        };
        end.as_mut().poll(cx).map(|lease| lease.lost_reason().unwrap_or(LostReason::Expired))
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").finish_non_exhaustive()
    }
}
