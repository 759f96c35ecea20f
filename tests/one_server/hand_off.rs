//! A free lock goes straight to its longest waiter, whatever other clients do.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, RedisServer, SECOND, connect, connect_to, eventually, runtime};
use redlocked::{LockGuard, LockManager, ReleaseOutcome};

/// A waiter that is in the queue on the server when this returns.
fn queued(server: &RedisServer, locks: &LockManager, ttl: Duration) -> thread::JoinHandle<LockGuard> {
    let before: u32 = server.run("ZCARD lock:k%queue");
    let locks = locks.clone();
    let waiter = thread::spawn(move || locks.lock("k").ttl(ttl).wait(LIMIT).acquire_blocking().unwrap());
    eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == before + 1);
    waiter
}

#[test]
fn waiters_of_all_processes_are_served_in_the_order_of_their_arrival() {
    let server = RedisServer::start();
    let managers: Vec<_> = (0..4).map(|_| connect(&server)).collect();
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let guard = managers[0].lock("k").acquire().await.unwrap();
        let mut waiters = Vec::new();
        for number in 0..40_u32 {
            let (locks, order) = (managers[number as usize % 4].clone(), Arc::clone(&order));
            let mut call = Box::pin(async move {
                let guard = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
            eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == number + 1);
            waiters.push(tokio::spawn(call));
        }
        guard.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap();
        }
    });
    assert_eq!(*order.lock().unwrap(), (0..40).collect::<Vec<_>>());
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn asking_again_keeps_the_place() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let first = queued(&server, &locks, SECOND);
    let second = queued(&server, &other, SECOND);
    let places: Vec<String> = server.run("ZRANGE lock:k%queue 0 -1 WITHSCORES");
    let asked = server.client_commands();
    eventually("both waiters have asked again", || server.client_commands() >= asked + 4);
    assert_eq!(server.run::<Vec<String>>("ZRANGE lock:k%queue 0 -1 WITHSCORES"), places);
    drop(guard);
    drop(first.join().unwrap());
    drop(second.join().unwrap());
}

/// Commands that clients send for one acquisition. Without those that a process sends because time
/// passes on a slow machine: its first waiter asks again, its holder claims and compares.
fn commands_per_acquisition(waiters: u32, processes: u32) -> f64 {
    let rounds = if waiters < 1000 { 5 } else { 2 };
    let server = RedisServer::start();
    let managers: Vec<_> = (0..processes).map(|_| connect(&server)).collect();
    let start = Instant::now();
    runtime().block_on(async {
        for locks in &managers {
            locks.lock("warm up").wait(LIMIT).run_value(async |_| ()).await.unwrap();
        }
        let _: String = server.run("CONFIG RESETSTAT");
        let tasks: Vec<_> = (0..waiters)
            .map(|number| {
                let locks = managers[(number % processes) as usize].clone();
                tokio::spawn(async move {
                    for _ in 0..rounds {
                        locks
                            .lock("k")
                            .wait(LIMIT)
                            .run_value(async |_| tokio::task::yield_now().await)
                            .await
                            .unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let over_time = 10.0 * f64::from(processes) * start.elapsed().as_secs_f64();
    let (commands, acquisitions) = (server.client_commands(), f64::from(waiters * rounds));
    (f64::from(u32::try_from(commands).unwrap()) - over_time) / acquisitions
}

#[test]
fn the_commands_per_acquisition_do_not_grow_with_the_waiters() {
    // Two, or three. On a slow machine a grant is confirmed that arrives late, and a lock is watched
    // that is held for longer: two more for each, however many wait.
    let most = if RedisServer::start().has_native_delete() { 5.0 } else { 4.0 };
    for (waiters, processes) in [(2, 1), (2, 2), (50, 1), (50, 10), (1000, 1), (1000, 10)] {
        let commands = commands_per_acquisition(waiters, processes);
        assert!(commands < most, "{commands} with {waiters} waiters in {processes} processes");
    }
}

#[test]
fn waiters_from_before_the_connection_are_queued_like_all_others() {
    let mut server = RedisServer::start();
    let url = server.url();
    server.kill();
    let locks = LockManager::builder(&url).connect_lazy().unwrap();
    let (port, first) = (server.port(), Arc::new(AtomicBool::new(true)));
    runtime().block_on(async {
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let (request, first) = (locks.lock("k").wait(LIMIT), Arc::clone(&first));
                tokio::spawn(request.run_value(async move |guard| {
                    if first.swap(false, Ordering::SeqCst) {
                        let client = redis::Client::open(("127.0.0.1", port)).unwrap();
                        let mut client = client.get_connection().unwrap();
                        let mut waiters = redis::cmd("ZCARD");
                        waiters.arg("lock:k%queue");
                        eventually("all others are queued", || {
                            waiters.query::<u32>(&mut client).unwrap() == 19
                        });
                    }
                    guard.fencing_token()
                }))
            })
            .collect();
        tokio::task::yield_now().await;
        server.restart();
        let mut order = Vec::new();
        for call in calls {
            order.push(call.await.unwrap().unwrap());
        }
        assert!(order.is_sorted(), "{order:?}");
    });
}

#[test]
fn a_waiter_that_gives_up_leaves_the_queue() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = locks.lock("k").acquire_blocking().unwrap();
    assert!(other.lock("k").wait(SECOND).acquire_blocking().unwrap_err().is_busy());
    runtime().block_on(async {
        let mut call = Box::pin(other.lock("k").wait(LIMIT).acquire());
        poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
    });
    eventually("both waiters have left", || server.keys() == ["lock:k"]);
    drop(guard);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_dead_waiter_costs_the_others_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let (locks, dead) = (connect(&server), connect_to(&proxy.url()));
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let first = queued(&server, &dead, SECOND);
    let second = queued(&server, &locks, SECOND);
    // The dead waiter has lost its connection and its inbox; its place in the queue is left.
    proxy.refuse(true);
    eventually("the server has noticed", || {
        server.run::<Vec<String>>("PUBSUB CHANNELS lock:%inbox:*").len() == 1
    });
    let start = Instant::now();
    drop(guard);
    drop(second.join().unwrap());
    assert!(
        start.elapsed() < SECOND,
        "neither a claim nor a ttl delays the next holder: {:?}",
        start.elapsed()
    );
    proxy.refuse(false);
    drop(first.join().unwrap());
}

#[test]
fn a_deaf_waiter_costs_the_others_one_claim() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let deaf = LockManager::builder(proxy.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    let locks = connect(&server);
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let first = queued(&server, &deaf, 60 * SECOND);
    let second = queued(&server, &locks, 60 * SECOND);
    proxy.hold_replies(true);
    let start = Instant::now();
    drop(guard);
    let guard = second.join().unwrap();
    assert!(start.elapsed() >= SECOND / 2, "the first waiter had its claim");
    assert!(
        start.elapsed() < 10 * SECOND,
        "one claim, not one ttl, delays the next holder: {:?}",
        start.elapsed()
    );
    // The first waiter reads its grant only now, too late: it does not enter beside the holder.
    proxy.hold_replies(false);
    assert!(!first.is_finished());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    drop(first.join().unwrap());
}

#[test]
fn an_expired_lock_goes_to_the_head_of_its_queue() {
    let server = RedisServer::start();
    let locks = connect(&server);
    // This holder has exited.
    let _: String = server.run("SET lock:k AAAAAAAAAAAAAAAAAAAAAA@gone:1 PX 400");
    let waiter = queued(&server, &locks, SECOND);
    // A caller cannot overtake: one try at a free lock with a queue hands it to the first waiter.
    let barger = connect(&server);
    eventually("the lease is over", || server.run::<i64>("PTTL lock:k") <= 100 || waiter.is_finished());
    let tried = barger.lock("k").acquire_blocking();
    assert!(tried.is_err() || waiter.is_finished(), "{tried:?}");
    drop(tried);
    drop(waiter.join().unwrap());
}

#[test]
fn a_lock_that_was_handed_over_is_claimed_for_its_ttl() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for renew in [true, false] {
        let guard = locks.lock("k").acquire_blocking().unwrap();
        let waiter = {
            let locks = locks.clone();
            thread::spawn(move || {
                let request = locks.lock("k").ttl(60 * SECOND).wait(LIMIT).renew(renew);
                request.acquire_blocking().unwrap()
            })
        };
        eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
        drop(guard);
        let guard = waiter.join().unwrap();
        // The grant lasts only for the claim at first, unless this test was too slow to see it.
        let pttl: i64 = server.run("PTTL lock:k");
        assert!(pttl <= 1000 || guard.remaining() > SECOND, "{pttl} ms");
        eventually("the holder has claimed the lock", || guard.remaining() > 50 * SECOND);
        assert!(server.run::<i64>("PTTL lock:k") > 50_000);
        drop(guard);
        eventually("no key is left", || server.keys().is_empty());
    }
}

#[test]
fn fencing_tokens_grow_with_every_grant_whatever_happens() {
    let server = RedisServer::start();
    let (a, b) = (connect(&server), connect(&server));
    let mut last = 0;
    let mut grows = |guard: &LockGuard| {
        assert!(guard.fencing_token() > last, "{} after {last}", guard.fencing_token());
        last = guard.fencing_token();
    };
    for round in 0..20 {
        let guard = a.lock("k").wait(LIMIT).acquire_blocking().unwrap();
        grows(&guard);
        let waiter = queued(&server, &b, SECOND);
        drop(guard);
        let guard = waiter.join().unwrap();
        grows(&guard);
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        if round % 5 == 0 {
            let _: String = server.run("FLUSHALL");
        }
    }
}

#[test]
fn waiters_find_their_way_back_after_the_server_has_forgotten_everything() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let first = queued(&server, &locks, SECOND);
    let second = queued(&server, &connect(&server), SECOND);
    let _: String = server.run("FLUSHALL");
    // The flush deletes their places too, so either may be first.
    let threads = [first, second].map(|waiter| thread::spawn(move || drop(waiter.join().unwrap())));
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
}

#[test]
fn without_the_permission_to_publish_waiters_ask() {
    let server = RedisServer::start();
    let _: String = server.run("ACL SETUSER shop on >pass resetchannels ~lock:* +@all -publish -subscribe");
    let url = format!("redis://shop:pass@127.0.0.1:{}/", server.port());
    let locks = connect_to(&url);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let locks = connect_to(&url);
            thread::spawn(move || locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap())
        })
        .collect();
    drop(guard);
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert!(server.keys().is_empty(), "and no queue is left");
}

#[test]
fn a_monitor_that_listens_to_everything_is_no_waiter() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let mut monitor = server.client();
    let mut everything = monitor.as_pubsub();
    everything.psubscribe("*").unwrap();
    let (locks, dead) = (connect(&server), connect_to(&proxy.url()));
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let first = queued(&server, &dead, 60 * SECOND);
    proxy.refuse(true);
    eventually("the server has noticed", || {
        server.run::<Vec<String>>("PUBSUB CHANNELS lock:%inbox:*").len() == 1
    });
    drop(guard);
    let next = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert!(next.remaining() > SECOND, "the dead waiter was skipped without a delay");
    drop(next);
    proxy.refuse(false);
    drop(first.join().unwrap());
}

#[test]
fn a_client_of_another_kind_finds_the_lock_free_now_and_then() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            // At least one caller waits at all times.
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
                }
            });
        }
        let mut client = server.client();
        let mut set = redis::cmd("SET");
        set.arg("lock:k").arg("foreign").arg("NX").arg("PX").arg(10_000);
        eventually("the foreign client gets its turn", || {
            set.query::<Option<String>>(&mut client).unwrap().is_some()
        });
        let _: i32 = server.run("DEL lock:k");
        done.store(true, Ordering::SeqCst);
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn what_a_server_can_do_is_known() {
    let server = RedisServer::start();
    let full = connect(&server).capabilities_blocking().unwrap();
    assert!(full.hands_over() && full.tracks_changes());
    let _: String = server
        .run("ACL SETUSER shop on >pass resetchannels ~lock:* &lock:* +@all -client +client|info -pubsub");
    let url = format!("redis://shop:pass@127.0.0.1:{}/", server.port());
    let less = connect_to(&url).capabilities_blocking().unwrap();
    assert!(!less.hands_over() && !less.tracks_changes());
}

/// A user who may not publish: no hand-off.
fn without_hand_off(server: &RedisServer, more: &str) -> String {
    let _: String =
        server.run(&format!("ACL SETUSER shop on >pass resetchannels ~lock:* &lock:* +@all -pubsub {more}"));
    format!("redis://shop:pass@127.0.0.1:{}/", server.port())
}

#[test]
fn without_hand_off_a_release_wakes_the_waiters_of_other_processes() {
    let server = RedisServer::start();
    let url = without_hand_off(&server, "+client");
    let locks = connect_to(&url);
    let capabilities = locks.capabilities_blocking().unwrap();
    assert!(!capabilities.hands_over() && capabilities.tracks_changes());
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let locks = connect_to(&url);
            thread::spawn(move || locks.lock("k").wait(LIMIT).run_value_blocking(|_| ()).unwrap())
        })
        .collect();
    // The holder watches it, too, once it has had the lock for 100 ms.
    eventually("the server tracks the key for the holder and for each waiter", || {
        server.run::<String>("INFO stats").contains("tracking_total_items:4")
    });
    let asked = server.client_commands();
    thread::sleep(SECOND);
    let asked = server.client_commands() - asked;
    assert!(asked <= 20, "waiters do not poll: {asked} commands of three waiters in a second");
    drop(guard);
    for waiter in waiters {
        waiter.join().unwrap();
    }
}

#[test]
fn who_waits_for_a_client_of_another_kind_learns_of_its_release() {
    let server = RedisServer::start();
    for (url, user) in [(server.url(), "default"), (without_hand_off(&server, "+client"), "shop")] {
        let locks = connect_to(&url);
        let _: String = server.run("SET lock:k foreign PX 60000");
        let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop));
        eventually("the server tracks the waiter's key", || {
            server.run::<String>("INFO stats").contains("tracking_total_keys:1")
        });
        let asked = server.client_commands();
        thread::sleep(SECOND);
        let asked = server.client_commands() - asked;
        assert!(asked <= 8, "{user}: the waiter does not poll: {asked} commands in a second");
        let _: i32 = server.run("DEL lock:k");
        waiter.join().unwrap().unwrap();
    }
}

#[test]
fn without_pushes_of_any_kind_a_waiter_asks_from_time_to_time() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(without_hand_off(&server, "-client +client|info")).unwrap();
    let _: String = server.run("SET lock:k foreign PX 60000");
    let asked = server.client_commands();
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop));
    eventually("the waiter polls", || server.client_commands() - asked > 10);
    let _: i32 = server.run("DEL lock:k");
    waiter.join().unwrap().unwrap();
}

#[test]
fn a_server_that_throws_locks_away_is_refused() {
    let server = RedisServer::start();
    let _: String = server.run("CONFIG SET maxmemory 100mb");
    connect(&server);
    let _: String = server.run("CONFIG SET maxmemory-policy allkeys-lru");
    let refused = LockManager::connect_blocking(server.url()).unwrap_err();
    assert!(refused.to_string().contains("allkeys-lru"), "{refused}");
    LockManager::builder(server.url()).allow_eviction(true).connect_blocking().unwrap();
    LockManager::connect_blocking(format!("{}?allow_eviction=true", server.url())).unwrap();
}

#[test]
fn a_policy_that_is_changed_on_a_running_server_loses_no_held_lock() {
    let server = RedisServer::start();
    let _: String = server.run("CONFIG SET maxmemory 100mb");
    let locks = connect(&server);
    let guard = locks.lock("k").ttl(SECOND).acquire_blocking().unwrap();
    let may_evict = || locks.capabilities_blocking().is_ok_and(|capabilities| capabilities.may_evict());
    assert!(!may_evict());
    let _: String = server.run("CONFIG SET maxmemory-policy allkeys-lru");
    let _: u32 = server.run("CLIENT KILL TYPE pubsub");
    eventually("the manager has seen it", may_evict);
    // Longer than the ttl.
    thread::sleep(2 * SECOND);
    assert!(guard.is_held());
    LockManager::connect_blocking(server.url()).unwrap_err();
    let accepts = LockManager::builder(server.url()).allow_eviction(true).connect_blocking().unwrap();
    assert!(!accepts.capabilities_blocking().unwrap().may_evict(), "it does not look");

    let _: String = server.run("CONFIG SET maxmemory-policy noeviction");
    let _: u32 = server.run("CLIENT KILL TYPE pubsub");
    eventually("it has seen that, too", || !may_evict() && locks.capabilities_blocking().is_ok());
}

#[test]
fn a_replica_is_no_place_for_a_lock() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let refused = LockManager::connect_blocking(replica.url()).unwrap_err();
    assert!(refused.to_string().contains("is a replica"), "{refused}");
    // The replica may be promoted while a caller waits.
    let locks = LockManager::builder(replica.url()).connect_lazy().unwrap();
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop));
    let _: String = replica.run("REPLICAOF NO ONE");
    waiter.join().unwrap().unwrap();
}

#[test]
fn without_renewal_a_lock_that_was_handed_over_ends_a_ttl_after_that() {
    let ttl = 3 * SECOND;
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guard = other.lock("k").acquire_blocking().unwrap();
    let waiter = thread::spawn(move || {
        let guard = locks.lock("k").ttl(ttl).renew(false).wait(LIMIT).acquire_blocking().unwrap();
        (guard, Instant::now())
    });
    eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
    drop(guard);
    let (guard, granted) = waiter.join().unwrap();
    // It has less than a second before its claim, and none of the time that has passed since.
    eventually("it has claimed the lock", || guard.remaining() > SECOND);
    let since = granted.elapsed();
    let lasts = since + guard.remaining();
    assert!(lasts < ttl, "{lasts:?} of {ttl:?}");
    eventually("its lease ends", || !guard.is_held());
    eventually("so does its key", || server.run::<i32>("EXISTS lock:k") == 0);
}
