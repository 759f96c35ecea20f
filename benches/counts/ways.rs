//! The ways that are counted, each by a process of its own.
//!
//! Where two callers take part, they are two managers on one runtime, which is two processes to the
//! server. A PING of a connection of its own makes one wait until the server has dealt with what
//! was sent before it.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use kit::bare::Bare;
use kit::load::runtime;
use redlocked::{LockError, LockGuard, LockManager, distributed_lock};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// This program asks itself to go a way with this variable: its name, how often, the servers.
pub(crate) const ORDER: &str = "REDLOCKED_COUNTS_ORDER";

/// Long enough for a program that runs fifty times slower.
const TTL: Duration = Duration::from_secs(600);

const PATIENCE: Duration = Duration::from_secs(30);

const KEY: &str = "a-key-of-usual-length";

/// As many as one guard takes in one call; a script renews 16 of them.
const TOGETHER: usize = 64;

const GUARDS: usize = 4;

/// Of the locks that are renewed.
const SHORT: Duration = Duration::from_millis(2400);

pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// In the longer of two runs.
    pub(crate) times: u64,
    pub(crate) needs_server: bool,
    /// Further ones, which are not counted.
    pub(crate) other_servers: usize,
    /// A figure is for each renewed lock.
    pub(crate) counts_renewals: bool,
    go: fn(u64, &[&str]),
}

const fn way(name: &'static str, times: u64, go: fn(u64, &[&str])) -> Way {
    Way { name, times, needs_server: true, other_servers: 0, counts_renewals: false, go }
}

/// The way beside which the others are compared where instructions are not the same for the same code.
pub(crate) const BY_HAND: &str = "by-hand";

pub(crate) const WAYS: &[Way] = &[
    way(BY_HAND, 400, by_hand),
    way("uncontended", 400, uncontended),
    way("fenced", 400, fenced),
    way("together", 800, together),
    way("counted", 400, counted),
    way("sync", 400, sync),
    way("hand-off", 400, hand_off),
    way("join", 400, join),
    Way { counts_renewals: true, ..way("renewal", 4, renewal) },
    Way { other_servers: 2, ..way("quorum", 400, quorum) },
    Way { needs_server: false, ..way("poll", 400_000, poll) },
];

/// True when this process was started to go a way; it has done so then.
pub(crate) fn was_ordered() -> bool {
    let Ok(order) = std::env::var(ORDER) else { return false };
    let words: Vec<&str> = order.split_whitespace().collect();
    let [name, times, urls @ ..] = words.as_slice() else { panic!("{ORDER}: {order}") };
    let way = WAYS.iter().find(|way| way.name == *name).unwrap();
    (way.go)(times.parse().unwrap(), urls);
    true
}

/// The least that a free lock costs, taken and released: `SET NX PX`, and a script that compares and
/// deletes.
fn by_hand(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut bare = Bare::connect(urls[0]).await;
        for _ in 0..times {
            bare.pair(KEY).await;
        }
    });
}

#[distributed_lock(key = KEY, ttl = TTL, manager = locks)]
async fn annotated(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = KEY, ttl = TTL, manager = locks)]
fn annotated_sync(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

/// A free lock, taken and released.
fn uncontended(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for _ in 0..times {
            annotated(&locks).await.unwrap();
        }
    });
}

/// After this time a request with a fencing token looks at the clock of the server by a script. Waited for,
/// it does so in each run.
const LOOKS_AGAIN: Duration = Duration::from_millis(10);

/// The same, with a body that could ask for its fencing token, of a process that has few locks a second.
fn fenced(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for _ in 0..times {
            tokio::time::sleep(LOOKS_AGAIN).await;
            locks.lock(KEY).ttl(TTL).run_value(async |_| ()).await.unwrap();
        }
    });
}

/// Sixteen such callers at once, whose requests share a write: the first one looks for all.
fn together(times: u64, urls: &[&str]) {
    const CALLERS: u64 = 16;
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for _ in 0..times / CALLERS {
            tokio::time::sleep(LOOKS_AGAIN).await;
            let mut calls = JoinSet::new();
            for caller in 0..CALLERS {
                let request = locks.lock(format!("{KEY}:{caller:02}")).ttl(TTL);
                calls.spawn(async move { request.run_value(async |_| ()).await.unwrap() });
            }
            calls.join_all().await;
        }
    });
}

/// The same, of a lock that others may hold at the same time.
fn counted(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for _ in 0..times {
            locks.lock(KEY).ttl(TTL).permits(5).run_value(async |_| ()).await.unwrap();
        }
    });
}

/// The same as the first, without async, on a plain thread.
fn sync(times: u64, urls: &[&str]) {
    let locks = LockManager::builder(urls[0]).io_timeout(PATIENCE).connect_blocking().unwrap();
    for _ in 0..times {
        annotated_sync(&locks).unwrap();
    }
}

/// Two processes that pass a lock to each other, each of which waits when the other one releases.
fn hand_off(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut ping = Bare::connect(urls[0]).await;
        let inside = Arc::new(watch::Sender::new(0_u64));
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            let locks = connect(urls[0]).await;
            let (inside, mut own_ping) = (Arc::clone(&inside), ping.clone());
            tasks.spawn(async move {
                for _ in 0..times {
                    let mut body = async || {
                        inside.send_modify(|number| *number += 1);
                        // The other one has asked, and the server has heard it.
                        pings(&mut own_ping, 3).await;
                        *inside.borrow()
                    };
                    let mine =
                        locks.lock(KEY).ttl(TTL).wait(TTL).run_value(async |_| body().await).await.unwrap();
                    // It asks again when the other one is inside, and not before.
                    if mine < 2 * times {
                        inside.subscribe().wait_for(|number| *number > mine).await.unwrap();
                    }
                }
            });
            pings(&mut ping, 3).await;
        }
        // One that fails ends the run: the other one would wait for it.
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    });
}

/// A caller that joins the queue of a lock, and leaves it.
fn join(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut ping = Bare::connect(urls[0]).await;
        let other = connect(urls[0]).await;
        let _held = other.lock(KEY).ttl(TTL).acquire().await.unwrap();
        let locks = connect(urls[0]).await;
        for _ in 0..times {
            let mut waits = Box::pin(locks.lock(KEY).ttl(TTL).wait(TTL).acquire());
            once(waits.as_mut()).await;
            pings(&mut ping, 3).await;
            once(waits.as_mut()).await;
            drop(waits);
            pings(&mut ping, 3).await;
        }
    });
}

/// Locks that are held for so many renewals.
fn renewal(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        let mut held = Vec::new();
        for guard in 0..GUARDS {
            let keys = (0..TOGETHER).map(|number| format!("{KEY}:{guard}:{number:02}"));
            held.push(locks.lock_all(keys).ttl(SHORT).acquire().await.unwrap());
        }
        let renewals = u32::try_from(times).unwrap();
        tokio::time::sleep(SHORT / 3 * renewals + SHORT / 6).await;
        assert!(held.iter().all(LockGuard::is_held));
    });
}

/// A free lock on three servers, taken and released. The first one is slower than the others, so
/// their votes decide.
fn quorum(times: u64, urls: &[&str]) {
    const TTL: Duration = Duration::from_secs(3);
    runtime(1).block_on(async {
        let builder = LockManager::builder(urls[0]).node(urls[1]).node(urls[2]).max_ttl(TTL);
        let locks = builder.node_timeout(TTL / 4).io_timeout(PATIENCE).connect().await.unwrap();
        let mut ping = Bare::connect(urls[0]).await;
        // Servers that forget vote when they have been up for a ttl.
        tokio::time::sleep(TTL).await;
        for _ in 0..times {
            locks.lock(KEY).ttl(TTL).wait(TTL).run_value(async |_| ()).await.unwrap();
            // Its answers do not pile up.
            pings(&mut ping, 1).await;
        }
    });
}

/// The checks of the lease around the polls of a body.
fn poll(times: u64, _: &[&str]) {
    let locks = LockManager::connect_blocking("memory://counts").unwrap();
    let is_inside = Cell::new(false);
    let body = async |_: &LockGuard| {
        is_inside.set(true);
        let mut left = times;
        poll_fn(|cx| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    };
    let mut guarded = pin!(locks.lock(KEY).ttl(TTL).run_value(body));
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut cx = Context::from_waker(&waker);
    while guarded.as_mut().poll(&mut cx).is_pending() {
        // How often it would ask until it has its lock is not counted.
        if !is_inside.get() {
            thread::park();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Patient with a server that runs fifty times slower.
async fn connect(url: &str) -> LockManager {
    LockManager::builder(url).io_timeout(PATIENCE).connect().await.unwrap()
}

async fn pings(bare: &mut Bare, count: usize) {
    for _ in 0..count {
        bare.ping().await;
    }
}

/// Polls it once; it still waits then.
async fn once<T>(mut waits: Pin<&mut impl Future<Output = T>>) {
    poll_fn(|cx| {
        assert!(waits.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}
