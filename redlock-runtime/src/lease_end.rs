//! The end of what a guard holds: of its lease, or of the first of several.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::clock::Moment;
use crate::lease::Lease;

pin_project! {
    /// Ready with the lease that is over. Each poll also looks at the clock, so the end need not have been noticed before.
    #[project = LeaseEndProjection]
    pub(crate) enum LeaseEnd {
        One { lease: Arc<Lease>, #[pin] event: WaitForCancellationFutureOwned },
        First { of: Box<[Pin<Box<LeaseEnd>>]> },
    }
}

impl LeaseEnd {
    pub(crate) fn of(lease: &Arc<Lease>) -> Self {
        Self::One { lease: Arc::clone(lease), event: lease.ended().clone().cancelled_owned() }
    }

    pub(crate) fn first_of<'a>(leases: impl Iterator<Item = &'a Arc<Lease>>) -> Self {
        Self::First { of: leases.map(|lease| Box::pin(Self::of(lease))).collect() }
    }
}

impl Future for LeaseEnd {
    type Output = Arc<Lease>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<Lease>> {
        match self.project() {
            LeaseEndProjection::One { lease, event } => {
                if lease.remaining(Moment::now()).is_none() || event.poll(cx).is_ready() {
                    return Poll::Ready(Arc::clone(lease));
                }
                Poll::Pending
            }
            LeaseEndProjection::First { of } => {
                let mut leases = of.iter_mut().map(|ended| ended.as_mut().poll(cx));
                leases.find(Poll::is_ready).unwrap_or(Poll::Pending)
            }
        }
    }
}
