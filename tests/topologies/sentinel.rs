//! A primary that Sentinel reports, and its failover: real servers, replicas and sentinels.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use kit::{LIMIT, MASTER, RedisServer, SECOND, SentinelGroup, eventually, sentinel};
use redlocked::{LockError, LockManager, LostReason, ReleaseOutcome};

#[test]
fn the_primary_is_found_and_followed_when_it_moves() {
    let group = SentinelGroup::start();
    let locks = LockManager::connect_blocking(group.url()).unwrap();
    assert!(locks.capabilities_blocking().unwrap().hands_over());
    let guard = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap();
    let before = group.primary().port();
    assert_eq!(group.primary().keys(), ["lock:k"]);
    eventually("the replicas have the lock", || {
        group.servers.iter().all(|server| server.run::<i32>("EXISTS lock:k") == 1)
    });
    // A sentinel that does not answer is skipped.
    group.sentinels[0].pause();
    let fence = guard.fencing_token();
    group.fail_over();
    group.sentinels[0].resume();
    group.wait_for_another_primary_than(before);
    // For a moment the old primary still acts as one.
    eventually("locks are where the primary is", || {
        let later = locks.lock("other").wait(LIMIT).acquire_blocking().unwrap();
        assert!(later.fencing_token() > fence);
        group.primary().keys().contains(&"lock:other".to_owned())
    });
    assert!(guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn starts_of_a_rate_and_the_holders_that_are_left_outlive_a_failover() {
    let group = SentinelGroup::start();
    let locks = LockManager::connect_blocking(group.url()).unwrap();
    let start = || locks.lock("partner").rate(2, 1000 * SECOND).run_value_blocking(|_| ());
    assert_eq!((start(), start()), (Ok(()), Ok(())));
    let permit = |label: &str| {
        locks.lock("gpu").permits(2).label(label).ttl(1000 * SECOND).acquire_blocking().unwrap()
    };
    let (revoked, kept) = (permit("revoked"), permit("kept"));
    let holders = locks.inspect_blocking("gpu").unwrap().unwrap().holders().to_vec();
    let holder = holders.iter().find(|holder| holder.function() == Some("revoked")).unwrap();
    assert_eq!(locks.force_release_from_blocking("gpu", holder), Ok(true));
    eventually("its holder knows", || revoked.lost_reason() == Some(LostReason::Revoked));
    eventually("the replicas have the starts, and one holder", || {
        let count =
            |server: &RedisServer, key: &str| server.run::<i32>(&format!("ZCARD lock:{key}%queue%holders"));
        group.servers.iter().all(|server| (count(server, "partner"), count(server, "gpu")) == (2, 1))
    });
    let before = group.primary().port();
    group.fail_over();
    group.wait_for_another_primary_than(before);
    eventually("locks are where the primary is", || {
        let _other = locks.lock("other").wait(LIMIT).acquire_blocking().unwrap();
        group.primary().keys().contains(&"lock:other".to_owned())
    });
    let third = start().unwrap_err();
    assert!(third.retry_after() > Some(900 * SECOND), "{third}");
    assert!(kept.is_held());
    let _beside = permit("beside");
    assert!(locks.lock("gpu").permits(2).acquire_blocking().unwrap_err().is_busy());
}

/// Both go on over the next primary, and no writer fits between.
#[test]
fn a_writer_that_became_a_reader_is_one_on_the_next_primary() {
    let group = SentinelGroup::start();
    let connect = || LockManager::connect_blocking(group.url()).unwrap();
    let (locks, others) = (connect(), connect());
    let guard = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap();
    guard.downgrade_blocking().unwrap();
    let reader = others.lock("k").shared().ttl(1000 * SECOND).acquire_blocking().unwrap();
    assert_eq!(reader.fencing_token(), guard.fencing_token());
    eventually("the replicas have both", || {
        group.servers.iter().all(|server| server.run::<i32>("ZCARD lock:k%queue%holders") == 2)
    });
    let before = group.primary().port();
    group.fail_over();
    group.wait_for_another_primary_than(before);
    // For a moment the old primary still acts as one.
    for (locks, key) in [(&locks, "here"), (&others, "there")] {
        eventually("locks are where the primary is", || {
            let _probe = locks.lock(key).wait(LIMIT).acquire_blocking().unwrap();
            group.primary().keys().contains(&format!("lock:{key}"))
        });
    }
    assert!(guard.is_held() && reader.is_held());
    assert!(others.lock("k").acquire_blocking().is_err_and(|error| error.is_busy()));
    for guard in [guard, reader] {
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    drop(others.lock("k").acquire_blocking().unwrap());
}

/// Fails over after the primary vanishes: it closes its connections, or falls silent.
fn fails_over_under_load(vanish: fn(&mut RedisServer)) {
    let mut group = SentinelGroup::start();
    let builder = LockManager::builder(group.url()).io_timeout(SECOND / 2);
    let locks = builder.connect_blocking().unwrap();
    // The next renewal of these locks is minutes away.
    let kept = locks.lock("kept").ttl(1000 * SECOND).acquire_blocking().unwrap();
    let forgotten: Vec<_> = (0..3)
        .map(|n| locks.lock(format!("forgotten{n}")).ttl(1000 * SECOND).acquire_blocking().unwrap())
        .collect();
    eventually("the replicas have the lock", || {
        group.servers.iter().all(|server| server.run::<i32>("EXISTS lock:kept") == 1)
    });
    for guard in &forgotten {
        group.forget_on_replicas(guard.key());
    }

    let (wait, over) = (SECOND, AtomicBool::new(false));
    let (served, unserved) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for worker in 0..8 {
            let (locks, over, served, unserved) = (&locks, &over, &served, &unserved);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let start = Instant::now();
                    match locks.lock(format!("load{}", worker % 3)).wait(wait).acquire_blocking() {
                        Ok(guard) => {
                            served.fetch_add(1, Ordering::SeqCst);
                            let _ = guard.release_blocking();
                        }
                        Err(LockError::Unavailable { .. } | LockError::TimedOut { .. }) => {
                            unserved.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                    let took = start.elapsed();
                    assert!(took < wait + LIMIT / 2, "a call took {took:?}");
                }
            });
        }
        // The workers stop even when the test fails.
        let stop = Stop(&over);
        eventually("there is load", || served.load(Ordering::SeqCst) > 100);
        let before = group.primary().port();
        vanish(group.servers.iter_mut().find(|server| server.port() == before).unwrap());
        group.wait_for_another_primary_than(before);
        let then = served.load(Ordering::SeqCst);
        eventually("the load is served again", || served.load(Ordering::SeqCst) > then + 100);
        for guard in &forgotten {
            eventually("locks that the new primary does not have are lost", || !guard.is_held());
        }
        drop(stop);
    });
    assert!(unserved.load(Ordering::SeqCst) > 0, "there was a time without a primary");
    for guard in forgotten {
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    }
    assert!(kept.is_held());
    assert_eq!(kept.release_blocking().unwrap(), ReleaseOutcome::Released);
    eventually("no key is left", || group.primary().keys().is_empty());
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_primary_that_dies_under_load_is_followed_by_another() {
    fails_over_under_load(RedisServer::kill);
}

#[test]
fn a_primary_that_falls_silent_under_load_is_followed_by_another() {
    fails_over_under_load(|server| server.pause());
}

/// Behind a failover, the number is that of the replica, which has it.
#[test]
fn a_number_of_permits_that_is_set_outlives_a_failover() {
    let group = SentinelGroup::start();
    let locks = LockManager::connect_blocking(group.url()).unwrap();
    let before = group.primary().port();
    assert_eq!(locks.set_permits_blocking("k", 2).unwrap(), None);
    eventually("the replicas have the number", || {
        group.servers.iter().all(|server| server.run::<i32>("EXISTS lock:k%queue%permits") == 1)
    });
    group.fail_over();
    group.wait_for_another_primary_than(before);
    // For a moment the old primary still acts as one: the next primary does not have what is granted then.
    eventually("locks are where the primary is", || {
        let _other = locks.lock("other").wait(LIMIT).acquire_blocking().unwrap();
        group.primary().keys().contains(&"lock:other".to_owned())
    });
    let request = || locks.lock("k").permits(1_000);
    let held = [0; 2].map(|_| request().wait(LIMIT).acquire_blocking().unwrap());
    assert!(request().acquire_blocking().is_err_and(|error| error.is_busy()));
    assert_eq!(locks.set_permits_blocking("k", 3).unwrap(), Some(2));
    let _third = request().wait(LIMIT).acquire_blocking().unwrap();
    drop(held);
}

#[test]
fn a_loss_shows_also_while_nothing_is_asked() {
    let group = SentinelGroup::start();
    let locks = LockManager::connect_blocking(group.url()).unwrap();
    let guard = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap();
    eventually("the server tracks the key: no more commands are sent", || {
        group.primary().run::<String>("INFO stats").contains("tracking_total_keys:1")
    });
    group.forget_on_replicas("k");
    let primary = group.primary();
    let before = primary.port();
    primary.pause();
    group.wait_for_another_primary_than(before);
    eventually("the lock is lost", || !guard.is_held());
    primary.resume();
}

#[test]
fn who_is_asked_and_why_in_vain_is_told() {
    let primary = RedisServer::start();
    let sentinels = [sentinel(primary.port(), None, ""), sentinel(primary.port(), Some("s:cret"), "")];
    let [open, closed] = [sentinels[0].port(), sentinels[1].port()];
    let refused = |url: &str, why: &[&str]| {
        let error = LockManager::connect_blocking(url).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(why.iter().all(|why| text.contains(why)), "{text}");
        assert!(!text.contains("cret"), "{text}");
        error
    };
    for url in [
        format!("redis+sentinel://127.0.0.1:{open}/nobody"),
        format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{open}/{MASTER}/0"),
    ] {
        let start = Instant::now();
        let lazy = LockManager::builder(&url).connect_lazy().unwrap();
        let outcome = lazy.lock("k").wait(LIMIT).acquire_blocking().map(drop);
        assert_eq!(outcome.is_ok(), url.ends_with("/0"), "{outcome:?}");
        assert!(start.elapsed() < LIMIT / 2);
    }
    let unknown = format!("redis+sentinel://127.0.0.1:{open}/nobody");
    refused(&unknown, &["knows a master called `nobody`", &open.to_string()]);
    let nobody = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{closed}/{MASTER}");
    refused(
        &nobody,
        &[&format!("`{MASTER}`"), "127.0.0.1:1: ", "refused", &closed.to_string(), "sentinel_password"],
    );
    refused(&format!("{nobody}?sentinel_password=wr@cret"), &["refused", "`sentinel_password` is wrong"]);
    for url in ["redis+sentinel://:s@cret@a", "redis+sentinel://a/b?sentinel_pass=s@cret"] {
        assert!(matches!(refused(url, &["redis+sentinel://"]), LockError::InvalidUrl { .. }));
    }
    let url = format!("{nobody}?sentinel_password=s:cret");
    LockManager::connect_blocking(&url).unwrap().lock("k").run_value_blocking(|_| ()).unwrap();

    // The user and the database of the URL are for the primary, not for the sentinels.
    let _: String = primary.run("ACL SETUSER shop on >pass ~* &* +@all");
    let url = format!("redis+sentinel://shop:pass@127.0.0.1:{open}/{MASTER}/3");
    let locks = LockManager::connect_blocking(&url).unwrap();
    let _guard = locks.lock("k").acquire_blocking().unwrap();
    assert!(primary.run::<String>("CLIENT LIST TYPE pubsub").contains("user=shop"));
    assert!(primary.run::<String>("INFO keyspace").contains("db3:"));
    let error = refused(&url.replace(":pass@", ":cret@"), &["WRONGPASS", "says the sentinel"]);
    assert!(matches!(error, LockError::Misconfigured { .. }));
}

#[test]
fn a_sentinel_that_is_wrong_is_not_believed_for_ever() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let wrong = [sentinel(1, None, ""), sentinel(replica.port(), None, "")];
    let right = sentinel(primary.port(), None, "");
    let hosts: Vec<_> =
        wrong.iter().chain([&right]).map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    let locks = LockManager::builder(format!("redis+sentinel://{}/{MASTER}", hosts.join(",")))
        .connect_lazy()
        .unwrap();
    let _guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert_eq!(primary.keys(), ["lock:k"]);
}
