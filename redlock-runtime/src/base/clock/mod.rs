//! The lease clock: monotonic, and going on while the host is suspended where the system has such a
//! clock.
//!
//! Time has one seam. What belongs to a manager (leases, waits, timers) asks its [`Clock`]; what
//! measures the machine (round trips, spans) asks [`Moment::now`]. Both end at
//! [`host::lease_clock`], which a simulated world replaces together with the sockets, the threads
//! and the random numbers of all its processes. [`RuntimeClock`] is no second world: it reads the
//! clock that a test of a user has paused, for the managers of that test only, while its server and
//! its sockets keep the time of the machine.

#[cfg(feature = "testing")]
mod of_runtime;

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::base::host;
pub(crate) use of_runtime::RuntimeClock;

/// A point on the lease clock, in nanoseconds since an arbitrary start. Never zero, so that an
/// `Option` of it is no larger: each held lock has several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(NonZeroU64);

impl Moment {
    pub(crate) fn now() -> Self {
        Self::from_nanos(host::lease_clock())
    }

    /// The moment as the number that the atomic of a lease keeps.
    pub(crate) fn to_nanos(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::new(nanos).unwrap_or(NonZeroU64::MIN))
    }

    /// This moment plus `duration`; saturates, so that an endless wait needs no special case.
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    pub(crate) fn before(self, duration: Duration) -> Self {
        Self::from_nanos(self.to_nanos().saturating_sub(nanos(duration)))
    }

    /// The last whole multiple of `step` on this clock; itself when the step is less than a
    /// nanosecond.
    pub(crate) fn rounded_down(self, step: Duration) -> Self {
        let past = self.to_nanos().checked_rem(nanos(step)).unwrap_or(0);
        Self::from_nanos(self.to_nanos() - past)
    }

    /// Returns how long from `earlier` to this moment; zero when it lies in the future.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.to_nanos().saturating_sub(earlier.to_nanos()))
    }
}

/// The clock of one manager, for its leases, waits and timers.
#[derive(Clone)]
pub(crate) enum Clock {
    System,
    /// The clock of a test's tokio runtime.
    Runtime(RuntimeClock),
}

impl Clock {
    /// With the feature `testing`, that of the runtime of this thread, if it is one that can be
    /// paused.
    pub(crate) fn of_caller() -> Self {
        RuntimeClock::of_caller().map_or(Self::System, Self::Runtime)
    }

    pub(crate) fn now(&self) -> Moment {
        match self {
            Self::System => Moment::now(),
            Self::Runtime(clock) => clock.now(),
        }
    }

    /// Returns when the clock of the system shows what this one shows at `at`, if both go on from
    /// `now`, on that of the system.
    pub(crate) fn on_system(&self, now: Moment, at: Moment) -> Moment {
        match self {
            Self::System => at,
            Self::Runtime(clock) => now.after(at.since(clock.now())),
        }
    }

    /// `None` for the clock of the system.
    pub(crate) fn of_runtime(&self) -> Option<&RuntimeClock> {
        match self {
            Self::System => None,
            Self::Runtime(clock) => Some(clock),
        }
    }

    /// The runtime that it belongs to, until that has ended.
    pub(crate) fn runtime(&self) -> Option<&Handle> {
        self.of_runtime().and_then(RuntimeClock::runtime)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Without the feature `testing`, every manager has the clock of the system.
#[cfg(not(feature = "testing"))]
mod of_runtime {
    use tokio::runtime::Handle;

    use super::Moment;

    /// There is none.
    #[derive(Clone)]
    pub(crate) enum RuntimeClock {}

    impl RuntimeClock {
        pub(crate) fn of_caller() -> Option<Self> {
            None
        }

        pub(crate) fn now(&self) -> Moment {
            match *self {}
        }

        pub(crate) fn runtime(&self) -> Option<&Handle> {
            match *self {}
        }

        pub(crate) fn is_paused(&self) -> bool {
            match *self {}
        }

        pub(crate) fn on_blocked(&self) {
            match *self {}
        }

        pub(crate) fn on_running(&self) {
            match *self {}
        }

        pub(crate) fn on_ended(&self) {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_far_away_saturates_instead_of_overflowing() {
        let now = Moment::now();
        assert!(now.after(Duration::MAX) > now);
        assert_eq!(now.since(now.after(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(now.after(Duration::from_secs(1)).since(now), Duration::from_secs(1));
    }

    #[test]
    fn without_the_feature_a_clock_takes_no_room() {
        assert_eq!(size_of::<Clock>() == 0, cfg!(not(feature = "testing")));
    }

    #[test]
    fn moments_of_one_step_round_to_the_same() {
        let step = Duration::from_millis(10);
        let start = Moment::now().rounded_down(step);
        assert_eq!(start.rounded_down(step), start);
        assert_eq!(start.after(Duration::from_nanos(9_999_999)).rounded_down(step), start);
        assert_eq!(start.after(step).rounded_down(step), start.after(step));
        assert_eq!(start.rounded_down(Duration::ZERO), start);
    }
}
