//! The end of a guard's lease, or of the first one to end where it holds several locks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::futures::OwnedNotified;

use crate::clock::Clock;
use crate::lease::Lease;
use crate::one_or_many::{OneOrAll, OneOrMany};

/// Completes with the lease that has ended.
pub(crate) type LeaseEnd = OneOrAll<OneLeaseEnd>;

pin_project! {
    /// Each poll also looks at the clock: the engine may be late with the event.
    pub(crate) struct OneLeaseEnd {
        lease: Arc<Lease>,
        clock: Clock,
        // Of the first poll: a body that is done at once never waits for it.
        #[pin]
        event: Option<OwnedNotified>,
    }
}

impl OneLeaseEnd {
    fn of(clock: &Clock, lease: Arc<Lease>) -> Self {
        Self { lease, clock: clock.clone(), event: None }
    }
}

impl Future for OneLeaseEnd {
    type Output = Arc<Lease>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Arc<Lease>> {
        let mut this = self.project();
        if this.event.is_none() {
            this.event.set(Some(this.lease.end_event()));
        }
        let is_told = this.event.as_pin_mut().is_some_and(|event| event.poll(cx).is_ready());
        if is_told || this.lease.remaining(this.clock.now()).is_none() {
            return Poll::Ready(Arc::clone(this.lease));
        }
        Poll::Pending
    }
}

/// Completes when the first of `leases` ends.
pub(crate) fn first_end(clock: &Clock, leases: OneOrMany<Arc<Lease>>) -> LeaseEnd {
    match leases {
        OneOrMany::One(lease) => LeaseEnd::one(OneLeaseEnd::of(clock, lease)),
        OneOrMany::Many(leases) => {
            let mut ends: Vec<_> =
                leases.into_iter().map(|lease| Box::pin(OneLeaseEnd::of(clock, lease))).collect();
            LeaseEnd::all(poll_fn(move |cx| {
                let mut polled = ends.iter_mut().map(|end| end.as_mut().poll(cx));
                polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_lease_takes_no_more_room_than_alone() {
        assert_eq!(size_of::<LeaseEnd>(), size_of::<(Arc<Lease>, Clock, OwnedNotified)>());
    }
}
