//! Bodies under a lock: async ones, whose lease is checked before each poll, and sync ones.

use std::convert::Infallible;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::acquire::Acquire;
use crate::base::error::LockError;
use crate::base::lease::{Lease, LeaseEnd};
use crate::base::outcome::LostReason;
use crate::base::outcome::ReleaseOutcome;
use crate::base::telemetry::{self, BodySpan};
use crate::guard::{LockGuard, PendingRelease};
use crate::options::{AtEnd, OnLost};
use crate::reentrancy::{self, Scope};
use crate::request::{CallRequest, LockRequest};

pin_project! {
    /// Looks after the lease of a body that is polled.
    struct Watch {
        on_lost: OnLost,
        // The body of this guard may give its lock away, and goes on. A nested one must not.
        may_give_away: bool,
        // Its caller does not wait for the release.
        in_background: bool,
        scope: Option<Scope>,
        span: BodySpan,
        // Polled while the body is pending: wakes the task when the lease ends.
        #[pin]
        lease_end: LeaseEnd,
    }
}

/// Left in this order.
struct Inside<'a> {
    _span: telemetry::Entered<'a>,
    _here: reentrancy::Entered<'a>,
}

impl Watch {
    fn new(guard: &LockGuard, at_end: AtEnd) -> Self {
        let (scope, span) = (Some(guard.scope()), guard.body_span());
        let may_give_away = guard.may_give_away();
        let (on_lost, in_background) = (at_end.on_lost(), guard.is_released_in_background(at_end));
        Self { on_lost, may_give_away, in_background, scope, span, lease_end: guard.lease_end() }
    }

    /// True if the body must not be polled any more: [`poll_end`](Self::poll_end) has the error.
    fn is_stopped(&self) -> bool {
        self.on_lost == OnLost::Cancel && self.lost_lease().is_some()
    }

    /// The first lease that has ended, if the body itself has not given its lock away.
    fn lost_lease(&self) -> Option<&Arc<Lease>> {
        let lease = self.scope.as_ref()?.lost_lease()?;
        (!self.may_give_away || !lease.is_handed_over()).then_some(lease)
    }

    /// An error if the body has run to its end, but not under the lock all the time, and its caller
    /// is to hear of it.
    fn check_end(&self) -> Result<(), LockError> {
        if self.on_lost != OnLost::Error {
            return Ok(());
        }
        self.lost_lease().map_or(Ok(()), |lease| Err(lease.lost()))
    }

    /// To be kept while the body is polled.
    fn enter(self: Pin<&mut Self>) -> Inside<'_> {
        let this = self.project();
        let here = reentrancy::enter(this.scope);
        Inside { _span: this.span.enter(), _here: here }
    }

    /// Ready with the error when a pending body is to be stopped. The clock is looked at before the
    /// next poll of the body, and by the engine, which wakes this task.
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockError> {
        let this = self.project();
        match *this.on_lost {
            OnLost::Cancel => match this.lease_end.poll_event(cx) {
                Poll::Ready(lease) if !*this.may_give_away || !lease.is_handed_over() => {
                    Poll::Ready(lease.lost())
                }
                _ => Poll::Pending,
            },
            OnLost::Finish | OnLost::Error => Poll::Pending,
        }
    }
}

pin_project! {
    /// An async body that is polled only while its lease lasts.
    pub(crate) struct UntilLost<F> {
        #[pin]
        body: F,
        #[pin]
        lease: Watch,
    }
}

/// The output of `body`, or [`LockError::Lost`] when the lease ends first: then the caller drops
/// the body at once.
pub(crate) fn until_lost<F: Future>(guard: &LockGuard, on_lost: OnLost, body: F) -> UntilLost<F> {
    UntilLost { body, lease: Watch::new(guard, AtEnd::default().with_on_lost(on_lost)) }
}

impl<F: Future> Future for UntilLost<F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if !this.lease.is_stopped() {
            let inside = this.lease.as_mut().enter();
            let polled = this.body.poll(cx);
            drop(inside);
            if let Poll::Ready(output) = polled {
                return Poll::Ready(this.lease.check_end().map(|()| output));
            }
        }
        this.lease.poll_end(cx).map(Err)
    }
}

/// Makes the future of a body once the lock is held.
pub trait Start<F> {
    /// False for a future that exists already: less to build for each function.
    const IS_LATER: bool;

    /// Called once, when the lock is held.
    fn start(self, guard: Arc<LockGuard>) -> F;
}

impl<B: FnOnce(Arc<LockGuard>) -> F, F: Future> Start<F> for B {
    const IS_LATER: bool = true;

    fn start(self, guard: Arc<LockGuard>) -> F {
        self(guard)
    }
}

/// For a future that exists before the caller asks for the lock.
#[derive(Debug)]
pub enum Started {}

impl<F> Start<F> for Started {
    const IS_LATER: bool = false;

    fn start(self, _: Arc<LockGuard>) -> F {
        match self {}
    }
}

pin_project! {
    /// The future of an annotated function: acquires, runs the body, releases. The output of the
    /// body is kept until the lock is released, so it has to be `Send` where this future has to be:
    /// rustc shows this name then.
    ///
    /// Written by hand because an `async fn` that takes a future stores it twice. What depends on
    /// the body's type is here; the rest is [`CallState`], one for all functions. What runs before and
    /// behind the body has functions of its own, so that it takes no room on the stack below the
    /// body.
    #[doc(hidden)]
    #[must_use = "futures do nothing unless polled"]
    #[project = OutputProjection]
    #[allow(private_interfaces, reason = "one type less between nested functions, whose depth rustc limits")]
    pub enum OutputIsKeptUntilReleased<B, F>
    where
        F: Future,
    {
        // Fields are dropped in this order: the body before its guard.
        Body {
            // rustc looks at the fields in order, to see whether this is `Send`. What is the same
            // in all functions comes first, or rustc would look for it in the innermost of nested
            // functions, and reach its `recursion_limit` there.
            first: PhantomData<CallState>,
            #[pin]
            body: BodyState<B, F>,
            #[pin]
            call: CallState,
        },
        // The output is `Pending` before it is kept, and once it is returned.
        Release { output: Poll<Result<F::Output, LockError>>, ending: Ending },
    }
}

pin_project! {
    #[project = BodyStateProjection]
    #[project_replace = BodyStateOwned]
    enum BodyState<B, F> {
        Start { start: B },
        Run { #[pin] future: F },
        Done,
    }
}

impl<B: Start<F>, F: Future> OutputIsKeptUntilReleased<B, F> {
    fn new(request: impl Into<CallRequest>, body: BodyState<B, F>) -> Self {
        Self::Body { first: PhantomData, body, call: CallState::New { request: Some(request.into()) } }
    }

    /// Releases the lock of a body that is done, and whose output is in `polled`.
    #[inline(never)]
    fn release(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        polled: &mut Poll<Result<F::Output, LockError>>,
    ) {
        if let OutputProjection::Body { call, .. } = self.as_mut().project()
            && let Some(ending) = call.release()
        {
            self.set(Self::Release { output: Poll::Pending, ending });
        }
        if let OutputProjection::Release { output, ending } = self.project() {
            poll_release(ending, cx, output, polled);
        }
    }
}

/// Keeps the output of a body in `kept` while its lock is released. A function of its own, because
/// it is the same for all bodies with an output of one type.
#[inline(never)]
fn poll_release<R>(
    ending: &mut Ending,
    cx: &mut Context<'_>,
    kept: &mut Poll<Result<R, LockError>>,
    polled: &mut Poll<Result<R, LockError>>,
) {
    let released = ending.poll(cx);
    // The first poll puts the output away if the release is pending, the last one takes it out.
    if released.is_pending() == polled.is_ready() {
        std::mem::swap(kept, polled);
    }
    if let Poll::Ready(Err(error)) = released {
        set_failed(polled, error);
    }
}

/// Drops the output, if there is one, and puts the error in its place.
#[inline(never)]
fn set_failed<R>(polled: &mut Poll<Result<R, LockError>>, error: LockError) {
    *polled = Poll::Ready(Err(error));
}

pin_project! {
    /// The future of an annotated function with `release_in_background`: its output is not kept, so
    /// it need not be `Send`.
    #[doc(hidden)]
    #[must_use = "futures do nothing unless polled"]
    #[project = ReleasedInBackgroundProjection]
    #[allow(private_interfaces, reason = "as above")]
    pub struct ReleasedInBackground<B, F> {
        first: PhantomData<CallState>,
        #[pin]
        body: BodyState<B, F>,
        #[pin]
        call: CallState,
    }
}

impl<B: Start<F>, F: Future> ReleasedInBackground<B, F> {
    fn new(request: impl Into<CallRequest>, body: BodyState<B, F>) -> Self {
        Self { first: PhantomData, body, call: CallState::New { request: Some(request.into()) } }
    }
}

impl<B: Start<F>, F: Future> Future for ReleasedInBackground<B, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut polled = Poll::Pending;
        let ReleasedInBackgroundProjection { body, mut call, .. } = self.project();
        if call.as_mut().poll(cx, &mut Parts { body, polled: &mut polled }) {
            // Its option has no default: there is nothing to wait for.
            drop(call.release());
        }
        polled
    }
}

impl<B: Start<F>, F: Future> Future for OutputIsKeptUntilReleased<B, F> {
    type Output = Result<F::Output, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut polled = Poll::Pending;
        let is_done = match self.as_mut().project() {
            OutputProjection::Body { body, call, .. } => {
                call.poll(cx, &mut Parts { body, polled: &mut polled })
            }
            OutputProjection::Release { .. } => true,
        };
        if is_done {
            self.release(cx, &mut polled);
        }
        polled
    }
}

/// The body of a call, for code that does not know its type.
trait Body {
    /// Makes the future, if it does not exist yet.
    fn start(&mut self, guard: &mut Held);

    /// True when the body is done.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool;

    /// Drops the body, and returns the error in the place of its output.
    fn fail(&mut self, error: LockError);
}

struct Parts<'a, B, F: Future> {
    body: Pin<&'a mut BodyState<B, F>>,
    polled: &'a mut Poll<Result<F::Output, LockError>>,
}

impl<B: Start<F>, F: Future> Body for Parts<'_, B, F> {
    fn start(&mut self, guard: &mut Held) {
        if B::IS_LATER
            && let BodyStateProjection::Start { .. } = self.body.as_mut().project()
            && let BodyStateOwned::Start { start } = self.body.as_mut().project_replace(BodyState::Done)
            && let Some(guard) = guard.share()
        {
            let future = start.start(guard);
            self.body.set(BodyState::Run { future });
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let BodyStateProjection::Run { future } = self.body.as_mut().project() else {
            return false;
        };
        *self.polled = future.poll(cx).map(Ok);
        let is_done = self.polled.is_ready();
        if is_done {
            // The body is dropped before its lock is released.
            self.body.as_mut().end();
        }
        is_done
    }

    fn fail(&mut self, error: LockError) {
        self.body.as_mut().end();
        set_failed(self.polled, error);
    }
}

impl<B, F> BodyState<B, F> {
    #[inline(never)]
    fn end(mut self: Pin<&mut Self>) {
        self.set(Self::Done);
    }
}

/// The release of a lock whose body is done.
struct Ending {
    /// `None` once it is known.
    outcome: Option<PendingRelease>,
    key: Option<Arc<str>>,
}

impl Ending {
    fn of(guard: &LockGuard, on_lost: OnLost) -> Self {
        Self { key: named_when_lost(guard, on_lost), outcome: Some(guard.begin_release()) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        let Some(outcome) = &mut self.outcome else { return Poll::Pending };
        let released = ready!(Pin::new(outcome).poll(cx));
        self.outcome = None;
        Poll::Ready(after_release(self.key.take(), &released))
    }
}

/// The key that an error names when the release finds that the lock was lost before: `None` where
/// that is no error.
fn named_when_lost(guard: &LockGuard, on_lost: OnLost) -> Option<Arc<str>> {
    guard.first_key().filter(|_| on_lost == OnLost::Error)
}

/// An error if the result of the body is not to be returned. Else the outcome of the release does
/// not matter: the engine retries it by itself.
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
    Taken,
}

impl Held {
    fn share(&mut self) -> Option<Arc<LockGuard>> {
        let shared = match std::mem::replace(self, Self::Taken) {
            Self::Alone(guard) => Arc::new(guard),
            Self::Shared(guard) => guard,
            Self::Taken => return None,
        };
        *self = Self::Shared(Arc::clone(&shared));
        Some(shared)
    }

    /// `None` when there is nothing to wait for.
    fn release(&self, on_lost: OnLost, in_background: bool) -> Option<Ending> {
        let guard = match self {
            Self::Alone(guard) => guard,
            Self::Shared(guard) => guard,
            Self::Taken => return None,
        };
        if in_background {
            guard.release_in_background();
            return None;
        }
        Some(Ending::of(guard, on_lost))
    }
}

pin_project! {
    /// The state of a call around a body of any type.
    #[project = CallStateProjection]
    enum CallState {
        New { request: Option<CallRequest> },
        Acquire { acquire: Acquire, at_end: AtEnd },
        Run { #[pin] lease: Watch, held: Held },
        Done,
    }
}

impl CallState {
    /// True when the body is done, and its lock is to be released.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>, body: &mut dyn Body) -> bool {
        if let Self::New { .. } | Self::Acquire { .. } = *self {
            self.as_mut().poll_lock(cx, body);
        }
        let CallStateProjection::Run { mut lease, .. } = self.as_mut().project() else {
            return false;
        };
        if !lease.is_stopped() {
            let inside = lease.as_mut().enter();
            let is_done = body.poll(cx);
            drop(inside);
            if is_done {
                return self.is_kept(body);
            }
        }
        self.poll_lease(cx, body);
        false
    }

    /// Makes the body once the lock is held.
    #[inline(never)]
    fn poll_lock(mut self: Pin<&mut Self>, cx: &mut Context<'_>, body: &mut dyn Body) {
        if let CallStateProjection::New { request } = self.as_mut().project()
            && let Some(request) = request.take()
        {
            let request = LockRequest::from(request);
            let at_end = request.options.at_end;
            self.set(Self::Acquire { acquire: request.acquire(), at_end });
        }
        let CallStateProjection::Acquire { acquire, at_end } = self.as_mut().project() else {
            return;
        };
        match Pin::new(acquire).poll(cx) {
            Poll::Ready(Ok(guard)) => {
                let lease = Watch::new(&guard, *at_end);
                let mut held = Held::Alone(guard);
                body.start(&mut held);
                self.set(Self::Run { lease, held });
            }
            Poll::Ready(Err(error)) => self.fail(body, error),
            Poll::Pending => {}
        }
    }

    /// Stops a pending body whose lock is lost.
    #[inline(never)]
    fn poll_lease(mut self: Pin<&mut Self>, cx: &mut Context<'_>, body: &mut dyn Body) {
        if let CallStateProjection::Run { lease, .. } = self.as_mut().project()
            && let Poll::Ready(error) = lease.poll_end(cx)
        {
            self.fail(body, error);
        }
    }

    /// True if the output of a body that is done is to be returned.
    #[inline(never)]
    fn is_kept(mut self: Pin<&mut Self>, body: &mut dyn Body) -> bool {
        if let CallStateProjection::Run { lease, .. } = self.as_mut().project()
            && let Err(error) = lease.check_end()
        {
            self.fail(body, error);
            return false;
        }
        true
    }

    /// The body is dropped before its guard.
    fn fail(mut self: Pin<&mut Self>, body: &mut dyn Body, error: LockError) {
        body.fail(error);
        self.set(Self::Done);
    }

    /// Sends the release.
    #[inline(never)]
    fn release(mut self: Pin<&mut Self>) -> Option<Ending> {
        let ending = match self.as_mut().project() {
            CallStateProjection::Run { lease, held } => held.release(lease.on_lost, lease.in_background),
            CallStateProjection::New { .. }
            | CallStateProjection::Acquire { .. }
            | CallStateProjection::Done => None,
        };
        self.set(Self::Done);
        ending
    }
}

/// Runs a future that has not been polled under the lock.
#[inline]
pub fn run<F: Future>((request, body): (impl Into<CallRequest>, F)) -> OutputIsKeptUntilReleased<Started, F> {
    OutputIsKeptUntilReleased::new(request, BodyState::Run { future: body })
}

/// Runs the future that a function makes of the guard under the lock.
#[inline]
pub fn run_with_guard<B, F>((request, body): (impl Into<CallRequest>, B)) -> OutputIsKeptUntilReleased<B, F>
where
    B: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    OutputIsKeptUntilReleased::new(request, BodyState::Start { start: body })
}

/// [`run`], and does not wait for the release.
#[inline]
pub fn run_in_background<F: Future>(
    (request, body): (impl Into<CallRequest>, F),
) -> ReleasedInBackground<Started, F> {
    ReleasedInBackground::new(request, BodyState::Run { future: body })
}

/// [`run_with_guard`], and does not wait for the release.
#[inline]
pub fn run_with_guard_in_background<B, F>(
    (request, body): (impl Into<CallRequest>, B),
) -> ReleasedInBackground<B, F>
where
    B: FnOnce(Arc<LockGuard>) -> F,
    F: Future,
{
    ReleasedInBackground::new(request, BodyState::Start { start: body })
}

/// Runs a sync body under the lock.
///
/// # Errors
///
/// As [`LockRequest::run_blocking`].
pub fn run_blocking<R>(
    request: impl Into<CallRequest>,
    body: impl FnOnce(&LockGuard) -> R,
) -> Result<R, LockError> {
    let mut place = None;
    match HeldHere::acquire(request, &mut place) {
        Ok(held) => {
            let output = {
                let _entered = held.span.enter();
                body(&held.guard)
            };
            HeldHere::ends_with(&mut place, output)
        }
        Err(error) => Err(*error),
    }
}

/// Calls the attribute's `make`, so that what it needs to make a request is not on the stack below
/// a body.
#[inline(never)]
pub fn call<R>(make: impl FnOnce() -> R) -> R {
    make()
}

/// In the place of an output that never is: it tells rustc the type of a body's output.
#[derive(Debug)]
pub struct NoOutput<R> {
    never: Infallible,
    output: PhantomData<R>,
}

impl<R> NoOutput<R> {
    /// Never called.
    #[must_use]
    pub fn output(self) -> R {
        match self.never {}
    }
}

/// Calls the attribute's `on_error`. A function, so that a closure's parameter has a type.
pub fn on_error<R>(error: LockError, handler: impl FnOnce(LockError) -> R) -> R {
    handler(error)
}

impl LockRequest {
    /// Acquires the lock, runs `body`, and releases it. Returns the result of the body. An error of the
    /// lock is converted into the error type of the body, as `?` converts it.
    ///
    /// The lease is checked before each poll of the body. When it cannot be renewed in time, the
    /// body is dropped before the server may give the lock to another caller;
    /// [`on_lost`](Self::on_lost) can let it finish instead.
    ///
    /// A body that returns an `Err` gives its [tick](Self::tick) back if
    /// [`tick_missed`](Self::tick_missed) is [`TickMissed::Retry`](crate::TickMissed::Retry).
    ///
    /// There are two other forms:
    ///
    /// - [`run_value`](Self::run_value) takes a body that returns no `Result`, or a `Result` whose
    ///   error is not made from a [`LockError`].
    /// - [`run_fn`](Self::run_fn) takes a function that makes a future: generic code can spawn it.
    ///
    /// # Errors
    ///
    /// The error of the body. The errors of [`acquire`](Self::acquire). [`LockError::Lost`] when the
    /// body was stopped, or, with [`OnLost::Error`](crate::OnLost::Error), when the lock was lost
    /// before its end. In all other cases this returns the result of a body that ran to its end: a
    /// release that fails is retried in the background until the TTL has passed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body first, then releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::{LockError, LockManager};
    ///
    /// #[derive(Debug)]
    /// enum ImportError {
    ///     Lock(LockError),
    ///     Number(std::num::ParseIntError),
    /// }
    ///
    /// impl From<LockError> for ImportError {
    ///     fn from(error: LockError) -> Self {
    ///         Self::Lock(error)
    ///     }
    /// }
    ///
    /// async fn import(locks: &LockManager, row: &str) -> Result<u32, ImportError> {
    ///     locks.lock("import").run(async |_guard| row.parse().map_err(ImportError::Number)).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), ImportError> {
    /// # let locks = LockManager::connect("memory://run-example").await?;
    /// assert_eq!(import(&locks, "7").await?, 7);
    /// assert!(matches!(import(&locks, "seven").await, Err(ImportError::Number(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T, E>(self, body: impl AsyncFnOnce(&LockGuard) -> Result<T, E>) -> Result<T, E>
    where
        E: From<LockError>,
    {
        let at_end = self.options.at_end;
        let guard = self.acquire().await?;
        let output = until_lost(&guard, at_end.on_lost(), body(&guard)).await?;
        if output.is_err() {
            guard.fail_tick();
        }
        release_after(guard, at_end).await?;
        output
    }

    /// [`run`](Self::run) for a body that returns a plain value. The error is that of the lock.
    ///
    /// The body may return any type. If that is a `Result`, this call does not look into it: it
    /// returns a `Result` of a `Result`, and a tick counts as run unless the body calls
    /// [`LockGuard::fail_tick`].
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire), and [`LockError::Lost`] as for [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://run-value-example").await?;
    /// let pages = locks.lock("report").run_value(async |guard| guard.key().len()).await?;
    /// assert_eq!(pages, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_value<R>(self, body: impl AsyncFnOnce(&LockGuard) -> R) -> Result<R, LockError> {
        let at_end = self.options.at_end;
        let guard = self.acquire().await?;
        let output = until_lost(&guard, at_end.on_lost(), body(&guard)).await?;
        release_after(guard, at_end).await?;
        Ok(output)
    }

    /// [`run`](Self::run) for a function that makes a future of the guard. If the function, its
    /// future and its result are `Send`, so is the future of this call.
    ///
    /// Generic code that spawns a body needs it. Stable Rust cannot write that the future of an
    /// `AsyncFnOnce(&LockGuard)` is `Send`, so it refuses to spawn [`run`](Self::run) with a body
    /// whose type is a parameter. It can write it of the future that an `FnOnce` returns.
    ///
    /// The lock is released when the future of the body completes, also while a clone of the guard
    /// still exists elsewhere.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run), unless a clone of the guard outlives the body: then the lock is
    /// released when the last clone is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use redlocked::{LockError, LockGuard, LockManager};
    /// use tokio::task::JoinHandle;
    ///
    /// fn spawn_locked<B, F, T>(locks: &LockManager, key: &str, body: B) -> JoinHandle<Result<T, LockError>>
    /// where
    ///     B: FnOnce(Arc<LockGuard>) -> F + Send + 'static,
    ///     F: Future<Output = Result<T, LockError>> + Send + 'static,
    ///     T: Send + 'static,
    /// {
    ///     tokio::spawn(locks.lock(key).run_fn(body))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = LockManager::connect("memory://run-fn-example").await?;
    /// let pages = spawn_locked(&locks, "report", async |guard| Ok(guard.key().len()));
    /// assert_eq!(pages.await??, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_fn<T, E, B, F>(self, body: B) -> impl Future<Output = Result<T, E>> + use<T, E, B, F>
    where
        E: From<LockError>,
        B: FnOnce(Arc<LockGuard>) -> F,
        F: Future<Output = Result<T, E>>,
    {
        let body = move |guard: Arc<LockGuard>| {
            let future = body(Arc::clone(&guard));
            async move {
                let output = future.await;
                if output.is_err() {
                    guard.fail_tick();
                }
                output
            }
        };
        async move { run_with_guard((self, body)).await? }
    }

    /// [`run`](Self::run) for sync code: blocks this thread.
    ///
    /// A sync body cannot be stopped when the lock is lost; a long one should check
    /// [`LockGuard::is_held`] between its steps. This returns its result all the same, unless
    /// [`on_lost`](Self::on_lost) is [`OnLost::Error`](crate::OnLost::Error).
    ///
    /// # Errors
    ///
    /// The error of the body. The errors of [`acquire`](Self::acquire). [`LockError::Lost`] with
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
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://run-blocking-example")?;
    /// let left = locks.lock("stock:42").run_blocking(|guard| {
    ///     guard.ensure_held()?;
    ///     Ok::<_, LockError>(41)
    /// })?;
    /// assert_eq!(left, 41);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_blocking<T, E>(self, body: impl FnOnce(&LockGuard) -> Result<T, E>) -> Result<T, E>
    where
        E: From<LockError>,
    {
        run_blocking(self, |guard| {
            let output = body(guard);
            if output.is_err() {
                guard.fail_tick();
            }
            output
        })?
    }

    /// [`run_value`](Self::run_value) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire), and [`LockError::Lost`] as for
    /// [`run_blocking`](Self::run_blocking).
    ///
    /// # Panics
    ///
    /// As [`acquire_blocking`](Self::acquire_blocking).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://run-value-blocking-example")?;
    /// let left = locks.lock("stock:42").run_value_blocking(|_guard| 41)?;
    /// assert_eq!(left, 41);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_value_blocking<R>(self, body: impl FnOnce(&LockGuard) -> R) -> Result<R, LockError> {
        run_blocking(self, body)
    }
}

/// Releases the lock of a body that ran to its end.
async fn release_after(guard: LockGuard, at_end: AtEnd) -> Result<(), LockError> {
    if guard.is_released_in_background(at_end) {
        guard.release_in_background();
        return Ok(());
    }
    let key = named_when_lost(&guard, at_end.on_lost());
    after_release(key, &guard.release().await)
}

/// A lock that a sync body holds, and what is entered while it runs: all that does not depend on
/// the body's type.
struct HeldHere {
    // Left in this order: the guard is the last.
    here: reentrancy::EnteredHere,
    span: BodySpan,
    at_end: AtEnd,
    guard: LockGuard,
}

impl HeldHere {
    // It stays in one place and the error is in a box, because each copy would be on the stack
    // below each body.
    #[inline(never)]
    fn acquire(request: impl Into<CallRequest>, place: &mut Option<Self>) -> Result<&Self, Box<LockError>> {
        let request = LockRequest::from(request.into());
        let at_end = request.options.at_end;
        let guard = request.acquire_blocking()?;
        let here = reentrancy::enter_here(guard.scope());
        Ok(place.insert(Self { here, span: guard.body_span(), at_end, guard }))
    }

    /// A function of its own, so that it takes no room on the stack below the body.
    fn ends_with<R>(place: &mut Option<Self>, output: R) -> Result<R, LockError> {
        place.take().map_or(Ok(()), Self::release).map(|()| output)
    }

    #[inline(never)]
    fn release(self) -> Result<(), LockError> {
        let on_lost = self.at_end.on_lost();
        drop(self.here);
        let lost =
            self.guard.lost_lease().filter(|lease| !self.guard.may_give_away() || !lease.is_handed_over());
        if let Some(lease) = lost.filter(|_| on_lost == OnLost::Error) {
            return Err(lease.lost());
        }
        if self.guard.is_released_in_background(self.at_end) {
            self.guard.release_in_background_blocking();
            return Ok(());
        }
        let key = named_when_lost(&self.guard, on_lost);
        after_release(key, &self.guard.release_blocking())
    }
}
