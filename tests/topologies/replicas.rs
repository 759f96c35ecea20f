//! A lock that is held only when enough replicas confirm it: on a real primary with real replicas.

use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisServer, SECOND, SentinelGroup, eventually};
#[cfg(feature = "once")]
use redlocked::once::Once;
use redlocked::{LockError, LockKey, LockManager, LockRequest, ReleaseOutcome, TickMissed};

struct Servers {
    primary: RedisServer,
    replicas: [RedisServer; 2],
}

fn start() -> Servers {
    let primary = RedisServer::start();
    let _: String = primary.run("CONFIG SET repl-diskless-sync-delay 0");
    let replicas = [RedisServer::start(), RedisServer::start()];
    for replica in &replicas {
        let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        eventually("the replica is in sync", || {
            replica.run::<String>("INFO replication").contains("master_link_status:up")
        });
    }
    let mut client = primary.client();
    eventually("both replicas confirm", || {
        redis::cmd("SET").arg("nothing").arg("").arg("PX").arg(1).exec(&mut client).unwrap();
        redis::cmd("WAIT").arg(2).arg(100).query::<u32>(&mut client).unwrap() == 2
    });
    Servers { primary, replicas }
}

impl Servers {
    /// A replica has a quarter of this `io_timeout` to confirm a lock.
    fn connect(&self, replicas: u32) -> LockManager {
        let builder = LockManager::builder(self.primary.url()).replicas(replicas);
        builder.io_timeout(4 * SECOND).connect_blocking().unwrap()
    }
}

#[track_caller]
fn assert_not_replicated<T: std::fmt::Debug>(outcome: &Result<T, LockError>, few: u32, many: u32) {
    assert!(
        matches!(outcome, Err(LockError::NotReplicated { key, wanted, reached, .. })
            if &**key == "k" && *reached == few && *wanted == many),
        "{outcome:?}"
    );
}

#[test]
fn a_lock_is_on_the_replicas_when_the_caller_has_it() {
    let servers = start();
    let locks = servers.connect(2);
    let on_all = |key: &str| servers.replicas.iter().all(|it| it.run::<i32>(&format!("EXISTS {key}")) == 1);
    for _ in 0..20 {
        let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
        assert!(on_all("lock:k"));
        // The waiter gets the lock by a push, and enters only after the replicas confirm it.
        let waiter = {
            let locks = servers.connect(2);
            thread::spawn(move || locks.lock("k").ttl(60 * SECOND).wait(LIMIT).acquire_blocking().unwrap())
        };
        eventually("the waiter is queued", || servers.primary.keys().len() == 2);
        drop(guard);
        let guard = waiter.join().unwrap();
        assert!(on_all("lock:k"));
        assert!(guard.is_held());
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let calls: Vec<_> =
            (0..200).map(|n| tokio::spawn(locks.lock(format!("many{n}")).run_value(async |_| ()))).collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
    });
    eventually("no key is left", || servers.primary.keys().is_empty());
}

#[test]
fn readers_and_holders_of_permits_are_on_the_replicas_too() {
    let servers = start();
    let locks = servers.connect(2);
    for permits in [0, 1, 3] {
        let request = || match permits {
            0 => locks.lock("k").shared(),
            1 => locks.lock_all([LockKey::shared("j"), LockKey::permits("k", 3)]),
            permits => locks.lock("k").permits(permits),
        };
        let guards: Vec<_> = (0..3).map(|_| request().ttl(60 * SECOND).acquire_blocking().unwrap()).collect();
        for replica in &servers.replicas {
            assert_eq!(replica.run::<u32>("ZCARD lock:k%queue%holders"), 3);
        }
        let waits = locks.lock("k").wait(LIMIT);
        thread::scope(|scope| {
            let writer = scope.spawn(|| waits.acquire_blocking().unwrap());
            eventually("the writer is queued", || servers.primary.run::<u32>("ZCARD lock:k%queue") == 1);
            for guard in guards {
                assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
            }
            assert!(writer.join().unwrap().is_held());
        });
        eventually("no key is left", || servers.primary.keys().is_empty());
    }
    for replica in &servers.replicas {
        let _: String = replica.run("REPLICAOF NO ONE");
    }
    let outcome = locks.lock("k").shared().acquire_blocking();
    assert_not_replicated(&outcome, 0, 2);
    eventually("it is given back", || servers.primary.keys().is_empty());
}

#[test]
fn with_too_few_replicas_it_is_given_back() {
    let servers = start();
    servers.replicas[0].pause();
    let (all, one) = (servers.connect(2), servers.connect(1));
    let start = Instant::now();
    let outcome = all.lock("k").min_hold(60 * SECOND).acquire_blocking().map(drop);
    assert_not_replicated(&outcome, 1, 2);
    assert!(start.elapsed() < LIMIT / 2);
    assert!(!outcome.unwrap_err().is_busy());
    eventually("the lock is released", || servers.primary.keys().is_empty());
    one.lock("k").run_value_blocking(|_| ()).unwrap();

    // A grant by a push is not held without the replicas either; the lock goes to the next waiter.
    let guard = one.lock("k").acquire_blocking().unwrap();
    let waiter = {
        let all = all.clone();
        thread::spawn(move || all.lock("k").wait(LIMIT).acquire_blocking().map(drop))
    };
    eventually("the waiter is queued", || one.inspect_blocking("k").unwrap().unwrap().waiters() == 1);
    let next = {
        let one = one.clone();
        thread::spawn(move || one.lock("k").wait(LIMIT).acquire_blocking().map(drop))
    };
    eventually("the waiter is queued", || one.inspect_blocking("k").unwrap().unwrap().waiters() == 2);
    drop(guard);
    assert_not_replicated(&waiter.join().unwrap(), 1, 2);
    next.join().unwrap().unwrap();

    eventually("the lock is released", || servers.primary.keys().is_empty());

    // A call that is dropped before the confirmation leaves no key.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut call = std::pin::pin!(all.lock("k").ttl(600 * SECOND).acquire());
        let granted = async {
            while servers.primary.keys().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            outcome = &mut call => assert_not_replicated(&outcome, 1, 2),
            () = granted => {}
        }
    });
    eventually("no key is left", || servers.primary.keys().is_empty());

    servers.replicas[0].resume();
    eventually("the lock can be taken again", || all.lock("k").run_value_blocking(|_| ()).is_ok());
}

#[test]
fn with_frozen_replicas_a_call_ends_at_its_limit() {
    const MS: Duration = Duration::from_millis(1);
    let servers = start();
    let builder = LockManager::builder(servers.primary.url()).replicas(1).io_timeout(20 * SECOND);
    let locks = builder.connect_blocking().unwrap();
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
    for replica in &servers.replicas {
        replica.pause();
    }
    let ends_within = |limit: Duration, request: LockRequest| {
        let start = Instant::now();
        let outcome = request.acquire_blocking().map(drop);
        assert_not_replicated(&outcome, 0, 1);
        assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    };
    // The replicas have a quarter of `io_timeout` where the wait is as long.
    for wait in [1, 200] {
        ends_within(4 * SECOND, locks.lock("k").wait(wait * MS));
    }
    ends_within(4 * SECOND, locks.lock_all(["k", "l"]).wait(50 * MS));
    // Behind those of another caller.
    let start = Instant::now();
    let long = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("long").wait(LIMIT).acquire_blocking().map(drop))
    };
    eventually("it is granted", || servers.primary.run::<i32>("EXISTS lock:long") == 1);
    ends_within(8 * SECOND, locks.lock("k").wait(50 * MS));
    let long = long.join().unwrap();
    assert!(matches!(long, Err(LockError::NotReplicated { .. })), "{long:?}");
    assert!(start.elapsed() > 4 * SECOND, "a longer wait is not cut short: {:?}", start.elapsed());
    // A replica that is back in time confirms a lock about which it was asked before.
    let call = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("late").wait(LIMIT).acquire_blocking().map(drop))
    };
    eventually("it is granted", || servers.primary.run::<i32>("EXISTS lock:late") == 1);
    servers.replicas[0].resume();
    call.join().unwrap().unwrap();
    eventually("no key is left", || servers.primary.keys().is_empty());
}

#[test]
fn a_connection_that_has_ended_is_made_again() {
    let servers = start();
    let locks = servers.connect(1);
    for _ in 0..5 {
        locks.lock("k").run_value_blocking(|_| ()).unwrap();
        // Closes the connection that asks for confirmations. The server skips the test's own.
        let _: i32 = servers.primary.run("CLIENT KILL TYPE normal");
    }
    let _: String = servers.primary.run("ACL SETUSER shop on >pass ~* &* +@all -wait");
    let url = format!("redis://shop:pass@127.0.0.1:{}/", servers.primary.port());
    let locks = LockManager::builder(url).replicas(1).connect_blocking().unwrap();
    let error = locks.lock("k").acquire_blocking().map(drop).unwrap_err();
    assert!(
        matches!(error, LockError::Misconfigured { .. }) && error.to_string().contains("'wait'"),
        "{error}"
    );
    eventually("no key is left", || servers.primary.keys().is_empty());
}

#[test]
fn a_lock_that_all_replicas_have_survives_a_failover() {
    let mut group = SentinelGroup::start();
    let builder = LockManager::builder(group.url()).replicas(2).io_timeout(4 * SECOND);
    let locks = builder.connect_blocking().unwrap();
    let guard = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap();
    let before = group.primary().port();
    group.servers.iter_mut().find(|server| server.port() == before).unwrap().kill();
    group.wait_for_another_primary_than(before);
    // One replica is left; the manager requires two.
    eventually("the new primary is asked", || {
        matches!(
            locks.lock("other").acquire_blocking(),
            Err(LockError::NotReplicated { wanted: 2, reached: 0 | 1, .. })
        )
    });
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

/// What is kept of a call is on the replica when it returns: the primary is gone in the next moment.
#[test]
fn the_record_of_a_retried_tick_is_on_the_replicas_when_its_call_returns() {
    let servers = start();
    let locks = servers.connect(2);
    for n in 0..20 {
        let key = format!("job{n}");
        let request = locks.lock(&key).tick(60 * SECOND).tick_missed(TickMissed::Retry);
        request.run_value_blocking(|_| ()).unwrap();
        for replica in &servers.replicas {
            assert_eq!(replica.run::<u32>(&format!("EXISTS lock:{key}%queue%tick")), 1);
        }
    }
    // The replicas leave while a body runs. It has run, and its value says so; the release says the rest.
    let request = || locks.lock("k").tick(60 * SECOND).tick_missed(TickMissed::Retry);
    let guard = request().acquire_blocking().unwrap();
    let value = locks.lock("v").tick(60 * SECOND).tick_missed(TickMissed::Retry).run_value_blocking(|_| {
        for replica in &servers.replicas {
            let _: String = replica.run("REPLICAOF NO ONE");
        }
        7
    });
    assert_eq!(value, Ok(7));
    assert_not_replicated(&guard.release_blocking(), 0, 2);
    assert!(
        matches!(request().acquire_blocking(), Err(LockError::TickTaken { .. })),
        "it is stored on the primary"
    );
}

#[cfg(feature = "once")]
#[test]
fn the_result_of_a_body_that_runs_once_is_on_the_replicas_when_its_caller_has_it() {
    let servers = start();
    let locks = servers.connect(2);
    let once = |locks: &LockManager, key: &str| locks.lock(key).wait(LIMIT).once(60 * SECOND);
    for n in 0..20 {
        let key = format!("order{n}");
        assert_eq!(once(&locks, &key).run_blocking(|_| Ok::<_, LockError>(n)), Ok(Once::Ran(n)));
        for replica in &servers.replicas {
            let record: String = replica.run(&format!("GET lock:{key}%queue%once"));
            assert!(record.contains("|d|") && record.ends_with(&format!("|{n}")), "{record}");
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let calls: Vec<_> = (0..200)
            .map(|n| {
                tokio::spawn(once(&locks, &format!("many{n}")).run(async move |_| Ok::<_, LockError>(n)))
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().map(Once::into_inner), Ok(n));
        }
    });
    // The replicas leave while a body runs.
    let left = once(&locks, "k").run_blocking(|_| {
        for replica in &servers.replicas {
            let _: String = replica.run("REPLICAOF NO ONE");
        }
        Ok::<_, LockError>(7)
    });
    let Err(LockError::NotStored { reason, result: Some(result), .. }) = left else { panic!("{left:?}") };
    assert!(reason.contains("0 of 2 replicas"), "{reason}");
    assert_eq!(*result, b"7");
    let later = once(&servers.connect(0), "k").run_blocking(|_| Ok::<_, LockError>(8));
    assert_eq!(later, Ok(Once::Replayed(7)), "it is stored on the primary");
}

#[test]
fn memory_has_no_replicas() {
    let error = LockManager::builder("memory://").replicas(1).connect_lazy().map(drop).unwrap_err();
    assert!(matches!(error, LockError::InvalidSetting { setting: "replicas", .. }), "{error:?}");
    assert!(error.to_string().starts_with("`replicas` cannot be used: "), "{error}");
}
