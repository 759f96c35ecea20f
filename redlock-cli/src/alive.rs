//! Whether a holder is alive: it is, if it renews its lease.

use std::fmt;
use std::time::Duration;

use redlocked::{LockInfo, LockManager};
use tokio::time::{Instant, sleep};

use crate::exit::Failure;
use crate::lock_text::{Span, holder};

const PAUSE: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(15);

/// What was seen of a holder for a while.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    /// Its lease became longer.
    Renewed { after: Duration },
    /// Its lease did not, although a holder that renews would have done it by now.
    Silent { watched: Duration },
    /// Its lease did not, but that may come later.
    NotYet { watched: Duration },
    /// Its lock has no end.
    Unlimited,
    /// Another caller has the lock, or none.
    Gone { next: Option<String> },
}

impl Alive {
    /// `None` where it is not known.
    pub(crate) fn is_renewed(&self) -> Option<bool> {
        match self {
            Self::Renewed { .. } => Some(true),
            Self::Silent { .. } => Some(false),
            Self::NotYet { .. } | Self::Unlimited | Self::Gone { .. } => None,
        }
    }
}

impl fmt::Display for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renewed { after } => write!(f, "yes, it renewed its lease after {}", Span(*after)),
            Self::Silent { watched } => {
                write!(f, "no renewal in {}: it has ended, hangs, or does not renew", Span(*watched))
            }
            Self::NotYet { watched } => {
                write!(f, "unknown, no renewal in {}: with this lease it may come later", Span(*watched))
            }
            Self::Unlimited => f.write_str("unknown, a lock without an end is not renewed"),
            Self::Gone { next: Some(next) } => write!(f, "unknown, by now {next} has the lock"),
            Self::Gone { next: None } => f.write_str("unknown, the lock is free by now"),
        }
    }
}

/// Watches the holder of `seen` until it renews, or for as long as a holder that renews would take.
///
/// A holder renews every third of its ttl, when two thirds are left: so after a third of what is
/// left now, at the latest. It has half, for a renewal that fails once.
pub(crate) async fn watch(locks: &LockManager, seen: &LockInfo) -> Result<Alive, Failure> {
    let Some(mut left) = seen.holder().expires_in() else {
        return Ok(Alive::Unlimited);
    };
    let (start, due) = (Instant::now(), left / 2);
    loop {
        sleep(PAUSE.min(due)).await;
        let lock = locks.inspect(seen.key()).await?;
        let Some(lock) = lock.as_ref().filter(|lock| lock.has_same_holder(seen)) else {
            return Ok(Alive::Gone { next: lock.as_ref().map(holder) });
        };
        let watched = start.elapsed();
        match lock.holder().expires_in() {
            Some(now) if now > left => return Ok(Alive::Renewed { after: watched }),
            Some(now) => left = now,
            None => return Ok(Alive::Unlimited),
        }
        if watched >= due {
            return Ok(Alive::Silent { watched });
        }
        if watched >= LONGEST {
            return Ok(Alive::NotYet { watched });
        }
    }
}
