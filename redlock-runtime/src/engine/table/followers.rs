//! Followers: the waiters of this process that come next in the queue when the server grants it a lock.
//!
//! The grant names them, and the process passes the lock on to them itself, in their order: first come, first served holds over
//! all processes, without a request for each. To the server all these holders are one, as in a [cohort](super::cohort): one
//! token, one key to renew. Their places in the queue are given back with the last release.

use std::sync::Arc;
use std::time::Duration;

use super::held::Held;
use super::local_queue::NextAsker;
use super::waiting::Waiting;
use super::{Attempt, LockTable};
use crate::clock::Moment;
use crate::engine::protocol::{Id, Push};
use crate::token::Token;

/// So long after its grant, a lock is passed on. Then the server gets it back: what it shows of the holder and of the waiters is
/// no older than that, and the last body.
const LONGEST: Duration = Duration::from_millis(10);

pub(super) struct Followers {
    until: Moment,
    /// The secrets of their tokens.
    secrets: Box<str>,
    /// Where those begin that are left.
    left: usize,
    /// They have had the lock, or have left when it was their turn. The server has places for them.
    served: Vec<Token>,
}

impl Followers {
    pub(super) fn new(now: Moment, secrets: &str) -> Self {
        Self { until: now.after(LONGEST), secrets: secrets.into(), left: 0, served: Vec::new() }
    }

    /// True when `next` is the first one of those that still wait: its turn has come.
    pub(super) fn serve(&mut self, now: Moment, next: &Waiting) -> bool {
        // An answer to one that asks may be from before its turn.
        if now >= self.until || !next.sleeps_in_queue() {
            return false;
        }
        let mut left = self.secrets.get(self.left..).unwrap_or_default();
        let is_first =
            std::iter::from_fn(|| Token::take_secret(&mut left)).any(|secret| secret == next.token.secret());
        self.left = self.secrets.len() - left.len();
        if is_first {
            self.served.push(next.token.clone());
        }
        is_first
    }

    /// The others get the lock from the server: what it has said of its queue may not be true any more.
    pub(super) fn end(&mut self) {
        self.left = self.secrets.len();
    }

    /// Those whose places must be given back.
    pub(super) fn served(&self) -> Option<Arc<[Token]>> {
        (!self.served.is_empty()).then(|| self.served.as_slice().into())
    }
}

impl LockTable {
    /// The grant to `id` has named the waiters that come next.
    pub(super) fn is_followed(&mut self, now: Moment, id: Id, grant: &Push) {
        // The replicas confirm the lock of one holder.
        if grant.followers.is_empty() || self.settings.replicas > 0 {
            return;
        }
        if let Some(Attempt::Held(held)) = self.attempts.get_mut(&id)
            && held.has(&grant.token)
        {
            held.is_followed(now, &grant.followers);
        }
    }

    /// Passes a released lock on to the next follower. Returns the lock when it must be released on the server.
    pub(super) fn serve_followers(&mut self, now: Moment, id: Id, mut held: Box<Held>) -> Option<Box<Held>> {
        let name = Arc::clone(&held.name);
        while let Some(next_id) = self.queues.first(&name) {
            let Some(Attempt::Waiting(next)) = self.attempts.get(&next_id) else {
                return Some(held);
            };
            let Some(lease) = held.serves(now, next) else {
                return Some(held);
            };
            let claim_ends = lease.deadline();
            let Some(kept) = self.give_to(now, next_id, lease, id, held) else {
                // As behind a grant of the server.
                self.take_turn(now, self.queues.first(&name).map(NextAsker::Later));
                if let Some(ends) = claim_ends {
                    self.waits_for_own_claim(&name, ends);
                }
                return None;
            };
            held = kept;
        }
        Some(held)
    }
}
