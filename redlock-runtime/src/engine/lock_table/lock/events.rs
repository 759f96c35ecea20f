//! What happens to a lock without a request: pushes, changes of other clients, connections, timers.
//!
//! A push goes to the attempt with its token. A grant makes a waiter the holder; a hint makes the
//! first waiter of this process ask, whichever of them it was sent to, except for a lock that several
//! may have; and where a waiter has lost
//! its place, all of this process ask for new ones. A grant for a token without a waiter is
//! released. A change of another client makes the holder compare and the first waiter ask. A timer
//! rings for the first thing that its attempt waits for.

use std::sync::Arc;

use super::Lock;
use super::attempts::Attempt;
use super::held::HeldTimer;
use super::releasing::Releasing;
use super::waiting::{Awaits, WaitTimer};
use crate::base::outcome::LostReason;
use crate::engine::lock_table::context::Context;
use crate::engine::protocol::{Action, CLAIM, Id, Push, PushKind, Request};

impl Lock {
    /// A push to one of the waiters.
    pub(crate) fn on_push(&mut self, cx: &mut Context, push: &Push) {
        self.attempts.meet_push(cx, push);
        let id = cx.attempts.expecting(&push.token);
        if let PushKind::PlaceLost = push.kind {
            // The waiter that asked has a new place, or the lock.
            for other in self.attempts.queue.ids() {
                if Some(other) != id {
                    self.pushed(cx, other, PushKind::PlaceLost);
                }
            }
            return;
        }
        // A waiter has no place that could be taken.
        let Some(id) = id.filter(|_| push.kind != PushKind::Revoked) else {
            self.on_push_without_waiter(cx, push);
            return;
        };
        match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => {
                let kind = waiting.ask.kind.read_push(push);
                // Only the first waiter of this process asks after a hint, and it may be told, too.
                let asks = matches!(push.kind, PushKind::Next { .. } | PushKind::LeftFree);
                let asker = if asks { self.attempts.first_queued() } else { None };
                let asker = asker.filter(|asker| !self.attempts.differ_in_room(*asker, id));
                self.pushed(cx, asker.unwrap_or(id), kind);
                self.set_followers(cx, id, push);
            }
            Some(Attempt::Releasing(releasing)) => {
                if let PushKind::Granted { .. } = push.kind {
                    releasing.set_granted();
                }
                // The server has refused to let it leave, but writes again: others wait behind it.
                if releasing.end_pause() {
                    self.send_release(cx, id);
                }
            }
            // A token with another lock is a forged push.
            Some(Attempt::Held(_)) | None => {}
        }
    }

    fn on_push_without_waiter(&mut self, cx: &mut Context, push: &Push) {
        match push.kind {
            PushKind::Granted { fence, .. } => self.return_unless_held(cx, push, fence),
            // An operator has released the lock for its holder.
            PushKind::TakenAway => {
                if let Some(id) = self.attempts.holder_with(&push.token) {
                    self.lose(cx, id, LostReason::KeyChanged, false);
                }
            }
            PushKind::Revoked => {
                if let Some(id) = self.attempts.holder_with(&push.token) {
                    // Its place is released, too, in case a request for it arrives later than this.
                    self.lose(cx, id, LostReason::Revoked, true);
                }
            }
            // The place of a caller that has gone, whose request was executed late: the first one
            // that is left asks.
            PushKind::Next { .. } | PushKind::LeftFree => {
                if let Some(first) = self.attempts.first_queued() {
                    self.pushed(cx, first, push.kind);
                }
            }
            PushKind::PlaceLost | PushKind::Done => {}
        }
    }

    pub(super) fn pushed(&mut self, cx: &mut Context, id: Id, kind: PushKind) {
        // An attempt that does not wait is being released.
        let Some(waiting) = self.attempts.waiting_mut(id) else { return };
        if waiting.defer(kind) {
            return;
        }
        match kind {
            PushKind::Granted { fence, at, marked } => {
                self.granted(cx, id, fence, at, marked);
                return;
            }
            PushKind::Next { claim, at } => waiting.set_next(cx.now, claim, at),
            PushKind::LeftFree => waiting.stand_back(cx.now),
            PushKind::PlaceLost | PushKind::Done => {
                self.rejoin(cx, id);
                return;
            }
            PushKind::TakenAway | PushKind::Revoked => {}
        }
        self.schedule(cx, id);
    }

    /// Another client may have changed this lock: its holder compares, and its first waiter asks.
    pub(crate) fn changed(&mut self, cx: &mut Context) {
        // Those of one phase lose the lock together: one of them compares.
        let mut phases = Vec::new();
        for (id, held) in self.attempts.inside().filter(|(_, held)| held.watch.is_on()) {
            if phases.iter().all(|(_, phase)| *phase != held.lease.fence()) {
                phases.push((id, held.lease.fence()));
            }
        }
        if let Some(id) = self.attempts.holder_id() {
            self.attempts.meet(id, "changed");
            self.attempts.held_mut(id).into_iter().for_each(|held| held.queue.set_changed());
            self.watch(cx, id);
        }
        for (id, _) in phases {
            self.attempts.meet(id, "changed");
            self.watch_one_of_several(cx, id);
        }
        if let Some(id) = self.attempts.queue.first_id() {
            self.attempts.meet(id, "changed");
            self.ask_early(cx, id);
        }
    }

    /// All keys of the server may be gone, the queue of this lock, too: as
    /// [`changed`](Self::changed), for this attempt.
    pub(crate) fn flushed(&mut self, cx: &mut Context, id: Id) {
        self.attempts.meet(id, "changed");
        self.watch(cx, id);
        if self.attempts.waiting(id).is_some_and(|waiting| waiting.standing.is_queued()) {
            self.rejoin(cx, id);
        } else {
            self.ask_early(cx, id);
        }
    }

    /// The lock may be on another node than before: it is renewed at once, and a queued waiter asks
    /// again, because its place may be gone.
    pub(crate) fn moved(&mut self, cx: &mut Context, id: Id) {
        match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => {
                waiting.standing.forget_server_clock();
                if let Awaits::Retry { .. } | Awaits::ServerTurn = waiting.awaits {
                    self.ask_as(cx, id, true);
                }
            }
            Some(Attempt::Held(held)) => {
                held.set_elsewhere();
                self.renew(cx, id);
                self.go_on_downgrading(cx, id);
            }
            Some(Attempt::Releasing(_)) | None => {}
        }
    }

    /// There is a connection: an unanswered request is repeated, and a held lock is renewed at
    /// once.
    pub(crate) fn connected(&mut self, cx: &mut Context, id: Id) {
        match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => {
                let awaits = waiting.awaits;
                if awaits == Awaits::Connection || awaits == Awaits::LocalTurn && cx.queues_on_server() {
                    self.ask_as(cx, id, true);
                }
            }
            Some(Attempt::Held(_)) => {
                self.renew(cx, id);
                self.go_on_downgrading(cx, id);
            }
            Some(Attempt::Releasing(_)) => self.send_release(cx, id),
            None => {}
        }
    }

    /// The abilities of the connection have changed: where the server has a queue now, each waiter
    /// joins it.
    pub(crate) fn can(&mut self, cx: &mut Context, id: Id) {
        if cx.queues_on_server()
            && self.attempts.waiting(id).is_some_and(|waiting| waiting.awaits == Awaits::LocalTurn)
        {
            self.ask(cx, id);
        }
    }

    /// Releases a grant for a token without a waiter, unless the reply came before the push and the
    /// lock is held.
    fn return_unless_held(&mut self, cx: &mut Context, push: &Push, fence: u64) {
        if self.attempts.holders().all(|(_, held)| *held.successors.token() != push.token) {
            let name = Arc::clone(&push.name);
            let request = Request::new(Action::Release, Arc::clone(&name), push.token.clone(), CLAIM);
            let request = Request { fenced: fence > 0, ..request };
            let mut releasing = Releasing::new(cx.now, name, request, CLAIM);
            releasing.set_granted();
            self.release_unawaited(cx, releasing);
        }
    }

    /// The timer of this attempt rings.
    pub(crate) fn on_timer(&mut self, cx: &mut Context, id: Id) {
        self.attempts.meet_timer(cx, id);
        match self.attempts.attempt(id) {
            Some(Attempt::Waiting(waiting)) => match waiting.due_timer(cx.now) {
                Some(WaitTimer::GivesUp) => self.give_up(cx, id),
                Some(WaitTimer::Report) => self.report_wait(cx, id),
                Some(WaitTimer::Ask) => self.ask(cx, id),
                None => self.schedule(cx, id),
            },
            Some(Attempt::Held(held)) => match held.due_timer(cx.now) {
                // Its body may have run until now, when the key has expired.
                Some(HeldTimer::Closed) => self.lose(cx, id, LostReason::ManagerClosed, false),
                Some(HeldTimer::Expired) => {
                    // It may have reached its `max_hold`.
                    held.lease.check(cx.now);
                    self.lose(cx, id, LostReason::Expired, true);
                }
                Some(HeldTimer::LateChange) => {
                    held.ttl.answer_late(cx.now, held.lease.key(), cx.connection.trouble());
                    self.schedule(cx, id);
                }
                Some(HeldTimer::Downgrade) => self.on_downgrade_timer(cx, id),
                Some(HeldTimer::NoReservation) => self.end_reservation(cx, id, false),
                Some(HeldTimer::Look) => {
                    held.watch.begin();
                    self.watch(cx, id);
                    self.schedule(cx, id);
                }
                Some(HeldTimer::Renew) => self.renew(cx, id),
                None => self.schedule(cx, id),
            },
            Some(Attempt::Releasing(releasing)) => {
                let step = releasing.tick(cx.now, cx.connection.trouble());
                self.continue_release(cx, id, step);
            }
            None => {}
        }
    }
}
