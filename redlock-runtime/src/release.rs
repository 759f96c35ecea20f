//! The outcome of a release that is under way: of one lock, or of several together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::engine::handle::ENGINE_GONE;
use crate::error::LockError;
use crate::outcome::ReleaseOutcome;

/// The release has been sent; this is only for the outcome.
pub(crate) enum PendingRelease {
    One(OneRelease),
    Several(Box<AllOf>),
}

impl PendingRelease {
    pub(crate) fn several(pending: Vec<OneRelease>) -> Self {
        Self::Several(Box::new(AllOf { pending, outcome: Ok(ReleaseOutcome::Released) }))
    }
}

/// What the engine will say about one lock.
pub(crate) struct OneRelease {
    pub(crate) key: Arc<str>,
    pub(crate) outcome: oneshot::Receiver<Result<ReleaseOutcome, LockError>>,
}

impl OneRelease {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<ReleaseOutcome, LockError>> {
        Pin::new(&mut self.outcome)
            .poll(cx)
            .map(|outcome| outcome.unwrap_or_else(|_| Err(LockError::closed(&self.key, ENGINE_GONE))))
    }
}

pub(crate) struct AllOf {
    pending: Vec<OneRelease>,
    outcome: Result<ReleaseOutcome, LockError>,
}

impl AllOf {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<ReleaseOutcome, LockError>> {
        let outcome = &mut self.outcome;
        self.pending.retain_mut(|answer| match answer.poll(cx) {
            Poll::Ready(one) => {
                if rank(&one) > rank(outcome) {
                    *outcome = one;
                }
                false
            }
            Poll::Pending => true,
        });
        if self.pending.is_empty() { Poll::Ready(self.outcome.clone()) } else { Poll::Pending }
    }
}

/// The caller gets the worst of several outcomes: a lock that was lost, then a release without an answer.
fn rank(outcome: &Result<ReleaseOutcome, LockError>) -> u8 {
    match outcome {
        Ok(ReleaseOutcome::Released) => 0,
        Err(_) => 1,
        Ok(ReleaseOutcome::AlreadyLost) => 2,
    }
}

impl Future for PendingRelease {
    type Output = Result<ReleaseOutcome, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::One(answer) => answer.poll(cx),
            Self::Several(answers) => answers.poll(cx),
        }
    }
}
