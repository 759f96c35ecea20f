//! How many requests may be in flight over one connection.
//!
//! A request in flight cannot be taken back, and later ones wait behind it. If a server is slower
//! than its callers, the backlog stays in the client, which removes a call that ends early. If the
//! server is only far away, the window grows until it fills the round trip. As in TCP Vegas, a
//! reply that takes longer than the quickest one shows that there is a backlog.

use std::time::Duration;

use crate::base::clock::Moment;

/// A server that has not replied for long gets at most so many requests when it replies again.
const SMALLEST: usize = 256;

const LARGEST: usize = 32_000;

/// How much longer than twice the quickest reply a reply may take. A server nearby executes a few
/// thousand requests in that time. So it has work while the callers of the last replies send their
/// next requests.
const SLACK: Duration = Duration::from_millis(20);

/// The window becomes smaller only when all replies were late for so long. A shorter delay is a
/// hiccup of the server, the client or the network.
const HICCUP: Duration = Duration::from_millis(100);

pub(super) struct Window {
    size: usize,
    used: usize,
    quickest: Duration,
    /// When a reply was last in time, or the window became smaller.
    fitted: Moment,
}

impl Window {
    pub(super) fn new(round_trip: Duration, now: Moment) -> Self {
        Self { size: SMALLEST, used: 0, quickest: round_trip, fitted: now }
    }

    pub(super) fn room(&self) -> usize {
        self.size.saturating_sub(self.used)
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn sent(&mut self, requests: usize) {
        self.used += requests;
    }

    pub(super) fn answered(&mut self, requests: usize, sent: Moment, now: Moment) {
        let (was_full, took) = (self.room() == 0, now.since(sent));
        self.used = self.used.saturating_sub(requests);
        self.quickest = self.quickest.min(took);
        if took <= 2 * self.quickest + SLACK {
            self.fitted = now;
            if was_full {
                self.size = (self.size + requests).min(LARGEST);
            }
        } else if now.since(self.fitted) >= HICCUP {
            self.fitted = now;
            self.size = (self.size - self.size / 4).max(SMALLEST);
        }
    }

    /// Returns the time that the quickest reply took.
    pub(super) fn quickest(&self) -> Duration {
        self.quickest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    /// The room after the window was filled so often, and each time all was answered after `took`
    /// for so many requests.
    fn filled(window: &mut Window, times: usize, took: impl Fn(u32) -> Duration) -> usize {
        let mut now = window.fitted;
        for _ in 0..times {
            let (room, sent) = (window.room(), now);
            window.sent(room);
            assert_eq!(window.room(), 0);
            now = now.after(took(room.try_into().unwrap_or(u32::MAX)));
            window.answered(room, sent, now);
        }
        window.room()
    }

    #[test]
    fn it_fills_a_long_round_trip_and_leaves_a_backlog_to_the_outbox() {
        let mut window = Window::new(ROUND_TRIP, Moment::now());
        assert_eq!(filled(&mut window, 1, |_| ROUND_TRIP), 2 * SMALLEST);
        assert_eq!(filled(&mut window, 20, |_| ROUND_TRIP), LARGEST);
        assert_eq!(filled(&mut window, 1, |_| 3 * ROUND_TRIP), LARGEST - LARGEST / 4);
        assert_eq!(filled(&mut window, 50, |_| 3 * ROUND_TRIP), SMALLEST);
    }

    #[test]
    fn a_server_that_is_near_has_work_for_milliseconds_and_a_slow_one_the_smallest_window() {
        for (micros, expected) in [(4, 5_000..10_100), (8, 2_500..5_100), (100, SMALLEST..SMALLEST + 1)] {
            let mut window = Window::new(Duration::from_micros(100), Moment::now());
            for _ in 0..50 {
                let room = filled(&mut window, 1, |requests| requests * Duration::from_micros(micros));
                assert!(room < expected.end, "{room} at {micros} us each");
            }
            let room = filled(&mut window, 1, |requests| requests * Duration::from_micros(micros));
            assert!(expected.contains(&room), "{room} at {micros} us each");
        }
    }

    #[test]
    fn a_hiccup_does_not_make_it_smaller() {
        let now = Moment::now();
        let mut window = Window::new(Duration::ZERO, now);
        filled(&mut window, 1, |_| Duration::ZERO);
        let late = now.after(HICCUP / 2);
        window.sent(2 * SMALLEST);
        window.answered(SMALLEST, now, late);
        assert_eq!(window.room(), SMALLEST);
        window.answered(SMALLEST, now, late.after(HICCUP));
        assert_eq!(window.room(), 2 * SMALLEST - SMALLEST / 2);
    }

    #[test]
    fn a_window_that_is_never_full_does_not_grow() {
        let now = Moment::now();
        let mut window = Window::new(ROUND_TRIP, now);
        for _ in 0..100 {
            window.sent(1);
            window.answered(1, now, now.after(ROUND_TRIP));
        }
        assert_eq!(window.room(), SMALLEST);
    }
}
