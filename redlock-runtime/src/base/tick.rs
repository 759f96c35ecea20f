//! Ticks: the times at which the job of a fleet is due, and which one of them a request is for.
//!
//! A tick is named by its time, in ms since 1970. The server names it, by its own clock: the last full
//! multiple of the tick's length before the call, or the next one when the call comes a little early
//! for it. Calls that are less than [`early`] apart are for one tick, wherever in it they come.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::error::LockError;

/// A shorter tick is shorter than the clocks of a fleet are apart.
const SHORTEST: Duration = Duration::from_secs(1);

const LONGEST: Duration = Duration::from_secs(366 * DAY.as_secs());

const DAY: Duration = Duration::from_secs(86_400);

/// The record of a tick of a known length is kept for two of them, but not for less: a clock of the
/// server that leaps ahead for a while deletes no record that it does not reach.
const KEEPS_AT_LEAST: Duration = WEEK;

/// How long the record of a nominal time is kept, and how old one may be.
const KEEPS_NOMINAL: Duration = WEEK;

const WEEK: Duration = Duration::from_secs(7 * DAY.as_secs());

/// A caller is at most so early for its tick, as in tick.lua.
const MOST_EARLY: Duration = Duration::from_secs(150);

/// For so long after a grant, a caller that was dropped before its body began may be about to give
/// its tick back, as in tick.lua.
pub(crate) const SETTLES: Duration = Duration::from_secs(1);

/// A nominal time may be ahead of the server's by so much.
pub(crate) const AHEAD: Duration = DAY;

/// The nominal time of a tick, for [`LockRequest::tick_at`](crate::LockRequest::tick_at): a `SystemTime`,
/// and each type that converts to it, as the times of chrono, time and jiff do.
///
/// A trait of its own, so that the compiler's message says what to write.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
/// use redlocked::NominalTime;
///
/// // What a scheduler gives as seconds since 1970.
/// let fire_time = UNIX_EPOCH + Duration::from_secs(1_795_348_800);
/// assert_eq!(NominalTime::nominal(fire_time), fire_time);
/// ```
#[diagnostic::on_unimplemented(
    message = "the nominal time of a tick cannot be made of `{Self}`",
    label = "expected a `SystemTime`, or what converts to it, as the times of chrono, time and jiff do",
    note = "seconds since 1970 are `SystemTime::UNIX_EPOCH + Duration::from_secs(...)`; two machines cannot compare an `Instant`"
)]
pub trait NominalTime {
    /// This time.
    fn nominal(self) -> SystemTime;
}

#[diagnostic::do_not_recommend]
impl<T: Into<SystemTime>> NominalTime for T {
    fn nominal(self) -> SystemTime {
        self.into()
    }
}

/// The fate of a tick whose runner was killed, has lost its lock, or has failed.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use std::time::Duration;
/// use redlocked::{LockManager, TickMissed};
///
/// let locks = LockManager::connect("memory://tick-missed-example").await?;
/// let report = || locks.lock("report").tick(Duration::from_secs(3600)).tick_missed(TickMissed::Retry);
///
/// drop(report().acquire().await?); // as a runner that fails
/// let guard = report().acquire().await?; // so another one runs the same tick
/// guard.release().await?;
/// assert!(report().acquire().await.is_err(), "now the tick is done");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TickMissed {
    /// The tick is over as soon as one caller has begun it: at most one body runs for each tick,
    /// whatever happens to it.
    #[default]
    Skip,
    /// The tick is over when one caller has ended it well. Before that, every caller that comes for
    /// it, or waits for its runner, runs it: at least one body, and the ones after a failure may
    /// repeat what it did.
    Retry,
}

/// As a request says it, before it is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ticks {
    pub(crate) every: Option<Duration>,
    pub(crate) at: Option<SystemTime>,
    pub(crate) missed: Option<TickMissed>,
}

impl Ticks {
    pub(crate) fn checked(&self, key: &Arc<str>) -> Result<Tick, LockError> {
        let missed = self.missed.unwrap_or_default();
        let invalid = |reason: String| LockError::invalid(key, reason);
        match (self.every, self.at) {
            (Some(every), None) if (SHORTEST..=LONGEST).contains(&every) => {
                Ok(Tick { every_ms: in_ms(every), at_ms: None, missed })
            }
            (Some(every), None) => Err(invalid(format!(
                "a `tick` of {every:?} is out of range; it must be at least 1 s and at most 366 days"
            ))),
            (None, Some(at)) => {
                let since_1970 = at.duration_since(UNIX_EPOCH).map_err(|_| {
                    invalid("a `tick_at` before 1970 is no time at which a job is due".to_owned())
                })?;
                Ok(Tick { every_ms: 0, at_ms: Some(in_ms(since_1970)), missed })
            }
            (Some(_), Some(_)) => Err(invalid(
                "`tick` has the server name the tick, and `tick_at` names it: leave out one of them"
                    .to_owned(),
            )),
            (None, None) => Err(invalid(
                "`tick_missed` says what becomes of a tick, and there is none: give `tick` or `tick_at`, too"
                    .to_owned(),
            )),
        }
    }
}

/// The tick of one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tick {
    /// 0 for a nominal time.
    pub(crate) every_ms: u64,
    /// In ms since 1970: a nominal time, or what the server has told the first request.
    pub(crate) at_ms: Option<u64>,
    pub(crate) missed: TickMissed,
}

impl Tick {
    /// Returns how long after its time the record of a tick is kept. An older tick is not known any
    /// more.
    pub(crate) fn keeps(&self) -> Duration {
        if self.every_ms == 0 {
            return KEEPS_NOMINAL;
        }
        Duration::from_millis(self.every_ms).saturating_mul(2).max(KEEPS_AT_LEAST)
    }
}

/// The time of a tick.
pub(crate) fn time_of(at_ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(at_ms)).unwrap_or(UNIX_EPOCH)
}

/// In ms: how early a caller may be for a tick of this length, and how far two calls are apart, at
/// least, that are for two ticks. 0 for a nominal time.
pub(crate) fn early(every_ms: u64) -> u64 {
    in_ms(MOST_EARLY).min(every_ms / 4)
}

/// The full multiple of a tick's length that a call at this time is for, as tick.lua has it.
pub(crate) fn named(at_ms: u64, every_ms: u64) -> u64 {
    let at_ms = at_ms.saturating_add(early(every_ms));
    at_ms - at_ms.checked_rem(every_ms).unwrap_or(0)
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_for_the_last_full_tick_or_a_little_early_for_the_next_one() {
        for (at, expected) in
            [(0, 0), (499, 0), (749, 0), (750, 1000), (1749, 1000), (1750, 2000), (86_400_000, 86_400_000)]
        {
            assert_eq!(named(at, 1000), expected, "{at}");
        }
        for (before, expected) in [(150_000, 3_600_000), (150_001, 0)] {
            assert_eq!(named(3_600_000 - before, 3_600_000), expected, "{before}");
        }
    }

    #[test]
    fn a_tick_is_a_length_or_a_time() {
        let key: Arc<str> = "k".into();
        let every = |every| Ticks { every: Some(every), ..Ticks::default() };
        let at = |at| Ticks { at: Some(at), ..Ticks::default() };
        let hour = Duration::from_secs(3600);
        assert!(every(SHORTEST).checked(&key).is_ok() && every(LONGEST).checked(&key).is_ok());
        assert!(at(UNIX_EPOCH).checked(&key).is_ok());
        let both = Ticks { every: Some(hour), ..at(UNIX_EPOCH) };
        let neither = Ticks { missed: Some(TickMissed::Retry), ..Ticks::default() };
        for (ticks, says) in [
            (every(Duration::from_millis(999)), "at least 1 s"),
            (every(Duration::ZERO), "at least 1 s"),
            (every(Duration::MAX), "at most 366 days"),
            (at(UNIX_EPOCH - hour), "before 1970"),
            (both, "leave out one"),
            (neither, "there is none"),
        ] {
            let error = ticks.checked(&key).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{ticks:?}: {error}");
        }
    }

    #[test]
    fn a_record_outlives_two_ticks_and_a_week() {
        let keeps = |every: u64| Tick { every_ms: every, at_ms: None, missed: TickMissed::Skip }.keeps();
        assert_eq!(keeps(1000), WEEK);
        assert_eq!(keeps(7 * 86_400_000), 14 * DAY);
        assert_eq!(keeps(0), KEEPS_NOMINAL);
    }
}
