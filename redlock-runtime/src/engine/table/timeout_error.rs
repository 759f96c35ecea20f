//! The error of a caller whose wait is over: another holder has the lock, or Redis did not answer.

use std::sync::Arc;
use std::time::Duration;

use super::waiting::LastAnswer;
use super::{Attempt, LockTable};
use crate::clock::Moment;
use crate::engine::protocol::Id;
use crate::error::{Holder, LockError};
use crate::token;

impl LockTable {
    pub(super) fn timeout_error(&self, now: Moment, id: Id) -> LockError {
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
            holder,
            in_front: waiting.in_front(),
        };
        let name = &waiting.ask.name;
        if let Some(Attempt::Held(held)) = self.queues.holder(name).and_then(|id| self.attempts.get(&id)) {
            let expires_in = held.lease.remaining(now);
            return busy(Holder { owner: token::owner_of(held.token.value()), expires_in });
        }
        // Only the first waiter of this process asks: the others use its last answer.
        let asker = match self.queues.first(name).and_then(|id| self.attempts.get(&id)) {
            Some(Attempt::Waiting(first)) if !waiting.ask.one_try => first,
            _ => waiting,
        };
        let is_silent = asker.unanswered_for(now, self.settings.io_timeout / 2);
        match &asker.last_answer {
            LastAnswer::Busy(holder) if !is_silent => busy(holder.clone()),
            LastAnswer::Behind(token) if !is_silent => {
                busy(Holder { owner: token::owner_of(token.value()), expires_in: Some(Duration::ZERO) })
            }
            LastAnswer::Refused(reason) => LockError::unavailable(key, Arc::clone(reason)),
            LastAnswer::Nothing | LastAnswer::Behind(_) | LastAnswer::Busy(_) => {
                let waited = now.since(asker.ask.started);
                LockError::unavailable(
                    key,
                    format!("Redis is connected but gave no answer within {waited:.1?}"),
                )
            }
        }
    }
}
