//! The waker of the loop: what the loop itself causes while it is polled is handled in the same poll.
//!
//! A request wakes the driver of its connection, and a reply wakes the batch that awaits it, but the loop polls both. Each
//! such wake-up would have the runtime poll the loop once more, perhaps on another thread.

use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::ground::host::sync::{AtomicBool, Ordering};

pub(in crate::engine) struct LoopWaker {
    task: Waker,
    is_polled: AtomicBool,
    is_woken: AtomicBool,
}

impl LoopWaker {
    pub(in crate::engine) fn new(task: &Waker) -> Arc<Self> {
        let (is_polled, is_woken) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { task: task.clone(), is_polled, is_woken })
    }

    /// True when it wakes this task.
    pub(in crate::engine) fn is_of(&self, task: &Waker) -> bool {
        self.task.will_wake(task)
    }

    pub(in crate::engine) fn poll_begins(&self) {
        self.is_polled.store(true, Ordering::SeqCst);
        // What was written before a wake-up is visible from here on.
        self.is_woken.swap(false, Ordering::SeqCst);
    }

    /// True when the loop was woken since its poll began: there is more to do.
    pub(in crate::engine) fn poll_ends(&self) -> bool {
        self.is_polled.store(false, Ordering::SeqCst);
        self.is_woken.load(Ordering::SeqCst)
    }

    /// Wakes the task that polls the loop, unless it does so just now.
    pub(in crate::engine) fn wake_task(&self) {
        if !self.is_polled.load(Ordering::SeqCst) {
            self.task.wake_by_ref();
        }
    }
}

impl Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.wake_task();
    }
}

/// A [`LoopWaker`] as a waker.
pub(super) struct NotingWaker {
    notes: Arc<LoopWaker>,
    waker: Waker,
}

impl NotingWaker {
    pub(super) fn new(task: &Waker) -> Self {
        let notes = LoopWaker::new(task);
        Self { waker: Arc::clone(&notes).into(), notes }
    }

    pub(super) fn cx(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }
}

impl Deref for NotingWaker {
    type Target = LoopWaker;

    fn deref(&self) -> &LoopWaker {
        &self.notes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_wake_up_is_for_the_task_or_for_the_poll_that_it_comes_in() {
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        let waker = LoopWaker::new(&task);
        assert!(waker.is_of(&task));
        let own = Waker::from(Arc::clone(&waker));
        own.wake_by_ref();
        waker.poll_begins();
        assert!(!waker.poll_ends(), "that was before");
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        waker.poll_begins();
        own.wake_by_ref();
        assert!(waker.poll_ends());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
