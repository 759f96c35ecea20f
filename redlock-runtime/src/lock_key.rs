//! [`LockKey`]: one of several keys, and who may hold its lock together.

use crate::base::limit::Limit;
use crate::options::Sharing;

/// A key of [`lock_all`](crate::LockManager::lock_all), and who may hold its lock beside this caller:
/// nobody, other readers, or as many as there are permits.
///
/// A string is an exclusive key. The keys of one request may be of different kinds.
///
/// # Examples
///
/// A transfer reads the rate of the day and changes two accounts. Other transfers read the same rate
/// at the same time, and whoever changes the rate waits for them:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::{LockKey, LockManager};
///
/// let locks = LockManager::connect("memory://lock-key-example").await?;
/// let transfer = |from: u32, to: u32| {
///     let accounts = [from, to].map(|id| LockKey::exclusive(format!("account:{id}")));
///     locks.lock_all(accounts.into_iter().chain([LockKey::shared("rate")]))
/// };
/// let _one = transfer(1, 2).acquire().await?;
/// let _beside_it = transfer(3, 4).acquire().await?;
/// assert!(transfer(2, 5).acquire().await.is_err(), "account 2 is in use");
/// assert!(locks.lock("rate").acquire().await.is_err(), "the rate is being read");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a key does nothing until it is part of a request"]
pub struct LockKey {
    pub(crate) key: String,
    pub(crate) sharing: Sharing,
}

impl LockKey {
    /// Returns a key that this caller holds alone, as a string is.
    ///
    /// # Examples
    ///
    /// ```
    /// use redlocked::LockKey;
    ///
    /// assert_eq!(LockKey::exclusive("account:7"), LockKey::from("account:7"));
    /// ```
    pub fn exclusive(key: impl Into<String>) -> Self {
        Self { key: key.into(), sharing: Sharing::Exclusive }
    }

    /// Returns a key that any number of callers with `shared` may hold together, as with
    /// [`LockRequest::shared`](crate::LockRequest::shared).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LockKey;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://shared-key-example")?;
    /// let order = |id| locks.lock_all([LockKey::shared("catalogue"), LockKey::exclusive(format!("order:{id}"))]);
    /// let both = [order(1).acquire_blocking()?, order(2).acquire_blocking()?];
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared(key: impl Into<String>) -> Self {
        Self { key: key.into(), sharing: Sharing::Exclusive.shared() }
    }

    /// Returns a key that at most so many callers may hold together, 1 to 10,000, as with
    /// [`LockRequest::permits`](crate::LockRequest::permits). One is an exclusive key.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LockKey;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://permits-key-example")?;
    /// let mail = |to| locks.lock_all([LockKey::permits("smtp", 2), LockKey::exclusive(format!("mailbox:{to}"))]);
    /// let both = [mail("ada").acquire_blocking()?, mail("bob").acquire_blocking()?];
    /// assert!(mail("eve").acquire_blocking().is_err_and(|error| error.key() == Some("smtp")));
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn permits(key: impl Into<String>, permits: u32) -> Self {
        Self { key: key.into(), sharing: Sharing::Exclusive.permits(permits) }
    }

    /// Sets how many of the [`permits`](Self::permits) this caller takes, 1 by default, as
    /// [`LockRequest::take`](crate::LockRequest::take) does. A key without permits has none to take:
    /// its request fails with [`LockError::InvalidRequest`](crate::LockError::InvalidRequest).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use redlocked::LockKey;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://take-key-example")?;
    /// let job = |id, gigabytes| {
    ///     let gpu = LockKey::permits("gpu", 16).take(gigabytes);
    ///     locks.lock_all([gpu, LockKey::exclusive(format!("job:{id}"))])
    /// };
    /// let both = [job(1, 8).acquire_blocking()?, job(2, 7).acquire_blocking()?];
    /// assert!(job(3, 2).acquire_blocking().is_err());
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(self, permits: u32) -> Self {
        Self { sharing: self.sharing.take(permits), ..self }
    }
}

/// A string is an exclusive key.
impl<T: Into<String>> From<T> for LockKey {
    fn from(key: T) -> Self {
        Self::exclusive(key)
    }
}

/// The keys of a request. One takes no more room than its text.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// Its options say who may hold it together.
    One(String),
    /// Each key once, in the order of their bytes. All callers take several locks in this order, so no
    /// two wait for each other.
    #[expect(clippy::box_collection, reason = "a thin pointer fits where the one key lies")]
    Many(Box<Vec<LockKey>>),
}

impl Keys {
    pub(crate) fn all(keys: impl IntoIterator<Item = impl Into<LockKey>>) -> Self {
        let mut keys: Vec<LockKey> = keys.into_iter().map(Into::into).collect();
        keys.sort_by(|one, other| one.key.cmp(&other.key));
        keys.dedup_by(|next, kept| {
            let is_twice = next.key == kept.key;
            if is_twice {
                kept.sharing = kept.sharing.and(next.sharing);
            }
            is_twice
        });
        match <[LockKey; 1]>::try_from(keys) {
            Ok([LockKey { key, sharing: Sharing::Exclusive }]) => Self::One(key),
            Ok(one) => Self::Many(Box::new(one.into())),
            Err(keys) => Self::Many(Box::new(keys)),
        }
    }

    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    pub(crate) fn first(&self) -> Option<&str> {
        self.texts().next()
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match self {
            Self::One(key) => (Some(key), None),
            Self::Many(keys) => (None, Some(keys)),
        };
        one.into_iter()
            .chain(many.into_iter().flat_map(|keys| keys.iter().map(|key| &key.key)))
            .map(String::as_str)
    }

    /// The smallest number of callers that may hold one of the keys, for metrics and spans. `own`: what
    /// the options say of one key.
    pub(crate) fn least(&self, own: Limit) -> Limit {
        match self {
            Self::One(_) => own,
            Self::Many(keys) => {
                keys.iter().map(|key| key.sharing.limit()).reduce(Limit::least).unwrap_or(own)
            }
        }
    }
}
