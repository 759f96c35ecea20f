//! [`OnceRequest`]: a body that runs once for its key, and whose result everybody gets.
//!
//! The lock says who runs; a record beside it says what was done. The first caller takes the lock
//! and has the record begun in one step, runs the body, and stores its result in the step that
//! releases the lock. Whoever asks later, or has waited, gets the result in place of the lock.
//! [`ResultCodec`] says how a result is written, [`Json`] by default.

mod faithful;
mod spawned;

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::base::error::LockError;
use crate::base::outcome::ReleaseOutcome;
use crate::base::token::digest;
use crate::engine::protocol::{Once as Record, Run};
use crate::guard::{LockGuard, PendingRelease};
use crate::reentrancy;
use crate::request::LockRequest;
use crate::run::until_lost;

/// No larger result is stored, in bytes: each later caller reads it.
const LARGEST_RESULT: usize = 64 * 1024;

/// A request whose body runs once: later callers of the same key get its result.
///
/// [`LockRequest::once`] makes it. What it cannot promise is the first paragraph of [its
/// page](../../redlocked/docs/once/index.html).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://once-request-example").await?;
/// let charge = async |amount: u64| {
///     let request = locks.lock("charge:7").wait(Duration::from_secs(30));
///     let request = request.once(Duration::from_secs(86_400)).fingerprint(format!("{amount}"));
///     request.run(async |_guard| Ok::<_, LockError>(format!("receipt of {amount}"))).await
/// };
///
/// assert!(!charge(500).await?.is_replayed());
/// let again = charge(500).await?;
/// assert!(again.is_replayed());
/// assert_eq!(again.into_inner(), "receipt of 500");
/// assert!(matches!(charge(900).await, Err(LockError::KeyReused { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct OnceRequest<C = Json> {
    request: LockRequest,
    lasts: Duration,
    fingerprint: Option<String>,
    on_interrupted: OnInterrupted,
    on_undecodable: OnUndecodable,
    codec: C,
}

impl LockRequest {
    /// Runs the body once: its result is kept for `lasts`, 10 ms at least, and everybody who calls
    /// with the same key until then gets it. Only `Ok` is kept, up to 64 KiB.
    ///
    /// A caller that comes while the body runs [waits](Self::wait) for its result; without a `wait`,
    /// it gets [`LockError::Busy`]. See [`OnceRequest`].
    ///
    /// A request for several keys, with [`shared`](Self::shared), [`permits`](Self::permits),
    /// [`min_hold`](Self::min_hold) or [`reentrant`](Self::reentrant), over a quorum of servers, or
    /// on a manager with a [`cohort`](crate::LockManagerBuilder::cohort), fails with
    /// [`LockError::InvalidRequest`], and sends nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://once-example")?;
    /// let rates = || {
    ///     let request = locks.lock("rates:today").once(Duration::from_secs(600));
    ///     request.run_blocking(|_guard| Ok::<_, LockError>([1.08, 0.86]))
    /// };
    /// assert!(!rates()?.is_replayed());
    /// assert_eq!(rates()?.into_inner(), [1.08, 0.86]);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "once")))]
    pub fn once(self, lasts: Duration) -> OnceRequest {
        OnceRequest {
            request: self,
            lasts,
            fingerprint: None,
            on_interrupted: OnInterrupted::default(),
            on_undecodable: OnUndecodable::default(),
            codec: Json,
        }
    }
}

impl<C> OnceRequest<C> {
    /// The request that the key stands for, such as the amount to charge, or the whole body of a web
    /// request. A later caller of the same key with another one gets [`LockError::KeyReused`] in the
    /// place of a result that is not its own. Only a digest of it is kept.
    ///
    /// All callers of a key give the same kind of value, or none.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://once-by-example")?;
    /// # let charge = |amount: u64| {
    /// let request = locks.lock("charge:7").once(Duration::from_secs(86_400)).fingerprint(amount.to_string());
    /// # request.run_blocking(|_guard| Ok::<_, LockError>(amount)).map(|_| ()) };
    /// # charge(5)?;
    /// # assert!(matches!(charge(6), Err(LockError::KeyReused { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fingerprint(mut self, request: impl Into<String>) -> Self {
        self.fingerprint = Some(request.into());
        self
    }

    /// Sets what a body that was interrupted means for the next caller; [`OnInterrupted::Rerun`] by
    /// default.
    pub fn on_interrupted(mut self, on_interrupted: OnInterrupted) -> Self {
        self.on_interrupted = on_interrupted;
        self
    }

    /// Sets what a stored result means that cannot be decoded; [`OnUndecodable::Error`] by default.
    pub fn on_undecodable(mut self, on_undecodable: OnUndecodable) -> Self {
        self.on_undecodable = on_undecodable;
        self
    }

    /// Another form than JSON in which the result is stored. All callers of a key use the same one.
    pub fn codec<D>(self, codec: D) -> OnceRequest<D> {
        let Self { request, lasts, fingerprint, on_interrupted, on_undecodable, .. } = self;
        OnceRequest { request, lasts, fingerprint, on_interrupted, on_undecodable, codec }
    }

    /// Runs `body` under the lock and stores its result, or returns the stored one.
    ///
    /// An `Err` of the body is returned and not stored: the next caller runs it again. The lease is
    /// checked as in [`LockRequest::run`].
    ///
    /// # Errors
    ///
    /// As [`LockRequest::run`], and [`LockError::KeyReused`], [`LockError::Interrupted`],
    /// [`LockError::Undecodable`] before the body runs; [`LockError::NotStored`] behind it: then its
    /// effects are done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body, which counts as interrupted if it has begun, and releases
    /// the lock in the background. A web framework does so when its client hangs up:
    /// [`run_spawned`](Self::run_spawned) runs the body to its end.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::{LockError, LockManager};
    /// # let locks = LockManager::connect("memory://once-run-example").await?;
    /// let once = || locks.lock("welcome:7").once(Duration::from_secs(3600));
    /// let failed = once().run(async |_guard| Err::<u32, _>(LockError::NotConfigured)).await;
    /// assert!(failed.is_err(), "nothing is stored");
    /// assert_eq!(once().run(async |_guard| Ok::<_, LockError>(1)).await?.into_inner(), 1);
    /// assert_eq!(once().run(async |_guard| Ok::<_, LockError>(2)).await?.into_inner(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T, E>(self, body: impl AsyncFnOnce(&LockGuard) -> Result<T, E>) -> Result<Once<T>, E>
    where
        C: ResultCodec<T>,
        E: From<LockError>,
    {
        let guard = match self.begin().await? {
            Begun::Run(guard) => guard,
            Begun::Done(value) => return Ok(Once::Replayed(value)),
        };
        let output = until_lost(&guard, self.request.options.at_end.on_lost(), body(&guard)).await?;
        self.end(&guard, output).await?
    }

    /// [`run`](Self::run) for sync code: blocks this thread. A sync body cannot be stopped when the
    /// lock is lost; then its result is not stored.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// As [`LockRequest::acquire_blocking`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # use redlocked::LockError;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://once-blocking-example")?;
    /// let once = || locks.lock("charge:7").once(Duration::from_secs(86_400));
    /// assert!(!once().run_blocking(|_guard| Ok::<_, LockError>(5))?.is_replayed());
    /// assert!(once().run_blocking(|_guard| Ok::<_, LockError>(5))?.is_replayed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_blocking<T, E>(self, body: impl FnOnce(&LockGuard) -> Result<T, E>) -> Result<Once<T>, E>
    where
        C: ResultCodec<T>,
        E: From<LockError>,
    {
        self.run_held_blocking(body)?
    }

    /// The lock, or the result of a body that is done.
    async fn begin<T>(&self) -> Result<Begun<T>, LockError>
    where
        C: ResultCodec<T>,
    {
        let mut ignored = None;
        loop {
            let (request, record) = self.ask(ignored);
            let guard = request.acquire().await?;
            match self.look(guard, &record)? {
                Ok(begun) => return Ok(begun),
                Err(result) => ignored = Some(result),
            }
        }
    }

    /// Stores the result of the body, and releases the lock.
    async fn end<T, E>(
        &self,
        guard: &LockGuard,
        output: Result<T, E>,
    ) -> Result<Result<Once<T>, E>, LockError>
    where
        C: ResultCodec<T>,
    {
        let (ending, released, output) = self.ends(guard, output);
        let released = released.await;
        ending.check(guard.key(), released)?;
        Ok(output.map(Once::Ran))
    }

    /// Sends the result of the body. Nobody has to wait for the answer.
    fn ends<T, E>(&self, guard: &LockGuard, output: Result<T, E>) -> (Ending, PendingRelease, Result<T, E>)
    where
        C: ResultCodec<T>,
    {
        let (ending, output) = Ending::of(&self.codec, output);
        let released = guard.begin_finish(&ending.run());
        (ending, released, output)
    }

    /// As [`run_blocking`](Self::run_blocking), for an error of the body that need not be one of the
    /// lock.
    fn run_held_blocking<T, E>(
        &self,
        body: impl FnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<Result<Once<T>, E>, LockError>
    where
        C: ResultCodec<T>,
    {
        let mut ignored = None;
        let begun = loop {
            let (request, record) = self.ask(ignored);
            match self.look(request.acquire_blocking()?, &record)? {
                Ok(begun) => break begun,
                Err(result) => ignored = Some(result),
            }
        };
        let guard = match begun {
            Begun::Run(guard) => guard,
            Begun::Done(value) => return Ok(Ok(Once::Replayed(value))),
        };
        let output = {
            let _here = reentrancy::enter_here(guard.scope());
            let span = guard.body_span();
            let _entered = span.enter();
            body(&guard)
        };
        let (ending, output) = Ending::of(&self.codec, output);
        let released = guard.finish_blocking(&ending.run());
        ending.check(guard.key(), released)?;
        Ok(output.map(Once::Ran))
    }

    fn key(&self) -> Arc<str> {
        self.request.keys.first().unwrap_or_default().into()
    }

    /// The request for the lock, and where the engine leaves the result of a body that is done.
    fn ask(&self, ignored: Option<Arc<[u8]>>) -> (LockRequest, Arc<Record>) {
        let record = Arc::new(Record {
            fingerprint: self.fingerprint.as_deref().map_or_else(|| "-".into(), |text| digest(text).into()),
            lasts: self.lasts,
            reruns: self.on_interrupted == OnInterrupted::Rerun,
            ignores: ignored,
            result: OnceLock::new(),
        });
        let mut request = self.request.clone();
        request.options.rare().once = Some(Arc::clone(&record));
        (request, record)
    }

    /// What a guard means. The inner error is a result that cannot be decoded, and is to count as
    /// none.
    fn look<T>(&self, guard: LockGuard, record: &Record) -> Result<Result<Begun<T>, Arc<[u8]>>, LockError>
    where
        C: ResultCodec<T>,
    {
        if !guard.is_of_no_lock() {
            return Ok(Ok(Begun::Run(guard)));
        }
        let result = record.result.get().cloned().unwrap_or_default();
        match self.codec.decode(&result) {
            Ok(value) => Ok(Ok(Begun::Done(value))),
            Err(_) if self.on_undecodable == OnUndecodable::Rerun => Ok(Err(result)),
            Err(error) => Err(LockError::Undecodable { key: self.key(), reason: error.to_string().into() }),
        }
    }
}

/// The request of an annotated function.
pub fn once(request: LockRequest, lasts: Duration) -> OnceRequest {
    request.once(lasts)
}

/// The return type of an annotated function whose body runs once.
#[diagnostic::on_unimplemented(
    message = "the result of a body that runs once is the `Ok` of a `Result`",
    label = "`{Self}` is no `Result`",
    note = "return a `Result<_, E>`: what is `Ok` is stored, and a body that returns `Err` runs again"
)]
pub trait ReturnsResult {
    /// The value that is stored.
    type Value;
    /// Is not stored.
    type Error;

    /// This value.
    ///
    /// # Errors
    ///
    /// Its own.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
    /// The value to return.
    fn from_result(result: Result<Self::Value, Self::Error>) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E> ReturnsResult for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }

    fn from_result(result: Self) -> Self {
        result
    }
}

/// Runs the body of an annotated function, whose future exists already.
///
/// # Errors
///
/// As [`OnceRequest::run`]; those of the body are within.
pub async fn run_once<R, F>((once, body): (OnceRequest, F)) -> Result<R, LockError>
where
    R: ReturnsResult,
    Json: ResultCodec<R::Value>,
    F: Future<Output = R>,
{
    let guard = match once.begin().await? {
        Begun::Run(guard) => guard,
        Begun::Done(value) => return Ok(R::from_result(Ok(value))),
    };
    let output = until_lost(&guard, once.request.options.at_end.on_lost(), body).await?;
    let output = once.end(&guard, output.into_result()).await?;
    Ok(R::from_result(output.map(Once::into_inner)))
}

/// Runs a body that a function makes of the guard.
///
/// # Errors
///
/// As [`run_once`].
pub async fn run_once_with_guard<R, B, F>((once, body): (OnceRequest, B)) -> Result<R, LockError>
where
    R: ReturnsResult,
    Json: ResultCodec<R::Value>,
    B: FnOnce(Arc<LockGuard>) -> F,
    F: Future<Output = R>,
{
    let guard = match once.begin().await? {
        Begun::Run(guard) => Arc::new(guard),
        Begun::Done(value) => return Ok(R::from_result(Ok(value))),
    };
    let body = body(Arc::clone(&guard));
    let output = until_lost(&guard, once.request.options.at_end.on_lost(), body).await?;
    let output = once.end(&guard, output.into_result()).await?;
    Ok(R::from_result(output.map(Once::into_inner)))
}

/// Runs a sync body.
///
/// # Errors
///
/// As [`run_once`].
#[expect(clippy::needless_pass_by_value, reason = "as the others of the attribute")]
pub fn run_once_blocking<R>(once: OnceRequest, body: impl FnOnce(&LockGuard) -> R) -> Result<R, LockError>
where
    R: ReturnsResult,
    Json: ResultCodec<R::Value>,
{
    let output = once.run_held_blocking(|guard| body(guard).into_result())?;
    Ok(R::from_result(output.map(Once::into_inner)))
}

/// The next step of a caller.
enum Begun<T> {
    /// It runs the body, under this lock.
    Run(LockGuard),
    /// It has this result.
    Done(T),
}

/// The end of a body, for its record.
enum Ending {
    Failed,
    Done(Arc<[u8]>),
    /// Its result cannot be stored, for this reason.
    Unstorable {
        reason: Arc<str>,
        result: Option<Arc<[u8]>>,
    },
}

impl Ending {
    /// With the value that this caller and all later ones get: the one that is stored.
    fn of<T, E>(codec: &impl ResultCodec<T>, output: Result<T, E>) -> (Self, Result<T, E>) {
        let value = match output {
            Ok(value) => value,
            Err(error) => return (Self::Failed, Err(error)),
        };
        let result = match codec.encode(&value) {
            Ok(result) => result,
            Err(error) => {
                let reason = format!("it cannot be encoded: {error}");
                return (Self::Unstorable { reason: reason.into(), result: None }, Ok(value));
            }
        };
        let bytes = result.len();
        let (reason, value) = if bytes > LARGEST_RESULT {
            let reason = format!(
                "it has {bytes} bytes, and 64 KiB is the most: store it elsewhere, and let the body return where it is"
            );
            (reason, value)
        } else {
            match as_later_callers_get_it(codec, &result, value) {
                Ok(stored) => return (Self::Done(result.into()), Ok(stored)),
                Err(changed) => changed,
            }
        };
        (Self::Unstorable { reason: reason.into(), result: Some(result.into()) }, Ok(value))
    }

    fn run(&self) -> Run {
        match self {
            Self::Failed => Run::Undone,
            Self::Done(result) => Run::Done(Arc::clone(result)),
            Self::Unstorable { .. } => Run::Interrupted,
        }
    }

    /// An error when the result of the body was not stored.
    fn check(self, key: &str, released: Result<ReleaseOutcome, LockError>) -> Result<(), LockError> {
        let (reason, result): (Arc<str>, _) = match (self, released) {
            (Self::Failed, _)
            | (Self::Done(_), Ok(ReleaseOutcome::Released | ReleaseOutcome::Kept | ReleaseOutcome::Joined)) =>
            {
                return Ok(());
            }
            (Self::Unstorable { reason, result }, _) => (reason, result),
            (Self::Done(result), Ok(ReleaseOutcome::AlreadyLost)) => (LOST.into(), Some(result)),
            (
                Self::Done(result),
                Err(LockError::Unavailable { reason, .. } | LockError::Misconfigured { reason, .. }),
            ) => (reason, Some(result)),
            (Self::Done(result), Err(LockError::NotReplicated { wanted, reached, .. })) => {
                let reason = format!(
                    "{reached} of {wanted} replicas have confirmed it in time: later callers get it, unless a failover loses it before"
                );
                (reason.into(), Some(result))
            }
            (Self::Done(result), Err(error)) => (error.to_string().into(), Some(result)),
        };
        let result = result.map(|result| Arc::new(result.to_vec()));
        Err(LockError::NotStored { key: key.into(), reason, result })
    }
}

/// The value that is decoded from the stored bytes. As far as two values can be compared, it is
/// that of the body: else the reason why it is not, and that of the body.
fn as_later_callers_get_it<T>(
    codec: &impl ResultCodec<T>,
    result: &[u8],
    value: T,
) -> Result<T, (String, T)> {
    let stored = match codec.decode(result) {
        Ok(stored) => stored,
        Err(error) => {
            return Err((format!("later callers could not decode what was encoded: {error}"), value));
        }
    };
    if codec.is_same(&value, &stored) {
        return Ok(stored);
    }
    let reason =
        "it changes when it is decoded, so later callers would get another one than the body has returned";
    Err((reason.to_owned(), value))
}

const LOST: &str = "the lock was lost while the body ran, and another caller may run it";

/// The value of a body that runs once, and whether it has run for this caller.
///
/// # Examples
///
/// ```
/// use redlocked::once::Once;
///
/// let status = |receipt: &Once<u64>| if receipt.is_replayed() { 200 } else { 201 };
/// assert_eq!(status(&Once::Ran(7)), 201);
/// assert_eq!(Once::Replayed(7).into_inner(), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Once<T> {
    /// The body has run for this caller.
    Ran(T),
    /// It had run before, and this is its stored result.
    Replayed(T),
}

impl<T> Once<T> {
    /// The value, whoever has run the body.
    pub fn into_inner(self) -> T {
        match self {
            Self::Ran(value) | Self::Replayed(value) => value,
        }
    }

    /// True when the body has not run for this caller: a web handler answers with
    /// `Idempotent-Replayed: true` then.
    pub fn is_replayed(&self) -> bool {
        matches!(self, Self::Replayed(_))
    }
}

/// The choice of the next caller after a body was interrupted: its process died, its future was
/// dropped, or it lost the lock while it ran.
///
/// Its effects may be done or not: they and the record are in two stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnInterrupted {
    /// It runs the body again: for one that may run twice, because what it calls is idempotent.
    #[default]
    Rerun,
    /// It gets [`LockError::Interrupted`], as all later ones, until an operator has looked and
    /// [clears](crate::LockManager::clear_once) the record.
    Error,
}

/// The choice of a caller if a stored result cannot be decoded, because its type has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnUndecodable {
    /// It gets [`LockError::Undecodable`].
    #[default]
    Error,
    /// It runs the body again, and replaces the result.
    Rerun,
}

/// The codec for the results of bodies that run once.
///
/// The caller that has run the body gets its value as it is decoded, so that all callers get the
/// same. A result that cannot be decoded, or is [another one](Self::is_same) then, is not stored: the
/// caller gets [`LockError::NotStored`] at once.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// # use std::error::Error;
/// # use std::time::Duration;
/// use redlocked::once::ResultCodec;
/// use redlocked::{LockError, LockManager};
///
/// /// Text as it is.
/// struct Plain;
///
/// impl ResultCodec<String> for Plain {
///     fn encode(&self, value: &String) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
///         Ok(value.clone().into_bytes())
///     }
///
///     fn decode(&self, bytes: &[u8]) -> Result<String, Box<dyn Error + Send + Sync>> {
///         Ok(String::from_utf8(bytes.to_vec())?)
///     }
/// }
///
/// let locks = LockManager::connect("memory://codec-example").await?;
/// let greet = || {
///     let request = locks.lock("greeting").once(Duration::from_secs(60)).codec(Plain);
///     request.run(async |_guard| Ok::<_, LockError>("hello".to_owned()))
/// };
/// assert_eq!(greet().await?.into_inner(), "hello");
/// assert!(greet().await?.is_replayed());
/// # Ok(())
/// # }
/// ```
/// A type without `serde::Serialize` and `serde::Deserialize` is no result:
///
/// ```compile_fail
/// struct Receipt;
///
/// #[redlocked::distributed_lock(key = "charge:{order}", once = "24h")]
/// async fn charge(order: u64) -> Result<Receipt, redlocked::LockError> {
///     Ok(Receipt)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the result `{T}` of a body that runs once cannot be stored",
    label = "`{Self}` does not encode and decode `{T}`",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it, or call `once` by hand, with a `codec`"
)]
pub trait ResultCodec<T> {
    /// The value as bytes: 64 KiB at most.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being stored. It is part of [`LockError::NotStored`].
    fn encode(&self, value: &T) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

    /// The value that these bytes are.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with them. It is part of [`LockError::Undecodable`].
    fn decode(&self, bytes: &[u8]) -> Result<T, Box<dyn Error + Send + Sync>>;

    /// True if the decoded value, which all callers get, is the one that the body has returned. If
    /// not, the result is not stored, and the caller gets [`LockError::NotStored`].
    ///
    /// As provided, both are encoded and must have the same bytes, in any order: a hash map has no
    /// order. A codec that never writes a value twice in the same way, because it encrypts, is taken
    /// at its word.
    ///
    /// # Examples
    ///
    /// A codec for values that can be compared:
    ///
    /// ```
    /// # use std::error::Error;
    /// use redlocked::once::ResultCodec;
    ///
    /// /// Two digits behind the point: a price with a third one is not stored.
    /// struct Cents;
    ///
    /// impl ResultCodec<f64> for Cents {
    ///     fn encode(&self, price: &f64) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    ///         Ok(format!("{price:.2}").into_bytes())
    ///     }
    /// #   fn decode(&self, bytes: &[u8]) -> Result<f64, Box<dyn Error + Send + Sync>> {
    /// #       Ok(std::str::from_utf8(bytes)?.parse()?)
    /// #   }
    ///
    ///     // …
    ///     fn is_same(&self, returned: &f64, decoded: &f64) -> bool {
    ///         returned == decoded
    ///     }
    /// }
    /// # let decoded = Cents.decode(&Cents.encode(&1.085).unwrap()).unwrap();
    /// # assert!(!Cents.is_same(&1.085, &decoded) && Cents.is_same(&1.08, &1.08));
    /// ```
    fn is_same(&self, returned: &T, decoded: &T) -> bool {
        let [Ok(first), Ok(second), Ok(again)] =
            [self.encode(returned), self.encode(decoded), self.encode(returned)]
        else {
            return false;
        };
        faithful::has_same_bytes(&first, &second) || first != again
    }
}

/// Results in JSON, by `serde`.
///
/// JSON has one `null`. So `Some(None)`, `Some(())`, NaN and the infinities would be decoded as
/// another value, or not at all: the caller gets [`LockError::NotStored`] instead. What serde skips
/// is not stored, and no caller gets it. Numbers are the same to their last bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Json;

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> ResultCodec<T> for Json {
    fn encode(&self, value: &T) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, Box<dyn Error + Send + Sync>> {
        Ok(serde_json::from_slice(bytes)?)
    }

    fn is_same(&self, returned: &T, decoded: &T) -> bool {
        faithful::is_same(returned, decoded)
    }
}
