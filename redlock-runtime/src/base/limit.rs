//! [`Limit`]: how many may hold a lock at the same time.

use std::fmt;

/// The limit that a caller sets while it holds a lock: at most so many holders, itself included,
/// and for how many of them it counts.
///
/// One rule covers all kinds of locks: a caller enters when it and those inside count for no more
/// than it and each of them allows. No number is above 65,535, so that it is small.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Limit {
    permits: u16,
    /// One, except for a caller that takes several permits.
    take: u16,
}

impl Limit {
    /// An exclusive lock.
    pub(crate) const ONE: Self = Self { permits: 1, take: 1 };

    /// A shared lock: as many as want.
    pub(crate) const NONE: Self = Self { permits: 0, take: 1 };

    /// So many permits; zero is [`NONE`](Self::NONE).
    pub(crate) fn of(permits: u32) -> Self {
        Self { permits: small(permits), take: 1 }
    }

    /// Returns this limit for a caller that takes so many permits.
    pub(crate) fn taking(self, take: u32) -> Self {
        Self { take: small(take), ..self }
    }

    /// From a member of the queue or of the holders, as [`Display`](fmt::Display) writes it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (permits, take) = text.split_once('x').unwrap_or((text, "1"));
        Some(Self::of(permits.parse().ok()?).taking(take.parse().ok()?))
    }

    /// As scripts write it: 0 for none.
    pub(crate) fn number(self) -> u32 {
        self.permits.into()
    }

    /// Returns how many permits its caller takes.
    pub(crate) fn take(self) -> u32 {
        self.take.into()
    }

    /// Others may be inside, too: the server counts them.
    pub(crate) const fn is_counted(self) -> bool {
        self.permits != 1
    }

    /// The kind of lock, for metrics and spans.
    #[cfg_attr(
        not(any(feature = "metrics", feature = "tracing")),
        expect(dead_code, reason = "read with the features `metrics` and `tracing`")
    )]
    pub(crate) const fn kind(self) -> &'static str {
        match self.permits {
            0 => "shared",
            1 => "exclusive",
            _ => "permits",
        }
    }

    /// The smaller number of both.
    pub(crate) fn least(self, other: Self) -> Self {
        let permits = match (self.permits, other.permits) {
            (0, number) | (number, 0) => number,
            (one, two) => one.min(two),
        };
        Self { permits, take: 1 }
    }

    /// There may be room for this one where there is none for the other.
    pub(crate) fn allows_more_than(self, other: Self) -> bool {
        let is_lighter = self.is_counted() && self.take < other.take;
        is_lighter || other.permits != 0 && (self.permits == 0 || self.permits > other.permits)
    }

    /// How many may be inside where callers demand this limit. A central one counts in the place of any
    /// number of permits, and neither of an exclusive lock nor of a shared one.
    pub(crate) fn allowed(self, central: Option<u32>) -> Self {
        match central {
            Some(central) if self.permits > 1 => Self { permits: small(central), ..self },
            _ => self,
        }
    }

    /// This one takes more permits than the central limit allows.
    pub(crate) fn takes_more_than(self, central: Option<u32>) -> bool {
        self.permits > 1 && central.is_some_and(|central| self.take > 1 && self.take() > central)
    }

    /// This one may enter where those inside have so many permits, and together allow `of_those`.
    pub(crate) fn has_room(self, taken: u32, of_those: Self, central: Option<u32>) -> bool {
        let least = self.least(of_those).allowed(central).number();
        taken == 0 || least == 0 || taken.saturating_add(self.take()) <= least
    }
}

/// A number of permits.
fn small(permits: u32) -> u16 {
    u16::try_from(permits).unwrap_or(u16::MAX)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { permits, take: 1 } => permits.fmt(f),
            Self { permits, take } => write!(f, "{permits}x{take}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_more_than_each() {
        let more = |one, other| Limit::of(one).allows_more_than(Limit::of(other));
        assert!(more(0, 1) && more(0, 5) && more(5, 1) && more(5, 3));
        assert!(!more(0, 0) && !more(1, 0) && !more(3, 5) && !more(3, 3));
    }

    #[test]
    fn the_smallest_number_of_those_inside_and_the_newcomer_counts() {
        let room = |limit, inside, of_those| Limit::of(limit).has_room(inside, Limit::of(of_those), None);
        // Exclusive: with nobody else.
        assert!(room(1, 0, 0) && !room(1, 1, 0) && !room(0, 1, 1) && !room(5, 1, 1));
        // Shared: with each other, and with permits up to their number.
        assert!(room(0, 1_000, 0) && room(0, 4, 5) && !room(0, 5, 5));
        // Different numbers of permits.
        assert!(room(5, 2, 3) && !room(5, 3, 3) && room(3, 2, 5) && !room(3, 3, 5) && !room(5, 5, 0));
    }
    #[test]
    fn one_that_takes_several_permits_counts_for_as_many() {
        let room =
            |take, taken, of_those| Limit::of(10).taking(take).has_room(taken, Limit::of(of_those), None);
        assert!(room(3, 7, 10) && !room(4, 7, 10) && room(10, 0, 10) && !room(1, 10, 10));
        assert!(room(3, 3, 6) && !room(3, 4, 6), "those inside allow fewer");
        assert!(Limit::of(10).allows_more_than(Limit::of(10).taking(2)));
        assert!(!Limit::of(10).taking(2).allows_more_than(Limit::of(10)));
        assert_eq!(Limit::of(10).taking(3).least(Limit::NONE), Limit::of(10));
    }

    #[test]
    fn a_central_limit_counts_in_the_place_of_permits_alone() {
        let room = |limit, inside, of_those| Limit::of(limit).has_room(inside, Limit::of(of_those), Some(4));
        // More than the callers say, and fewer.
        assert!(room(2, 3, 2) && !room(2, 4, 2) && room(9, 3, 9) && !room(9, 4, 9));
        // Permits beside readers, exclusive ones beside nobody, and readers beside each other.
        assert!(room(2, 3, 0) && !room(0, 4, 2) && !room(1, 1, 2) && !room(2, 1, 1) && room(0, 1_000, 0));
        let (two, five) = (Limit::of(9).taking(2), Limit::of(9).taking(5));
        assert!(two.has_room(2, Limit::of(9), Some(4)) && !two.has_room(3, Limit::of(9), Some(4)));
        assert!(
            five.takes_more_than(Some(4)) && !two.takes_more_than(Some(4)) && !five.takes_more_than(None)
        );
    }

    #[test]
    fn one_permit_is_written_as_ever() {
        for (limit, text) in [(Limit::of(10), "10"), (Limit::NONE, "0"), (Limit::of(10).taking(3), "10x3")] {
            assert_eq!((limit.to_string().as_str(), Limit::parse(text)), (text, Some(limit)));
        }
        assert!(["", "x", "10x", "x3", "10x3x", "a"].map(Limit::parse).iter().all(Option::is_none));
    }
}
