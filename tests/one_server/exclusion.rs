//! Never two holders, and never a lock without a caller: an operator, a holder or a slow network
//! acts on a held lock.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kit::{
    LIMIT, LateProxy, Proxy, Quorum, RedisCluster, RedisServer, SECOND, connect, connect_to, eventually,
    skipped, unique, within,
};
use redlocked::{LockError, LockGuard, LockManager, LostReason, ReleaseOutcome, distributed_lock};

const MINUTE: Duration = Duration::from_secs(60);

/// A call that waits in the queue of `key` when this returns.
fn queued(locks: &LockManager, server: &RedisServer, key: &str) -> thread::JoinHandle<LockGuard> {
    let request = locks.lock(key).ttl(MINUTE).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking().unwrap());
    eventually("the waiter is queued", || server.run::<u32>(&format!("ZCARD lock:{key}%queue")) == 1);
    waiter
}

// A shorter ttl -----------------------------------------------------------------------------------

#[test]
fn a_lease_is_over_before_the_server_may_give_a_shorter_lock_away() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let (slow, other) = (connect_to(&proxy.url()), connect(&server));
    let guard = Arc::new(slow.lock("k").ttl(MINUTE).acquire_blocking().unwrap());
    proxy.hold_replies(true);
    let extending = {
        let guard = Arc::clone(&guard);
        thread::spawn(move || guard.extend_blocking(SECOND / 2))
    };
    let next = other.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert!(!guard.is_held(), "{:?} left", guard.remaining());
    assert!(next.is_held());
    proxy.hold_replies(false);
    assert!(matches!(extending.join().unwrap(), Err(LockError::Lost { .. })));
}

/// Only the end of the lease wakes the body.
#[test]
fn a_body_that_sleeps_ends_with_the_shorter_lease() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = connect_to(&proxy.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for keys in [vec!["a"], vec!["a", "b"]] {
        let request = locks.lock_all(keys).ttl(MINUTE).wait(LIMIT);
        let body = request.run_value(async |guard| {
            proxy.hold_replies(true);
            let _ = tokio::join!(guard.extend(SECOND / 2), std::future::pending::<()>());
        });
        let start = Instant::now();
        let outcome = runtime.block_on(async { tokio::time::timeout(LIMIT, body).await });
        proxy.hold_replies(false);
        assert!(matches!(outcome, Ok(Err(LockError::Lost { .. }))), "{outcome:?}");
        assert!(start.elapsed() > SECOND / 4);
        eventually("the lock is released", || server.keys().is_empty());
    }
}

// Late requests -----------------------------------------------------------------------------------

/// The URL of a user without the right to close its earlier connection.
fn without_client_kill(server: &RedisServer, proxy: &LateProxy) -> String {
    let rules = "ACL SETUSER shop on >pass resetchannels ~lock:* &lock:* +@all -client +client|info";
    let _: String = server.run(rules);
    proxy.url().replace("redis://", "redis://shop:pass@")
}

#[test]
fn a_waiter_that_asked_again_long_ago_does_not_shorten_what_it_holds_now() {
    let server = RedisServer::start();
    let proxy = LateProxy::to(server.port());
    let locks = LockManager::connect_blocking(without_client_kill(&server, &proxy)).unwrap();
    let first = connect(&server).lock("k").ttl(MINUTE).acquire_blocking().unwrap();
    let waiter = queued(&locks, &server, "k");
    proxy.keep();
    eventually("the waiter asks again, and the proxy keeps the request", || proxy.kept() > 0);
    proxy.cut();
    drop(first);
    let guard = waiter.join().unwrap();
    eventually("the holder has claimed the lock", || guard.remaining() > MINUTE / 2);
    proxy.deliver();
    arrived(&server);
    let pttl: u64 = server.run("PTTL lock:k");
    assert!(Duration::from_millis(pttl) >= guard.remaining(), "{pttl} ms");
    assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
}

#[test]
fn a_renewal_of_long_ago_does_not_shorten_what_was_extended_since() {
    let server = RedisServer::start();
    let proxy = LateProxy::to(server.port());
    let locks = LockManager::connect_blocking(without_client_kill(&server, &proxy)).unwrap();
    let alone = locks.lock("a").ttl(2 * SECOND).acquire_blocking().unwrap();
    // Enough locks to be renewed in one call.
    let shared: Vec<_> =
        (0..5).map(|n| locks.lock(format!("b{n}")).ttl(2 * SECOND).acquire_blocking().unwrap()).collect();
    eventually("the server has executed each kind of renewal", || server.run::<u64>("PTTL lock:b4") > 1900);
    proxy.keep();
    eventually("renewals are on their way", || proxy.kept() > 0);
    // Both kinds are due at about the same time.
    thread::sleep(SECOND / 2);
    proxy.cut();
    for guard in shared.iter().chain([&alone]) {
        guard.extend_blocking(MINUTE).unwrap();
    }
    proxy.deliver();
    arrived(&server);
    for guard in shared.iter().chain([&alone]) {
        let pttl: u64 = server.run(&format!("PTTL lock:{}", guard.key()));
        assert!(Duration::from_millis(pttl) >= guard.remaining(), "{pttl} ms");
    }
}

#[test]
fn a_shortening_of_long_ago_does_not_shorten_what_was_extended_since() {
    let server = RedisServer::start();
    let proxy = LateProxy::to(server.port());
    let locks = LockManager::connect_blocking(without_client_kill(&server, &proxy)).unwrap();
    let guard = locks.lock("k").ttl(MINUTE).acquire_blocking().unwrap();
    proxy.keep();
    thread::scope(|scope| {
        let shorter = scope.spawn(|| guard.extend_blocking(2 * SECOND));
        eventually("the shorter ttl is on its way", || proxy.kept() > 0);
        proxy.cut();
        shorter.join().unwrap().unwrap();
    });
    assert!(guard.remaining() <= 2 * SECOND, "the holder keeps to the shorter lease");
    guard.extend_blocking(MINUTE).unwrap();
    proxy.deliver();
    arrived(&server);
    let pttl: u64 = server.run("PTTL lock:k");
    assert!(Duration::from_millis(pttl) >= guard.remaining(), "{pttl} ms");
}

/// Waits until the server has executed the requests that a [`LateProxy`] held back, and has closed
/// those connections.
fn arrived(server: &RedisServer) {
    eventually("the server has executed the late requests", || {
        let clients: String = server.run("CLIENT LIST");
        clients.lines().filter(|line| line.contains("user=shop")).count() == 1
    });
}

// Forced releases and overwritten keys ------------------------------------------------------------

/// The server sends no push here, because the operator is the same client as the holder.
#[test]
fn a_holder_is_out_when_its_own_manager_takes_the_lock_away() {
    let (server, nodes) = (RedisServer::start(), Quorum::durable(3));
    let memory = unique("memory://taken");
    let urls = [server.url(), RedisCluster::of_this_process().url(), memory];
    let managers = urls.iter().map(|url| connect_to(url)).chain([nodes.manager()]);
    for (locks, renew) in managers.flat_map(|locks| [(locks.clone(), true), (locks, false)]) {
        let key = unique("taken");
        let guard = locks.lock(&key).ttl(MINUTE).renew(renew).acquire_blocking().unwrap();
        let next = locks.lock(&key).ttl(MINUTE).wait(LIMIT);
        let next = thread::spawn(move || next.acquire_blocking().unwrap());
        let holder = locks.force_release_blocking(&key).unwrap().unwrap();
        assert!(holder.name().is_some(), "{holder}");
        assert!(!guard.is_held(), "{:?} left", guard.remaining());
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::AlreadyLost));
        // A waiter of this process is next, and keeps the lock.
        let next = next.join().unwrap();
        assert!(next.is_held());
        assert!(locks.lock(&key).acquire_blocking().unwrap_err().is_busy());
        assert_eq!(next.release_blocking(), Ok(ReleaseOutcome::Released));
        assert_eq!(locks.inspect_blocking(&key), Ok(None));
    }
}

/// The operator has gone when the server executes its request, and another caller holds the lock.
#[test]
fn a_force_release_that_arrives_late_takes_nothing_from_a_later_holder() {
    for permits in [1, 3] {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        let locks = connect(&server);
        let operator = LockManager::builder(proxy.url()).io_timeout(SECOND / 2).connect_blocking().unwrap();
        let hung = locks.lock("k").permits(permits).ttl(MINUTE).acquire_blocking().unwrap();
        let value: String = server.run("GET lock:k");
        let name = match permits {
            1 => value,
            _ => value.replace("%holders|3|", "%holders|"),
        };
        let digits = digits_of(&name);
        proxy.stop_at(&digits);
        let call = thread::spawn(move || operator.force_release_blocking("k"));
        eventually("its request is under way", || proxy.has_stopped());
        proxy.hold_replies(true);
        let outcome = call.join().unwrap();
        assert!(matches!(outcome, Err(LockError::Unavailable { .. })), "{outcome:?}");
        assert_eq!(hung.release_blocking().unwrap(), ReleaseOutcome::Released);
        let next = locks.lock("k").permits(permits).ttl(MINUTE).acquire_blocking().unwrap();
        let value: String = server.run("GET lock:k");
        let _: () = server.run("CONFIG SET slowlog-log-slower-than 0");
        proxy.let_pass();
        // The log cuts off long arguments.
        eventually("it arrives late", || has_executed(&server, &digits[..20]));
        assert_eq!(server.run::<String>("GET lock:k"), value);
        assert_eq!(next.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
}

/// The name of what is in a key: its bytes in hexadecimal digits.
fn digits_of(value: &str) -> String {
    value.bytes().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"))
}

/// Whether the server, which logs each command, has executed one with an argument that begins so.
fn has_executed(server: &RedisServer, argument: &str) -> bool {
    let log: redis::Value = redis::cmd("SLOWLOG").arg("GET").arg("-1").query(&mut server.client()).unwrap();
    format!("{log:?}").contains(argument)
}

/// Between its two requests, the holder that the call has seen releases the lock.
#[test]
fn a_force_release_takes_a_lock_that_changes_hands_from_the_next_holder() {
    for has_next in [true, false] {
        let server = RedisServer::start();
        let proxy = Proxy::to(server.port());
        let (locks, operator) = (connect(&server), connect_to(&proxy.url()));
        let takes = |label: &str| locks.lock("k").ttl(MINUTE).label(label).acquire_blocking().unwrap();
        let seen = takes("seen");
        proxy.stop_at(&digits_of(&server.run::<String>("GET lock:k")));
        let call = thread::spawn(move || operator.force_release_blocking("k").unwrap());
        eventually("its request is under way", || proxy.has_stopped());
        assert_eq!(seen.release_blocking().unwrap(), ReleaseOutcome::Released);
        let next = has_next.then(|| takes("next"));
        proxy.let_pass();
        let former = call.join().unwrap();
        assert_eq!(former.as_ref().and_then(|former| former.function()), has_next.then_some("next"));
        assert!(!server.run::<bool>("EXISTS lock:k"));
        let outcome = next.map(|next| next.release_blocking().unwrap());
        assert_eq!(outcome, has_next.then_some(ReleaseOutcome::AlreadyLost));
    }
}

#[test]
fn in_memory_a_holder_hears_that_another_manager_took_the_lock_away() {
    let url = unique("memory://taken");
    let [locks, operator] = [&url, &url].map(|url| connect_to(url));
    for renew in [true, false] {
        for names in [false, true] {
            let guard = locks.lock("k").ttl(MINUTE).renew(renew).acquire_blocking().unwrap();
            if names {
                let seen = operator.inspect_blocking("k").unwrap().unwrap();
                assert!(operator.force_release_from_blocking("k", seen.holder()).unwrap());
            } else {
                assert!(operator.force_release_blocking("k").unwrap().is_some());
            }
            within(LIMIT, "the holder learns of the loss", || !guard.is_held());
            assert_eq!(guard.lost_reason(), Some(LostReason::KeyChanged), "as on a server");
            assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::AlreadyLost));
        }
    }
}

#[test]
fn a_lock_that_was_overwritten_with_another_type_is_lost_at_once() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let overwrite = |key: &str| {
        redis::pipe().atomic().del(key).hset(key, "a", 1).exec(&mut server.client()).unwrap();
    };
    let watched = locks.lock("watched").ttl(MINUTE).acquire_blocking().unwrap();
    eventually("the server tracks the key", || {
        server.run::<String>("INFO stats").contains("tracking_total_keys:1")
    });
    overwrite("lock:watched");
    within(5 * SECOND, "the holder learns of the loss", || !watched.is_held());
    // Overwritten before the server tracks the key.
    let released = locks.lock("released").ttl(MINUTE).acquire_blocking().unwrap();
    overwrite("lock:released");
    assert_eq!(released.release_blocking(), Ok(ReleaseOutcome::AlreadyLost));
    for key in ["lock:watched", "lock:released"] {
        assert_eq!(
            server.run::<String>(&format!("TYPE {key}")),
            "hash",
            "the key of the other application stays"
        );
    }
}

// Keys of other applications ----------------------------------------------------------------------

fn publish(server: &RedisServer, channel: &str, text: &str) {
    let heard: i32 = redis::cmd("PUBLISH").arg(channel).arg(text).query(&mut server.client()).unwrap();
    assert_eq!(heard, 1);
}

#[test]
fn a_push_about_a_key_outside_of_the_prefix_is_dropped() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let _: String = server.run("SET other:feature enabled");
    let channels: Vec<String> = server.run("PUBSUB CHANNELS lock:%inbox:*");
    publish(&server, &channels[0], "granted|enabled|1|1||other:feature");
    // The client has handled the forged push before these calls return.
    for _ in 0..3 {
        locks.lock("k").run_value_blocking(|_| ()).unwrap();
    }
    assert_eq!(server.run::<i32>("EXISTS other:feature"), 1);
}

#[test]
fn a_push_about_another_lock_than_the_waiters_is_dropped() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let holder = other.lock("k").ttl(MINUTE).acquire_blocking().unwrap();
    let waiter = queued(&locks, &server, "k");
    let members: Vec<String> = server.run("ZRANGE lock:k%queue 0 0");
    let [token, _, inbox] = members[0].splitn(3, '|').collect::<Vec<_>>().try_into().unwrap();
    let (seconds, micros): (u64, u64) = server.run("TIME");
    let at = seconds * 1_000_000 + micros;
    publish(&server, inbox, &format!("granted|{token}|{at}|{at}||lock:other"));
    for _ in 0..3 {
        locks.lock("x").run_value_blocking(|_| ()).unwrap();
    }
    // A waiter that believed the push would return in this time.
    thread::sleep(SECOND / 20);
    assert!(!waiter.is_finished() && holder.is_held());
    drop(holder);
    assert!(waiter.join().unwrap().is_held());
}

#[test]
fn a_key_that_is_called_like_a_side_key_is_refused_everywhere() {
    let server = RedisServer::start();
    let urls = [server.url(), RedisCluster::of_this_process().url(), unique("memory://side")];
    for locks in urls.map(|url| connect_to(&url)) {
        let refused = |outcome: Result<(), LockError>, key: &str| {
            assert!(matches!(outcome, Err(LockError::InvalidKey { .. })), "{key}: {outcome:?}");
        };
        for key in ["victim%queue", "%clock", "a%clock", "%inbox:x", "{tag}%queue:victim", "{tag}%clock"] {
            refused(locks.lock(key).acquire_blocking().map(drop), key);
            refused(locks.lock(key).wait(SECOND).run_value_blocking(|_| ()), key);
            refused(locks.lock_all(["a", key]).acquire_blocking().map(drop), key);
            refused(locks.inspect_blocking(key).map(drop), key);
            refused(locks.force_release_blocking(key).map(drop), key);
        }
        for key in [unique("a%3Ab"), unique("100%"), unique("%25queue"), unique("clock")] {
            locks.lock(key).run_value_blocking(|_| ()).unwrap();
        }
    }
    assert!(kit::listed(&connect(&server), "*").unwrap().is_empty());
}

#[test]
fn a_prefix_that_side_keys_or_pushes_would_be_misread_by_is_refused() {
    for url in ["redis://127.0.0.1:1/", "redis+cluster://127.0.0.1:1", "memory://"] {
        for prefix in ["a%queue", "%clock:", "x%inbox:", "shop|"] {
            let refused = LockManager::builder(url).prefix(prefix).connect_lazy().map(drop);
            assert!(
                matches!(refused, Err(LockError::InvalidSetting { setting: "prefix", .. })),
                "{url} {prefix}: {refused:?}"
            );
        }
    }
    // The prefix and the key together would form `%queue`, a reserved suffix.
    let locks = LockManager::builder("memory://").prefix("shop%").connect_lazy().unwrap();
    let refused = locks.lock("queue").acquire_blocking().map(drop);
    assert!(matches!(refused, Err(LockError::InvalidKey { .. })), "{refused:?}");
}

// Fencing tokens ----------------------------------------------------------------------------------

#[test]
fn fencing_tokens_grow_when_the_data_are_replaced_under_a_connection() {
    let (server, older) = (RedisServer::start(), RedisServer::start());
    let locks = connect(&server);
    let fence = || locks.lock("k").wait(LIMIT).run_value_blocking(LockGuard::fencing_token).unwrap();
    let before = fence();
    let _: String = older.run("SET lock:%clock 1700000000000000");
    let _: String = server.run(&format!("REPLICAOF 127.0.0.1 {}", older.port()));
    eventually("the server has the older data", || {
        server.run::<u64>("GET lock:%clock") == 1_700_000_000_000_000
    });
    let _: String = server.run("REPLICAOF NO ONE");
    let after = fence();
    assert!(after > before, "{before}, then {after}");
}

#[test]
fn fencing_tokens_grow_behind_a_holder_without_one_when_the_data_are_replaced() {
    #[distributed_lock(key = "k", ttl = "60s", manager = locks, constant_key)]
    fn without_a_token(locks: &LockManager, body: impl FnOnce()) -> Result<(), LockError> {
        body();
        Ok(())
    }

    let server = RedisServer::start();
    let locks = connect(&server);
    let fence = |locks: &LockManager| {
        locks.lock("k").wait(LIMIT).run_value_blocking(LockGuard::fencing_token).unwrap()
    };
    let before = fence(&locks);
    let _: String = server.run("SET lock:%clock 1700000000000000");
    let mut waiter = None;
    without_a_token(&locks, || {
        let locks = locks.clone();
        waiter = Some(thread::spawn(move || fence(&locks)));
        eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
        // Data that are at most 40 ms older go unnoticed.
        thread::sleep(Duration::from_millis(50));
    })
    .unwrap();
    let after = waiter.unwrap().join().unwrap();
    assert!(after > before, "{before}, then {after}");
}

// Commands that the server refuses ----------------------------------------------------------------

#[test]
fn a_release_that_is_refused_is_told_at_once_and_done_as_soon_as_it_may_be() {
    let server = RedisServer::start();
    let _: String = server.run("ACL SETUSER shop on >pass resetchannels ~lock:* &lock:* +@all");
    let url = server.url().replace("redis://", "redis://shop:pass@");
    let locks = connect_to(&url);
    let guard = locks.lock("k").ttl(MINUTE).acquire_blocking().unwrap();
    // Some versions delete with a command of their own.
    let _: String = server.run(&format!("ACL SETUSER shop {}", server.known_rules("-del -delifeq -delex")));
    let refused = guard.release_blocking();
    assert!(matches!(refused, Err(LockError::Misconfigured { .. })), "{refused:?}");
    let _: String = server.run("ACL SETUSER shop +@all");
    within(5 * SECOND, "the lock is released", || server.keys().is_empty());
}

#[test]
fn a_release_that_the_server_cannot_do_now_is_told_at_once_and_done_as_soon_as_it_can() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start());
    if server.is_before_7() {
        skipped("scripts of this version write with too few replicas, too");
        return;
    }
    for (url, nodes) in [(server.url(), vec![&server]), (cluster.url(), cluster.primaries())] {
        let locks = LockManager::builder(url).io_timeout(2 * LIMIT).connect_blocking().unwrap();
        let guard = locks.lock("k").ttl(5 * MINUTE).acquire_blocking().unwrap();
        let needs_replicas = |count: u32| {
            for node in &nodes {
                let _: String = node.run(&format!("CONFIG SET min-replicas-to-write {count}"));
            }
        };
        needs_replicas(9);
        let start = Instant::now();
        let refused = guard.release_blocking();
        assert!(matches!(&refused, Err(LockError::Unavailable { .. })), "{refused:?}");
        assert!(start.elapsed() < LIMIT, "the error came after {:?}", start.elapsed());
        needs_replicas(0);
        within(5 * SECOND, "the lock is released", || locks.inspect_blocking("k").unwrap().is_none());
    }
}

/// A server that cannot save refuses all writes until its disk is repaired.
#[test]
fn a_server_that_cannot_save_is_waited_for() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let guard = locks.lock("held").ttl(MINUTE).acquire_blocking().unwrap();
    let (_, directory): (String, String) = server.run("CONFIG GET dir");
    std::fs::remove_dir_all(&directory).unwrap();
    let _: String = redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).query(&mut server.client()).unwrap();
    let _: redis::RedisResult<String> = server.try_run("BGSAVE");
    eventually("the server refuses writes", || {
        server.try_run::<String>("SET a b").is_err_and(|error| error.code() == Some("MISCONF"))
    });
    let request = locks.lock("wanted").ttl(MINUTE).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking());
    let refused = guard.release_blocking();
    assert!(matches!(&refused, Err(LockError::Unavailable { .. })), "{refused:?}");
    assert!(!waiter.is_finished(), "{:?}", waiter.join());
    let _: String = server.run("CONFIG SET stop-writes-on-bgsave-error no");
    assert!(waiter.join().unwrap().unwrap().is_held());
    within(5 * SECOND, "the refused release is done later", || server.run::<i32>("EXISTS lock:held") == 0);
}

// Clusters ----------------------------------------------------------------------------------------

/// Each connection keeps the access rules of its start, so the nodes can differ after a change of
/// the rules.
#[test]
fn in_a_cluster_each_node_does_what_it_can_and_none_is_taken_for_another() {
    let cluster = RedisCluster::start();
    let rules = |rules: &str| {
        for node in &cluster.nodes {
            let _: String = node.run(&format!("ACL SETUSER shop {}", node.known_rules(rules)));
        }
    };
    rules(
        "on >pass ~lock:* &* +@all -publish -subscribe -ssubscribe -spublish -client +client|info +client|kill",
    );
    let url = format!("redis+cluster://shop:pass@127.0.0.1:{}", cluster.nodes[1].port());
    let locks = connect_to(&url);
    let hands_over = || locks.capabilities_blocking().unwrap().hands_over();
    let warm_up = || {
        for key in ["a", "b", "c", "d", "e", "k"] {
            locks.lock(key).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
        }
    };
    warm_up();
    assert!(!hands_over());
    // The new connection to this node knows the new rules, so this node hands over.
    rules("+publish +subscribe +ssubscribe +spublish");
    let owner = cluster.owner_of("lock:k");
    let killed: i32 = owner.run("CLIENT KILL USER shop");
    assert!(killed > 0);
    eventually("the manager is connected again", || owner.run::<String>("CLIENT LIST").contains("user=shop"));
    warm_up();
    assert!(!hands_over(), "the other nodes cannot hand over");
    let _: String = owner.run("SET lock:k x PX 1000");
    let guard = locks.lock("k").ttl(MINUTE).wait(LIMIT).acquire_blocking().unwrap();
    let (start, remaining) = (Instant::now(), guard.remaining());
    let pttl: u64 = owner.run("PTTL lock:k");
    assert!(
        remaining <= Duration::from_millis(pttl) + start.elapsed(),
        "{remaining:?} of a lease, and {pttl} ms on the server"
    );
    drop(guard);
    for node in cluster.primaries() {
        let _: i32 = node.run("CLIENT KILL USER shop");
    }
    eventually("every node hands over", hands_over);
    // One node that cannot hand over is enough for the whole Cluster to report it.
    rules("-publish -subscribe -ssubscribe -spublish");
    let _: i32 = owner.run("CLIENT KILL USER shop");
    eventually("one node cannot hand over", || !hands_over());
}

// Several keys, and cohorts -----------------------------------------------------------------------

#[test]
fn a_lock_that_is_lost_while_the_next_is_waited_for_starts_all_over_and_keeps_none_for_its_min_hold() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let in_the_way = other.lock("c").ttl(MINUTE).acquire_blocking().unwrap();
    let request = locks.lock_all(["a", "b", "c"]).ttl(MINUTE).min_hold(MINUTE / 2).wait(MINUTE);
    let waiter = thread::spawn(move || request.acquire_blocking().unwrap());
    let waiting = |key: &str| server.run::<u32>(&format!("ZCARD lock:{key}%queue")) == 1;
    eventually("the caller waits for the last key", || waiting("c"));
    let _: String = server.run("SET lock:b thief PX 60000");
    // The caller has the first key again, and does not wait for the last one before it has the
    // second.
    eventually("the caller waits for the stolen key", || waiting("b") && !waiting("c"));
    assert!(in_the_way.is_held());
    let _: i32 = server.run("DEL lock:b");
    drop(in_the_way);
    let guard = waiter.join().unwrap();
    assert!(guard.is_held());
    for key in ["a", "b", "c"] {
        assert!(other.lock(key).acquire_blocking().unwrap_err().is_busy());
    }
}

#[test]
fn what_a_cohort_reserves_is_never_ahead_of_the_servers_time() {
    let server = RedisServer::start();
    // A minute of fencing tokens.
    let locks = LockManager::builder(server.url()).cohort(60_000_000).connect_blocking().unwrap();
    let first = locks.lock("k").ttl(MINUTE).acquire_blocking().unwrap();
    let before = server.client_commands();
    let next = locks.lock("k").ttl(MINUTE).wait(LIMIT);
    let next = thread::spawn(move || next.acquire_blocking().unwrap());
    eventually("the manager reserves the next fencing tokens", || server.client_commands() > before);
    let fence = first.fencing_token();
    drop(first);
    assert!(next.join().unwrap().fencing_token() > fence);
    let clock: u64 = server.run("GET lock:%clock");
    let (seconds, micros): (u64, u64) = server.run("TIME");
    assert!(clock <= seconds * 1_000_000 + micros, "{clock} at {seconds}.{micros:06}");
}
