//! A tool that stands still at a point of its start, as the scheduler could leave it there: it is traced
//! until then, so the point is exact.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use kit::{RedisServer, eventually, skipped};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::tool::Running;

/// Where the tool stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// After it has started so many processes: its watchdog is the first one.
    pub(crate) processes: usize,
    /// And after so many starts and ends of calls to the system, or at one that waits.
    pub(crate) calls: usize,
}

/// Right after the start of its watchdog.
pub(crate) const WATCHDOG: Point = Point { processes: 1, calls: 0 };
/// Right after the start of what becomes its command.
pub(crate) const COMMAND: Point = Point { processes: 2, calls: 0 };

/// Starts the tool, and stops it at the point. There `hit` is called with its number; it gets the signal
/// that this returns, if any, and is let go. `None` where the machine allows no tracing.
pub(crate) fn stopped_at(
    point: Point,
    server: &RedisServer,
    arguments: &[&str],
    hit: impl FnOnce(u32) -> Option<Signal> + Send,
) -> Option<Running> {
    // It gets no lock until all of its threads are traced.
    server.pause();
    let tool = Running::start(&server.url(), arguments);
    let number = tool.id();
    let id = Pid::from_raw(number.try_into().unwrap());
    // The end of the thread that traces lets the tool go.
    let was_traced = thread::scope(|scope| {
        let traced = scope.spawn(|| {
            let mut traced = Traced { id, threads: Vec::new(), at: None };
            if traced.seize() == Err(Errno::EPERM) {
                return false;
            }
            server.resume();
            traced.run_to(point);
            if let Some(signal) = hit(number) {
                traced.signal(signal);
            }
            true
        });
        traced.join().unwrap()
    });
    if !was_traced {
        server.resume();
        skipped("the machine does not let a process be traced");
    }
    was_traced.then_some(tool)
}

struct Traced {
    id: Pid,
    threads: Vec<Pid>,
    /// The thread that stands at the point.
    at: Option<Pid>,
}

impl Traced {
    fn seize(&mut self) -> Result<(), Errno> {
        let options =
            Options::PTRACE_O_TRACEVFORKDONE | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACESYSGOOD;
        while let Some(new) = self.news().first().copied() {
            match ptrace::seize(new, options) {
                // It is the child of a thread that is.
                Err(Errno::EPERM) if !self.threads.is_empty() => {}
                // It has ended.
                Err(Errno::ESRCH) => continue,
                outcome => outcome?,
            }
            self.threads.push(new);
        }
        Ok(())
    }

    /// The threads that are not known yet.
    fn news(&self) -> Vec<Pid> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id)).unwrap().flatten();
        let ids = tasks.map(|task| Pid::from_raw(task.file_name().to_str().unwrap().parse().unwrap()));
        ids.filter(|id| !self.threads.contains(id)).collect()
    }

    fn run_to(&mut self, point: Point) {
        let mut processes = 0;
        while processes < point.processes {
            let at = self.next(|status| match status {
                WaitStatus::PtraceEvent(at, _, event) if event == Event::PTRACE_EVENT_VFORK_DONE as i32 => {
                    Some(at)
                }
                _ => None,
            });
            processes += 1;
            if processes == point.processes {
                self.at = Some(at);
            } else {
                ptrace::cont(at, None).unwrap();
            }
        }
        let at = self.at.unwrap();
        for _ in 0..point.calls {
            ptrace::syscall(at, None).unwrap();
            let start = Instant::now();
            loop {
                match waitpid(at, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)).unwrap() {
                    WaitStatus::PtraceSyscall(_) => break,
                    WaitStatus::Stopped(_, signal) => ptrace::syscall(at, signal).unwrap(),
                    WaitStatus::StillAlive if start.elapsed() > Duration::from_millis(200) => {
                        self.at = None;
                        return;
                    }
                    WaitStatus::StillAlive => thread::sleep(Duration::from_micros(100)),
                    other => unreachable!("{other:?}"),
                }
            }
        }
    }

    /// What a thread has stopped for. The others go on.
    fn next<T>(&mut self, mut is_it: impl FnMut(WaitStatus) -> Option<T>) -> T {
        let mut found = None;
        eventually("the tool gets to the point", || {
            let news = self.news();
            self.threads.extend(news);
            let at = self.at;
            for thread in self.threads.iter().filter(|thread| Some(**thread) != at) {
                let Ok(status) = waitpid(*thread, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) else {
                    continue;
                };
                found = is_it(status);
                if found.is_some() {
                    return true;
                }
                match status {
                    WaitStatus::Stopped(thread, signal) => ptrace::cont(thread, signal).unwrap(),
                    WaitStatus::PtraceEvent(thread, ..) => ptrace::cont(thread, None).unwrap(),
                    _ => {}
                }
            }
            false
        });
        found.unwrap()
    }

    fn signal(&mut self, signal: Signal) {
        kill(self.id, signal).unwrap();
        if signal == Signal::SIGSTOP {
            // The other threads stand still before the one at the point is let go.
            self.next(|status| {
                matches!(status, WaitStatus::PtraceEvent(_, Signal::SIGSTOP, _)).then_some(())
            });
        }
    }
}
