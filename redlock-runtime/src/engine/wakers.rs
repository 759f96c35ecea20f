//! Wakers that leave a note, for the parts of the loop and for the loop itself.
//!
//! The loop polls each of its parts (a channel, a socket, a node of a quorum) much more often than
//! that part has something to tell. So each part has a note of its own: its waker sets the note and
//! wakes the task of the loop, and the loop polls the part only where its note is set. It takes the
//! note before that poll, so that what wakes the part meanwhile has it polled once more.
//!
//! What the loop itself causes while it is polled is handled in the same poll: a request wakes the
//! driver of its connection, and a reply wakes the batch that awaits it, but the loop polls both,
//! and the runtime would only poll the loop once more, perhaps on another thread. So a task that is
//! [being polled](NotingWaker::poll_begins) is not woken. At the end of the poll its note tells
//! whether there is more to do.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::mpsc::UnboundedReceiver;

use crate::base::host::sync::{AtomicBool, Ordering};

/// A note, and the waker that sets it and wakes a task.
pub(super) struct NotingWaker {
    note: Arc<Note>,
    waker: Waker,
}

struct Note {
    is_set: AtomicBool,
    task: Arc<Task>,
}

struct Task {
    waker: Waker,
    is_polled: AtomicBool,
}

impl NotingWaker {
    /// The note is set, because nothing has been polled with this waker yet.
    pub(super) fn new(task: &Waker) -> Self {
        Self::of(Arc::new(Task { waker: task.clone(), is_polled: AtomicBool::new(false) }))
    }

    /// The one in `slot`; a new one is kept there when another task polls than before.
    pub(super) fn kept<'a>(slot: &'a mut Option<Self>, task: &Waker) -> &'a Self {
        slot.take_if(|waker| !waker.is_of(task));
        slot.get_or_insert_with(|| Self::new(task))
    }

    /// Another one, with a note of its own, for the same task.
    pub(super) fn beside(&self) -> Self {
        Self::of(Arc::clone(&self.note.task))
    }

    fn of(task: Arc<Task>) -> Self {
        let note = Arc::new(Note { is_set: AtomicBool::new(true), task });
        Self { waker: Arc::clone(&note).into(), note }
    }

    /// True when it wakes this task.
    pub(super) fn is_of(&self, task: &Waker) -> bool {
        self.note.task.waker.will_wake(task)
    }

    pub(super) fn cx(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }

    /// True when the note was set since the last call. What was written before the wake-up is
    /// visible from here on.
    pub(super) fn take(&self) -> bool {
        self.note.is_set.swap(false, Ordering::SeqCst)
    }

    /// Sets the note, and does not wake the task.
    pub(super) fn set(&self) {
        self.note.is_set.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_set(&self) -> bool {
        self.note.is_set.load(Ordering::SeqCst)
    }

    /// Takes the note, and wakes the task no more until its poll ends.
    pub(super) fn poll_begins(&self) {
        self.note.task.is_polled.store(true, Ordering::SeqCst);
        self.take();
    }

    /// True when the note was set since the poll began: there is more to do.
    pub(super) fn poll_ends(&self) -> bool {
        self.note.task.is_polled.store(false, Ordering::SeqCst);
        self.is_set()
    }
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::SeqCst);
        if !self.task.is_polled.load(Ordering::SeqCst) {
            self.task.waker.wake_by_ref();
        }
    }
}

/// Stands between the loop and a part of it, which is polled for the first time, after it was
/// ready, after it was woken, and for another task than before.
#[derive(Default)]
pub(super) struct WhenWoken {
    /// The waker of the task that has polled the part.
    waker: Option<NotingWaker>,
}

impl WhenWoken {
    /// The part has changed: it is polled next time.
    pub(super) fn look_again(&self) {
        if let Some(waker) = &self.waker {
            waker.set();
        }
    }

    /// The outcome of `part`, which costs nothing while it has nothing to tell.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        part: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let waker = NotingWaker::kept(&mut self.waker, cx.waker());
        if !waker.take() {
            return Poll::Pending;
        }
        let polled = part(&mut waker.cx());
        if polled.is_ready() {
            waker.set();
        }
        polled
    }
}

/// The receiving end of a channel that is looked at much more often than something arrives.
pub(super) struct Arrivals<T> {
    channel: UnboundedReceiver<T>,
    when_woken: WhenWoken,
}

impl<T> Arrivals<T> {
    pub(super) fn new(channel: UnboundedReceiver<T>) -> Self {
        Self { channel, when_woken: WhenWoken::default() }
    }

    /// The next poll looks, woken or not: while one sender wakes, what another one sends is not told.
    pub(super) fn look_again(&self) {
        self.when_woken.look_again();
    }

    /// True when a look would find nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.channel.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.channel.len()
    }

    /// Appends at most `limit` to `arrived`, and returns how many: none when the last sender is
    /// gone.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, arrived: &mut Vec<T>, limit: usize) -> Poll<usize> {
        self.when_woken.poll(cx, |cx| self.channel.poll_recv_many(cx, arrived, limit))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use tokio::sync::mpsc::unbounded_channel;

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
        let waker = NotingWaker::new(&task);
        assert!(waker.is_of(&task));
        waker.cx().waker().wake_by_ref();
        waker.poll_begins();
        assert!(!waker.poll_ends(), "that was before");
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        waker.poll_begins();
        waker.cx().waker().wake_by_ref();
        assert!(waker.poll_ends());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn each_note_of_a_task_is_its_own() {
        let count = Arc::new(Count::default());
        let waker = NotingWaker::new(&Waker::from(Arc::clone(&count)));
        let beside = waker.beside();
        assert!(beside.take(), "nothing has been polled with it");
        waker.poll_begins();
        beside.cx().waker().wake_by_ref();
        assert!(!waker.poll_ends() && beside.is_set());
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "the task is being polled");
        beside.cx().waker().wake_by_ref();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
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

    #[test]
    fn no_more_arrive_than_wanted_and_the_end_is_seen() {
        let (sender, channel) = unbounded_channel();
        let mut arrivals = Arrivals::new(channel);
        let mut look = || {
            let mut arrived = Vec::new();
            let polled = arrivals.poll(&mut Context::from_waker(Waker::noop()), &mut arrived, 2);
            polled.map(|count| (count, arrived))
        };
        for round in 0..3 {
            assert!(look().is_pending());
            assert!(look().is_pending());
            let _ = sender.send(round);
            assert_eq!(look(), Poll::Ready((1, vec![round])));
        }
        assert!(look().is_pending());
        for number in 1..=3 {
            let _ = sender.send(number);
        }
        assert_eq!(look(), Poll::Ready((2, vec![1, 2])));
        assert_eq!(look(), Poll::Ready((1, vec![3])));
        assert!(look().is_pending());
        drop(sender);
        assert_eq!(look(), Poll::Ready((0, Vec::new())));
    }
}
