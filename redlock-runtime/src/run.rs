//! Bodies under a lock: async ones, whose lease is checked before each poll, and sync ones.

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
    /// Looks after the lease of a body that is polled.
    struct Watch {
        on_lost: OnLost,
        scope: Option<Scope>,
        span: BodySpan,
        // Polled while the body is pending: wakes the task when the lease ends.
        #[pin]
        lease_end: LeaseEnd,
    }
}

impl Watch {
    fn new(guard: &LockGuard, on_lost: OnLost) -> Self {
        let (scope, span) = (Some(guard.scope()), guard.body_span());
        Self { on_lost, scope, span, lease_end: guard.lease_end() }
    }

    /// An error if the body must not be polled any more.
    fn check(&self) -> Result<(), LockError> {
        match self.scope.as_ref().and_then(Scope::lost_lease) {
            Some(lease) if self.on_lost == OnLost::Cancel => Err(lease.lost()),
            _ => Ok(()),
        }
    }

    /// An error if the body has run to its end, but not under the lock all the time, and its caller is to hear of it.
    fn check_end(&self) -> Result<(), LockError> {
        match self.scope.as_ref().and_then(Scope::lost_lease) {
            Some(lease) if self.on_lost == OnLost::Error => Err(lease.lost()),
            _ => Ok(()),
        }
    }

    /// Polls the body.
    fn within<R>(self: Pin<&mut Self>, body: impl FnOnce() -> R) -> R {
        let this = self.project();
        let _here = reentrancy::enter(this.scope);
        let _span = this.span.enter();
        body()
    }

    /// Ready with the error when a pending body is to be stopped.
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockError> {
        let this = self.project();
        match *this.on_lost {
            OnLost::Cancel => this.lease_end.poll(cx).map(|lease| lease.lost()),
            OnLost::Finish | OnLost::Error => Poll::Pending,
        }
    }
}

pin_project! {
    /// An async body that is polled only while its lease lasts.
    struct UntilLost<F> {
        #[pin]
        body: F,
        #[pin]
        lease: Watch,
    }
}

/// The output of `body`, or [`LockError::Lost`] when the lease ends first: then the caller drops the body at once.
fn until_lost<F: Future>(guard: &LockGuard, on_lost: OnLost, body: F) -> UntilLost<F> {
    UntilLost { body, lease: Watch::new(guard, on_lost) }
}

impl<F: Future> Future for UntilLost<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        this.lease.check()?;
        match this.lease.as_mut().within(|| this.body.poll(cx)) {
            Poll::Ready(output) => Poll::Ready(this.lease.check_end().map(|()| output)),
            Poll::Pending => this.lease.poll_end(cx).map(Err),
        }
    }
}

/// Makes the future of a body once the lock is held.
pub trait Start<F> {
    /// Called once, when the lock is held.
    fn start(self, guard: Arc<LockGuard>) -> F;
}

impl<B: FnOnce(Arc<LockGuard>) -> F, F: Future> Start<F> for B {
    fn start(self, guard: Arc<LockGuard>) -> F {
        self(guard)
    }
}

/// For a future that exists before the caller asks for the lock.
#[derive(Debug)]
pub enum Started {}

impl<F> Start<F> for Started {
    fn start(self, _: Arc<LockGuard>) -> F {
        match self {}
    }
}

pin_project! {
    /// The future of an annotated function: acquires, runs the body, releases. The output of the body is kept until the lock
    /// is released, so it has to be `Send` where this future has to be: rustc shows this name then.
    ///
    /// Written by hand because an `async fn` that takes a future stores it twice. What depends on the body's type is here; the
    /// rest is [`Call`], one for all functions.
    #[must_use = "futures do nothing unless polled"]
    pub struct OutputIsKeptUntilReleased<B, F: Future> {
        #[pin]
        state: State<B, F, F::Output>,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = StateOwned]
    enum State<B, F, R> {
        // Fields are dropped in this order: the body before its guard.
        Body { #[pin] body: Slot<B, F>, #[pin] call: Call },
        Release { output: R, ending: Ending },
        Done,
    }
}

pin_project! {
    #[project = SlotProjection]
    #[project_replace = SlotOwned]
    enum Slot<B, F> {
        Start { start: B },
        Run { #[pin] future: F },
        Done,
    }
}

impl<B: Start<F>, F: Future> OutputIsKeptUntilReleased<B, F> {
    fn new(request: LockRequest, body: Slot<B, F>) -> Self {
        Self { state: State::Body { body, call: Call::new(request) } }
    }
}

impl<B: Start<F>, F: Future> Future for OutputIsKeptUntilReleased<B, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let StateProjection::Body { body, call } = state.as_mut().project() {
            let mut body = Parts { slot: body, output: None };
            let polled = ready!(call.poll(cx, &mut body));
            let output = body.output;
            match (polled, output) {
                (Ok(ending), Some(output)) => state.set(State::Release { output, ending }),
                (polled, _) => {
                    state.set(State::Done);
                    return polled.map_or_else(|error| Poll::Ready(Err(error)), |_| Poll::Pending);
                }
            }
        }
        let ended = match state.as_mut().project() {
            StateProjection::Release { ending, .. } => ready!(ending.poll(cx)),
            _ => Ok(()),
        };
        match state.project_replace(State::Done) {
            StateOwned::Release { output, .. } => Poll::Ready(ended.map(|()| output)),
            // Polled after its end.
            _ => Poll::Pending,
        }
    }
}

/// The body of a call, for code that does not know its type.
trait Body {
    /// Makes the future, if it does not exist yet.
    fn start(&mut self, guard: &mut Held);

    /// True when the body is done.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool;
}

struct Parts<'a, B, F: Future> {
    slot: Pin<&'a mut Slot<B, F>>,
    output: Option<F::Output>,
}

impl<B: Start<F>, F: Future> Body for Parts<'_, B, F> {
    fn start(&mut self, guard: &mut Held) {
        if let SlotProjection::Start { .. } = self.slot.as_mut().project()
            && let SlotOwned::Start { start } = self.slot.as_mut().project_replace(Slot::Done)
            && let Some(guard) = guard.share()
        {
            let future = start.start(guard);
            self.slot.set(Slot::Run { future });
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let SlotProjection::Run { future } = self.slot.as_mut().project() else {
            return false;
        };
        let Poll::Ready(output) = future.poll(cx) else {
            return false;
        };
        // The body is dropped before its lock is released.
        self.slot.set(Slot::Done);
        self.output = Some(output);
        true
    }
}

/// The release of a lock whose body is done.
struct Ending {
    outcome: PendingRelease,
    key: Option<Arc<str>>,
}

impl Ending {
    fn of(guard: &LockGuard, on_lost: OnLost) -> Self {
        Self { key: named_when_lost(guard, on_lost), outcome: guard.begin_release() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        let released = ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(after_release(self.key.take(), &released))
    }
}

/// The key that an error names when the release finds that the lock was lost before: `None` where
/// that is no error.
fn named_when_lost(guard: &LockGuard, on_lost: OnLost) -> Option<Arc<str>> {
    guard.first_key().filter(|_| on_lost == OnLost::Error)
}

/// An error if the result of the body is not to be returned. Else the outcome of the release does not matter: the engine
/// retries it by itself.
fn after_release(
    key: Option<Arc<str>>,
    released: &Result<ReleaseOutcome, LockError>,
) -> Result<(), LockError> {
    match (key, released) {
        (Some(key), Ok(ReleaseOutcome::AlreadyLost)) => {
            Err(LockError::Lost { key, reason: LostReason::KeyChanged })
        }
        _ => Ok(()),
    }
}

/// A guard that the body may share.
enum Held {
    Alone(LockGuard),
    Shared(Arc<LockGuard>),
    Given,
}

impl Held {
    fn share(&mut self) -> Option<Arc<LockGuard>> {
        let shared = match std::mem::replace(self, Self::Given) {
            Self::Alone(guard) => Arc::new(guard),
            Self::Shared(guard) => guard,
            Self::Given => return None,
        };
        *self = Self::Shared(Arc::clone(&shared));
        Some(shared)
    }

    fn release(&self, on_lost: OnLost) -> Option<Ending> {
        match self {
            Self::Alone(guard) => Some(Ending::of(guard, on_lost)),
            Self::Shared(guard) => Some(Ending::of(guard, on_lost)),
            Self::Given => None,
        }
    }
}

pin_project! {
    /// What happens around a body, whatever its type.
    #[project = CallProjection]
    enum Call {
        Acquire { acquire: Acquire, on_lost: OnLost },
        Run { #[pin] lease: Watch, held: Held },
        Done,
    }
}

impl Call {
    fn new(request: LockRequest) -> Self {
        let on_lost = request.options.on_lost;
        Self::Acquire { acquire: request.acquire(), on_lost }
    }

    /// Ready when the body is done and the release is sent, or with the error in the place of the body's output.
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        body: &mut dyn Body,
    ) -> Poll<Result<Ending, LockError>> {
        ready!(self.as_mut().poll_lock(cx, body))?;
        ready!(self.as_mut().poll_body(cx, body))?;
        self.release().map_or(Poll::Pending, |ending| Poll::Ready(Ok(ending)))
    }

    /// Ready when the lock is held.
    fn poll_lock(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        body: &mut dyn Body,
    ) -> Poll<Result<(), LockError>> {
        let CallProjection::Acquire { acquire, on_lost } = self.as_mut().project() else {
            return Poll::Ready(Ok(()));
        };
        let guard = ready!(Pin::new(acquire).poll(cx))?;
        let lease = Watch::new(&guard, *on_lost);
        let mut held = Held::Alone(guard);
        body.start(&mut held);
        self.set(Self::Run { lease, held });
        Poll::Ready(Ok(()))
    }

    /// Ready when the body is done.
    fn poll_body(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        body: &mut dyn Body,
    ) -> Poll<Result<(), LockError>> {
        let CallProjection::Run { mut lease, .. } = self.project() else {
            return Poll::Pending;
        };
        lease.check()?;
        if lease.as_mut().within(|| body.poll(cx)) {
            return Poll::Ready(lease.check_end());
        }
        lease.poll_end(cx).map(Err)
    }

    fn release(mut self: Pin<&mut Self>) -> Option<Ending> {
        let ending = match self.as_mut().project() {
            CallProjection::Run { lease, held } => held.release(lease.on_lost),
            CallProjection::Acquire { .. } | CallProjection::Done => None,
        };
        self.set(Self::Done);
        ending
    }
}

/// Nothing in the body can see the guard.
pub(crate) fn unfenced(mut request: LockRequest) -> LockRequest {
    request.options.fenced = false;
    request
}

/// Runs `body`, a future that has not been polled, under the lock.
pub fn run<F: Future>(request: LockRequest, body: F) -> OutputIsKeptUntilReleased<Started, F> {
    OutputIsKeptUntilReleased::new(unfenced(request), Slot::Run { future: body })
}

/// Runs the future that `body` makes of the guard under the lock.
pub fn run_with_guard<B, F>(request: LockRequest, body: B) -> OutputIsKeptUntilReleased<B, F>
where
    B: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    OutputIsKeptUntilReleased::new(request, Slot::Start { start: body })
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

/// Calls the attribute's `make`, so that what it needs to make a request is not on the stack below a body.
pub fn call<R>(make: impl FnOnce() -> R) -> R {
    make()
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
        after_release(key, &guard.release().await)?;
        Ok(output)
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
        let held = HeldHere::acquire(self)?;
        let output = {
            let _entered = held.span.enter();
            body(&held.guard)
        };
        held.release(on_lost)?;
        Ok(output)
    }
}

/// A lock that a sync body holds, and what is entered while it runs: all that does not depend on the body's type.
struct HeldHere {
    // Left in this order: the guard is the last.
    here: reentrancy::EnteredHere,
    span: BodySpan,
    guard: LockGuard,
}

impl HeldHere {
    #[inline(never)]
    fn acquire(request: LockRequest) -> Result<Self, LockError> {
        let guard = request.acquire_blocking()?;
        Ok(Self { here: reentrancy::enter_here(guard.scope()), span: guard.body_span(), guard })
    }

    #[inline(never)]
    fn release(self, on_lost: OnLost) -> Result<(), LockError> {
        drop(self.here);
        if let Some(lease) = self.guard.lost_lease().filter(|_| on_lost == OnLost::Error) {
            return Err(lease.lost());
        }
        let key = named_when_lost(&self.guard, on_lost);
        after_release(key, &self.guard.release_blocking())
    }
}
