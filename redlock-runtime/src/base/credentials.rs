//! [`Credentials`]: the user and password of a server.

use std::fmt;

/// The user and password of a Redis server, for
/// [`credentials`](crate::LockManagerBuilder::credentials). `Debug` does not show the password.
///
/// # Examples
///
/// ```
/// use redlocked::Credentials;
///
/// let credentials = Credentials::new("shop", "s3cret");
/// assert!(!format!("{credentials:?}").contains("s3cret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl Credentials {
    /// The name and the password of a user (`ACL`, Redis 6 and later).
    ///
    /// # Examples
    ///
    /// ```
    /// let credentials = redlocked::Credentials::new("shop", "s3cret");
    /// # let _ = credentials;
    /// ```
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// A password without a user: that of the server (`requirepass`).
    ///
    /// # Examples
    ///
    /// ```
    /// let credentials = redlocked::Credentials::password("s3cret");
    /// # let _ = credentials;
    /// ```
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}
