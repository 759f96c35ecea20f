//! The locks that the running code holds, so that it does not wait for itself.
//!
//! An async body is registered while it is polled, and a sync body while it runs. So a task keeps
//! its locks whichever thread polls it next, and a task that a body spawns has none of them. A sync
//! body may run a whole runtime: the ids of the tokio tasks that it polls distinguish them from
//! the body.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::task;

use crate::base::lease::{Lease, LeaseEnd};
use crate::base::limit::Limit;
use crate::base::one_or_many::OneOrMany;
use crate::engine::handle::Engine;
use crate::engine::protocol::Id;

/// The advice to a nested call that may join the outer lock.
pub(crate) const BE_REENTRANT: &str = "make the inner call `reentrant`, or use another key";

/// Returns what to do instead, where a nested call cannot join the outer lock, `reentrant` or not.
/// The server knows no owner of both: an upgrade would wait for its own reader, and a reader behind
/// a queued writer for that one, which waits for the outer reader.
pub(crate) fn advice(outer: Limit, inner: Limit) -> Option<&'static str> {
    match (outer.number(), inner.number()) {
        (0, 0) | (1, 1) => None,
        (0, 1) => Some(
            "the outer call holds it `shared`, and no call turns that into an exclusive lock: take it without `shared` \
             in the outer call, or end the outer call first",
        ),
        (1, _) => Some(
            "the outer call holds it alone, and nobody is let in beside it: leave out `shared` or `permits` in the inner \
             call and make that `reentrant`, or end the outer call first",
        ),
        (0, _) => Some(
            "the outer call holds it `shared`, and the inner one asks for a permit: ask for the same in both, or use \
             another key",
        ),
        _ => Some(
            "the outer call has one of its permits, and the others may be taken by callers that wait like this one: do \
             the work of both under one permit, or use another key",
        ),
    }
}

/// A held lock, for a nested call to join.
#[derive(Clone)]
pub(crate) struct HeldLock {
    pub(crate) id: Id,
    pub(crate) lease: Arc<Lease>,
}

/// The locks that a body holds, all of one manager.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) engine: Arc<Engine>,
    pub(crate) holds: OneOrMany<HeldLock>,
}

impl Scope {
    /// The first of its leases that has ended.
    #[inline]
    pub(crate) fn lost_lease(&self) -> Option<&Arc<Lease>> {
        let now = self.engine.now();
        self.holds.as_slice().iter().map(|hold| &hold.lease).find(|lease| !lease.lasts(now))
    }

    /// Its body has started under a rate, and holds nothing.
    fn is_start(&self) -> bool {
        self.holds.as_slice().iter().any(|hold| hold.lease.is_start())
    }

    /// The body that holds them gives a sign of life, if it leads.
    pub(crate) fn beat(&self) {
        for heartbeat in self.holds.as_slice().iter().filter_map(|hold| hold.lease.heartbeat()) {
            heartbeat.beat(self.engine.now());
        }
    }

    /// Returns how long until the first of its leases ends; `None` when one has ended.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        if !self.engine.is_here() {
            return None;
        }
        let now = self.engine.now();
        // `None` is less than any duration.
        self.holds.as_slice().iter().map(|hold| hold.lease.check(now)).min().flatten()
    }

    /// Completes when the first of its leases ends.
    pub(crate) fn lease_end(&self) -> LeaseEnd {
        LeaseEnd::of(self.engine.clock(), self.holds.map(|hold| Arc::clone(&hold.lease)))
    }
}

thread_local! {
    /// Each with the tokio task that entered it, if there was one.
    static HERE: RefCell<Vec<(Option<task::Id>, Scope)>> = const { RefCell::new(Vec::new()) };
}

/// Until this is dropped, the scope is in the thread's list; then it is back in its slot.
pub(crate) struct Entered<'a> {
    slot: &'a mut Option<Scope>,
}

/// Registers the scope in `slot` for the code that this thread runs from now on.
#[inline]
pub(crate) fn enter(slot: &mut Option<Scope>) -> Entered<'_> {
    if let Some(scope) = slot.take() {
        // A thread that is ending has no list any more.
        let _ = HERE.try_with(|here| here.borrow_mut().push((task::try_id(), scope)));
    }
    Entered { slot }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        *self.slot = HERE.try_with(|here| here.borrow_mut().pop()).ok().flatten().map(|(_, scope)| scope);
    }
}

/// Until this is dropped, the scope is in the thread's list.
pub(crate) struct EnteredHere {
    is_listed: bool,
}

/// [`enter`] for a sync body, which is entered once.
pub(crate) fn enter_here(scope: Scope) -> EnteredHere {
    let listed = HERE.try_with(|here| here.borrow_mut().push((task::try_id(), scope)));
    EnteredHere { is_listed: listed.is_ok() }
}

impl Drop for EnteredHere {
    fn drop(&mut self) {
        if self.is_listed {
            let left = HERE.try_with(|here| here.borrow_mut().pop());
            drop(left);
        }
    }
}

/// True inside the body that has these locks.
pub(crate) fn runs_here(scope: &Scope) -> bool {
    let same = |hold: &HeldLock, other: &HeldLock| Arc::ptr_eq(&hold.lease, &other.lease);
    let is_same = |(_, inside): &(Option<task::Id>, Scope)| {
        inside.holds.as_slice().iter().zip(scope.holds.as_slice()).all(|(hold, other)| same(hold, other))
    };
    HERE.try_with(|here| here.borrow().iter().any(is_same)).unwrap_or_default()
}

/// The locks of the innermost body that the running code is in.
pub(crate) fn innermost() -> Option<Scope> {
    let task = task::try_id();
    let is_ours = |(entered_by, scope): &&(Option<task::Id>, Scope)| {
        *entered_by == task && scope.engine.is_here() && !scope.is_start()
    };
    let find = |here: &RefCell<Vec<(Option<task::Id>, Scope)>>| {
        here.borrow().iter().rev().find(is_ours).map(|(_, scope)| scope.clone())
    };
    HERE.try_with(find).ok().flatten()
}

/// The lock on `key` that the running code holds through this engine.
pub(crate) fn held_here(engine: &Arc<Engine>, key: &str) -> Option<HeldLock> {
    let same = |hold: &&HeldLock| **hold.lease.key() == *key && hold.lease.check(engine.now()).is_some();
    let task = task::try_id();
    let within = |(entered_by, scope): &(Option<task::Id>, Scope)| {
        let is_ours = *entered_by == task && Arc::ptr_eq(&scope.engine, engine);
        scope.holds.as_slice().iter().filter(|_| is_ours).find(same).cloned()
    };
    let held = HERE.try_with(|here| here.borrow().iter().rev().find_map(within)).ok().flatten();
    held.filter(|_| engine.is_here())
}
