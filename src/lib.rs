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
    Acquire, Address, Capabilities, Credentials, CurrentLock, Election, Fence, FromLockError, HandOver,
    Holder, LastTick, LeadError, Leader, LockError, LockErrorKind, LockEvent, LockGuard, LockInfo,
    LockManager, LockManagerBuilder, LockRequest, LostReason, NominalTime, Observer, OnLost, OnceRecord,
    ParseTicketError, ReleaseOutcome, StoreError, Term, TermEnd, TickMissed, Ticket, Waiter, current,
};

#[cfg(feature = "redis")]
pub use redlock_runtime::FencedRedis;
#[cfg(feature = "testing")]
pub use redlock_runtime::{Calls, GlobalHere, HeldElsewhere, Testing};
#[cfg(feature = "once")]
pub use redlock_runtime::{Json, OnInterrupted, OnUndecodable, Once, OnceRequest, ResultCodec};

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
