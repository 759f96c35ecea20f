//! A sorted set: members in the order of their scores.

use std::collections::{BTreeMap, VecDeque};

use super::resp::Bytes;

/// The members of equal score are in the order of their bytes.
#[derive(Clone, Default, Debug, PartialEq)]
pub(super) struct SortedSet {
    scores: BTreeMap<Bytes, f64>,
    order: VecDeque<(f64, Bytes)>,
}

impl SortedSet {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// How many members are in front of this one.
    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.place(self.score(member)?, member).ok()
    }

    fn place(&self, score: f64, member: &[u8]) -> Result<usize, usize> {
        self.order.binary_search_by(|(at, each)| at.total_cmp(&score).then_with(|| each[..].cmp(member)))
    }

    /// The score that the member had.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let before = self.remove(member);
        if let Err(place) = self.place(score, member) {
            self.order.insert(place, (score, member.to_vec()));
            self.scores.insert(member.to_vec(), score);
        }
        before
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.scores.remove(member)?;
        if let Ok(place) = self.place(score, member) {
            self.order.remove(place);
        }
        Some(score)
    }

    pub(super) fn pop_first(&mut self) -> Option<(f64, Bytes)> {
        let (score, member) = self.order.pop_front()?;
        self.scores.remove(&member);
        Some((score, member))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(score, member)| (&member[..], *score))
    }

    /// From one place to another, both counted from the end if they are negative.
    pub(super) fn range(&self, start: i64, stop: i64) -> impl Iterator<Item = (&[u8], f64)> {
        let length = i64::try_from(self.len()).unwrap_or(i64::MAX);
        let from_front = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
        let (start, stop) = (from_front(start).max(0), from_front(stop).min(length - 1));
        let count = usize::try_from(stop - start + 1).unwrap_or(0);
        let start = usize::try_from(start).unwrap_or(0).min(self.len());
        let count = count.min(self.len() - start);
        self.order.range(start..start + count).map(|(score, member)| (&member[..], *score))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_the_order_of_their_scores() {
        let mut set = SortedSet::default();
        for (member, score) in [("b", 2.0), ("a", 2.0), ("c", 1.0), ("a", 3.0)] {
            set.insert(member.as_bytes(), score);
        }
        let members = |start, stop| set.range(start, stop).map(|(member, _)| member[0]).collect::<Vec<_>>();
        assert_eq!(members(0, -1), b"cba");
        assert_eq!(members(-2, 5), b"ba");
        assert_eq!(members(2, 1), b"");
        assert_eq!(members(7, 9), b"");
        assert_eq!(set.rank(b"a"), Some(2));
        assert_eq!(set.pop_first(), Some((1.0, b"c".to_vec())));
        assert_eq!(set.remove(b"a"), Some(3.0));
        assert_eq!((set.rank(b"a"), set.len()), (None, 1));
    }
}
