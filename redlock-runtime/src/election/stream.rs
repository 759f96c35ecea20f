//! [`LeaderStream`]: the changes of a leader as a [`Stream`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::leader::{Leader, Observer};
use crate::base::error::LockError;

type Change = Pin<Box<dyn Future<Output = (Observer, Result<(), LockError>)> + Send>>;

/// The changes of a leader as a [`Stream`], from [`Observer::into_stream`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct LeaderStream {
    /// `None` at the end.
    change: Option<Change>,
}

impl Observer {
    /// The changes as a [`Stream`] from `futures_core`: who leads now, then each new leader, and
    /// `None` each time when nobody leads. Needs the feature `stream`.
    ///
    /// An error is an item, too, and the stream goes on: it looks again when there is a connection
    /// again, or after a second. It ends after [`LockError::ManagerClosed`]. Dropping the stream
    /// stops observing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use futures_util::StreamExt;
    ///
    /// let locks = redlocked::LockManager::connect("memory://observer-stream-example").await?;
    /// let mut leaders = locks.election("billing-loop").observe().into_stream();
    /// assert_eq!(leaders.next().await, Some(Ok(None)), "nobody leads");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> LeaderStream {
        LeaderStream { change: Some(next(self)) }
    }
}

fn next(mut observer: Observer) -> Change {
    Box::pin(async move {
        let change = observer.changed().await;
        (observer, change)
    })
}

impl Stream for LeaderStream {
    type Item = Result<Option<Leader>, LockError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(change) = &mut self.change else {
            return Poll::Ready(None);
        };
        let (observer, change) = ready!(change.as_mut().poll(cx));
        let item = change.map(|()| observer.leader().cloned());
        let is_over = matches!(item, Err(LockError::ManagerClosed { .. }));
        self.change = (!is_over).then(|| next(observer));
        Poll::Ready(Some(item))
    }
}

impl fmt::Debug for LeaderStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderStream").field("is_over", &self.change.is_none()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::StreamExt;

    use crate::{LockError, LockManager};

    #[tokio::test(flavor = "current_thread")]
    async fn it_shows_each_change_and_ends_with_its_manager() -> Result<(), LockError> {
        let locks = LockManager::connect("memory://leader-stream").await?;
        let mut leaders = pin!(locks.election("k").observe().into_stream());
        assert_eq!(leaders.next().await, Some(Ok(None)));
        let term = locks.election("k").lead(async |term| {
            let leader = leaders.next().await;
            let leader = leader.and_then(Result::ok).flatten();
            assert_eq!(leader.and_then(|leader| leader.fencing_token()), Some(term.fencing_token()));
            Ok::<_, LockError>(())
        });
        assert_eq!(term.await, Ok(()));
        assert_eq!(leaders.next().await, Some(Ok(None)));
        locks.shutdown(Duration::from_secs(5)).await?;
        assert!(matches!(leaders.next().await, Some(Err(LockError::ManagerClosed { .. }))));
        assert_eq!(leaders.next().await, None);
        Ok(())
    }
}
