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

use crate::by_hand;

/// This program asks itself to go a way with this variable: its name, how often, the servers.
pub(crate) const ORDER: &str = "REDLOCKED_COUNTS_ORDER";

/// Long enough for a program that runs fifty times slower.
const TTL: Duration = Duration::from_secs(600);

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const KEY: &str = "a-key-of-usual-length";

/// So many round trips later, a server has heard what was to be sent before them.
const HEARD: u64 = 3;

/// As many as one guard takes in one call; a script renews 16 of them.
const TOGETHER: usize = 64;

const GUARDS: usize = 4;

const LEADERS: u64 = 32;

/// The TTL of the locks that are renewed.
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
    /// For each lock, to wait until the server has heard the others. They are not in its figure.
    pub(crate) pings: u64,
    /// Two runs of the same code differ by some per cent: tasks meet in another order, a sorted set
    /// has other levels, or a timer fires once more.
    pub(crate) varies: bool,
    /// The way that is indispensable, and how many times its instructions the server should execute at
    /// most, in hundredths.
    pub(crate) beside: Option<(&'static str, u64)>,
    go: fn(u64, &[&str]),
}

const fn way(name: &'static str, times: u64, go: fn(u64, &[&str])) -> Way {
    Way {
        name,
        times,
        needs_server: true,
        other_servers: 0,
        counts_renewals: false,
        pings: 0,
        varies: false,
        beside: None,
        go,
    }
}

impl Way {
    /// The others are compared with it.
    pub(crate) fn is_by_hand(&self) -> bool {
        self.needs_server && self.beside.is_none()
    }

    const fn varies(self) -> Self {
        Self { varies: true, ..self }
    }

    const fn beside(self, name: &'static str, hundredths: u64) -> Self {
        Self { beside: Some((name, hundredths)), ..self }
    }
}

/// The way beside which a client is compared where instructions are not the same for the same code.
pub(crate) const BY_HAND: &str = "by-hand";

const FENCED_BY_HAND: &str = "hand-incr";
const HAND_OFF_BY_HAND: &str = "hand-direct";
const JOIN_BY_HAND: &str = "hand-join";
const RENEWAL_BY_HAND: &str = "hand-renewal";
const ONCE_BY_HAND: &str = "hand-once";
const REPLAY_BY_HAND: &str = "hand-replay";

/// One round trip, which is no lock.
pub(crate) const PING: &str = "ping";

pub(crate) const WAYS: &[Way] = &[
    way(PING, 400, by_hand::ping).varies(),
    way(BY_HAND, 400, by_hand::pair),
    way(FENCED_BY_HAND, 400, by_hand::fenced),
    way(HAND_OFF_BY_HAND, 400, by_hand::hand_off).varies(),
    way(JOIN_BY_HAND, 400, by_hand::join),
    way(RENEWAL_BY_HAND, 400, by_hand::renewal),
    way(ONCE_BY_HAND, 400, by_hand::once),
    way(REPLAY_BY_HAND, 400, by_hand::replay),
    way("uncontended", 400, uncontended).beside(BY_HAND, 120),
    way("fenced", 400, fenced).beside(FENCED_BY_HAND, 120),
    way("together", 800, together).beside(FENCED_BY_HAND, 120).varies(),
    way("counted", 400, counted).beside(FENCED_BY_HAND, 240).varies(),
    way("shared", 400, shared).beside(FENCED_BY_HAND, 240).varies(),
    way("sync", 400, sync).beside(BY_HAND, 120),
    Way { pings: HEARD, ..way("hand-off", 400, hand_off).beside(HAND_OFF_BY_HAND, 180).varies() },
    Way { pings: 1, ..way("fleet", 1000, fleet).beside(HAND_OFF_BY_HAND, 200).varies() },
    Way { pings: 1, ..way("crowd", 2000, crowd).beside(HAND_OFF_BY_HAND, 200).varies() },
    Way { pings: 2 * HEARD, ..way("join", 400, join).beside(JOIN_BY_HAND, 240).varies() },
    Way { counts_renewals: true, ..way("renewal", 4, renewal).beside(RENEWAL_BY_HAND, 120).varies() },
    Way { counts_renewals: true, ..way("leading", 4, leading).beside(RENEWAL_BY_HAND, 120).varies() },
    way("tick", 400, tick).beside(ONCE_BY_HAND, 120).varies(),
    way("once", 400, once_each).beside(ONCE_BY_HAND, 120).varies(),
    way("replay", 400, replay).beside(REPLAY_BY_HAND, 120).varies(),
    Way { pings: 1, other_servers: 2, ..way("quorum", 400, quorum).beside(BY_HAND, 240) },
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

/// Locks with a body that could ask for its fencing token, in a process that has few locks a second.
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

/// Takes a lock that others may hold at the same time.
fn counted(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for _ in 0..times {
            locks.lock(KEY).ttl(TTL).permits(5).run_value(async |_| ()).await.unwrap();
        }
    });
}

/// Takes a lock that any number of callers may hold.
fn shared(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for _ in 0..times {
            locks.lock(KEY).ttl(TTL).shared().run_value(async |_| ()).await.unwrap();
        }
    });
}

/// Does what the first way does without async, on a plain thread.
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
                for _ in 0..times / 2 {
                    let mut body = async || {
                        inside.send_modify(|number| *number += 1);
                        // The other one has asked, and the server has heard it.
                        pings(&mut own_ping, HEARD).await;
                        *inside.borrow()
                    };
                    let mine =
                        locks.lock(KEY).ttl(TTL).wait(TTL).run_value(async |_| body().await).await.unwrap();
                    // It asks again when the other one is inside, and not before.
                    if mine < times {
                        inside.subscribe().wait_for(|number| *number > mine).await.unwrap();
                    }
                }
            });
            pings(&mut ping, HEARD).await;
        }
        // One that fails ends the run: the other one would wait for it.
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    });
}

/// Ten processes, each with five callers that want the lock again and again.
fn fleet(times: u64, urls: &[&str]) {
    fleet_of(5, times, urls);
}

/// As a fleet, with fifty callers in each process.
fn crowd(times: u64, urls: &[&str]) {
    fleet_of(50, times, urls);
}

fn fleet_of(callers: u64, times: u64, urls: &[&str]) {
    const PROCESSES: u64 = 10;
    runtime(1).block_on(async {
        let mut ping = Bare::connect(urls[0]).await;
        let mut tasks = JoinSet::new();
        for _ in 0..PROCESSES {
            let locks = connect(urls[0]).await;
            for _ in 0..callers {
                let (locks, mut own_ping) = (locks.clone(), ping.clone());
                tasks.spawn(async move {
                    for _ in 0..times / (PROCESSES * callers) {
                        let request = locks.lock(KEY).ttl(TTL).wait(TTL);
                        request.run_value(async |_| pings(&mut own_ping, 1).await).await.unwrap();
                    }
                });
            }
            pings(&mut ping, 1).await;
        }
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
            pings(&mut ping, HEARD).await;
            once(waits.as_mut()).await;
            drop(waits);
            pings(&mut ping, HEARD).await;
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

/// Leaders that stay so for so many renewals.
fn leading(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        let lasts = SHORT / 3 * u32::try_from(times).unwrap() + SHORT / 6;
        let mut leaders = JoinSet::new();
        for number in 0..LEADERS {
            let election = locks.election(own_key(number)).ttl(SHORT);
            leaders.spawn(async move {
                let body = async move |_| {
                    tokio::time::sleep(lasts).await;
                    Ok::<_, LockError>(())
                };
                election.lead(body).await.unwrap();
            });
        }
        leaders.join_all().await;
    });
}

/// A tick that is due, of a timer of its own each time.
fn tick(times: u64, urls: &[&str]) {
    const YEAR: Duration = Duration::from_secs(366 * 86_400);
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for turn in 0..times {
            locks.lock(own_key(turn)).ttl(TTL).tick(YEAR).run_value(async |_| ()).await.unwrap();
        }
    });
}

/// A body that runs once, for a key of its own each time.
fn once_each(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        for turn in 0..times {
            assert!(!run_once(&locks, own_key(turn)).await);
        }
    });
}

/// The result of a body that has run.
fn replay(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let locks = connect(urls[0]).await;
        run_once(&locks, KEY.to_owned()).await;
        for _ in 0..times {
            assert!(run_once(&locks, KEY.to_owned()).await);
        }
    });
}

/// True when the result is that of an earlier run.
async fn run_once(locks: &LockManager, key: String) -> bool {
    let request = locks.lock(key).ttl(TTL).once(TTL);
    request.run(async |_: &LockGuard| Ok::<_, LockError>("charged".to_owned())).await.unwrap().is_replayed()
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

/// As long as [`KEY`].
pub(crate) fn own_key(number: u64) -> String {
    format!("a-key-of-length:{number:05}")
}

/// Patient with a server that runs fifty times slower.
async fn connect(url: &str) -> LockManager {
    LockManager::builder(url).io_timeout(PATIENCE).connect().await.unwrap()
}

async fn pings(bare: &mut Bare, count: u64) {
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
