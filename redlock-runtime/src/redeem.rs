//! [`LockManager::redeem`], and a request that is awaited as it is.

use std::future::{Future, IntoFuture};

use crate::acquire::Acquire;
use crate::ground::one_or_many::OneOrMany;
use crate::manager::LockManager;
use crate::request::LockRequest;
use crate::ticket::Ticket;

impl LockManager {
    /// A request for the lock of a ticket: it takes the lock over from whoever gave it away, in one
    /// step on the server, with a fencing token that is larger than that holder's. Nothing is sent
    /// before it is awaited, acquired or run.
    ///
    /// The lock was taken all the time, so no waiter is in front: the request never waits for
    /// another holder. [`wait`](LockRequest::wait) is how long it goes on while Redis cannot be
    /// reached, and the [`io_timeout`](crate::LockManagerBuilder::io_timeout) at least. A reply that
    /// was lost is asked for again, and the ticket counts once. The other options count as for each
    /// request; those of the hold before do not.
    ///
    /// Dropping the future leaves the ticket unused, or releases the lock.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](LockRequest::acquire), but never `Busy` or `TimedOut`, and
    /// [`LockError::Lost`](crate::LockError::Lost): with [`LostReason::TicketOver`](crate::LostReason::TicketOver) when nobody
    /// has the lock: the ticket was redeemed before and the lock released since, or it was not
    /// redeemed in time, or the server has lost its data;
    /// [`LostReason::TicketUsed`](crate::LostReason::TicketUsed) when it was redeemed before, or not
    /// in time, and another caller has the lock. [`LockError::InvalidRequest`](crate::LockError::InvalidRequest) for the ticket of
    /// another prefix, and over a quorum.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager, LostReason};
    ///
    /// let locks = LockManager::connect("memory://redeem-example").await?;
    /// let guard = locks.lock("export:7").acquire().await?;
    /// let fence = guard.fencing_token();
    /// let ticket = guard.into_ticket(Duration::from_secs(60)).await?;
    ///
    /// let guard = locks.redeem(ticket.clone()).ttl(Duration::from_secs(10)).await?;
    /// assert!(guard.fencing_token() > fence);
    ///
    /// let again = locks.redeem(ticket).await.unwrap_err();
    /// assert!(matches!(again, LockError::Lost { reason: LostReason::TicketUsed, .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn redeem(&self, ticket: Ticket) -> LockRequest {
        let mut request = LockRequest::new(Some(self.clone()), OneOrMany::One(ticket.key().to_owned()));
        request.options.rare().ticket = Some(ticket);
        request
    }
}

/// As [`acquire`](LockRequest::acquire): `locks.lock("stock:42").await?`.
impl IntoFuture for LockRequest {
    type Output = <Acquire as Future>::Output;
    type IntoFuture = Acquire;

    fn into_future(self) -> Acquire {
        self.acquire()
    }
}
