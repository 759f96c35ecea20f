//! Which member has something to tell: what wakes the engine for its line rings its bell first, so that an answer of one
//! node is no reason to look at all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

pub(super) struct MemberWaker {
    rung: AtomicBool,
    engine: Waker,
}

impl MemberWaker {
    /// Rung: nobody has looked yet.
    pub(super) fn new(engine: &Waker) -> Arc<Self> {
        Arc::new(Self { rung: AtomicBool::new(true), engine: engine.clone() })
    }

    /// True when it wakes that one.
    pub(super) fn is_of(&self, engine: &Waker) -> bool {
        self.engine.will_wake(engine)
    }

    /// Whether it has been rung since the last time.
    pub(super) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// Without waking anybody.
    pub(super) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
    }
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
        self.engine.wake_by_ref();
    }
}
