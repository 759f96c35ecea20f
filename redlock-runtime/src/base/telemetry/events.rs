//! The callback of a manager, and its events.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::log;
use crate::base::error::LockError;
use crate::base::outcome::LostReason;

/// An event of a lock in this process, which the callback of
/// [`on_event`](crate::LockManagerBuilder::on_event) receives. Its `Debug` form names keys, never
/// a token.
///
/// # Examples
///
/// ```
/// use redlocked::LockEvent;
///
/// fn tell(event: &LockEvent) -> Option<String> {
///     match event {
///         LockEvent::Lost { key, reason, .. } => Some(format!("lost {key}: {reason}")),
///         LockEvent::Busy { error, .. } => Some(error.to_string()),
///         _ => None,
///     }
/// }
/// # let _ = tell;
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LockEvent<'a> {
    /// A call has the lock: the body, or the code behind `acquire`, is next. Once for each key of
    /// the call; not for a nested call that joins a lock of its caller.
    #[non_exhaustive]
    Acquired {
        /// The key, without the prefix.
        key: &'a str,
        /// [`LockGuard::fencing_token`](crate::LockGuard::fencing_token); `None` where none was
        /// drawn, because the body cannot see it.
        fencing_token: Option<u64>,
    },
    /// A lock was lost while it was held: another caller may be inside. Once for each call, with
    /// the first of its keys that was lost. A loss that only the release finds counts as well.
    #[non_exhaustive]
    Lost {
        /// Without the prefix.
        key: &'a str,
        /// Never [`LostReason::Released`], [`LostReason::HandedOver`] or [`LostReason::Forked`].
        reason: LostReason,
    },
    /// A call got an error that [is busy](LockError::is_busy): another caller has the lock, or has
    /// run the tick. Also where `on_busy` makes a value of it. Of each tick, all replicas except one
    /// report this: compare the [kind](LockError::kind) with
    /// [`TickTaken`](crate::LockErrorKind::TickTaken) to leave those out.
    #[non_exhaustive]
    Busy {
        /// It names the key and the holder.
        error: &'a LockError,
    },
    /// A [leader](crate::Election::lead) has stepped down; its lock is on its way to the next one.
    /// It began with [`Acquired`](Self::Acquired), whose fencing token is the term.
    #[non_exhaustive]
    TermEnded {
        /// The key, without the prefix.
        key: &'a str,
        /// [`Term::fencing_token`](crate::Term::fencing_token).
        term: u64,
        /// The end of the term.
        end: TermEnd,
        /// The error of the body, for [`TermEnd::Failed`].
        error: Option<&'a str>,
    },
}

/// The end of a term of a [leader](crate::Election::lead).
///
/// # Examples
///
/// ```
/// use redlocked::election::TermEnd;
/// use redlocked::LockEvent;
///
/// fn page(event: &LockEvent) -> bool {
///     matches!(event, LockEvent::TermEnded { end: TermEnd::Failed | TermEnd::Lost, .. })
/// }
/// # let _ = page;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TermEnd {
    /// The body has returned a value.
    Returned,
    /// The body has returned an error.
    Failed,
    /// The body has [resigned](crate::Term::resign).
    Resigned,
    /// The lock was lost.
    Lost,
    /// The manager was [shut down](crate::LockManager::shutdown).
    ManagerClosed,
    /// The future of [`lead`](crate::Election::lead) was dropped.
    Dropped,
    /// The body, or other code of its task, panicked. This process is no longer a candidate, unless
    /// the program calls [`lead`](crate::Election::lead) again.
    Panicked,
}

impl TermEnd {
    /// The name of the end, as in the label `end` of metrics: `returned`, `failed`, `resigned`,
    /// `lost`, `manager_closed`, `dropped` or `panicked`.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(redlocked::election::TermEnd::Resigned.as_str(), "resigned");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Returned => "returned",
            Self::Failed => "failed",
            Self::Resigned => "resigned",
            Self::Lost => "lost",
            Self::ManagerClosed => "manager_closed",
            Self::Dropped => "dropped",
            Self::Panicked => "panicked",
        }
    }
}

type Callback = dyn Fn(&LockEvent<'_>) + Send + Sync;

/// The callback of a manager, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Events(Option<Arc<Callback>>);

impl Events {
    pub(crate) fn new(callback: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn acquired(&self, key: &str, fence: u64) {
        let fencing_token = Some(fence).filter(|fence| *fence > 0);
        self.tell(&LockEvent::Acquired { key, fencing_token });
    }

    pub(crate) fn fails(&self, error: &LockError) {
        if error.is_busy() {
            self.tell(&LockEvent::Busy { error });
        }
    }

    pub(super) fn term_ended(&self, key: &str, term: u64, end: TermEnd, error: Option<&dyn fmt::Display>) {
        if self.0.is_some() {
            let error = error.map(ToString::to_string);
            self.tell(&LockEvent::TermEnded { key, term, end, error: error.as_deref() });
        }
    }

    fn tell(&self, event: &LockEvent<'_>) {
        if let Some(callback) = &self.0
            // A panic would end the engine, which tells of losses, and all its locks.
            && catch_unwind(AssertUnwindSafe(|| callback(event))).is_err()
        {
            log::callback_panicked();
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a callback" } else { "none" })
    }
}

/// The loss of one hold, which the callback receives once.
pub(super) struct Loss {
    events: Events,
    is_told: AtomicBool,
}

impl Loss {
    pub(super) fn new(events: &Events) -> Self {
        Self { events: events.clone(), is_told: AtomicBool::new(false) }
    }

    pub(super) fn tell(&self, key: &str, reason: LostReason) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            self.events.tell(&LockEvent::Lost { key, reason });
        }
    }
}
