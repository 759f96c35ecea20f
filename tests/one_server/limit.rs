//! The error that a caller gets at the limit of its wait.

use std::thread;
use std::time::{Duration, Instant};

use kit::{DelayProxy, LIMIT, Quorum, RedisServer, SECOND, connect, eventually};
use redlocked::{Holder, LockError, LockErrorKind, LockGuard, LockManager, distributed_lock};
use tokio::runtime::{Builder, Runtime};

const MS: Duration = Duration::from_millis(1);

/// Shorter than a round trip, as long, and longer.
const WAITS: [u32; 7] = [0, 1, 5, 9, 20, 30, 80];

type Outcome = Result<(), LockErrorKind>;

fn kind(outcome: Result<LockGuard, LockError>) -> Outcome {
    outcome.map(drop).map_err(|error| error.kind())
}

/// The calls run while the test looks at the server.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Each wait takes a free lock, and none takes a held one for an outage.
fn each_wait_hears_what_is_so(far: &LockManager, near: &LockManager) {
    for wait in WAITS.map(|wait| wait * MS) {
        assert_eq!(kind(far.lock("k").wait(wait).acquire_blocking()), Ok(()), "free, {wait:?}");
        let several = far.lock_all(["k", "l", "m"]).wait(wait).acquire_blocking();
        assert_eq!(kind(several), Ok(()), "several are free, {wait:?}");
        let held = near.lock("k").wait(LIMIT).acquire_blocking().unwrap();
        let busy = if wait.is_zero() { LockErrorKind::Busy } else { LockErrorKind::TimedOut };
        assert_eq!(kind(far.lock("k").wait(wait).acquire_blocking()), Err(busy), "held, {wait:?}");
        assert_eq!(kind(far.lock_all(["j", "k"]).wait(wait).acquire_blocking()), Err(busy), "{wait:?}");
        drop(held);
    }
}

#[test]
fn a_wait_shorter_than_a_round_trip_is_one_try() {
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), 10 * MS);
    let far = LockManager::connect_blocking(proxy.url()).unwrap();
    each_wait_hears_what_is_so(&far, &connect(&server));
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_wait_shorter_than_a_long_round_trip_is_one_try() {
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), 200 * MS);
    let far = LockManager::connect_blocking(proxy.url()).unwrap();
    for wait in [0, 1, 50, 399] {
        assert_eq!(kind(far.lock("k").wait(wait * MS).acquire_blocking()), Ok(()), "{wait} ms");
    }
}

#[test]
fn a_wait_shorter_than_a_round_trip_to_a_quorum_is_one_try() {
    let quorum = Quorum::durable(3);
    let proxies: Vec<_> =
        quorum.servers.iter().map(|server| DelayProxy::to(server.port(), 10 * MS)).collect();
    let mut urls = proxies.iter().map(DelayProxy::url);
    let first = LockManager::builder(urls.next().unwrap());
    let far = urls.fold(first, redlocked::LockManagerBuilder::node).connect_blocking().unwrap();
    each_wait_hears_what_is_so(&far, &quorum.manager());
}

#[test]
fn a_short_wait_in_memory_is_one_try() {
    let [far, near] = [(); 2].map(|()| LockManager::connect_blocking("memory://short wait").unwrap());
    each_wait_hears_what_is_so(&far, &near);
}

#[distributed_lock(key = "k", wait = "1ms", manager = locks, on_busy = Ok(false))]
async fn locked(locks: &LockManager) -> Result<bool, LockError> {
    Ok(true)
}

#[distributed_lock(key = "k", wait = "1ms", manager = locks, on_busy = Ok(false))]
fn locked_sync(locks: &LockManager) -> Result<bool, LockError> {
    Ok(true)
}

/// A manager whose loop has a thread. In a runtime that ends, or stands still for a moment, it would
/// connect again from another thread, and no call with such a wait waits for that.
fn stays_connected(proxy: &DelayProxy) -> LockManager {
    LockManager::builder(proxy.url()).own_thread(true).connect_blocking().unwrap()
}

#[test]
fn a_function_with_a_wait_shorter_than_a_round_trip_runs_or_is_skipped() {
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), 10 * MS);
    let far = stays_connected(&proxy);
    let near = connect(&server);
    for is_held in [false, true] {
        let held = is_held.then(|| near.lock("k").wait(LIMIT).acquire_blocking().unwrap());
        assert_eq!(runtime().block_on(locked(&far)), Ok(!is_held));
        assert_eq!(locked_sync(&far), Ok(!is_held));
        drop(held);
    }
}

/// A waiter of a process that already waits for the lock has not asked by itself, or has another
/// one's answer.
#[test]
fn behind_other_waiters_of_its_process_a_short_wait_hears_of_the_holder() {
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), 10 * MS);
    let far = stays_connected(&proxy);
    let held = connect(&server).lock("k").acquire_blocking().unwrap();
    let runtime = runtime();
    let first = runtime.spawn(far.lock("k").wait(LIMIT).acquire());
    for wait in WAITS.into_iter().filter(|wait| *wait > 0) {
        let outcome = runtime.block_on(far.lock("k").wait(wait * MS).acquire());
        assert_eq!(kind(outcome), Err(LockErrorKind::TimedOut), "{wait} ms");
    }
    drop(held);
    assert!(runtime.block_on(first).unwrap().is_ok());
}

/// When the server stops, and how long the caller waits in all.
const FROZEN: [(u32, u32); 5] = [(700, 50), (900, 850), (1500, 50), (1500, 800), (3000, 2500)];

#[test]
fn of_a_frozen_server_no_waiter_hears_that_another_has_the_lock() {
    // On a busy machine the server may be stopped too late: then it has answered the last request.
    let is_frozen_in_time = |(wait, until): (u32, u32)| {
        let server = RedisServer::start();
        let held = connect(&server).lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
        let locks = connect(&server);
        let runtime = runtime();
        let start = Instant::now();
        // The second asks only when the first has gone.
        let waiters = [(); 2].map(|()| runtime.spawn(locks.lock("k").wait(wait * MS).acquire()));
        eventually("they wait", || server.run::<u32>("ZCARD lock:k%queue") == 2);
        thread::sleep((until * MS).saturating_sub(start.elapsed()));
        server.pause();
        let in_time = start.elapsed() + 20 * MS < wait * MS;
        for waiter in waiters {
            let outcome = kind(runtime.block_on(waiter).unwrap());
            let took = start.elapsed();
            let expected = Err(LockErrorKind::Unavailable);
            assert!(!in_time || outcome == expected, "wait {wait} ms, frozen at {until} ms: {outcome:?}");
            assert!(!in_time || took < wait * MS + 2 * SECOND, "{took:?} for {wait} ms");
        }
        server.resume();
        drop(held);
        in_time
    };
    for case in FROZEN {
        eventually("the server is stopped in time", || is_frozen_in_time(case));
    }
}

/// With so many in front, it asks each ten seconds.
#[test]
fn of_a_frozen_server_a_waiter_behind_many_hears_no_more() {
    let server = RedisServer::start();
    let held = connect(&server).lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let (front, locks) = (connect(&server), connect(&server));
    let runtime = runtime();
    let in_front: Vec<_> = (0..120).map(|_| runtime.spawn(front.lock("k").wait(LIMIT).acquire())).collect();
    eventually("they wait", || server.run::<u32>("ZCARD lock:k%queue") == 120);
    let waiter = runtime.spawn(locks.lock("k").wait(2 * SECOND).acquire());
    eventually("it waits", || server.run::<u32>("ZCARD lock:k%queue") == 121);
    server.pause();
    let outcome = runtime.block_on(waiter).unwrap();
    assert_eq!(kind(outcome), Err(LockErrorKind::Unavailable));
    server.resume();
    in_front.iter().for_each(tokio::task::JoinHandle::abort);
    drop(held);
}

/// The bodies of a hundred callers that give up at once cost the server one question, and a release
/// each.
#[test]
fn callers_that_give_up_together_ask_once() {
    let server = RedisServer::start();
    let held = connect(&server).lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let locks = connect(&server);
    let runtime = runtime();
    let waiters: Vec<_> = (0..100).map(|_| runtime.spawn(locks.lock("k").wait(SECOND).acquire())).collect();
    eventually("they wait", || server.run::<u32>("ZCARD lock:k%queue") == 100);
    let before = server.client_commands();
    for waiter in waiters {
        assert_eq!(kind(runtime.block_on(waiter).unwrap()), Err(LockErrorKind::TimedOut));
    }
    eventually("they have left", || server.run::<u32>("ZCARD lock:k%queue") == 0);
    let commands = server.client_commands() - before;
    assert!(commands < 130, "{commands} commands");
    drop(held);
}

/// The server answers, but cannot save its data.
#[test]
fn a_caller_hears_why_the_server_refuses() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let (_, directory): (String, String) = server.run("CONFIG GET dir");
    std::fs::remove_dir_all(&directory).unwrap();
    let _: String = redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).query(&mut server.client()).unwrap();
    let _: redis::RedisResult<String> = server.try_run("BGSAVE");
    eventually("it takes no writes", || {
        server.try_run::<String>("SET a b").is_err_and(|error| error.code() == Some("MISCONF"))
    });
    let runtime = runtime();
    let first = runtime.spawn(locks.lock("k").wait(LIMIT).acquire());
    for wait in [0, 1, 30, 500] {
        for key in ["k", "alone"] {
            let outcome = runtime.block_on(locks.lock(key).wait(wait * MS).acquire());
            let error = outcome.map(drop).unwrap_err();
            assert!(
                matches!(&error, LockError::Unavailable { reason, .. } if reason.contains("MISCONF")),
                "{wait} ms: {error}"
            );
        }
    }
    first.abort();
}

#[test]
fn a_change_of_the_ttl_has_a_limit() {
    let mut server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(SECOND / 2).connect_blocking().unwrap();
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    server.kill();
    for ttl in [120, 30] {
        let start = Instant::now();
        let outcome = guard.extend_blocking(ttl * SECOND);
        assert_eq!(outcome.map_err(|error| error.kind()), Err(LockErrorKind::Unavailable));
        assert!(start.elapsed() < 10 * SECOND, "{:?}", start.elapsed());
        let outcome = runtime().block_on(guard.extend(ttl * SECOND));
        assert_eq!(outcome.map_err(|error| error.kind()), Err(LockErrorKind::Unavailable));
    }
    assert!(guard.is_held(), "the lease lasts");
}

#[test]
fn a_ttl_or_max_hold_below_the_round_trip_is_a_mistake_that_names_both() {
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), 40 * MS);
    let far = LockManager::connect_blocking(proxy.url()).unwrap();
    for wait in [Duration::ZERO, LIMIT] {
        let short_ttl = far.lock("k").ttl(50 * MS).max_hold(SECOND);
        let short_hold = far.lock("k").ttl(10 * SECOND).max_hold(50 * MS);
        for (request, option) in [(short_ttl, "`ttl`"), (short_hold, "`max_hold`")] {
            let start = Instant::now();
            let error = request.wait(wait).acquire_blocking().map(drop).unwrap_err();
            assert!(
                matches!(&error, LockError::Misconfigured { reason, .. }
                    if reason.contains("granted for 50 ms") && reason.contains("round trip") && reason.contains(option)),
                "{error}"
            );
            assert!(start.elapsed() < LIMIT / 2, "{:?}", start.elapsed());
        }
    }
    eventually("no key is left", || server.keys().is_empty());
}

/// The first key is freed so late that the answer about the second comes after the limit.
#[test]
fn several_keys_have_one_limit_also_far_from_the_server() {
    let server = RedisServer::start();
    let proxy = DelayProxy::to(server.port(), 100 * MS);
    let far = LockManager::connect_blocking(proxy.url()).unwrap();
    let near = connect(&server);
    let first = near.lock("m1").acquire_blocking().unwrap();
    let _second = near.lock("m2").acquire_blocking().unwrap();
    let wait = 2 * SECOND;
    let start = Instant::now();
    let call = thread::spawn(move || far.lock_all(["m1", "m2"]).wait(wait).acquire_blocking());
    eventually("the limit is near", || start.elapsed() + 150 * MS > wait);
    drop(first);
    assert_eq!(kind(call.join().unwrap()), Err(LockErrorKind::TimedOut));
    // The answer that is under way at the limit is awaited for twice as long as usual.
    assert!(start.elapsed() < wait * 3 / 2, "{:?}", start.elapsed());
    eventually("nothing else is left", || {
        let keys = server.keys();
        keys.iter().all(|key| key == "lock:m2")
    });
}

/// The error of a busy lock says for how long it is usually held: the lease of a renewed lock does
/// not show that.
#[test]
fn a_busy_caller_is_told_of_the_usual_hold_of_its_template_and_not_of_the_lease() {
    const BODY: Duration = Duration::from_millis(300);
    for cohort in [0, 8] {
        let server = RedisServer::start();
        let locks = LockManager::builder(server.url()).cohort(cohort).connect_blocking().unwrap();
        let request = |key: &str, label: &str| locks.lock(key).label(label).ttl(30 * SECOND);
        let told = |key: &str, label: &str| {
            let busy = request(key, label).acquire_blocking().unwrap_err();
            let lease = busy.holder().and_then(Holder::expires_in).unwrap();
            assert!(busy.is_busy() && lease > 20 * SECOND, "{busy}");
            busy.retry_after().unwrap()
        };
        let guard = request("a", "body").acquire_blocking().unwrap();
        assert_eq!(told("a", "body"), SECOND, "nobody has released one yet");
        drop(guard);
        // They wait for each other, and a wait is no hold.
        runtime().block_on(async {
            let bodies = (0..4).map(|_| {
                let request = request("a", "body").wait(LIMIT);
                tokio::spawn(async move { request.run_value(async |_| tokio::time::sleep(BODY).await).await })
            });
            for body in bodies.collect::<Vec<_>>() {
                body.await.unwrap().unwrap();
            }
        });
        request("a", "kept").min_hold(2 * SECOND).run_value_blocking(|_| ()).unwrap();
        let _others = ["b", "c", "d"].map(|key| request(key, "body").acquire_blocking().unwrap());
        let body = told("b", "body");
        assert!(body > BODY / 3 && body < SECOND, "a body of {BODY:?} is {body:?}");
        assert_eq!(told("c", "other"), SECOND, "nothing is known of it");
        let kept = told("d", "kept");
        assert!(kept >= 2 * SECOND && kept < 3 * SECOND, "{kept:?}");
        let short = locks.lock("e").ttl(SECOND).acquire_blocking().unwrap();
        let lease = request("e", "kept").acquire_blocking().unwrap_err().retry_after().unwrap();
        assert!(lease <= SECOND, "the lease is over then: {lease:?}");
        drop(short);
    }
}
