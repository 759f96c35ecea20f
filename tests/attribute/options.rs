//! The options that change the shape of the expansion.

use super::*;

mod guard {
    use super::*;

    #[distributed_lock(key = "guard", constant_key, guard = lock, ttl = "1m", renew = false)]
    async fn guarded(lockless: &str) -> Outcome<String> {
        held("guard").await?;
        let lock: &LockGuard = lock;
        assert!(lock.is_held());
        Ok(format!("{lockless}{}", lock.key()))
    }

    #[tokio::test]
    async fn guard() -> Outcome {
        assert_eq!(locked("guard", guarded("a ")).await??, "a guard");
        Ok(())
    }

    #[distributed_lock(key = "guard:sync", constant_key, guard = lock, wait = "forever")]
    fn guarded_blocking(list: &mut Vec<String>) -> Outcome<&mut String> {
        held_blocking("guard:sync")?;
        list.push(lock.key().to_owned());
        Ok(&mut list[0])
    }

    #[test]
    fn sync_guard() -> Outcome {
        let mut list = Vec::new();
        let key = locked_blocking("guard:sync", || guarded_blocking(&mut list).map(|key| key.clone()))??;
        assert_eq!(key, "guard:sync");
        Ok(())
    }
}

mod release {
    use std::rc::Rc;

    use super::*;

    #[distributed_lock(key = "release:{id}", release_in_background)]
    async fn released_later(id: u32) -> Outcome<Rc<str>> {
        held(&format!("release:{id}")).await?;
        Ok(Rc::from(id.to_string()))
    }

    #[distributed_lock(key = "release:guard:{id}", release_in_background, guard = lock)]
    async fn guarded(id: u32) -> Outcome<String> {
        assert!(lock.is_held());
        Ok(format!("{id}"))
    }

    #[distributed_lock(key = "release:sync:{id}", release_in_background)]
    fn released_later_blocking(id: u32) -> Outcome<u32> {
        held_blocking(&format!("release:sync:{id}"))?;
        Ok(id)
    }

    #[distributed_lock(key = "release:{id}", release_in_background = false)]
    async fn awaited(id: u32) -> Outcome<u32> {
        Ok(id)
    }

    #[tokio::test]
    async fn a_call_follows_the_release_of_the_one_before() -> Outcome {
        managers()?;
        for _ in 0..100 {
            assert_eq!(&*released_later(7).await?, "7");
            assert_eq!(guarded(7).await?, "7");
        }
        assert_eq!(awaited(7).await?, 7);
        Ok(())
    }

    #[test]
    fn a_sync_call_does_so_too() -> Outcome {
        managers()?;
        for _ in 0..100 {
            assert_eq!(released_later_blocking(7)?, 7);
        }
        Ok(())
    }

    /// The output of a body is not kept, so it need not be `Send`.
    #[test]
    fn its_output_need_not_be_send() {
        fn require_send(_: impl Send) {}
        require_send(released_later(7));
    }
}

mod ticket {
    use std::time::Duration;

    use redlocked::{LostReason, Ticket};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[distributed_lock(key = "ticket:{id}", ticket = lock, on_lost = "error")]
    async fn gives_away(id: &str) -> Outcome<Ticket> {
        assert!(lock.is_held() && lock.fencing_token() > 0);
        let ticket = lock.into_ticket(MINUTE).await?;
        // The body goes on, and sends it.
        tokio::task::yield_now().await;
        held(&format!("ticket:{id}")).await?;
        Ok(ticket)
    }

    #[tokio::test]
    async fn a_body_that_gives_its_lock_away_runs_to_its_end() -> Outcome {
        managers()?;
        let ticket = gives_away("async").await?;
        held("ticket:async").await?;
        managers()?.1.redeem(ticket).await?.release().await?;
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}", ticket = lock)]
    fn gives_away_blocking(id: &str) -> Outcome<Ticket> {
        lock.into_ticket_blocking(MINUTE)
    }

    #[test]
    fn sync_a_body_gives_its_lock_away() -> Outcome {
        managers()?;
        let ticket = gives_away_blocking("sync")?;
        managers()?.1.redeem(ticket).acquire_blocking()?.release_blocking()?;
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}", ticket = lock)]
    async fn keeps_it(id: &str) -> Outcome<bool> {
        Ok(lock.is_held())
    }

    #[tokio::test]
    async fn without_a_ticket_the_lock_ends_with_the_body() -> Outcome {
        managers()?;
        assert!(keeps_it("kept").await?);
        managers()?.1.lock("ticket:kept").acquire().await?.release().await?;
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}")]
    async fn nested(id: &str) -> Outcome {
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}", reentrant, guard = lock)]
    async fn nested_reentrant(id: &str) -> Outcome<bool> {
        Ok(lock.is_held())
    }

    /// Calls the same key while it has the lock, and after it has given it away.
    #[distributed_lock(key = "ticket:{id}", ticket = lock)]
    async fn calls_again(id: &str) -> Outcome<Ticket> {
        assert!(matches!(nested(id).await, Err(LockError::Deadlock { .. })));
        assert!(nested_reentrant(id).await?);
        let ticket = lock.into_ticket(MINUTE).await?;
        for again in [nested(id).await, nested_reentrant(id).await.map(drop)] {
            assert!(again.as_ref().is_err_and(LockError::is_busy), "{again:?}");
        }
        let current = redlocked::current()?;
        assert!(!current.is_held());
        Ok(ticket)
    }

    #[tokio::test]
    async fn a_nested_call_after_it_finds_the_lock_of_another_holder() -> Outcome {
        managers()?;
        let ticket = calls_again("again").await?;
        managers()?.1.redeem(ticket).await?.release().await?;
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}")]
    fn nested_blocking(id: &str) -> Outcome {
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}", ticket = lock)]
    fn calls_again_blocking(id: &str) -> Outcome<Ticket> {
        assert!(matches!(nested_blocking(id), Err(LockError::Deadlock { .. })));
        let ticket = lock.into_ticket_blocking(MINUTE)?;
        let again = nested_blocking(id);
        assert!(again.as_ref().is_err_and(LockError::is_busy), "{again:?}");
        Ok(ticket)
    }

    #[test]
    fn sync_a_nested_call_after_it_finds_the_lock_of_another_holder() -> Outcome {
        managers()?;
        let ticket = calls_again_blocking("sync:again")?;
        managers()?.1.redeem(ticket).acquire_blocking()?.release_blocking()?;
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}", reentrant)]
    async fn joins(id: &str) -> Outcome {
        std::future::pending::<()>().await;
        Ok(())
    }

    #[distributed_lock(key = "ticket:{id}", ticket = lock)]
    async fn gives_away_beside_a_nested_call(id: &str) -> Outcome<(Outcome, Ticket)> {
        let (nested, ticket) = tokio::join!(joins(id), lock.into_ticket(MINUTE));
        Ok((nested, ticket?))
    }

    #[tokio::test]
    async fn a_nested_call_that_had_joined_it_is_stopped() -> Outcome {
        managers()?;
        let (nested, ticket) = gives_away_beside_a_nested_call("nested").await?;
        assert!(matches!(nested, Err(LockError::Lost { reason: LostReason::HandedOver, .. })), "{nested:?}");
        managers()?.1.redeem(ticket).await?.release().await?;
        Ok(())
    }
}

mod no_result {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Job {
        Done,
        Skipped,
        Failed,
    }

    #[distributed_lock(key = "job:{n}", on_busy = Job::Skipped, on_error = |_| Job::Failed)]
    async fn job(n: u32) -> Job {
        match held(&format!("job:{n}")).await {
            Ok(()) => Job::Done,
            Err(_) => Job::Failed,
        }
    }

    #[distributed_lock(key = "job:{n}", on_busy = Job::Skipped, on_error = fail)]
    fn job_blocking(n: u32) -> Job {
        held_blocking(&format!("job:{n}")).map_or(Job::Failed, |()| Job::Done)
    }

    fn fail(_: LockError) -> Job {
        Job::Failed
    }

    #[tokio::test]
    async fn on_busy() -> Outcome {
        assert_eq!(locked("job:1", job(1)).await?, Job::Done);
        let guard = managers()?.1.lock("job:1").try_acquire().await?;
        assert_eq!(job(1).await, Job::Skipped);
        guard.release().await?;
        assert_eq!(job(1).await, Job::Done);
        Ok(())
    }

    #[test]
    fn sync_on_busy() -> Outcome {
        assert_eq!(locked_blocking("job:2", || job_blocking(2))?, Job::Done);
        let guard = managers()?.1.lock("job:2").acquire_blocking()?;
        assert_eq!(job_blocking(2), Job::Skipped);
        guard.release_blocking()?;
        assert_eq!(job_blocking(2), Job::Done);
        Ok(())
    }

    #[distributed_lock(key = key, on_busy = Job::Skipped, on_error = |_| Job::Failed)]
    async fn job_of(key: &str) -> Job {
        Job::Done
    }

    #[tokio::test]
    async fn on_error() -> Outcome {
        managers()?;
        assert_eq!(job_of("").await, Job::Failed, "an empty key is refused, and nothing runs");
        Ok(())
    }

    #[distributed_lock(key = "nothing", constant_key, on_error = |error| *log = error.to_string())]
    async fn returns_nothing(key: &str, log: &mut String) {
        held("nothing").await.map_or_else(drop, |()| assert_eq!(key, "nothing"));
    }

    #[tokio::test]
    async fn no_return_type() -> Outcome {
        let mut log = String::new();
        locked("nothing", returns_nothing("nothing", &mut log)).await
    }
}

mod renamed_crate {
    use super::*;

    mod vendor {
        pub(super) use ::redlocked as renamed;
    }

    #[distributed_lock(key = "renamed", crate = vendor::renamed, guard = lock)]
    async fn renamed() -> Outcome {
        assert_eq!(lock.key(), "renamed");
        held("renamed").await
    }

    #[tokio::test]
    async fn renamed_crate() -> Outcome {
        locked("renamed", renamed()).await?
    }
}

mod coercions {
    use super::*;

    #[distributed_lock(key = "coercions", on_busy = Some(Box::new("busy")), on_error = |error| Some(Box::new(error)))]
    async fn asynchronous() -> Option<Box<dyn Display>> {
        held("coercions").await.ok()?;
        Some(Box::new(7))
    }

    #[distributed_lock(key = "coercions:sync", on_error = |error| Some(Box::new(error)))]
    fn blocking() -> Option<Box<dyn Display>> {
        held_blocking("coercions:sync").ok()?;
        Some(Box::new(7))
    }

    #[tokio::test]
    async fn async_fn() -> Outcome {
        assert_eq!(locked("coercions", asynchronous()).await?.map(|it| it.to_string()).as_deref(), Some("7"));
        let other = managers()?.1.lock("coercions").try_acquire().await?;
        assert_eq!(asynchronous().await.map(|it| it.to_string()).as_deref(), Some("busy"));
        other.release().await?;
        Ok(())
    }

    #[test]
    fn sync_fn() -> Outcome {
        let returned = locked_blocking("coercions:sync", blocking)?;
        assert_eq!(returned.map(|it| it.to_string()).as_deref(), Some("7"));
        Ok(())
    }
}

mod managers_in_branches {
    use super::*;

    struct Regions {
        eu: LockManager,
        us: LockManager,
        default: Option<Arc<LockManager>>,
    }

    impl Regions {
        #[distributed_lock(key = "branches:{n}", manager = if n > 1 { &self.eu } else { &self.us }, guard = lock)]
        async fn by_if(&self, n: u32) -> Outcome<u64> {
            Ok(lock.fencing_token())
        }

        #[distributed_lock(key = "branches:{n}", manager = match n { 0 => &self.eu, _ => &self.us })]
        fn by_match(&self, n: u32) -> Outcome<u32> {
            Ok(n)
        }

        #[distributed_lock(keys = ["branches:{n}", "branches"], manager = self.default.as_deref().unwrap_or(&self.eu))]
        fn by_method(&self, n: u32) -> Outcome<u32> {
            Ok(n)
        }

        #[distributed_lock(key = "branches:{n}", manager = { &self.eu }, ttl = "5s")]
        async fn by_block(&self, n: u32) -> Outcome<u32> {
            Ok(n)
        }

        #[distributed_lock(key = "branches:{n}", manager = (if n > 1 { self.eu.clone() } else { self.us.clone() }))]
        async fn by_value(&self, n: u32) -> Outcome<u32> {
            Ok(n)
        }

        #[distributed_lock(key = "branches:{n}", manager = of_europe(&regions.lock()))]
        fn by_temporary(regions: &Behind, n: u32) -> Outcome<u32> {
            Ok(n)
        }
    }

    struct Behind(std::sync::Mutex<Regions>);

    impl Behind {
        fn lock(&self) -> std::sync::MutexGuard<'_, Regions> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    fn of_europe(regions: &Regions) -> &LockManager {
        &regions.eu
    }

    #[tokio::test]
    async fn the_manager_of_the_branch_is_asked() -> Outcome {
        let (eu, us) =
            (LockManager::connect("memory://eu").await?, LockManager::connect("memory://us").await?);
        let regions = Regions { eu: eu.clone(), us, default: None };
        let _held = eu.lock("branches:2").acquire().await?;
        assert!(regions.by_if(2).await.is_err_and(|error| error.is_busy()));
        regions.by_if(1).await?;
        assert_eq!(regions.by_match(2)?, 2);
        assert!(regions.by_method(2).is_err_and(|error| error.is_busy()));
        assert_eq!(regions.by_block(1).await? + regions.by_value(1).await?, 2);
        assert!(regions.by_value(2).await.is_err_and(|error| error.is_busy()));
        assert_eq!(Regions::by_temporary(&Behind(std::sync::Mutex::new(regions)), 1)?, 1);
        Ok(())
    }
}

/// What the attribute leaves out is that of its manager.
mod defaults {
    use std::time::{Duration, Instant};

    use kit::LIMIT;
    use redlocked::LockErrorKind;

    use super::*;

    const TTL: Duration = Duration::from_secs(7);

    struct Shop(LockManager);

    impl Shop {
        async fn new() -> Outcome<Self> {
            let url = format!("memory://{}", kit::unique("defaults"));
            let builder = LockManager::builder(url).default_ttl(TTL).default_wait(Duration::from_millis(40));
            builder.default_max_hold(Duration::from_secs(60)).connect().await.map(Self)
        }

        #[distributed_lock(key = "k", manager = self.0, guard = lock)]
        async fn left_out(&self) -> Outcome<Duration> {
            Ok(lock.remaining())
        }

        #[distributed_lock(key = "k", ttl = "90s", wait = "0s", manager = self.0, guard = lock)]
        async fn explicit(&self) -> Outcome<Duration> {
            Ok(lock.remaining())
        }

        #[distributed_lock(key = "k", manager = self.0, on_busy = Ok(false))]
        async fn skips(&self) -> Outcome<bool> {
            Ok(true)
        }

        #[distributed_lock(key = "k", manager = self.0)]
        fn left_out_blocking(&self) -> Outcome {
            Ok(())
        }

        #[distributed_lock(key = "min", min_hold = "2m", manager = self.0)]
        async fn kept_for_too_long(&self) -> Outcome {
            unreachable!("its options contradict the manager's")
        }

        #[distributed_lock(key = "burst", min_hold = "8s", renew = false, manager = self.0)]
        async fn kept_longer_than_its_ttl(&self) -> Outcome {
            unreachable!("its options contradict the manager's")
        }

        #[distributed_lock(key = "min", min_hold = "2m", max_hold = Duration::MAX, manager = self.0)]
        async fn kept(&self) -> Outcome {
            Ok(())
        }
    }

    #[tokio::test]
    async fn an_option_that_is_left_out_is_that_of_the_manager() -> Outcome {
        let shop = Shop::new().await?;
        let (ttl, own) = (shop.left_out().await?, shop.explicit().await?);
        assert!(ttl <= TTL && ttl > Duration::from_secs(1), "{ttl:?}");
        assert!(own > 2 * TTL, "the attribute wins: {own:?}");
        assert!(shop.0.lock("k").acquire().await?.remaining() <= TTL);

        let _held = shop.0.lock("k").acquire().await?;
        let busy = |outcome: Outcome<Duration>| outcome.map(drop).map_err(|error| error.kind());
        assert_eq!(busy(shop.left_out().await), Err(LockErrorKind::TimedOut));
        assert_eq!(busy(shop.explicit().await), Err(LockErrorKind::Busy));
        assert_eq!(shop.left_out_blocking().map_err(|error| error.kind()), Err(LockErrorKind::TimedOut));
        let by_hand = shop.0.lock("k").try_acquire().await.map(drop);
        assert_eq!(by_hand.map_err(|error| error.kind()), Err(LockErrorKind::Busy));
        Ok(())
    }

    /// A job that waits for its turn to be over runs a second time.
    #[tokio::test]
    async fn a_call_that_skips_does_not_wait() -> Outcome {
        let url = format!("memory://{}", kit::unique("skips"));
        let shop = Shop(LockManager::builder(url).default_wait(LIMIT).connect().await?);
        assert!(shop.skips().await?);
        let _held = shop.0.lock("k").acquire().await?;
        let started = Instant::now();
        assert!(!shop.skips().await?);
        assert!(started.elapsed() < LIMIT / 2, "{:?}", started.elapsed());
        Ok(())
    }

    #[tokio::test]
    async fn a_default_without_a_limit_outlasts_a_server_that_refuses() -> Outcome {
        let server = kit::RedisServer::start();
        let locks = LockManager::builder(server.url()).default_wait_forever().connect().await?;
        let shop = Arc::new(Shop(locks));
        let held = shop.0.lock("k").acquire().await?;
        let explicit = shop.explicit().await.map(drop).map_err(|error| error.kind());
        assert_eq!(explicit, Err(LockErrorKind::Busy), "the attribute wins");
        assert!(!shop.skips().await?, "a call that skips does not wait");
        assert!(shop.0.lock("k").try_acquire().await.is_err_and(|error| error.is_busy()));
        held.release().await?;

        server.run::<()>("CONFIG SET maxmemory 1");
        let waits = tokio::spawn({
            let shop = Arc::clone(&shop);
            async move { shop.left_out().await }
        });
        tokio::task::yield_now().await; // it asks first
        let limited = shop.0.lock("k").wait(LIMIT).acquire().await.map(drop);
        assert_eq!(limited.map_err(|error| error.kind()), Err(LockErrorKind::Misconfigured));
        assert!(!waits.is_finished(), "a refusal does not end its wait");
        server.run::<()>("CONFIG SET maxmemory 0");
        assert!(matches!(waits.await, Ok(Ok(_))));
        Ok(())
    }

    #[tokio::test]
    async fn options_that_contradict_a_default_are_an_error_that_names_both() -> Outcome {
        let shop = Shop::new().await?;
        for (outcome, words) in [
            (shop.kept_for_too_long().await, ["`min_hold` of 120s", "manager's `default_max_hold` of 60s"]),
            (shop.kept_longer_than_its_ttl().await, ["`min_hold` of 8s", "manager's `default_ttl` of 7s"]),
        ] {
            assert!(matches!(&outcome, Err(LockError::InvalidRequest { .. })), "{outcome:?}");
            let said = outcome.map_err(|error| error.to_string());
            assert!(
                words.iter().all(|word| said.as_ref().is_err_and(|said| said.contains(word))),
                "{said:?}"
            );
        }
        shop.kept().await
    }

    #[tokio::test]
    async fn a_default_out_of_range_fails_when_connecting() {
        let short = Duration::from_millis(9);
        for (builder, name) in [
            (LockManager::builder("memory://").default_ttl(short), "`default_ttl` cannot be used: 9ms"),
            (LockManager::builder("memory://").default_ttl(Duration::MAX), "`default_ttl`"),
            (
                LockManager::builder("memory://").default_max_hold(short),
                "`default_max_hold` cannot be used: 9ms",
            ),
        ] {
            let refused = builder.connect().await.err();
            assert!(
                matches!(&refused, Some(error @ LockError::InvalidSetting { .. }) if error.to_string().starts_with(name)),
                "{refused:?}"
            );
        }
    }
}
