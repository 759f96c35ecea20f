//! Redis, the network or another client misbehaves: each case on a real server.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kit::{
    DelayProxy, LIMIT, Proxy, RedisServer, SECOND, connect, dropped_before_its_reply, eventually, runtime,
};
use redlocked::{LockError, LockGuard, LockManager, ReleaseOutcome};

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(outcome: &Result<T, LockError>) {
    assert!(matches!(outcome, Err(LockError::Unavailable { .. })), "{outcome:?}");
}

#[track_caller]
fn assert_misconfigured<T: std::fmt::Debug>(outcome: &Result<T, LockError>) {
    assert!(matches!(outcome, Err(LockError::Misconfigured { .. })), "{outcome:?}");
}

// Other clients on the same key -------------------------------------------------------------------

#[test]
fn a_hand_written_set_nx_excludes_us_and_we_it() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let taken: Option<String> = server.run("SET lock:k x NX PX 60000");
    assert_eq!(taken.as_deref(), Some("OK"));
    let start = Instant::now();
    let error = locks.lock("k").wait(SECOND / 2).acquire_blocking().unwrap_err();
    assert!(start.elapsed() >= SECOND / 2);
    assert!(matches!(&error, LockError::TimedOut { key, .. } if &**key == "k"), "{error:?}");
    assert!(error.to_string().contains("a client of another kind"), "{error}");

    let _: i32 = server.run("DEL lock:k");
    let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    let taken: Option<String> = server.run("SET lock:k y NX PX 60000");
    assert_eq!(taken, None);
    let value: String = server.run("GET lock:k");
    let (secret, owner) = value.split_once('@').unwrap();
    assert_eq!(secret.len(), 22);
    assert!(owner.contains(&format!(":{}/", std::process::id())), "{owner}");
    let busy = connect(&server).lock("k").acquire_blocking().unwrap_err();
    for text in [format!("{busy} {busy:?}"), format!("{guard:?} {locks:?}")] {
        assert!(!text.contains(secret), "a token is never shown: {text}");
    }
}

#[test]
fn the_key_lives_exactly_as_long_as_the_ttl() {
    let server = RedisServer::start();
    let guard = connect(&server).lock("k").ttl(60 * SECOND).renew(false).acquire_blocking().unwrap();
    let pttl: u64 = server.run("PTTL lock:k");
    assert!((55_000..=60_000).contains(&pttl), "{pttl} ms");
    assert!(guard.remaining() < Duration::from_millis(pttl), "the holder gives up before the server does");
}

#[test]
fn a_lock_without_a_time_to_live_is_waited_for_without_a_spin() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let _: String = server.run("SET lock:k x");
    let _: String = server.run("CONFIG RESETSTAT");
    let error = locks.lock("k").wait(SECOND / 2).acquire_blocking().unwrap_err();
    assert!(error.to_string().contains("held until the key is deleted"), "{error}");
    let asked = server.client_commands();
    assert!((1..=30).contains(&asked), "{asked} requests in half a second");
}

#[test]
fn a_key_of_another_type_is_refused_with_the_servers_words() {
    let server = RedisServer::start();
    let _: i32 = server.run("HSET lock:k a 1");
    let start = Instant::now();
    let outcome = connect(&server).lock("k").wait(LIMIT).acquire_blocking();
    assert!(start.elapsed() < LIMIT / 2, "at once");
    assert_misconfigured(&outcome);
    assert!(outcome.unwrap_err().to_string().contains("WRONGTYPE"));
    assert_eq!(server.keys(), ["lock:k"], "and the foreign key stays");
}

#[test]
fn a_deleted_or_overwritten_key_is_lost_at_the_next_renewal() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for theft in ["DEL lock:k", "SET lock:k thief", "FLUSHALL"] {
        let ran_on = AtomicBool::new(false);
        let outcome = runtime.block_on(locks.lock("k").ttl(SECOND / 2).run_value(async |_| {
            let _: redis::Value = server.run(theft);
            std::future::pending::<()>().await;
            ran_on.store(true, Ordering::SeqCst);
        }));
        assert!(
            matches!(&outcome, Err(LockError::Lost { key, .. }) if &**key == "k"),
            "{theft}: {outcome:?}"
        );
        assert!(!ran_on.load(Ordering::SeqCst));
        let _: redis::Value = server.run("FLUSHALL");
    }
}

#[test]
fn a_theft_is_noticed_long_before_the_next_renewal() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for (theft, renew) in [("DEL", true), ("SET lock:k thief", true), ("FLUSHALL", false), ("EXPIRE", false)]
    {
        let request = locks.lock("k").ttl(1000 * SECOND).renew(renew);
        let guard = request.acquire_blocking().unwrap();
        let bystander = locks.lock("bystander").ttl(1000 * SECOND).acquire_blocking().unwrap();
        eventually("the server tracks both keys", || {
            server.run::<String>("INFO stats").contains("tracking_total_keys:2")
        });
        let _: redis::Value = server.run(match theft {
            "DEL" => "DEL lock:k",
            "EXPIRE" => "PEXPIRE lock:k 1",
            other => other,
        });
        eventually("the lock is lost", || !guard.is_held());
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost, "{theft}");
        assert_eq!(bystander.is_held(), theft != "FLUSHALL", "{theft}");
        // Released before the flush, which would make its holder check the key again.
        let _ = bystander.release_blocking().unwrap();
        let _: redis::Value = server.run("FLUSHALL");
        eventually("the server tracks no key", || {
            server.run::<String>("INFO stats").contains("tracking_total_keys:0")
        });
    }
}

#[test]
fn a_renewed_lock_is_still_watched() {
    let server = RedisServer::start();
    let guard = connect(&server).lock("k").ttl(SECOND).acquire_blocking().unwrap();
    let renewals = |server: &RedisServer| server.client_commands();
    let before = renewals(&server);
    eventually("the lock is renewed", || renewals(&server) > before + 1);
    guard.extend_blocking(1000 * SECOND).unwrap();
    eventually("the server tracks the key", || {
        server.run::<String>("INFO stats").contains("tracking_total_keys:1")
    });
    let _: i32 = server.run("DEL lock:k");
    eventually("the lock is lost", || !guard.is_held());
}

#[test]
fn a_release_says_when_the_lock_had_been_stolen() {
    let server = RedisServer::start();
    let guard = connect(&server).lock("k").acquire_blocking().unwrap();
    let _: String = server.run("SET lock:k thief");
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    let value: String = server.run("GET lock:k");
    assert_eq!(value, "thief", "a guard never deletes the key of another client");
}

// Redis is down, silent, or starting --------------------------------------------------------------

#[test]
fn redis_down_is_unavailable_at_the_deadline_and_at_once_for_one_try() {
    let mut server = RedisServer::start();
    let locks = connect(&server);
    server.kill();
    let start = Instant::now();
    let outcome = locks.lock("k").acquire_blocking();
    assert_unavailable(&outcome);
    assert!(start.elapsed() < SECOND, "one try does not wait: {:?}", start.elapsed());

    let start = Instant::now();
    let outcome = locks.lock("k").wait(SECOND).acquire_blocking();
    assert_unavailable(&outcome);
    assert!(start.elapsed() >= SECOND, "the error comes at the deadline, not before");
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("`k`") && text.contains("refused"), "{text}");
}

#[test]
fn redis_that_comes_back_serves_who_is_still_waiting() {
    let mut server = RedisServer::start();
    let locks = connect(&server);
    server.kill();
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop));
    server.restart();
    waiter.join().unwrap().unwrap();
}

#[test]
fn silent_redis_is_unavailable_never_busy() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(SECOND / 4).connect_blocking().unwrap();
    let local = locks.lock("held here").acquire_blocking().unwrap();
    server.pause();
    for wait in [Duration::ZERO, SECOND / 10, SECOND] {
        let start = Instant::now();
        let outcome = locks.lock("k").wait(wait).acquire_blocking();
        assert_unavailable(&outcome);
        assert!(start.elapsed() >= wait, "the error comes at the deadline, not before");
    }
    // The server now executes the requests that it received while silent; none leaves a lock.
    server.resume();
    drop(local);
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_waiter_behind_a_foreign_lock_sees_that_redis_went_silent() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(SECOND / 4).connect_blocking().unwrap();
    let _: String = server.run("SET lock:k x PX 60000");
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("k").wait(2 * SECOND).acquire_blocking().map(drop))
    };
    eventually("the caller has sent its request", || server.client_commands() > 0);
    server.pause();
    assert_unavailable(&waiter.join().unwrap());
    server.resume();
}

#[test]
fn a_primary_that_becomes_a_replica_is_left_until_it_is_one_no_longer() {
    let primary = RedisServer::start();
    let server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("held").ttl(60 * SECOND).acquire_blocking().unwrap();
    let connections = |server: &RedisServer| -> u64 {
        let stats: String = server.run("INFO stats");
        stats
            .lines()
            .find_map(|line| line.strip_prefix("total_connections_received:"))
            .unwrap()
            .parse()
            .unwrap()
    };
    let before = connections(&server);
    let _: String = server.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let outcome = locks.lock("k").wait(SECOND / 2).acquire_blocking();
    assert_unavailable(&outcome);
    assert!(outcome.unwrap_err().to_string().contains("replica"));
    assert!(connections(&server) > before + 2, "connected again");
    let start = Instant::now();
    assert_unavailable(&locks.lock("k").acquire_blocking());
    assert!(start.elapsed() < SECOND, "one try does not wait");
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop));
    let _: String = server.run("REPLICAOF NO ONE");
    waiter.join().unwrap().unwrap();
    drop(guard);
}

#[test]
fn a_wrong_password_and_a_bad_address_say_so() {
    let server = RedisServer::with_password("right");
    drop(connect(&server).lock("k").acquire_blocking().unwrap());
    for credentials in [":wrong@", ""] {
        let url = format!("redis://{credentials}127.0.0.1:{}/", server.port());
        let outcome = LockManager::connect_blocking(&url).map(drop);
        assert_misconfigured(&outcome);
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("password"), "{text}");
        assert!(!text.contains("wrong@"), "{text}");

        // After `start()`, the first lock reports the same error at once, whatever its `wait`.
        let lazy = LockManager::builder(&url).connect_lazy().unwrap();
        let start = Instant::now();
        assert_misconfigured(&lazy.lock("k").wait(LIMIT).acquire_blocking());
        assert_misconfigured(&lazy.inspect_blocking("k"));
        assert!(start.elapsed() < LIMIT / 2);
    }
    let addresses = [
        ("", "redis://"),
        ("nonsense", "redis://"),
        ("ftp://127.0.0.1/", "memory://"),
        ("redis://:secret@127.0.0.1:port/", "redis://host"),
        ("redis://:secret@127.0.0.1,127.0.0.2/", "redis://host1,redis://host2"),
        ("redis+cluster://a,b/3", "Cluster"),
        ("redis+cluster://a,redis://:secret@b", "quorum"),
        #[cfg(not(feature = "tls"))]
        ("rediss://:secret@127.0.0.1/", "feature `tls`"),
        #[cfg(not(feature = "tls"))]
        ("rediss+cluster://:secret@a", "feature `tls`"),
        ("rediss+cluster://a,redis://:secret@b", "quorum"),
        ("redis://:secret@127.0.0.1/,redis://:secret@127.0.0.1/", "twice"),
    ];
    for (url, why) in addresses {
        let outcome = LockManager::connect_blocking(url).map(drop);
        assert!(matches!(outcome, Err(LockError::InvalidUrl { .. })), "{url}: {outcome:?}");
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains(why) && !text.contains("secret"), "{text}");
    }
    let nobody = LockManager::connect_blocking("redis://127.0.0.1:1/").map(drop);
    assert_unavailable(&nobody);
}

#[test]
fn questions_about_locks_need_a_server_too() {
    let mut server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(SECOND / 4).connect_blocking().unwrap();
    let _: i32 = server.run("HSET lock:hash a 1");
    let error = locks.inspect_blocking("hash").unwrap_err();
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("WRONGTYPE") && text.contains("`hash`") && !text.contains("cannot lock"), "{text}");
    server.pause();
    assert_unavailable(&locks.inspect_blocking("k"));
    server.resume();
    eventually("the server answers again", || locks.inspect_blocking("k") == Ok(None));
    let _: String = server.run("SCRIPT FLUSH");
    assert_eq!(locks.inspect_blocking("k"), Ok(None));
    server.kill();
    eventually("the server is gone", || kit::listed(&locks, "*").is_err());
    assert_unavailable(&locks.force_release_blocking("k"));
    locks.shutdown_blocking(SECOND).unwrap();
    let closed = locks.lock("k").wait(LIMIT).acquire_blocking();
    assert!(
        matches!(closed, Err(LockError::ManagerClosed { .. })),
        "a closed manager is not an outage: {closed:?}"
    );
}

#[test]
fn listing_walks_over_many_keys() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).prefix("we[ird]*:").connect_blocking().unwrap();
    let populate = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, i) end";
    redis::cmd("EVAL").arg(populate).arg(0).exec(&mut server.client()).unwrap();
    let _guard = locks.lock("k").acquire_blocking().unwrap();
    assert_eq!(kit::listed(&locks, "*").unwrap(), ["k"]);
}

#[test]
fn listing_may_take_longer_than_one_answer() {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), SECOND / 5);
    let locks = LockManager::builder(far.url()).io_timeout(3 * SECOND).connect_blocking().unwrap();
    let populate = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, i) end";
    redis::cmd("EVAL").arg(populate).arg(0).exec(&mut server.client()).unwrap();
    let _guard = locks.lock("k").acquire_blocking().unwrap();
    let start = Instant::now();
    assert_eq!(kit::listed(&locks, "*").unwrap(), ["k"]);
    assert!(start.elapsed() > 3 * SECOND, "{:?}", start.elapsed());
}

// Lost connections, lost replies, lost scripts ----------------------------------------------------

#[test]
fn a_cut_connection_ends_neither_a_wait_nor_a_lock() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("held").ttl(SECOND).acquire_blocking().unwrap();
    let _: String = server.run("SET lock:k x");
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop))
    };
    for _ in 0..5 {
        // A connection that has subscribed to its inbox counts as one of this type.
        let killed: i32 = server.run("CLIENT KILL TYPE pubsub");
        assert!(killed >= 1);
        let before = server.client_commands();
        eventually("the waiter asks again", || server.client_commands() > before);
    }
    let _: i32 = server.run("DEL lock:k");
    waiter.join().unwrap().unwrap();
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn a_forgotten_script_is_sent_again() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for _ in 0..3 {
        let guard = locks.lock("k").acquire_blocking().unwrap();
        let _: String = server.run("SCRIPT FLUSH");
        guard.extend_blocking(SECOND).unwrap();
        let _: String = server.run("SCRIPT FLUSH");
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        let _: String = server.run("SCRIPT FLUSH");
    }
}

#[test]
fn a_restart_without_data_is_a_loss() {
    let mut server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    server.kill();
    assert!(guard.is_held(), "no other caller can get it while the server is down");
    server.restart();
    eventually("the loss is noticed as soon as there is a connection", || !guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
}

#[test]
fn fencing_tokens_grow_even_when_the_server_forgets() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let fence = || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap().fencing_token();
    let mut last = fence();
    let mut grows = |what: &str| {
        let next = fence();
        assert!(next > last, "{what}: {next} after {last}");
        last = next;
    };
    for _ in 0..100 {
        grows("one by one");
    }
    let _: String = server.run("FLUSHALL");
    grows("everything flushed");
    // As after a failover that lost the last grants: older data, and new connections.
    let (clock, read): (u64, _) = (server.run("GET lock:%clock"), Instant::now());
    for _ in 0..50 {
        grows("before the failover");
    }
    eventually("older than a clock may be behind the time", || read.elapsed() > SECOND / 20);
    let _: String = server.run(&format!("SET lock:%clock {clock}"));
    let _: i32 = server.run("CLIENT KILL TYPE pubsub");
    eventually("the clock is raised", || server.run::<u64>("GET lock:%clock") > clock + 50);
    grows("older data");
}

#[test]
fn a_call_dropped_while_its_reply_is_on_the_way_leaves_no_key() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks =
        LockManager::builder(proxy.url()).own_thread(true).io_timeout(LIMIT).connect_blocking().unwrap();
    for _ in 0..20 {
        dropped_before_its_reply(&proxy, &server, 1, locks.lock("k").wait(LIMIT).acquire());
        locks.lock("other").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    }
}

#[test]
fn a_lost_reply_is_answered_by_asking_again() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    proxy.hold_replies(true);
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    eventually("the server has executed the request", || !server.keys().is_empty());
    proxy.cut();
    proxy.hold_replies(false);
    // The lock is not busy for its own caller: the server grants the same token again.
    let guard = waiter.join().unwrap();
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    assert!(server.keys().is_empty());
}

/// The server has done it, or not, when the connection breaks.
#[test]
fn a_downgrade_whose_reply_is_lost_is_sent_again_and_one_that_is_left_holds_either_kind() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let (locks, others) = (LockManager::builder(proxy.url()).io_timeout(LIMIT), connect(&server));
    let locks = locks.connect_blocking().unwrap();
    let is_shared = |others: &LockManager| {
        others.inspect_blocking("k").unwrap().is_some_and(|info| info.limit().is_none())
    };
    for leaves in [false, true] {
        let guard = Arc::new(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
        assert!(!is_shared(&others));
        proxy.hold_replies(true);
        if leaves {
            let mut call = Box::pin(guard.downgrade());
            let mut polled =
                || runtime().block_on(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())));
            eventually("the server has executed it", || !polled() && is_shared(&others));
            drop(call);
        } else {
            let caller = thread::spawn({
                let guard = Arc::clone(&guard);
                move || guard.downgrade_blocking()
            });
            eventually("the server has executed it", || is_shared(&others));
            proxy.cut();
            proxy.hold_replies(false);
            assert_eq!(caller.join().unwrap(), Ok(()));
        }
        proxy.cut();
        proxy.hold_replies(false);
        assert!(guard.is_held());
        drop(others.lock("k").shared().acquire_blocking().unwrap());
        assert!(others.lock("k").acquire_blocking().is_err_and(|error| error.is_busy()));
        let guard = Arc::into_inner(guard).unwrap();
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    drop(others.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    drop((locks, others));
    server.assert_nothing_left();
}

#[test]
fn a_reply_slower_than_the_lease_is_not_a_lock() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    proxy.hold_replies(true);
    let ttl = SECOND / 5;
    let waiter = thread::spawn(move || {
        locks.lock("k").ttl(ttl).wait(LIMIT).acquire_blocking().map(|guard| guard.remaining())
    });
    eventually("the server has executed the request", || !server.keys().is_empty());
    eventually("and the key has expired", || server.keys().is_empty());
    proxy.hold_replies(false);
    let remaining = waiter.join().unwrap().unwrap();
    assert!(!remaining.is_zero(), "the lease starts at the second request");
}

/// Whether the body of a holder whose renewals do not arrive is dropped before its key expires.
fn a_partitioned_holder_stops_in_time() -> bool {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut client = server.client();
    let (mut expires, mut left) = (None, None);
    let outcome = runtime.block_on(locks.lock("k").ttl(8 * SECOND).run_value(async |_| {
        struct Leaving<'a>(&'a mut Option<Instant>);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                *self.0 = Some(Instant::now());
            }
        }
        let _leaving = Leaving(&mut left);
        proxy.refuse(true);
        let now = Instant::now();
        let lasts: u64 = redis::cmd("PTTL").arg("lock:k").query(&mut client).unwrap();
        expires = Some(now + Duration::from_millis(lasts));
        std::future::pending::<()>().await;
    }));
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
    left < expires
}

#[test]
fn a_partitioned_holder_stops_before_the_server_gives_the_lock_away() {
    // The lease ends a hundredth of the ttl before the key: 80 ms. The machine may be busy for
    // longer: one of three.
    assert!((0..3).any(|_| a_partitioned_holder_stops_in_time()));
}

#[test]
fn many_held_locks_are_all_renewed_over_the_next_connection() {
    const THREADS: usize = 8;
    const EACH: usize = 2500;
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::builder(proxy.url()).io_timeout(SECOND / 4).connect_blocking().unwrap();
    let ttl = Duration::from_mins(10);
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let locks = locks.clone();
            thread::spawn(move || {
                let take = |number| locks.lock(format!("{thread}:{number}")).ttl(ttl).wait(LIMIT);
                (0..EACH).map(|number| take(number).acquire_blocking().unwrap()).collect::<Vec<_>>()
            })
        })
        .collect();
    let guards: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let ends: Vec<_> = guards.iter().map(|guard| Instant::now() + guard.remaining()).collect();
    let taken = Instant::now();
    eventually("a renewal is seen at each lock", || taken.elapsed() > SECOND / 5);
    proxy.cut();
    // Comparing all keys takes longer than `io_timeout`: the client must not take the server for
    // silent.
    let renewed =
        |(guard, end): (&LockGuard, &Instant)| Instant::now() + guard.remaining() > *end + SECOND / 10;
    eventually("each has been renewed", || guards.iter().zip(&ends).all(renewed));
}

// Costs in commands, threads and time -------------------------------------------------------------

/// The code of the error, however the version wraps it.
#[test]
fn an_error_in_the_middle_of_a_script_is_told_by_its_code() {
    let server = RedisServer::start();
    let locks = connect(&server);
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
    let _: String = server.run("CONFIG SET maxmemory 1");
    let error = locks.lock("k").acquire_blocking().map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("OOM command not allowed") && !text.contains("script"), "{text}");
    let _: String = server.run("CONFIG SET maxmemory 0");
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
}

#[test]
fn an_uncontended_lock_is_two_commands() {
    let server = RedisServer::start();
    // A lock that a busy machine holds for longer than a moment would be watched.
    server.tell_of_no_changes();
    let locks = connect(&server);
    drop(locks.lock("warm up").acquire_blocking().unwrap());
    eventually("released", || server.keys().is_empty());
    let requests = server.requests();
    for _ in 0..100 {
        locks.lock("k").run_value_blocking(|_| ()).unwrap();
    }
    assert_eq!(requests.count(), 200);
}

#[test]
fn many_waiters_of_one_process_cost_no_more_than_one() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let _: String = server.run("SET lock:k x PX 60000");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        locks.lock("warm up").run_value(async |_| ()).await.unwrap();
        let _: String = server.run("CONFIG RESETSTAT");
        let calls: Vec<_> =
            (0..200).map(|_| tokio::spawn(locks.lock("k").wait(3 * SECOND).acquire())).collect();
        for call in calls {
            assert!(call.await.unwrap().unwrap_err().is_busy());
        }
    });
    let asked = server.client_commands();
    // Each waiter asks once and leaves the queue once; one of them polls in case a push was lost.
    assert!((200..440).contains(&asked), "{asked} requests by 200 waiters in three seconds");
}

#[test]
fn a_held_lock_needs_no_thread() {
    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
    }
    let server = RedisServer::start();
    let locks = connect(&server);
    let first = locks.lock("first").acquire_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = threads();
    let guards = runtime.block_on(async {
        let mut guards = Vec::new();
        for number in 0..2_000 {
            guards.push(locks.lock(format!("k{number}")).acquire().await.unwrap());
        }
        guards
    });
    // Other tests of this process start and end threads meanwhile.
    assert!(threads() < before + 1_000, "{before} threads before, {} now", threads());
    assert_eq!(server.keys().len(), 2_001);
    drop((first, guards));
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn dropping_guards_waits_once_for_a_server_that_hangs_and_in_tokio_never() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(3 * SECOND).connect_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let take = |name: &str| -> Vec<_> {
        (0..100).map(|n| locks.lock(format!("{name}{n}")).acquire_blocking().unwrap()).collect()
    };
    let (in_tokio, outside) = (take("a"), take("b"));
    server.pause();
    let start = Instant::now();
    runtime.block_on(async { drop(in_tokio) });
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    drop(outside);
    assert!(start.elapsed() < LIMIT, "after the first one there is no connection: {:?}", start.elapsed());
    server.resume();
    eventually("no key is left", || server.keys().is_empty());
}
