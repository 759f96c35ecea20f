//! On which core a process runs. Left alone, the kernel puts some clients on the core of their
//! server and others not, and for a small command that decides more than all else: to wake the
//! other core takes longer than the command.

use std::fmt::{self, Display, Formatter};

/// Where clients and their server run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cores {
    /// The client and its server share one.
    One,
    /// Each has its own.
    Two,
    /// Any: the kernel decides.
    Any,
}

impl Cores {
    /// From now on, this thread and the processes of other clients run as clients do, and the
    /// server as servers do. Only on Linux: elsewhere the kernel decides, and so it does on a
    /// machine with one core.
    pub fn place(self, clients: &[u32], server: u32) {
        let (client, own) = match self {
            Self::One => (Some(0), Some(0)),
            Self::Two => (Some(0), Some(1)),
            Self::Any => (None, None),
        };
        run_on(client, None);
        for process in clients {
            run_on(client, Some(*process));
        }
        run_on(own, Some(server));
    }
}

impl Display for Cores {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one core",
            Self::Two => "two cores",
            Self::Any => "any cores",
        })
    }
}

/// The main thread of that process, or this thread. `None` for the core: any.
#[cfg(target_os = "linux")]
fn run_on(core: Option<usize>, process: Option<u32>) {
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_setaffinity};

    let mut set = CpuSet::new();
    match core {
        Some(core) => set.set(core),
        None => (0..CpuSet::MAX_CPU).for_each(|core| set.set(core)),
    }
    let process = process.and_then(|process| Pid::from_raw(process.try_into().ok()?));
    // A process that has ended, or a core that does not exist: the figures tell.
    let _ = sched_setaffinity(process, &set);
}

#[cfg(not(target_os = "linux"))]
fn run_on(_: Option<usize>, _: Option<u32>) {}
