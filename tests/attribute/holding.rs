//! How long a lock is held, the body after a loss, and nested calls.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Longer than any call here takes, so that a call that hangs fails.
const LIMIT: Duration = Duration::from_secs(30);

/// Another manager gets the lock: at once, or later.
async fn free_later(key: &str) -> Outcome {
    managers()?.1.lock(key).wait(LIMIT).acquire().await?.release().await?;
    Ok(())
}

fn free_later_blocking(key: &str) -> Outcome {
    managers()?.1.lock(key).wait(LIMIT).acquire_blocking()?.release_blocking()?;
    Ok(())
}

mod nested {
    use super::*;

    // If the library did not detect the deadlock, this call would wait for `LIMIT` and fail with
    // `TimedOut`.
    #[distributed_lock(key = "within:{id}", wait = LIMIT)]
    async fn inner(id: &str) -> Outcome {
        unreachable!("{id}: the lock is held by the caller")
    }

    #[distributed_lock(key = "within:{id}")]
    async fn outer(id: &str) -> Outcome {
        let nested = inner(id).await;
        assert!(matches!(nested, Err(LockError::Deadlock { .. })), "{nested:?}");
        held("within:async").await
    }

    #[tokio::test]
    async fn the_same_key_is_a_deadlock() -> Outcome {
        locked("within:async", outer("async")).await?
    }

    #[distributed_lock(key = "within:{id}", wait = LIMIT)]
    fn inner_blocking(id: &str) -> Outcome {
        unreachable!("{id}: the lock is held by the caller")
    }

    #[distributed_lock(key = "within:{id}")]
    fn outer_blocking(id: &str) -> Outcome {
        let nested = inner_blocking(id);
        assert!(matches!(nested, Err(LockError::Deadlock { .. })), "{nested:?}");
        held_blocking("within:sync")
    }

    #[test]
    fn sync_the_same_key_is_a_deadlock() -> Outcome {
        locked_blocking("within:sync", || outer_blocking("sync"))?
    }

    #[distributed_lock(key = "within:explicit", wait = LIMIT, reentrant = false)]
    async fn not_reentrant() -> Outcome {
        unreachable!("the lock is held by the caller")
    }

    #[distributed_lock(key = "within:explicit", reentrant)]
    async fn only_the_outer_is_reentrant() -> Outcome {
        let nested = not_reentrant().await;
        assert!(matches!(nested, Err(LockError::Deadlock { .. })), "{nested:?}");
        held("within:explicit").await
    }

    #[tokio::test]
    async fn the_inner_call_decides() -> Outcome {
        locked("within:explicit", only_the_outer_is_reentrant()).await?
    }

    #[distributed_lock(key = "join:{id}", reentrant, guard = lock)]
    async fn joins(id: &str) -> Outcome<u64> {
        held("join:async").await?;
        assert!(lock.is_held(), "{id}");
        Ok(lock.fencing_token())
    }

    #[distributed_lock(key = "join:{id}", guard = lock)]
    async fn around(id: &str) -> Outcome {
        assert_eq!(joins(id).await?, lock.fencing_token(), "the inner call joins the same lock");
        // The inner call has returned, and has not released the lock.
        held("join:async").await?;
        assert!(lock.is_held());
        assert_eq!(joins(id).await?, lock.fencing_token());
        held("join:async").await
    }

    #[tokio::test]
    async fn a_reentrant_call_joins() -> Outcome {
        locked("join:async", around("async")).await?
    }

    #[distributed_lock(key = "join:{id}", reentrant, guard = lock)]
    fn joins_blocking(id: &str) -> Outcome<u64> {
        held_blocking("join:sync")?;
        assert!(lock.is_held(), "{id}");
        Ok(lock.fencing_token())
    }

    #[distributed_lock(key = "join:{id}", guard = lock)]
    fn around_blocking(id: &str) -> Outcome {
        assert_eq!(joins_blocking(id)?, lock.fencing_token(), "the inner call joins the same lock");
        held_blocking("join:sync")?;
        assert!(lock.is_held());
        assert_eq!(joins_blocking(id)?, lock.fencing_token());
        held_blocking("join:sync")
    }

    #[test]
    fn sync_a_reentrant_call_joins() -> Outcome {
        locked_blocking("join:sync", || around_blocking("sync"))?
    }

    #[tokio::test]
    async fn a_reentrant_call_alone_is_a_call() -> Outcome {
        locked("join:alone", alone()).await?
    }

    #[distributed_lock(key = "join:alone", reentrant)]
    async fn alone() -> Outcome {
        held("join:alone").await
    }

    #[distributed_lock(key = "steps", constant_key, reentrant = true)]
    async fn steps(left: u32) -> Outcome<u32> {
        held("steps").await?;
        let below = if left == 0 { 0 } else { Box::pin(steps(left - 1)).await? };
        held("steps").await?;
        Ok(below + 1)
    }

    #[tokio::test]
    async fn recursion() -> Outcome {
        assert_eq!(locked("steps", steps(3)).await??, 4);
        Ok(())
    }

    #[distributed_lock(key = "steps:sync", constant_key, reentrant = true)]
    fn steps_blocking(left: u32) -> Outcome<u32> {
        held_blocking("steps:sync")?;
        let below = if left == 0 { 0 } else { steps_blocking(left - 1)? };
        held_blocking("steps:sync")?;
        Ok(below + 1)
    }

    #[test]
    fn sync_recursion() -> Outcome {
        assert_eq!(locked_blocking("steps:sync", || steps_blocking(3))??, 4);
        Ok(())
    }

    #[async_trait::async_trait]
    trait Ledger {
        async fn book(&self) -> Outcome;
        async fn close(&self) -> Outcome;
    }

    struct Book(&'static str);

    #[async_trait::async_trait]
    impl Ledger for Book {
        #[distributed_lock(key = "trait:{self.0}", reentrant, on_lost = "finish")]
        async fn book(&self) -> Outcome {
            held("trait:b").await
        }

        #[distributed_lock(key = "trait:{self.0}")]
        async fn close(&self) -> Outcome {
            self.book().await?;
            held("trait:b").await
        }
    }

    #[tokio::test]
    async fn async_trait() -> Outcome {
        locked("trait:b", Book("b").close()).await?
    }
}

mod on_lost {
    use super::*;

    #[distributed_lock(key = "lost:finish", ttl = "200ms", wait = LIMIT, renew = false, on_lost = "finish", guard = lock)]
    async fn finishes() -> Outcome<u32> {
        held("lost:finish").await?;
        lock.lost().await;
        assert!(!lock.is_held());
        free_later("lost:finish").await?;
        Ok(7)
    }

    #[tokio::test]
    async fn finish_runs_the_body_to_its_end() -> Outcome {
        managers()?;
        assert_eq!(finishes().await?, 7);
        Ok(())
    }

    #[distributed_lock(key = "lost:cancel", constant_key, ttl = "200ms", wait = LIMIT, renew = false, on_lost = "cancel", guard = lock)]
    async fn is_cancelled(went_on: &AtomicBool) -> Outcome<u32> {
        held("lost:cancel").await?;
        lock.lost().await;
        went_on.store(true, Ordering::Relaxed);
        Ok(7)
    }

    #[tokio::test]
    async fn cancel_stops_the_body() -> Outcome {
        managers()?;
        let went_on = AtomicBool::new(false);
        let result = is_cancelled(&went_on).await;
        assert!(matches!(result, Err(LockError::Lost { .. })), "{result:?}");
        assert!(!went_on.into_inner());
        Ok(())
    }

    struct Mailer(u32);

    impl Mailer {
        #[distributed_lock(key = "lost:boxed", ttl = "200ms", wait = LIMIT, renew = false, on_lost = "finish", guard = lock)]
        fn boxed(&mut self) -> Pin<Box<dyn Future<Output = Outcome<u32>> + Send + '_>> {
            Box::pin(async move {
                lock.lost().await;
                self.0 += 1;
                Ok(self.0)
            })
        }
    }

    #[tokio::test]
    async fn finish_inside_a_box() -> Outcome {
        managers()?;
        assert_eq!(Mailer(6).boxed().await?, 7);
        Ok(())
    }
}

mod max_hold {
    use super::*;

    // With this ttl, another caller gets the lock in time only because of `max_hold`.
    #[distributed_lock(key = "max:async", ttl = "5m", wait = LIMIT, max_hold = "200ms")]
    async fn hangs() -> Outcome {
        held("max:async").await?;
        pending().await
    }

    #[tokio::test]
    async fn stops_a_body_that_hangs() -> Outcome {
        managers()?;
        let result = tokio::time::timeout(LIMIT, hangs()).await;
        assert!(matches!(result, Ok(Err(LockError::Lost { .. }))), "{result:?}");
        free_later("max:async").await
    }

    // `max_hold` is longer than the ttl: the lock is renewed until then, and no longer.
    #[distributed_lock(key = "max:renewed", constant_key, ttl = "1s", wait = LIMIT, max_hold = limit)]
    async fn is_renewed(limit: Duration) -> Outcome {
        held("max:renewed").await?;
        pending().await
    }

    #[tokio::test]
    async fn stops_a_body_that_is_renewed() -> Outcome {
        managers()?;
        let result = tokio::time::timeout(LIMIT, is_renewed(Duration::from_secs(2))).await;
        assert!(matches!(result, Ok(Err(LockError::Lost { .. }))), "{result:?}");
        free_later("max:renewed").await
    }

    #[distributed_lock(key = "max:sync", ttl = "5m", wait = LIMIT, max_hold = "200ms", guard = lock)]
    fn works_until_it_is_over() -> Outcome<u32> {
        held_blocking("max:sync")?;
        let started = Instant::now();
        while lock.is_held() {
            assert!(started.elapsed() < LIMIT, "there is no limit");
            thread::yield_now();
        }
        free_later_blocking("max:sync")?;
        Ok(7)
    }

    #[test]
    fn sync_tells_the_guard() -> Outcome {
        managers()?;
        assert_eq!(works_until_it_is_over()?, 7);
        Ok(())
    }

    #[distributed_lock(key = "max:zero", constant_key, max_hold = limit)]
    async fn limited(limit: Duration) -> Outcome {
        unreachable!("{limit:?} is out of range")
    }

    #[tokio::test]
    async fn an_expression_is_checked_at_run_time() -> Outcome {
        managers()?;
        let refused = limited(Duration::ZERO).await;
        assert!(matches!(refused, Err(LockError::InvalidRequest { .. })), "{refused:?}");
        Ok(())
    }
}

mod min_hold {
    use super::*;

    #[distributed_lock(key = "min:{name}", wait = LIMIT, min_hold = period)]
    async fn nightly(name: &str, period: Duration) -> Outcome<usize> {
        held(&format!("min:{name}")).await?;
        Ok(name.len())
    }

    #[distributed_lock(key = "min:{name}", wait = LIMIT, min_hold = period)]
    fn nightly_blocking(name: &str, period: Duration) -> Outcome<usize> {
        held_blocking(&format!("min:{name}"))?;
        Ok(name.len())
    }

    #[distributed_lock(key = "min:literal", ttl = "10s", min_hold = "5m", on_busy = Ok(false))]
    async fn literal() -> Outcome<bool> {
        held("min:literal").await?;
        Ok(true)
    }

    #[tokio::test]
    async fn the_key_outlives_the_call() -> Outcome {
        managers()?;
        assert!(literal().await?);
        held("min:literal").await?;
        assert!(!literal().await?, "not even the same manager gets the lock");
        Ok(())
    }

    #[tokio::test]
    async fn the_key_is_free_later() -> Outcome {
        managers()?;
        let (started, period) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(nightly("async", period).await?, 5);
        free_later("min:async").await?;
        assert!(started.elapsed() > period / 2, "the lock was free before `min_hold` was over");
        Ok(())
    }

    #[test]
    fn sync_the_key_is_free_later() -> Outcome {
        managers()?;
        let (started, period) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(nightly_blocking("sync", period)?, 4);
        free_later_blocking("min:sync")?;
        assert!(started.elapsed() > period / 2, "the lock was free before `min_hold` was over");
        Ok(())
    }

    #[test]
    fn sync_the_key_outlives_the_call() -> Outcome {
        managers()?;
        assert_eq!(nightly_blocking("long", Duration::from_mins(5))?, 4);
        held_blocking("min:long")
    }
}
