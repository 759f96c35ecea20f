//! Pushes and hints: a grant, a place that is gone, a lock that has changed.

use std::sync::Arc;

use super::releasing::Releasing;
use super::waiting::Awaits;
use super::{Attempt, LockTable};
use crate::clock::Moment;
use crate::engine::protocol::{Action, CLAIM, Id, Push, PushKind, Reply, Request};
use crate::lost_reason::LostReason;

impl LockTable {
    /// What the node tells one of our waiters.
    pub(crate) fn on_push(&mut self, now: Moment, push: &Push) {
        if let PushKind::PlaceLost = push.kind {
            // The waiter that found that out has a place again, or the lock.
            let found_out = self.by_token.get(&push.token).copied();
            for id in self.queues.line(&push.name) {
                if Some(id) != found_out {
                    self.rejoin(now, id);
                }
            }
            return;
        }
        let Some(id) = self.by_token.get(&push.token).copied() else {
            match push.kind {
                PushKind::Granted { .. } => self.return_unless_held(now, push),
                PushKind::TakenAway => self.taken_away(now, push),
                PushKind::Next { .. } | PushKind::LeftFree | PushKind::PlaceLost => {}
            }
            return;
        };
        // Its token, and another lock: nobody of ours has published that.
        if matches!(self.attempts.get(&id), Some(Attempt::Waiting(waiting)) if waiting.ask.name == push.name)
        {
            self.told(now, id, push.kind);
        }
    }

    pub(super) fn told(&mut self, now: Moment, id: Id, kind: PushKind) {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            // It is being released.
            return;
        };
        if waiting.keeps_for_its_answer(kind) {
            return;
        }
        match kind {
            PushKind::Granted { fence, at } => {
                self.granted(now, id, fence, at);
                return;
            }
            PushKind::Next { claim, claimant } => waiting.is_next(now, claim, claimant),
            PushKind::LeftFree => waiting.stand_back(now),
            PushKind::TakenAway | PushKind::PlaceLost => {}
        }
        self.schedule(id);
    }

    /// An operator has taken a lock away from its holder.
    fn taken_away(&mut self, now: Moment, push: &Push) {
        if let Some(id) = self.queues.holder(&push.name)
            && let Some(Attempt::Held(held)) = self.attempts.get(&id)
            && held.has(&push.token)
        {
            self.lost(now, id, LostReason::ForceReleased, false);
        }
    }

    /// Somebody else has touched these locks, or all: a hint. Who holds one compares, who is first in line asks.
    pub(crate) fn changed(&mut self, now: Moment, names: Option<&[Arc<str>]>) {
        let ids = match names {
            Some(names) => {
                let ids = names.iter().flat_map(|name| [self.queues.holder(name), self.queues.first(name)]);
                ids.flatten().collect()
            }
            None => self.ids(),
        };
        for id in ids {
            self.watch(id);
            match names {
                Some(_) => self.look(now, id),
                None => self.look_after_a_flush(now, id),
            }
        }
    }

    /// With the lock, its queue is gone.
    fn look_after_a_flush(&mut self, now: Moment, id: Id) {
        match self.attempts.get(&id) {
            Some(Attempt::Waiting(waiting)) if waiting.is_queued() => self.rejoin(now, id),
            _ => self.look(now, id),
        }
    }

    /// A waiter whose place in the queue may be gone makes sure of one, unless it asks anyway.
    fn rejoin(&mut self, now: Moment, id: Id) {
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id)
            && waiting.is_queued()
            && matches!(waiting.awaits, Awaits::ServerTurn | Awaits::Retry { .. })
        {
            self.ask_with_all(now, id);
        }
    }

    /// What the node says of the lock that a waiter watches from now on: it may have become free just before.
    pub(super) fn looked(&mut self, now: Moment, id: Id, reply: &Reply) {
        match reply {
            Reply::Free | Reply::Done => self.look(now, id),
            Reply::NotHeld => {
                if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
                    waiting.elections = 0;
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

    /// A waiter that would ask sooner or later does it now.
    pub(super) fn look(&mut self, now: Moment, id: Id) {
        let votes = self.abilities.votes;
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        if let Awaits::Retry { .. } = waiting.awaits {
            if votes {
                waiting.stands_for_election(now);
                self.schedule(id);
            } else {
                self.ask(now, id);
            }
        }
    }

    /// A grant for a token that no attempt waits with goes back at once, unless its answer was quicker than the push.
    fn return_unless_held(&mut self, now: Moment, push: &Push) {
        let holder = self.queues.holder(&push.name).and_then(|id| self.attempts.get(&id));
        let is_held = matches!(holder, Some(Attempt::Held(held)) if held.has(&push.token));
        if !is_held {
            let (name, token) = (Arc::clone(&push.name), push.token.clone());
            let request = Request { action: Action::Release, name: Arc::clone(&name), token, ttl: CLAIM };
            self.release_apart(now, Releasing::new(now, name, request, CLAIM));
        }
    }
}
