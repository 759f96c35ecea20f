//! The cost of a held lock and of a waiter in this process: bytes of resident memory, and threads.
//!
//! ```text
//! cargo bench --bench memory
//! ```
//!
//! Each figure comes from a fresh process, because memory that was used before hides the growth. It counts the caller's
//! side too: its guard, or its future. Linux only.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench talks to its user, and may panic")]

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kit::figures::{rounds, status, table};
use kit::{RedisServer, eventually};
use redlocked::{Acquire, LockGuard, LockManager};

const LONG: Duration = Duration::from_mins(10);

/// This program starts itself with this variable, to measure one thing.
const CHILD: &str = "REDLOCKED_BENCH_MEMORY";

fn main() {
    if status("VmRSS").is_none() {
        println!("no /proc/self/status here: nothing is measured");
        return;
    }
    if let Ok(order) = std::env::var(CHILD) {
        let words: Vec<&str> = order.split(' ').collect();
        let [what, count, port] = words[..] else {
            return;
        };
        child(what, count.parse().unwrap(), port.parse().unwrap());
        return;
    }
    let orders = [
        ("held locks", rounds(100_000, 1_000)),
        ("waiters for one key", rounds(10_000, 100)),
        ("waiters for keys of their own", rounds(10_000, 100)),
    ];
    let rows = orders.map(|(what, count)| {
        let server = RedisServer::start();
        let order = format!("{} {count} {}", what.replace(' ', "-"), server.port());
        let output = Command::new(std::env::current_exe().unwrap()).env(CHILD, order).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let figures = String::from_utf8(output.stdout).unwrap();
        [format!("{count} {what}")].into_iter().chain(figures.split_whitespace().map(str::to_owned)).collect()
    });
    table("Memory and threads of the process", &["", "bytes each", "threads before", "threads then"], &rows);
}

fn child(what: &str, count: usize, port: u16) {
    let url = format!("redis://127.0.0.1:{port}/");
    let locks = LockManager::connect_blocking(&url).unwrap();
    let mut client = redis::Client::open(&*url).unwrap().get_connection().unwrap();
    drop(locks.lock("warm up").acquire_blocking().unwrap());
    let key = |number: usize| format!("a-key-of-usual-length:{number:08}");
    // The awaited lock is held by hand: another manager would take memory and a thread.
    let taken = match what {
        "waiters-for-one-key" => 1,
        "waiters-for-keys-of-their-own" => count,
        _ => 0,
    };
    for number in 0..taken {
        let mut set = redis::cmd("SET");
        let (): () = set.arg(format!("lock:{}", key(number))).arg("somebody").query(&mut client).unwrap();
    }
    let mut queued = |key: String| -> usize {
        redis::cmd("ZCARD").arg(format!("lock:{key}%queue")).query(&mut client).unwrap()
    };
    let before = (status("VmRSS").unwrap(), status("Threads").unwrap());
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    match what {
        "held-locks" => held = hold(&locks, count, key),
        "waiters-for-one-key" => {
            waiting = wait(&locks, count, |_| key(0));
            eventually("all are queued", || queued(key(0)) == count);
        }
        _ => {
            waiting = wait(&locks, count, key);
            eventually("the last is queued", || queued(key(count - 1)) == 1);
        }
    }
    let after = (status("VmRSS").unwrap(), status("Threads").unwrap());
    let bytes = after.0.saturating_sub(before.0) * 1024 / u64::try_from(count).unwrap();
    println!("{bytes} {} {}", before.1, after.1);
    drop((held, waiting));
}

fn hold(locks: &LockManager, count: usize, key: impl Fn(usize) -> String) -> Vec<LockGuard> {
    let mut held = Vec::with_capacity(count);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    while held.len() < count {
        let batch = (held.len()..count.min(held.len() + 500)).map(&key);
        let batch: Vec<Acquire> = batch.map(|key| ask(locks, key)).collect();
        for acquire in batch {
            held.push(runtime.block_on(acquire).unwrap());
        }
    }
    held
}

fn wait(locks: &LockManager, count: usize, key: impl Fn(usize) -> String) -> Vec<Acquire> {
    (0..count).map(|number| ask(locks, key(number))).collect()
}

/// Polls a call once, which sends its request.
fn ask(locks: &LockManager, key: String) -> Acquire {
    let mut acquire = locks.lock(key).ttl(LONG).wait(LONG).acquire();
    let polled = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
    acquire
}
