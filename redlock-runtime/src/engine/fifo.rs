//! A FIFO queue whose members may leave before their turn. Each operation takes constant time on average, in any order.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::protocol::Id;

/// A member of the queue.
pub(super) trait Member {
    /// The name by which it leaves before its turn; `None` when it may not.
    fn id(&self) -> Option<Id>;
}

impl Member for Id {
    fn id(&self) -> Option<Id> {
        Some(*self)
    }
}

pub(super) struct Fifo<T> {
    /// `None` where a member has left; never in front.
    members: VecDeque<Option<T>>,
    /// Built when the first member leaves before its turn: in most queues none does.
    index: Option<Box<Index>>,
}

#[derive(Default)]
struct Index {
    /// The number of the front member: members are numbered as they come.
    front: u64,
    /// Members from this number on are not in `numbers` yet.
    unknown: u64,
    numbers: HashMap<Id, u64>,
    /// The members that have left from behind the front.
    gaps: usize,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { members: VecDeque::new(), index: None }
    }
}

impl<T: Member> Fifo<T> {
    pub(super) fn push(&mut self, member: T) {
        self.members.push_back(Some(member));
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.members.front()?.as_ref()
    }

    /// The last member, if it has not left.
    pub(super) fn last(&self) -> Option<&T> {
        self.members.back()?.as_ref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.members.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.members.len() - self.index.as_ref().map_or(0, |index| index.gaps)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let member = self.members.pop_front()??;
        if let Some(index) = &mut self.index {
            if let Some(id) = member.id() {
                index.numbers.remove(&id);
            }
            index.front += 1;
            self.close_gaps();
        }
        Some(member)
    }

    /// `id` leaves before its turn.
    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        if self.front()?.id() == Some(id) {
            return self.pop();
        }
        let index = self.index.get_or_insert_default();
        let known = usize::try_from(index.unknown - index.front).unwrap_or(usize::MAX);
        for member in self.members.iter().skip(known) {
            if let Some(id) = member.as_ref().and_then(T::id) {
                index.numbers.insert(id, index.unknown);
            }
            index.unknown += 1;
        }
        let number = index.numbers.remove(&id)?;
        let member = self.members.get_mut(usize::try_from(number - index.front).ok()?)?.take();
        index.gaps += 1;
        self.close_gaps();
        member
    }

    fn close_gaps(&mut self) {
        let Some(index) = &mut self.index else { return };
        while let Some(None) = self.members.front() {
            self.members.pop_front();
            index.front += 1;
            index.gaps -= 1;
        }
        // The front may pass members that are not indexed.
        index.unknown = index.unknown.max(index.front);
        if 2 * index.gaps > self.members.len() {
            self.members.retain(Option::is_some);
            self.index = None;
        } else if self.members.is_empty() {
            self.index = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_one_leaves_the_others_keep_their_order() {
        // Each number is coprime to the count: all leave, in another order each time.
        for step in [1, 7, 39, 99] {
            let (mut fifo, mut expected) = (Fifo::default(), Vec::new());
            for id in 0..100 {
                fifo.push(id);
                expected.push(id);
            }
            for nth in 1..=100 {
                let leaves = nth * step % 100;
                assert_eq!(fifo.remove(leaves), expected.contains(&leaves).then_some(leaves));
                expected.retain(|id| *id != leaves);
                if nth % 10 == 0 {
                    let (popped, first) = (fifo.pop(), expected.first().copied());
                    assert_eq!(popped, first);
                    expected.retain(|id| Some(*id) != first);
                    fifo.push(1000 + nth);
                    expected.push(1000 + nth);
                }
                assert_eq!(fifo.remove(5000), None);
                assert_eq!((fifo.front(), fifo.len()), (expected.first(), expected.len()));
                assert_eq!(fifo.is_empty(), expected.is_empty());
            }
            let left: Vec<Id> = std::iter::from_fn(|| fifo.pop()).collect();
            assert_eq!(left, expected);
        }
    }

    #[test]
    fn many_leave_from_the_end_as_quickly_as_from_the_front() {
        let mut fifo = Fifo::default();
        for id in 0..200_000 {
            fifo.push(id);
        }
        // A search from the front would take some 20 billion steps.
        for id in (0..200_000).rev() {
            assert_eq!(fifo.remove(id), Some(id));
        }
        assert!(fifo.is_empty());
    }
}
