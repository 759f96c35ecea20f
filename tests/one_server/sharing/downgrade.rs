//! A writer that becomes a reader: no other writer fits between, and the readers that wait enter.

use super::*;

/// Whether a body that has the lock alone runs, and how many others do.
#[derive(Default)]
struct Bodies {
    writers: AtomicU32,
    readers: AtomicU32,
}

impl Bodies {
    fn writes(&self) {
        let others = (self.writers.fetch_add(1, Ordering::SeqCst), self.readers.load(Ordering::SeqCst));
        assert_eq!(others, (0, 0), "a writer is alone");
        std::thread::yield_now();
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    fn reads(&self) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "no writer is beside a reader");
        std::thread::yield_now();
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_writer_that_is_downgraded_is_a_reader_with_its_token() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let guard = here.lock("k").acquire_blocking().unwrap();
        let token = guard.fencing_token();
        assert!(is_busy(there.lock("k").shared()));
        guard.downgrade_blocking().unwrap();
        guard.downgrade_blocking().unwrap();
        assert!(guard.is_held() && guard.fencing_token() == token);
        let readers = [&here, &there].map(|locks| locks.lock("k").shared().acquire_blocking().unwrap());
        assert!(readers.iter().all(|reader| reader.fencing_token() == token));
        assert!(is_busy(here.lock("k")) && is_busy(there.lock("k")));
        assert_eq!(there.inspect_blocking("k").unwrap().map(|info| info.inside()), Some(3));
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        assert!(is_busy(there.lock("k")), "the others are inside");
        drop(readers);
        let writer = there.lock("k").wait(LIMIT).acquire_blocking().unwrap();
        assert!(writer.fencing_token() > token);
        drop(writer);
        drop((here, there));
        store.assert_nothing_left();
    });
}

/// Each waits in a process of its own, and in that of the writer.
#[test]
fn the_readers_in_front_of_the_next_writer_enter_and_nobody_else() {
    on_each_with_a_queue(|store| {
        let [here, there] = [store.manager(), store.manager()];
        runtime().block_on(async {
            let guard = here.lock("k").acquire().await.unwrap();
            let mut waiters = Vec::new();
            let callers = [(&here, true), (&there, true), (&there, false), (&here, true), (&there, true)];
            for (place, (locks, reads)) in (1..).zip(callers) {
                let request = locks.lock("k").wait(LIMIT);
                let request = if reads { request.shared() } else { request };
                waiters.push(tokio::spawn(request.acquire()));
                while there.inspect("k").await.unwrap().is_none_or(|info| info.waiters() < place) {
                    tokio::task::yield_now().await;
                }
            }
            guard.downgrade().await.unwrap();
            let mut next = waiters.into_iter();
            let mut readers = vec![guard];
            for reader in next.by_ref().take(2) {
                let reader = reader.await.unwrap().unwrap();
                assert_eq!(reader.fencing_token(), readers[0].fencing_token());
                readers.push(reader);
            }
            let rest: Vec<_> = next.collect();
            assert!(rest.iter().all(|waiter| !waiter.is_finished()));
            let info = there.inspect("k").await.unwrap().unwrap();
            assert_eq!((info.inside(), info.waiters()), (3, 3));
            for reader in readers {
                reader.release().await.unwrap();
            }
            let mut tokens = Vec::new();
            for waiter in rest {
                let guard = waiter.await.unwrap().unwrap();
                tokens.push(guard.fencing_token());
                guard.release().await.unwrap();
            }
            assert!(tokens.is_sorted(), "{tokens:?}");
        });
        drop((here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn no_writer_fits_between_the_write_and_the_read_of_one_that_downgrades() {
    const ROUNDS: u32 = 15;
    on_each(|store| {
        let managers = [store.manager(), store.manager(), store.manager()];
        let bodies = Arc::new(Bodies::default());
        let written = Arc::new(AtomicU32::new(0));
        runtime().block_on(async {
            let mut calls = tokio::task::JoinSet::new();
            for (nth, locks) in (0..9).zip(managers.iter().cycle()) {
                let (locks, bodies, written) = (locks.clone(), Arc::clone(&bodies), Arc::clone(&written));
                calls.spawn(async move {
                    for round in 0..ROUNDS {
                        let request = locks.lock("k").wait(LIMIT);
                        if nth % 3 == 0 {
                            let guard = request.shared().acquire().await.unwrap();
                            bodies.reads();
                            drop(guard);
                            continue;
                        }
                        let guard = request.acquire().await.unwrap();
                        bodies.writes();
                        let mine = nth * ROUNDS + round;
                        written.store(mine, Ordering::SeqCst);
                        if nth % 3 == 1 {
                            guard.downgrade().await.unwrap();
                            bodies.reads();
                            tokio::task::yield_now().await;
                            assert_eq!(written.load(Ordering::SeqCst), mine, "nobody has written in between");
                        }
                        drop(guard);
                    }
                });
            }
            while let Some(call) = calls.join_next().await {
                call.unwrap();
            }
        });
        drop(managers);
        store.assert_nothing_left();
    });
}

#[test]
fn a_lock_that_was_downgraded_is_renewed_and_others_read_for_as_long() {
    const TTL: Duration = Duration::from_secs(2);
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        let guards = [("renewed", true), ("ends", false)].map(|(key, renews)| {
            let guard = here.lock(key).ttl(TTL).renew(renews).acquire_blocking().unwrap();
            guard.downgrade_blocking().unwrap();
            (key, renews, guard)
        });
        // Time itself is what is tested.
        std::thread::sleep(TTL * 3 / 2);
        for (key, renews, guard) in guards {
            assert_eq!(guard.is_held(), renews, "{key}");
            assert_eq!(is_busy(there.lock(key)), renews, "{key}");
        }
        drop((here, there));
        store.assert_nothing_left();
    });
}

/// The body has the lock, and a nested reader joins it.
#[test]
fn a_body_downgrades_its_lock_and_a_nested_reader_joins_it() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        here.lock("k")
            .run_blocking(|guard| {
                let nested = || here.lock("k").shared().reentrant(true).acquire_blocking();
                assert!(matches!(nested(), Err(LockError::Deadlock { .. })), "it is held alone");
                guard.downgrade_blocking()?;
                let joined = nested()?;
                assert!(joined.downgrade_blocking().is_err_and(|error| error.to_string().contains("joined")));
                assert!(there.lock("k").shared().acquire_blocking().is_ok());
                Ok::<_, LockError>(())
            })
            .unwrap();
        drop((here, there));
        store.assert_nothing_left();
    });
}

/// Polls so often at most, and drops the call.
async fn poll_and_drop<T>(call: impl Future<Output = T>, polls: u32) {
    let mut call = Box::pin(call);
    for _ in 0..polls {
        if poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_call_that_is_dropped_leaves_a_guard_that_releases_either_kind() {
    on_each(|store| {
        let [here, there] = [store.manager(), store.manager()];
        runtime().block_on(async {
            for polls in 0..3 {
                let guard = here.lock("k").acquire().await.unwrap();
                poll_and_drop(guard.downgrade(), polls).await;
                assert!(guard.is_held());
                assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
                assert!(there.lock("k").wait(LIMIT).acquire().await.is_ok());
                let guard = here.lock("k").wait(LIMIT).acquire().await.unwrap();
                poll_and_drop(guard.downgrade(), polls).await;
                guard.downgrade().await.unwrap();
                assert!(there.lock("k").shared().acquire().await.is_ok());
            }
        });
        drop((here, there));
        store.assert_nothing_left();
    });
}

#[test]
fn what_cannot_be_a_reader_is_refused_and_still_held() {
    #[track_caller]
    fn is_refused(guard: &LockGuard, reason: &str) {
        let error = guard.downgrade_blocking().unwrap_err();
        assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
        assert!(guard.is_held());
    }
    const HOUR: Duration = Duration::from_secs(3600);
    on_each(|store| {
        let locks = store.manager();
        is_refused(&locks.lock("k").permits(3).acquire_blocking().unwrap(), "a permit does not become");
        is_refused(
            &locks.lock("p").permits(1).min_hold(SECOND / 100).acquire_blocking().unwrap(),
            "`min_hold` limits",
        );
        let run = |guard: &LockGuard| is_refused(guard, "to its end");
        locks.lock("tick").tick(HOUR).run_value_blocking(run).unwrap();
        locks
            .lock("many")
            .rate(5, HOUR)
            .run_value_blocking(|guard| {
                let error = guard.downgrade_blocking().unwrap_err();
                assert!(error.to_string().contains("holds nothing"), "{error}");
            })
            .unwrap();
        if store.cluster.is_none() {
            let two = locks.lock_all(["a", "b"]).acquire_blocking().unwrap();
            is_refused(&two, "this guard holds 2");
        }
        let guard = locks.lock("lost").ttl(SECOND / 20).renew(false).acquire_blocking().unwrap();
        eventually("its lease is over", || !guard.is_held());
        assert!(matches!(
            guard.downgrade_blocking(),
            Err(LockError::Lost { reason: LostReason::Expired, .. })
        ));
    });
}
