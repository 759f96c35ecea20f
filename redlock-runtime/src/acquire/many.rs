//! Several locks as one: taken one after the other, all or nothing, under one deadline.
//!
//! Every caller takes them in the same order, so no holder of a later one waits for an earlier one.
//! Each key keeps its own queue, token, lease and hand-off; locks that are held are renewed while
//! the next one is waited for.
//!
//! One call asks for the next keys, and takes one after the other until one is busy. When that one
//! is held, the next call asks for the rest. In a Cluster a call goes as far as the keys share a
//! slot. The order is the same there: callers that move from a server to a Cluster, or run another
//! version, must not take the keys in another order.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::one::{AcquireOne, OneOutcome};
use crate::base::error::LockError;
use crate::base::host;
use crate::base::lease::Lease;
use crate::base::lease::LeaseEnd;
use crate::base::telemetry::Events;
use crate::engine::command::{Command, NewAttempt, WaitDeadline};
use crate::engine::multi_key::MAX_KEYS;
use crate::guard::LockGuard;
use crate::lock_key::LockKey;
use crate::manager::LockManager;
use crate::options::{Options, Sharing};
use crate::reentrancy::HeldLock;

/// An attempt at all the keys of a request.
pub(super) struct AcquireAll {
    manager: LockManager,
    options: Options,
    /// The keys in order, each once.
    keys: Vec<WantedKey>,
    deadline: WaitDeadline,
    /// The locks on the first keys.
    taken: Vec<Taken>,
    /// The attempts at the next keys, which one call asked for.
    asked: VecDeque<AcquireOne>,
}

struct WantedKey {
    key: Arc<str>,
    sharing: Sharing,
    /// The lock of a nested caller that holds it.
    outer: Option<HeldLock>,
}

struct Taken {
    guard: LockGuard,
    /// Set when the caller first waits.
    lease_end: Option<Pin<Box<LeaseEnd>>>,
}

impl AcquireAll {
    /// Checks the request; sends nothing.
    pub(super) fn new(
        manager: LockManager,
        mut options: Options,
        keys: Vec<LockKey>,
    ) -> Result<Self, LockError> {
        if keys.is_empty() {
            let reason = "the list of keys is empty: name at least one".into();
            return Err(LockError::InvalidRequest { key: "[]".into(), reason });
        }
        options.check_of_several()?;
        let keys = keys
            .into_iter()
            .map(|LockKey { key, sharing }| {
                options.sharing = sharing;
                let key = options.check(&manager, key)?;
                let outer = options.joins(&manager, &key)?;
                Ok(WantedKey { key, sharing, outer })
            })
            .collect::<Result<_, LockError>>()?;
        let deadline = options.deadline(&manager);
        // One script takes them all, and a plain command only one.
        let options = Options { fenced: true, ..options };
        Ok(Self { manager, options, keys, deadline, taken: Vec::new(), asked: VecDeque::new() })
    }

    /// The callback of its manager.
    pub(super) fn events(&self) -> Events {
        self.manager.engine().events().clone()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<LockGuard, LockError>> {
        loop {
            if self.taken.len() == self.keys.len() {
                if let Some(lease) = self.lost() {
                    self.start_over(&lease)?;
                    continue;
                }
                let guards = self.taken.drain(..).map(|taken| taken.guard);
                return Poll::Ready(Ok(LockGuard::all(Arc::clone(self.manager.engine()), guards)));
            }
            let Some(next) = self.asked.front_mut() else {
                self.ask()?;
                continue;
            };
            let outcome = match next.poll(cx) {
                Poll::Ready(OneOutcome::Done(outcome)) => outcome,
                // Skipped, and so are the keys after it: they are asked for now.
                Poll::Ready(OneOutcome::Skipped) => {
                    self.asked.clear();
                    continue;
                }
                Poll::Pending => {
                    let lease = ready!(self.poll_lost(cx));
                    self.start_over(&lease)?;
                    continue;
                }
            };
            self.asked.pop_front();
            match outcome {
                Ok(guard) => {
                    self.taken.push(Taken { guard, lease_end: None });
                }
                Err(error) => {
                    if let Some(lease) = self.lost() {
                        self.start_over(&lease)?;
                        continue;
                    }
                    self.give_up();
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Names the request in an error that is about all its keys.
    pub(super) fn first_key(&self) -> Option<&Arc<str>> {
        self.keys.first().map(|WantedKey { key, .. }| key)
    }

    /// Asks for the next keys, as many as one call may.
    fn ask(&mut self) -> Result<(), LockError> {
        let (engine, process) = (self.manager.engine(), host::process_id());
        let mut first: Option<Arc<str>> = None;
        let mut asks: Vec<NewAttempt> = Vec::new();
        for WantedKey { key, sharing, outer } in self.keys.iter().skip(self.taken.len()) {
            if let Some(hold) = outer.clone() {
                let acquire = AcquireOne::joined(Arc::clone(engine), hold, self.options.fenced);
                self.asked.push_back(acquire);
                continue;
            }
            let name = self.manager.name(key);
            let first = first.get_or_insert_with(|| Arc::clone(&name));
            // The script for several keys takes exclusive locks.
            let is_alone = sharing.limit().is_counted() || self.options.sharing.limit().is_counted();
            if !asks.is_empty()
                && (is_alone || asks.len() == MAX_KEYS || !engine.multi_key().allows(first, &name))
            {
                break;
            }
            self.options.sharing = *sharing;
            let after = asks.last().map(|(id, ..)| *id);
            // One try for each key, with as much time for the answer.
            let deadline =
                if self.deadline.one_try { self.options.deadline(&self.manager) } else { self.deadline };
            let (acquire, ask) =
                self.options.attempt(&self.manager, process, Arc::clone(key), name, deadline, after)?;
            self.asked.push_back(acquire);
            asks.push(ask);
        }
        if !asks.is_empty() {
            engine.send_from(process, Command::AcquireAll { asks });
        }
        Ok(())
    }

    /// The first taken lock that is no longer held.
    fn lost(&self) -> Option<Arc<Lease>> {
        self.taken.iter().find_map(|taken| taken.guard.lost_lease()).cloned()
    }

    /// Ready when a taken lock is no longer held.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<Arc<Lease>> {
        for Taken { guard, lease_end } in &mut self.taken {
            let lease_end = lease_end.get_or_insert_with(|| Box::pin(guard.lease_end()));
            if let Poll::Ready(lease) = lease_end.as_mut().poll(cx) {
                return Poll::Ready(lease);
            }
        }
        Poll::Pending
    }

    /// Another caller may have held it since: the body would not have run under all the locks at
    /// once.
    fn start_over(&mut self, lost: &Lease) -> Result<(), LockError> {
        self.give_up();
        let is_outer =
            self.keys.iter().any(|WantedKey { key, outer, .. }| key == lost.key() && outer.is_some());
        let is_late = self.deadline.gives_up_at.is_some_and(|at| at <= self.manager.engine().now());
        if is_outer || is_late || self.deadline.one_try {
            return Err(lost.lost());
        }
        Ok(())
    }

    /// Releases the locks that are taken, and those that the server may still grant.
    fn give_up(&mut self) {
        self.asked.clear();
        for taken in self.taken.drain(..) {
            taken.guard.abandon();
        }
    }
}

impl Drop for AcquireAll {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for AcquireAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.iter().map(|WantedKey { key, .. }| key).collect::<Vec<_>>();
        f.debug_struct("AcquireAll")
            .field("keys", &keys)
            .field("taken", &self.taken.len())
            .finish_non_exhaustive()
    }
}
