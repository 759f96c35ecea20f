// The first of two definitions counts: what is a file in the repository is a page here.
#![cfg_attr(not(doctest), doc = include_str!("links.md"))]
#![cfg_attr(not(doctest), doc = "")]
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(doc, doctest))]
pub mod docs;
#[cfg(test)]
mod pages;

pub use redlock_macros::distributed_lock;
pub use redlock_runtime::{
    Acquire, Address, Capabilities, Credentials, CurrentLock, Fence, FromLockError, HandOver, Holder,
    LockError, LockErrorKind, LockEvent, LockGuard, LockKey, LockManager, LockManagerBuilder, LockRequest,
    Lost, LostReason, NominalTime, OnLost, ParseTicketError, ReleaseOutcome, StoreError, TickMissed, Ticket,
    current,
};

#[cfg(feature = "redis")]
pub use redlock_runtime::FencedRedis;

/// One process of many leads: [`LockManager::election`] begins here.
///
/// # Examples
///
/// ```
/// use redlocked::LockManager;
/// use redlocked::election::{LeadError, Term};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = LockManager::connect("memory://").await?;
/// let led: Result<u32, LeadError<std::io::Error>> =
///     locks.election("billing").lead(async |_: Term| Ok(7)).await;
/// assert_eq!(led?, 7);
/// # Ok(())
/// # }
/// ```
pub mod election {
    #[cfg(feature = "stream")]
    pub use redlock_runtime::LeaderStream;
    pub use redlock_runtime::{Election, LeadError, Leader, Observer, Term, TermEnd};
}

/// What the server has of a lock: [`LockManager::inspect`] and [`LockManager::list`] return it.
///
/// # Examples
///
/// ```
/// use redlocked::LockManager;
/// use redlocked::inspect::LockInfo;
///
/// fn is_wanted(lock: &LockInfo) -> bool {
///     lock.waiters() > 0
/// }
///
/// # fn main() -> Result<(), redlocked::LockError> {
/// let locks = LockManager::connect_blocking("memory://")?;
/// let _guard = locks.lock("stock:42").acquire_blocking()?;
/// assert!(!locks.inspect_blocking("stock:42")?.is_some_and(|lock| is_wanted(&lock)));
/// # Ok(())
/// # }
/// ```
pub mod inspect {
    pub use redlock_runtime::{KeyInfo, LastTick, LockInfo, NodeInfo, Waiter};
}

/// A body that runs once: [`LockRequest`]'s `once` begins here, with the feature `once`.
/// [`LockManager::once_record`] needs no feature.
///
/// # Examples
///
/// ```
/// use redlocked::LockManager;
/// use redlocked::once::OnceRecord;
///
/// # fn main() -> Result<(), redlocked::LockError> {
/// let locks = LockManager::connect_blocking("memory://")?;
/// let record: Option<OnceRecord> = locks.once_record_blocking("payment:17")?;
/// assert!(record.is_none(), "nobody has asked for it");
/// # Ok(())
/// # }
/// ```
pub mod once {
    pub use redlock_runtime::OnceRecord;
    #[cfg(feature = "once")]
    pub use redlock_runtime::{Json, OnInterrupted, OnUndecodable, Once, OnceRequest, ResultCodec};
}

/// For your tests: a lock in memory that is busy, lost or away when a test says so.
///
/// # Examples
///
/// ```
/// use redlocked::testing::Testing;
///
/// # fn main() -> Result<(), redlocked::LockError> {
/// let node = Testing::connect_blocking("the-module-testing")?;
/// let _held = node.hold("stock:42", "shop::refund")?;
/// assert!(node.manager().lock("stock:42").acquire_blocking().is_err_and(|error| error.is_busy()));
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "testing")]
pub mod testing {
    pub use redlock_runtime::{Calls, GlobalHere, HeldElsewhere, Testing};
}

/// Writes a key by the rules of the attribute, as a `String`: for [`LockManager::lock`], and where
/// a template does not reach.
///
/// The arguments are those of `format!`: values in order or by name. The template may also name
/// variables, their fields, and their methods without arguments. What a value prints is
/// percent-escaped for `:`, `{`, `}`, `%`, control characters, and the punctuation between two
/// values: so `key!("stock:{}", sku)` is the key that `#[distributed_lock(key = "stock:{sku}")]`
/// locks, and values that print differently give different keys. A constant that the template
/// names, such as `{TENANT}`, is taken as it is; a variable is escaped, however it is spelled.
///
/// ```
/// use redlocked::{LockError, LockManager, distributed_lock, key};
///
/// /// Its inside is private, as in web frameworks.
/// # #[derive(Clone)]
/// struct Request(&'static str);
/// # impl Request { fn parts(&self) -> Vec<&str> { self.0.split('/').collect() } }
///
/// #[distributed_lock(key = key!("stock:{}", request.parts()[1]))]
/// async fn purchase(request: Request) -> Result<usize, LockError> {
///     Ok(request.parts().len())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// let locks = LockManager::connect("memory://").await?;
/// locks.clone().set_global();
/// assert_eq!(purchase(Request("eu/shoes:red")).await?, 2);
///
/// let sku = "shoes:red";
/// let guard = locks.lock(key!("stock:{sku}")).acquire().await?;
/// assert_eq!(guard.key(), "stock:shoes%3Ared");
/// assert!(purchase(Request("eu/shoes:red")).await.is_err_and(|error| error.is_busy()));
///
/// assert_eq!(key!("{}-{to}:{:04}", "eu-west", 7, to = "us"), "eu%2Dwest-us:0007");
/// #     Ok(())
/// # }
/// ```
///
/// Refused at compile time: what the attribute refuses in a template. A key that is empty or too
/// long is refused with [`LockError::InvalidKey`] when it is locked.
#[macro_export]
macro_rules! key {
    ($($template:tt)*) => { $crate::__private::render_key!($crate, $($template)*) };
}

/// The macros write calls into this module. Not part of the public API: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use redlock_macros::render_key;
    pub use redlock_runtime::__private::*;
}
