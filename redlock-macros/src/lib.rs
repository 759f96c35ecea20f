//! The attribute of [`redlocked`](https://docs.rs/redlocked). Depend on that crate, which re-exports it.
//!
//! This crate knows syntax, and nothing else: it reads the attribute and the function below it, and writes one call into
//! the runtime.

mod args;
mod boxed;
mod checks;
mod duration;
mod errors;
mod expand;
mod item;
mod key;
mod output;
mod scope;
mod template;
mod value;

#[cfg(test)]
mod snapshots;

use proc_macro::TokenStream;

/// Makes a function run on one machine of the fleet at a time.
///
/// ```rust,ignore
/// #[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "5s")]
/// async fn purchase(sku: &str, quantity: u32) -> Result<Receipt, ShopError> {
///     // At most one caller in the whole fleet is here for a given `sku`.
/// }
/// ```
///
/// A call renders the key from the arguments, takes the lock, runs the body, and gives the lock back: on return, `?`, a
/// panic, and when the future is dropped. A lock that is not acquired, or not kept, is an error that the function returns.
///
/// # Options
///
/// | option | value | without it |
/// | --- | --- | --- |
/// | [`key`](#key) | template, or expression | required, or [`keys`](#keys) |
/// | [`keys`](#keys) | list of such keys | one [`key`](#key) |
/// | [`ttl`](#ttl) | duration | 30 seconds |
/// | [`wait`](#wait) | duration, or `"forever"` | one try |
/// | [`renew`](#renew) | `true` or `false` | `true` |
/// | [`max_hold`](#max_hold) | duration | no limit |
/// | [`min_hold`](#min_hold) | duration | the key is free when the body is done |
/// | [`on_lost`](#on_lost) | `"cancel"` or `"finish"` | `"cancel"` |
/// | [`reentrant`](#reentrant) | a flag | a nested call with the same key is an error |
/// | [`guard`](#guard) | name | the guard has none |
/// | [`manager`](#manager) | expression | the process-wide manager |
/// | [`on_busy`](#on_busy) | expression | a busy lock is an error |
/// | [`on_error`](#on_error) | closure or function | the return type takes the error |
/// | [`crate`](#crate) | path | `::redlocked` |
///
/// ## `key`
///
/// What is locked. A placeholder is an argument, with any format spec:
///
/// ```rust,ignore
/// #[distributed_lock(key = "order:{id}")]
/// async fn ship(id: u64) -> Result<(), Error> { /* … */ }
///
/// #[distributed_lock(key = "invoice:{year}-{number:06}")]
/// async fn book(year: u16, number: u32) -> Result<(), Error> { /* … */ }
/// ```
///
/// or a path of fields, also of `self`:
///
/// ```rust,ignore
/// #[distributed_lock(key = "{self.tenant}:{request.user.id}:{range.0}")]
/// async fn import(&self, request: &Request, range: (u32, u32)) -> Result<(), Error> { /* … */ }
/// ```
///
/// Every name that a pattern binds is an argument, as `sku` in `Path(sku): Path<String>`. A constant is a placeholder too:
/// `"{TENANT}:{id}"`. Write `{{` and `}}` for braces.
///
/// What a placeholder prints is percent-escaped for `:`, `{`, `}`, `%` and control characters, so that two lists of
/// arguments never meet in one key. A constant, and the text between placeholders, are taken as they are.
///
/// For everything else there are expressions of a type that is `AsRef<str>`; their value is taken as it is:
///
/// ```rust,ignore
/// #[distributed_lock(key = format!("order:{}", order.id()))]
/// #[distributed_lock(key = self.lock_name())]
/// ```
///
/// The key is rendered once, from borrowed arguments, before the body has them.
///
/// ## `keys`
///
/// Several keys instead of one, all or nothing: the body runs while it holds every one of them. Each is a template or an
/// expression as for [`key`](#key).
///
/// ```rust
/// use redlocked::{LockError, LockManager, distributed_lock};
///
/// #[distributed_lock(keys = ["account:{from}", "account:{to}"], wait = "5s")]
/// fn transfer(from: u32, to: u32, amount: u64) -> Result<u64, LockError> {
///     // Nobody else in the fleet touches one of the two accounts.
///     Ok(amount)
/// }
///
/// # fn main() -> Result<(), LockError> {
/// LockManager::connect_blocking("memory://")?.set_global();
/// assert_eq!(transfer(7, 3, 100)?, 100);
/// # Ok(())
/// # }
/// ```
///
/// The locks are taken one after the other, in the order of the bytes of their keys and not in the order of the list, so
/// `transfer(7, 3, …)` and `transfer(3, 7, …)` never wait for each other. Keys that turn out to be equal are locked once.
/// [`wait`](#wait) is for all of them together; when one cannot be had, the others are released, and the error names it.
/// When one is lost, the body is stopped as for a single key. [`max_hold`](#max_hold), and without renewal the
/// [`ttl`](#ttl), count for each lock from when it was taken. Each lock has its own
/// [fencing token](#guard): `lock.fencing_token_of(key)`.
///
/// A body that calls another locked function has no such order: name all the keys on the outer one, and make the inner
/// one [`reentrant`](#reentrant). For keys that are known only at run time there is `LockManager::lock_all`.
///
/// ## `ttl`
///
/// How long the lock outlives a process that has crashed. It does not limit the body: a living process
/// [renews](#renew) its lock. From 10 ms; with the units `d`, `h`, `m`, `s` and `ms`, or as an expression of type
/// [`Duration`](core::time::Duration).
///
/// ```rust,ignore
/// #[distributed_lock(key = "report", ttl = "10s")]
/// #[distributed_lock(key = "report", ttl = "1m 30s")]
/// #[distributed_lock(key = "report", ttl = self.config.lock_ttl)]
/// ```
///
/// ## `wait`
///
/// How long a caller waits for the lock at most. Without it, as with `"0s"`, there is one try.
///
/// ```rust,ignore
/// #[distributed_lock(key = "stock:{sku}", wait = "500ms")]
/// #[distributed_lock(key = "stock:{sku}", wait = "forever")]
/// ```
///
/// ## `renew`
///
/// With `renew = false` the body has to be done within one [`ttl`](#ttl). An `async` body is stopped when the lease ends;
/// another one can ask its [guard](#guard).
///
/// ```rust,ignore
/// #[distributed_lock(key = "report", ttl = "5m", renew = false)]
/// ```
///
/// ## `max_hold`
///
/// How long the lock is held at most. After that it counts as lost, however well it could be renewed: an `async` body is
/// stopped, the caller gets `LockError::Lost`, and the next one may enter. For a body that could hang, while its process
/// goes on renewing. From 10 ms; a duration as for [`ttl`](#ttl).
///
/// ```rust,ignore
/// #[distributed_lock(key = "import:{feed}", ttl = "10s", max_hold = "15m")]
/// ```
///
/// A sync body is not stopped: it asks its [guard](#guard). With `renew = false` the `ttl` is the limit already, and
/// a `max_hold` that is not shorter is a compile error.
///
/// ## `min_hold`
///
/// How long the key stays taken at least, counted from when the lock was acquired. A body that is done earlier returns at
/// once; only the key stays until then. For a job that every replica starts at the same minute by its own clock: the
/// second one comes while the key is still there, and is [busy](#on_busy). A duration as for [`ttl`](#ttl), not longer
/// than [`max_hold`](#max_hold).
///
/// ```rust,ignore
/// #[distributed_lock(key = "nightly", min_hold = "5m", on_busy = Ok(Job::DoneElsewhere))]
/// async fn nightly() -> Result<Job, Error> { /* … */ }
/// ```
///
/// ## `on_lost`
///
/// What becomes of an `async` body whose lock is lost. With `"cancel"` it is dropped before the next one may enter, and the
/// caller gets `LockError::Lost`. With `"finish"` it runs to its end, perhaps beside the next one, and its value is
/// returned: for work that is worse when half done than when done twice. It can ask its [guard](#guard).
///
/// ```rust,ignore
/// #[distributed_lock(key = "mail:{id}", on_lost = "finish", guard = lock)]
/// async fn send(id: u64) -> Result<(), Error> {
///     let mail = load(id).await?;
///     if lock.is_held() { deliver(mail).await? }
///     Ok(())
/// }
/// ```
///
/// A sync body cannot be cancelled, so on a function that is not `async` this is a compile error.
///
/// ## `reentrant`
///
/// A body that calls a function with the same key would wait for itself. Such a call fails at once, with
/// `LockError::Deadlock`, however long it was ready to [wait](#wait). With `reentrant` on the inner function it joins
/// instead: it runs under the lock that is held, and the outer one gives it back. Of several [keys](#keys) it joins those
/// that are held, and takes the others. A task that the body spawns is not nested: it waits as everybody does.
///
/// ```rust,ignore
/// #[distributed_lock(key = "account:{id}")]
/// async fn close(id: u64) -> Result<(), Error> {
///     book(id, 0).await
/// }
///
/// #[distributed_lock(key = "account:{id}", reentrant)]
/// async fn book(id: u64, amount: u64) -> Result<(), Error> { /* … */ }
/// ```
///
/// ## `guard`
///
/// A name for the lock inside the body: a `&LockGuard`.
///
/// ```rust,ignore
/// #[distributed_lock(key = "ledger", guard = lock)]
/// async fn post(entry: Entry) -> Result<(), Error> {
///     for page in entry.pages() {
///         log(lock.remaining());
///         save(page).await?;
///     }
///     Ok(())
/// }
/// ```
///
/// ## `manager`
///
/// The `LockManager` to ask; it is borrowed. Without it, the process-wide one.
///
/// ```rust,ignore
/// #[distributed_lock(key = "{id}", manager = self.locks)]
/// ```
///
/// ## `on_busy`
///
/// What to return when somebody else has the lock, for as long as the caller was ready to wait. It is evaluated after the
/// body has been dropped, and the arguments with it, unless they are `Copy`.
///
/// ```rust,ignore
/// #[distributed_lock(key = "nightly", on_busy = Ok(Job::DoneElsewhere))]
/// async fn nightly() -> Result<Job, Error> { /* … */ }
/// ```
///
/// ## `on_error`
///
/// A closure or function from `LockError` to the return type, for a function whose return type cannot carry the error.
/// With [`on_busy`](#on_busy), for the other errors.
///
/// ```rust,ignore
/// #[distributed_lock(key = "nightly", on_busy = (), on_error = |error| tracing::error!(%error))]
/// async fn nightly() { /* … */ }
/// ```
///
/// Without it the return type has to be `FromLockError`: a `Result<T, E>` with `E: From<LockError>` is.
///
/// ## `crate`
///
/// Where `redlocked` is, if it was renamed or is re-exported.
///
/// ```rust,ignore
/// #[distributed_lock(key = "report", crate = my_platform::redlocked)]
/// ```
///
/// # Where it goes
///
/// Above every function with a body: `async` or not, free, method or in a trait, with any receiver, generics and
/// lifetimes. A function that is not `async` blocks its thread while it waits. Not above a `const fn`.
///
/// A future that is returned would run after its lock was released. So in a function that is not `async`, but returns
/// a future, the lock goes inside `Box::pin(async move { … })`, if that is the whole body; everything else is a compile
/// error.
///
/// ```rust,ignore
/// #[async_trait]
/// impl Store for Postgres {
///     #[distributed_lock(key = "{self.table}:{id}")]
///     async fn save(&self, id: u64) -> Result<(), Error> { /* … */ }
/// }
/// ```
///
/// # With other attributes
///
/// Attributes expand from top to bottom, and the one on top ends up innermost.
///
/// * Above `#[tracing::instrument]` the span holds the wait, the body and the release.
/// * Above `#[tokio::test]` and `#[tokio::main]` the lock is taken inside the runtime. Below them it is taken outside,
///   before the runtime starts.
/// * `#[async_trait]` stands above the `impl` and comes first in any case.
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}
