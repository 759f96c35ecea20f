//! A waiter is never forgotten.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use kit::{
    LIMIT, Proxy, RedisCluster, RedisServer, SECOND, StallingProxy, connect, connect_to, eventually, runtime,
};
use redlocked::{LockManager, ReleaseOutcome};

/// Starts `count` calls for the key, in the order of their numbers.
fn calls(
    locks: &LockManager,
    count: u64,
    body: impl Fn(u64) + Clone + Send + 'static,
) -> tokio::task::JoinSet<()> {
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..count {
        let (request, body) = (locks.lock("k").ttl(30 * SECOND).wait(LIMIT), body.clone());
        calls.spawn(async move { request.run_value(async move |_| body(number)).await.unwrap() });
    }
    calls
}

/// A hundred waiters of one process are served in order, although an accident happens to their
/// queue while the lock is released.
fn all_are_served(server: &RedisServer, locks: &LockManager, accident: &str) {
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let guard = locks.lock("k").ttl(30 * SECOND).acquire().await.unwrap();
        let book = Arc::clone(&order);
        let waiting = calls(locks, 100, move |number| book.lock().unwrap().push(number));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        eventually("all are queued", || server.run::<u64>("ZCARD lock:k%queue") == 100);
        let _: redis::Value = server.run(accident);
        let start = Instant::now();
        drop(guard);
        waiting.join_all().await;
        assert!(start.elapsed() < 10 * SECOND, "{accident}: not before {:?}", start.elapsed());
    });
    assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>(), "{accident}");
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn when_the_queue_vanishes_all_its_waiters_are_served() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for accident in ["DEL lock:k%queue", "FLUSHALL", "PEXPIRE lock:k%queue 1"] {
        all_are_served(&server, &locks, accident);
    }
}

/// One waiter polls instead, and notices the flush.
#[test]
fn without_a_push_of_changes_a_flush_forgets_nobody() {
    let server = RedisServer::start();
    let _: String =
        server.run("ACL SETUSER shop on >pass resetchannels ~lock:* &lock:* +@all -client +client|info");
    let url = format!("redis://shop:pass@127.0.0.1:{}/", server.port());
    let locks = connect_to(&url);
    assert!(!locks.capabilities_blocking().unwrap().tracks_changes());
    all_are_served(&server, &locks, "FLUSHALL");
}

#[test]
fn when_the_queue_vanishes_in_a_cluster_all_its_waiters_are_served() {
    let cluster = RedisCluster::of_this_process();
    let locks = connect_to(&cluster.url());
    let owner = cluster.owner_of("lock:{gone}");
    runtime().block_on(async {
        let guard = locks.lock("{gone}").acquire().await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let request = locks.lock("{gone}").wait(LIMIT);
            waiting.spawn(async move { request.run_value(async |_| ()).await.unwrap() });
        }
        tokio::task::yield_now().await;
        let queue = || owner.run::<Vec<String>>("KEYS lock:{gone}%queue*").pop();
        eventually("all are queued", || {
            queue().is_some_and(|queue| owner.run::<u32>(&format!("ZCARD {queue}")) == 50)
        });
        let start = Instant::now();
        let _: u32 = owner.run(&format!("DEL {}", queue().unwrap()));
        drop(guard);
        waiting.join_all().await;
        assert!(start.elapsed() < LIMIT / 2, "{:?}", start.elapsed());
    });
}

#[test]
fn a_queue_outlives_its_process_by_a_minute_at_most() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    runtime().block_on(async {
        let waiting = calls(&locks, 1, |_| ());
        tokio::task::yield_now().await;
        eventually("the waiter is queued", || server.run::<u64>("ZCARD lock:k%queue") == 1);
        assert!((1..=60_000).contains(&server.run::<i64>("PTTL lock:k%queue")));
        drop(guard);
        waiting.join_all().await;
    });
}

/// A server's clock may be set back while callers wait.
#[test]
fn who_comes_later_is_behind_even_when_the_clock_went_back() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let order = Arc::new(Mutex::new(Vec::new()));
    let guard = locks.lock("k").acquire_blocking().unwrap();
    runtime().block_on(async {
        let mut waiting = Vec::new();
        for number in 0..3 {
            let book = Arc::clone(&order);
            waiting.push(calls(&locks, 1, move |_| book.lock().unwrap().push(number)));
            tokio::task::yield_now().await;
            eventually("the waiter is queued", || server.run::<u64>("ZCARD lock:k%queue") == number + 1);
            // As if the waiter had come an hour from now.
            let last: Vec<String> = server.run("ZRANGE lock:k%queue -1 -1");
            let _: f64 = server.run(&format!("ZINCRBY lock:k%queue 3600000000 {}", last[0]));
        }
        drop(guard);
        for waiting in waiting {
            waiting.join_all().await;
        }
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
}

/// The value of a lock whose holder has ended.
const GONE: &str = "AAAAAAAAAAAAAAAAAAAAAA@gone:1";

/// Adds queue members of processes that have ended, one for each process, and marks the lock. It
/// exists.
fn dead_waiters(server: &RedisServer, count: u32) {
    let mut client = server.client();
    let _: u32 = server.run("APPEND lock:k !");
    for first in (0..count).step_by(1000) {
        let mut add = redis::cmd("ZADD");
        add.arg("lock:k%queue");
        for number in first..count.min(first + 1000) {
            add.arg(number).arg(format!("token{number}@gone:1|30000|lock:%inbox:gone{}", number % 100));
        }
        let _: u32 = add.query(&mut client).unwrap();
    }
}

#[test]
fn a_lock_behind_many_dead_waiters_is_had_at_once() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    for dead in [1, 2, 3, 64, 1000, 10_000] {
        // A release removes the dead waiters for a live waiter behind them.
        let guard = locks.lock("k").acquire_blocking().unwrap();
        dead_waiters(&server, dead);
        let waiter = {
            let other = other.clone();
            thread::spawn(move || other.lock("k").wait(LIMIT).acquire_blocking().unwrap())
        };
        eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == dead + 1);
        let asked = server.client_commands();
        drop(guard);
        drop(waiter.join().unwrap());
        let asked = server.client_commands() - asked;
        assert!(asked < 10 + u64::from(dead) / 1000, "{asked} calls behind {dead} dead waiters");
        eventually("no key is left", || server.keys().is_empty());
        // One try removes them, when the lease of a dead holder is over, and its grace is not.
        eventually("one try has removed them", || {
            let _: String = server.run(&format!("SET lock:k {GONE}"));
            dead_waiters(&server, dead);
            let _: i32 = server.run("PEXPIRE lock:k 95");
            drop(other.lock("k").acquire_blocking().unwrap());
            let removed = !server.run::<bool>("EXISTS lock:k%queue");
            let _: u32 = server.run("DEL lock:k%queue");
            removed
        });
        eventually("no key is left", || server.keys().is_empty());
        // A forced release removes them.
        let guard = locks.lock("k").acquire_blocking().unwrap();
        dead_waiters(&server, dead);
        other.force_release_blocking("k").unwrap();
        eventually("no key is left", || server.keys().is_empty());
        drop(guard);
    }
}

#[test]
fn a_malformed_member_of_the_queue_is_passed_over() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for member in ["nonsense", "token|0|inbox", "token|ttl|inbox", "|", "token@host:1|1000"] {
        let guard = locks.lock("k").acquire_blocking().unwrap();
        let _: u32 = server.run(&format!("ZADD lock:k%queue 1 {member}"));
        let waiter = {
            let locks = locks.clone();
            thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap())
        };
        eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 2);
        let _: u32 = server.run(&format!("ZADD lock:k%queue 9999999999999999 {member}x"));
        guard.release_blocking().unwrap();
        assert_eq!(waiter.join().unwrap().release_blocking().unwrap(), ReleaseOutcome::Released, "{member}");
        eventually("no key is left", || server.keys().is_empty());
    }
}

/// A manager that never leaves a lock free for clients of another kind: while callers wait, each
/// release hands it over.
fn only_redlocked(server: &RedisServer) -> LockManager {
    LockManager::builder(server.url()).foreign_clients(false).connect_blocking().unwrap()
}

/// How long a granted waiter takes to enter when the push arrives before the answers to its batch.
fn after_an_early_grant() -> Duration {
    let server = RedisServer::start();
    let guard = only_redlocked(&server).lock("first").acquire_blocking().unwrap();
    let before: String = server.run("GET lock:first");
    let proxy = StallingProxy::to(server.port(), "lock:second");
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_lazy().unwrap();
    // Both requests go out in one batch, as soon as there is a connection. The first request of an
    // exclusive caller would not join a queue, but find the lock held.
    let mut cx = Context::from_waker(Waker::noop());
    let mut calls = ["first", "second"].map(|key| locks.lock(key).shared().wait(LIMIT).acquire());
    for call in &mut calls {
        assert!(Pin::new(call).poll(&mut cx).is_pending());
    }
    proxy.open();
    eventually("the first request is queued, without an answer", || {
        proxy.stalls() && server.run::<u32>("ZCARD lock:first%queue") == 1
    });
    let answered = proxy.answered();
    drop(guard);
    eventually("the waiter is granted the lock", || server.run::<String>("GET lock:first") != before);
    eventually("the push has passed the proxy", || proxy.answered() > answered);
    // The engine has the push by then: nobody outside sees when.
    thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    proxy.go_on();
    for call in calls {
        runtime().block_on(call).unwrap().release_blocking().unwrap();
    }
    start.elapsed()
}

#[test]
fn a_grant_that_overtakes_the_answers_of_its_batch_is_a_lock_at_once() {
    // If the push is dropped, the waiter asks again after 300 ms at the earliest. The machine may
    // be busy: the best of three.
    let quickest = (0..3).map(|_| after_an_early_grant()).min().unwrap();
    assert!(quickest < Duration::from_millis(250), "{quickest:?}");
}

/// The password of a service changes while a candidate of its election waits.
#[test]
fn a_wait_without_a_limit_outlives_a_change_of_credentials() {
    let server = RedisServer::start();
    let user = |more: &str| {
        let _: String =
            server.run(&format!("ACL SETUSER shop reset resetchannels on ~lock:* &lock:* +@all {more}"));
    };
    user(">pass");
    let locks =
        LockManager::connect_blocking(format!("redis://shop:pass@127.0.0.1:{}/", server.port())).unwrap();
    let guard = connect(&server).lock("k").acquire_blocking().unwrap();
    let leader = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("k").wait_forever().acquire_blocking().map(drop))
    };
    eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
    for (trouble, words) in [(">other", "WRONGPASS"), (">pass -set", "forbids")] {
        user(trouble);
        let _: redis::Value = server.run("CLIENT KILL USER shop");
        eventually("a bounded wait is refused", || {
            let refused = locks.lock("other").wait(LIMIT).acquire_blocking();
            matches!(refused, Err(error) if error.to_string().contains(words))
        });
        assert!(!leader.is_finished());
        user(">pass");
    }
    drop(guard);
    leader.join().unwrap().unwrap();
}

#[test]
fn a_stuck_process_costs_one_claim_however_many_of_its_callers_wait() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let stuck = LockManager::builder(proxy.url()).io_timeout(3 * LIMIT).connect_blocking().unwrap();
    let locks = only_redlocked(&server);
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let of_the_stuck: Vec<_> = (0..20)
        .map(|_| {
            let stuck = stuck.clone();
            thread::spawn(move || stuck.lock("k").wait_forever().run_value_blocking(|_| ()).unwrap())
        })
        .collect();
    eventually("the waiters are queued", || server.run::<u32>("ZCARD lock:k%queue") == 20);
    let other = only_redlocked(&server);
    let waiters: Vec<_> = [&locks, &other, &locks]
        .into_iter()
        .map(|locks| {
            let locks = locks.clone();
            thread::spawn(move || locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap())
        })
        .collect();
    eventually("the waiters of the other managers are queued, too", || {
        server.run::<u32>("ZCARD lock:k%queue") == 23
    });
    proxy.hold_replies(true);
    let start = Instant::now();
    drop(guard);
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert!(
        start.elapsed() < 4 * SECOND,
        "one claim in all, not one for each stuck waiter: {:?}",
        start.elapsed()
    );
    // The stuck process continues, and each of its callers gets the lock.
    proxy.hold_replies(false);
    for caller in of_the_stuck {
        caller.join().unwrap();
    }
    eventually("no key is left", || server.keys().is_empty());
}

/// The script of a release, as the engine builds it.
const RELEASE: &str = include_str!("../../redlock-runtime/src/engine/redis/scripts/built/release.lua");

/// Both locks draw a fencing token in each round.
#[test]
fn two_locks_in_turn_are_both_left_free_for_clients_of_another_kind() {
    let server = RedisServer::start();
    let (mut client, mut listener) = (server.client(), server.client());
    let mut inbox = listener.as_pubsub();
    inbox.subscribe("inbox").unwrap();
    let _: String = server.run("SET lock:%clock 2000000000000001");
    let script = redis::Script::new(RELEASE);
    let mut left_free = [0, 0];
    for _ in 0..2000 {
        for (lock, left_free) in ["lock:a", "lock:b"].into_iter().zip(&mut left_free) {
            let queue = format!("{lock}%queue");
            redis::pipe()
                .cmd("SET")
                .arg(lock)
                .arg(format!("{GONE}!"))
                .ignore()
                .cmd("ZADD")
                .arg(&queue)
                .arg(1)
                .arg("waiter|30000|inbox")
                .ignore()
                .exec(&mut client)
                .unwrap();
            let mut call = script.key(lock);
            call.key(&queue)
                .key("lock:%clock")
                .key(format!("{queue}%claim"))
                .arg(GONE)
                .arg(30_000)
                .arg("1")
                .arg("other");
            assert_eq!(call.invoke::<u32>(&mut client).unwrap(), 1);
            if !redis::cmd("EXISTS").arg(lock).query::<bool>(&mut client).unwrap() {
                *left_free += 1;
                // The waiter takes the free lock, which draws a fencing token.
                redis::cmd("INCR").arg("lock:%clock").exec(&mut client).unwrap();
            }
        }
    }
    assert!(left_free.iter().all(|times| (2..200).contains(times)), "{left_free:?} of 2,000 times");
}

/// A hundred waiters of two processes, some or all of which leave in the moment of the release:
/// whoever is left is served, and the next caller, too, long before a ttl or a claim is over for
/// each that has gone.
#[test]
fn waiters_that_are_cancelled_exactly_at_a_release_leave_nothing() {
    const WAITERS: usize = 100;
    let server = RedisServer::start();
    let managers = [connect(&server), connect(&server)];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for round in 0..40 {
        let staying = [0, 1, 30][round % 3];
        runtime.block_on(async {
            let guard = managers[0].lock("k").ttl(60 * SECOND).acquire().await.unwrap();
            let mut waiting: Vec<_> = (0..WAITERS)
                .map(|number| {
                    let request = managers[number % 2].lock("k").ttl(60 * SECOND).wait(LIMIT);
                    tokio::spawn(async move { request.run_value(async |_| ()).await })
                })
                .collect();
            eventually("all are queued", || server.run::<usize>("ZCARD lock:k%queue") == WAITERS);
            let stay = waiting.split_off(WAITERS - staying);
            let release = async {
                // Sooner or later than the first of them leave.
                for _ in 0..round {
                    tokio::task::yield_now().await;
                }
                guard.release().await
            };
            let leave = async {
                for waiter in &waiting {
                    waiter.abort();
                    if round % 2 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            };
            let (released, ()) = tokio::join!(release, leave);
            assert_eq!(released.unwrap(), ReleaseOutcome::Released);
            for waiter in stay {
                waiter.await.unwrap().unwrap();
            }
            let next = managers[1].lock("k").wait(LIMIT).acquire().await.unwrap();
            assert_eq!(next.release().await.unwrap(), ReleaseOutcome::Released);
        });
        eventually("no key is left", || server.keys().is_empty());
    }
    drop((managers, runtime));
    server.assert_nothing_left();
}
