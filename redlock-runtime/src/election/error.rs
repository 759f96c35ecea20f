//! [`LeadError`]: why a candidate gave up without a value.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::base::error::LockError;

/// Why [`Election::lead`](crate::Election::lead) ended without a value.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::election::LeadError;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://lead-error-example").await?;
/// locks.shutdown(Duration::from_secs(5)).await?;
/// let outcome = locks.election("billing-loop").lead(async |_term| Ok::<_, LockError>(())).await;
/// assert!(matches!(outcome, Err(LeadError::Lock(LockError::ManagerClosed { .. }))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeadError<E> {
    /// The candidate cannot wait for the lock: [`LockError::ManagerClosed`] after
    /// [`shutdown`](crate::LockManager::shutdown), a key or a TTL that no lock can have,
    /// [`LockError::QueueFull`] if too many wait, [`LockError::Deadlock`] inside a body that
    /// holds the same key, [`LockError::NotReplicated`].
    Lock(LockError),
    /// The error of the body, with [`stop_on_error`](crate::Election::stop_on_error).
    Body(E),
}

impl<E> From<LockError> for LeadError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: From<LockError>> LeadError<E> {
    /// The error of the body as it is, and [`Lock`](Self::Lock) as the same type: for a caller that
    /// handles both alike.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::election::LeadError;
    /// use redlocked::{LockError, LockManager};
    ///
    /// let locks = LockManager::connect("memory://lead-error-flatten-example").await?;
    /// let invoices = locks.election("billing-loop").lead(async |_term| Ok::<_, LockError>(7));
    /// assert_eq!(invoices.await.map_err(LeadError::flatten)?, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn flatten(self) -> E {
        match self {
            Self::Lock(error) => error.into(),
            Self::Body(error) => error,
        }
    }
}

/// The error that ended the candidate. A [`LockError`] is the [`source`](Error::source), and `{:#}`
/// adds its message. The error of the body is formatted with the same flags. If it is an
/// `anyhow::Error`, `{:#}` shows its causes.
impl<E: fmt::Display> fmt::Display for LeadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) if f.alternate() => write!(f, "the candidate cannot lead: {error}"),
            Self::Lock(_) => f.write_str("the candidate cannot lead"),
            Self::Body(error) => error.fmt(f),
        }
    }
}

/// For each `E` that can be shown, so that `?` turns a `LeadError<Box<dyn Error + Send + Sync>>` and
/// a `LeadError<anyhow::Error>` into those types, which are no [`Error`] themselves.
///
/// The [`source`](Error::source) of [`Lock`](Self::Lock) is its [`LockError`]; of a
/// [`Body`](Self::Body) with a box, it is the source of the error in the box. That of another `E`
/// needs a `match`: [`flatten`](Self::flatten) gives the error itself.
impl<E: fmt::Debug + fmt::Display + 'static> Error for LeadError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let body: &dyn Any = match self {
            Self::Lock(error) => return Some(error),
            Self::Body(error) => error,
        };
        if let Some(error) = body.downcast_ref::<Box<dyn Error + Send + Sync>>() {
            error.source()
        } else if let Some(error) = body.downcast_ref::<Box<dyn Error>>() {
            error.source()
        } else {
            body.downcast_ref::<LockError>().and_then(Error::source)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    type Boxed = Box<dyn Error + Send + Sync>;

    /// The messages of an error and of its sources.
    fn chain(error: &(dyn Error + 'static)) -> Vec<String> {
        std::iter::successors(Some(error), |error| (*error).source()).map(ToString::to_string).collect()
    }

    /// As `anyhow::Error`: it can be shown, and does not implement `Error`.
    #[derive(Debug)]
    struct Shown;

    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(if f.alternate() { "shown: with its causes" } else { "shown" })
        }
    }

    #[test]
    fn each_message_is_in_the_chain_once() {
        let lock = LeadError::<Boxed>::Lock(LockError::NotLocked);
        assert_eq!(chain(&lock), ["the candidate cannot lead", &LockError::NotLocked.to_string()]);
        assert_eq!(format!("{lock:#}"), chain(&lock).join(": "));
        assert!(lock.source().is_some_and(|source| source.downcast_ref() == Some(&LockError::NotLocked)));

        let inner = || io::Error::other("the disk is full");
        let outer = || io::Error::other(LeadError::Body(Boxed::from(inner())));
        assert_eq!(chain(&LeadError::Body(Boxed::from(inner()))), ["the disk is full"]);
        assert_eq!(
            chain(&LeadError::Body(Boxed::from(LeadError::<Shown>::Lock(LockError::NotLocked)))).len(),
            2
        );
        assert_eq!(chain(&outer()), ["the disk is full"]);
    }

    #[test]
    fn what_only_can_be_shown_passes_a_question_mark() {
        fn fails<E: fmt::Debug + fmt::Display + Send + Sync + 'static>(error: E) -> Result<(), Boxed> {
            Err(LeadError::Body(error))?
        }
        assert_eq!(
            fails(Shown).map_err(|error| format!("{error} {error:#}")),
            Err("shown shown: with its causes".into())
        );
        assert!(fails("text").is_err() && fails(Boxed::from("text")).is_err());
    }
}
