//! The local queue of each key: a holder and a FIFO of waiters. Only the first waiter asks again, so the load on the
//! server grows with the number of processes, not of tasks.

use std::sync::Arc;

use crate::ground::host::HashMap;

use crate::engine::fifo::Fifo;
use crate::engine::protocol::Id;
use crate::ground::clock::Moment;

/// After so many releases to a waiter of this process, the next waiter lets other processes ask first.
const LONGEST_STREAK: u32 = 32;

/// In a second.
const NANOS: u64 = 1_000_000_000;

#[derive(Default)]
pub(in crate::engine::table) struct Queues {
    of: HashMap<Arc<str>, Queue>,
}

#[derive(Default)]
struct Queue {
    holder: Option<Id>,
    /// The first waiter.
    first: Option<Id>,
    /// Boxed: most locks have one caller at a time.
    behind: Option<Box<Fifo<Id>>>,
    streak: u32,
    /// When a waiter last sent a request that has kept the queue on the server from expiring, in seconds: where many locks are
    /// held, room counts. 0: none has.
    kept_at: u32,
}

impl Queue {
    fn push(&mut self, id: Id) {
        if self.first.is_none() {
            self.first = Some(id);
        } else {
            self.behind.get_or_insert_default().push(id);
        }
    }

    /// `id` waits no longer, if it did.
    fn remove(&mut self, id: Id) {
        let Some(behind) = &mut self.behind else {
            self.first.take_if(|first| *first == id);
            return;
        };
        if self.first == Some(id) {
            self.first = behind.pop();
        } else {
            behind.remove(id);
        }
        if behind.is_empty() {
            self.behind = None;
        }
    }

    fn waiters(&self) -> impl Iterator<Item = Id> {
        self.first.into_iter().chain(self.behind.iter().flat_map(|behind| behind.iter().copied()))
    }

    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.behind.as_ref().map_or(0, |behind| behind.len())
    }
}

/// The new first waiter of a key, and the time of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine::table) enum NextAsker {
    /// It asks at once.
    Now(Id),
    /// It asks a little later, because this process had its share.
    Later(Id),
}

impl Queues {
    /// Joins the end of the queue. True when this waiter is the one that asks.
    pub(in crate::engine::table) fn join(&mut self, name: &Arc<str>, id: Id) -> bool {
        let queue = self.of.entry(Arc::clone(name)).or_default();
        queue.push(id);
        queue.holder.is_none() && queue.first == Some(id)
    }

    /// `id` is the holder now, and waits no longer. Returns the first waiter behind it.
    pub(in crate::engine::table) fn got(&mut self, name: &Arc<str>, id: Id) -> Option<Id> {
        let queue = self.of.entry(Arc::clone(name)).or_default();
        queue.remove(id);
        queue.holder = Some(id);
        queue.first
    }

    /// A request of a waiter, sent then, has kept the queue on the server from expiring.
    pub(in crate::engine::table) fn is_kept(&mut self, name: &Arc<str>, sent: Moment) {
        if let Some(queue) = self.of.get_mut(name) {
            queue.kept_at = u32::try_from(sent.to_nanos() / NANOS).unwrap_or(0);
        }
    }

    /// When the last such request was sent, or a second before.
    pub(in crate::engine::table) fn kept_at(&self, name: &Arc<str>) -> Option<Moment> {
        let seconds = self.of.get(name)?.kept_at;
        (seconds > 0).then(|| Moment::from_nanos(u64::from(seconds) * NANOS))
    }

    /// The holder in this process.
    pub(in crate::engine::table) fn holder(&self, name: &Arc<str>) -> Option<Id> {
        self.of.get(name)?.holder
    }

    /// The number of waiters.
    pub(in crate::engine::table) fn count(&self, name: &Arc<str>) -> usize {
        self.of.get(name).map_or(0, Queue::count)
    }

    /// All waiters, in their order.
    pub(in crate::engine::table) fn waiters(&self, name: &Arc<str>) -> Vec<Id> {
        self.of.get(name).map_or_else(Vec::new, |queue| queue.waiters().collect())
    }

    /// True when no other attempt of this process holds the lock or waits for it.
    pub(in crate::engine::table) fn is_alone(&self, name: &Arc<str>, id: Id) -> bool {
        self.of
            .get(name)
            .is_none_or(|queue| queue.holder.is_none() && queue.first == Some(id) && queue.behind.is_none())
    }

    /// The first waiter.
    pub(in crate::engine::table) fn first(&self, name: &Arc<str>) -> Option<Id> {
        self.of.get(name)?.first
    }

    /// `id`, holder or waiter, leaves. Returns the new first waiter if it must ask now.
    pub(in crate::engine::table) fn leave(&mut self, name: &Arc<str>, id: Id) -> Option<NextAsker> {
        let queue = self.of.get_mut(name)?;
        let was_first = queue.first == Some(id);
        queue.remove(id);
        let was_holder = queue.holder == Some(id);
        if was_holder {
            queue.holder = None;
        }
        if queue.holder.is_none() && queue.first.is_none() {
            self.of.remove(name);
            return None;
        }
        let next = queue.first?;
        if was_holder {
            queue.streak += 1;
            if queue.streak >= LONGEST_STREAK {
                queue.streak = 0;
                return Some(NextAsker::Later(next));
            }
            return Some(NextAsker::Now(next));
        }
        (was_first && queue.holder.is_none()).then_some(NextAsker::Now(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_asks_and_the_others_in_their_order() {
        let name: Arc<str> = "k".into();
        let mut queues = Queues::default();
        assert!(queues.join(&name, 1));
        assert!(!queues.join(&name, 2));
        assert!(!queues.join(&name, 3));
        queues.got(&name, 1);
        assert_eq!(queues.leave(&name, 2), None, "a waiter that gives up changes nothing");
        assert_eq!(queues.leave(&name, 1), Some(NextAsker::Now(3)));
        assert_eq!(queues.leave(&name, 3), None);
        assert!(queues.of.is_empty(), "an empty queue is removed");
    }

    #[test]
    fn when_the_first_gives_up_the_next_one_asks() {
        let name: Arc<str> = "k".into();
        let mut queues = Queues::default();
        queues.join(&name, 1);
        queues.join(&name, 2);
        assert_eq!(queues.leave(&name, 1), Some(NextAsker::Now(2)));
    }

    #[test]
    fn one_process_does_not_keep_the_lock_for_ever() {
        let name: Arc<str> = "k".into();
        let mut queues = Queues::default();
        queues.join(&name, 0);
        let mut later = 0;
        for id in 1..200 {
            queues.join(&name, id);
            queues.got(&name, id - 1);
            later += u32::from(matches!(queues.leave(&name, id - 1), Some(NextAsker::Later(_))));
        }
        assert_eq!(later, 199 / LONGEST_STREAK);
    }
}
