//! The memory of a held lock and of a waiter, the caller's side included: its guard, or its future.
//! Each is weighed in a fresh process, because memory that was used before hides the growth. Linux
//! only.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redlocked::{Acquire, LockError, LockGuard, LockManager};

use crate::eventually;
use crate::figures::status;

const LONG: Duration = Duration::from_mins(10);

/// What is weighed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Each of a key of its own, with its guard.
    HeldLocks,
    /// All in one queue.
    WaitersForOneKey,
    /// Each in a queue of its own.
    WaitersForTheirOwnKeys,
}

/// What they cost this process.
pub struct Weight {
    /// The growth of the resident memory, for one of them.
    pub bytes_each: u64,
    /// The threads of this process without them.
    pub threads_before: u64,
    /// The threads of this process with them.
    pub threads_then: u64,
}

impl Weight {
    /// `None` where there is no `/proc/self/status`.
    pub fn of(what: What, count: usize, url: &str) -> Option<Self> {
        let locks = LockManager::connect_blocking(url).unwrap();
        let mut client = redis::Client::open(url).unwrap().get_connection().unwrap();
        drop(locks.lock("warm up").acquire_blocking().unwrap());
        let key = |number: usize| format!("a-key-of-usual-length:{number:08}");
        // The awaited lock is held by hand: another manager would take memory and a thread.
        let taken = match what {
            What::HeldLocks => 0,
            What::WaitersForOneKey => 1,
            What::WaitersForTheirOwnKeys => count,
        };
        for number in 0..taken {
            let mut set = redis::cmd("SET");
            let (): () = set.arg(format!("lock:{}", key(number))).arg("by hand").query(&mut client).unwrap();
        }
        let mut queued = |key: String| -> usize {
            redis::cmd("ZCARD").arg(format!("lock:{key}%queue")).query(&mut client).unwrap()
        };
        let before = (status("VmRSS")?, status("Threads")?);
        let mut held = Vec::new();
        let mut waiting = Vec::new();
        match what {
            What::HeldLocks => held = hold(&locks, count, key),
            What::WaitersForOneKey => {
                waiting = wait(&locks, count, |_| key(0));
                eventually("all are queued", || queued(key(0)) == count);
            }
            What::WaitersForTheirOwnKeys => {
                waiting = wait(&locks, count, key);
                eventually("the last is queued", || queued(key(count - 1)) == 1);
            }
        }
        let after = (status("VmRSS")?, status("Threads")?);
        drop((held, waiting));
        Some(Self {
            bytes_each: after.0.saturating_sub(before.0) * 1024 / u64::try_from(count).unwrap(),
            threads_before: before.1,
            threads_then: after.1,
        })
    }
}

fn hold(locks: &LockManager, count: usize, key: impl Fn(usize) -> String) -> Vec<LockGuard> {
    let mut held = Vec::with_capacity(count);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    while held.len() < count {
        let batch = (held.len()..count.min(held.len() + 500)).map(&key);
        let batch: Vec<_> = batch.map(|key| ask(locks, key)).collect();
        for (acquire, polled) in batch {
            held.push(match polled {
                Poll::Ready(guard) => guard.unwrap(),
                Poll::Pending => runtime.block_on(acquire).unwrap(),
            });
        }
    }
    held
}

fn wait(locks: &LockManager, count: usize, key: impl Fn(usize) -> String) -> Vec<Acquire> {
    let ask = |number| {
        let (acquire, polled) = ask(locks, key(number));
        assert!(polled.is_pending(), "{polled:?}");
        acquire
    };
    (0..count).map(ask).collect()
}

/// Polls a call once, which sends its request.
fn ask(locks: &LockManager, key: String) -> (Acquire, Poll<Result<LockGuard, LockError>>) {
    let mut acquire = locks.lock(key).ttl(LONG).wait(LONG).acquire();
    let polled = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
    (acquire, polled)
}
