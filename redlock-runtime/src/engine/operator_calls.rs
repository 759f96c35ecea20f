//! The calls of operators, each with the type of its answer.
//!
//! The engine sends the request, and hands its reply back as it came: [`OperatorCall`] reads it. What
//! comes in pages is called once for each.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::command::{Command, OperatorRequest};
use super::handle::{ENGINE_GONE, Engine};
use super::protocol::{Action, Inspection, LastTick, Listed, Releases, Reply, Request, RunRecord};
use crate::base::clock::Moment;
use crate::base::error::LockError;
use crate::base::token::Token;

/// A request whose reply is a `T`.
pub(crate) struct OperatorCall<T> {
    request: Request,
    read: fn(Reply) -> Result<T, OfAnotherKind>,
}

/// A reply that is none to this request.
pub(crate) struct OfAnotherKind;

impl<T> OperatorCall<T> {
    fn new(action: Action, name: Arc<str>, read: fn(Reply) -> Result<T, OfAnotherKind>) -> Self {
        Self { request: Request::new(action, name, Token::empty(), Duration::ZERO), read }
    }
}

impl OperatorCall<Option<Inspection>> {
    pub(crate) fn inspect(name: Arc<str>) -> Self {
        Self::new(Action::Inspect, name, read_inspection)
    }

    /// Inspects, and releases for the holder of a lock with this value, or for any holder.
    pub(crate) fn force_release(name: Arc<str>, from: Option<Token>) -> Self {
        let Self { request, read } = Self::new(Action::ForceRelease, name, read_inspection);
        Self { request: Request { token: from.unwrap_or_else(Token::empty), ..request }, read }
    }

    /// Inspects, with what the leader has announced.
    pub(crate) fn leader(name: Arc<str>) -> Self {
        Self::new(Action::Leader, name, read_inspection)
    }
}

impl OperatorCall<bool> {
    /// Releases, if this token holds the lock, which may take a quarter of the ttl.
    pub(crate) fn release(name: Arc<str>, token: Token, ttl: Duration, release: Releases) -> Self {
        let request = Request::new(Action::Release, name, token, ttl);
        Self { request: Request { release, ..request }, read: |reply| read_whether(&reply) }
    }

    /// Forgets the last tick. True when one was recorded.
    pub(crate) fn clear_tick(name: Arc<str>) -> Self {
        Self::new(Action::ClearTick, name, |reply| read_whether(&reply))
    }

    /// Forgets a body that runs once. True when something was known.
    pub(crate) fn clear_record(name: Arc<str>) -> Self {
        Self::new(Action::ClearRecord, name, |reply| read_whether(&reply))
    }

    /// Has the server tell when what the leader has announced changes.
    pub(crate) fn watch_leader(name: Arc<str>) -> Self {
        Self::new(Action::WatchLeader, name, |reply| read_whether(&reply))
    }
}

impl OperatorCall<Option<u32>> {
    /// The central limit of a lock.
    pub(crate) fn permits(name: Arc<str>) -> Self {
        Self::new(Action::Permits, name, |reply| read_permits(&reply))
    }

    /// Sets it, or clears it. Returns the one before.
    pub(crate) fn set_permits(name: Arc<str>, permits: Option<u32>) -> Self {
        Self::new(Action::SetPermits { permits }, name, |reply| read_permits(&reply))
    }
}

impl OperatorCall<Option<LastTick>> {
    /// The last tick that is over.
    pub(crate) fn last_tick(name: Arc<str>) -> Self {
        Self::new(Action::LastTick, name, |reply| match reply {
            Reply::LastTick(last) => Ok(last),
            _ => Err(OfAnotherKind),
        })
    }
}

impl OperatorCall<Option<RunRecord>> {
    /// Reads what is known of a body that runs once.
    pub(crate) fn record(name: Arc<str>) -> Self {
        Self::new(Action::Record, name, |reply| match reply {
            Reply::Recorded(record) => Ok(record),
            _ => Err(OfAnotherKind),
        })
    }
}

impl OperatorCall<(u64, Vec<String>)> {
    /// A page of the names that match the pattern, and the cursor of the next one; 0 after the last.
    pub(crate) fn list(what: Listed, pattern: Arc<str>, cursor: u64) -> Self {
        Self::new(Action::List { cursor, what }, pattern, |reply| match reply {
            Reply::Page { cursor, names } => Ok((cursor, names)),
            _ => Err(OfAnotherKind),
        })
    }
}

impl OperatorCall<Option<u64>> {
    /// Does the server take locks? In a Cluster, the cursor is the number of a primary; the answer is
    /// the next one.
    pub(crate) fn ping(name: Arc<str>, cursor: u64) -> Self {
        Self::new(Action::Ping { cursor }, name, |reply| match reply {
            Reply::Done => Ok(None),
            Reply::Page { cursor, .. } => Ok(Some(cursor)),
            _ => Err(OfAnotherKind),
        })
    }
}

fn read_inspection(reply: Reply) -> Result<Option<Inspection>, OfAnotherKind> {
    if let Reply::Found(found) = reply { Ok(found) } else { Err(OfAnotherKind) }
}

fn read_permits(reply: &Reply) -> Result<Option<u32>, OfAnotherKind> {
    if let Reply::Permits(permits) = *reply { Ok(permits) } else { Err(OfAnotherKind) }
}

fn read_whether(reply: &Reply) -> Result<bool, OfAnotherKind> {
    match reply {
        Reply::Done => Ok(true),
        Reply::NotHeld => Ok(false),
        _ => Err(OfAnotherKind),
    }
}

impl Engine {
    /// Sends the call at once, and waits for its answer when polled.
    pub(crate) fn call<T>(
        &self,
        key: Option<Arc<str>>,
        call: OperatorCall<T>,
    ) -> impl Future<Output = Result<T, LockError>> + use<T> {
        self.call_by(self.now().after(self.io_timeout()), key, call)
    }

    /// As [`call`](Self::call), with a time limit that several calls share.
    pub(crate) fn call_by<T>(
        &self,
        by: Moment,
        key: Option<Arc<str>>,
        OperatorCall { request, read }: OperatorCall<T>,
    ) -> impl Future<Output = Result<T, LockError>> + use<T> {
        let (caller, reply) = oneshot::channel();
        let call = Box::new(OperatorRequest { key: key.clone(), request, by, caller });
        self.send(Command::Operator { id: self.new_id(), call });
        async move {
            match reply.await {
                Ok(Ok(Reply::Refused(refusal))) => Err(refusal.error(key)),
                Ok(Ok(reply)) => read(reply).map_err(|OfAnotherKind| {
                    let reason = "the server gave an answer of another kind".into();
                    LockError::Misconfigured { key, reason }
                }),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(LockError::ManagerClosed { key, reason: ENGINE_GONE }),
            }
        }
    }
}
