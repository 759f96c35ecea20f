//! Each control of `testing()`, through the attribute and by hand, in async and in sync code.

use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, SECOND, eventually, unique};
use redlocked::{LockError, LockManager, LostReason, distributed_lock};
use tokio::time::{advance, sleep};

/// The function of a user: async, with the process-wide manager.
#[distributed_lock(key = "stock:{sku}", wait = "5s")]
async fn purchase(sku: u32, takes: Duration) -> Result<u32, LockError> {
    sleep(takes).await;
    Ok(sku)
}

/// Makes the purchase in sync code.
#[distributed_lock(key = "stock:{sku}")]
fn purchase_now(sku: u32) -> Result<u32, LockError> {
    Ok(sku)
}

fn url() -> String {
    format!("memory://{}", unique("controls"))
}

async fn manager() -> LockManager {
    LockManager::connect(url()).await.unwrap()
}

fn sync_manager() -> LockManager {
    LockManager::connect_blocking(url()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_says_which_function_holds_it() {
    let locks = manager().await;
    let (node, start) = (locks.testing().unwrap(), tokio::time::Instant::now());
    let _global = node.global_here();
    let held = node.hold("stock:42", "shop::refund").unwrap();

    let error = purchase(42, SECOND).await.unwrap_err();
    assert!(
        matches!(&error, LockError::TimedOut { holder, .. } if holder.function() == Some("shop::refund"))
    );
    assert!(start.elapsed() >= 5 * SECOND);
    let error = locks.lock("stock:42").acquire().await.unwrap_err();
    assert!(
        error.is_busy() && error.to_string().contains(" in shop::refund (lease expires in 30"),
        "{error}"
    );
    assert_eq!(purchase(7, SECOND).await, Ok(7), "another key");

    // Its holder renews it for as long as it is held.
    sleep(3600 * SECOND).await;
    assert!(node.is_locked("stock:42"));
    assert!(node.hold("stock:42", "another").unwrap_err().is_busy());
    drop(held);
    assert!(!node.is_locked("stock:42"));
    assert_eq!(purchase(42, SECOND).await, Ok(42));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_several_hold_elsewhere_lets_in_as_many_as_fit() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let readers = ["shop::read", "shop::list"].map(|function| node.hold_shared("k", function).unwrap());
    assert!(node.hold("k", "shop::write").unwrap_err().is_busy());
    locks.lock("k").shared().acquire().await.unwrap().release().await.unwrap();
    let mut functions: Vec<_> =
        node.holders("k").iter().map(|holder| holder.function().unwrap().to_owned()).collect();
    functions.sort_unstable();
    assert_eq!(functions, ["shop::list", "shop::read"]);

    // They renew it for as long as it is held.
    sleep(3600 * SECOND).await;
    assert_eq!(node.holders("k").len(), 2);
    let (writer, ()) = tokio::join!(locks.lock("k").wait(5 * SECOND).acquire(), async {
        for reader in readers {
            sleep(SECOND).await;
            drop(reader);
        }
    });
    writer.unwrap().release().await.unwrap();

    let permit = node.hold_permit("k", 2, "mail::send").unwrap();
    let other = locks.lock("k").permits(2).acquire().await.unwrap();
    assert!(locks.lock("k").permits(2).acquire().await.unwrap_err().is_busy());
    drop(permit);
    locks.lock("k").permits(2).acquire().await.unwrap().release().await.unwrap();
    assert!(matches!(node.hold_permit("k", 0, "mail::send"), Err(LockError::InvalidRequest { .. })));
    node.take_away("k");
    assert_eq!(other.lost().await, LostReason::KeyChanged);
    assert!(node.holders("k").is_empty());
}

/// As on a server: an operator sets how many permits there are.
#[tokio::test(start_paused = true)]
async fn a_number_that_is_set_counts_for_the_code_under_test() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let take = || locks.lock("k").permits(9);
    let _elsewhere = node.hold_permit("k", 9, "mail::send").unwrap();
    let operator = node.manager();
    operator.set_permits("k", 1).await.unwrap();
    assert!(take().acquire().await.unwrap_err().is_busy());
    let refused = take().take(2).acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused:?}");
    let (waits, raised) = tokio::join!(take().wait(5 * SECOND).acquire(), operator.set_permits("k", 2));
    assert_eq!(raised, Ok(Some(1)));
    waits.unwrap().release().await.unwrap();
}

/// As on a server: a test sees the readers beside the writer that has become one, and takes the lock from all.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_downgraded_lets_readers_in_and_is_lost_with_theirs() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let guard = locks.lock("k").ttl(SECOND).acquire().await.unwrap();
    assert!(node.hold_shared("k", "shop::read").unwrap_err().is_busy());
    let (reader, downgraded) =
        tokio::join!(locks.lock("k").shared().wait(5 * SECOND).acquire(), guard.downgrade());
    let (reader, ()) = (reader.unwrap(), downgraded.unwrap());
    let elsewhere = node.hold_shared("k", "shop::read").unwrap();
    assert!(node.hold("k", "shop::write").unwrap_err().is_busy());
    assert_eq!(node.holders("k").len(), 3);
    // It is renewed as before.
    sleep(3600 * SECOND).await;
    assert!(guard.is_held() && node.holders("k").len() == 3);
    node.take_away("k");
    assert_eq!(guard.lost().await, LostReason::KeyChanged);
    assert_eq!(reader.lost().await, LostReason::KeyChanged);
    assert!(node.holders("k").is_empty());
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_a_lock_that_is_held_elsewhere_when_that_ends() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let _global = node.global_here();
    let held = node.hold("stock:42", "shop::refund").unwrap();
    let (outcome, ()) = tokio::join!(purchase(42, SECOND), async {
        sleep(2 * SECOND).await;
        drop(held);
    });
    assert_eq!(outcome, Ok(42));

    node.hold_for("stock:42", "shop::refund", 3 * SECOND).unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(purchase(42, Duration::ZERO).await, Ok(42));
    assert!(start.elapsed() >= 3 * SECOND && start.elapsed() < 4 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_away_is_lost() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let _global = node.global_here();
    let (outcome, taken) = tokio::join!(purchase(42, 60 * SECOND), async {
        sleep(SECOND).await;
        node.take_away("stock:42")
    });
    assert!(matches!(outcome, Err(LockError::Lost { reason: LostReason::KeyChanged, .. })), "{outcome:?}");
    assert!(
        taken.is_some_and(|holder| holder.function().is_some_and(|function| function.ends_with("purchase")))
    );
    assert_eq!(node.take_away("stock:42"), None, "it is free");

    let guard = locks.lock("k").acquire().await.unwrap();
    node.take_away("k");
    assert_eq!(guard.lost().await, LostReason::KeyChanged);
    let next = locks.lock("k").acquire().await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_holder_hears_of_a_loss_after_its_engine_has_moved() {
    let locks = manager().await;
    let guard = locks.lock("k").acquire().await.unwrap();
    // It blocks the runtime: the engine has a thread meanwhile.
    locks.lock("other").run_value_blocking(|_| ()).unwrap();
    sleep(SECOND).await;
    let start = tokio::time::Instant::now();
    locks.testing().unwrap().take_away("k");
    assert_eq!(guard.lost().await, LostReason::KeyChanged);
    assert!(start.elapsed() < SECOND, "before the next renewal: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_is_unavailable_until_it_recovers() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let _global = node.global_here();
    node.set_unreachable();
    let error = locks.lock("stock:42").acquire().await.unwrap_err();
    assert!(
        matches!(&error, LockError::Unavailable { key: Some(key), .. } if &**key == "stock:42"),
        "{error:?}"
    );
    let start = tokio::time::Instant::now();
    let error = purchase(42, SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() >= 5 * SECOND, "it waits: {:?}", start.elapsed());
    assert!(LockManager::connect("memory://elsewhere").await.is_ok(), "another node");
    node.recover();
    drop(locks.lock("k").acquire().await.unwrap());
    node.set_unreachable();
    sleep(3600 * SECOND).await;

    let (outcome, ()) = tokio::join!(purchase(42, SECOND), async {
        sleep(2 * SECOND).await;
        node.recover();
    });
    assert_eq!(outcome, Ok(42));
}

#[tokio::test(start_paused = true)]
async fn a_holder_outlives_a_short_outage_and_not_a_long_one() {
    let (locks, other) = {
        let url = url();
        (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap())
    };
    let node = other.testing().unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    node.set_unreachable();
    sleep(15 * SECOND).await;
    node.recover();
    sleep(60 * SECOND).await;
    assert!(guard.is_held());
    node.set_unreachable();
    sleep(60 * SECOND).await;
    assert_eq!(guard.lost_reason(), Some(LostReason::Expired));
    assert!(!node.is_locked("k"), "it expires on the node, too");
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_takes_its_time_and_a_very_slow_one_answers_too_late() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let start = tokio::time::Instant::now();
    node.set_latency(SECOND / 2);
    let guard = locks.lock("k").acquire().await.unwrap();
    assert!(start.elapsed() >= SECOND / 2 && start.elapsed() < SECOND, "{:?}", start.elapsed());
    assert!(guard.remaining() < 30 * SECOND, "the lease began with the request");
    guard.release().await.unwrap();
    assert!(start.elapsed() >= SECOND && start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());

    node.set_latency(3 * SECOND);
    let error = locks.lock("k").acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::Unavailable { .. }), "{error:?}");
    node.recover();
    // A request that was on its way is not forgotten: its lock is released.
    sleep(5 * SECOND).await;
    assert!(!node.is_locked("k"));
    drop(locks.lock("k").wait(5 * SECOND).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_is_misconfigured() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let _global = node.global_here();
    node.refuse("NOPERM User shop has no permissions to run the 'evalsha' command");
    let error = purchase(42, SECOND).await.unwrap_err();
    assert!(
        matches!(&error, LockError::Misconfigured { reason, .. } if reason.contains("NOPERM")),
        "{error:?}"
    );
    node.recover();
    assert_eq!(purchase(42, SECOND).await, Ok(42));
}

#[tokio::test(start_paused = true)]
async fn lost_data_ends_holds_and_sends_waiters_to_a_new_queue() {
    let (locks, other) = {
        let url = url();
        (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap())
    };
    let node = locks.testing().unwrap();
    let guard = locks.lock("k").acquire().await.unwrap();
    let held = node.hold("elsewhere", "shop::refund").unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(60 * SECOND).acquire());
    while locks.inspect("k").await.unwrap().is_none_or(|info| info.waiters() == 0) {}
    let start = tokio::time::Instant::now();
    node.lose_data();
    assert!(!node.is_locked("k") && !node.is_locked("elsewhere"));
    assert_eq!(guard.lost().await, LostReason::KeyChanged);
    let next = waiter.await.unwrap().unwrap();
    assert!(start.elapsed() < SECOND / 20, "{:?}", start.elapsed());
    assert!(next.fencing_token() > guard.fencing_token(), "fencing tokens grow");
    drop(held);
    assert!(node.is_locked("k"));
}

#[tokio::test(start_paused = true)]
async fn calls_count_those_who_asked_and_those_who_got_it() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let _global = node.global_here();
    assert_eq!(node.calls("stock:42").attempts, 0);
    purchase(42, SECOND).await.unwrap();
    let held = node.hold("stock:42", "shop::refund").unwrap();
    purchase(42, SECOND).await.unwrap_err();
    drop(held);
    node.set_unreachable();
    locks.lock("stock:42").acquire().await.unwrap_err();
    node.recover();
    drop(locks.lock_all(["stock:42", "other"]).wait(5 * SECOND).acquire().await.unwrap());
    let calls = node.calls("stock:42");
    assert_eq!((calls.attempts, calls.acquired), (4, 2));
    assert_eq!(node.calls("other").acquired, 1);
    // What other managers do is theirs, and a nested call that joins asks no one.
    locks
        .lock("k")
        .run_value(async |_| {
            locks.lock("k").reentrant(true).run_value(async |_| ()).await.unwrap();
        })
        .await
        .unwrap();
    assert_eq!((node.calls("k").attempts, node.calls("k").acquired), (1, 1));
}

#[test]
fn every_control_works_in_sync_code() {
    let locks = sync_manager();
    let node = locks.testing().unwrap();
    let _global = node.global_here();

    let held = node.hold("stock:42", "shop::refund").unwrap();
    let error = purchase_now(42).unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("shop::refund"), "{error}");
    drop(held);
    assert_eq!(purchase_now(42), Ok(42));

    let guard = locks.lock("k").acquire_blocking().unwrap();
    assert!(node.holder("k").is_some());
    node.take_away("k");
    eventually("the holder hears of it", || guard.lost_reason() == Some(LostReason::KeyChanged));

    let guard = locks.lock("k").acquire_blocking().unwrap();
    node.lose_data();
    eventually("the holder hears of it", || guard.lost_reason() == Some(LostReason::KeyChanged));

    node.set_unreachable();
    assert!(matches!(purchase_now(42), Err(LockError::Unavailable { .. })));
    node.recover();
    locks.lock("k").run_value_blocking(|_| ()).unwrap();

    node.refuse("NOPERM no");
    assert!(matches!(purchase_now(42), Err(LockError::Misconfigured { .. })));
    node.recover();

    let start = Instant::now();
    node.set_latency(SECOND / 5);
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
    assert!(start.elapsed() >= SECOND / 5);
    node.recover();

    node.hold_for("k", "shop::refund", SECOND / 5).unwrap();
    locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    assert_eq!(node.calls("stock:42").acquired, 1);
}

#[test]
fn the_process_wide_manager_of_a_thread_is_that_of_no_other() {
    let (first, second) = (sync_manager(), sync_manager());
    let (one, two) = (first.testing().unwrap(), second.testing().unwrap());
    let global = one.global_here();
    purchase_now(1).unwrap();
    let inner = two.global_here();
    purchase_now(2).unwrap();
    drop(inner);
    purchase_now(3).unwrap();
    let elsewhere = thread::spawn(|| purchase_now(4)).join().unwrap();
    assert_eq!(elsewhere, Err(LockError::NotConfigured));
    drop(global);
    assert_eq!(purchase_now(5), Err(LockError::NotConfigured));
    let acquired = |node: &redlocked::testing::Testing| {
        [1, 2, 3].map(|sku| node.calls(&format!("stock:{sku}")).acquired)
    };
    assert_eq!((acquired(&one), acquired(&two)), ([1, 0, 1], [0, 1, 0]));
}

#[test]
fn only_one_node_in_memory_is_in_the_hands_of_a_test() {
    let url = url();
    let quorum = [1, 2, 3].map(|node| format!("{url}-{node}")).join(",");
    for url in ["redis://127.0.0.1:1/", &quorum] {
        let locks = LockManager::builder(url).connect_lazy().unwrap();
        let error = locks.testing().unwrap_err();
        assert!(matches!(&error, LockError::Misconfigured { .. }), "{error:?}");
        assert!(error.to_string().contains("memory://"), "{error}");
    }
    let locks = LockManager::connect_blocking(&url).unwrap();
    assert!(matches!(locks.testing().unwrap().hold("", "f"), Err(LockError::InvalidKey { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_moved_clock_and_an_unreachable_node_go_together() {
    let locks = manager().await;
    let node = locks.testing().unwrap();
    let guard = locks.lock("k").renew(false).acquire().await.unwrap();
    node.set_unreachable();
    advance(31 * SECOND).await;
    assert!(!guard.is_held() && !node.is_locked("k"));
    node.recover();
    drop(locks.lock("k").wait(5 * SECOND).acquire().await.unwrap());
}

#[test]
fn the_engine_moves_while_a_slow_node_is_connected_to() {
    let locks = LockManager::builder(url()).io_timeout(2 * SECOND).connect_lazy().unwrap();
    locks.testing().unwrap().set_latency(SECOND / 2);
    // By then the loop has begun to connect, on a runtime of its own.
    let error = locks.lock("k").wait(SECOND / 20).acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let guard = kit::runtime().block_on(locks.lock("k").wait(LIMIT).acquire()).unwrap();
    guard.release_blocking().unwrap();
}

#[test]
fn the_engine_moves_while_a_slow_node_has_not_answered() {
    let locks = LockManager::connect_blocking(url()).unwrap();
    locks.testing().unwrap().set_latency(SECOND / 2);
    let runtime = kit::runtime();
    runtime.block_on(async {
        let request = locks.lock("k").wait(LIMIT).acquire();
        assert!(tokio::time::timeout(SECOND / 20, request).await.is_err());
    });
    drop(runtime);
    locks.lock("k").wait(LIMIT).acquire_blocking().unwrap().release_blocking().unwrap();
}
