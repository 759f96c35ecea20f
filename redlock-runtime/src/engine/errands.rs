//! Questions about locks that need not be ours, and taking one away: what an operator asks for.
//!
//! Each is asked once. Without a connection, or without an answer in time, it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Id;
use super::protocol::{Action, Disconnected, Found, Reply, Request};
use super::table::Table;
use crate::clock::Moment;
use crate::error::LockError;
use crate::lost_reason::LostReason;
use crate::token::Token;

/// What is asked, and where the answer goes.
pub(crate) struct Errand {
    /// The user's key, for errors; `None` when it is about all.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) question: Question,
    pub(crate) by: Moment,
}

pub(crate) enum Question {
    Inspect {
        name: Arc<str>,
        caller: oneshot::Sender<Result<Option<Found>, LockError>>,
    },
    /// Inspect, and take away.
    ForceRelease {
        name: Arc<str>,
        caller: oneshot::Sender<Result<Option<Found>, LockError>>,
    },
    /// All names that match, a page at a time.
    List {
        pattern: Arc<str>,
        cursor: u64,
        found: Vec<String>,
        caller: oneshot::Sender<Result<Vec<String>, LockError>>,
    },
}

impl Question {
    fn request(&self) -> Request {
        let (action, name) = match self {
            Self::Inspect { name, .. } => (Action::Inspect, name),
            Self::ForceRelease { name, .. } => (Action::ForceRelease, name),
            Self::List { pattern, cursor, .. } => (Action::List { cursor: *cursor }, pattern),
        };
        Request { action, name: Arc::clone(name), token: Token::nobodys(), ttl: Duration::ZERO }
    }

    fn fail(self, error: LockError) {
        // A caller that has gone does not mind, here and below.
        match self {
            Self::Inspect { caller, .. } | Self::ForceRelease { caller, .. } => {
                let _ = caller.send(Err(error));
            }
            Self::List { caller, .. } => {
                let _ = caller.send(Err(error));
            }
        }
    }

    /// The next page to ask for, if there is one.
    fn answer(self, key: Option<&Arc<str>>, reply: Reply) -> Option<Self> {
        match (self, reply) {
            (Self::Inspect { caller, .. } | Self::ForceRelease { caller, .. }, Reply::Found(found)) => {
                drop(caller.send(Ok(found)));
                None
            }
            (Self::List { pattern, mut found, caller, .. }, Reply::Page { cursor, names }) => {
                found.extend(names);
                if cursor != 0 {
                    return Some(Self::List { pattern, cursor, found, caller });
                }
                // A key that moves while it is looked for is found twice.
                found.sort_unstable();
                found.dedup();
                drop(caller.send(Ok(found)));
                None
            }
            (question, Reply::Refused(refusal)) => {
                question.fail(refusal.error(key.cloned()));
                None
            }
            (question, _) => {
                let reason = "the server gave an answer of another kind".into();
                question.fail(LockError::Misconfigured { key: key.cloned(), reason });
                None
            }
        }
    }
}

impl Table {
    pub(super) fn errand(&mut self, now: Moment, id: Id, errand: Errand) {
        if let Some(trouble) = &self.trouble {
            errand.question.fail(trouble.error(errand.key));
            return;
        }
        self.timers.set(id, Some(errand.by));
        self.errands.insert(id, errand);
        self.send_errand(now, id);
    }

    pub(super) fn send_errand(&mut self, now: Moment, id: Id) {
        let Some(errand) = self.errands.get(&id).filter(|_| self.connected) else {
            return;
        };
        let request = errand.question.request();
        self.outbox.push((id, request.clone()));
        // The server does not tell a client of what it does itself.
        if request.action == Action::ForceRelease
            && let Some(holder) = self.queues.holder(&request.name)
        {
            self.lost(now, holder, LostReason::ForceReleased, true);
        }
    }

    pub(super) fn errand_reply(&mut self, now: Moment, id: Id, reply: Reply) {
        let Some(Errand { key, question, by }) = self.errands.remove(&id) else {
            return;
        };
        if matches!(&reply, Reply::Refused(refusal) if refusal.is_asked_again()) {
            self.errands.insert(id, Errand { key, question, by });
            self.send_errand(now, id);
            return;
        }
        self.timers.set(id, None);
        if let Some(question) = question.answer(key.as_ref(), reply) {
            // Each page has as long as the first.
            let by = now.after(self.io_timeout);
            self.errand(now, id, Errand { key, question, by });
        }
    }

    /// No answer in time, or no way to get one.
    pub(super) fn fail_errand(&mut self, id: Id, trouble: &Disconnected) {
        if let Some(Errand { key, question, .. }) = self.errands.remove(&id) {
            self.timers.set(id, None);
            question.fail(trouble.error(key));
        }
    }
}
