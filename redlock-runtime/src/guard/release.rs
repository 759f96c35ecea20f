//! The end of a guard: a release with an outcome, or a drop.
//!
//! A release sends its command before it returns a future, so a future that is dropped has released
//! all the same. A release that nobody waits for is written on the thread of its caller, because the
//! process may end next: of a call in the background, and of a guard that is dropped inside a
//! runtime. A drop outside waits for the answer, but not longer than `io_timeout`. Each lock of a
//! guard is released once, and a joined one by the outer guard alone.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::{Grant, LockGuard};
use crate::base::clock::{Clock, Moment};
use crate::base::error::LockError;
use crate::base::host::Runtime;
use crate::base::one_or_many::{OneOrAll, OneOrMany};
use crate::base::outcome::ReleaseOutcome;
use crate::block_on::{block_on, block_on_until};
use crate::engine::command::{Command, Released, Response};
use crate::engine::handle::ENGINE_GONE;
#[cfg(feature = "once")]
use crate::engine::protocol::Run;
use crate::options::{AtEnd, OnLost};

impl LockGuard {
    /// Releases the lock, and returns whether it was still held. If another caller holds the lock
    /// by now, that caller keeps it. With [`min_hold`](crate::LockRequest::min_hold) the key stays
    /// locked until that time has passed, and the outcome is [`ReleaseOutcome::Kept`]. The guard of
    /// a `reentrant` call leaves the release to the outer guard: [`ReleaseOutcome::Joined`].
    /// Several locks are released together. The outcome is [`ReleaseOutcome::AlreadyLost`] if one
    /// of them was lost, otherwise `Kept` if one of them is kept.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if Redis does not answer in time, or cannot release now (it loads
    /// its data, cannot save them, has too few replicas), or if fewer than a majority of a quorum
    /// has released the lock, so that other callers may find it held. The reason has the answer of
    /// each server. The manager retries the release in the background until the TTL has passed.
    /// [`LockError::Misconfigured`] when Redis refused.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo the release.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::ReleaseOutcome;
    /// # let locks = redlocked::LockManager::connect("memory://release-example").await?;
    /// let guard = locks.lock("stock:42").acquire().await?;
    /// assert_eq!(guard.release().await?, ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, LockError> {
        self.begin_release().await
    }

    /// [`release`](Self::release) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::ReleaseOutcome;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://release-blocking-example")?;
    /// let guard = locks.lock("stock:42").acquire_blocking()?;
    /// assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_blocking(self) -> Result<ReleaseOutcome, LockError> {
        block_on(&self.engine, async { self.begin_release().await })
    }

    /// Sends the release at once; the future only waits for the outcome.
    pub(crate) fn begin_release(&self) -> PendingRelease {
        self.ends_well();
        all_released(self.grants.map(|grant| self.release_one(grant)))
    }

    /// The hold ends, and its tick was run.
    fn ends_well(&self) {
        self.hold.ends();
        for grant in self.grants.as_slice().iter().filter(|grant| !grant.is_joined) {
            grant.lease().ends_tick();
        }
    }

    /// Sends the release, for a caller that does not wait for its outcome. It is written before this
    /// returns, because the process may end next.
    pub(crate) fn release_in_background(&self) {
        self.send_in_background();
        self.engine.flush();
    }

    fn send_in_background(&self) {
        self.ends_well();
        for grant in self.grants.as_slice() {
            if !grant.is_released.swap(true, Ordering::Relaxed) {
                self.engine.send(Command::Release { id: grant.hold.id, response: None });
            }
        }
    }

    /// [`release_in_background`](Self::release_in_background) for sync code: outside of a runtime this
    /// thread polls the loop, where it can, so that no other thread has to wake up for it.
    pub(crate) fn release_in_background_blocking(&self) {
        if Runtime::current().is_some() {
            self.release_in_background();
            return;
        }
        let mut is_sent = false;
        let sent = poll_fn(|cx| {
            if is_sent {
                return Poll::Ready(());
            }
            self.send_in_background();
            is_sent = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        block_on(&self.engine, sent);
        self.engine.flush();
    }

    /// True when a call of this guard's lock does not wait for its release.
    pub(crate) fn is_released_in_background(&self, at_end: AtEnd) -> bool {
        let in_background = at_end.in_background();
        at_end.on_lost() != OnLost::Error
            && in_background.unwrap_or_else(|| self.engine.releases_in_background())
    }

    /// Sends the release of a body that runs once, and what has become of it.
    #[cfg(feature = "once")]
    pub(crate) fn begin_finish(&self, run: &Run) -> PendingRelease {
        self.hold.ends();
        all_released(self.grants.map(|grant| {
            let (caller, outcome) = oneshot::channel();
            grant.is_released.store(true, Ordering::Relaxed);
            let response = Response::to(caller);
            self.engine.send(Command::Finish { id: grant.hold.id, run: run.clone(), response });
            OneRelease { key: Arc::clone(grant.lease().key()), outcome }
        }))
    }

    /// Finishes in sync code.
    #[cfg(feature = "once")]
    pub(crate) fn finish_blocking(&self, run: &Run) -> Result<ReleaseOutcome, LockError> {
        block_on(&self.engine, async { self.begin_finish(run).await })
    }

    /// Sends a release for each lock without one. Returns them if the caller waits for them.
    fn release_unreleased(&mut self, waits: bool) -> Vec<OneRelease> {
        let mut sent = Vec::new();
        for grant in self.grants.as_mut_slice() {
            if *grant.is_released.get_mut() {
                continue;
            }
            let response = waits.then(|| {
                let (caller, outcome) = oneshot::channel();
                sent.push(OneRelease { key: Arc::clone(grant.lease().key()), outcome });
                Response::to_dropped(caller)
            });
            self.engine.send(Command::Release { id: grant.hold.id, response });
        }
        sent
    }

    fn release_one(&self, grant: &Grant) -> OneRelease {
        let (caller, outcome) = oneshot::channel();
        if grant.is_joined {
            let is_held = grant.lease().check(self.engine.now()).is_some();
            let found = if is_held { ReleaseOutcome::Joined } else { ReleaseOutcome::AlreadyLost };
            let _ = caller.send(Ok(found).into());
        } else if grant.lease().is_handed_over() {
            let _ = caller.send(Ok(ReleaseOutcome::Released).into());
        } else {
            grant.is_released.store(true, Ordering::Relaxed);
            self.engine.send(Command::Release { id: grant.hold.id, response: Some(Response::to(caller)) });
        }
        OneRelease { key: Arc::clone(grant.lease().key()), outcome }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.hold.ends();
        if self.grants.as_mut_slice().iter_mut().all(|grant| *grant.is_released.get_mut()) {
            return;
        }
        if Runtime::current().is_some() {
            self.release_unreleased(false);
            self.engine.flush();
            return;
        }
        // The process may end next, and the release with it.
        let engine = Arc::clone(&self.engine);
        let limit = (&Clock::System, Moment::now().after(engine.io_timeout()));
        let released = async { all_released(self.release_unreleased(true).into()).await };
        let _ = block_on_until(&engine, Some(limit), released);
    }
}

/// The outcome of a release that has been sent. Dropping it does not undo the release.
pub(crate) type PendingRelease = OneOrAll<OneRelease>;

/// The release of one lock.
pub(crate) struct OneRelease {
    key: Arc<str>,
    outcome: oneshot::Receiver<Released>,
}

impl Future for OneRelease {
    type Output = Result<ReleaseOutcome, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome).poll(cx).map(|released| match released {
            Ok(released) => released.outcome.map_err(|error| *error),
            Err(_) => Err(LockError::closed(&self.key, ENGINE_GONE)),
        })
    }
}

/// The worst of the outcomes, when all are known.
fn all_released(releases: OneOrMany<OneRelease>) -> PendingRelease {
    match releases {
        OneOrMany::One(release) => PendingRelease::one(release),
        OneOrMany::Many(releases) => PendingRelease::all(async {
            let mut worst = Ok(ReleaseOutcome::Released);
            for release in *releases {
                let outcome = release.await;
                if badness(&outcome) > badness(&worst) {
                    worst = outcome;
                }
            }
            worst
        }),
    }
}

/// A lock that was lost is worse than an outcome that is unknown, and that is worse than one that is still
/// taken.
fn badness(outcome: &Result<ReleaseOutcome, LockError>) -> u8 {
    match outcome {
        Ok(ReleaseOutcome::Released) => 0,
        Ok(ReleaseOutcome::Joined) => 1,
        Ok(ReleaseOutcome::Kept) => 2,
        Err(_) => 3,
        Ok(ReleaseOutcome::AlreadyLost) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_one_lock_takes_no_more_room_than_alone() {
        assert_eq!(size_of::<PendingRelease>(), size_of::<OneRelease>());
    }
}
