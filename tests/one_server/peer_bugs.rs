//! Bugs of other Rust locks for Redis, each reproduced with the version named, and the test that
//! fails if we copy it: below, in another module of this binary, or in `tests/attribute` and
//! `tests/topologies`.
//!
//! | what must not happen | library | the test |
//! | --- | --- | --- |
//! | the body runs although another caller holds the lock | `dist_lock_codegen` 0.0.1 | [`a_body_does_not_begin_while_somebody_else_has_the_lock`] |
//! | a wait that ends at once, or ends late | distributed-lock 0.2.0, redis-lock 0.5.1 | [`a_wait_is_neither_cut_short_nor_overrun`], `faults::a_hand_written_set_nx_excludes_us_and_we_it` |
//! | the wait has no end while Redis is down | rslock 0.10.0 | `faults::redis_down_is_unavailable_at_the_deadline_and_at_once_for_one_try` |
//! | a lost connection ends the wait | rlock 0.2.0 | `faults::a_cut_connection_ends_neither_a_wait_nor_a_lock` |
//! | a dropped guard, a panic or a dropped future leaves the key | rslock, redis-lock, distributed-lock, redisson 0.1.0 | `behaviour::dropping_a_guard_releases`, `behaviour::a_panic_in_the_body_releases`, `behaviour::a_body_dropped_in_the_middle_is_gone_before_the_lock_is`, `attribute::every_way_out_of_the_body_releases` |
//! | a guard that is dropped outside a runtime panics | distkit 0.7.1 | `behaviour::a_guard_outlives_its_runtime_and_its_manager` |
//! | a guard that is dropped stalls the executor | async-redis-lock 0.2.3, redlock 2.0.0 | `faults::dropping_guards_waits_once_for_a_server_that_hangs_and_in_tokio_never` |
//! | a future that is dropped while its SET is on the way leaves the key | all but rlock | `faults::a_call_dropped_while_its_reply_is_on_the_way_leaves_no_key`, `behaviour::a_caller_dropped_at_any_poll_leaves_nothing` |
//! | one of three nodes down: no lock, or a key left behind | redlock | [`one_of_three_nodes_down_costs_neither_the_lock_nor_a_key`], `quorum::any_minority_may_be_down` |
//! | two of three nodes down: a key left behind, or no end | redlock, rslock | `quorum::a_majority_that_is_down_is_unavailable_at_the_deadline_with_every_reason` |
//! | an extension that fails deletes the lock on nodes that had extended it | rslock, redsync 1.0.1 | [`an_extension_that_fails_deletes_nothing`] |
//! | a ttl below the drift: a lock of 18446744073709551615 ms, or a spin | redlock, rslock | `behaviour::bad_requests_are_refused_before_anything_is_sent`, [`the_shortest_lease_is_shorter_than_its_ttl`] |
//! | a retry delay of zero panics | rslock, redlock | there is no such option; the waits of zero: [`no_wait_is_one_try`] |
//! | milliseconds sent as seconds | redis-lock | `faults::the_key_lives_exactly_as_long_as_the_ttl` |
//! | one slow node during a renewal loses the lock, and the holder is not told | distributed-lock | [`a_slow_node_costs_no_renewal`], `quorum::a_node_that_falls_silent_is_owed_its_releases` |
//! | the renewing task has died, and the holder believes it holds the lock | distributed-lock, `rds_lock` 1.0.5 | `faults::a_partitioned_holder_stops_before_the_server_gives_the_lock_away`: the deadline is the holder's own |
//! | a free lock is refused because the server is 20 ms away | distributed-lock, redsync | [`a_server_far_away_is_slow_and_nothing_else`], [`nodes_far_away_are_slow_and_nothing_else`], `connecting::a_server_on_another_continent_can_be_connected_to` |
//! | two holders, because the body takes longer than the ttl | redis-lock | `behaviour::a_body_longer_than_its_ttl_keeps_the_lock` |
//! | a stale guard frees the next holder, because both have one token | distributed-lock, distkit | `behaviour::a_late_release_never_frees_the_next_holder`, [`a_stale_guard_dropped_leaves_the_next_one_of_the_same_request_alone`] |
//! | two tasks hold one lock through one shared handle | redisson, distkit | [`tasks_that_share_one_manager_exclude_each_other`] |
//! | a release after a theft reports success | rlock | `faults::a_release_says_when_the_lock_had_been_stolen` |
//! | a release that succeeded reports a failure | redisson | `behaviour::one_holder_at_a_time` |
//! | a thread for each held lock, a timer for each wait | rlock, distributed-lock | `faults::a_held_lock_needs_no_thread`, [`ten_thousand_long_waits_leave_nothing_behind`] |
//! | the number of requests grows with the number of waiters | rlock, `micro_types` 0.3.0 | `faults::many_waiters_of_one_process_cost_no_more_than_one`, `hand_off::the_commands_per_acquisition_do_not_grow_with_the_waiters` |
//! | a waiter that has died blocks a free lock | redisson | `hand_off::a_dead_waiter_costs_the_others_nothing` |
//! | different values give one key | rslock | [`values_that_differ_never_share_a_key`], `attribute::a_value_cannot_reach_another_key` |
//! | a placeholder is taken literally: one lock for all | proc-lock 0.4.0 | `tests/ui/fail/unresolved_names.rs`, `one_lock_for_all.rs` |
//! | an argument named `lock`, `key` or `guard` does not compile | proc-lock | `hygiene::arguments_named_like_our_variables` |
//! | arguments, generics, `&self` or `-> u32` do not compile; the future is not `Send` | `serial_test` 4.0.1 | `types::generics_and_lifetimes`, `methods::every_receiver`, `options::on_error`, `functions::send_stays_send` |
//! | keys of other applications on the same server break a release | redis-lock | [`keys_of_others_do_not_matter`] |
//! | a release that fails replaces what the body returned | redis-lock | [`what_a_body_returns_survives_a_server_that_is_gone`] |
//! | a nested call waits for its own caller until it times out | redisson | `behaviour::nobody_waits_for_himself`, `a_reentrant_call_joins` |
//! | an extension by zero deletes the lock and reports success | redis-py 8.1.0, redisson | `behaviour::extend_moves_the_end` |
//! | a bad address panics | rslock, redlock | `faults::a_wrong_password_and_a_bad_address_say_so` |
//! | a token in `Debug` or in a log | rslock, rlock | `faults::a_hand_written_set_nx_excludes_us_and_we_it` |

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kit::{DelayProxy, LIMIT, Quorum, RedisServer, SECOND, connect, eventually, runtime};
use redlocked::{LockError, LockManager, ReleaseOutcome, distributed_lock};

// Exclusion ---------------------------------------------------------------------------------------

struct Shop {
    locks: LockManager,
    began: AtomicBool,
}

impl Shop {
    #[distributed_lock(key = "k", constant_key, wait = "100ms", manager = self.locks)]
    async fn sell(&self) -> Result<(), LockError> {
        self.began.store(true, Ordering::SeqCst);
        Ok(())
    }

    #[distributed_lock(key = "k", constant_key, manager = self.locks)]
    fn count(&self) -> Result<(), LockError> {
        self.began.store(true, Ordering::SeqCst);
        Ok(())
    }

    #[distributed_lock(key = "k", constant_key, manager = self.locks, on_busy = (), on_error = |_| ())]
    fn nightly(&self) {
        self.began.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_body_does_not_begin_while_somebody_else_has_the_lock() {
    let server = RedisServer::start();
    let shop = Shop { locks: connect(&server), began: AtomicBool::new(false) };
    let _: String = server.run("SET lock:k x PX 60000");
    assert!(runtime().block_on(shop.sell()).unwrap_err().is_busy());
    assert!(shop.count().unwrap_err().is_busy());
    shop.nightly();
    assert!(!shop.began.load(Ordering::SeqCst));
    let _: i32 = server.run("DEL lock:k");
    shop.nightly();
    assert!(shop.began.load(Ordering::SeqCst));
}

#[test]
fn tasks_that_share_one_manager_exclude_each_other() {
    let server = RedisServer::start();
    let request = connect(&server).lock("k").wait(LIMIT);
    let (inside, rounds) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (request, inside, rounds) = (request.clone(), Arc::clone(&inside), Arc::clone(&rounds));
            runtime.spawn(async move {
                for _ in 0..20 {
                    let guard = request.clone().acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another caller is inside");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    rounds.fetch_add(1, Ordering::SeqCst);
                    drop(guard);
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    assert_eq!(rounds.load(Ordering::SeqCst), 320);
}

#[test]
fn a_stale_guard_dropped_leaves_the_next_one_of_the_same_request_alone() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let request = locks.lock("k").ttl(SECOND / 5).renew(false).wait(LIMIT);
    let stale = request.clone().acquire_blocking().unwrap();
    let guard = request.ttl(60 * SECOND).acquire_blocking().unwrap();
    let value: String = server.run("GET lock:k");
    drop(stale);
    // This request follows any release of the stale guard on the same connection.
    assert!(locks.lock("k").acquire_blocking().unwrap_err().is_busy());
    assert_eq!(server.run::<String>("GET lock:k"), value);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn values_that_differ_never_share_a_key() {
    struct Keys {
        locks: LockManager,
        server: RedisServer,
    }
    impl Keys {
        #[distributed_lock(key = "{first}:{second}", manager = self.locks)]
        fn of_both(&self, first: &str, second: &str) -> Result<Vec<String>, LockError> {
            Ok(self.server.keys())
        }
    }
    let server = RedisServer::start();
    let keys = Keys { locks: connect(&server), server };
    let pairs =
        [("a", "bc"), ("ab", "c"), ("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ("", "a:bc"), ("a:bc", "")];
    let mut seen = HashSet::new();
    for (first, second) in pairs {
        let held = keys.of_both(first, second).unwrap();
        assert_eq!(held.len(), 1, "{held:?}");
        assert!(seen.insert(held[0].clone()), "{held:?} of {first:?} and {second:?}");
    }
}

// Durations ---------------------------------------------------------------------------------------

#[test]
fn a_wait_is_neither_cut_short_nor_overrun() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let _holder = connect(&server).lock("k").ttl(600 * SECOND).acquire_blocking().unwrap();
    let start = Instant::now();
    let waiters: Vec<_> = [SECOND / 10, SECOND, 3 * SECOND]
        .into_iter()
        .map(|wait| {
            let request = locks.lock("k").wait(wait);
            thread::spawn(move || {
                let error = request.acquire_blocking().unwrap_err();
                assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
                (wait, start.elapsed())
            })
        })
        .collect();
    for waiter in waiters {
        let (wait, took) = waiter.join().unwrap();
        assert!(took >= wait && took < wait + 5 * SECOND, "{took:?} for {wait:?}");
    }
}

#[test]
fn no_wait_is_one_try() {
    let server = RedisServer::start();
    let locks = connect(&server);
    drop(locks.lock("warm up").acquire_blocking().unwrap());
    eventually("released", || server.keys().is_empty());
    let _: String = server.run("SET lock:k x PX 60000");
    let before = server.client_commands();
    assert!(locks.lock("k").wait(Duration::ZERO).acquire_blocking().unwrap_err().is_busy());
    // The second one asks who has the lock.
    assert!(server.client_commands() - before <= 2);
    assert_eq!(server.keys(), ["lock:k"], "no place in a queue is left");
}

#[test]
fn the_shortest_lease_is_shorter_than_its_ttl() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let ttl = Duration::from_millis(10);
    eventually("held, in one of many tries on a busy machine", || {
        let Ok(guard) = locks.lock("k").ttl(ttl).renew(false).acquire_blocking() else { return false };
        let remaining = guard.remaining();
        assert!(remaining < ttl, "{remaining:?} of {ttl:?}");
        !remaining.is_zero()
    });
    eventually("and the short lease is over", || server.keys().is_empty());
}

#[test]
fn ten_thousand_long_waits_leave_nothing_behind() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let hour = 3600 * SECOND;
    let runtime = runtime();
    // Waits of an hour that ended at once.
    for round in 0..10_000_u32 {
        let request = locks.lock(format!("k{}", round % 7)).wait(hour);
        drop(runtime.block_on(request.acquire()).unwrap());
    }
    // Waits of hours whose callers were dropped.
    let _: String = server.run("SET lock:k x PX 60000");
    runtime.block_on(async {
        for _ in 0..500 {
            let call = locks.lock("k").wait(hour).acquire();
            assert!(tokio::time::timeout(Duration::from_micros(10), call).await.is_err());
        }
    });
    eventually("the queue is empty", || {
        locks.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == 0)
    });
    let _: i32 = server.run("DEL lock:k");
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    eventually("no key and no queue is left", || server.keys().is_empty());
    // The engine's own task ends with its last handle.
    drop(locks);
    eventually("no task is left", || {
        runtime.block_on(tokio::task::yield_now());
        runtime.metrics().num_alive_tasks() == 0
    });
    server.assert_nothing_left();
}

// Slow, distant and lost servers ------------------------------------------------------------------

#[test]
fn a_server_far_away_is_slow_and_nothing_else() {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), Duration::from_millis(20));
    let locks = LockManager::builder(far.url()).io_timeout(5 * SECOND).connect_blocking().unwrap();
    for ttl in [2 * SECOND, 10 * SECOND] {
        let guard = locks.lock("k").ttl(ttl).acquire_blocking().unwrap();
        thread::sleep(3 * SECOND);
        assert!(guard.is_held(), "and renewed: {ttl:?}");
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    assert!(server.keys().is_empty());
}

#[test]
fn nodes_far_away_are_slow_and_nothing_else() {
    let quorum = Quorum::durable(3);
    let far = |node: usize| DelayProxy::to(quorum.servers[node].port(), Duration::from_millis(20));
    let proxies = [far(0), far(1), far(2)];
    let [first, second, third] = &proxies;
    let builder = LockManager::builder(first.url()).node(second.url()).node(third.url());
    let locks = builder.io_timeout(5 * SECOND).connect_blocking().unwrap();
    let guard = locks.lock("k").ttl(4 * SECOND).wait(LIMIT).acquire_blocking().unwrap();
    thread::sleep(6 * SECOND);
    assert!(guard.is_held(), "and renewed");
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    quorum.assert_nothing_left();
}

#[test]
fn a_slow_node_costs_no_renewal() {
    let quorum = Quorum::durable(3);
    let slow = DelayProxy::to(quorum.servers[2].port(), Duration::from_millis(40));
    let builder =
        LockManager::builder(quorum.servers[0].url()).node(quorum.servers[1].url()).node(slow.url());
    let locks = builder.connect_blocking().unwrap();
    let other = quorum.manager();
    let guard = locks.lock("k").ttl(SECOND).acquire_blocking().unwrap();
    let start = Instant::now();
    while start.elapsed() < 4 * SECOND {
        assert!(guard.is_held());
        let refused = other.lock("k").acquire_blocking().map(drop);
        assert!(refused.as_ref().is_err_and(LockError::is_busy), "{refused:?}");
        thread::sleep(SECOND / 10);
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    quorum.assert_nothing_left();
}

#[test]
fn one_of_three_nodes_down_costs_neither_the_lock_nor_a_key() {
    for down in 0..3 {
        let mut quorum = Quorum::durable(3);
        let early = quorum.manager();
        quorum.servers[down].kill();
        let late = quorum.manager();
        for locks in [&early, &late] {
            let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
            assert_eq!(quorum.copies("lock:k"), 2);
            assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
            for up in (0..3).filter(|node| *node != down) {
                eventually("no key is left", || quorum.servers[up].keys().is_empty());
            }
        }
    }
}

#[test]
fn an_extension_that_fails_deletes_nothing() {
    let quorum = Quorum::durable(3);
    let locks = quorum.builder().io_timeout(SECOND / 2).connect_blocking().unwrap();
    let guard = locks.lock("k").ttl(60 * SECOND).renew(false).acquire_blocking().unwrap();
    eventually("all nodes have it", || quorum.copies("lock:k") == 3);
    let value: String = quorum.servers[2].run("GET lock:k");
    quorum.servers[0].pause();
    quorum.servers[1].pause();
    let outcome = guard.extend_blocking(120 * SECOND);
    assert!(matches!(outcome, Err(LockError::Unavailable { .. })), "{outcome:?}");
    eventually("the other node has extended it", || quorum.servers[2].run::<u64>("PTTL lock:k") > 60_000);
    assert!(guard.is_held() && guard.remaining() < 60 * SECOND, "its first lease goes on");
    assert_eq!(quorum.servers[2].run::<String>("GET lock:k"), value);
    quorum.servers[0].resume();
    quorum.servers[1].resume();
    eventually("it is extended", || guard.extend_blocking(120 * SECOND).is_ok());
    assert!(guard.remaining() > 60 * SECOND);
    for server in &quorum.servers {
        assert_eq!(server.run::<String>("GET lock:k"), value);
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    quorum.assert_nothing_left();
}

#[test]
fn what_a_body_returns_survives_a_server_that_is_gone() {
    struct Fragile {
        locks: LockManager,
        server: Mutex<RedisServer>,
    }
    impl Fragile {
        #[distributed_lock(key = "k", constant_key, wait = "20s", manager = self.locks)]
        async fn by_the_attribute(&self) -> Result<u32, LockError> {
            self.server.lock().unwrap().kill();
            Ok(7)
        }
    }
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).io_timeout(SECOND / 4).connect_blocking().unwrap();
    let it = Fragile { locks, server: Mutex::new(server) };
    let request = || it.locks.lock("k").wait(LIMIT);
    let kill = || {
        it.server.lock().unwrap().kill();
        7
    };
    assert_eq!(request().run_value_blocking(|_| kill()), Ok(7));
    it.server.lock().unwrap().restart();
    assert_eq!(runtime().block_on(request().run_value(async |_| kill())), Ok(7));
    it.server.lock().unwrap().restart();
    assert_eq!(runtime().block_on(it.by_the_attribute()).unwrap(), 7);
}

#[test]
fn keys_of_others_do_not_matter() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for key in [
        "SET lock:foreign {",
        "HSET lock:hash a 1",
        "RPUSH lock:list a",
        "SADD lock: a",
        "ZADD lock:k%queued 1 a",
    ] {
        let _: redis::Value = server.run(key);
    }
    let foreign = server.keys().len();
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let waiter = thread::spawn({
        let request = locks.lock("k").wait(LIMIT);
        move || request.acquire_blocking().unwrap().release_blocking().unwrap()
    });
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    assert_eq!(waiter.join().unwrap(), ReleaseOutcome::Released);
    eventually("only ours are gone", || server.keys().len() == foreign);
}
