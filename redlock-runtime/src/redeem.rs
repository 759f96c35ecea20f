//! [`LockManager::redeem`], [`LockManager::cancel_ticket`], and a request that is awaited as it is.

use std::future::{Future, IntoFuture};
use std::sync::Arc;

use crate::acquire::Acquire;
use crate::base::error::LockError;
use crate::base::key;

use crate::block_on::block_on;
use crate::engine::operator_calls::OperatorCall;
use crate::engine::protocol::Releases;
use crate::lock_key::Keys;
use crate::manager::LockManager;
use crate::request::LockRequest;
use crate::ticket::Ticket;

/// The reason in the error of a ticket that no quorum has given.
const NO_TICKETS: &str = "a quorum of independent servers gives no tickets, so it has none to take back: call this on a manager of the \
                          server that has given the ticket";

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
    /// [`LockError::Lost`]: with [`LostReason::TicketOver`](crate::LostReason::TicketOver) when nobody
    /// has the lock: the ticket was redeemed before and the lock released since, or it was not
    /// redeemed in time, or the server has lost its data;
    /// [`LostReason::TicketUsed`](crate::LostReason::TicketUsed) when it was redeemed before, or not
    /// in time, and another caller has the lock. [`LockError::InvalidRequest`] for the ticket of
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
        let mut request = LockRequest::new(Some(self.clone()), Keys::One(ticket.key().to_owned()));
        request.options.rare().ticket = Some(ticket);
        request
    }

    /// Takes a ticket back: releases its lock, which the next waiter gets at once. For a ticket that
    /// nobody will redeem, because its message could not be sent or its job was cancelled. Without
    /// this call, the lock stays taken for as long as the ticket lasts. One command.
    ///
    /// True when the lock was released. False when the ticket was redeemed before or is over: then
    /// this call changes nothing, and whoever has the lock keeps it. The ticket is good for nothing
    /// afterwards: a job that was sent nevertheless finds it `Lost`.
    ///
    /// To go on with the work here instead, [redeem](Self::redeem) the ticket.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidRequest`] for the ticket of another prefix, and over a quorum;
    /// [`LockError::Unavailable`] when the server cannot be reached or does not answer in time: then
    /// the lock may have been released, or may be later, and the call may be repeated.
    /// [`LockError::Misconfigured`] when the server refuses; [`LockError::ManagerClosed`] after
    /// [`shutdown`](Self::shutdown).
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
    /// use std::time::Duration;
    /// use redlocked::{LockManager, Ticket};
    ///
    /// async fn send(_ticket: &Ticket) -> Result<(), &'static str> {
    ///     Err("the broker is down")
    /// }
    ///
    /// let locks = LockManager::connect("memory://cancel-ticket-example").await?;
    /// let guard = locks.lock("export:7").acquire().await?;
    /// let ticket = guard.into_ticket(Duration::from_secs(3600)).await?;
    /// if send(&ticket).await.is_err() {
    ///     assert!(locks.cancel_ticket(ticket).await?);
    /// }
    /// assert!(locks.lock("export:7").acquire().await.is_ok(), "it is free at once");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn cancel_ticket(&self, ticket: Ticket) -> Result<bool, LockError> {
        let key = ticket.key();
        ticket.check(self.prefix())?;
        if self.engine().multi_key().is_by_votes() {
            return Err(LockError::invalid(&Arc::from(key), NO_TICKETS));
        }
        key::validate(self.prefix(), key)?;
        let (name, token) = (self.name(key), ticket.token().clone());
        self.call(key, OperatorCall::release(name, token, self.io_timeout(), Releases::Usual)).await
    }

    /// [`cancel_ticket`](Self::cancel_ticket) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`cancel_ticket`](Self::cancel_ticket).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://cancel-ticket-blocking-example")?;
    /// let guard = locks.lock("export:7").acquire_blocking()?;
    /// let ticket = guard.into_ticket_blocking(Duration::from_secs(3600))?;
    /// assert!(locks.cancel_ticket_blocking(ticket)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_ticket_blocking(&self, ticket: Ticket) -> Result<bool, LockError> {
        block_on(self.engine(), self.cancel_ticket(ticket))
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
