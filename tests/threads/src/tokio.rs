//! As much of tokio as the copied files use.

pub(crate) mod runtime {
    //! A runtime of one thread: that which is in `block_on`.

    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::future::Future;
    use std::io;
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    use crate::host::new_number;
    use crate::host::sync::{AtomicBool, Condvar, Mutex, Ordering};

    shuttle::thread_local! {
        static HERE: RefCell<Option<Handle>> = RefCell::new(None);
    }

    type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

    #[derive(Clone)]
    pub(crate) struct Handle(Arc<Shared>);

    struct Shared {
        number: u64,
        state: Mutex<State>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct State {
        woken: VecDeque<Arc<Task>>,
        all: Vec<Arc<Task>>,
        /// The future that a thread waits for was woken.
        is_woken: bool,
        is_shut_down: bool,
    }

    struct Task {
        work: Mutex<Option<Work>>,
        runtime: Handle,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let shared = Arc::clone(&self.runtime.0);
            shared.state.lock().unwrap().woken.push_back(self);
            shared.changed.notify_one();
        }
    }

    impl Wake for Shared {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.state.lock().unwrap().is_woken = true;
            self.changed.notify_one();
        }
    }

    /// This thread is in a runtime until this is dropped.
    pub(crate) struct Here(Option<Handle>);

    impl Drop for Here {
        fn drop(&mut self) {
            let outer = self.0.take();
            drop(HERE.with(|here| here.replace(outer)));
        }
    }

    impl Handle {
        pub(crate) fn new() -> Self {
            let (number, changed) = (new_number(), Condvar::new());
            Self(Arc::new(Shared { number, state: Mutex::default(), changed }))
        }

        pub(crate) fn current() -> Option<Self> {
            HERE.with(|here| here.borrow().clone())
        }

        pub(crate) fn number(&self) -> u64 {
            self.0.number
        }

        pub(crate) fn enter(&self) -> Here {
            Here(HERE.with(|here| here.replace(Some(self.clone()))))
        }

        pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
            let task = Arc::new(Task { work: Mutex::new(Some(Box::pin(work))), runtime: self.clone() });
            let mut state = self.0.state.lock().unwrap();
            if state.is_shut_down {
                drop(state);
                drop(task);
                return;
            }
            state.all.push(Arc::clone(&task));
            state.woken.push_back(task);
            self.0.changed.notify_one();
        }

        /// Runs the tasks until `future` is ready.
        pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
            let _here = self.enter();
            let waker = Waker::from(Arc::clone(&self.0));
            let mut future = pin!(future);
            self.0.state.lock().unwrap().is_woken = true;
            loop {
                let mut state = self.0.state.lock().unwrap();
                while !state.is_woken && state.woken.is_empty() {
                    state = self.0.changed.wait(state).unwrap();
                }
                let (is_woken, task) = (std::mem::take(&mut state.is_woken), state.woken.pop_front());
                drop(state);
                if is_woken
                    && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    // It may have more to run in the next call.
                    task.into_iter().for_each(Wake::wake);
                    return output;
                }
                task.into_iter().for_each(run);
            }
        }

        /// Drops the tasks.
        pub(crate) fn shut_down(&self) {
            let _here = self.enter();
            let tasks = {
                let mut state = self.0.state.lock().unwrap();
                state.is_shut_down = true;
                state.woken.clear();
                std::mem::take(&mut state.all)
            };
            for task in tasks {
                let work = task.work.lock().unwrap().take();
                drop(work);
            }
        }
    }

    fn run(task: Arc<Task>) {
        let waker = Waker::from(Arc::clone(&task));
        let Some(mut work) = task.work.lock().unwrap().take() else {
            return;
        };
        if work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *task.work.lock().unwrap() = Some(work);
        }
    }

    /// A runtime for a loop alone.
    pub(crate) struct Runtime {
        handle: Handle,
        is_entered: AtomicBool,
    }

    impl Runtime {
        pub(crate) fn handle(&self) -> &Handle {
            &self.handle
        }

        pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
            assert!(!self.is_entered.swap(true, Ordering::SeqCst), "two threads poll one loop");
            let output = self.handle.block_on(future);
            self.is_entered.store(false, Ordering::SeqCst);
            output
        }

        pub(crate) fn shutdown_background(self) {}
    }

    pub(crate) struct Builder;

    impl Builder {
        pub(crate) fn new_current_thread() -> Self {
            Self
        }

        pub(crate) fn enable_all(&mut self) -> &mut Self {
            self
        }

        #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "as in tokio")]
        pub(crate) fn build(&mut self) -> io::Result<Runtime> {
            Ok(Runtime { handle: Handle::new(), is_entered: AtomicBool::new(false) })
        }
    }

    /// Blocks this thread, which has no tasks.
    pub(crate) fn block_on(future: impl Future<Output = ()>) {
        Handle::new().block_on(future);
    }
}

pub(crate) mod task {
    pub(crate) use shuttle::future::yield_now;
}

pub(crate) mod time {
    //! Time goes by while threads wait for it, or earlier.

    use std::future::{Future, poll_fn};
    use std::ops::Add;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll};
    use std::time::Duration;

    use shuttle::rand::Rng;

    use crate::host;

    #[derive(Clone, Copy)]
    pub(crate) struct Instant;

    impl Instant {
        pub(crate) fn now() -> Self {
            Self
        }
    }

    impl Add<Duration> for Instant {
        type Output = Self;

        fn add(self, _: Duration) -> Self {
            self
        }
    }

    pub(crate) struct Sleep;

    impl Future for Sleep {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if shuttle::rand::thread_rng().gen_bool(0.3) { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    pub(crate) fn sleep_until(_: Instant) -> Sleep {
        Sleep
    }

    pub(crate) struct Elapsed;

    /// While it waits, other threads run a little, or the time is over.
    pub(crate) async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let _timing = host::Timing::begins();
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            shuttle::thread::yield_now();
            if shuttle::rand::thread_rng().gen_bool(0.3) {
                host::passes(limit);
                return Poll::Ready(Err(Elapsed));
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

pub(crate) mod sync {
    pub(crate) mod mpsc {
        //! A channel with one receiver.

        use std::collections::VecDeque;
        use std::future::poll_fn;
        use std::sync::Arc;
        use std::task::{Context, Poll, Waker};

        use crate::host::sync::Mutex;

        struct Shared<T>(Mutex<State<T>>);

        struct State<T> {
            sent: VecDeque<T>,
            waker: Option<Waker>,
            senders: usize,
        }

        pub(crate) struct UnboundedSender<T>(Arc<Shared<T>>);

        pub(crate) struct UnboundedReceiver<T>(Arc<Shared<T>>);

        pub(crate) fn unbounded_channel<T>() -> (UnboundedSender<T>, UnboundedReceiver<T>) {
            let state = State { sent: VecDeque::new(), waker: None, senders: 1 };
            let shared = Arc::new(Shared(Mutex::new(state)));
            (UnboundedSender(Arc::clone(&shared)), UnboundedReceiver(shared))
        }

        impl<T> UnboundedSender<T> {
            pub(crate) fn send(&self, value: T) -> Result<(), ()> {
                let waker = {
                    let mut state = self.0.0.lock().unwrap();
                    state.sent.push_back(value);
                    state.waker.take()
                };
                waker.into_iter().for_each(Waker::wake);
                Ok(())
            }
        }

        impl<T> Clone for UnboundedSender<T> {
            fn clone(&self) -> Self {
                self.0.0.lock().unwrap().senders += 1;
                Self(Arc::clone(&self.0))
            }
        }

        impl<T> Drop for UnboundedSender<T> {
            fn drop(&mut self) {
                let waker = {
                    let mut state = self.0.0.lock().unwrap();
                    state.senders -= 1;
                    if state.senders == 0 { state.waker.take() } else { None }
                };
                waker.into_iter().for_each(Waker::wake);
            }
        }

        impl<T> UnboundedReceiver<T> {
            pub(crate) fn len(&self) -> usize {
                self.0.0.lock().unwrap().sent.len()
            }

            pub(crate) fn is_empty(&self) -> bool {
                self.0.0.lock().unwrap().sent.is_empty()
            }

            pub(crate) fn poll_recv_many(
                &mut self,
                cx: &mut Context<'_>,
                into: &mut Vec<T>,
                limit: usize,
            ) -> Poll<usize> {
                let mut state = self.0.0.lock().unwrap();
                let count = state.sent.len().min(limit);
                into.extend(state.sent.drain(..count));
                if count > 0 || state.senders == 0 {
                    return Poll::Ready(count);
                }
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }

            pub(crate) async fn recv(&mut self) -> Option<T> {
                let mut arrived = Vec::new();
                poll_fn(|cx| self.poll_recv_many(cx, &mut arrived, 1)).await;
                arrived.pop()
            }
        }
    }
}
