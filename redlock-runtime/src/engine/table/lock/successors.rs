//! The followers of a lock: the waiters of this process that come next in the queue on the server, as its grant has named them.

use std::time::Duration;

use crate::engine::table::lock::waiting::Waiting;
use crate::ground::clock::Moment;
use crate::ground::token::Token;

/// So long after its grant, a lock is passed on. Then the server gets it back.
const LONGEST: Duration = Duration::from_millis(10);

pub(in crate::engine::table) struct Followers {
    until: Moment,
    /// The secrets of their tokens.
    secrets: Box<str>,
    /// Where those begin that are left.
    left: usize,
    /// So many have had the lock, or have left when it was their turn.
    served: u32,
}

impl Followers {
    pub(in crate::engine::table) fn new(now: Moment, secrets: &str) -> Self {
        Self { until: now.after(LONGEST), secrets: secrets.into(), left: 0, served: 0 }
    }

    /// True when `next` is the first one of those that still wait: its turn has come.
    pub(in crate::engine::table) fn serve(&mut self, now: Moment, next: &Waiting) -> bool {
        // An answer to one that asks may be from before its turn.
        if now >= self.until || !next.sleeps_in_queue() {
            return false;
        }
        let mut left = self.secrets.get(self.left..).unwrap_or_default();
        let is_first =
            std::iter::from_fn(|| Token::take_secret(&mut left)).any(|secret| secret == next.token.secret());
        self.left = self.secrets.len() - left.len();
        self.served = self.served.saturating_add(is_first.into());
        is_first
    }

    /// The others get the lock from the server: what it has said of its queue may not be true any more.
    pub(in crate::engine::table) fn end(&mut self) {
        self.left = self.secrets.len();
    }

    /// For how many releases the last one counts: for one in each millisecond since the grant, and one for each holder at most. A
    /// lock that is left free for foreign clients idles for some milliseconds: counted by holders alone, short bodies would idle
    /// for a fifth of the time.
    pub(in crate::engine::table) fn releases(&self, now: Moment) -> u32 {
        let lasted = LONGEST.saturating_sub(self.until.since(now));
        let millis = u32::try_from(lasted.as_millis()).unwrap_or(u32::MAX);
        self.served.min(millis).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_counts_for_each_holder_but_for_one_in_each_millisecond_at_most() {
        let start = Moment::now();
        let mut followers = Followers::new(start, "");
        let counts =
            |followers: &Followers, millis| followers.releases(start.after(Duration::from_millis(millis)));
        assert_eq!(counts(&followers, 5), 1, "no follower has had it");
        followers.served = 3;
        assert_eq!([0, 2, 3, 5, 1000].map(|millis| counts(&followers, millis)), [1, 3, 4, 4, 4]);
        followers.served = 31;
        assert_eq!(counts(&followers, 1000), 11);
    }
}
