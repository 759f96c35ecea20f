//! How a hold ends: the reason of a loss, and the key that is left when the holder or its process
//! ends.

#[cfg(unix)]
use std::process::exit;
use std::thread;
use std::time::Instant;

use kit::{DelayProxy, LIMIT, Proxy, RedisServer, SECOND, connect, connect_to, eventually};
#[cfg(unix)]
use kit::{Job, Worker, listen, say};
use redlocked::{LockError, LockGuard, LockManager, LostReason};

/// The guard gives the same reason in every method.
#[track_caller]
fn assert_lost(guard: &LockGuard, expected: LostReason) {
    eventually("the lock is lost", || !guard.is_held());
    assert_eq!(guard.lost_reason(), Some(expected));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(guard.lost()), expected);
    let error = guard.extend_blocking(SECOND).unwrap_err();
    assert!(matches!(error, LockError::Lost { reason, .. } if reason == expected), "{error:?}");
    assert!(error.to_string().ends_with(&format!("was lost: {expected}")), "{error}");
}

#[test]
fn a_watcher_of_a_lock_does_not_keep_it() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let runtime = kit::runtime();
    for keys in [&["k"][..], &["k", "l"]] {
        let guard = locks.lock_all(keys.iter().copied()).acquire_blocking().unwrap();
        let watcher = runtime.spawn(guard.lost());
        drop(guard);
        let again = locks.lock_all(keys.iter().copied()).acquire_blocking().unwrap();
        assert_eq!(runtime.block_on(watcher).unwrap(), LostReason::Released);

        let watcher = runtime.spawn(again.lost());
        let _: String = server.run("SET lock:k thief PX 60000");
        assert_eq!(runtime.block_on(watcher).unwrap(), LostReason::KeyChanged);
        let _: u32 = server.run("DEL lock:k");
    }
}

#[test]
fn a_lost_lock_says_why() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = locks.lock("k").ttl(SECOND / 10);
    let take = |request: &redlocked::LockRequest| request.clone().wait(LIMIT).acquire_blocking().unwrap();

    let guard = take(&request.clone().renew(false));
    assert_eq!(guard.lost_reason(), None);
    assert_lost(&guard, LostReason::Expired);

    assert_lost(&take(&request.clone().max_hold(SECOND / 5)), LostReason::MaxHold);

    let guard = take(&locks.lock("k"));
    eventually("the server tracks the key", || {
        let _: String = server.run("SET lock:k thief PX 60000");
        !guard.is_held()
    });
    assert_lost(&guard, LostReason::KeyChanged);
    let _: i32 = server.run("DEL lock:k");

    let guard = take(&request);
    server.pause();
    assert_lost(&guard, LostReason::Expired);
    server.resume();
}

#[test]
fn the_reason_reaches_the_caller_of_a_body_that_is_stopped() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pending = async |_: &LockGuard| std::future::pending::<()>().await;
        let stuck = locks.lock("k").max_hold(SECOND / 10).run_value(pending).await.unwrap_err();
        assert!(matches!(stuck, LockError::Lost { reason: LostReason::MaxHold, .. }), "{stuck:?}");
        let several =
            locks.lock_all(["a", "b"]).ttl(SECOND / 10).renew(false).run_value(pending).await.unwrap_err();
        assert!(matches!(several, LockError::Lost { reason: LostReason::Expired, .. }), "{several:?}");
    });
}

#[test]
fn a_guard_that_sync_code_drops_is_released_when_that_returns() {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), SECOND / 20);
    let locks = connect_to(&far.url());
    drop(locks.lock("k").acquire_blocking().unwrap());
    assert!(server.keys().is_empty());
    drop(locks.lock_all(["a", "b", "c"]).acquire_blocking().unwrap());
    assert!(server.keys().is_empty());
    let panics = thread::spawn({
        let locks = locks.clone();
        move || {
            let _guard = locks.lock("k").acquire_blocking().unwrap();
            std::panic::resume_unwind(Box::new("as planned"));
        }
    });
    assert!(panics.join().is_err());
    assert!(server.keys().is_empty());
}

#[test]
fn a_guard_that_is_dropped_in_tokio_or_without_a_connection_holds_up_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(3 * SECOND).connect_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let guards = ["a", "b"].map(|key| locks.lock(key).ttl(LIMIT).acquire_blocking().unwrap());
    let [in_tokio, outside] = guards;
    server.pause();
    let start = Instant::now();
    runtime.block_on(async { drop(in_tokio) });
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    server.resume();
    proxy.refuse(true);
    proxy.cut();
    eventually("the manager knows the outage", || locks.inspect_blocking("a").is_err());
    let start = Instant::now();
    drop(outside);
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    proxy.refuse(false);
    eventually("the locks are released", || server.keys().is_empty());
}

// Keys that a process leaves when it ends ---------------------------------------------------------

#[cfg(unix)]
#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    listen(drop, || exit(0));
    let locks = connect_to(&job.url);
    match job.task.as_str() {
        "sync" => {
            let guard = locks.lock("k").ttl(30 * LIMIT).acquire_blocking().unwrap();
            drop(guard);
        }
        "background" => {
            let request = locks.lock("k").ttl(30 * LIMIT).release_in_background(true);
            request.run_value_blocking(|_| ()).unwrap();
        }
        "handlers" => handlers(&locks),
        "stuck" => stuck(&locks),
        "memory" => no_thread(),
        other => panic!("no task is called {other}"),
    }
    // As at the end of `main`: the process waits for no other thread.
    exit(0);
}

/// A service that receives a signal to stop while its handlers hold locks.
#[cfg(unix)]
fn handlers(locks: &LockManager) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (inside, mut entered) = tokio::sync::mpsc::unbounded_channel();
        for handler in 0..50 {
            let (request, inside) = (locks.lock(format!("{handler}")).ttl(30 * LIMIT), inside.clone());
            tokio::spawn(async move {
                let hangs = request.run_value(async |_| {
                    inside.send(()).unwrap();
                    std::future::pending::<()>().await;
                });
                hangs.await
            });
        }
        for _ in 0..50 {
            entered.recv().await.unwrap();
        }
        let start = Instant::now();
        let error = locks.shutdown(SECOND / 5).await.unwrap_err();
        assert!(start.elapsed() < LIMIT / 2);
        let LockError::ShutdownIncomplete { stopped, unreleased, .. } = error else { panic!("{error:?}") };
        say("shut", &[stopped as u64, unreleased as u64]);
    });
}

/// A thread that holds the lock and does not return.
#[cfg(unix)]
fn stuck(locks: &LockManager) {
    let (inside, entered) = std::sync::mpsc::channel();
    let request = locks.lock("k").ttl(8 * SECOND);
    thread::spawn(move || {
        request.run_value_blocking(|guard| {
            inside.send(()).unwrap();
            eventually("the lock is lost", || guard.lost_reason() == Some(LostReason::ManagerClosed));
            say("lost", &[]);
            thread::sleep(10 * LIMIT);
        })
    });
    entered.recv().unwrap();
    let error = locks.shutdown_blocking(SECOND / 10).unwrap_err();
    let LockError::ShutdownIncomplete { stopped, unreleased, .. } = error else { panic!("{error:?}") };
    say("shut", &[stopped as u64, unreleased as u64]);
}

/// Inside a runtime, without memory for another thread.
#[cfg(unix)]
fn no_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let limit = rustix::process::Rlimit { current: Some(pages * 4096 + 1_500_000), maximum: None };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
        let error = LockManager::builder("memory://").own_thread(true).connect_lazy().map(drop).unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    });
    say("refused", &[]);
}

#[cfg(unix)]
#[test]
fn a_sync_program_that_drops_its_guard_and_ends_leaves_no_lock() {
    let server = RedisServer::start();
    for _ in 0..5 {
        Worker::start("ending::worker", "sync", &server.url(), &[]).ends();
        assert!(server.keys().is_empty(), "{:?}", server.keys());
    }
}

#[cfg(unix)]
#[test]
fn a_process_that_ends_has_released_in_the_background() {
    let server = RedisServer::start();
    for _ in 0..5 {
        Worker::start("ending::worker", "background", &server.url(), &[]).ends();
        // What the process has written may arrive after its end.
        eventually("no key is left", || server.keys().is_empty());
    }
}

#[cfg(unix)]
#[test]
fn a_service_that_shuts_down_with_handlers_inside_leaves_no_lock() {
    let server = RedisServer::start();
    let mut worker = Worker::start("ending::worker", "handlers", &server.url(), &[]);
    assert_eq!(worker.says("shut"), [50, 0], "all handlers are stopped, and all locks are released");
    worker.ends();
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

#[cfg(unix)]
#[test]
fn a_sync_body_that_is_inside_at_the_shutdown_is_told_and_keeps_its_key_until_that_expires() {
    let server = RedisServer::start();
    let mut worker = Worker::start("ending::worker", "stuck", &server.url(), &[]);
    worker.says("lost");
    assert_eq!(worker.says("shut"), [1, 1]);
    worker.ends();
    assert_eq!(server.keys(), ["lock:k"], "no other caller may enter while the stuck thread holds the lock");
    eventually("the key expires", || server.keys().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_manager_that_cannot_have_a_thread_is_an_error() {
    let mut worker = Worker::start("ending::worker", "memory", "memory://", &[]);
    worker.says("refused");
    worker.ends();
}
