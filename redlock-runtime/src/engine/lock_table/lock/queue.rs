//! The waiters of one lock in this process, in their order. Only the first one asks again, so the
//! load on the server grows with the number of processes, not of tasks.
//!
//! The first waiter stands apart: most locks have one caller at a time. Those behind it are found
//! by their number. Their order may name some that have left, which are removed once they are the
//! larger part. When a holder of this process leaves, its next waiter asks at once, but after a
//! streak of such turns it asks later, and the other processes come first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::waiting::Waiting;
use crate::base::clock::Moment;
use crate::base::host::{HashMap, HashSet};
use crate::engine::protocol::Id;

/// After so many releases to a waiter of this process, the next waiter lets other processes ask
/// first.
const LONGEST_STREAK: u32 = 32;

/// The nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

#[derive(Default)]
pub(super) struct Queue {
    first: Option<(Id, Box<Waiting>)>,
    /// They are boxed because most locks have one caller at a time.
    behind: Option<Box<Behind>>,
    /// The releases to a waiter of this process since another process had its turn.
    streak: u32,
    /// The time when a waiter last sent a request that has kept the queue from expiring, in
    /// seconds: where many locks are held, room counts. 0: none has.
    kept_at: u32,
}

#[derive(Default)]
struct Behind {
    /// May name some that have left.
    order: VecDeque<Id>,
    waiters: HashMap<Id, Box<Waiting>>,
}

impl Behind {
    fn pop(&mut self) -> Option<(Id, Box<Waiting>)> {
        std::iter::from_fn(|| self.order.pop_front())
            .find_map(|id| self.waiters.remove(&id).map(|waiting| (id, waiting)))
    }

    fn remove(&mut self, id: Id) -> Option<Box<Waiting>> {
        let waiting = self.waiters.remove(&id)?;
        if self.order.len() > 2 * self.waiters.len() {
            self.order.retain(|id| self.waiters.contains_key(id));
        }
        Some(waiting)
    }
}

/// The new first waiter of a key, and the time of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextAsker {
    /// It asks at once.
    Now(Id),
    /// It asks a little later, because this process had its share.
    Later(Id),
}

impl Queue {
    /// Joins the end of the queue. True when this waiter is the first one.
    pub(super) fn join(&mut self, id: Id, waiting: Box<Waiting>) -> bool {
        if self.first.is_none() {
            self.first = Some((id, waiting));
            return true;
        }
        let behind = self.behind.get_or_insert_default();
        behind.order.push_back(id);
        behind.waiters.insert(id, waiting);
        false
    }

    /// This one waits no longer, if it did.
    pub(super) fn remove(&mut self, id: Id) -> Option<Box<Waiting>> {
        let is_first = self.is_first(id);
        let Some(behind) = &mut self.behind else {
            return self.first.take_if(|_| is_first).map(|(_, waiting)| waiting);
        };
        let waiting = if is_first {
            std::mem::replace(&mut self.first, behind.pop()).map(|(_, waiting)| waiting)
        } else {
            behind.remove(id)
        };
        if behind.waiters.is_empty() {
            self.behind = None;
        }
        waiting
    }

    pub(super) fn get(&self, id: Id) -> Option<&Waiting> {
        match &self.first {
            Some((first, waiting)) if *first == id => Some(waiting),
            _ => self.behind.as_ref()?.waiters.get(&id).map(Box::as_ref),
        }
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Waiting> {
        match &mut self.first {
            Some((first, waiting)) if *first == id => Some(waiting),
            _ => self.behind.as_mut()?.waiters.get_mut(&id).map(Box::as_mut),
        }
    }

    pub(super) fn first(&self) -> Option<(Id, &Waiting)> {
        self.first.as_ref().map(|(id, waiting)| (*id, waiting.as_ref()))
    }

    pub(super) fn first_id(&self) -> Option<Id> {
        self.first.as_ref().map(|(id, _)| *id)
    }

    pub(super) fn first_mut(&mut self) -> Option<(Id, &mut Waiting)> {
        self.first.as_mut().map(|(id, waiting)| (*id, waiting.as_mut()))
    }

    pub(super) fn is_first(&self, id: Id) -> bool {
        self.first.as_ref().is_some_and(|(first, _)| *first == id)
    }

    /// All waiters, in their order.
    pub(super) fn ids(&self) -> Vec<Id> {
        let behind = self
            .behind
            .iter()
            .flat_map(|behind| behind.order.iter().copied().filter(|id| behind.waiters.contains_key(id)));
        self.first.iter().map(|(id, _)| *id).chain(behind).collect()
    }

    pub(super) fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.behind.as_ref().map_or(0, |behind| behind.waiters.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// True when no other one than this waits.
    pub(super) fn has_no_other(&self, id: Id) -> bool {
        self.behind.is_none() && self.first.as_ref().is_none_or(|(first, _)| *first == id)
    }

    /// A request of a waiter, sent then, has kept the queue on the server from expiring.
    pub(super) fn set_kept(&mut self, sent: Moment) {
        self.kept_at = u32::try_from(sent.to_nanos() / NANOS).unwrap_or(0);
    }

    /// The time when the last such request was sent, or up to a second before.
    pub(super) fn kept_at(&self) -> Option<Moment> {
        (self.kept_at > 0).then(|| Moment::from_nanos(u64::from(self.kept_at) * NANOS))
    }

    /// The holder of this process has left: the waiter that asks now.
    pub(super) fn take_turn(&mut self) -> Option<NextAsker> {
        let Some((next, _)) = self.first() else {
            (self.streak, self.kept_at) = (0, 0);
            return None;
        };
        self.streak += 1;
        if self.streak < LONGEST_STREAK {
            return Some(NextAsker::Now(next));
        }
        self.streak = 0;
        Some(NextAsker::Later(next))
    }
}

/// With more locks than this, all are forgotten: each costs one request more then.
const MOST: usize = 1000;

/// Locks that are remembered when no attempt for them is left: those that other callers wanted, too,
/// when this process last had to do with them, so that a direct request for one would most likely
/// be refused; and those of which something was reported.
#[derive(Default)]
pub(crate) struct Remembered(HashSet<Arc<str>>);

impl Remembered {
    pub(crate) fn has(&self, name: &Arc<str>) -> bool {
        self.0.contains(name)
    }

    pub(crate) fn insert(&mut self, name: &Arc<str>) {
        if self.0.len() >= MOST && !self.0.contains(name) {
            self.0.clear();
        }
        self.0.insert(Arc::clone(name));
    }

    pub(crate) fn remove(&mut self, name: &Arc<str>) {
        if !self.0.is_empty() {
            self.0.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::token::Token;
    use crate::engine::command::Ask;

    fn waiting() -> Box<Waiting> {
        let ask = Ask::for_a_test("k", Duration::ZERO, Moment::now(), None);
        Box::new(Waiting::new(Box::new(ask), Token::empty(), None, None))
    }

    fn queue(ids: impl IntoIterator<Item = Id>) -> Queue {
        let mut queue = Queue::default();
        for (nth, id) in ids.into_iter().enumerate() {
            assert_eq!(queue.join(id, waiting()), nth == 0, "the first asks");
        }
        queue
    }

    #[test]
    fn those_that_are_left_keep_their_order() {
        for leaves in 1..=5 {
            let mut queue = queue(1..=5);
            assert!(queue.remove(leaves).is_some() && queue.remove(leaves).is_none());
            let expected: Vec<Id> = (1..=5).filter(|id| *id != leaves).collect();
            assert_eq!((queue.ids(), queue.count()), (expected.clone(), 4));
            let left: Vec<Id> = std::iter::from_fn(|| {
                let (id, _) = queue.first()?;
                queue.remove(id).map(|_| id)
            })
            .collect();
            assert_eq!(left, expected);
            assert!(queue.is_empty() && queue.behind.is_none());
        }
    }

    #[test]
    fn many_that_leave_from_the_end_leave_no_room_behind() {
        let mut queue = queue(0..100_000);
        for id in (1..100_000).rev() {
            assert!(queue.remove(id).is_some());
            let listed = queue.behind.as_ref().map_or(0, |behind| behind.order.len());
            assert!(listed <= 2 * queue.count());
        }
        assert_eq!(queue.ids(), [0]);
    }

    #[test]
    fn one_process_does_not_keep_the_lock_for_ever() {
        let mut queue = queue([0]);
        let mut later = 0;
        for id in 1..200 {
            queue.join(id, waiting());
            queue.remove(id - 1);
            later += u32::from(matches!(queue.take_turn(), Some(NextAsker::Later(_))));
        }
        assert_eq!(later, 199 / LONGEST_STREAK);
    }

    #[test]
    fn no_more_than_a_thousand_contended_locks_are_remembered() {
        let mut contended = Remembered::default();
        for number in 0..10_000 {
            let name = Arc::from(format!("lock:{number}"));
            contended.insert(&name);
            assert!(contended.has(&name) && contended.0.len() <= MOST);
        }
        let last = Arc::from("lock:9999");
        contended.remove(&last);
        assert!(!contended.has(&last));
    }
}
