//! A body in a task of its own: it runs to its end, also when its caller has gone.
//!
//! The caller asks for the lock itself, so one that leaves while it waits leaves the queue. As soon
//! as the lock is held and its record is begun, the body moves into its task, within the same poll:
//! no caller can be dropped in between.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::oneshot;

use super::{Begun, Json, Once, OnceRequest, ResultCodec, ReturnsResult};
use crate::base::error::LockError;
use crate::base::host::Runtime;
use crate::base::outcome::LostReason;
use crate::guard::LockGuard;
use crate::run::until_lost;

const NO_RUNTIME: &str = "its body runs in a task of its own, and there is no runtime of tokio here: call it within one, or \
                          let the caller run the body";

type Panic = Box<dyn Any + Send>;

pin_project! {
    /// A body whose panic goes to its caller.
    struct Caught<F> {
        #[pin]
        body: F,
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let body = self.project().body;
        // A body that has panicked is not polled again.
        match catch_unwind(AssertUnwindSafe(|| body.poll(cx))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

impl<C: Send + 'static> OnceRequest<C> {
    /// [`run`](Self::run) with the body in a task of its own, in the tokio runtime of the caller: a
    /// body that has begun runs to its end, and its result is stored, also when the caller goes
    /// away. So a client that hangs up and repeats its request gets the result of the first one.
    ///
    /// The body may outlive the caller, so it owns what it uses (`'static`), and it is `Send`: an
    /// `async move` block or closure. It is not inside of the locks and task-locals of its caller;
    /// its span is below that of the call.
    ///
    /// [`LockManager::shutdown`](crate::LockManager::shutdown) waits for it. A program whose runtime
    /// ends before the body has interrupted it. [`max_hold`](crate::LockRequest::max_hold) bounds how long
    /// a body may take that nobody waits for.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`LockError::InvalidRequest`] outside of a tokio runtime;
    /// [`LockError::Lost`] when that runtime ends before the body.
    ///
    /// # Panics
    ///
    /// When the body panics, with what it has panicked with.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future while it waits for the lock leaves the queue, and nothing has begun. From
    /// then on it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::{LockError, LockManager};
    /// use tokio::time::{sleep, timeout};
    ///
    /// let locks = LockManager::connect("memory://once-spawned-example").await?;
    /// let charge = || {
    ///     let request = locks.lock("charge:7").wait(Duration::from_secs(5)).once(Duration::from_secs(60));
    ///     request.run_spawned(async move |_guard| {
    ///         sleep(Duration::from_millis(50)).await;
    ///         Ok::<_, LockError>("charged".to_owned())
    ///     })
    /// };
    /// // The client gives up, and comes again.
    /// assert!(timeout(Duration::from_millis(10), charge()).await.is_err());
    /// let charged = charge().await?;
    /// assert!(charged.is_replayed());
    /// # assert_eq!(charged.into_inner(), "charged");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A body that borrows from its caller could not go on without it:
    ///
    /// ```compile_fail,E0597
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::{LockError, LockManager};
    /// # let locks = LockManager::connect("memory://").await?;
    /// let cents = 500;
    /// let request = locks.lock("charge:7").once(Duration::from_secs(60));
    /// request.run_spawned(async |_guard| Ok::<u64, LockError>(*&cents)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_spawned<T, E, F>(self, body: impl FnOnce(Arc<LockGuard>) -> F) -> Result<Once<T>, E>
    where
        C: ResultCodec<T>,
        T: Send + 'static,
        E: From<LockError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.spawned(body).await?
    }

    /// As [`run_spawned`](Self::run_spawned), for an error of the body that need not be one of the
    /// lock.
    async fn spawned<T, E, F>(
        self,
        body: impl FnOnce(Arc<LockGuard>) -> F,
    ) -> Result<Result<Once<T>, E>, LockError>
    where
        C: ResultCodec<T>,
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let key = self.key();
        let runtime = Runtime::current().ok_or_else(|| LockError::invalid(&key, NO_RUNTIME))?;
        let guard = match self.begin().await? {
            Begun::Run(guard) => Arc::new(guard),
            Begun::Done(value) => return Ok(Ok(Once::Replayed(value))),
        };
        let (caller, outcome) = oneshot::channel();
        let body = body(Arc::clone(&guard));
        runtime.spawn(async move {
            let ended = Caught { body: self.run_to_its_end(guard, body) }.await;
            // The caller may have gone.
            let _ = caller.send(ended);
        });
        match outcome.await {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(LockError::Lost { key, reason: LostReason::Released }),
        }
    }

    /// Runs the body that has begun, and stores its result.
    async fn run_to_its_end<T, E>(
        self,
        guard: Arc<LockGuard>,
        body: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<Once<T>, E>, LockError>
    where
        C: ResultCodec<T>,
    {
        let on_lost = self.request.options.at_end.on_lost();
        let output = until_lost(&guard, on_lost, body).await?;
        // The codec need not be `Sync`, so it is not borrowed while this waits.
        let (ending, released, output) = self.ends(&guard, output);
        let released = released.await;
        ending.check(guard.key(), released)?;
        Ok(output.map(Once::Ran))
    }
}

/// The attribute's expansion calls these. They are here because rustc names them where a body is not
/// `Send`.
#[doc(hidden)]
impl OnceRequest {
    /// Runs the body of an annotated function in a task of its own.
    ///
    /// # Errors
    ///
    /// As [`OnceRequest::run_spawned`]; those of the body are within.
    pub async fn spawn<R, F>((once, body): (Self, F)) -> Result<R, LockError>
    where
        F: Future<Output = R> + Send + 'static,
        R: ReturnsResult,
        R::Value: Send + 'static,
        R::Error: Send + 'static,
        Json: ResultCodec<R::Value>,
    {
        let output = once.spawned(|_guard| async move { body.await.into_result() }).await?;
        Ok(R::from_result(output.map(Once::into_inner)))
    }

    /// Spawns a body that a function makes of the guard.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    pub async fn spawn_with_guard<R, B, F>((once, body): (Self, B)) -> Result<R, LockError>
    where
        B: FnOnce(Arc<LockGuard>) -> F,
        F: Future<Output = R> + Send + 'static,
        R: ReturnsResult,
        R::Value: Send + 'static,
        R::Error: Send + 'static,
        Json: ResultCodec<R::Value>,
    {
        let body = |guard| {
            let body = body(guard);
            async move { body.await.into_result() }
        };
        let output = once.spawned(body).await?;
        Ok(R::from_result(output.map(Once::into_inner)))
    }
}
