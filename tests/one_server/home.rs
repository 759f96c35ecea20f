//! Where the engine runs: on the runtime of its callers, until that does not run it.

#[cfg(unix)]
use std::process::exit;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use kit::{Job, Worker};
use kit::{LIMIT, RedisServer, SECOND, connect, eventually, runtime};
use redlocked::{LockError, LockGuard, LockManager, ReleaseOutcome};
use tokio::runtime::{Builder, Runtime};

const TTL: Duration = SECOND;

/// The connections of engines, which subscribe to an inbox, by their numbers.
fn connections(server: &RedisServer) -> Vec<String> {
    let clients: String = server.run("CLIENT LIST");
    let ours = clients.lines().filter(|client| client.contains(" sub=1 "));
    ours.filter_map(|client| client.split(' ').next().map(str::to_owned)).collect()
}

/// Blocks all threads of the runtime, which has so many, in the middle of a body.
fn blocked_in_a_body(runtime: &Runtime, threads: usize) {
    let server = RedisServer::start();
    let locks = runtime.block_on(LockManager::connect(&server.url())).unwrap();
    let other = connect(&server);
    let (waits, waiting) = mpsc::channel();
    let next = thread::spawn({
        let request = other.lock("k").wait(LIMIT);
        move || {
            waiting.recv().unwrap();
            request.acquire_blocking().unwrap()
        }
    });
    runtime.block_on(async {
        let outcome = locks.lock("k").ttl(TTL).run(async |guard| {
            for _ in 1..threads {
                tokio::spawn(async { thread::sleep(3 * TTL) });
            }
            waits.send(()).unwrap();
            eventually("another caller waits", || server.keys().len() == 2);
            let value: String = server.run("GET lock:k");
            thread::sleep(3 * TTL);
            assert!(guard.is_held());
            let still: String = server.run("GET lock:k");
            assert_eq!(still.trim_end_matches('!'), value.trim_end_matches('!'), "no waiter got the lock");
        });
        outcome.await.unwrap();
    });
    drop(next.join().unwrap());
    eventually("released", || server.keys().is_empty());
}

#[test]
fn a_body_that_blocks_its_runtime_keeps_its_lock() {
    blocked_in_a_body(&runtime(), 1);
}

#[test]
fn a_body_that_blocks_every_worker_keeps_its_lock() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::spawn(async {}).await.unwrap();
    });
    thread::scope(|scope| {
        scope.spawn(|| blocked_in_a_body(&runtime, 3)).join().unwrap();
    });
}

#[test]
fn a_dropped_runtime_loses_no_lock_and_leaves_no_key() {
    let server = RedisServer::start();
    let probe = connect(&server);
    let busy = probe.lock("waited for").acquire_blocking().unwrap();
    let runtime = runtime();
    let locks = runtime.block_on(LockManager::connect(&server.url())).unwrap();
    let guard = runtime.block_on(locks.lock("held").ttl(TTL).acquire()).unwrap();
    runtime.block_on(async {
        tokio::spawn(locks.lock("waited for").wait_forever().acquire());
        while probe.inspect("waited for").await.unwrap().is_some_and(|lock| lock.waiters() == 0) {}
        for key in 0..100 {
            tokio::spawn(locks.lock(format!("half {key}")).wait(LIMIT).acquire());
        }
        tokio::task::yield_now().await;
    });
    drop(runtime);
    thread::sleep(3 * TTL);
    assert!(guard.is_held() && probe.lock("held").acquire_blocking().unwrap_err().is_busy());
    assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
    drop(busy);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn guards_that_a_runtime_drops_are_released() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let runtime = runtime();
    runtime.block_on(async {
        for key in ["a", "b"] {
            let guard = locks.lock(key).acquire().await.unwrap();
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(guard);
            });
        }
        tokio::task::yield_now().await;
    });
    drop(runtime);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_guard_that_is_held_between_two_uses_of_its_runtime_is_renewed_and_released() {
    let server = RedisServer::start();
    let runtime = runtime();
    let locks = runtime.block_on(LockManager::connect(&server.url())).unwrap();
    for _ in 0..2 {
        let guard = runtime.block_on(locks.lock("k").ttl(TTL).acquire()).unwrap();
        thread::sleep(2 * TTL);
        assert!(guard.is_held());
        drop(guard);
        assert!(server.keys().is_empty(), "a guard outside tokio waits for its release");
    }
}

#[test]
fn one_manager_serves_ten_runtimes_one_after_the_other() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for number in 0..10 {
        let guard: LockGuard = runtime().block_on(async {
            locks.lock("k").run(async |guard| assert!(guard.is_held())).await.unwrap();
            locks.lock(format!("{number}")).acquire().await.unwrap()
        });
        assert!(guard.is_held());
        drop(guard);
    }
    assert!(server.keys().is_empty());
}

#[test]
fn a_caller_without_a_runtime_is_served_by_an_engine_on_a_runtime() {
    let server = RedisServer::start();
    let runtime = runtime();
    let locks = runtime.block_on(LockManager::connect(&server.url())).unwrap();
    let mut call = locks.lock("k").acquire();
    let mut cx = Context::from_waker(Waker::noop());
    let mut guard = None;
    eventually("a call that is polled by hand has the lock", || {
        if guard.is_none()
            && let Poll::Ready(outcome) = std::pin::Pin::new(&mut call).poll(&mut cx)
        {
            guard = Some(outcome.unwrap());
        }
        guard.is_some()
    });
    drop(guard);
    locks.lock("k").run_blocking(|guard| assert!(guard.is_held())).unwrap();
    assert!(server.keys().is_empty());
}

#[test]
fn a_runtime_without_drivers_or_with_a_clock_that_stands_still_is_served() {
    let server = RedisServer::start();
    let bare = Builder::new_current_thread().build().unwrap();
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for runtime in [bare, paused] {
        runtime.block_on(async {
            let locks = LockManager::connect(&server.url()).await.unwrap();
            let guard = locks.lock("k").ttl(TTL).acquire().await.unwrap();
            thread::sleep(2 * TTL);
            assert!(guard.is_held());
            assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
        });
    }
    runtime().block_on(async {
        let locks = LockManager::connect(&server.url()).await.unwrap();
        let guard = locks.lock("k").ttl(TTL).acquire().await.unwrap();
        tokio::time::pause();
        tokio::time::sleep(100 * TTL).await;
        assert!(guard.is_held(), "a lease does not follow the clock of tests");
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    });
}

#[test]
fn a_runtime_that_runs_keeps_its_engine_and_its_connection() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = LockManager::connect(&server.url()).await.unwrap();
        let before = connections(&server);
        assert_eq!(before.len(), 1);
        for _ in 0..100 {
            locks.lock("k").run(async |_| tokio::task::yield_now().await).await.unwrap();
        }
        tokio::time::sleep(SECOND).await;
        locks.lock("k").run(async |_| ()).await.unwrap();
        assert_eq!(connections(&server), before);
    });
}

#[test]
fn an_engine_with_a_thread_of_its_own_moves_nowhere() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = LockManager::builder(server.url()).own_thread(true).connect().await.unwrap();
        let before = connections(&server);
        assert_eq!(before.len(), 1);
        let guard = locks.lock("k").ttl(TTL).acquire().await.unwrap();
        thread::sleep(2 * TTL);
        assert!(guard.is_held());
        drop(guard);
        eventually("released", || server.keys().is_empty());
        assert_eq!(connections(&server), before);
    });
}

#[test]
fn a_manager_that_is_dropped_with_its_runtime_leaves_no_connection() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = LockManager::connect(&server.url()).await.unwrap();
        locks.lock("k").run(async |_| ()).await.unwrap();
    });
    eventually("the connection is closed", || connections(&server).is_empty());
}

#[test]
fn a_loss_is_heard_of_while_the_runtime_is_blocked() -> Result<(), LockError> {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = LockManager::connect(&server.url()).await?;
        let guard = locks.lock("k").ttl(TTL).acquire().await?;
        let _: String = server.run("SET lock:k thief");
        eventually("the holder knows", || !guard.is_held());
        Ok(())
    })
}

// The end of a process --------------------------------------------------------------------------------------

#[cfg(unix)]
#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    runtime().block_on(async {
        let locks = LockManager::connect(&job.url).await.unwrap();
        let guard = locks.lock("k").ttl(30 * LIMIT).acquire().await.unwrap();
        drop(guard);
    });
    exit(0);
}

#[cfg(unix)]
#[test]
fn an_async_program_that_drops_its_guard_and_ends_leaves_no_lock() {
    let server = RedisServer::start();
    for _ in 0..5 {
        Worker::start("home::worker", "async", &server.url(), &[]).ends();
        eventually("the release is read", || server.keys().is_empty());
    }
}
