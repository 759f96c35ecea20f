//! One lock: who holds it in this process, who waits for it here, and what is being released.
//!
//! An attempt waits, then holds, then releases, then it is gone. Here is where each one stands: the
//! holder in its own place, those that wait their turn in the [queue], and *aside* of both what is
//! being released and what does not queue. The files of this folder stand above each other, and
//! each calls only those below it:
//!
//! - `on_reply`, `on_event`: what a reply, a push, a change, a connection or a timer changes
//! - `hand_over`: a released lock goes to the next waiter of this process, or back to the server
//! - `holding`: a lock is held, renewed, watched and lost
//! - `asking`: which waiter asks the server, what it hears, and who asks when it leaves
//! - `long_wait`: who is told of a long wait
//! - this file: the places, their timers, and what is sent again and again until it is released
//! - `queue`, `waiting`, `held`, `releasing`, `successors`: the parts, which know nothing of each
//!   other's lock
//! - `kind`: what differs between the kinds of locks

mod acquiring;
mod announcing;
mod events;
mod held;
mod holding;
mod kind;
mod last_answer;
mod local_hand_over;
mod local_successors;
mod long_wait;
pub(crate) mod queue;
mod releasing;
mod renewals;
mod replies;
mod simulation_hooks;
mod standing;
mod ttl;
mod waiting;

use std::time::Duration;

use tokio::sync::oneshot;

use super::context::Context;
use crate::base::clock::Moment;
use crate::base::host::HashMap;
use crate::engine::protocol::Id;
use announcing::Announced;
use held::Held;
use last_answer::LastAnswer;
use queue::Queue;
use releasing::{ReleaseStep, Releasing};
use waiting::Waiting;

#[derive(Default)]
pub(super) struct Lock {
    /// It has the lock alone.
    holder: Option<(Id, Box<Held>)>,
    queue: Queue,
    /// An attempt that stands beside the holder and the queue: most locks have one at a time.
    apart: Option<(Id, Apart)>,
    /// It is boxed because most locks have nothing here.
    aside: Option<Box<Aside>>,
}

/// What else stands beside the holder and the queue.
#[derive(Default)]
struct Aside {
    others: HashMap<Id, Apart>,
    /// The waiter whose long wait is reported.
    reported: Option<Id>,
    /// The waiters that have reached their limit and await the server's word on this lock.
    words: Vec<Id>,
    /// The callers that wait for a fencing token, which is being drawn for this holder.
    draws: Vec<(Id, oneshot::Sender<()>)>,
    /// What the leader announces whose lock this is.
    announced: Option<Announced>,
    /// The time when a change of a lock that several have was last followed by a watch.
    watched: Option<Moment>,
}

/// An attempt that is neither the holder nor in the queue.
enum Apart {
    /// It has one try, and does not queue.
    Trying(Box<Waiting>),
    /// Another attempt of this process has got the lock before this one knew of its loss.
    Former(Box<Held>),
    /// It has the lock beside others, here or elsewhere: a reader, or the holder of a permit.
    Inside(Box<Held>),
    Releasing(Box<Releasing>),
}

/// An attempt, wherever it stands.
enum Attempt<'a> {
    Waiting(&'a mut Waiting),
    Held(&'a mut Held),
    Releasing(&'a mut Releasing),
}

impl Lock {
    /// True when no attempt is left.
    pub(super) fn is_over(&self) -> bool {
        self.holder.is_none()
            && self.queue.is_empty()
            && self.apart.is_none()
            && self.aside.as_ref().is_none_or(|aside| aside.others.is_empty())
    }

    fn has_announced(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.announced.is_some())
    }

    fn announced(&mut self) -> &mut Option<Announced> {
        &mut self.aside().announced
    }

    fn aside(&mut self) -> &mut Aside {
        self.aside.get_or_insert_default()
    }

    /// True, once in this time, when a change of a lock that several have is to be followed by a watch.
    fn may_watch_again(&mut self, now: Moment, pause: Duration) -> bool {
        let watched = &mut self.aside().watched;
        let may = watched.is_none_or(|at| at.after(pause) <= now);
        if may {
            *watched = Some(now);
        }
        may
    }

    fn get_apart(&self, id: Id) -> Option<&Apart> {
        match &self.apart {
            Some((one, apart)) if *one == id => Some(apart),
            _ => self.aside.as_ref()?.others.get(&id),
        }
    }

    fn insert_apart(&mut self, id: Id, apart: Apart) {
        if self.apart.is_none() {
            self.apart = Some((id, apart));
        } else {
            self.aside().others.insert(id, apart);
        }
    }

    fn remove_apart(&mut self, id: Id, is: fn(&Apart) -> bool) -> Option<Apart> {
        self.get_apart(id).filter(|apart| is(apart))?;
        let one = self.apart.take_if(|(one, _)| *one == id).map(|(_, apart)| apart);
        one.or_else(|| self.aside.as_mut()?.others.remove(&id))
    }

    fn attempt(&mut self, id: Id) -> Option<Attempt<'_>> {
        if let Some((holder, held)) = &mut self.holder
            && *holder == id
        {
            return Some(Attempt::Held(held));
        }
        if let Some(waiting) = self.queue.get_mut(id) {
            return Some(Attempt::Waiting(waiting));
        }
        let apart = match &mut self.apart {
            Some((one, apart)) if *one == id => apart,
            _ => self.aside.as_mut()?.others.get_mut(&id)?,
        };
        Some(match apart {
            Apart::Trying(waiting) => Attempt::Waiting(waiting),
            Apart::Former(held) | Apart::Inside(held) => Attempt::Held(held),
            Apart::Releasing(releasing) => Attempt::Releasing(releasing),
        })
    }

    fn waiting(&self, id: Id) -> Option<&Waiting> {
        if let Some(waiting) = self.queue.get(id) {
            return Some(waiting);
        }
        match self.get_apart(id)? {
            Apart::Trying(waiting) => Some(waiting),
            Apart::Former(_) | Apart::Inside(_) | Apart::Releasing(_) => None,
        }
    }

    fn waiting_mut(&mut self, id: Id) -> Option<&mut Waiting> {
        match self.attempt(id)? {
            Attempt::Waiting(waiting) => Some(waiting),
            Attempt::Held(_) | Attempt::Releasing(_) => None,
        }
    }

    fn held_mut(&mut self, id: Id) -> Option<&mut Held> {
        match self.attempt(id)? {
            Attempt::Held(held) => Some(held),
            Attempt::Waiting(_) | Attempt::Releasing(_) => None,
        }
    }

    fn releasing_mut(&mut self, id: Id) -> Option<&mut Releasing> {
        match self.attempt(id)? {
            Attempt::Releasing(releasing) => Some(releasing),
            Attempt::Waiting(_) | Attempt::Held(_) => None,
        }
    }

    /// The holder in this process.
    fn holder(&self) -> Option<(Id, &Held)> {
        self.holder.as_ref().map(|(id, held)| (*id, held.as_ref()))
    }

    fn holder_id(&self) -> Option<Id> {
        self.holder.as_ref().map(|(id, _)| *id)
    }

    /// Those of this process that have the lock beside others.
    fn inside(&self) -> impl Iterator<Item = (Id, &Held)> {
        let others = self.aside.iter().flat_map(|aside| &aside.others).map(|(id, apart)| (*id, apart));
        self.apart.iter().map(|(id, apart)| (*id, apart)).chain(others).filter_map(
            |(id, apart)| match apart {
                Apart::Inside(held) => Some((id, held.as_ref())),
                Apart::Trying(_) | Apart::Former(_) | Apart::Releasing(_) => None,
            },
        )
    }

    /// All holders in this process, the latest of a lock that is held alone.
    fn holders(&self) -> impl Iterator<Item = (Id, &Held)> {
        self.holder().into_iter().chain(self.inside())
    }

    /// The first waiter of this process.
    fn first(&self) -> Option<(Id, &Waiting)> {
        self.queue.first()
    }

    fn first_id(&self) -> Option<Id> {
        self.queue.first().map(|(id, _)| id)
    }

    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// The waiter that asks the server: the first of this process, or the only one of a lock that
    /// is not queued for.
    fn asker<'a>(&'a self, waiting: &'a Waiting) -> &'a Waiting {
        self.first().filter(|_| waiting.ask.queues()).map_or(waiting, |(_, first)| first)
    }

    /// The last answer of the server: to this waiter, or to the one that asks.
    fn last_answer<'a>(&'a self, waiting: &'a Waiting) -> &'a LastAnswer {
        waiting.last_answer.later(&self.asker(waiting).last_answer)
    }

    /// The number of waiters.
    fn count(&self) -> usize {
        self.queue.count()
    }

    /// True when no other attempt of this process holds the lock or waits for it.
    fn is_alone(&self, id: Id) -> bool {
        self.holder.is_none() && self.queue.has_no_other(id) && self.inside().next().is_none()
    }

    /// A new waiter. True when it is the first one, and none of this process holds the lock, or
    /// when it does not queue.
    fn join(&mut self, id: Id, waiting: Waiting) -> bool {
        if !waiting.ask.queues() {
            self.insert_apart(id, Apart::Trying(Box::new(waiting)));
            return true;
        }
        self.queue.join(id, Box::new(waiting)) && self.holder.is_none()
    }

    /// This attempt waits no longer.
    fn take_waiting(&mut self, id: Id) -> Option<Box<Waiting>> {
        if let Some(waiting) = self.queue.remove(id) {
            return Some(waiting);
        }
        match self.remove_apart(id, |apart| matches!(apart, Apart::Trying(_)))? {
            Apart::Trying(waiting) => Some(waiting),
            Apart::Former(_) | Apart::Inside(_) | Apart::Releasing(_) => None,
        }
    }

    /// This attempt is the holder now, or one of them.
    fn set_holder(&mut self, id: Id, held: Box<Held>) {
        if held.kind.is_counted() {
            self.insert_apart(id, Apart::Inside(held));
        } else if let Some((before, mut former)) = self.holder.replace((id, held)) {
            former.set_former();
            self.insert_apart(before, Apart::Former(former));
        }
    }

    /// This attempt holds the lock no longer.
    fn take_held(&mut self, id: Id) -> Option<Box<Held>> {
        if let Some((_, held)) = self.holder.take_if(|(holder, _)| *holder == id) {
            return Some(held);
        }
        match self.remove_apart(id, |apart| matches!(apart, Apart::Former(_) | Apart::Inside(_)))? {
            Apart::Former(held) | Apart::Inside(held) => Some(held),
            Apart::Trying(_) | Apart::Releasing(_) => None,
        }
    }

    /// Sets the timer of an attempt.
    fn schedule(&mut self, cx: &mut Context, id: Id) {
        let due = match self.attempt(id) {
            Some(Attempt::Waiting(waiting)) => waiting.due(),
            Some(Attempt::Held(held)) => held.due(),
            Some(Attempt::Releasing(releasing)) => Some(releasing.due()),
            None => None,
        };
        cx.timers.set(id, due);
    }

    /// The attempt releases the lock that it has or may have.
    fn start_release(&mut self, cx: &mut Context, id: Id, releasing: Releasing) {
        self.insert_apart(id, Apart::Releasing(Box::new(releasing)));
        self.send_release(cx, id);
    }

    /// A release without a caller.
    fn release_apart(&mut self, cx: &mut Context, releasing: Releasing) {
        let id = cx.own_requests.new_id();
        cx.attempts.insert(id, releasing.name());
        self.start_release(cx, id, releasing);
    }

    /// Sends a release, if there is a connection.
    pub(super) fn send_release(&mut self, cx: &mut Context, id: Id) {
        let Some(releasing) = self.releasing_mut(id) else { return };
        if cx.connection.is_up() {
            cx.outbox.push((id, releasing.request(cx.now)));
        }
        cx.timers.set(id, Some(releasing.due()));
    }

    fn go_on_releasing(&mut self, cx: &mut Context, id: Id, step: ReleaseStep) {
        match step {
            ReleaseStep::Done => self.end_release(cx, id),
            ReleaseStep::Send => self.send_release(cx, id),
            ReleaseStep::Wait => self.schedule(cx, id),
        }
    }

    /// There is nothing to release any more.
    fn end_release(&mut self, cx: &mut Context, id: Id) {
        let is_releasing = |apart: &Apart| matches!(apart, Apart::Releasing(_));
        if let Some(Apart::Releasing(releasing)) = self.remove_apart(id, is_releasing) {
            cx.attempts.forget_token(releasing.token());
            cx.forget(id);
        }
    }

    /// The waiter whose long wait is reported, until its wait ends.
    fn reported(&self) -> Option<Id> {
        self.aside.as_ref()?.reported
    }

    fn set_reported(&mut self, id: Option<Id>) {
        self.aside().reported = id;
    }

    /// This waiter awaits the server's word.
    fn await_fresh_answer(&mut self, id: Id) {
        self.aside().words.push(id);
    }

    /// The waiters that await the server's word, which has come.
    fn take_awaiting_answer(&mut self) -> Vec<Id> {
        self.aside.as_mut().map(|aside| std::mem::take(&mut aside.words)).unwrap_or_default()
    }

    /// True when the fencing token must be drawn, which is not under way.
    fn add_draw(&mut self, id: Id, caller: oneshot::Sender<()>) -> bool {
        let draws = &mut self.aside().draws;
        let is_new = draws.iter().all(|(other, _)| *other != id);
        draws.push((id, caller));
        is_new
    }

    fn take_draws(&mut self, id: Id) -> Vec<oneshot::Sender<()>> {
        let draws = self.aside.as_mut().map(|aside| &mut aside.draws);
        let draws = draws.into_iter().flat_map(|draws| draws.extract_if(.., |(of, _)| *of == id));
        draws.map(|(_, caller)| caller).collect()
    }

    /// The connection broke: no request in flight will be answered.
    pub(super) fn disconnect(&mut self, cx: &mut Context, id: Id) {
        if let Some(aside) = &mut self.aside {
            aside.draws.clear();
        }
        match self.attempt(id) {
            Some(Attempt::Waiting(waiting)) => waiting.disconnect(),
            Some(Attempt::Held(held)) => {
                held.renewals.suspend();
                held.successors.set_elsewhere();
            }
            Some(Attempt::Releasing(releasing)) => releasing.disconnect(),
            None => {}
        }
        self.schedule(cx, id);
    }
}
