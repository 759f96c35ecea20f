//! The limit of a wait: what its caller hears, and how the server is asked before.
//!
//! The limit is one for waiting. An answer that is under way then is awaited until it is late, so a
//! wait that is shorter than an answer takes is one try. And no caller hears from an old answer
//! that another one has the lock: the server may have stopped since. So a waiter whose last answer
//! is old has the server asked once more just before its limit. That question and its answer serve
//! all waiters of the lock in this process.

use std::sync::Arc;
use std::time::Duration;

use crate::ground::host::HashMap;

use super::lock::waiting::{Awaits, LastAnswer, Waiting};
use super::{Attempt, LockTable};
use crate::engine::protocol::Id;
use crate::ground::clock::Moment;
use crate::ground::error::{Holder, LockError};
use crate::ground::token;

/// The waiters that have reached their limit and await the server's word on their lock.
#[derive(Default)]
pub(super) struct LastWords {
    of: HashMap<Arc<str>, Vec<Id>>,
}

/// How long answers take.
#[derive(Clone, Copy)]
pub(super) struct AnswerTime {
    usual: Duration,
    /// An answer that takes longer is late, unless they usually take half as long.
    late: Duration,
    /// No answer is awaited for longer.
    limit: Duration,
}

impl AnswerTime {
    pub(super) fn new(io_timeout: Duration) -> Self {
        Self { usual: Duration::ZERO, late: io_timeout / 4, limit: io_timeout }
    }

    /// One answer took so long.
    pub(super) fn learn(&mut self, took: Duration) {
        self.usual = if self.usual.is_zero() { took } else { (7 * self.usual + took) / 8 };
    }

    fn usual(self) -> Duration {
        self.usual.min(self.limit)
    }

    fn late(self) -> Duration {
        self.late.max(2 * self.usual).min(self.limit)
    }
}

impl LockTable {
    /// An answer took so long.
    pub(crate) fn learns_answer_time(&mut self, took: Duration) {
        self.answer_time.learn(took);
    }

    /// From then on the word of the server is new enough for a caller that gives up at its limit.
    pub(super) fn word_from(&self, limit: Moment) -> Moment {
        limit.before(self.answer_time.usual())
    }

    /// The limit of this waiter has come, or is so near that the server must be asked now: its
    /// caller hears the outcome, or goes on waiting for the server's word.
    pub(super) fn gives_up(&mut self, now: Moment, id: Id) {
        let asker = self.asker_for_word(now, id);
        let asked_at = asker.map(|asker| self.word_asked_at(now, asker));
        let late = self.answer_time.late();
        let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) else {
            return;
        };
        let Some(limit) = waiting.ask.gives_up_at else {
            return;
        };
        waiting.gives_up = match asked_at {
            None => Some(limit),
            Some(_) if waiting.awaits_word => waiting.gives_up,
            Some(asked_at) => Some(limit.max(asked_at.after(late))),
        };
        waiting.awaits_word = asker.is_some();
        if waiting.is_over(now) {
            let error = self.timeout_error(now, id);
            self.fail(now, id, error);
            return;
        }
        if asker.is_some() {
            let name = Arc::clone(&waiting.ask.name);
            self.last_words.of.entry(name).or_default().push(id);
        }
        self.schedule(id);
    }

    /// The attempt whose request brings the word that this waiter needs; `None` when it needs none.
    fn asker_for_word(&self, now: Moment, id: Id) -> Option<Id> {
        let waiting = self.waiting(id)?;
        let is_known = waiting.ask.one_try
            || self.trouble.is_some()
            || self.holder_here(now, &waiting.ask.name).is_some()
            || waiting.may_give_up_with(self.last_word(waiting));
        let asker = if waiting.is_asking() { Some(id) } else { self.queues.first(&waiting.ask.name) };
        asker.filter(|_| !is_known)
    }

    /// When this attempt has asked the server, or now: then it asks.
    fn word_asked_at(&mut self, now: Moment, asker: Id) -> Moment {
        let Some(waiting) = self.waiting(asker) else {
            return now;
        };
        if let Awaits::Retry { .. } | Awaits::ServerTurn = waiting.awaits {
            self.ask(now, asker);
            return now;
        }
        waiting.asked_at().unwrap_or(now)
    }

    /// The server has told who has this lock, or that it cannot; or the attempt that has asked is
    /// gone.
    pub(super) fn word_comes(&mut self, now: Moment, name: &Arc<str>) {
        if let Some(waiters) = self.last_words.of.remove(name) {
            for id in waiters {
                self.gives_up(now, id);
            }
        }
    }

    /// There is no server to ask.
    pub(super) fn no_word_comes(&mut self, now: Moment) {
        for (_, waiters) in std::mem::take(&mut self.last_words.of) {
            for id in waiters {
                self.gives_up(now, id);
            }
        }
    }

    /// The transport cannot have this request served yet.
    pub(crate) fn delayed(&mut self, now: Moment, id: Id, reason: Arc<str>) {
        if let Some(Attempt::Waiting(waiting)) = self.attempts.get_mut(&id) {
            waiting.is_delayed(now, reason);
            let name = Arc::clone(&waiting.ask.name);
            self.word_comes(now, &name);
        }
    }

    /// The holder in this process.
    fn holder_here(&self, now: Moment, name: &Arc<str>) -> Option<Holder> {
        let Some(Attempt::Held(held)) = self.queues.holder(name).and_then(|id| self.attempts.get(&id)) else {
            return None;
        };
        let expires_in = held.lease.remaining(now)?;
        Some(Holder {
            owner: token::owner_of(held.holder().value()),
            expires_in: Some(expires_in),
            usual_hold: None,
        })
    }

    /// The waiter that asks the server: the first of this process, or the only one of a lock that
    /// is not queued for.
    fn asker<'a>(&'a self, waiting: &'a Waiting) -> &'a Waiting {
        let first = self.queues.first(&waiting.ask.name).filter(|_| !waiting.ask.one_try);
        first.and_then(|first| self.waiting(first)).unwrap_or(waiting)
    }

    /// The waiter with the last answer of the server: this one, or the one that asks.
    fn last_word<'a>(&'a self, waiting: &'a Waiting) -> &'a Waiting {
        waiting.later(self.asker(waiting))
    }

    /// Why the server has refused the lock to this waiter of late.
    pub(super) fn refusal<'a>(&'a self, waiting: &'a Waiting) -> Option<&'a str> {
        match &self.last_word(waiting).last_answer {
            LastAnswer::Refused(reason) => Some(reason),
            LastAnswer::Nothing | LastAnswer::Busy(_) => None,
        }
    }

    fn timeout_error(&self, now: Moment, id: Id) -> LockError {
        let Some(Attempt::Waiting(waiting)) = self.attempts.get(&id) else {
            return LockError::NotConfigured;
        };
        let key = &waiting.ask.key;
        if let Some(trouble) = &self.trouble {
            return trouble.error(Some(Arc::clone(key)));
        }
        if !self.connected {
            return LockError::unavailable(key, Arc::clone(&self.broke));
        }
        let busy = |holder: Holder| LockError::TimedOut {
            key: Arc::clone(key),
            waited: now.since(waiting.ask.started),
            holder: holder.into(),
            in_front: waiting.in_front(),
        };
        if let Some(holder) = self.holder_here(now, &waiting.ask.name) {
            return busy(holder);
        }
        let word = self.last_word(waiting);
        match &word.last_answer {
            LastAnswer::Busy(holder) if waiting.may_give_up_with(word) => busy(holder.clone()),
            LastAnswer::Refused(reason) => LockError::unavailable(key, Arc::clone(reason)),
            LastAnswer::Nothing | LastAnswer::Busy(_) => {
                let asked_at = self.asker(waiting).asked_at().or(waiting.asked_at());
                let silent_for = now.since(asked_at.unwrap_or(waiting.ask.started));
                LockError::unavailable(
                    key,
                    format!("Redis is connected but gave no answer within {silent_for:.1?}"),
                )
            }
        }
    }
}
