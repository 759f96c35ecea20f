//! `memory://` on the clock of a tokio runtime that is paused: time passes when the test moves it,
//! or when the runtime is idle, and takes no time.

use std::future::pending;
use std::thread;
use std::time::{Duration, Instant};

use kit::{RedisServer, SECOND, eventually, runtime, unique};
use redlocked::{LockError, LockGuard, LockManager, LostReason, distributed_lock};
use tokio::runtime::Runtime;
use tokio::time::{advance, sleep};

const HOUR: Duration = Duration::from_secs(3600);

async fn manager() -> LockManager {
    LockManager::connect(format!("memory://{}", unique("paused"))).await.unwrap()
}

fn paused_runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Two managers of one node.
async fn two() -> (LockManager, LockManager) {
    let url = format!("memory://{}", unique("paused"));
    (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_lock_without_renewal_expires_when_the_clock_is_advanced() {
    let (locks, other) = two().await;
    let guard = locks.lock("k").renew(false).acquire().await.unwrap();
    advance(29 * SECOND).await;
    assert!(guard.is_held() && other.lock("k").acquire().await.unwrap_err().is_busy());
    advance(2 * SECOND).await;
    assert!(!guard.is_held());
    assert_eq!(guard.lost().await, LostReason::Expired);
    let next = other.lock("k").acquire().await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_is_a_frozen_process() {
    let (locks, other) = two().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    advance(31 * SECOND).await;
    assert_eq!(guard.lost().await, LostReason::Expired);
    drop(other.lock("k").acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_while_time_passes() {
    let start = Instant::now();
    let (locks, other) = two().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    sleep(HOUR).await;
    assert!(guard.is_held() && other.lock("k").acquire().await.unwrap_err().is_busy());
    drop(guard);
    drop(other.lock("k").acquire().await.unwrap());
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_body_longer_than_its_ttl_keeps_the_lock() {
    let locks = manager().await;
    let (begun, start) = (tokio::time::Instant::now(), Instant::now());
    locks
        .lock("k")
        .run_value(async |guard| {
            sleep(10 * HOUR).await;
            assert!(guard.is_held());
        })
        .await
        .unwrap();
    assert!(begun.elapsed() >= 10 * HOUR && start.elapsed() < 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_wait_times_out_in_no_time() {
    let (locks, other) = two().await;
    let _held = other.lock("k").acquire().await.unwrap();
    let (begun, start) = (tokio::time::Instant::now(), Instant::now());
    let error = locks.lock("k").wait(5 * SECOND).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { waited, .. } if waited >= 5 * SECOND), "{error:?}");
    assert!(begun.elapsed() >= 5 * SECOND && begun.elapsed() < 6 * SECOND, "{:?}", begun.elapsed());
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_that_expires() {
    let (locks, other) = two().await;
    let _held = locks.lock("k").renew(false).acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    drop(other.lock("k").wait(60 * SECOND).acquire().await.unwrap());
    let waited = begun.elapsed();
    assert!(waited >= 29 * SECOND && waited < 32 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_ends_at_its_max_hold() {
    let locks = manager().await;
    let begun = tokio::time::Instant::now();
    let stuck = locks.lock("k").max_hold(HOUR).run_value(async |_| pending::<()>().await).await;
    assert!(matches!(stuck, Err(LockError::Lost { reason: LostReason::MaxHold, .. })), "{stuck:?}");
    assert!(begun.elapsed() >= HOUR && begun.elapsed() < HOUR + SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_min_hold_keeps_the_key() {
    let (locks, other) = two().await;
    locks.lock("k").min_hold(HOUR).run_value(async |_| ()).await.unwrap();
    sleep(3599 * SECOND).await;
    assert!(other.lock("k").acquire().await.unwrap_err().is_busy());
    sleep(2 * SECOND).await;
    drop(other.lock("k").acquire().await.unwrap());
}

#[distributed_lock(key = "report", constant_key, ttl = "30s", wait = "5s", manager = locks)]
async fn report(locks: &LockManager, takes: Duration) -> Result<Duration, LockError> {
    sleep(takes).await;
    Ok(takes)
}

#[tokio::test(start_paused = true)]
async fn an_annotated_function_follows_the_clock() {
    let (locks, other) = two().await;
    assert_eq!(report(&locks, HOUR).await, Ok(HOUR));
    let (first, second) = tokio::join!(report(&locks, HOUR), report(&other, HOUR));
    assert!(first.is_ok());
    assert!(matches!(second, Err(LockError::TimedOut { .. })), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_grow_while_the_clock_stands_still() {
    let (locks, other) = two().await;
    let mut last = 0;
    for round in 0..100 {
        let manager = if round % 2 == 0 { &locks } else { &other };
        let guard = manager.lock("k").acquire().await.unwrap();
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn several_keys_and_cohorts_follow_the_clock() {
    let (locks, other) = two().await;
    let guard = locks.lock_all(["a", "b"]).renew(false).acquire().await.unwrap();
    advance(31 * SECOND).await;
    assert!(!guard.is_held());
    drop(other.lock_all(["b", "a"]).acquire().await.unwrap());

    let cohort =
        LockManager::builder(format!("memory://{}", unique("cohort"))).cohort(8).connect().await.unwrap();
    let begun = tokio::time::Instant::now();
    let call = || cohort.lock("k").wait(HOUR).run_value(async |_| sleep(60 * SECOND).await);
    let (first, second, third) = tokio::join!(call(), call(), call());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert!(begun.elapsed() < 200 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_quorum_in_memory_follows_the_clock() {
    let nodes = [1, 2, 3].map(|_| format!("memory://{}", unique("node"))).join(",");
    let (locks, other) =
        (LockManager::connect(&nodes).await.unwrap(), LockManager::connect(&nodes).await.unwrap());
    let guard = locks.lock("k").renew(false).acquire().await.unwrap();
    advance(31 * SECOND).await;
    assert!(!guard.is_held());
    let next = other.lock("k").acquire().await.unwrap();
    sleep(HOUR).await;
    assert!(next.is_held());
}

#[tokio::test]
async fn a_clock_that_is_paused_later_counts_from_then_on() {
    let (locks, other) = two().await;
    let guard = locks.lock("k").renew(false).acquire().await.unwrap();
    tokio::time::pause();
    advance(31 * SECOND).await;
    assert!(!guard.is_held());
    let next = other.lock("k").acquire().await.unwrap();
    tokio::time::resume();
    assert!(next.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_sync_caller_in_a_paused_runtime_waits_in_real_time() {
    let (locks, other) = two().await;
    let held = locks.lock("k").acquire().await.unwrap();
    let start = Instant::now();
    let error = other.lock("k").wait(SECOND / 2).acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    assert!(start.elapsed() >= SECOND / 2 && start.elapsed() < 5 * SECOND);
    held.release_blocking().unwrap();
    drop(other.lock("k").acquire_blocking().unwrap());
    // The loop is back in the runtime.
    let guard = other.lock("k").ttl(60 * SECOND).acquire().await.unwrap();
    sleep(HOUR).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_thread_without_a_runtime_uses_the_clock_of_the_manager() {
    let locks = manager().await;
    let guard = locks.lock("k").ttl(24 * HOUR).acquire().await.unwrap();
    let waiter = {
        let locks = locks.clone();
        tokio::task::spawn_blocking(move || locks.lock("k").wait(HOUR).acquire_blocking().map(drop))
    };
    while locks.inspect("k").await.unwrap().is_none_or(|info| info.waiters() == 0) {
        tokio::task::yield_now().await;
    }
    // Tokio does not move the clock by itself while a thread works for it.
    advance(2 * HOUR).await;
    let error = waiter.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_test_that_blocks_its_runtime_does_not_hang() {
    let locks = manager().await;
    let theirs = locks.clone();
    let call = thread::spawn(move || theirs.lock("k").run_value_blocking(LockGuard::is_held));
    assert_eq!(call.join().unwrap(), Ok(true));
    let guard = locks.lock("k").acquire().await.unwrap();
    sleep(HOUR).await;
    assert!(guard.is_held());
}

#[test]
fn a_manager_whose_runtime_has_ended_goes_on_in_real_time() {
    let runtime = paused_runtime();
    let (locks, guard) = runtime.block_on(async {
        let locks = manager().await;
        advance(HOUR).await;
        let guard = locks.lock("k").ttl(3 * SECOND).acquire().await.unwrap();
        (locks, guard)
    });
    drop(runtime);
    let mut last = guard.remaining();
    eventually("it is renewed", || std::mem::replace(&mut last, guard.remaining()) < guard.remaining());
    let start = Instant::now();
    let error = locks.lock("k").wait(SECOND / 5).acquire_blocking().unwrap_err();
    assert!(error.is_busy() && start.elapsed() >= SECOND / 5, "{error:?}");
    let other = locks.lock("other").ttl(SECOND / 5).renew(false).acquire_blocking().unwrap();
    eventually("it expires", || !other.is_held());
}

#[test]
fn each_runtime_has_a_time_of_its_own() {
    let url = format!("memory://{}", unique("runtimes"));
    let paused = paused_runtime();
    let real = runtime();
    let locks = paused.block_on(LockManager::connect(&url)).unwrap();
    let other = real.block_on(LockManager::connect(&url)).unwrap();
    let guard = paused.block_on(locks.lock("k").renew(false).acquire()).unwrap();
    paused.block_on(advance(31 * SECOND));
    assert!(!guard.is_held());
    // 30 s have not passed there.
    assert!(real.block_on(other.lock("k").acquire()).unwrap_err().is_busy());
    drop(paused.block_on(locks.lock("k").acquire()).unwrap());
}

#[test]
fn a_multi_thread_runtime_and_no_runtime_have_real_time() {
    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let inside = multi.block_on(manager());
    let outside = LockManager::connect_blocking(format!("memory://{}", unique("real"))).unwrap();
    for locks in [inside, outside] {
        let lost = locks.lock("k").ttl(SECOND / 5).renew(false).acquire_blocking().unwrap();
        eventually("it expires", || !lost.is_held());
    }
}

#[test]
fn a_manager_with_a_thread_of_its_own_has_real_time() {
    paused_runtime().block_on(async {
        let url = format!("memory://{}", unique("thread"));
        let locks = LockManager::builder(url).own_thread(true).connect().await.unwrap();
        let guard = locks.lock("k").renew(false).acquire().await.unwrap();
        advance(HOUR).await;
        assert!(guard.is_held());
    });
}

#[test]
fn the_locks_of_a_server_have_real_time() {
    let server = RedisServer::start();
    paused_runtime().block_on(async {
        let locks = LockManager::connect(server.url()).await.unwrap();
        let guard = locks.lock("k").renew(false).acquire().await.unwrap();
        advance(HOUR).await;
        assert!(guard.is_held() && locks.lock("k").acquire().await.unwrap_err().is_busy());
        guard.release().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_rate_waits_on_the_clock_of_the_test() {
    let start = Instant::now();
    let (locks, other) = two().await;
    let mail = async |locks: &LockManager, wait: Duration| {
        locks.lock("mail").rate(5, 60 * SECOND).wait(wait).run_value(async |_| ()).await
    };
    let begin = tokio::time::Instant::now();
    for _ in 0..5 {
        mail(&locks, Duration::ZERO).await.unwrap();
    }
    assert!(mail(&other, Duration::ZERO).await.unwrap_err().is_busy());
    advance(30 * SECOND).await;
    assert!(mail(&other, Duration::ZERO).await.unwrap_err().is_busy());
    for _ in 0..10 {
        mail(&other, HOUR).await.unwrap();
    }
    let waited = begin.elapsed();
    assert!((120 * SECOND..130 * SECOND).contains(&waited), "{waited:?}");
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
}
