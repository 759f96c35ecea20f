//! Pushes and hints: a grant, a place that is gone, a lock that has changed.

use std::sync::Arc;

use super::lock::releasing::Releasing;
use super::lock::waiting::{Awaits, Waiting};
use super::{Attempt, LockTable};
use crate::engine::protocol::{Action, CLAIM, Id, Push, PushKind, Reply, Request};
use crate::ground::clock::Moment;
use crate::ground::outcome::LostReason;

impl LockTable {
    /// A push to one of the waiters.
    pub(crate) fn on_push(&mut self, now: Moment, push: &Push) {
        self.meets_push(push);
        if let PushKind::PlaceLost = push.kind {
            // The waiter that asked has a new place, or the lock.
            let asker = self.by_token.get(&push.token).copied();
            for id in self.queues.waiters(&push.name) {
                if Some(id) != asker {
                    self.pushed(now, id, PushKind::PlaceLost);
                }
            }
            return;
        }
        let Some(id) = self.by_token.get(&push.token).copied() else {
            match push.kind {
                PushKind::Granted { fence, .. } => self.return_unless_held(now, push, fence),
                PushKind::TakenAway => self.taken_away(now, push),
                // The place of a caller that has gone, whose request was executed late: the first one that is left asks.
                PushKind::Next { .. } | PushKind::LeftFree => {
                    if let Some(first) = self.first_queued(&push.name) {
                        self.pushed(now, first, push.kind);
                    }
                }
                PushKind::PlaceLost => {}
            }
            return;
        };
        // A token with another lock: a forged push.
        if matches!(self.attempts.get(&id), Some(Attempt::Waiting(waiting)) if waiting.ask.name == push.name)
        {
            self.pushed(now, self.asker_for(id, &push.name, push.kind), push.kind);
            self.is_followed(now, id, push);
        } else if let Some(Attempt::Releasing(releasing)) = self.attempts.get_mut(&id)
            && *releasing.name() == push.name
        {
            if let PushKind::Granted { .. } = push.kind {
                releasing.is_granted();
            }
            // The server has refused to let it leave, but writes again: others wait behind it.
            if releasing.ends_pause() {
                self.send_release(now, id);
            }
        }
    }

    /// A claim was over before this process heard of it: the process was stopped. The others took it for stuck, so its waiters may
    /// have lost their places. The first one asks; if it has lost its place, the server tells the others.
    pub(super) fn claim_ran_out(&mut self, now: Moment, name: &Arc<str>) {
        if let Some(id) = self.queues.first(name)
            && let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
            && waiting.sleeps_in_queue()
        {
            self.ask(now, id);
        }
    }

    /// The waiter that a push to `id` concerns: only the first of this process asks, and that one may be told, too.
    fn asker_for(&self, id: Id, name: &Arc<str>, kind: PushKind) -> Id {
        let asks = matches!(kind, PushKind::Next { .. } | PushKind::LeftFree);
        if asks { self.first_queued(name).unwrap_or(id) } else { id }
    }

    /// The waiter that asks for this process, if it has a place.
    fn first_queued(&self, name: &Arc<str>) -> Option<Id> {
        self.queues.first(name).filter(|first| self.waiting(*first).is_some_and(Waiting::is_queued))
    }

    pub(super) fn pushed(&mut self, now: Moment, id: Id, kind: PushKind) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            // The attempt is being released.
            return;
        };
        if waiting.defers(kind) {
            return;
        }
        match kind {
            PushKind::Granted { fence, at, marked } => {
                self.granted(now, id, fence, at, marked);
                return;
            }
            PushKind::Next { claim, at } => waiting.is_next(now, claim, at),
            PushKind::LeftFree => waiting.stand_back(now),
            PushKind::PlaceLost => {
                self.rejoin(now, id);
                return;
            }
            PushKind::TakenAway => {}
        }
        self.schedule(id);
    }

    /// An operator has released the lock for its holder.
    fn taken_away(&mut self, now: Moment, push: &Push) {
        if let Some(id) = self.queues.holder(&push.name)
            && let Some(Attempt::Held(held)) = self.attempts.get(&id)
            && held.has(&push.token)
        {
            self.lost(now, id, LostReason::KeyChanged, false);
        }
    }

    /// Another client may have changed these locks, or all: each holder compares, and each first waiter asks.
    pub(crate) fn changed(&mut self, now: Moment, names: Option<&[Arc<str>]>) {
        let ids = match names {
            Some(names) => {
                let ids = names.iter().flat_map(|name| [self.queues.holder(name), self.queues.first(name)]);
                ids.flatten().collect()
            }
            None => self.ids(),
        };
        for id in ids {
            self.meets(id, "changed");
            self.watch(id);
            match names {
                Some(_) => self.ask_early(now, id),
                None => self.ask_after_flush(now, id),
            }
        }
    }

    /// A flush removes the queue, too.
    fn ask_after_flush(&mut self, now: Moment, id: Id) {
        match self.attempts.get(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.is_queued() => self.rejoin(now, id),
            _ => self.ask_early(now, id),
        }
    }

    /// A waiter whose place may be gone asks for a new one, unless it is asking.
    fn rejoin(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
            && waiting.sleeps_in_queue()
        {
            self.ask_with_all(now, id);
        }
    }

    /// The reply to a waiter's watch. The lock may have become free just before.
    pub(super) fn watch_reply(&mut self, now: Moment, id: Id, reply: &Reply) {
        match reply {
            Reply::Free | Reply::HeldFor { .. } => self.ask_early(now, id),
            Reply::NotHeld => {
                if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
                    waiting.split_votes = 0;
                }
            }
            Reply::Refused(_) => {
                if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
                    waiting.cannot_watch(now);
                    self.schedule(id);
                }
            }
            _ => {}
        }
    }

    /// A waiter that pauses before its next request asks now.
    pub(super) fn ask_early(&mut self, now: Moment, id: Id) {
        let votes = self.abilities.votes;
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        if let Awaits::Retry { .. } = waiting.awaits {
            if votes {
                waiting.pause_before_vote(now);
                self.schedule(id);
            } else {
                self.ask(now, id);
            }
        }
    }

    /// Releases a grant for a token without a waiter, unless the reply came before the push and the lock is held.
    fn return_unless_held(&mut self, now: Moment, push: &Push, fence: u64) {
        let holder = self.queues.holder(&push.name).and_then(|id| self.attempts.get(&id));
        let is_held = matches!(holder, Some(Attempt::Held(held)) if held.token == push.token);
        if !is_held {
            let name = Arc::clone(&push.name);
            let request = Request::new(Action::Release, Arc::clone(&name), push.token.clone(), CLAIM);
            let request = Request { fenced: fence > 0, ..request };
            let mut releasing = Releasing::new(now, name, request, CLAIM);
            releasing.is_granted();
            self.release_apart(now, releasing);
        }
    }
}
