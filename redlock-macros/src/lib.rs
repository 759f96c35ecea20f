//! The attribute of [`redlocked`](https://docs.rs/redlocked). Depend on that crate, which re-exports it.
//!
//! This crate knows syntax, and nothing else: it reads the attribute and the function below it, and writes one call into
//! the runtime.

mod args;
mod boxed;
mod by_hand;
mod captures;
mod checks;
mod duration;
mod errors;
mod expand;
mod global;
mod item;
mod key;
mod named;
mod options;
mod output;
mod scope;
mod template;
mod value;

#[cfg(test)]
mod invariants;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod snapshots;

use proc_macro::TokenStream;

/// Makes a function run on one machine of the fleet at a time.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # struct Receipt(u32);
/// # type ShopError = LockError;
/// #[distributed_lock(key = "stock:{sku}", ttl = "10s", wait = "5s")]
/// async fn purchase(sku: &str, quantity: u32) -> Result<Receipt, ShopError> {
///     // At most one caller in the whole fleet is here for a given `sku`.
///     # let _ = sku;
///     Ok(Receipt(quantity))
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     assert_eq!(purchase("shoes", 2).await?.0, 2);
/// #     Ok(())
/// # }
/// ```
///
/// A call renders the key from the arguments, takes the lock, runs the body, and gives the lock back: on return, on `?`, on
/// a panic, and when the future is dropped. When the lock is not acquired, or is lost, the function returns the error.
/// The arguments belong to the body: they are dropped before the lock is given back. An argument without a name (`_`) is
/// dropped after it.
///
/// # Options
///
/// | option | value | without it |
/// | --- | --- | --- |
/// | [`key`](#key) | template, or expression | required, or [`keys`](#keys) |
/// | [`keys`](#keys) | list of such keys | one [`key`](#key) |
/// | [`global`](#global) | a flag | a template that names no argument is an error, if there are any |
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
/// A flag is on when it is named; `reentrant = false` is for macros. Every mistake is a compile error at its own token, and
/// all mistakes of one attribute are reported at once.
///
/// ## `key`
///
/// What is locked. A placeholder is an argument, with any format spec:
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "order:{id}")]
/// async fn ship(id: u64) -> Result<(), LockError> {
///     // `order:7`
///     # let _ = id;
///     Ok(())
/// }
///
/// #[distributed_lock(key = "invoice:{year}-{number:06}", guard = lock)]
/// async fn book(year: u16, number: u32) -> Result<String, LockError> {
///     // `invoice:2026-000042`
///     Ok(lock.key().to_owned())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     ship(7).await?;
/// #     assert_eq!(book(2026, 42).await?, "invoice:2026-000042");
/// #     Ok(())
/// # }
/// ```
///
/// or a path of fields, and of methods that take nothing, also of `self`:
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # struct User { id: u64 }
/// # struct Request { user: User }
/// # impl Request { fn user(&self) -> &User { &self.user } }
/// # struct Importer { tenant: String }
/// # impl Importer {
/// #[distributed_lock(key = "{self.tenant}:{request.user().id}:{range.0}", guard = lock)]
/// async fn import(&self, request: &Request, range: (u32, u32)) -> Result<String, LockError> {
///     // `acme:7:100`
///     Ok(lock.key().to_owned())
/// }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     let importer = Importer { tenant: "acme".to_owned() };
/// #     let request = Request { user: User { id: 7 } };
/// #     assert_eq!(importer.import(&request, (100, 200)).await?, "acme:7:100");
/// #     Ok(())
/// # }
/// ```
///
/// Every name that a pattern binds is an argument, as `sku` in `Path(sku): Path<String>`. A constant is a placeholder too:
/// `"{TENANT}:{id}"`. Write `{{` and `}}` for braces.
///
/// What a placeholder prints is percent-escaped for `:`, `{`, `}`, `%`, control characters, and the punctuation between
/// two placeholders of the same template: so arguments that print differently never give the same key. A constant, and the
/// text between placeholders, are taken as they are.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// const TENANT: &str = "acme:eu";
///
/// #[distributed_lock(key = "{{{TENANT}}}:{folder}:{file}", guard = lock)]
/// fn upload(folder: &str, file: &str) -> Result<String, LockError> {
///     Ok(lock.key().to_owned())
/// }
///
/// #[distributed_lock(key = "{from}-{to}", guard = lock)]
/// fn route(from: &str, to: &str) -> Result<String, LockError> {
///     Ok(lock.key().to_owned())
/// }
/// # fn main() -> Result<(), LockError> {
/// #     LockManager::connect_blocking("memory://")?.set_global();
/// assert_eq!(upload("a:b", "c")?, "{acme:eu}:a%3Ab:c");
/// assert_eq!(upload("a", "b:c")?, "{acme:eu}:a:b%3Ac");
/// assert_eq!(route("eu", "us")?, "eu-us");
/// assert_eq!(route("eu-west", "us")?, "eu%2Dwest-us");
/// #     Ok(())
/// # }
/// ```
///
/// Any other key is an expression of a type that is `AsRef<str>`. Its value is taken as it is, braces included; `key!`
/// escapes as a template does:
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock, key};
/// # #[derive(Clone)] struct Order(u64);
/// # impl Order { fn parts(&self) -> Vec<u64> { vec![self.0] } }
/// # struct Desk(&'static str);
/// # impl Desk {
/// #     fn lock_name(&self) -> &str { self.0 }
/// #[distributed_lock(key = key!("order:{}", order.parts()[0]), guard = lock)]
/// async fn pack(&self, order: Order) -> Result<String, LockError> {
///     # drop(order);
///     // `order:7`
///     Ok(lock.key().to_owned())
/// }
///
/// #[distributed_lock(key = self.lock_name(), guard = lock)]
/// async fn count(&self) -> Result<String, LockError> {
///     Ok(lock.key().to_owned())
/// }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     assert_eq!(Desk("desk:1").pack(Order(7)).await?, "order:7");
/// #     assert_eq!(Desk("desk:1").count().await?, "desk:1");
/// #     Ok(())
/// # }
/// ```
///
/// The key is rendered once, from borrowed arguments, before the body has them.
///
/// Refused at compile time: an empty template, one longer than 1 KiB, control characters, `{}`, `{0}`, a name that does not
/// exist, indices and calls with arguments inside a placeholder, placeholders with no punctuation between them (a letter or
/// digit could be part of either value), an argument without `Display` (an `Option`: write `{id:?}`), and `{x:p}`.
/// Refused with `LockError::InvalidKey` when called: a rendered key that is empty, longer than 1 KiB with its prefix, or has
/// control characters.
///
/// ## `keys`
///
/// Several keys instead of one, all or nothing: the body runs while every one of them is held. Each is a template or an
/// expression as for [`key`](#key).
///
/// ```rust
/// use redlocked::{LockError, LockManager, distributed_lock};
///
/// #[distributed_lock(keys = ["account:{from}", "account:{to}"], wait = "5s")]
/// fn transfer(from: u32, to: u32, amount: u64) -> Result<u64, LockError> {
///     // No other caller in the fleet is here with one of the two accounts.
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
/// [`wait`](#wait) is for all of them together; when one cannot be acquired, the others are released, and the error names it.
/// When one is lost, the body is stopped as for a single key. [`max_hold`](#max_hold), and without renewal the
/// [`ttl`](#ttl), count for each lock from when it was taken. Each lock has its own
/// [fencing token](#guard): `lock.fencing_token_of(key)`.
///
/// A body that calls another locked function has no such order: name all the keys on the outer one, and make the inner
/// one [`reentrant`](#reentrant). For keys that are known only at run time there is `LockManager::lock_all`.
///
/// ## `global`
///
/// One lock for all calls of a function that has arguments. It must be written, because a key that forgot its arguments
/// looks the same, and makes every caller wait for every other one:
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "prices", global)]
/// async fn publish(prices: &[u32]) -> Result<usize, LockError> {
///     Ok(prices.len())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     assert_eq!(publish(&[1, 2]).await?, 2);
/// #     Ok(())
/// # }
/// ```
///
/// Without it these are compile errors:
///
/// ```compile_fail
/// # use redlocked::{LockError, distributed_lock};
/// #[distributed_lock(key = "stock")] // the same for every `sku`
/// async fn purchase(sku: &str) -> Result<usize, LockError> {
///     Ok(sku.len())
/// }
/// ```
/// ```compile_fail
/// # use redlocked::{LockError, distributed_lock};
/// #[distributed_lock(key = "stock:sku")] // without braces it is text
/// async fn purchase(sku: &str) -> Result<usize, LockError> {
///     Ok(sku.len())
/// }
/// ```
///
/// A `key` that is an expression needs it, too, if it names no argument. These arguments do not count: `self`, those whose
/// name starts with `_`, those that only some builds have (`#[cfg]`), and those that [`manager`](#manager) or a duration is
/// taken from. Refused beside a key that names an argument, `self`, or a generic constant. Of several [keys](#keys), one
/// that names an argument is enough.
///
/// ## `ttl`
///
/// How long the lock outlives a process that has crashed. It does not limit the body: a living process
/// [renews](#renew) its lock. Without it, 30 seconds. With the units `d`, `h`, `m`, `s` and `ms`, or as an expression of
/// type [`Duration`](https://doc.rust-lang.org/std/time/struct.Duration.html).
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # use std::time::Duration;
/// #[distributed_lock(key = "report", ttl = "10s")]
/// # async fn seconds() -> Result<(), LockError> { Ok(()) }
/// #[distributed_lock(key = "report", ttl = "1m 30s")]
/// # async fn minutes() -> Result<(), LockError> { Ok(()) }
/// # struct Config { lock_ttl: Duration }
/// # struct Job { config: Config }
/// # impl Job {
/// #[distributed_lock(key = "report", ttl = self.config.lock_ttl)]
/// # async fn expression(&self) -> Result<(), LockError> { Ok(()) }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     seconds().await?;
/// #     minutes().await?;
/// #     Job { config: Config { lock_ttl: Duration::from_secs(1) } }.expression().await?;
/// #     let short = Job { config: Config { lock_ttl: Duration::from_millis(9) } }.expression().await;
/// #     assert!(matches!(short, Err(LockError::InvalidRequest { .. })), "{short:?}");
/// #     Ok(())
/// # }
/// ```
///
/// Refused: less than 10 ms, more than 2⁵³ ms, `"forever"`, and whatever is not spelled as above. A literal is refused at
/// compile time, an expression with `LockError::InvalidRequest` when called.
///
/// ## `wait`
///
/// How long a caller waits for the lock at most. Without it, as with `"0s"`, there is one try. A duration as for
/// [`ttl`](#ttl), of any length.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "stock:{sku}", wait = "50ms")]
/// async fn reserve(sku: &str) -> Result<usize, LockError> {
///     Ok(sku.len())
/// }
///
/// #[distributed_lock(key = "stock:{sku}", wait = "forever")] // also while Redis is down or refuses the lock
/// async fn sell(sku: &str) -> Result<usize, LockError> {
///     Ok(sku.len())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     let locks = LockManager::connect("memory://").await?;
/// #     locks.clone().set_global();
/// #     let guard = locks.lock("stock:hat").acquire().await?;
/// #     assert!(matches!(reserve("hat").await, Err(LockError::TimedOut { .. })));
/// #     guard.release().await?;
/// #     assert_eq!(reserve("hat").await? + sell("hat").await?, 6);
/// #     Ok(())
/// # }
/// ```
///
/// ## `renew`
///
/// Whether the lock is renewed while the body runs; `true` without it. With `renew = false` the body has to be done within
/// one [`ttl`](#ttl). An `async` body is stopped when the lease ends; a sync body can ask its [guard](#guard).
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "report", ttl = "50ms", renew = false)]
/// async fn hangs() -> Result<(), LockError> {
///     std::future::pending().await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// assert!(matches!(hangs().await, Err(LockError::Lost { .. })));
/// #     Ok(())
/// # }
/// ```
///
/// ## `max_hold`
///
/// How long the lock is held at most. After that it counts as lost, although it could be renewed: an `async` body is
/// stopped, the caller gets `LockError::Lost`, and the next caller may enter. For a body that could hang while its process
/// goes on renewing. From 10 ms; a duration as for [`ttl`](#ttl).
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "import:{feed}", ttl = "10s", max_hold = "50ms")]
/// async fn import(feed: &str) -> Result<(), LockError> {
///     # let _ = feed;
///     std::future::pending().await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// assert!(matches!(import("prices").await, Err(LockError::Lost { .. })));
/// #     Ok(())
/// # }
/// ```
///
/// A sync body cannot be stopped: it asks its [guard](#guard). Refused with `renew = false`, which already limits the lock to
/// its `ttl`.
///
/// ## `min_hold`
///
/// How long the key stays taken at least, counted from when the lock was acquired. A body that is done earlier returns at
/// once; only the key stays until then. For a job that every replica starts at the same minute by its own clock: the
/// second replica still finds the key, and is [busy](#on_busy). A duration as for [`ttl`](#ttl), of any length.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # #[derive(Debug, PartialEq)]
/// # enum Job { Done, DoneElsewhere }
/// #[distributed_lock(key = "nightly", min_hold = "5m", on_busy = Ok(Job::DoneElsewhere))]
/// async fn nightly() -> Result<Job, LockError> {
///     Ok(Job::Done)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// assert_eq!(nightly().await?, Job::Done);
/// assert_eq!(nightly().await?, Job::DoneElsewhere);
/// #     Ok(())
/// # }
/// ```
///
/// Refused: longer than [`max_hold`](#max_hold), or, with `renew = false`, longer than the `ttl`.
///
/// ## `on_lost`
///
/// What happens to an `async` body whose lock is lost. With `"cancel"`, the default, the body is dropped before the next
/// caller may enter, and its caller gets `LockError::Lost`. With `"finish"` it runs to its end, perhaps beside the next
/// body, and its value is returned: for work that is worse half done than done twice. It can ask its [guard](#guard).
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # async fn load(id: u64) -> Result<u64, LockError> { Ok(id) }
/// # async fn deliver(_mail: u64) -> Result<(), LockError> { Ok(()) }
/// #[distributed_lock(key = "mail:{id}", on_lost = "finish", guard = lock)]
/// async fn send(id: u64) -> Result<(), LockError> {
///     let mail = load(id).await?;
///     if lock.is_held() {
///         deliver(mail).await?;
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     send(7).await
/// # }
/// ```
///
/// Refused on a function that is not `async`: its body cannot be cancelled.
///
/// ## `reentrant`
///
/// A body that calls a function with the same key would wait for itself. Such a call fails at once, with
/// `LockError::Deadlock`, however long it was ready to [wait](#wait). With `reentrant` on the inner function it joins
/// instead: it runs under the lock that is held, and the outer call gives the lock back. Of several [keys](#keys) it joins
/// those that are held, and takes the others. A task that the body spawns is not nested: it waits as any other caller does.
///
/// A sync body that runs an executor (`block_on`) polls its tasks on the same thread. Tasks of tokio are told apart from the
/// body; tasks of another executor count as nested in it.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "account:{id}")]
/// async fn close(id: u64) -> Result<(), LockError> {
///     book(id, 0).await
/// }
///
/// #[distributed_lock(key = "account:{id}", reentrant)]
/// async fn book(id: u64, amount: u64) -> Result<(), LockError> {
///     # let _ = (id, amount);
///     Ok(())
/// }
/// #
/// # #[distributed_lock(key = "account:{id}", wait = "forever")]
/// # async fn close_twice(id: u64) -> Result<(), LockError> {
/// #     close(id).await
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     close(7).await?;
/// #     assert!(matches!(close_twice(7).await, Err(LockError::Deadlock { .. })));
/// #     Ok(())
/// # }
/// ```
///
/// ## `guard`
///
/// A name for the lock inside the body: a `&LockGuard`.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # struct Entry(Vec<u32>);
/// # impl Entry { fn pages(&self) -> &[u32] { &self.0 } }
/// # async fn save(_page: u32, _fencing_token: u64) -> Result<(), LockError> { Ok(()) }
/// #[distributed_lock(key = "ledger", global, guard = lock)]
/// async fn post(entry: Entry) -> Result<(), LockError> {
///     for page in entry.pages() {
///         save(*page, lock.fencing_token()).await?;
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     post(Entry(vec![1, 2])).await
/// # }
/// ```
///
/// Refused: the name of an argument, because the guard would hide it from the body.
///
/// ## `manager`
///
/// The `LockManager` to ask; it is borrowed. Without it, the process-wide one.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// struct Store {
///     locks: LockManager,
/// }
///
/// impl Store {
///     #[distributed_lock(key = "{id}", manager = self.locks)]
///     async fn save(&self, id: u64) -> Result<u64, LockError> {
///         Ok(id)
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     let store = Store { locks: LockManager::connect("memory://").await? };
/// #     assert_eq!(store.save(7).await?, 7);
/// #     Ok(())
/// # }
/// ```
///
/// ## `on_busy`
///
/// What to return when another caller has the lock, for as long as this one was ready to wait. Without it, that is
/// `LockError::Busy` or `LockError::TimedOut`. It is evaluated after the body and its arguments have been dropped, so it can
/// name only arguments that are `Copy`.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # #[derive(Debug, PartialEq)]
/// # enum Job { Done, DoneElsewhere }
/// #[distributed_lock(key = "nightly", on_busy = Ok(Job::DoneElsewhere))]
/// async fn nightly() -> Result<Job, LockError> {
///     Ok(Job::Done)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     let locks = LockManager::connect("memory://").await?;
/// #     locks.clone().set_global();
/// #     assert_eq!(nightly().await?, Job::Done);
/// let elsewhere = locks.lock("nightly").acquire().await?;
/// assert_eq!(nightly().await?, Job::DoneElsewhere);
/// #     drop(elsewhere);
/// #     Ok(())
/// # }
/// ```
///
/// Refused: an expression of another type than the function returns, and with `wait = "forever"`.
///
/// ## `on_error`
///
/// A closure or function from `LockError` to the return type, for a function whose return type cannot carry the error.
/// With [`on_busy`](#on_busy), for the other errors.
///
/// ```
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// #[distributed_lock(key = "nightly", on_busy = (), on_error = |error| eprintln!("{error}"))]
/// async fn nightly() {
///     // …
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     nightly().await;
/// #     Ok(())
/// # }
/// ```
///
/// Without it the return type has to be `FromLockError`: a `Result<T, E>` with `E: From<LockError>` is.
///
/// ```compile_fail
/// # use redlocked::distributed_lock;
/// #[distributed_lock(key = "nightly")] // `()` has no place for an error
/// async fn nightly() {}
/// ```
///
/// ## `crate`
///
/// Where `redlocked` is, if it was renamed or is re-exported.
///
/// ```
/// mod my_platform {
///     pub use redlocked;
/// }
///
/// # use redlocked::{LockError, LockManager};
/// #[my_platform::redlocked::distributed_lock(key = "report", crate = my_platform::redlocked)]
/// async fn report() -> Result<(), LockError> {
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     report().await
/// # }
/// ```
///
/// # Where it goes
///
/// Above every function with a body: `async` or not, free, method or in a trait, with any receiver, generics and
/// lifetimes. A function that is not `async` blocks its thread while it waits. Not above a `const fn`.
///
/// A future that is returned would run after its lock was released. So in a function that is not `async`, but returns
/// a future, the lock goes inside `async move { … }` or `Box::pin(async move { … })`, if that is the whole body;
/// any other body is a compile error. A future inside a `Result`, an `Option` or the like is allowed: there the lock covers
/// the call that makes the future, for example one that registers something and returns its handle, and not what the
/// future does.
///
/// ```
/// # use async_trait::async_trait;
/// # use redlocked::{LockError, LockManager, distributed_lock};
/// # struct Postgres { table: &'static str }
/// # #[async_trait]
/// # trait Store { async fn save(&self, id: u64) -> Result<u64, LockError>; }
/// #[async_trait]
/// impl Store for Postgres {
///     #[distributed_lock(key = "{self.table}:{id}")]
///     async fn save(&self, id: u64) -> Result<u64, LockError> {
///         Ok(id)
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// #     LockManager::connect("memory://").await?.set_global();
/// #     assert_eq!(Postgres { table: "orders" }.save(7).await?, 7);
/// #     Ok(())
/// # }
/// ```
///
/// A stream that is returned would be read after its lock was released: `impl Stream`, `BoxStream` and
/// `Pin<Box<dyn Stream>>` are compile errors, in a `Result` or an `Option` too. A lazy iterator, or a stream behind an
/// alias, is not recognised: collect its items in the body.
///
/// # What it does not cover
///
/// * A task that the body spawns is not part of the body. It goes on when the body returns and when the lock is lost:
///   await its handle in the body, or stop it when the body is dropped, as `tokio::task::JoinSet` does.
/// * A transaction that the caller commits is committed after the lock was released, and the next caller may read the state
///   before it: commit inside the body.
///
/// # With other attributes
///
/// Attributes expand from top to bottom, and the one on top ends up innermost.
///
/// * Above `#[tracing::instrument]` the span holds the wait, the body and the release.
/// * Above `#[tokio::test]` and `#[tokio::main]` the lock is taken inside the runtime. Below them it is taken outside,
///   before the runtime starts.
/// * `#[async_trait]` stands above the `impl` and comes first in any case.
/// * Above `#[axum::debug_handler]`, which copies the body: below it the copy does not know a [`guard`](#guard).
/// * `#[track_caller]` does not reach the body: `Location::caller()` in it is its own line.
#[proc_macro_attribute]
pub fn distributed_lock(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into()).into()
}

/// What `redlocked::key!` writes its call to.
#[doc(hidden)]
#[proc_macro]
pub fn render_key(tokens: TokenStream) -> TokenStream {
    by_hand::expand(tokens.into()).into()
}
