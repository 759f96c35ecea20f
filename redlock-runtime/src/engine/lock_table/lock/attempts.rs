//! The attempts of one lock in this process, and the state of each.
//!
//! An attempt waits, then holds, then releases. The holder has its own field, and the waiters are
//! in the [queue](super::queue). [`Other`] attempts release the lock, have one try without a place
//! in the queue, or hold the lock together with other callers.

use super::held::Held;
use super::last_answer::LastAnswer;
use super::queue::Queue;
use super::releasing::Releasing;
use super::waiting::Waiting;
use crate::base::clock::Moment;
use crate::base::error::Holder;
use crate::base::host::{HashMap, wall_clock_before};
use crate::base::token::{self, Token};
use crate::engine::protocol::{Id, Request};

#[derive(Default)]
pub(crate) struct Attempts {
    /// The only holder of the lock.
    holder: Option<(Id, Box<Held>)>,
    pub(super) queue: Queue,
    /// An attempt that is neither the only holder nor in the queue.
    other: Option<(Id, Other)>,
    /// Further ones. They are boxed, because most locks have one of them at most.
    others: Option<Box<HashMap<Id, Other>>>,
}

impl Attempts {
    /// True when no attempt is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.holder.is_none()
            && self.queue.is_empty()
            && self.other.is_none()
            && self.others.as_ref().is_none_or(|others| others.is_empty())
    }

    fn get_other(&self, id: Id) -> Option<&Other> {
        match &self.other {
            Some((one, other)) if *one == id => Some(other),
            _ => self.others.as_ref()?.get(&id),
        }
    }

    pub(super) fn insert_other(&mut self, id: Id, other: Other) {
        if self.other.is_none() {
            self.other = Some((id, other));
        } else {
            self.others.get_or_insert_default().insert(id, other);
        }
    }

    pub(super) fn remove_other(&mut self, id: Id, is: fn(&Other) -> bool) -> Option<Other> {
        self.get_other(id).filter(|other| is(other))?;
        let one = self.other.take_if(|(one, _)| *one == id).map(|(_, other)| other);
        one.or_else(|| self.others.as_mut()?.remove(&id))
    }

    pub(super) fn attempt(&mut self, id: Id) -> Option<Attempt<'_>> {
        if let Some((holder, held)) = &mut self.holder
            && *holder == id
        {
            return Some(Attempt::Held(held));
        }
        if let Some(waiting) = self.queue.get_mut(id) {
            return Some(Attempt::Waiting(waiting));
        }
        let other = match &mut self.other {
            Some((one, other)) if *one == id => other,
            _ => self.others.as_mut()?.get_mut(&id)?,
        };
        Some(match other {
            Other::Trying(waiting) => Attempt::Waiting(waiting),
            Other::Former(held) | Other::Inside(held) => Attempt::Held(held),
            Other::Releasing(releasing) => Attempt::Releasing(releasing),
        })
    }

    pub(super) fn waiting(&self, id: Id) -> Option<&Waiting> {
        if let Some(waiting) = self.queue.get(id) {
            return Some(waiting);
        }
        if let Other::Trying(waiting) = self.get_other(id)? { Some(waiting) } else { None }
    }

    pub(super) fn waiting_mut(&mut self, id: Id) -> Option<&mut Waiting> {
        if let Attempt::Waiting(waiting) = self.attempt(id)? { Some(waiting) } else { None }
    }

    pub(super) fn held_mut(&mut self, id: Id) -> Option<&mut Held> {
        if let Attempt::Held(held) = self.attempt(id)? { Some(held) } else { None }
    }

    pub(super) fn releasing_mut(&mut self, id: Id) -> Option<&mut Releasing> {
        if let Attempt::Releasing(releasing) = self.attempt(id)? { Some(releasing) } else { None }
    }

    /// The holder in this process.
    pub(super) fn holder(&self) -> Option<(Id, &Held)> {
        self.holder.as_ref().map(|(id, held)| (*id, held.as_ref()))
    }

    pub(super) fn holder_id(&self) -> Option<Id> {
        self.holder.as_ref().map(|(id, _)| *id)
    }

    /// The attempts of this process that hold the lock together with others.
    pub(super) fn inside(&self) -> impl Iterator<Item = (Id, &Held)> {
        let others = self.others.iter().flat_map(|others| others.iter()).map(|(id, other)| (*id, other));
        self.other.iter().map(|(id, other)| (*id, other)).chain(others).filter_map(
            |(id, other)| match other {
                Other::Inside(held) => Some((id, held.as_ref())),
                Other::Trying(_) | Other::Former(_) | Other::Releasing(_) => None,
            },
        )
    }

    /// All holders in this process; of an exclusive lock, the latest one.
    pub(super) fn holders(&self) -> impl Iterator<Item = (Id, &Held)> {
        self.holder().into_iter().chain(self.inside())
    }

    /// The waiter that asks the server: the first of this process, or the only one of a lock that
    /// is not queued for.
    pub(super) fn asker<'a>(&'a self, waiting: &'a Waiting) -> &'a Waiting {
        self.queue.first().filter(|_| waiting.ask.queues()).map_or(waiting, |(_, first)| first)
    }

    /// The last answer of the server: to this waiter, or to the one that asks.
    pub(super) fn last_answer<'a>(&'a self, waiting: &'a Waiting) -> &'a LastAnswer {
        waiting.last_answer.later(&self.asker(waiting).last_answer)
    }

    /// True when no other attempt of this process holds the lock or waits for it.
    pub(super) fn is_alone(&self, id: Id) -> bool {
        self.holder.is_none() && self.queue.has_no_other(id) && self.inside().next().is_none()
    }

    /// A new waiter. True when it is the first one, and none of this process holds the lock, or
    /// when it does not queue.
    pub(super) fn join(&mut self, id: Id, waiting: Waiting) -> bool {
        if !waiting.ask.queues() {
            self.insert_other(id, Other::Trying(Box::new(waiting)));
            return true;
        }
        self.queue.join(id, Box::new(waiting)) && self.holder.is_none()
    }

    /// This attempt waits no longer.
    pub(super) fn take_waiting(&mut self, id: Id) -> Option<Box<Waiting>> {
        if let Some(waiting) = self.queue.remove(id) {
            return Some(waiting);
        }
        let other = self.remove_other(id, |other| matches!(other, Other::Trying(_)))?;
        if let Other::Trying(waiting) = other { Some(waiting) } else { None }
    }

    /// This attempt is the holder now, or one of them.
    pub(super) fn set_holder(&mut self, id: Id, held: Box<Held>) {
        if held.kind.lets_others_in() {
            self.insert_other(id, Other::Inside(held));
        } else if let Some((before, mut former)) = self.holder.replace((id, held)) {
            former.set_former();
            self.insert_other(before, Other::Former(former));
        }
    }

    /// This attempt holds the lock no longer.
    pub(super) fn take_held(&mut self, id: Id) -> Option<Box<Held>> {
        if let Some((_, held)) = self.holder.take_if(|(holder, _)| *holder == id) {
            return Some(held);
        }
        let other = self.remove_other(id, |other| matches!(other, Other::Former(_) | Other::Inside(_)))?;
        if let Other::Former(held) | Other::Inside(held) = other { Some(held) } else { None }
    }

    /// The name and the token of an attempt whose request for the lock is unanswered.
    pub(crate) fn asked(&self, id: Id) -> Option<(&str, &Token)> {
        let waiting = self.waiting(id).filter(|waiting| waiting.is_asking())?;
        Some((&waiting.ask.name, &waiting.token))
    }

    /// The transport has not sent that request, and will not send it.
    pub(crate) fn taken_back(&mut self, id: Id) {
        self.waiting_mut(id).into_iter().for_each(Waiting::take_back);
    }

    /// The server has refused this request with the answer that ends the connection.
    pub(crate) fn refused_at_the_end(&mut self, id: Id, request: &Request) {
        if let Some(waiting) = self.waiting_mut(id)
            && waiting.is_asking()
            && waiting.token == request.token
            && request.action.takes()
        {
            waiting.requests.undo();
        }
    }

    /// The attempt that a reply to `id` is about: after local hand-overs, the current holder with
    /// the same token.
    pub(super) fn current_holder(&mut self, id: Id, request: &Request) -> Id {
        if self.attempt(id).is_some() {
            return id;
        }
        self.holder().filter(|(_, held)| held.successors.have_sent(request)).map_or(id, |(holder, _)| holder)
    }

    /// The holder that has the lock under this token.
    pub(super) fn holder_with(&self, token: &Token) -> Option<Id> {
        self.holders().find(|(_, held)| held.successors.has(token)).map(|(id, _)| id)
    }

    /// The holder in this process, for an error.
    pub(super) fn holder_here(&self, now: Moment) -> Option<Holder> {
        let (_, held) = self.holder()?;
        let expires_in = held.lease.remaining(now)?;
        let owner = token::owner_of(held.successors.holder().value());
        let granted = wall_clock_before(now.since(held.hold.since));
        Some(Holder { owner, granted, expires_in: Some(expires_in), ..Holder::default() })
    }

    /// The waiter that asks for this process, if it has a place.
    pub(super) fn first_queued(&self) -> Option<Id> {
        self.queue.first().filter(|(_, first)| first.standing.is_queued()).map(|(id, _)| id)
    }

    /// True when one of these waiters may have room where the other has none.
    pub(super) fn differ_in_room(&self, one: Id, other: Id) -> bool {
        let lets_others_in = |id| self.waiting(id).is_some_and(|waiting| waiting.ask.kind.lets_others_in());
        lets_others_in(one) || lets_others_in(other)
    }
}

/// An attempt that is neither the only holder nor in the queue.
pub(super) enum Other {
    /// It has one try, and does not queue.
    Trying(Box<Waiting>),
    /// It has lost the lock, and does not know yet: another attempt of this process has the lock.
    Former(Box<Held>),
    /// It holds the lock together with others, here or elsewhere: a reader, or the holder of a permit.
    Inside(Box<Held>),
    Releasing(Box<Releasing>),
}

/// An attempt, wherever it stands.
pub(super) enum Attempt<'a> {
    Waiting(&'a mut Waiting),
    Held(&'a mut Held),
    Releasing(&'a mut Releasing),
}
