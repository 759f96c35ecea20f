//! The floor of fencing tokens: a server whose clock is below it has lost data under the
//! connection, and raises its clock.
//!
//! Fencing tokens follow the server's time in microseconds. So the last token tells what the time
//! was, and our clock tells how long ago. The floor stays a little below that, or the script would
//! have to ask for the time with each grant. Each script that may draw a number carries it; a lock
//! that is taken without a script compares its number with it, and every few milliseconds a script
//! draws the number in place of the plain command, so that the clock stays near the time. Where data
//! of the last 40 ms replace the newest, only the numbers count that this manager has seen, and a
//! replica takes longer to become a primary.
//!
//! The server never raises its clock above its own time for an estimate, so a wrong one does no harm.
//! A number that this manager has seen is no estimate: the server's next one is above it in any case.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::fence;
use crate::engine::redis::wire::command::{Command, Word};

/// A server raises its clock to its time less this, so that reserved fencing tokens stay below its
/// time.
pub(crate) const BEHIND: Duration = Duration::from_millis(10);

/// The floor is below the estimated clock by this: a server raises its clock every 10 ms at most.
const BELOW: Duration = BEHIND.saturating_mul(2);

/// How long after a comparison with the floor locks are taken without a script.
const AGAIN: Duration = Duration::from_millis(5);

/// A clock that is ahead of the estimate by more, and by a thousandth of the time since, is ahead of
/// the server's time.
const LEAP: Duration = Duration::from_secs(1);

/// Raises every clock.
pub(crate) const ABOVE_ALL: u64 = fence::ABOVE_ALL;

/// Below all times of this age: a clock that is missing counts from zero.
pub(crate) const LEAST: u64 = 1_000_000_000_000_000;

/// The number with which a script compares the number that it draws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Floor {
    /// So high the clock should be by now.
    Estimate(u64),
    /// This manager has seen this number: the next one is above it, whatever the server's time is.
    Seen(u64),
}

impl Floor {
    /// `seen`: the largest number that is known to have been drawn from this clock.
    pub(crate) fn above(estimate: u64, seen: u64) -> Self {
        if seen < estimate { Self::Estimate(estimate) } else { Self::Seen(seen) }
    }
}

impl Word for Floor {
    /// The half tells the server that the number before it was drawn.
    fn write(self, command: &mut Command<'_>) {
        match self {
            Self::Estimate(floor) => command.arg(floor),
            Self::Seen(seen) => command.arg(format_args!("{seen}.5")),
        };
    }
}

pub(crate) struct FenceFloor {
    /// A fencing token, and when it was known.
    known: Option<(u64, Moment)>,
    /// A Cluster has a clock for each slot, and no lock is taken without a script.
    has_one_clock: bool,
    /// When the last granted request that carried the floor was sent.
    compared: Option<Moment>,
    /// The next script raises the clock to the server's time.
    raises: bool,
    /// The server's time is behind a number that it has given: that number alone is the floor.
    is_behind: bool,
}

impl FenceFloor {
    /// `clock`: the server's clock of fencing tokens when the connection began; zero in a Cluster.
    /// `time`: its time then. A clock may be ahead of it: the time was set back.
    pub(crate) fn new(clock: u64, time: Option<u64>, now: Moment) -> Self {
        let has_one_clock = clock > 0;
        let known = clock.min(time.unwrap_or(clock).max(1));
        Self {
            known: has_one_clock.then_some((known, now)),
            has_one_clock,
            compared: None,
            raises: false,
            is_behind: false,
        }
    }

    /// The next number must be drawn by a script, which compares the clock with the floor.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.compared.is_none_or(|at| now.since(at) >= AGAIN)
    }

    /// False for a number that the server cannot have drawn: its clock is at the time of a later
    /// year.
    pub(crate) fn may_be(&self, fence: u64) -> bool {
        fence >= if self.is_at_the_time() { LEAST } else { 1 }
    }

    fn is_at_the_time(&self) -> bool {
        self.known.is_some_and(|(known, _)| known >= LEAST)
    }

    /// The least fencing token that is good enough without a script, which would raise the clock:
    /// that of the last comparison, at most, and above the one that was `seen`. `None` where most are
    /// below it: a Cluster has a clock for each slot, and few slots are used often.
    pub(crate) fn least(&self, now: Moment, seen: u64) -> Option<u64> {
        let least = || self.estimate(now).saturating_sub(micros(AGAIN)).max(LEAST).max(seen + 1);
        (self.has_one_clock && self.is_at_the_time() && !self.raises).then(least)
    }

    /// A fencing token was below that: the next lock is taken by a script.
    pub(crate) fn on_below(&mut self) {
        self.compared = None;
    }

    /// A script has drawn a number that is not above one that was seen.
    pub(crate) fn on_undercut(&mut self, now: Moment, fence: u64) {
        self.known = Some((fence, now));
        (self.compared, self.raises, self.is_behind) = (None, false, true);
    }

    /// A push had such a number, or one far below the server's time.
    pub(crate) fn on_undercut_push(&mut self) {
        (self.compared, self.raises) = (None, true);
    }

    /// The server's time is behind a number that it has given.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// A little below what the clock should be now.
    pub(crate) fn estimate(&self, now: Moment) -> u64 {
        let Some((fence, at)) = self.known.filter(|_| !self.raises) else {
            return ABOVE_ALL;
        };
        fence.saturating_add(micros(now.since(at))).saturating_sub(micros(BELOW)).clamp(LEAST, ABOVE_ALL)
    }

    /// Learns from the fencing token of a granted request.
    pub(crate) fn learn(&mut self, sent: Moment, now: Moment, fence: u64) {
        let was_compared = self.is_due(sent);
        if was_compared && self.has_one_clock {
            self.compared = Some(sent);
        }
        // What is much larger is ahead of the server's time: an estimate that follows it would be, too,
        // and a server cannot raise its clock to that.
        let ahead = fence.saturating_sub(self.estimate(now).saturating_add(micros(BELOW)));
        let drift = || self.known.map_or(0, |(_, at)| micros(now.since(at)) / 1000);
        let is_late = ahead > 0 && (ahead <= drift().saturating_add(micros(LEAP)) || !self.is_at_the_time());
        // The server's time is behind the estimate, or it would have raised its clock.
        let is_early = was_compared && fence < self.estimate(sent);
        if is_late || is_early {
            self.known = Some((fence, now));
        }
        (self.raises, self.is_behind) = (false, false);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redis::wire::command::words_of;

    const START: u64 = 1_795_000_000_000_000;

    /// A server with fence.lua.
    struct Server {
        started: Moment,
        /// The speed of its clock, in thousandths of ours.
        pace: u64,
        clock: u64,
        raised: u32,
    }

    impl Server {
        fn new(pace: u64) -> Self {
            Self { started: Moment::now(), pace, clock: START, raised: 0 }
        }

        fn time(&self, now: Moment) -> u64 {
            START + micros(now.since(self.started)) * self.pace / 1000
        }

        fn next_fence(&mut self, now: Moment, floor: u64) -> u64 {
            self.clock += 1;
            if self.clock < floor {
                self.raised += 1;
                self.clock = self.clock.max(self.time(now) - micros(BEHIND));
            }
            self.clock
        }
    }

    #[test]
    fn a_clock_is_raised_now_and_then_and_never_above_the_time() {
        for pace in [990, 1000, 1010] {
            let mut server = Server::new(pace);
            let mut floor = FenceFloor::new(START, None, server.started);
            let mut now = server.started;
            let mut last = START;
            for _ in 0..200_000 {
                let sent = now;
                now = now.after(Duration::from_micros(50));
                let fence = server.next_fence(now, floor.estimate(sent));
                assert!(fence > last && fence <= server.time(now), "{pace}");
                now = now.after(Duration::from_micros(50));
                floor.learn(sent, now, fence);
                last = fence;
            }
            // In 20 s, and by 400,000 scripts. A server whose clock is slower than ours is asked for the time more often.
            assert!((500..8200).contains(&server.raised), "raised {} times at {pace}", server.raised);
        }
    }

    #[test]
    fn lost_data_are_noticed() {
        let mut server = Server::new(1000);
        let mut floor = FenceFloor::new(START, None, server.started);
        let now = server.started.after(Duration::from_mins(1));
        let before = server.next_fence(now, floor.estimate(now));
        floor.learn(now, now, before);
        server.clock = START;
        let now = now.after(Duration::from_millis(40));
        assert!(server.next_fence(now, floor.estimate(now)) > before);
    }

    #[test]
    fn a_script_takes_a_lock_now_and_then_and_each_one_carries_the_floor() {
        let now = Moment::now();
        let mut floor = FenceFloor::new(START, None, now);
        assert!(floor.is_due(now) && floor.estimate(now) == START - 20_000);
        floor.learn(now, now, START + 1);
        assert!(!floor.is_due(now), "it was compared just now");
        assert_eq!(floor.least(now, 0), Some(START - 24_999));
        assert_eq!(floor.least(now, START), Some(START + 1), "it was seen");
        let later = now.after(AGAIN);
        assert!(floor.is_due(later) && floor.estimate(later) == START - 14_999);
    }

    #[test]
    fn in_a_cluster_a_script_takes_each_lock_and_the_first_one_raises() {
        let now = Moment::now();
        let mut floor = FenceFloor::new(0, None, now);
        assert_eq!(floor.estimate(now), ABOVE_ALL);
        floor.learn(now, now, START);
        assert_eq!((floor.is_due(now), floor.estimate(now)), (true, START - 20_000));
        assert_eq!(floor.least(now, START), None);
    }

    #[test]
    fn a_clock_that_is_ahead_of_the_time_leaves_the_estimate_at_the_time() {
        let now = Moment::now();
        let mut floor = FenceFloor::new(START + 60_000_000, Some(START), now);
        assert_eq!(floor.estimate(now), START - 20_000);
        floor.learn(now, now, START + 60_000_001);
        assert_eq!(floor.estimate(now), START - 20_000);
        // Our clock is slower by a thousandth.
        let later = now.after(Duration::from_hours(1));
        floor.learn(later, later, START + 3_603_600_000);
        assert_eq!(floor.estimate(later), START + 3_603_580_000);
    }

    #[test]
    fn a_number_that_was_seen_is_told_where_it_is_above_the_estimate() {
        let written = |floor: Floor| {
            let mut written = Vec::new();
            let mut command = Command::begin(&mut written, 0);
            command.arg(floor);
            command.end();
            words_of(&written)
        };
        assert_eq!(written(Floor::above(START, START - 1)), [START.to_string()]);
        assert_eq!(written(Floor::above(START, START)), [format!("{START}.5")]);
    }
}
