//! A lock that no other caller wants costs the server no script, nor does its fencing token.

use std::sync::Mutex;
use std::thread;

use kit::{LIMIT, Proxy, RedisServer, SECOND, StallingProxy, connect, eventually, runtime};
use redlocked::{LockError, LockGuard, LockManager, distributed_lock};
use tokio::runtime::Builder;

#[distributed_lock(key = "k", ttl = "60s", wait = "20s", manager = locks)]
async fn locked(locks: &LockManager) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "k", ttl = "60s", wait = "20s", manager = locks)]
fn locked_blocking(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

/// A manager that has sent its scripts.
fn ready(server: &RedisServer) -> LockManager {
    let locks = connect(server);
    drop(locks.lock("first").acquire_blocking().unwrap());
    let guard = locks.lock("first").acquire_blocking().unwrap();
    let next = locks.lock("first").wait(LIMIT);
    let next = thread::spawn(move || next.acquire_blocking().map(drop).unwrap());
    eventually("a waiter is queued", || server.run::<u32>("ZCARD lock:first%queue") == 1);
    drop(guard);
    next.join().unwrap();
    eventually("no key is left", || server.keys().is_empty());
    let _: String = server.run("CONFIG RESETSTAT");
    locks
}

/// How often the server has executed a command, in scripts as well.
pub(super) fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats: String = server.run("INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Valkey 9.0 and Redis 8.4 have a command that compares and deletes.
fn deletes_natively(server: &RedisServer) -> bool {
    ["DELIFEQ none x", "DELEX none IFEQ x"].iter().any(|command| server.try_run::<u32>(command).is_ok())
}

#[test]
fn an_uncontended_call_is_a_set_and_a_delete() {
    const CALLS: u64 = 50;
    let (server, runtime) = (RedisServer::start(), runtime());
    let native = deletes_natively(&server);
    let locks = ready(&server);
    let costs = |calls_it: &dyn Fn()| {
        // The engine may move to the caller's runtime first, over a new connection.
        calls_it();
        let _: String = server.run("CONFIG RESETSTAT");
        calls_it();
        let scripts = if native { 0 } else { CALLS };
        [calls(&server, "set"), calls(&server, "incr"), calls(&server, "evalsha"), calls(&server, "eval")]
            == [CALLS, 0, scripts, 0]
            && calls(&server, "delifeq") + calls(&server, "delex") == CALLS - scripts
    };
    eventually("async calls cost no more", || {
        costs(&|| {
            runtime.block_on(async {
                for _ in 0..CALLS {
                    locked(&locks).await.unwrap();
                }
            });
        })
    });
    eventually("sync calls cost no more", || {
        costs(&|| (0..CALLS).for_each(|_| locked_blocking(&locks).unwrap()))
    });
    assert_eq!(server.keys(), [""; 0]);
}

/// So many callers of one runtime ask at once, each for a lock of its own: their requests share a
/// batch, whose first one carries the floor.
async fn fences(locks: &LockManager, callers: usize) -> Vec<Result<u64, LockError>> {
    let call = |number| {
        let locks = locks.clone();
        tokio::spawn(async move {
            locks.lock(format!("k:{number}")).run_value(async |guard| guard.fencing_token()).await
        })
    };
    let mut fences = Vec::new();
    for task in (0..callers).map(call).collect::<Vec<_>>() {
        fences.push(task.await.unwrap());
    }
    fences
}

#[test]
fn a_fencing_token_costs_a_number_and_a_look() {
    const CALLERS: usize = 64;
    let (server, runtime) = (RedisServer::start(), runtime());
    let locks = ready(&server);
    let native = deletes_natively(&server);
    let mut last = 0;
    eventually("fenced calls run few scripts", || {
        runtime.block_on(fences(&locks, CALLERS));
        let _: String = server.run("CONFIG RESETSTAT");
        for fence in runtime.block_on(fences(&locks, CALLERS)) {
            let fence = fence.unwrap();
            assert!(last < fence, "{last}, {fence}");
            last = fence;
        }
        let called = |command| usize::try_from(calls(&server, command)).unwrap();
        let releases = if native { 0 } else { CALLERS };
        // Where the floor is due, a script draws the number of the first of a batch, and calls INCR.
        let scripts = called("evalsha").saturating_sub(releases);
        // A release by a script looks, too.
        scripts <= 4
            && [called("set"), called("incr"), called("getrange")] == [CALLERS, CALLERS, CALLERS + releases]
    });
    assert_eq!(server.keys(), [""; 0]);
}

/// The commands from here on reach the server late.
const BEFORE_THE_NUMBER: &str = "lock:%clock\r\n*4\r\n$8\r\nGETRANGE\r\n$8\r\nlock:k:1\r\n";

#[test]
fn who_loses_the_lock_before_the_number_is_drawn_has_no_larger_one_than_the_next_holder() {
    for is_released in [false, true] {
        let server = RedisServer::start();
        let proxy = StallingProxy::to(server.port(), BEFORE_THE_NUMBER);
        proxy.open();
        let other = connect(&server);
        thread::scope(|scope| {
            let late = scope.spawn(|| {
                let runtime = runtime();
                runtime.block_on(async {
                    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect().await.unwrap();
                    fences(&locks, 2).await
                })
            });
            eventually("it has taken the lock", || proxy.stalls() && server.run("EXISTS lock:k:1"));
            assert!(other.force_release_blocking("k:1").unwrap().is_some());
            let guard = other.lock("k:1").acquire_blocking().unwrap();
            let fence = guard.fencing_token();
            let _still_held = (!is_released).then_some(guard);
            proxy.go_on();
            let late = late.join().unwrap();
            assert!(late[0].is_ok(), "{late:?}");
            match &late[1] {
                Ok(larger) => assert!(is_released && *larger > fence, "{larger}, {fence}"),
                Err(error) => assert!(!is_released && error.is_busy(), "{error}"),
            }
        });
        eventually("no lock is left", || server.keys().is_empty());
    }
}

#[test]
fn a_lock_whose_number_is_refused_is_given_back() {
    let server = RedisServer::start();
    let locks = ready(&server);
    for (breaks, mends) in [
        ("ACL SETUSER default -incr", "ACL SETUSER default +incr"),
        ("LPUSH lock:%clock it", "DEL lock:%clock"),
        ("SET lock:%clock 9223372036854775807", "DEL lock:%clock"),
    ] {
        let runtime = runtime();
        assert!(runtime.block_on(fences(&locks, 8)).iter().all(Result::is_ok));
        let _: String = server.run("DEL lock:%clock");
        let _ = server.try_run::<redis::Value>(breaks);
        let refused = runtime.block_on(fences(&locks, 8));
        assert!(
            refused.iter().all(|outcome| matches!(outcome, Err(LockError::Misconfigured { .. }))),
            "{breaks}: {refused:?}"
        );
        eventually("no lock is left", || server.keys().is_empty());
        let _ = server.try_run::<redis::Value>(mends);
        // A connection that has begun meanwhile was refused, too.
        eventually("all is well again", || runtime.block_on(fences(&locks, 8)).iter().all(Result::is_ok));
    }
}

#[test]
fn who_waits_for_ever_holds_no_lock_whose_number_is_refused() {
    let server = RedisServer::start();
    let locks = ready(&server);
    runtime().block_on(async {
        assert!(fences(&locks, 8).await.iter().all(Result::is_ok));
        let _: String = server.run("ACL SETUSER default -incr");
        // The first carries the floor, and those behind it ask without a script.
        let calls: Vec<_> = (0..8)
            .map(|number| {
                let request = locks.lock(format!("k:{number}")).ttl(10 * LIMIT).wait_forever();
                tokio::spawn(request.run_value(async |guard| guard.fencing_token()))
            })
            .collect();
        tokio::time::sleep(SECOND / 2).await;
        assert!(calls.iter().all(|call| !call.is_finished()));
        // Each asks again and again, and has nothing in between.
        eventually("no lock is left", || server.keys().is_empty());
        for _ in 0..20 {
            assert_eq!(server.keys(), [""; 0]);
            tokio::time::sleep(SECOND / 50).await;
        }
        let _: String = server.run("ACL SETUSER default +incr");
        for call in calls {
            assert!(call.await.unwrap().unwrap() > 0);
        }
        assert_eq!(server.keys(), [""; 0]);
    });
}

#[test]
fn numbers_grow_although_the_server_forgets_its_clock_or_gets_older_data() {
    let server = RedisServer::start();
    let (locks, runtime) = (ready(&server), runtime());
    let mut last = 0;
    for loss in ["FLUSHALL", "SET lock:%clock 1795000000000000", "DEL lock:%clock"] {
        for _ in 0..20 {
            let mut numbers: Vec<_> =
                runtime.block_on(fences(&locks, 16)).into_iter().map(Result::unwrap).collect();
            numbers.sort_unstable();
            assert!(last < numbers[0] && numbers.is_sorted_by(|a, b| a < b), "{loss}: {last}, {numbers:?}");
            last = *numbers.last().unwrap();
            // Data that are younger than this go unnoticed.
            thread::sleep(SECOND / 20);
            let _: String = server.try_run(loss).unwrap_or_default();
        }
    }
}

#[test]
fn a_guard_that_is_seen_has_a_fencing_token() {
    let server = RedisServer::start();
    let locks = ready(&server);
    let first = locks.lock("k").run_value_blocking(LockGuard::fencing_token).unwrap();
    locked_blocking(&locks).unwrap();
    let second = locks.lock("k").acquire_blocking().unwrap().fencing_token();
    assert!(0 < first && first < second, "{first}, {second}");
    assert_eq!(calls(&server, "incr"), 2);
}

#[distributed_lock(key = "k", ttl = "60s", manager = locks)]
fn around_blocking(locks: &LockManager) -> Result<u64, LockError> {
    locks.lock("k").reentrant(true).run_value_blocking(LockGuard::fencing_token)
}

#[distributed_lock(key = "k", ttl = "60s", manager = locks)]
async fn around(locks: &LockManager) -> Result<[u64; 2], LockError> {
    let inner = || locks.lock("k").reentrant(true).run_value(async |guard| guard.fencing_token());
    Ok([inner().await?, inner().await?])
}

#[test]
fn a_nested_call_that_shows_the_fencing_token_draws_it() {
    let server = RedisServer::start();
    for locks in [ready(&server), LockManager::connect_blocking("memory://direct-nested").unwrap()] {
        let before = locks.lock("k").run_value_blocking(LockGuard::fencing_token).unwrap();
        let [first, again] = runtime().block_on(around(&locks)).unwrap();
        // It is above all others also when the server has forgotten its clock.
        let _: String = server.run("FLUSHALL");
        let second = around_blocking(&locks).unwrap();
        let after = locks.lock("k").run_value_blocking(LockGuard::fencing_token).unwrap();
        assert_eq!(first, again);
        assert!(before < first && first < second && second < after, "{before}, {first}, {second}, {after}");
    }
}

#[test]
fn a_hand_over_to_a_waiter_that_draws_none_costs_none() {
    let server = RedisServer::start();
    let locks = ready(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let (one, two) = (locks.clone(), connect(&server));
    let unfenced = thread::spawn(move || locked_blocking(&one).unwrap());
    eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
    let fenced = thread::spawn(move || two.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    eventually("both are queued", || server.run::<u32>("ZCARD lock:k%queue") == 2);
    let [first, second]: [String; 2] =
        server.run::<Vec<String>>("ZRANGE lock:k%queue 0 -1").try_into().unwrap();
    assert!(first.ends_with("|unfenced") && !second.ends_with("|unfenced"));
    // Above the floor of the requests however long the waiters took: a clock below it is counted
    // once more when it is raised.
    let before = guard.fencing_token() + 60_000_000;
    let _: String = server.run(&format!("SET lock:%clock {before}"));
    let _: String = server.run("CONFIG RESETSTAT");
    drop(guard);
    unfenced.join().unwrap();
    assert!(fenced.join().unwrap().fencing_token() > before);
    assert_eq!(calls(&server, "incr"), 1);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_waiter_that_draws_none_leaves_the_queue() {
    let server = RedisServer::start();
    let locks = ready(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    runtime().block_on(async {
        let call = tokio::time::timeout(SECOND / 2, locked(&locks));
        assert!(call.await.is_err());
    });
    eventually("the waiter has left", || server.keys() == ["lock:k"]);
    drop(guard);
}

#[test]
fn a_contended_call_costs_no_more_commands_than_three() {
    const ROUNDS: u32 = 40;
    for (callers, processes) in [(2, 1), (2, 2), (20, 1), (20, 10)] {
        let server = RedisServer::start();
        let managers: Vec<_> = (0..processes).map(|_| connect(&server)).collect();
        let runtime = runtime();
        for locks in &managers {
            runtime.block_on(locked(locks)).unwrap();
        }
        let requests = server.requests();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..callers)
                .map(|number| {
                    let locks = managers[number as usize % managers.len()].clone();
                    tokio::spawn(async move {
                        for _ in 0..ROUNDS {
                            locked(&locks).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        eventually("no key is left", || server.keys().is_empty());
        let commands = requests.count();
        assert!(
            10 * commands <= 31 * u64::from(ROUNDS * callers),
            "{commands} with {callers} callers in {processes} processes"
        );
    }
}

#[distributed_lock(key = "k:{number}", ttl = "60s", wait = "20s", manager = locks)]
async fn locked_apart(locks: &LockManager, number: usize) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[test]
fn callers_of_one_runtime_share_writes() {
    const CALLERS: usize = 64;
    const ROUNDS: usize = 100;
    let worker = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for runtime in [runtime(), worker] {
        let server = RedisServer::start();
        let locks = connect(&server);
        let call_all = async || {
            let call = |number| {
                let locks = locks.clone();
                tokio::spawn(async move {
                    for _ in 0..ROUNDS {
                        locked_apart(&locks, number).await.unwrap();
                    }
                })
            };
            for task in (0..CALLERS).map(call).collect::<Vec<_>>() {
                task.await.unwrap();
            }
        };
        runtime.block_on(call_all());
        let _: String = server.run("CONFIG RESETSTAT");
        runtime.block_on(call_all());
        let stats: String = server.run("INFO stats");
        let reads = stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
        let reads = reads.unwrap().parse::<u32>().unwrap();
        let commands = u32::try_from(2 * CALLERS * ROUNDS).unwrap();
        assert!(reads * 3 < commands, "{reads} reads for {commands} commands");
    }
}

#[distributed_lock(key = "k", constant_key, ttl = "60s", wait = "20s", manager = locks)]
fn noted(locks: &LockManager, order: &Mutex<Vec<&'static str>>) -> Result<(), LockError> {
    order.lock().unwrap().push("refused");
    Ok(())
}

/// A direct request joins no queue. Who takes the lock before the next request arrives has passed
/// the caller, and nobody after that.
#[test]
fn a_refused_caller_is_passed_only_until_its_next_request_arrives() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let refused = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    let [first, passes, behind] = [(); 3].map(|()| connect(&server));
    let order = Mutex::new(Vec::new());
    let guard = first.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    thread::scope(|scope| {
        proxy.hold_replies(true);
        let before = calls(&server, "set");
        scope.spawn(|| noted(&refused, &order).unwrap());
        eventually("it has asked directly", || calls(&server, "set") > before);
        guard.release_blocking().unwrap();
        let guard = passes.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
        proxy.hold_replies(false);
        eventually("it has joined the queue", || server.run::<u32>("ZCARD lock:k%queue") == 1);
        let behind = behind.lock("k").wait(LIMIT);
        scope.spawn(|| behind.run_value_blocking(|_| order.lock().unwrap().push("behind")).unwrap());
        eventually("another one is behind it", || server.run::<u32>("ZCARD lock:k%queue") == 2);
        drop(guard);
    });
    assert_eq!(*order.lock().unwrap(), ["refused", "behind"]);
}
