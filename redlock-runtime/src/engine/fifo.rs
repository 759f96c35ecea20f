//! A FIFO queue whose items may leave before their turn. Each operation takes constant time on
//! average, in any order.

use std::collections::VecDeque;

use crate::base::host::HashMap;

use super::protocol::Id;

/// An item of the queue.
pub(super) trait Item {
    /// The name by which it leaves before its turn; `None` when it may not.
    fn id(&self) -> Option<Id>;
}

impl Item for Id {
    fn id(&self) -> Option<Id> {
        Some(*self)
    }
}

pub(super) struct Fifo<T> {
    /// `None` where an item has left; never in front.
    items: VecDeque<Option<T>>,
    /// Built when the first item leaves before its turn: in most queues none does.
    index: Option<Box<Index>>,
}

#[derive(Default)]
struct Index {
    /// The number of the front item: items are numbered as they come.
    front: u64,
    /// Items from this number on are not in `numbers` yet.
    unknown: u64,
    numbers: HashMap<Id, u64>,
    /// The items that have left from behind the front.
    gaps: usize,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), index: None }
    }
}

impl<T: Item> Fifo<T> {
    pub(super) fn push(&mut self, item: T) {
        self.items.push_back(Some(item));
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.items.front()?.as_ref()
    }

    /// The last item, if it has not left.
    pub(super) fn last(&self) -> Option<&T> {
        self.items.back()?.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.index.as_ref().map_or(0, |index| index.gaps)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()??;
        if let Some(index) = &mut self.index {
            if let Some(id) = item.id() {
                index.numbers.remove(&id);
            }
            index.front += 1;
            self.close_gaps();
        }
        Some(item)
    }

    /// `id` leaves before its turn.
    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        if self.front()?.id() == Some(id) {
            return self.pop();
        }
        let index = self.index.get_or_insert_default();
        let known = usize::try_from(index.unknown - index.front).unwrap_or(usize::MAX);
        for item in self.items.iter().skip(known) {
            if let Some(id) = item.as_ref().and_then(T::id) {
                index.numbers.insert(id, index.unknown);
            }
            index.unknown += 1;
        }
        let number = index.numbers.remove(&id)?;
        let item = self.items.get_mut(usize::try_from(number - index.front).ok()?)?.take();
        index.gaps += 1;
        self.close_gaps();
        item
    }

    fn close_gaps(&mut self) {
        let Some(index) = &mut self.index else { return };
        while let Some(None) = self.items.front() {
            self.items.pop_front();
            index.front += 1;
            index.gaps -= 1;
        }
        // The front may pass items that are not indexed.
        index.unknown = index.unknown.max(index.front);
        if 2 * index.gaps > self.items.len() {
            self.items.retain(Option::is_some);
            self.index = None;
        } else if self.items.is_empty() {
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
