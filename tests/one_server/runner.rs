//! Where the engine runs: on the runtime of its callers, until that does not run it.

use std::cell::RefCell;
use std::pin::pin;
#[cfg(unix)]
use std::process::exit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use kit::{Job, Worker};
use kit::{LIMIT, RedisServer, SECOND, connect, eventually, runtime};
use redlocked::{LockError, LockGuard, LockManager, ReleaseOutcome};
use tokio::runtime::{Builder, Runtime};

/// A loaded machine stands still for a part of it.
const TTL: Duration = Duration::from_secs(3);

/// The connections of engines, which subscribe to an inbox, by their numbers.
fn connections(server: &RedisServer) -> Vec<String> {
    let clients: String = server.run("CLIENT LIST");
    let ours = clients.lines().filter(|client| client.contains(" sub=1 "));
    ours.filter_map(|client| client.split(' ').next().map(str::to_owned)).collect()
}

/// Blocks all threads of the runtime, which has so many, in the middle of a body.
fn blocked_in_a_body(runtime: &Runtime, threads: usize) {
    let server = RedisServer::start();
    let locks = runtime.block_on(LockManager::connect(server.url())).unwrap();
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
        let outcome = locks.lock("k").ttl(TTL).run_value(async |guard| {
            for _ in 1..threads {
                tokio::spawn(async { thread::sleep(TTL * 3 / 2) });
            }
            waits.send(()).unwrap();
            eventually("another caller waits", || server.keys().len() == 2);
            let value: String = server.run("GET lock:k");
            thread::sleep(TTL * 3 / 2);
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
    let locks = runtime.block_on(LockManager::connect(server.url())).unwrap();
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
    thread::sleep(TTL * 3 / 2);
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
    let locks = runtime.block_on(LockManager::connect(server.url())).unwrap();
    for _ in 0..2 {
        let guard = runtime.block_on(locks.lock("k").ttl(TTL).acquire()).unwrap();
        thread::sleep(TTL * 3 / 2);
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
            locks.lock("k").run_value(async |guard| assert!(guard.is_held())).await.unwrap();
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
    let locks = runtime.block_on(LockManager::connect(server.url())).unwrap();
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
    locks.lock("k").run_value_blocking(|guard| assert!(guard.is_held())).unwrap();
    assert!(server.keys().is_empty());
}

#[test]
fn a_runtime_without_drivers_or_with_a_clock_that_stands_still_is_served() {
    let server = RedisServer::start();
    let bare = Builder::new_current_thread().build().unwrap();
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    for runtime in [bare, paused] {
        runtime.block_on(async {
            let locks = LockManager::connect(server.url()).await.unwrap();
            let guard = locks.lock("k").ttl(TTL).acquire().await.unwrap();
            thread::sleep(TTL * 3 / 2);
            assert!(guard.is_held());
            assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
        });
    }
    runtime().block_on(async {
        let locks = LockManager::connect(server.url()).await.unwrap();
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
        let locks = LockManager::connect(server.url()).await.unwrap();
        let before = connections(&server);
        assert_eq!(before.len(), 1);
        for _ in 0..100 {
            locks.lock("k").run_value(async |_| tokio::task::yield_now().await).await.unwrap();
        }
        tokio::time::sleep(SECOND).await;
        locks.lock("k").run_value(async |_| ()).await.unwrap();
        assert_eq!(connections(&server), before);
    });
}

#[test]
fn a_blocking_thread_of_a_runtime_of_one_thread_leaves_its_engine_there() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = LockManager::connect(server.url()).await.unwrap();
        let before = connections(&server);
        for _ in 0..3 {
            let locks = locks.clone();
            let call = move || locks.lock("k").run_value_blocking(|guard| assert!(guard.is_held()));
            tokio::task::spawn_blocking(call).await.unwrap().unwrap();
        }
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
        thread::sleep(TTL * 3 / 2);
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
        let locks = LockManager::connect(server.url()).await.unwrap();
        locks.lock("k").run_value(async |_| ()).await.unwrap();
    });
    eventually("the connection is closed", || connections(&server).is_empty());
}

#[test]
fn a_loss_is_heard_of_while_the_runtime_is_blocked() -> Result<(), LockError> {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = LockManager::connect(server.url()).await?;
        let guard = locks.lock("k").ttl(TTL).acquire().await?;
        let _: String = server.run("SET lock:k thief");
        eventually("the holder knows", || !guard.is_held());
        Ok(())
    })
}

// Callers without a runtime -----------------------------------------------------------------------

#[test]
fn sync_callers_and_the_loops_own_thread_take_turns_over_one_connection() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let before = connections(&server);
    assert_eq!(before.len(), 1);
    for pause in [0, 20, 250] {
        for _ in 0..5 {
            locks.lock("k").run_value_blocking(|guard| assert!(guard.is_held())).unwrap();
            thread::sleep(Duration::from_millis(pause));
        }
    }
    let held = locks.lock("k").acquire_blocking().unwrap();
    let waiter = thread::spawn({
        let locks = locks.clone();
        move || locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap()
    });
    eventually("it waits", || locks.inspect_blocking("k").unwrap().is_some_and(|lock| lock.waiters() == 1));
    drop(held);
    waiter.join().unwrap();
    assert_eq!(connections(&server), before);
}

#[test]
fn a_sync_body_that_runs_for_long_is_renewed_and_hears_of_a_loss() {
    let server = RedisServer::start();
    let locks = connect(&server);
    locks
        .lock("short")
        .ttl(TTL)
        .run_value_blocking(|guard| {
            thread::sleep(TTL * 3 / 2);
            assert!(guard.is_held());
        })
        .unwrap();
    locks
        .lock("k")
        .ttl(1000 * SECOND)
        .run_value_blocking(|guard| {
            eventually("the server tracks the key", || {
                server.run::<String>("INFO stats").contains("tracking_total_keys:1")
            });
            let _: String = server.run("SET lock:k thief");
            eventually("the holder knows", || !guard.is_held());
        })
        .unwrap();
}

#[test]
fn of_many_sync_callers_at_once_each_is_served() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let inside = AtomicU32::new(0);
    thread::scope(|scope| {
        for number in 0..8 {
            let (locks, inside) = (&locks, &inside);
            scope.spawn(move || {
                for round in 0..50 {
                    locks.lock(format!("{number}")).run_value_blocking(|_| ()).unwrap();
                    let shared = locks.lock("shared").wait(LIMIT);
                    let others = shared.run_value_blocking(|_| {
                        let others = inside.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        others
                    });
                    assert_eq!(others, Ok(0), "{number} in round {round}");
                }
            });
        }
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_sync_caller_that_gives_up_leaves_the_loop_to_those_that_wait() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let held = other.lock("k").acquire_blocking().unwrap();
    thread::scope(|scope| {
        // The first polls the loop, the others wait for theirs.
        for wait in [SECOND / 5, LIMIT, LIMIT] {
            let request = locks.lock("k").wait(wait);
            scope.spawn(move || {
                let outcome = request.run_value_blocking(|_| ());
                assert_eq!(outcome.is_ok(), wait == LIMIT, "{outcome:?}");
            });
            // In this order: nobody outside sees which caller polls the loop.
            thread::sleep(SECOND / 20);
        }
        // For longer than the first one waits.
        thread::sleep(SECOND / 2);
        drop(held);
    });
}

/// How soon a waiter has the lock, after another caller has polled the loop and left.
fn hand_off_behind_a_caller_that_left(waits: fn(&LockManager)) -> Duration {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let held = other.lock_all(["k", "busy"]).acquire_blocking().unwrap();
    thread::scope(|scope| {
        let polls = scope.spawn(|| locks.lock("busy").wait(SECOND / 5).acquire_blocking().is_err());
        eventually("it waits", || {
            other.inspect_blocking("busy").unwrap().is_some_and(|lock| lock.waiters() == 1)
        });
        let waits = scope.spawn(|| {
            waits(&locks);
            Instant::now()
        });
        eventually("it waits", || {
            other.inspect_blocking("k").unwrap().is_some_and(|lock| lock.waiters() == 1)
        });
        assert!(polls.join().unwrap(), "the lock is busy");
        let released = Instant::now();
        drop(held);
        waits.join().unwrap().duration_since(released)
    })
}

#[test]
fn a_waiter_hears_at_once_of_its_lock_when_the_caller_that_polled_has_left() {
    let blocked = |locks: &LockManager| locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    let by_hand = |locks: &LockManager| {
        let mut call = pin!(locks.lock("k").wait(LIMIT).run_value(async |_| ()));
        let mut cx = Context::from_waker(Waker::noop());
        eventually("it is served", || call.as_mut().poll(&mut cx).is_ready());
    };
    // Unasked, the loop's own thread polls again after 100 ms. The best of several: the machine may
    // be busy.
    let soon = |waits: fn(&LockManager)| {
        (0..5).any(|_| hand_off_behind_a_caller_that_left(waits) < Duration::from_millis(70))
    };
    assert!(soon(blocked) && soon(by_hand));
}

#[test]
fn a_caller_that_does_not_block_is_served_at_once_after_one_that_did() {
    const ROUNDS: u32 = 30;
    let server = RedisServer::start();
    let locks = connect(&server);
    let mut cx = Context::from_waker(Waker::noop());
    // Unasked, the loop's own thread polls again after 100 ms. A busy machine may need several series.
    eventually("each is served in half that time", || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            locks.lock("sync").run_value_blocking(|_| ()).unwrap();
            let mut call = pin!(locks.lock("async").run_value(async |_| ()));
            eventually("it is served", || call.as_mut().poll(&mut cx).is_ready());
        }
        start.elapsed() < ROUNDS * SECOND / 20
    });
}

#[test]
fn callers_that_are_answered_at_once_leave_time_for_the_connection() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let before = connections(&server);
    let _: i32 = server.run("CLIENT KILL TYPE pubsub");
    eventually("the engine connects again", || {
        (0..100).all(|_| locks.capabilities_blocking().is_ok())
            && connections(&server).first().is_some_and(|number| *number != before[0])
    });
}

thread_local! {
    static LAST: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
}

#[test]
fn a_guard_that_ends_with_its_thread_is_released() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for is_first in [true, false] {
        let locks = locks.clone();
        thread::spawn(move || {
            if is_first {
                // What a thread has first, it loses last.
                LAST.with_borrow(|last| assert!(last.is_none()));
            }
            let guard = locks.lock("k").acquire_blocking().unwrap();
            LAST.set(Some(guard));
        })
        .join()
        .unwrap();
        assert!(server.keys().is_empty(), "a guard outside tokio waits for its release");
    }
}

#[test]
fn a_guard_that_a_panic_drops_is_released() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for _ in 0..3 {
        let locks = locks.clone();
        let panicked = thread::spawn(move || {
            let _guard = locks.lock("k").acquire_blocking().unwrap();
            std::panic::resume_unwind(Box::new("a body"));
        });
        assert!(panicked.join().is_err());
        assert!(server.keys().is_empty(), "a guard outside tokio waits for its release");
    }
}

// The end of a process ----------------------------------------------------------------------------

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
        Worker::start("runner::worker", "async", &server.url(), &[]).ends();
        eventually("the release is read", || server.keys().is_empty());
    }
}

#[cfg(not(feature = "testing"))]
mod a_clock_that_locks_in_memory_do_not_obey {
    use redlocked::{LockError, LockManager, distributed_lock};

    use super::{Builder, SECOND, runtime};
    use kit::unique;

    #[distributed_lock(key = "k", manager = locks)]
    async fn nap(locks: &LockManager) -> Result<(), LockError> {
        tokio::time::sleep(SECOND).await;
        Ok(())
    }

    fn names_the_feature(outcome: Result<(), LockError>) {
        let error = outcome.unwrap_err();
        assert!(matches!(error, LockError::Misconfigured { key: Some(_), .. }), "{error:?}");
        assert!(
            error.to_string().contains("is paused") && error.to_string().contains("feature `testing`"),
            "{error}"
        );
    }

    #[test]
    fn ends_each_async_call_with_the_name_of_the_feature() {
        let url = format!("memory://{}", unique("paused"));
        let outside = LockManager::connect_blocking(&url).unwrap();
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
            let inside = LockManager::connect(&url).await.unwrap();
            for locks in [&inside, &outside] {
                names_the_feature(nap(locks).await);
                names_the_feature(locks.lock_all(["a", "b"]).acquire().await.map(drop));
                // The clock of a blocked thread does not matter.
                locks.lock("k").acquire_blocking().unwrap().release_blocking().unwrap();
            }
        });
    }

    #[test]
    fn is_no_matter_before_it_is_paused_and_once_it_is_resumed() {
        runtime().block_on(async {
            let locks = LockManager::connect(format!("memory://{}", unique("resumed"))).await.unwrap();
            nap(&locks).await.unwrap();
            tokio::time::pause();
            names_the_feature(nap(&locks).await);
            tokio::time::resume();
            nap(&locks).await.unwrap();
        });
    }

    #[test]
    fn is_no_matter_for_a_manager_with_a_thread_of_its_own() {
        Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
            let url = format!("memory://{}", unique("own-thread"));
            let locks = LockManager::builder(url).own_thread(true).connect().await.unwrap();
            locks.lock("k").acquire().await.unwrap().release().await.unwrap();
        });
    }
}
