//! [`Limit`]: how many may hold a lock at the same time.

/// What a caller demands while it holds a lock: that no more than so many do, itself included.
///
/// One rule covers all kinds of locks: a caller enters when fewer are inside than it and each of
/// them allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Limit(u32);

impl Limit {
    /// An exclusive lock.
    pub(crate) const ONE: Self = Self(1);

    /// A shared lock: as many as want.
    pub(crate) const NONE: Self = Self(0);

    /// So many permits; zero is [`NONE`](Self::NONE).
    pub(crate) const fn of(permits: u32) -> Self {
        Self(permits)
    }

    /// As scripts and members write it: 0 for none.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Others may be inside, too: the server counts them.
    pub(crate) const fn is_counted(self) -> bool {
        self.0 != 1
    }

    /// The kind of lock, for metrics and spans.
    #[cfg_attr(
        not(any(feature = "metrics", feature = "tracing")),
        expect(dead_code, reason = "read with the features `metrics` and `tracing`")
    )]
    pub(crate) const fn kind(self) -> &'static str {
        match self.0 {
            0 => "shared",
            1 => "exclusive",
            _ => "permits",
        }
    }

    /// The smaller one of both.
    pub(crate) fn least(self, other: Self) -> Self {
        match (self.0, other.0) {
            (0, _) => other,
            (_, 0) => self,
            (one, two) => Self(one.min(two)),
        }
    }

    /// There may be room for this one where there is none for the other.
    pub(crate) fn allows_more_than(self, other: Self) -> bool {
        other.0 != 0 && (self.0 == 0 || self.0 > other.0)
    }

    /// One more may enter where so many are inside, who together allow `of_those`.
    pub(crate) fn has_room(self, inside: u32, of_those: Self) -> bool {
        let least = self.least(of_those).0;
        inside == 0 || least == 0 || inside < least
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
        let room = |limit, inside, of_those| Limit::of(limit).has_room(inside, Limit::of(of_those));
        // Exclusive: with nobody else.
        assert!(room(1, 0, 0) && !room(1, 1, 0) && !room(0, 1, 1) && !room(5, 1, 1));
        // Shared: with each other, and with permits up to their number.
        assert!(room(0, 1_000, 0) && room(0, 4, 5) && !room(0, 5, 5));
        // Different numbers of permits.
        assert!(room(5, 2, 3) && !room(5, 3, 3) && room(3, 2, 5) && !room(3, 3, 5) && !room(5, 5, 0));
    }
}
