//! A fault of one caller, one key or one node costs the others nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, Quorum, RedisCluster, RedisServer, SECOND, connect, connect_to, eventually};
use redlocked::{Acquire, LockError, LockGuard, LockManager, ReleaseOutcome};
use tokio::task::JoinSet;

/// Until `stop`, starts calls, each for its own key, and drops each a moment later.
fn dropped_calls(locks: &LockManager, thread: usize, stop: &AtomicBool) {
    let mut cx = Context::from_waker(Waker::noop());
    let mut nth = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let request = locks.lock(format!("dropped:{thread}:{nth}"));
        let mut call = request.ttl(600 * SECOND).wait(60 * SECOND).acquire();
        // On a busy machine the answer may have arrived already.
        let polled = Pin::new(&mut call).poll(&mut cx);
        let (began, pause) = (Instant::now(), Duration::from_micros(nth * 7919 % 200));
        while began.elapsed() < pause {
            std::hint::spin_loop();
        }
        drop((call, polled));
        nth += 1;
    }
}

/// Sends about as many pushes at once as tokio lets a task read in one poll, so that one batch is
/// sent by the next poll and another after it. The bytes of some are more than a poll may read, so
/// that callers have their outcomes in polls that leave something unread.
fn pushes(server: &RedisServer, stop: &AtomicBool) {
    let channels: Vec<String> = server.run("PUBSUB CHANNELS lock:%inbox:*");
    let mut client = server.client();
    let texts = [1, 600].map(|times| format!("next|nobody|1|0||{}", "nothing".repeat(times)));
    let bursts = (118..128).cycle().zip(texts.iter().cycle());
    for (count, text) in bursts.take_while(|_| !stop.load(Ordering::Relaxed)) {
        let mut burst = redis::pipe();
        for _ in 0..count {
            burst.cmd("PUBLISH").arg(&channels).arg(text).ignore();
        }
        burst.exec(&mut client).unwrap();
        thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn calls_that_are_dropped_by_the_thousand_leave_no_lock() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let stop = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| pushes(&server, &stop));
        for thread in 0..3 {
            let (locks, stop) = (&locks, &stop);
            scope.spawn(move || dropped_calls(locks, thread, stop));
        }
        thread::sleep(2 * SECOND);
        stop.store(true, Ordering::Relaxed);
    });
    locks.shutdown_blocking(LIMIT).unwrap();
    assert_eq!(server.keys(), Vec::<String>::new());
    drop(locks);
    server.assert_nothing_left();
}

/// Starts `count` calls, each for its own key, and waits until the engine has received them.
fn begin(locks: &LockManager, count: usize) -> Vec<Acquire> {
    let mut cx = Context::from_waker(Waker::noop());
    let begin = |nth| {
        let mut call = locks.lock(format!("backlog:{nth}")).ttl(600 * SECOND).wait(600 * SECOND).acquire();
        assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
        call
    };
    let calls = (0..count).map(begin).collect();
    locks.capabilities_blocking().unwrap();
    calls
}

/// Pauses the servers, drops two thousand calls for each, and returns how many commands each server
/// received for them.
fn dropped_while_held_back(locks: LockManager, servers: &[&RedisServer]) -> u64 {
    let commands = || servers.iter().map(|server| server.client_commands()).sum::<u64>();
    locks.lock("before").run_value_blocking(|_| ()).unwrap();
    let before = commands();
    for server in servers {
        let _: String = server.run("CLIENT PAUSE 60000 WRITE");
    }
    drop(begin(&locks, 2000 * servers.len()));
    // The engine has received them when this returns.
    locks.capabilities_blocking().unwrap();
    for server in servers {
        let _: String = server.run("CLIENT UNPAUSE");
    }
    locks.shutdown_blocking(LIMIT).unwrap();
    for server in servers {
        assert_eq!(server.keys(), Vec::<String>::new());
    }
    drop(locks);
    for server in servers {
        server.assert_nothing_left();
    }
    (commands() - before) / servers.len() as u64
}

#[test]
fn a_call_that_is_dropped_while_the_connection_is_held_back_costs_the_server_nothing() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    // A few requests were sent already and had to be released.
    let commands = dropped_while_held_back(locks, &[&server]);
    assert!(commands < 700, "{commands}");
}

#[test]
fn nor_the_nodes_of_a_quorum() {
    let quorum = Quorum::durable(3);
    let settings = quorum.builder().io_timeout(LIMIT).node_timeout(LIMIT);
    let locks = settings.connect_blocking().unwrap();
    let commands = dropped_while_held_back(locks, &quorum.servers.iter().collect::<Vec<_>>());
    assert!(commands < 700, "{commands}");
}

#[test]
fn nor_those_of_a_cluster() {
    let cluster = RedisCluster::start();
    let locks = LockManager::builder(cluster.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    let commands = dropped_while_held_back(locks, &cluster.primaries());
    assert!(commands < 700, "{commands}");
}

#[test]
fn a_node_that_is_away_costs_the_others_nothing_however_many_wait_for_it() {
    /// Renewed meanwhile.
    const HELD: Duration = Duration::from_secs(8);
    let more = || vec!["--cluster-require-full-coverage".to_owned(), "no".to_owned()];
    let cluster = RedisCluster::of_nodes("port", more);
    let locks = connect_to(&cluster.url());
    let mut client = cluster.nodes[0].client();
    let mut slot = |key: &str| -> u16 {
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(format!("lock:{key}")).query(&mut client).unwrap()
    };
    let tags: Vec<(String, u16)> = (0..600)
        .map(|nth| format!("{{{nth}}}"))
        .map(|tag| {
            let at = slot(&tag);
            (tag, at)
        })
        .collect();
    let of = |slots: std::ops::Range<u16>| tags.iter().filter(move |(_, slot)| slots.contains(slot));
    let (healthy, lost): (Vec<_>, Vec<_>) = (of(0..5461).collect(), of(5462..10_922).collect());
    let held: Vec<LockGuard> = healthy
        .iter()
        .take(20)
        .map(|(tag, _)| locks.lock(format!("held:{tag}")).ttl(HELD).acquire_blocking().unwrap())
        .collect();
    for node in [1, 4] {
        cluster.nodes[node].pause();
    }
    let mut cx = Context::from_waker(Waker::noop());
    let waiters: Vec<Acquire> = (0..3000)
        .map(|nth| {
            let key = format!("lost:{nth}:{}", lost[nth % lost.len()].0);
            let mut call = locks.lock(key).wait(60 * SECOND).acquire();
            assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
            call
        })
        .collect();
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < HELD * 3 / 2 {
        let (tag, _) = healthy[began.elapsed().subsec_nanos() as usize % healthy.len()];
        let start = Instant::now();
        locks.lock(format!("other:{tag}")).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let usual = took[took.len() / 2];
    assert!(usual < SECOND / 2, "{usual:?}");
    assert!(held.iter().all(LockGuard::is_held));
    drop(waiters);
    for node in [1, 4] {
        cluster.nodes[node].resume();
    }
}

#[test]
fn of_many_waiters_for_one_lock_that_are_refused_one_asks_again() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let _: String = server.run("CONFIG SET min-replicas-to-write 1");
    let mut cx = Context::from_waker(Waker::noop());
    let mut calls: Vec<_> = (0..500)
        .map(|_| {
            let mut call = locks.lock("k").wait(2 * LIMIT).acquire();
            assert!(Pin::new(&mut call).poll(&mut cx).is_pending());
            call
        })
        .collect();
    // The engine has received them when this returns. Those that come behind a refusal ask no more.
    locks.capabilities_blocking().unwrap();
    // One waiter retries after 50 ms, 100 ms, 200 ms and so on, once all that have asked are refused.
    eventually("one of them asks again", || {
        let before = server.client_commands();
        thread::sleep(SECOND);
        server.client_commands() < before + 20
    });
    let _: String = server.run("CONFIG SET min-replicas-to-write 0");
    // They have the lock one after another, and a busy machine takes long over each.
    calls.truncate(20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(all_are_served(calls));
}

#[test]
fn waiters_that_are_refused_leave_the_server_in_peace_and_are_served_when_it_is_well() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(LIMIT / 4).connect_blocking().unwrap();
    let _: String = server.run("CONFIG SET min-replicas-to-write 1");
    let calls = begin(&locks, 500);
    // The pause between two retries of one waiter grows to a second on average.
    thread::sleep(2 * SECOND);
    let before = server.client_commands();
    thread::sleep(SECOND);
    let asked = server.client_commands() - before;
    assert!(asked < 1500, "{asked} a second by 500 waiters");
    let _: String = server.run("CONFIG SET min-replicas-to-write 0");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(all_are_served(calls));
}

/// Each in a task of its own: a lock that is granted to a call that nobody polls would keep the others waiting, and
/// on a busy machine a call may have lost its place, and be behind those that came later.
async fn all_are_served(calls: Vec<Acquire>) {
    let mut served = JoinSet::new();
    for call in calls {
        served.spawn(async move { call.await.unwrap().release().await.unwrap() });
    }
    tokio::time::timeout(LIMIT, served.join_all()).await.unwrap();
}

/// Returns the length of the server's answers to clients, in bytes.
fn answered(server: &RedisServer) -> u64 {
    let stats: String = server.run("INFO stats");
    let bytes = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
    bytes.trim().parse().unwrap()
}

/// A client of another kind may write anything where we look for a lock: nobody has to hear all of
/// it.
#[test]
fn a_foreign_value_of_any_length_costs_the_other_locks_nothing() {
    const LENGTH: usize = 32 << 20;
    let server = RedisServer::start();
    // A busy machine takes long over each value that the test itself writes.
    let connect = || LockManager::builder(server.url()).io_timeout(LIMIT / 2).connect_blocking().unwrap();
    let (locks, others) = (connect(), connect());
    let held = locks.lock("held").ttl(10 * SECOND).acquire_blocking().unwrap();
    let stolen = locks.lock("stolen").ttl(60 * SECOND).acquire_blocking().unwrap();
    let before = answered(&server);
    let write =
        |key: &str, value: &str| redis::cmd("SET").arg(key).arg(value).exec(&mut server.client()).unwrap();
    // Like a token, too: with the time of a grant and a mark, or without.
    for (key, start, end) in [
        ("k", "", ""),
        ("token", "k6vzjPF0bzefdu4UB6J8YZ@vm:1/", ""),
        ("marked", "k6vzjPF0bzefdu4UB6J8YZ@vm:1/", "!"),
        ("granted", "k6vzjPF0bzefdu4UB6J8YZ@vm:1/", "=1795348434"),
    ] {
        write(&format!("lock:{key}"), &format!("{start}{}{end}", "x".repeat(LENGTH)));
        let outcome = others.lock(key).acquire_blocking();
        assert!(matches!(&outcome, Err(LockError::Busy { .. })), "{outcome:?}");
        let outcome = others.lock(key).wait(SECOND / 2).acquire_blocking();
        assert!(matches!(&outcome, Err(LockError::TimedOut { .. })), "{outcome:?}");
        assert!(locks.inspect_blocking(key).unwrap().is_some());
        assert!(server.run::<usize>(&format!("STRLEN lock:{key}")) >= LENGTH, "it is left alone");
    }
    // A member of its queue, and one of our locks.
    let member = format!("{}|60000|lock:%inbox:x", "x".repeat(LENGTH / 16));
    redis::cmd("ZADD").arg("lock:k%queue").arg(1).arg(&member).exec(&mut server.client()).unwrap();
    assert!(locks.inspect_blocking("k").unwrap().is_some());
    write("lock:stolen", &"x".repeat(LENGTH));
    eventually("the holder hears of it", || !stolen.is_held());
    assert!(locks.force_release_blocking("k").unwrap().is_some());
    let heard = answered(&server) - before;
    assert!(heard < 1 << 20, "{heard} bytes");
    assert!(held.is_held());
    assert_eq!(held.release_blocking(), Ok(ReleaseOutcome::Released));
}

#[test]
fn a_foreign_value_of_any_length_on_the_nodes_of_a_quorum_is_cut_and_can_be_taken_away() {
    const LENGTH: usize = 8 << 20;
    let quorum = Quorum::durable(3);
    let locks = quorum.manager();
    let before: u64 = quorum.servers.iter().map(answered).sum();
    for server in &quorum.servers {
        let value = "x".repeat(LENGTH);
        redis::cmd("SET").arg("lock:k").arg(value).exec(&mut server.client()).unwrap();
    }
    let outcome = locks.lock("k").acquire_blocking();
    assert!(matches!(&outcome, Err(LockError::Busy { .. })), "{outcome:?}");
    assert!(locks.lock("k").wait(SECOND / 2).acquire_blocking().is_err());
    assert!(locks.inspect_blocking("k").unwrap().is_some());
    assert!(locks.force_release_blocking("k").unwrap().is_some());
    quorum.assert_nothing_left();
    let heard = quorum.servers.iter().map(answered).sum::<u64>() - before;
    assert!(heard < 1 << 20, "{heard} bytes");
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
}
