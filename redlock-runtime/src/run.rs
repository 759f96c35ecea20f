//! Bodies under a lock: async ones, whose lease is checked before each poll, and sync ones.

use std::borrow::Borrow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::acquire::Acquire;
use crate::error::LockError;
use crate::guard::{LockGuard, PendingRelease};
use crate::lease_end::LeaseEnd;
use crate::lost_reason::LostReason;
use crate::options::OnLost;
use crate::outcome::ReleaseOutcome;
use crate::reentrancy::{self, Scope};
use crate::request::LockRequest;
use crate::telemetry::BodySpan;

pin_project! {
    /// An async body that is polled only while its lease lasts.
    pub struct UntilLost<F> {
        #[pin]
        body: F,
        on_lost: OnLost,
        scope: Option<Scope>,
        span: BodySpan,
        // Polled while the body is pending: wakes the task when the lease ends.
        #[pin]
        lease_end: LeaseEnd,
    }
}

/// The output of `body`, or [`LockError::Lost`] when the lease ends first: then the caller drops the body at once.
fn until_lost<F: Future>(guard: &LockGuard, on_lost: OnLost, body: F) -> UntilLost<F> {
    let (scope, span) = (Some(guard.scope()), guard.body_span());
    UntilLost { body, on_lost, scope, span, lease_end: guard.lease_end() }
}

impl<F: Future> Future for UntilLost<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let is_cancelled = *this.on_lost == OnLost::Cancel;
        if is_cancelled && let Some(lease) = this.scope.as_ref().and_then(Scope::lost_lease) {
            return Poll::Ready(Err(lease.lost()));
        }
        let polled = {
            let _here = reentrancy::enter(this.scope);
            let _span = this.span.enter();
            this.body.poll(cx)
        };
        if polled.is_pending()
            && is_cancelled
            && let Poll::Ready(lease) = this.lease_end.poll(cx)
        {
            return Poll::Ready(Err(lease.lost()));
        }
        let output = ready!(polled);
        Poll::Ready(match this.scope.as_ref().and_then(Scope::lost_lease) {
            Some(lease) if *this.on_lost == OnLost::Error => Err(lease.lost()),
            _ => Ok(output),
        })
    }
}

/// The key that an error names when the release finds that the lock was lost before: `None` where
/// that is no error.
fn named_when_lost(guard: &LockGuard, on_lost: OnLost) -> Option<Arc<str>> {
    guard.first_key().filter(|_| on_lost == OnLost::Error)
}

/// The result of a body whose lock is released. Else the outcome of the release does not matter:
/// the engine retries it by itself.
fn after_release<R>(
    output: R,
    key: Option<Arc<str>>,
    released: &Result<ReleaseOutcome, LockError>,
) -> Result<R, LockError> {
    match (key, released) {
        (Some(key), Ok(ReleaseOutcome::AlreadyLost)) => {
            Err(LockError::Lost { key, reason: LostReason::KeyChanged })
        }
        _ => Ok(output),
    }
}

/// Makes the future of a body once the lock is held.
pub trait Body {
    /// The future.
    type Future: Future;

    /// The guard, which a body with `guard = …` shares.
    type Guard: From<LockGuard> + Borrow<LockGuard>;

    /// Called once, when the lock is held.
    fn start(self, guard: &Self::Guard) -> Self::Future;
}

/// A future that exists before the caller asks for the lock, and has not been polled.
#[derive(Debug)]
pub struct Ready<F>(F);

impl<F: Future> Body for Ready<F> {
    type Future = F;
    type Guard = LockGuard;

    fn start(self, _: &LockGuard) -> F {
        self.0
    }
}

impl<B: FnOnce(Arc<LockGuard>) -> F, F: Future> Body for B {
    type Future = F;
    type Guard = Arc<LockGuard>;

    fn start(self, guard: &Arc<LockGuard>) -> F {
        self(Arc::clone(guard))
    }
}

pin_project! {
    /// The future of an annotated function: acquires, runs the body, releases.
    ///
    /// Written by hand because an `async fn` that takes a future stores it twice. Each state replaces the one before it,
    /// so dropping a `Locked` drops the body first and then releases the lock.
    #[must_use = "futures do nothing unless polled"]
    pub struct Locked<B: Body> {
        #[pin]
        state: State<B, B::Guard, B::Future, <B::Future as Future>::Output>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = StepOwned]
    enum State<B, G, F, R> {
        Acquire { acquire: Acquire, on_lost: OnLost, body: Option<B> },
        // Fields are dropped in this order: the body before its guard.
        Run { #[pin] body: UntilLost<F>, guard: G },
        Release { outcome: PendingRelease, output: Option<R>, key: Option<Arc<str>> },
        Done,
    }
}

impl<B: Body> Locked<B> {
    fn new(request: LockRequest, body: B) -> Self {
        let on_lost = request.options.on_lost;
        Self { state: State::Acquire { acquire: request.acquire(), on_lost, body: Some(body) } }
    }
}

impl<B: Body> Future for Locked<B> {
    type Output = Result<<B::Future as Future>::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Acquire { acquire, on_lost, body } => {
                    match ready!(Pin::new(acquire).poll(cx)) {
                        Ok(guard) => {
                            // `None` only when polled after its end.
                            let Some(body) = body.take() else {
                                return Poll::Pending;
                            };
                            let guard = B::Guard::from(guard);
                            let body = until_lost(guard.borrow(), *on_lost, body.start(&guard));
                            State::Run { body, guard }
                        }
                        Err(error) => {
                            state.set(State::Done);
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                StateProjection::Run { mut body, guard } => match ready!(body.as_mut().poll(cx)) {
                    Ok(output) => State::Release {
                        key: named_when_lost(B::Guard::borrow(guard), body.on_lost),
                        outcome: B::Guard::borrow(guard).begin_release(),
                        output: Some(output),
                    },
                    Err(lost) => {
                        state.set(State::Done);
                        return Poll::Ready(Err(lost));
                    }
                },
                StateProjection::Release { outcome, output, key } => {
                    let released = ready!(Pin::new(outcome).poll(cx));
                    let Some(output) = output.take() else {
                        return Poll::Pending;
                    };
                    let key = key.take();
                    state.set(State::Done);
                    return Poll::Ready(after_release(output, key, &released));
                }
                StateProjection::Done => return Poll::Pending,
            };
            state.set(next);
        }
    }
}

/// Nothing in the body can see the guard.
pub(crate) fn unfenced(mut request: LockRequest) -> LockRequest {
    request.options.fenced = false;
    request
}

/// Runs `body`, a future that has not been polled, under the lock.
pub fn run<F: Future>(request: LockRequest, body: F) -> Locked<Ready<F>> {
    Locked::new(unfenced(request), Ready(body))
}

/// Runs the future that `body` makes of the guard under the lock.
pub fn run_with_guard<B, F>(request: LockRequest, body: B) -> Locked<B>
where
    B: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    Locked::new(request, body)
}

/// Runs a sync body that does not look at its guard under the lock.
///
/// # Errors
///
/// As [`LockRequest::run_blocking`].
pub fn run_blocking<R>(request: LockRequest, body: impl FnOnce(&LockGuard) -> R) -> Result<R, LockError> {
    unfenced(request).run_blocking(body)
}

/// Runs a sync body under the lock.
///
/// # Errors
///
/// As [`LockRequest::run_blocking`].
pub fn run_blocking_with_guard<R>(
    request: LockRequest,
    body: impl FnOnce(&LockGuard) -> R,
) -> Result<R, LockError> {
    request.run_blocking(body)
}

/// Calls the attribute's `on_error`. A function, so that a closure's parameter has a type.
pub fn on_error<R>(error: LockError, handler: impl FnOnce(LockError) -> R) -> R {
    handler(error)
}

impl LockRequest {
    /// Acquires the lock, runs `body`, and releases it.
    ///
    /// The lease is checked before each poll of the body. When it cannot be renewed in time, the body is dropped before the
    /// server may give the lock to another caller; [`on_lost`](Self::on_lost) can let it finish instead.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when the body was stopped, or, with
    /// [`OnLost::Error`](crate::OnLost::Error), when the lock was lost before its end. Else the
    /// result of a body that ran to its end is always returned: a release that fails is retried in
    /// the background until the ttl has passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body first, then releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://run-example").await?;
    /// let pages = locks.lock("report").run(async |guard| guard.key().len()).await?;
    /// assert_eq!(pages, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<R>(self, body: impl AsyncFnOnce(&LockGuard) -> R) -> Result<R, LockError> {
        let on_lost = self.options.on_lost;
        let guard = self.acquire().await?;
        let output = until_lost(&guard, on_lost, body(&guard)).await?;
        let key = named_when_lost(&guard, on_lost);
        after_release(output, key, &guard.release().await)
    }

    /// [`run`](Self::run) for sync code: blocks this thread.
    ///
    /// A sync body cannot be stopped when the lock is lost; a long one should check
    /// [`LockGuard::is_held`] between its steps. Its result is returned all the same, but with
    /// [`OnLost::Error`](crate::OnLost::Error).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] with
    /// [`OnLost::Error`](crate::OnLost::Error), when the lock was lost before the body's end.
    ///
    /// # Panics
    ///
    /// As [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://run-blocking-example")?;
    /// let left = locks.lock("stock:42").run_blocking(|_guard| 41)?;
    /// assert_eq!(left, 41);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_blocking<R>(self, body: impl FnOnce(&LockGuard) -> R) -> Result<R, LockError> {
        let on_lost = self.options.on_lost;
        let guard = self.acquire_blocking()?;
        let mut scope = Some(guard.scope());
        let here = reentrancy::enter(&mut scope);
        let span = guard.body_span();
        let output = span.within(|| body(&guard));
        drop(here);
        if let Some(lease) = guard.lost_lease().filter(|_| on_lost == OnLost::Error) {
            return Err(lease.lost());
        }
        let key = named_when_lost(&guard, on_lost);
        after_release(output, key, &guard.release_blocking())
    }
}
