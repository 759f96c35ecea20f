//! [`Address`]: where the locks are, as a program has it.

#[cfg(feature = "redis")]
mod of_client;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::engine::topology::address::without_credentials;

/// The address of the locks: the parameter of
/// [`LockManager::builder`](crate::LockManager::builder), [`connect`](crate::LockManager::connect),
/// [`connect_blocking`](crate::LockManager::connect_blocking) and
/// [`node`](crate::LockManagerBuilder::node).
///
/// Text becomes one: `&str`, `String`, and what holds them. So does the client that a program has,
/// unless the feature `redis` is off: `redis::Client` and `redis::ConnectionInfo`, by value and by
/// reference. A manager never shares a connection of the client. It opens its own to the same host
/// and port or unix socket, with the same database, user and password, encrypted if the client's is.
/// `Debug` shows no user and no password.
///
/// # Examples
///
/// ```
/// use redlocked::Address;
///
/// let address = Address::from("redis://shop:s3cret@127.0.0.1:6379/3");
/// assert!(!format!("{address:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
pub struct Address {
    /// One address, or several with commas between them.
    text: String,
    /// The reason why a client cannot be used.
    refusal: Option<Refusal>,
}

/// Why an address cannot stand for its client.
#[derive(Clone, Copy)]
struct Refusal {
    reason: &'static str,
    /// `tls_ca` or `tls_client` says what the client does not.
    is_lifted_by_tls_settings: bool,
}

impl Address {
    /// Adds the address of one more server.
    pub(crate) fn push(&mut self, other: &Self) {
        self.text.push(',');
        self.text.push_str(&other.text);
        self.refusal = self.refusal.or(other.refusal);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Why the address cannot be used, unless its text says so.
    pub(crate) fn refusal(&self, has_tls_settings: bool) -> Option<&'static str> {
        let refusal = self.refusal.filter(|refusal| !(has_tls_settings && refusal.is_lifted_by_tls_settings));
        refusal.map(|refusal| refusal.reason)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<_> = self.text.split(',').map(without_credentials).collect();
        f.debug_tuple("Address").field(&shown.join(",")).finish()
    }
}

/// From the types that hold text.
macro_rules! from_text {
    ($($text:ty),*) => {
        $(impl From<$text> for Address {
            fn from(text: $text) -> Self {
                Self { text: text.to_string(), refusal: None }
            }
        })*
    };
}

from_text!(
    &str,
    &&str,
    &mut str,
    &String,
    Box<str>,
    &Box<str>,
    Arc<str>,
    &Arc<str>,
    Cow<'_, str>,
    &Cow<'_, str>
);

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self { text, refusal: None }
    }
}
