//! The waker of one node's link: it marks the node before it wakes the engine, so that an answer of
//! one node does not make the engine poll all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

pub(super) struct MemberWaker {
    is_set: AtomicBool,
    engine: Waker,
}

impl MemberWaker {
    /// Set, because the link has not been polled yet.
    pub(super) fn new(engine: &Waker) -> Arc<Self> {
        Arc::new(Self { is_set: AtomicBool::new(true), engine: engine.clone() })
    }

    /// True when it wakes this task.
    pub(super) fn is_of(&self, engine: &Waker) -> bool {
        self.engine.will_wake(engine)
    }

    /// True when it was set since the last call.
    pub(super) fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::AcqRel)
    }

    /// Does not wake the engine.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
    }
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
        self.engine.wake_by_ref();
    }
}
