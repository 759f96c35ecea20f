//! Polls only what has been woken: the loop polls each of its parts much more often than that.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::ground::host::sync::{AtomicBool, Ordering};

/// Stands between the loop and a part of it, which is polled for the first time, after it was
/// ready, after it was woken, and for another task than before.
#[derive(Default)]
pub(super) struct WhenWoken {
    /// Of the task that has polled the part.
    waker: Option<(Arc<Flag>, Waker)>,
}

impl WhenWoken {
    /// The outcome of `part`, which costs nothing while it has nothing to tell.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        part: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let known = self.waker.take().filter(|(flag, _)| flag.task.will_wake(cx.waker()));
        let (flag, waker) = self.waker.insert(known.unwrap_or_else(|| Flag::new(cx.waker())));
        // Before the poll: what wakes it meanwhile has it polled again.
        if !flag.is_woken.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        let polled = part(&mut Context::from_waker(waker));
        if polled.is_ready() {
            flag.is_woken.store(true, Ordering::SeqCst);
        }
        polled
    }
}

/// Notes a wake-up, and wakes the task.
struct Flag {
    task: Waker,
    is_woken: AtomicBool,
}

impl Flag {
    fn new(task: &Waker) -> (Arc<Self>, Waker) {
        let flag = Arc::new(Self { task: task.clone(), is_woken: AtomicBool::new(true) });
        (Arc::clone(&flag), flag.into())
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
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
    fn a_part_is_polled_once_for_each_wake_up_and_for_each_task() {
        let mut when_woken = WhenWoken::default();
        let counts = [Arc::<Count>::default(), Arc::default()];
        let [first, second] = counts.clone().map(Waker::from);
        let (mut polls, mut waker) = (0, None);
        let mut poll = |task: &Waker, polled: Poll<()>| {
            let _ = when_woken.poll(&mut Context::from_waker(task), |cx| {
                polls += 1;
                waker = Some(cx.waker().clone());
                polled
            });
            (polls, waker.clone())
        };
        assert_eq!(poll(&first, Poll::Pending).0, 1);
        let (polls, waker) = poll(&first, Poll::Pending);
        assert_eq!(polls, 1, "nothing has woken it");
        for _ in 0..2 {
            waker.iter().for_each(Waker::wake_by_ref);
        }
        assert_eq!(poll(&first, Poll::Pending).0, 2);
        assert_eq!(poll(&first, Poll::Pending).0, 2);
        assert_eq!(counts[0].0.load(Ordering::SeqCst), 2, "each wake-up reaches the task");
        assert_eq!(poll(&second, Poll::Ready(())).0, 3, "another task");
        assert_eq!(poll(&second, Poll::Pending).0, 4, "after it was ready, it waits for nothing");
        assert_eq!(poll(&second, Poll::Pending).0, 4);
    }

    #[test]
    fn a_wake_up_during_the_poll_has_it_polled_again() {
        let mut when_woken = WhenWoken::default();
        let mut polls = 0;
        for _ in 0..3 {
            let _: Poll<()> = when_woken.poll(&mut Context::from_waker(Waker::noop()), |cx| {
                polls += 1;
                cx.waker().wake_by_ref();
                Poll::Pending
            });
        }
        assert_eq!(polls, 3);
    }
}
