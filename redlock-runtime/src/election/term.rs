//! [`Term`]: what the body of a leader knows of its term.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

use crate::base::error::LockError;
use crate::base::fence::Fence;
use crate::guard::LockGuard;
use crate::reentrancy::{self, Scope};

/// A task that gives a sign of life does so again after this time at most: the timer of a term that
/// is over stays until then.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The time in which a process leads: from the lock to its end. The body gets it, and may clone it
/// for tasks that it spawns; they learn from it when they must stop.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redlocked::election::Term;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://term-example").await?;
/// let mut after = None;
/// locks
///     .election("billing-loop")
///     .lead(async |term: Term| {
///         after = Some(term.clone());
///         Ok::<_, LockError>(())
///     })
///     .await?;
/// assert!(after.is_some_and(|term| !term.is_leading()), "its term is over");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Term(Arc<TermState>);

struct TermState {
    number: u64,
    /// The lock, which its guard releases.
    scope: Scope,
    /// True once the body has ended, or has resigned.
    over: watch::Sender<bool>,
    /// True once the manager shuts down.
    closing: watch::Receiver<bool>,
    /// How often its body is to give a sign of life.
    beats_every: Duration,
    /// Its body is a sync one.
    is_blocking: bool,
}

impl Term {
    /// `max_blocked`: for how long the body may give no sign of life.
    pub(super) fn new(
        guard: &LockGuard,
        closing: watch::Receiver<bool>,
        max_blocked: Duration,
        is_blocking: bool,
    ) -> Self {
        let scope = guard.scope();
        for hold in scope.holds.as_slice() {
            hold.lease.set_led(scope.engine.now(), max_blocked);
        }
        Self(Arc::new(TermState {
            number: guard.fencing_token(),
            scope,
            over: watch::Sender::new(false),
            closing,
            beats_every: (max_blocked / 4).min(LONGEST_PAUSE),
            is_blocking,
        }))
    }

    /// The fencing token of the leader's lock, which is the number of the term. It is larger than that
    /// of each earlier leader under this key, as far as
    /// [fencing tokens go](../../redlocked/docs/options/index.html#how-far-fencing-tokens-go). A
    /// resource that remembers the largest token refuses what an earlier leader still sends.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://term-number-example")?;
    /// let election = locks.election("billing-loop");
    /// let first = election.lead_blocking(|term| Ok::<_, LockError>(term.fencing_token()))?;
    /// let second = election.lead_blocking(|term| Ok::<_, LockError>(term.fencing_token()))?;
    /// assert!(second > first);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.is_asked();
        self.0.number
    }

    /// Fails when this process leads no longer, as [`is_leading`](Self::is_leading) says: for a write
    /// that must not be sent then. It is a sign of life, too.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lease has ended; [`LockError::NotLocked`] after the term, and when
    /// it has resigned.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://term-assert-example")?;
    /// locks.election("billing-loop").lead_blocking(|term| {
    ///     term.ensure_leading()?; // and then the write
    ///     Ok::<_, LockError>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ensure_leading(&self) -> Result<(), LockError> {
        self.is_asked();
        if self.is_over() { Err(LockError::NotLocked) } else { self.guard().ensure_held() }
    }

    /// The [fence](Fence) of the leader's lock, for a resource that refuses the writes of earlier
    /// leaders. Its number is that of the term.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::builder("memory://term-fences-example").prefix("shop:").connect_blocking()?;
    /// locks.election("billing-loop").lead_blocking(|term| {
    ///     let fences: Vec<_> = term.fences().collect();
    ///     assert_eq!((fences[0].name(), fences[0].fencing_token()), ("shop:billing-loop", term.fencing_token()));
    ///     Ok::<_, LockError>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fences(&self) -> impl Iterator<Item = Fence> {
        self.guard().fences().collect::<Vec<_>>().into_iter()
    }

    /// Returns what the body joins: it releases nothing.
    fn guard(&self) -> LockGuard {
        LockGuard::joined(self.0.scope.clone())
    }

    /// Steps down: the body is stopped before its next poll, the lock goes to the next candidate,
    /// and this candidate joins the end of the queue. A sync body sees it by
    /// [`is_leading`](Self::is_leading), and steps down when it returns. After the term, this does
    /// nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect("memory://resign-example").await?;
    /// let mut terms = Vec::new();
    /// locks
    ///     .election("billing-loop")
    ///     .lead(async |term| {
    ///         terms.push(term.fencing_token());
    ///         if terms.len() == 1 {
    ///             term.resign();
    ///             std::future::pending::<()>().await; // stopped here
    ///         }
    ///         Ok::<_, LockError>(())
    ///     })
    ///     .await?;
    /// assert!(terms.len() == 2 && terms.is_sorted());
    /// # Ok(())
    /// # }
    /// ```
    pub fn resign(&self) {
        self.end();
    }

    /// True while this process leads: its lease lasts on its own clock, and it has not resigned and
    /// is not shutting down. The lease ends before another process may lead. The call is a sign of
    /// life of the body: see [`max_blocked`](crate::Election::max_blocked).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://is-leading-example")?;
    /// locks.election("billing-loop").lead_blocking(|term| {
    ///     for _invoice in 0..3 {
    ///         if !term.is_leading() {
    ///             break; // a sync body cannot be stopped from outside
    ///         }
    ///     }
    ///     Ok::<_, LockError>(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.is_asked();
        self.lasts()
    }

    /// [`is_leading`](Self::is_leading), which is no sign of life of the body.
    pub(super) fn lasts(&self) -> bool {
        !self.is_over() && self.0.scope.time_left().is_some()
    }

    /// Returns how long the term lasts if no renewal succeeds from now on; zero when it is over.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://term-remaining-example")?;
    /// let election = locks.election("billing-loop").ttl(Duration::from_secs(10));
    /// let left = election.lead_blocking(|term| Ok::<_, LockError>(term.remaining()))?;
    /// assert!(left > Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.is_asked();
        if self.is_over() { Duration::ZERO } else { self.0.scope.time_left().unwrap_or_default() }
    }

    /// Completes when this process leads no longer: for a task that the body has spawned, which is
    /// not stopped with the body.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect("memory://term-ended-example").await?;
    /// let mut spawned = None;
    /// locks
    ///     .election("billing-loop")
    ///     .lead(async |term| {
    ///         spawned = Some(tokio::spawn(async move { term.ended().await }));
    ///         Ok::<_, LockError>(())
    ///     })
    ///     .await?;
    /// if let Some(task) = spawned {
    ///     task.await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ended(&self) {
        if self.lasts() {
            let (over, lost) = (pin!(self.is_to_end()), pin!(self.0.scope.lease_end()));
            let beats = async {
                // An async body is polled itself, and a task that it has spawned says nothing of it.
                if self.0.is_blocking {
                    self.beats().await;
                }
                std::future::pending::<()>().await;
            };
            first(pin!(first(over, lost)), pin!(beats)).await;
        }
    }

    /// A sign of life, if its body asks. A sync body may have threads that ask for it. For an async
    /// one, other tasks and threads may go on when it is blocked.
    fn is_asked(&self) {
        let TermState { scope, is_blocking, .. } = &*self.0;
        if *is_blocking || reentrancy::runs_here(scope) {
            scope.beat();
        }
    }

    /// A sign of life of the task that polls this, for as long as it does: wakes that task each
    /// time the next one is due. Completes where no engine runs any more.
    pub(super) async fn beats(&self) {
        let TermState { scope, beats_every, .. } = &*self.0;
        loop {
            let begins = scope.engine.now();
            scope.beat();
            scope.engine.sleep(*beats_every).await;
            if scope.engine.now().since(begins) < *beats_every {
                return;
            }
        }
    }

    /// The body ends, or is to end.
    pub(super) fn end(&self) {
        self.0.over.send_replace(true);
    }

    pub(super) fn is_over(&self) -> bool {
        *self.0.over.borrow() || *self.0.closing.borrow()
    }

    /// Completes once the body is to end.
    pub(super) async fn is_to_end(&self) {
        let (mut over, mut closing) = (self.0.over.subscribe(), self.0.closing.clone());
        // A manager that has gone does not shut down.
        let closing = async {
            if closing.wait_for(|closing| *closing).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        first(pin!(over.wait_for(|over| *over)), pin!(closing)).await;
    }
}

/// Completes when the first of both does.
pub(super) async fn first<A: Future, B: Future>(mut a: Pin<&mut A>, mut b: Pin<&mut B>) {
    poll_fn(|cx| {
        let is_ready = a.as_mut().poll(cx).is_ready() || b.as_mut().poll(cx).is_ready();
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("number", &self.0.number)
            .field("is_leading", &self.lasts())
            .finish_non_exhaustive()
    }
}
