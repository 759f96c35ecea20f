//! What threads do with an engine at the same time. A thread that is never served ends a scenario:
//! all others have ended by then, and the explorer tells of the deadlock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Waker};

use shuttle::thread::{self, JoinHandle};

use super::event_loop::{EventLoop, Outcome, Server};
use super::runner::{Blocked, LoopRunner};
use super::woken;
use crate::base::alarm::Alarm;
use crate::clock::{Clock, Moment};
use crate::host::sync::Mutex;
use crate::tokio::runtime::Handle;
use crate::tokio::task::yield_now;
use crate::tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Each by its name.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("loop_waker", woken::loop_waker),
    ("when_woken", woken::when_woken),
    ("alarm", woken::alarm),
    ("one", || blocked(1, 0, false)),
    ("two", || blocked(2, 0, false)),
    ("three", || blocked(3, 0, false)),
    ("two_and_by_hand", || blocked(2, 1, false)),
    ("limited", || blocked(3, 0, true)),
    ("limited_and_by_hand", || blocked(2, 1, true)),
    ("moved", || moved(false)),
    ("moved_and_dropped", || moved(true)),
    ("moved_as_a_caller_leaves", moved_as_a_caller_leaves),
    ("dropped_beside_a_command", dropped_beside_a_command),
    ("computes_behind_its_command", computes_behind_its_command),
    ("computes_beside_callers", computes_beside_callers),
    ("ends_behind_its_command", ends_behind_its_command),
];

/// A manager, and the server behind it.
struct Manager {
    runner: Arc<LoopRunner>,
    /// `None` after the last handle is gone.
    commands: Mutex<Option<UnboundedSender<Arc<Outcome>>>>,
    server: JoinHandle<()>,
}

impl Manager {
    /// Begins to run where this thread is.
    fn start() -> Arc<Self> {
        let ((commands, arrivals), (replies, answered)) = (unbounded_channel(), unbounded_channel());
        let server = Arc::<Server>::default();
        let runner = LoopRunner::new(EventLoop::new(arrivals, answered, Arc::clone(&server)), false).unwrap();
        runner.start();
        let server = thread::spawn(move || {
            while let Some(request) = server.next() {
                let _ = replies.send(request);
            }
        });
        Arc::new(Self { runner, commands: Mutex::new(Some(commands)), server })
    }

    /// Sends a command.
    fn ask(&self) -> Arc<Outcome> {
        let outcome = Arc::<Outcome>::default();
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let _ = commands.unwrap().send(Arc::clone(&outcome));
        self.runner.on_sent();
        outcome
    }

    /// A caller without a runtime, who blocks for the outcome.
    fn blocks(&self, limit: Option<Moment>) {
        let outcome = self.ask();
        let mut answered = pin!(poll_fn(|cx| outcome.poll(cx)));
        if let Blocked::Elsewhere = self.runner.poll_until(limit, answered.as_mut()) {
            wait(answered, limit);
        }
    }

    /// A caller whose process may end right behind the call: the server has the command by then.
    fn tells(&self) {
        let outcome = self.ask();
        self.runner.flush();
        assert!(outcome.is_asked(), "the process ends, and the command with it");
    }

    /// A caller without a runtime, who polls nothing but his future.
    fn waits(&self) {
        let outcome = self.ask();
        wait(poll_fn(|cx| outcome.poll(cx)), None);
    }

    /// The last handle goes: the loop ends, and the server after it.
    fn ends(self: Arc<Self>) {
        *self.commands.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.runner.on_closed();
        let Self { runner, server, .. } = Arc::into_inner(self).unwrap();
        drop(runner);
        server.join().unwrap();
        crate::host::forget();
    }
}

/// Blocks this thread until then.
fn wait(future: impl Future<Output = ()>, limit: Option<Moment>) {
    let (mut future, alarm) = (pin!(future), Arc::<Alarm>::default());
    let waker = Waker::from(Arc::clone(&alarm));
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        if !alarm.wait(limit.map(|at| (&Clock::System, at))) {
            return;
        }
    }
}

/// The loop runs, and then the other threads, most often until the watchdog has no look to make.
async fn wait_until_quiet() {
    for _ in 0..8 {
        yield_now().await;
    }
    for yields in 0..400 {
        thread::yield_now();
        if yields > 40 && !crate::host::is_timing() {
            return;
        }
    }
}

/// Callers in the runtime of the loop and outside of it wait for nothing, and their process may end
/// next.
fn ends_behind_its_command() {
    let runtime = Handle::new();
    let mut manager = None;
    runtime.block_on(async {
        let started = Manager::start();
        let outcome = started.ask();
        poll_fn(|cx| outcome.poll(cx)).await;
        let outside = [(); 2].map(|()| {
            let manager = Arc::clone(&started);
            thread::spawn(move || (0..2).for_each(|_| manager.tells()))
        });
        for _ in 0..2 {
            started.tells();
            yield_now().await;
        }
        outside.into_iter().for_each(|caller| caller.join().unwrap());
        manager = Some(started);
    });
    let manager = manager.unwrap();
    runtime.shut_down();
    manager.ends();
}

/// Callers without a runtime: some block, some do not, and some have a limit.
fn blocked(blocking: usize, by_hand: usize, is_limited: bool) {
    let manager = Manager::start();
    let mut callers = Vec::new();
    for number in 0..blocking {
        let manager = Arc::clone(&manager);
        callers.push(thread::spawn(move || {
            for round in 0..2 {
                manager.blocks((is_limited && (number + round) % 2 == 0).then(Moment::now));
            }
        }));
    }
    for _ in 0..by_hand {
        let manager = Arc::clone(&manager);
        callers.push(thread::spawn(move || (0..2).for_each(|_| manager.waits())));
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    manager.ends();
}

/// A caller in a runtime takes the loop there, in the middle of calls from outside; perhaps the
/// runtime is dropped after it.
fn moved(is_dropped: bool) {
    let manager = Manager::start();
    let outside = {
        let manager = Arc::clone(&manager);
        thread::spawn(move || {
            manager.blocks(None);
            manager.waits();
        })
    };
    let inside = {
        let manager = Arc::clone(&manager);
        thread::spawn(move || {
            let runtime = Handle::new();
            for _ in 0..2 {
                runtime.block_on(async {
                    let outcome = manager.ask();
                    poll_fn(|cx| outcome.poll(cx)).await;
                });
            }
            if !is_dropped {
                // It stays, and nobody runs its tasks.
                return runtime;
            }
            runtime.shut_down();
            runtime
        })
    };
    outside.join().unwrap();
    let runtime = inside.join().unwrap();
    manager.ends();
    runtime.shut_down();
}

/// A caller in a runtime takes the loop there, just when a caller without a runtime stops polling it.
fn moved_as_a_caller_leaves() {
    let manager = Manager::start();
    let outside = {
        let manager = Arc::clone(&manager);
        thread::spawn(move || manager.blocks(None))
    };
    let runtime = Handle::new();
    runtime.block_on(async {
        let outcome = manager.ask();
        poll_fn(|cx| outcome.poll(cx)).await;
    });
    outside.join().unwrap();
    manager.ends();
    runtime.shut_down();
}

/// The runtime of the loop is dropped while a caller without a runtime sends a command.
fn dropped_beside_a_command() {
    let runtime = Handle::new();
    let mut manager = None;
    runtime.block_on(async {
        let started = Manager::start();
        let outcome = started.ask();
        poll_fn(|cx| outcome.poll(cx)).await;
        manager = Some(started);
    });
    let manager = manager.unwrap();
    let outside = {
        let manager = Arc::clone(&manager);
        thread::spawn(move || manager.waits())
    };
    runtime.shut_down();
    outside.join().unwrap();
    manager.ends();
}

/// The only thread of a runtime sends a command and computes, until the command is executed.
fn computes_behind_its_command() {
    let runtime = Handle::new();
    let mut manager = None;
    runtime.block_on(async {
        let started = Manager::start();
        let outcome = started.ask();
        poll_fn(|cx| outcome.poll(cx)).await;
        wait_until_quiet().await;
        started.ask().wait();
        manager = Some(started);
    });
    manager.unwrap().ends();
    runtime.shut_down();
}

/// The only thread of a runtime computes, until callers of each kind beside it are served.
fn computes_beside_callers() {
    let runtime = Handle::new();
    let mut manager = None;
    runtime.block_on(async {
        let started = Manager::start();
        let outcome = started.ask();
        poll_fn(|cx| outcome.poll(cx)).await;
        wait_until_quiet().await;
        let inside = {
            let (manager, runtime) = (Arc::clone(&started), runtime.clone());
            thread::spawn(move || {
                let _here = runtime.enter();
                manager.waits();
            })
        };
        let in_another = {
            let manager = Arc::clone(&started);
            thread::spawn(move || {
                let runtime = Handle::new();
                let here = runtime.enter();
                manager.waits();
                drop(here);
                runtime.shut_down();
            })
        };
        let outside = {
            let manager = Arc::clone(&started);
            thread::spawn(move || manager.blocks(None))
        };
        let callers = [inside, in_another, outside];
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        manager = Some(started);
    });
        manager.unwrap().ends();
    runtime.shut_down();
}
