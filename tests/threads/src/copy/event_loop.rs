//! A model of the loop: it sends each command to a server, which answers it.

mod turn;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub(super) use turn::PollOutcome;

use super::wakers::{Arrivals, NotingWaker};
use crate::clock::{Clock, Moment};
use crate::host::sync::{AtomicBool, Condvar, Mutex, Ordering};
use crate::tokio::sync::mpsc::UnboundedReceiver;

/// Where the outcome of a command goes.
#[derive(Default)]
pub(crate) struct Outcome {
    state: Mutex<(bool, Option<Waker>)>,
    /// The server has the command.
    is_asked: AtomicBool,
    changed: Condvar,
}

impl Outcome {
    fn arrive(&self) {
        let waker = {
            let mut state = self.state.lock().unwrap();
            state.0 = true;
            self.changed.notify_all();
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }

    /// For a thread that does nothing else: it computes until then.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// The requests that the server has not answered, and whether the loop has ended.
#[derive(Default)]
pub(crate) struct Server {
    requests: Mutex<(VecDeque<Arc<Outcome>>, bool)>,
    changed: Condvar,
}

impl Server {
    fn ask(&self, request: Arc<Outcome>) {
        request.is_asked.store(true, Ordering::SeqCst);
        self.requests.lock().unwrap().0.push_back(request);
        self.changed.notify_one();
    }

    fn ends(&self) {
        self.requests.lock().unwrap().1 = true;
        self.changed.notify_one();
    }

    /// The next request; `None` when the loop has ended.
    pub(crate) fn next(&self) -> Option<Arc<Outcome>> {
        let mut requests = self.requests.lock().unwrap();
        loop {
            if let Some(request) = requests.0.pop_front() {
                return Some(request);
            }
            if requests.1 {
                return None;
            }
            requests = self.changed.wait(requests).unwrap();
        }
    }
}

pub(crate) struct EventLoop {
    arrivals: Arrivals<Arc<Outcome>>,
    replies: Arrivals<Arc<Outcome>>,
    server: Arc<Server>,
    open: bool,
    in_flight: usize,
    wakers: Option<(NotingWaker, NotingWaker)>,
}

impl EventLoop {
    pub(crate) fn new(
        arrivals: UnboundedReceiver<Arc<Outcome>>,
        replies: UnboundedReceiver<Arc<Outcome>>,
        server: Arc<Server>,
    ) -> Self {
        let (arrivals, replies) = (Arrivals::new(arrivals), Arrivals::new(replies));
        Self { arrivals, replies, server, open: true, in_flight: 0, wakers: None }
    }

    pub(super) fn leave(&mut self) {
        self.wakers = None;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    pub(super) fn has_commands(&self) -> bool {
        !self.arrivals.is_empty()
    }

    pub(super) fn clock(&self) -> &Clock {
        &Clock::System
    }

    pub(super) fn has_waiters(&self) -> bool {
        false
    }

    pub(super) fn has_requests(&self) -> bool {
        self.in_flight > 0
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.in_flight > 0
    }

    pub(super) fn due(&self) -> Option<Moment> {
        None
    }

    pub(super) fn flush(&mut self) {
        let kept = self.wakers.take();
        let mut none = Context::from_waker(Waker::noop());
        self.arrivals.look_again();
        while match &kept {
            Some((commands, _)) => self.take_commands(&mut commands.cx()),
            None => self.take_commands(&mut none),
        } {}
        self.wakers = kept;
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<PollOutcome> {
        let known = self.wakers.take().filter(|wakers| wakers.0.is_of(cx.waker()));
        let wakers =
            known.unwrap_or_else(|| (NotingWaker::new(cx.waker()), NotingWaker::new(cx.waker())));
        let turn = self.rounds(&wakers);
        self.wakers = Some(wakers);
        turn
    }

    fn rounds(&mut self, (commands, events): &(NotingWaker, NotingWaker)) -> Poll<PollOutcome> {
        for _ in 0..3 {
            commands.poll_begins();
            events.poll_begins();
            let turn = self.round(commands, events);
            let is_woken = commands.poll_ends() | events.poll_ends();
            if turn.is_ready() || !is_woken {
                return turn;
            }
        }
        Poll::Ready(PollOutcome::Again)
    }

    fn round(&mut self, commands: &NotingWaker, events: &NotingWaker) -> Poll<PollOutcome> {
        let has_more = self.take_commands(&mut commands.cx());
        let mut replies = Vec::new();
        events.poll_begins();
        let _ = self.replies.poll(&mut events.cx(), &mut replies, 1);
        let has_more = has_more | !replies.is_empty();
        for outcome in replies {
            self.in_flight -= 1;
            outcome.arrive();
        }
        if !self.open && self.in_flight == 0 {
            return Poll::Ready(PollOutcome::Ended);
        }
        if has_more { Poll::Ready(PollOutcome::Again) } else { Poll::Pending }
    }

    fn take_commands(&mut self, cx: &mut Context<'_>) -> bool {
        let mut asked = Vec::new();
        if self.open && self.arrivals.poll(cx, &mut asked, 1) == Poll::Ready(0) {
            self.open = false;
        }
        let has_more = !asked.is_empty();
        for outcome in asked {
            self.in_flight += 1;
            self.server.ask(outcome);
        }
        has_more
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.server.ends();
    }
}
