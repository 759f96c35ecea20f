//! The floor of fencing tokens: a server whose clock is below it has lost data under the
//! connection, and raises its clock.
//!
//! Fencing tokens follow the server's time in microseconds. So the last token tells what the time
//! was, and our clock tells how long ago. The floor stays a little below that, or the script would
//! have to ask for the time with each grant; and an acquire carries it only every few milliseconds.
//! So data of the last 40 ms that replace the newest go unnoticed, but a replica takes longer to
//! become a primary. A hand-off needs no floor, unless its holder has drawn no fencing token: in
//! replaced data, the others do not hold the lock.
//!
//! The server never raises its clock above its own time, so a wrong floor does no harm.

use std::time::Duration;

use crate::ground::clock::Moment;

/// A server raises its clock to its time less this, so that reserved fencing tokens stay below its
/// time.
pub(super) const BEHIND: Duration = Duration::from_millis(10);

/// The floor is below the estimated clock by this: a server raises its clock every 10 ms at most.
const BELOW: Duration = BEHIND.saturating_mul(2);

/// How long after a comparison with the floor no acquire carries it.
const AGAIN: Duration = Duration::from_millis(5);

/// Above all fencing tokens: raises every clock.
pub(super) const ABOVE_ALL: u64 = 1 << 53;

/// Below all times of this age: a clock that is missing counts from zero.
pub(super) const LEAST: u64 = 1_000_000_000_000_000;

pub(super) struct FenceFloor {
    /// A fencing token, and when it was known.
    known: Option<(u64, Moment)>,
    /// A Cluster has a clock for each slot, and each acquire carries the floor.
    has_one_clock: bool,
    /// When the last granted request that carried the floor was sent.
    compared: Option<Moment>,
}

impl FenceFloor {
    /// `clock`: the server's clock when the connection began; zero in a Cluster.
    pub(super) fn new(clock: u64, now: Moment) -> Self {
        let has_one_clock = clock > 0;
        Self { known: has_one_clock.then_some((clock, now)), has_one_clock, compared: None }
    }

    /// The floor for an acquire that is sent now, if it must carry one.
    pub(super) fn at(&self, now: Moment) -> Option<u64> {
        let is_due = self.compared.is_none_or(|at| now.since(at) >= AGAIN);
        is_due.then(|| self.estimate(now))
    }

    /// False for a number that the server cannot have drawn: its clock is at the time of a later
    /// year.
    pub(super) fn may_be(&self, fence: u64) -> bool {
        fence >= if self.is_at_the_time() { LEAST } else { 1 }
    }

    fn is_at_the_time(&self) -> bool {
        self.known.is_some_and(|(known, _)| known >= LEAST)
    }

    /// The least fencing token that is good enough without a script, which would raise the clock:
    /// that of the last comparison, at most. `None` where most are below it: a Cluster has a clock for
    /// each slot, and few slots are used often.
    pub(super) fn least(&self, now: Moment) -> Option<u64> {
        let least = || self.estimate(now).saturating_sub(micros(AGAIN)).max(LEAST);
        (self.has_one_clock && self.is_at_the_time()).then(least)
    }

    /// A fencing token was below that: the next acquire carries the floor.
    pub(super) fn on_below(&mut self) {
        self.compared = None;
    }

    fn estimate(&self, now: Moment) -> u64 {
        let Some((fence, at)) = self.known else {
            return ABOVE_ALL;
        };
        fence.saturating_add(micros(now.since(at))).saturating_sub(micros(BELOW)).clamp(LEAST, ABOVE_ALL)
    }

    /// Learns from the fencing token of a granted request.
    pub(super) fn learn(&mut self, sent: Moment, now: Moment, fence: u64) {
        let was_compared = self.at(sent).is_some();
        if was_compared && self.has_one_clock {
            self.compared = Some(sent);
        }
        let is_late = fence > self.estimate(now).saturating_add(micros(BELOW));
        // The server's time is behind the estimate, or it would have raised its clock.
        let is_early = was_compared && fence < self.estimate(sent);
        if is_late || is_early {
            self.known = Some((fence, now));
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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

        fn next_fence(&mut self, now: Moment, floor: Option<u64>) -> u64 {
            self.clock += 1;
            if floor.is_some_and(|floor| self.clock < floor) {
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
            let mut floor = FenceFloor::new(START, server.started);
            let mut now = server.started;
            let mut last = START;
            for _ in 0..200_000 {
                let sent = now;
                now = now.after(Duration::from_micros(50));
                let fence = server.next_fence(now, floor.at(sent));
                assert!(fence > last && fence <= server.time(now), "{pace}");
                now = now.after(Duration::from_micros(50));
                floor.learn(sent, now, fence);
                last = fence;
            }
            // In 20 s.
            assert!((500..4100).contains(&server.raised), "raised {} times at {pace}", server.raised);
        }
    }

    #[test]
    fn lost_data_are_noticed() {
        let mut server = Server::new(1000);
        let mut floor = FenceFloor::new(START, server.started);
        let now = server.started.after(Duration::from_mins(1));
        let before = server.next_fence(now, floor.at(now));
        floor.learn(now, now, before);
        server.clock = START;
        let now = now.after(Duration::from_millis(40));
        assert!(server.next_fence(now, floor.at(now)) > before);
    }

    #[test]
    fn an_acquire_carries_the_floor_now_and_then_where_there_is_one_clock() {
        let now = Moment::now();
        let mut floor = FenceFloor::new(START, now);
        assert_eq!(floor.at(now), Some(START - 20_000));
        floor.learn(now, now, START + 1);
        assert_eq!(floor.at(now), None, "it was compared just now");
        assert_eq!(floor.at(now.after(AGAIN)), Some(START - 14_999));
    }

    #[test]
    fn in_a_cluster_each_acquire_carries_the_floor_and_the_first_one_raises() {
        let now = Moment::now();
        let mut floor = FenceFloor::new(0, now);
        assert_eq!(floor.at(now), Some(ABOVE_ALL));
        floor.learn(now, now, START);
        assert_eq!(floor.at(now), Some(START - 20_000));
    }
}
