//! The lock that the running code is under, without its guard.

use std::time::Duration;

use redlocked::{CurrentLock, LockErrorKind, LostReason, current};

use super::*;

const LONGER: Duration = Duration::from_secs(300);

fn here() -> Result<String, LockErrorKind> {
    current().map(|lock| lock.key().to_owned()).map_err(|error| error.kind())
}

async fn deep() -> Outcome<u64> {
    let lock = current()?;
    lock.ensure_held()?;
    assert!(lock.is_held() && lock.remaining() < LONGER / 2);
    lock.extend(LONGER).await?;
    assert!(lock.remaining() > LONGER / 2);
    tokio::task::yield_now().await;
    assert_eq!(here().as_deref(), Ok("current:async"), "after an await, too");
    let first = lock.fencing_token().await?;
    assert_eq!(current()?.fencing_token().await?, first);
    Ok(first)
}

#[distributed_lock(key = "current:async")]
async fn asynchronous() -> Outcome<u64> {
    let fence = deep().await?;
    assert_eq!(tokio::spawn(async { here() }).await.ok(), Some(Err(LockErrorKind::NotLocked)));
    assert_eq!(tokio::task::spawn_blocking(here).await.ok(), Some(Err(LockErrorKind::NotLocked)));
    held("current:async").await?;
    Ok(fence)
}

#[tokio::test]
async fn a_function_below_has_the_lock() -> Outcome {
    managers()?;
    assert_eq!(here(), Err(LockErrorKind::NotLocked));
    let first = asynchronous().await?;
    assert!(asynchronous().await? > first && first > 0);
    assert_eq!(here(), Err(LockErrorKind::NotLocked));
    Ok(())
}

fn deep_blocking() -> Outcome<u64> {
    let lock = current()?;
    lock.ensure_held()?;
    lock.extend_blocking(LONGER)?;
    assert!(lock.is_held() && lock.remaining() > LONGER / 2);
    lock.fencing_token_blocking()
}

#[distributed_lock(key = "current:sync")]
fn blocking() -> Outcome<(u64, CurrentLock)> {
    let fence = deep_blocking()?;
    assert_eq!(std::thread::spawn(here).join().ok(), Some(Err(LockErrorKind::NotLocked)));
    held_blocking("current:sync")?;
    Ok((fence, current()?))
}

#[test]
fn sync_a_function_below_has_the_lock_and_not_longer_than_the_body() -> Outcome {
    managers()?;
    let (fence, after) = blocking()?;
    assert!(fence > 0 && !after.is_held());
    for outcome in [after.ensure_held(), after.extend_blocking(LONGER)] {
        let is_over = |error: &LockError| {
            matches!(error, LockError::Lost { reason: LostReason::Released, .. })
                && error.key() == Some("current:sync")
        };
        assert!(outcome.as_ref().is_err_and(is_over), "{outcome:?}");
    }
    Ok(())
}

#[distributed_lock(key = "current:inner")]
async fn inner() -> Outcome {
    assert_eq!(here().as_deref(), Ok("current:inner"));
    let keys = || current().map(|lock| lock.keys().map(str::to_owned).collect::<Vec<_>>());
    let innermost = managers()?.0.lock_all(["current:b", "current:a"]).run_value_blocking(|_| keys())??;
    assert_eq!(innermost, ["current:a", "current:b"]);
    assert_eq!(here().as_deref(), Ok("current:inner"));
    Ok(())
}

#[distributed_lock(key = "current:outer")]
async fn outer() -> Outcome {
    assert_eq!(here().as_deref(), Ok("current:outer"));
    inner().await?;
    assert_eq!(here().as_deref(), Ok("current:outer"));
    Ok(())
}

#[distributed_lock(key = "current:beside")]
async fn beside() -> Outcome {
    for _ in 0..20 {
        assert_eq!(here().as_deref(), Ok("current:beside"));
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_nested_locks_it_is_the_innermost() -> Outcome {
    managers()?;
    // Beside each other, in one task: each has its own.
    tokio::try_join!(outer(), beside()).map(drop)
}

/// Polls once and drops the future.
fn is_dropped_while_pending(future: impl Future) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(future).poll(&mut context).is_pending()
}

#[distributed_lock(key = "k", manager = locks)]
async fn draws_its_fencing_token(locks: &LockManager) -> Outcome<u64> {
    let lock = current()?;
    // Dropped before its answer, it leaves the lock as it is.
    assert!(is_dropped_while_pending(lock.fencing_token()));
    assert!(is_dropped_while_pending(lock.extend(LONGER)));
    let fence = lock.fencing_token().await?;
    assert_eq!((fence, lock.is_held()), (current()?.fencing_token().await?, true));
    Ok(fence)
}

/// A function that binds no guard takes its lock without one.
#[tokio::test]
async fn on_a_server_a_fencing_token_is_drawn_when_it_is_asked_for() -> Outcome {
    let server = kit::RedisServer::start();
    let locks = LockManager::connect(server.url()).await?;
    let first = draws_its_fencing_token(&locks).await?;
    let by_guard = locks.lock("k").run_value(async |guard| guard.fencing_token()).await?;
    let last = draws_its_fencing_token(&locks).await?;
    assert!(0 < first && first < by_guard && by_guard < last, "{first} {by_guard} {last}");
    Ok(())
}
