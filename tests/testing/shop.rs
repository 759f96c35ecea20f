//! The example of docs/testing.md, which has these lines, too.

use std::time::Duration;

use redlocked::testing::Testing;
use redlocked::{LockError, LostReason, distributed_lock};
use tokio::time::{Instant, advance, sleep};

/// The code under test. Its caller waits for 5 s at most, and the lock outlives a crashed
/// process by 30 s.
#[distributed_lock(key = "stock:{sku}", wait = "5s", ttl = "30s")]
async fn purchase(sku: u32) -> Result<u32, LockError> {
    sleep(Duration::from_secs(60)).await; // the payment
    Ok(sku)
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock() -> Result<(), LockError> {
    let node = Testing::connect("a_busy_lock").await?;
    let _global = node.global_here();

    let _held = node.hold("stock:42", "shop::refund")?;
    let error = purchase(42).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("shop::refund"), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock() -> Result<(), LockError> {
    let node = Testing::connect("a_lost_lock").await?;
    let _global = node.global_here();

    let purchase = tokio::spawn(purchase(42));
    sleep(Duration::from_secs(1)).await;
    node.take_away("stock:42");
    let outcome = purchase.await.unwrap();
    let Err(LockError::Lost { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(reason, LostReason::KeyChanged);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_lock() -> Result<(), LockError> {
    let node = Testing::connect("an_unavailable_lock").await?;
    let _global = node.global_here();

    node.set_unreachable();
    let outcome = purchase(42).await;
    assert!(matches!(outcome, Err(LockError::Unavailable { .. })));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_crashed_process_delays_the_next_for_its_ttl() -> Result<(), LockError> {
    let node = Testing::connect("a_crashed_process_delays_the_next_for_its_ttl").await?;
    let _global = node.global_here();

    node.hold_for("stock:42", "shop::purchase", Duration::from_secs(30))?;
    assert!(purchase(42).await.is_err_and(|error| error.is_busy()), "5 s are too short");
    advance(Duration::from_secs(25)).await;
    assert_eq!(purchase(42).await, Ok(42));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_long_payment_keeps_its_lock() -> Result<(), LockError> {
    let node = Testing::connect("a_long_payment_keeps_its_lock").await?;
    let _global = node.global_here();

    let start = Instant::now();
    let (first, second) = tokio::join!(purchase(42), purchase(42));
    assert!(first.is_ok() && second.is_err_and(|error| error.is_busy()));
    assert_eq!((start.elapsed().as_secs(), node.calls("stock:42").acquired), (60, 1));
    assert!(!node.is_locked("stock:42"));
    Ok(())
}
