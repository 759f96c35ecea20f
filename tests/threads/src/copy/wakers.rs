//! The wakers of the loop, and of a blocked thread: none of them loses a wake-up.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use shuttle::thread;

use crate::base::alarm::Alarm;
use crate::engine::wakers::{NotingWaker, WhenWoken};
use crate::host::sync::{AtomicU64, Ordering};

#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Another thread has something for the loop, and wakes it.
fn tells(data: &Arc<AtomicU64>, waker: Waker) -> thread::JoinHandle<()> {
    let data = Arc::clone(data);
    thread::spawn(move || {
        data.store(1, Ordering::SeqCst);
        waker.wake();
    })
}

pub(super) fn loop_waker() {
    let (count, data) = (Arc::<Count>::default(), Arc::<AtomicU64>::default());
    let waker = NotingWaker::new(&Waker::from(Arc::clone(&count)));
    let other = tells(&data, waker.cx().waker().clone());
    waker.poll_begins();
    let saw = data.load(Ordering::SeqCst) == 1;
    let is_woken = waker.poll_ends();
    other.join().unwrap();
    assert!(saw || is_woken || count.0.load(Ordering::SeqCst) > 0, "lost");
}

pub(super) fn when_woken() {
    let (count, data) = (Arc::<Count>::default(), Arc::<AtomicU64>::default());
    let (task, mut part, mut waker) = (Waker::from(Arc::clone(&count)), WhenWoken::default(), None);
    let _: Poll<()> = part.poll(&mut Context::from_waker(&task), |cx| {
        waker = Some(cx.waker().clone());
        Poll::Pending
    });
    let waker: Waker = waker.unwrap();
    let other = tells(&data, waker.clone());
    let mut saw = 0;
    let mut look = || {
        let _: Poll<()> = part.poll(&mut Context::from_waker(&task), |_| {
            saw = data.load(Ordering::SeqCst);
            Poll::Pending
        });
    };
    waker.wake_by_ref();
    look();
    other.join().unwrap();
    look();
    assert_eq!((saw, count.0.load(Ordering::SeqCst)), (1, 2), "lost");
}

pub(super) fn alarm() {
    let (alarm, data) = (Arc::<Alarm>::default(), Arc::<AtomicU64>::default());
    let other = tells(&data, Waker::from(Arc::clone(&alarm)));
    assert!(alarm.wait(None));
    assert_eq!(data.load(Ordering::SeqCst), 1);
    other.join().unwrap();
}
