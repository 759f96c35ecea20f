//! Questions about locks that need not be ours, and taking one away: what an operator asks for.
//!
//! Each is asked once. Without a connection, or without an answer in time, it fails.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Id;
use super::protocol::{Action, Found, Reply, Request};
use super::table::Table;
use crate::clock::Moment;
use crate::token::Token;

/// What is asked, and where the answer goes; an error is in the words of the server.
pub(crate) struct Errand {
    pub(crate) question: Question,
    pub(crate) by: Moment,
}

pub(crate) enum Question {
    Inspect {
        name: Arc<str>,
        caller: oneshot::Sender<Result<Option<Found>, Arc<str>>>,
    },
    /// Inspect, and take away.
    ForceRelease {
        name: Arc<str>,
        caller: oneshot::Sender<Result<Option<Found>, Arc<str>>>,
    },
    /// All names that match, a page at a time.
    List {
        pattern: Arc<str>,
        cursor: u64,
        found: Vec<String>,
        caller: oneshot::Sender<Result<Vec<String>, Arc<str>>>,
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

    fn fail(self, reason: Arc<str>) {
        // A caller that has gone does not mind, here and below.
        match self {
            Self::Inspect { caller, .. } | Self::ForceRelease { caller, .. } => {
                let _ = caller.send(Err(reason));
            }
            Self::List { caller, .. } => {
                let _ = caller.send(Err(reason));
            }
        }
    }

    /// The next page to ask for, if there is one.
    fn answer(self, reply: Reply) -> Option<Self> {
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
                question.fail(refusal.words());
                None
            }
            (question, _) => {
                question.fail("the server gave an answer of another kind".into());
                None
            }
        }
    }
}

impl Table {
    pub(super) fn errand(&mut self, id: Id, errand: Errand) {
        if let Some(trouble) = &self.trouble {
            errand.question.fail(Arc::clone(&trouble.reason));
            return;
        }
        self.timers.set(id, Some(errand.by));
        self.errands.insert(id, errand);
        self.send_errand(id);
    }

    pub(super) fn send_errand(&mut self, id: Id) {
        if let Some(errand) = self.errands.get(&id)
            && self.connected
        {
            self.outbox.push((id, errand.question.request()));
        }
    }

    pub(super) fn errand_reply(&mut self, id: Id, reply: Reply) {
        let Some(Errand { question, by }) = self.errands.remove(&id) else {
            return;
        };
        if matches!(&reply, Reply::Refused(refusal) if refusal.is_unloaded()) {
            self.errands.insert(id, Errand { question, by });
            self.send_errand(id);
            return;
        }
        self.timers.set(id, None);
        if let Some(question) = question.answer(reply) {
            self.errand(id, Errand { question, by });
        }
    }

    /// No answer in time, or no way to get one.
    pub(super) fn fail_errand(&mut self, id: Id, reason: &Arc<str>) {
        if let Some(errand) = self.errands.remove(&id) {
            self.timers.set(id, None);
            errand.question.fail(Arc::clone(reason));
        }
    }
}
