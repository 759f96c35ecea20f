//! [`Heartbeat`]: whether the body of a leader still runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock::Moment;

/// The last sign of life of a body, for the engine: it stops renewing the lock of a body that has
/// given none for too long. Its thread may be blocked, so it cannot say so itself.
pub(crate) struct Heartbeat {
    last: AtomicU64,
    max_blocked: Duration,
    /// The present silence was logged.
    is_reported: AtomicBool,
}

impl Heartbeat {
    pub(crate) fn new(now: Moment, max_blocked: Duration) -> Self {
        Self { last: now.to_nanos().into(), max_blocked, is_reported: false.into() }
    }

    /// The body runs.
    pub(crate) fn beat(&self, now: Moment) {
        self.last.fetch_max(now.to_nanos(), Ordering::AcqRel);
        self.is_reported.store(false, Ordering::Relaxed);
    }

    /// For how long the body has given no sign of life, if that is too long.
    pub(crate) fn blocked_for(&self, now: Moment) -> Option<Duration> {
        let silence = now.since(Moment::from_nanos(self.last.load(Ordering::Acquire)));
        Some(silence).filter(|silence| *silence > self.max_blocked)
    }

    /// True once for each silence.
    pub(crate) fn is_to_be_reported(&self) -> bool {
        !self.is_reported.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_blocked_when_its_last_sign_of_life_is_too_old() {
        let (start, second) = (Moment::now(), Duration::from_secs(1));
        let heartbeat = Heartbeat::new(start, second);
        assert_eq!(heartbeat.blocked_for(start.after(second)), None);
        assert_eq!(heartbeat.blocked_for(start.after(2 * second)), Some(2 * second));
        assert!(heartbeat.is_to_be_reported() && !heartbeat.is_to_be_reported());
        heartbeat.beat(start.after(2 * second));
        heartbeat.beat(start);
        assert_eq!(heartbeat.blocked_for(start.after(3 * second)), None);
        assert!(heartbeat.is_to_be_reported(), "the next silence is another one");
    }
}
