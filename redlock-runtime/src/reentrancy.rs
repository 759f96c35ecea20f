//! Which locks the code that runs on this thread right now holds, so that it does not wait for itself.
//!
//! A guarded body is noted while it is polled, not while it waits, and a sync body while it runs. So a task is
//! known by what it runs inside of, whichever thread polls it next; a task that a body spawns is another one. A sync body
//! may run a whole runtime: the tasks of tokio that are polled there have other ids than the body's own task, or than none.

use std::cell::RefCell;
use std::slice;
use std::sync::Arc;

use tokio::task;

use crate::clock::Moment;
use crate::engine::handle::Engine;
use crate::engine::protocol::Id;
use crate::lease::Lease;

/// A held lock, with what a nested call needs to join it.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) id: Id,
    pub(crate) lease: Arc<Lease>,
}

/// What a guarded body holds, all of one manager.
pub(crate) struct Scope {
    pub(crate) engine: Arc<Engine>,
    pub(crate) holds: Holds,
}

/// Small, because it lies in the future of each guarded body.
pub(crate) enum Holds {
    One(Hold),
    Several(Arc<Vec<Hold>>),
}

impl Holds {
    fn as_slice(&self) -> &[Hold] {
        match self {
            Self::One(hold) => slice::from_ref(hold),
            Self::Several(holds) => holds,
        }
    }
}

thread_local! {
    /// Each with the task that entered it, if it was one of tokio's.
    static HERE: RefCell<Vec<(Option<task::Id>, Scope)>> = const { RefCell::new(Vec::new()) };
}

/// The scope lies with the thread until this is dropped, and then in its slot again.
pub(crate) struct Entered<'a> {
    slot: &'a mut Option<Scope>,
}

/// Notes that what runs from now on holds what is in `slot`.
pub(crate) fn enter(slot: &mut Option<Scope>) -> Entered<'_> {
    if let Some(scope) = slot.take() {
        // While the thread ends, nothing is noted.
        let _ = HERE.try_with(|here| here.borrow_mut().push((task::try_id(), scope)));
    }
    Entered { slot }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        *self.slot = HERE.try_with(|here| here.borrow_mut().pop()).ok().flatten().map(|(_, scope)| scope);
    }
}

/// The lock of this manager and key that the running code holds, if it does.
pub(crate) fn held_here(engine: &Arc<Engine>, key: &str) -> Option<Hold> {
    let now = Moment::now();
    let same = |hold: &&Hold| **hold.lease.key() == *key && hold.lease.remaining(now).is_some();
    let task = task::try_id();
    let within = |(entered_by, scope): &(Option<task::Id>, Scope)| {
        let is_ours = *entered_by == task && Arc::ptr_eq(&scope.engine, engine);
        scope.holds.as_slice().iter().filter(|_| is_ours).find(same).cloned()
    };
    let held = HERE.try_with(|here| here.borrow().iter().rev().find_map(within)).ok().flatten();
    held.filter(|_| engine.is_here())
}
