//! How many requests may be under way over one connection.
//!
//! What is under way cannot be taken back, and what comes later waits behind it. So where a server is slower than its
//! callers, the backlog stays here, where a call that ends before its turn is struck off; and where the server is only
//! far away, the window grows to what fills the way. As TCP Vegas does: the sign of a backlog is that answers take longer
//! than the quickest one did.

use std::time::Duration;

/// Enough to keep a server busy that is near.
const SMALLEST: usize = 256;

const LARGEST: usize = 32_000;

/// What an answer may take beyond twice the quickest: a server and a client that are busy otherwise for a moment.
const SLACK: Duration = Duration::from_millis(2);

pub(super) struct Window {
    size: usize,
    used: usize,
    quickest: Duration,
}

impl Window {
    pub(super) fn new(round_trip: Duration) -> Self {
        Self { size: SMALLEST, used: 0, quickest: round_trip }
    }

    pub(super) fn room(&self) -> usize {
        self.size.saturating_sub(self.used)
    }

    /// How long the quickest answer took.
    pub(super) fn quickest(&self) -> Duration {
        self.quickest
    }

    pub(super) fn sent(&mut self, requests: usize) {
        self.used += requests;
    }

    pub(super) fn answered(&mut self, requests: usize, took: Duration) {
        let was_full = self.room() == 0;
        self.used = self.used.saturating_sub(requests);
        self.quickest = self.quickest.min(took);
        if took > 2 * self.quickest + SLACK {
            self.size = (self.size - self.size / 4).max(SMALLEST);
        } else if was_full {
            self.size = (self.size + requests).min(LARGEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    #[test]
    fn it_fills_a_long_way_and_leaves_a_backlog_to_the_outbox() {
        let mut window = Window::new(ROUND_TRIP);
        let mut fill = |took: Duration| {
            let room = window.room();
            window.sent(room);
            assert_eq!(window.room(), 0);
            window.answered(room, took);
            window.room()
        };
        assert_eq!(fill(ROUND_TRIP), 2 * SMALLEST);
        for _ in 0..20 {
            fill(ROUND_TRIP);
        }
        assert_eq!(fill(ROUND_TRIP), LARGEST);
        assert_eq!(fill(3 * ROUND_TRIP), LARGEST - LARGEST / 4);
        for _ in 0..50 {
            fill(3 * ROUND_TRIP);
        }
        assert_eq!(fill(3 * ROUND_TRIP), SMALLEST);
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let mut window = Window::new(ROUND_TRIP);
        for _ in 0..100 {
            window.sent(1);
            window.answered(1, ROUND_TRIP);
        }
        assert_eq!(window.room(), SMALLEST);
    }
}
