//! Many held locks share the calls that renew them: how many calls the server counts, and that each
//! lock still expires, is lost and is released by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, RedisCluster, RedisServer, SECOND, connect, connect_to, eventually, unique, within};
use redlocked::{LockError, LockGuard, LockManager};

/// A ttl whose renewals are minutes apart.
const LONG: Duration = Duration::from_secs(1000);

/// A manager whose connection does not depend on the runtimes of its callers.
fn through(proxy: &Proxy) -> LockManager {
    LockManager::builder(proxy.url()).own_thread(true).connect_blocking().unwrap()
}

/// Starts all calls at once, and polls each to its end.
fn together<F>(calls: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    one_thread().block_on(at_once(calls))
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Sends all calls before this runtime polls anything else.
async fn at_once<F>(calls: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let mut outcomes = Vec::new();
    for call in calls.map(tokio::spawn).collect::<Vec<_>>() {
        outcomes.push(call.await.unwrap());
    }
    outcomes
}

/// Takes the locks `0`, `1` and so on.
fn hold(locks: &LockManager, count: usize, ttl: impl Fn(usize) -> Duration) -> Vec<Arc<LockGuard>> {
    let take = |number| locks.lock(format!("{number}")).ttl(ttl(number)).wait(LIMIT).acquire();
    together((0..count).map(take)).into_iter().map(|guard| Arc::new(guard.unwrap())).collect()
}

/// Extends all guards at once, each by its own ttl.
fn extend(guards: &[Arc<LockGuard>], ttl: impl Fn(usize) -> Duration) -> Vec<Result<(), LockError>> {
    together(extensions(guards, ttl))
}

fn extensions(
    guards: &[Arc<LockGuard>],
    ttl: impl Fn(usize) -> Duration,
) -> impl Iterator<Item = impl Future<Output = Result<(), LockError>> + Send + 'static> {
    guards.iter().enumerate().map(move |(number, guard)| {
        let (guard, ttl) = (Arc::clone(guard), ttl(number));
        async move { guard.extend(ttl).await }
    })
}

/// Runs `something`, and waits until each lock has been renewed after it.
#[track_caller]
fn renewed_after<'a>(guards: impl IntoIterator<Item = &'a Arc<LockGuard>>, something: impl FnOnce()) {
    let ends: Vec<_> = guards.into_iter().map(|guard| (guard, Instant::now() + guard.remaining())).collect();
    something();
    eventually("each lock has been renewed", || {
        ends.iter().all(|(guard, end)| Instant::now() + guard.remaining() > *end + SECOND / 20)
    });
}

#[track_caller]
fn wait_for_renewals(guards: &[Arc<LockGuard>]) {
    renewed_after(guards, || ());
}

/// Waits until the server tracks all keys, so that only renewals send commands from then on.
fn wait_for_first_looks(server: &RedisServer, count: usize) {
    let watched = format!("tracking_total_keys:{count}");
    eventually("the server tracks all keys", || {
        server.run::<String>("INFO stats").lines().any(|line| line == watched)
    });
}

fn lost(guards: &[Arc<LockGuard>]) -> Vec<&str> {
    guards.iter().filter(|guard| !guard.is_held()).map(|guard| guard.key()).collect()
}

fn pttl(server: &RedisServer, name: &str) -> Duration {
    Duration::from_millis(server.run(&format!("PTTL {name}")))
}

#[test]
fn many_renewals_are_few_calls() {
    const LOCKS: usize = 1000;
    const ROUNDS: u64 = 3;
    let server = RedisServer::start();
    let guards = hold(&connect(&server), LOCKS, |_| 6 * SECOND);
    wait_for_renewals(&guards);
    let before = server.client_commands();
    for _ in 0..ROUNDS {
        wait_for_renewals(&guards);
    }
    let calls = server.client_commands() - before;
    // Renewals of the round before and of the round after may be counted.
    assert!(calls < (ROUNDS + 2) * LOCKS as u64 / 4, "{calls} calls");
    assert_eq!(lost(&guards), [""; 0]);
    assert_eq!(server.keys().len(), LOCKS);
}

#[test]
fn each_is_watched_from_its_renewal_on() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guards = hold(&through(&proxy), 120, |_| LONG);
    wait_for_first_looks(&server, guards.len());
    let before = server.client_commands();
    // Over the next connection, the server tracks a key again only after a renewal.
    renewed_after(&guards, || proxy.cut());
    let calls = server.client_commands() - before;
    assert!(calls < 20, "{calls} calls");
    let theft = ["DEL lock:7", "SET lock:49 thief", "PEXPIRE lock:119 1"];
    for (theft, key) in theft.into_iter().zip(["7", "49", "119"]) {
        let guard = guards.iter().find(|guard| guard.key() == key).unwrap();
        assert!(guard.is_held());
        let _: redis::Value = server.run(theft);
        eventually(theft, || !guard.is_held());
    }
    assert_eq!(lost(&guards), ["7", "49", "119"]);
    // The losses also show in the next round.
    assert_eq!(extend(&guards, |_| LONG).iter().filter(|outcome| outcome.is_ok()).count(), 117);
    let names: Vec<_> = (60..100).map(|key| format!("lock:{key}")).collect();
    let _: i32 = server.run(&format!("DEL {}", names.join(" ")));
    eventually("the holders know of the losses", || lost(&guards).len() == 43);
    assert!(guards[60..100].iter().all(|guard| !guard.is_held()));
}

#[test]
fn what_was_stolen_meanwhile_is_lost_and_nothing_else() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guards = hold(&through(&proxy), 100, |_| LONG);
    wait_for_first_looks(&server, guards.len());
    let (others, stolen): (Vec<_>, Vec<_>) =
        guards.iter().partition(|guard| !matches!(guard.key(), "3" | "27" | "87" | "58"));
    renewed_after(others, || {
        proxy.refuse(true);
        for theft in
            ["DEL lock:3", "SET lock:27 thief", "SET lock:87 thief", "DEL lock:58", "RPUSH lock:58 list"]
        {
            let _: redis::Value = server.run(theft);
        }
        proxy.refuse(false);
    });
    eventually("the holders know of the losses", || stolen.iter().all(|guard| !guard.is_held()));
    assert_eq!(lost(&guards), ["3", "27", "58", "87"]);
    let left: String = server.run("GET lock:27");
    assert_eq!(left, "thief");
    assert_eq!(server.keys().len(), 99, "and no lost key is back");
}

#[test]
fn a_forgotten_script_loses_none() {
    const LOCKS: usize = 300;
    let server = RedisServer::start();
    let guards = hold(&connect(&server), LOCKS, |_| 6 * SECOND);
    for _ in 0..2 {
        wait_for_renewals(&guards);
        let _: String = server.run("SCRIPT FLUSH");
    }
    wait_for_renewals(&guards);
    let before = server.client_commands();
    wait_for_renewals(&guards);
    wait_for_renewals(&guards);
    let calls = server.client_commands() - before;
    assert!(calls < LOCKS as u64, "renewals share calls again: {calls}");
    assert_eq!(lost(&guards), [""; 0]);
}

#[test]
fn each_is_renewed_for_its_own_ttl() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let ttl = |number: usize| LONG * u32::try_from(number % 3 + 1).unwrap();
    let guards = hold(&through(&proxy), 60, ttl);
    wait_for_first_looks(&server, guards.len());
    renewed_after(&guards, || proxy.cut());
    for (number, guard) in guards.iter().enumerate() {
        for left in [guard.remaining(), pttl(&server, &format!("lock:{number}"))] {
            assert!(left + LONG / 2 > ttl(number) && left <= ttl(number), "{number}: {left:?}");
        }
    }
}

#[test]
fn locks_that_are_extended_together_each_hear_of_their_own() {
    let server = RedisServer::start();
    server.tell_of_no_changes();
    // The loop is a task of the runtime that sends the calls, so it takes them together.
    let runtime = one_thread();
    let guards: Vec<_> = runtime.block_on(async {
        let locks = LockManager::connect(server.url()).await.unwrap();
        let take = |number| locks.lock(format!("{number}")).ttl(LONG).wait(LIMIT).acquire();
        at_once((0..100).map(take)).await.into_iter().map(|guard| Arc::new(guard.unwrap())).collect()
    });
    let ttl = |number: usize| LONG * u32::try_from(number % 2 + 1).unwrap();
    for round in 0..3 {
        let before = server.client_commands();
        let _: i32 = server.run(&format!("DEL lock:{round}"));
        let outcomes = runtime.block_on(at_once(extensions(&guards, ttl)));
        let calls = server.client_commands() - before;
        assert!(calls < 60, "{calls} calls");
        for (number, outcome) in outcomes.iter().enumerate() {
            if number <= round {
                assert!(matches!(outcome, Err(LockError::Lost { .. })), "{number}: {outcome:?}");
            } else {
                assert!(outcome.is_ok(), "{number}: {outcome:?}");
                assert!(pttl(&server, &format!("lock:{number}")) + LONG / 2 > ttl(number));
            }
        }
    }
    assert_eq!(lost(&guards), ["0", "1", "2"]);
}

#[test]
fn what_access_rules_have_closed_meanwhile_stops_no_other_renewal() {
    let server = RedisServer::start();
    let rules = |keys: &str| {
        let _: String = server.run(&format!("ACL SETUSER holder on >secret resetkeys {keys} &* +@all"));
    };
    rules("~*");
    let url = format!("redis://holder:secret@127.0.0.1:{}/", server.port());
    let guards = hold(&connect_to(&url), 30, |_| LONG);
    wait_for_first_looks(&server, guards.len());
    rules("~lock:0 ~lock:2*");
    for _ in 0..2 {
        for (guard, outcome) in guards.iter().zip(extend(&guards, |_| LONG)) {
            match outcome {
                Ok(()) => assert!(guard.key() == "0" || guard.key().starts_with('2')),
                Err(error) => assert!(error.to_string().contains("NOPERM"), "{error}"),
            }
        }
    }
    rules("~*");
    assert!(extend(&guards, |_| LONG).iter().all(Result::is_ok));
    assert_eq!(lost(&guards), [""; 0]);
}

#[test]
fn in_a_cluster_each_is_asked_for_alone() {
    let cluster = RedisCluster::of_this_process();
    let locks = LockManager::builder(cluster.url()).prefix(unique("renewals")).connect_blocking().unwrap();
    let guards = hold(&locks, 100, |_| 3 * SECOND);
    for _ in 0..3 {
        wait_for_renewals(&guards);
    }
    for node in cluster.primaries() {
        let errors: String = node.run("INFO errorstats");
        assert!(!errors.contains("CROSSSLOT"), "{errors}");
    }
    assert_eq!(lost(&guards), [""; 0]);
}

/// How many watches have begun.
fn watches(server: &RedisServer) -> u32 {
    let stats: String = server.run("INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_client|caching:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Another client gives the lock another expiry: the watch tells of a change, and the value is
/// still ours.
#[test]
fn an_expiry_that_another_client_has_changed_is_repaired_at_once() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let before = watches(&server);
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    eventually("it is watched", || watches(&server) > before);
    for command in ["PEXPIRE lock:k 5000", "PERSIST lock:k", "PEXPIRE lock:k 3000"] {
        // Not sooner than a renewal that was just sent.
        std::thread::sleep(SECOND / 5);
        assert_eq!(server.run::<u32>(command), 1, "{command}");
        within(5 * SECOND, command, || server.run::<i64>("PTTL lock:k") > 59_000);
    }
    assert!(guard.is_held());
}

/// A renewal of many, which never shortens a lease, shortens one that has no end.
#[test]
fn many_that_another_client_has_let_last_for_ever_end_again() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let guards = hold(&through(&proxy), 16, |_| LONG);
    wait_for_first_looks(&server, guards.len());
    let without_an_end = || (0..16).filter(|key| server.run::<i64>(&format!("PTTL lock:{key}")) < 0).count();
    renewed_after(&guards, || {
        proxy.refuse(true);
        proxy.cut();
        (0..16).for_each(|key| assert_eq!(server.run::<u32>(&format!("PERSIST lock:{key}")), 1));
        proxy.refuse(false);
    });
    assert_eq!((without_an_end(), lost(&guards).len()), (0, 0));
}

/// A waiter marks the lock, which is a change like any other to the server.
#[test]
fn a_mark_is_no_reason_for_a_renewal() {
    let server = RedisServer::start();
    // Its locks are not renewed over another connection when the runtime of their callers ends.
    let locks = LockManager::builder(server.url()).own_thread(true).connect_blocking().unwrap();
    let other = connect(&server);
    let before = watches(&server);
    let guards = hold(&locks, 20, |_| LONG);
    eventually("all are watched", || watches(&server) >= before + 20);
    let before = watches(&server);
    let ends: Vec<_> = guards.iter().map(|guard| Instant::now() + guard.remaining()).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let waits: Vec<_> =
        (0..20).map(|key| runtime.spawn(other.lock(format!("{key}")).wait(LIMIT).acquire())).collect();
    eventually("all are watched again", || watches(&server) >= before + 20);
    // A renewal would come behind the answer to the watch, and before that to the second of these.
    locks.ping_blocking().unwrap();
    locks.ping_blocking().unwrap();
    for (guard, end) in guards.iter().zip(ends) {
        assert!(Instant::now() + guard.remaining() < end + SECOND / 20, "it was renewed");
    }
    drop(guards);
    for wait in waits {
        drop(runtime.block_on(wait).unwrap().unwrap());
    }
}
