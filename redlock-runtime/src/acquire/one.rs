//! One key, from the request to the guard.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use crate::base::error::LockError;
use crate::base::host;
use crate::base::one_or_many::OneOrMany;
use crate::base::telemetry::Events;
use crate::base::token;
use crate::engine::command::{AcquireOutcome, Ask, Command, HoldLimits, NewAttempt, WaitDeadline};
use crate::engine::handle::{ENGINE_GONE, Engine};
use crate::engine::protocol::Id;
use crate::guard::LockGuard;
use crate::manager::LockManager;
use crate::options::{Options, Sharing};
use crate::reentrancy::{HeldLock, Scope};

/// An attempt at one key. Dropping it ends the attempt: a lock that it has acquired, or may still
/// acquire, is released.
pub(super) struct AcquireOne {
    state: AcquireOneState,
}

enum AcquireOneState {
    /// A nested call, whose caller holds the lock.
    Joined {
        engine: Arc<Engine>,
        hold: HeldLock,
    },
    /// The lock is held, and the fencing token is drawn that it was taken without.
    Fencing {
        engine: Arc<Engine>,
        hold: HeldLock,
        drawn: oneshot::Receiver<()>,
    },
    Asked {
        engine: Arc<Engine>,
        id: Id,
        key: Arc<str>,
        outcome: oneshot::Receiver<AcquireOutcome>,
    },
    Done,
}

/// The reason in an error of a nested call: the lock itself is still held.
const NO_FENCE: &str = "the server gave no fencing token for a lock that was taken without one";

/// How an attempt at one key ends.
pub(super) enum OneOutcome {
    Done(Result<LockGuard, LockError>),
    /// The key in front of it is not held yet: ask again when it is. Never for a key that was asked
    /// for alone.
    Skipped,
}

impl AcquireOne {
    /// `fenced`: the nested call can see the fencing token.
    pub(super) fn joined(engine: Arc<Engine>, hold: HeldLock, fenced: bool) -> Self {
        if !fenced || hold.lease.fence() > 0 {
            return Self { state: AcquireOneState::Joined { engine, hold } };
        }
        let (caller, drawn) = oneshot::channel();
        engine.send(Command::Fence { id: hold.id, caller });
        Self { state: AcquireOneState::Fencing { engine, hold, drawn } }
    }

    /// The key, while the engine owes the outcome.
    pub(super) fn asked_key(&self) -> Option<&Arc<str>> {
        match &self.state {
            AcquireOneState::Asked { key, .. } => Some(key),
            AcquireOneState::Fencing { hold, .. } => Some(hold.lease.key()),
            AcquireOneState::Joined { .. } | AcquireOneState::Done => None,
        }
    }

    /// The callback of its manager; none once it is done.
    pub(super) fn events(&self) -> Events {
        match &self.state {
            AcquireOneState::Asked { engine, .. }
            | AcquireOneState::Fencing { engine, .. }
            | AcquireOneState::Joined { engine, .. } => engine.events().clone(),
            AcquireOneState::Done => Events::default(),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<OneOutcome> {
        // Polling after completion stays pending, and does not panic.
        let outcome = match &mut self.state {
            AcquireOneState::Joined { .. } => None,
            AcquireOneState::Fencing { drawn, .. } => {
                // Where no answer comes, the lease tells what is known.
                let _ = ready!(Pin::new(drawn).poll(cx));
                None
            }
            AcquireOneState::Asked { outcome, .. } => Some(ready!(Pin::new(outcome).poll(cx))),
            AcquireOneState::Done => return Poll::Pending,
        };
        Poll::Ready(match (std::mem::replace(&mut self.state, AcquireOneState::Done), outcome) {
            (AcquireOneState::Joined { engine, hold }, _) => {
                OneOutcome::Done(Ok(LockGuard::joined(Scope { engine, holds: OneOrMany::One(hold) })))
            }
            (AcquireOneState::Fencing { engine, hold, .. }, _) => {
                OneOutcome::Done(if hold.lease.fence() > 0 {
                    Ok(LockGuard::joined(Scope { engine, holds: OneOrMany::One(hold) }))
                } else if hold.lease.check(engine.now()).is_none() {
                    Err(hold.lease.lost())
                } else {
                    Err(LockError::unavailable(hold.lease.key(), NO_FENCE))
                })
            }
            (AcquireOneState::Asked { engine, id, key, .. }, Some(outcome)) => match outcome {
                Ok(AcquireOutcome::Held(lease, ask)) => {
                    drop(ask);
                    OneOutcome::Done(Ok(LockGuard::new(engine, id, lease)))
                }
                Ok(AcquireOutcome::Failed(error)) => OneOutcome::Done(Err(*error)),
                Ok(AcquireOutcome::Skipped) => OneOutcome::Skipped,
                Ok(AcquireOutcome::Replayed) => OneOutcome::Done(Ok(LockGuard::of_no_lock(engine))),
                Err(_) => OneOutcome::Done(Err(LockError::closed(&key, ENGINE_GONE))),
            },
            (AcquireOneState::Asked { .. } | AcquireOneState::Done, _) => return Poll::Pending,
        })
    }
}

impl Drop for AcquireOne {
    fn drop(&mut self) {
        if let AcquireOneState::Asked { engine, id, .. } = &self.state {
            engine.send(Command::Abandon { id: *id });
        }
    }
}

impl fmt::Debug for AcquireOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            AcquireOneState::Joined { .. } | AcquireOneState::Fencing { .. } => f.write_str("Joined"),
            AcquireOneState::Asked { key, .. } => {
                f.debug_struct("Asked").field("key", key).finish_non_exhaustive()
            }
            AcquireOneState::Done => f.write_str("Done"),
        }
    }
}

impl Options {
    /// Sends an attempt at `key`.
    pub(super) fn ask(
        &self,
        manager: &LockManager,
        key: Arc<str>,
        deadline: WaitDeadline,
    ) -> Result<AcquireOne, LockError> {
        let name = manager.name(&key);
        let process = host::process_id();
        let (acquire, (id, ask, token)) = self.attempt(manager, process, key, name, deadline, None)?;
        manager.engine().send_from(process, Command::Acquire { id, ask, token });
        Ok(acquire)
    }

    /// An attempt that is not sent yet; `after` is the key in front of it in the same call.
    pub(super) fn attempt(
        &self,
        manager: &LockManager,
        process: u32,
        key: Arc<str>,
        name: Arc<str>,
        deadline: WaitDeadline,
        after: Option<Id>,
    ) -> Result<(AcquireOne, NewAttempt), LockError> {
        let engine = Arc::clone(manager.engine());
        let token = engine
            .tokens()
            .token(process, &self.origin)
            .map_err(|error| LockError::unavailable(&key, token::no_random(error)))?;
        let (caller, outcome) = oneshot::channel();
        let kind = self.kind(&key, deadline.started)?;
        let ask = Box::new(Ask {
            name,
            key,
            ttl: self.ttl(manager),
            renew: self.renew,
            hold: HoldLimits {
                max: self.max_hold(manager),
                min: self.min_hold.filter(|min_hold| !min_hold.is_zero()),
                limits_rate: self.sharing != Sharing::Exclusive,
                starts: self.sharing.is_rate().then(|| self.sharing.limit().number()),
            },
            kind,
            fenced: self.fenced && !self.sharing.is_rate(),
            after,
            max_waiters: manager.max_waiters(),
            deadline,
            caller: Some(caller),
            call: self.call.clone(),
            origin: self.origin.clone(),
            hold_kind: None,
        });
        let id = engine.new_id();
        let key = Arc::clone(&ask.key);
        let acquire = AcquireOne { state: AcquireOneState::Asked { engine, id, key, outcome } };
        Ok((acquire, (id, ask, token)))
    }
}
