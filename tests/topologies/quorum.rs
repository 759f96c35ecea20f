//! Redlock on several real servers, some of which are killed, stopped, or lose their data.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, Quorum, SECOND, eventually};
use redlocked::{LockError, LockManager, ReleaseOutcome};

#[test]
fn a_lock_is_two_commands_on_each_node() {
    const LOCKS: u64 = 20;
    let quorum = Quorum::durable(5);
    let locks = quorum.manager();
    let guard = locks.lock("k").acquire_blocking().unwrap();
    eventually("all nodes have it", || quorum.copies("lock:k") == 5);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    quorum.assert_nothing_left();
    for server in &quorum.servers {
        let _: String = server.run("CONFIG RESETSTAT");
    }
    for _ in 0..LOCKS {
        drop(locks.lock("k").acquire_blocking().unwrap());
    }
    quorum.assert_nothing_left();
    for server in &quorum.servers {
        let commands = server.client_commands();
        assert!((2 * LOCKS..=2 * LOCKS + 4).contains(&commands), "{commands} commands for {LOCKS} locks");
    }
}

#[test]
fn any_minority_may_be_down() {
    const TTL: Duration = Duration::from_secs(3);
    let mut quorum = Quorum::durable(5);
    let locks = quorum.manager();
    let held = locks.lock("held").ttl(TTL).wait(LIMIT).acquire_blocking().unwrap();
    // Otherwise the two that are killed may be among the three that have answered.
    eventually("all nodes have it", || quorum.copies("lock:held") == 5);
    quorum.servers[0].kill();
    quorum.servers[3].kill();
    for _ in 0..20 {
        drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    }
    let other = quorum.manager();
    let error = other.lock("held").acquire_blocking().unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    // For longer than its ttl.
    thread::sleep(TTL + SECOND);
    assert!(held.is_held(), "the other nodes renew the lock");
    assert_eq!(held.release_blocking().unwrap(), ReleaseOutcome::Released);
    drop(other.lock("held").wait(LIMIT).acquire_blocking().unwrap());
}

#[test]
fn a_minority_that_is_silent_from_the_first_moment_costs_nothing() {
    let quorum = Quorum::durable(5);
    quorum.servers[1].pause();
    quorum.servers[4].pause();
    let start = Instant::now();
    let builder = quorum.builder().io_timeout(LIMIT).node_timeout(SECOND / 5);
    let locks = builder.connect_blocking().unwrap();
    for _ in 0..20 {
        let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    assert!(start.elapsed() < LIMIT / 2, "no call waited for the silent nodes: {:?}", start.elapsed());
    quorum.servers[1].resume();
    quorum.servers[4].resume();
    quorum.assert_nothing_left();
}

#[test]
fn a_node_that_falls_silent_is_owed_its_releases() {
    let quorum = Quorum::durable(3);
    let locks = quorum.builder().io_timeout(SECOND).connect_blocking().unwrap();
    let guards: Vec<_> =
        (0..20).map(|n| locks.lock(format!("k{n}")).ttl(1000 * SECOND).acquire_blocking().unwrap()).collect();
    eventually("all nodes have them", || quorum.copies("lock:k19") == 3);
    quorum.servers[2].pause();
    // The paused node misses the releases: some are not sent to it any more, others it has not
    // read.
    for guard in guards {
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        // In 20 steps, for longer than the `io_timeout` after which the node is given up.
        thread::sleep(SECOND / 16);
    }
    quorum.servers[2].resume();
    quorum.assert_nothing_left();
}

#[test]
fn a_majority_that_is_down_is_unavailable_at_the_deadline_with_every_reason() {
    let mut quorum = Quorum::durable(5);
    let locks = quorum.manager();
    for node in [0, 2, 4] {
        quorum.servers[node].kill();
    }
    let start = Instant::now();
    let error = locks.lock("k").wait(SECOND).acquire_blocking().unwrap_err();
    assert!(start.elapsed() >= SECOND, "{:?}", start.elapsed());
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    for node in [0, 2, 4] {
        let port = quorum.servers[node].port().to_string();
        assert!(error.to_string().contains(&port), "{error}");
    }
    for node in [1, 3] {
        eventually("no key is left", || quorum.servers[node].keys().is_empty());
    }
    let error = locks.lock("k").acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "one try, too: {error:?}");
    let refused = quorum.builder().connect_blocking().unwrap_err();
    assert!(refused.to_string().contains("3 of 5 nodes are needed"), "{refused}");
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().map(drop));
    quorum.servers[2].restart();
    waiter.join().unwrap().unwrap();
}

#[test]
fn an_attempt_that_fails_leaves_nothing_on_any_node() {
    let quorum = Quorum::durable(5);
    let locks = quorum.manager();
    for node in [0, 1, 2] {
        let _: String = quorum.servers[node].run("SET lock:k foreign PX 600000");
    }
    let error = locks.lock("k").acquire_blocking().unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    for node in [3, 4] {
        eventually("the lock is released", || quorum.servers[node].keys().is_empty());
    }
    let asked = quorum.servers[1].client_commands();
    let waiter = thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking());
    eventually("it has asked", || quorum.servers[1].client_commands() > asked);
    let _: i32 = quorum.servers[1].run("DEL lock:k");
    drop(waiter.join().unwrap().unwrap());
    for node in [0, 2] {
        assert_eq!(
            quorum.servers[node].run::<String>("GET lock:k"),
            "foreign",
            "the foreign lock is left alone"
        );
        let _: i32 = quorum.servers[node].run("DEL lock:k");
    }
    quorum.assert_nothing_left();
}

#[test]
fn what_a_failed_attempt_got_is_given_back_even_when_the_manager_is_dropped_at_once() {
    let quorum = Quorum::durable(5);
    for node in [0, 1, 2] {
        let _: String = quorum.servers[node].run("SET lock:k foreign PX 600000");
    }
    for _ in 0..20 {
        assert!(quorum.manager().lock("k").acquire_blocking().unwrap_err().is_busy());
    }
    for node in [3, 4] {
        eventually("the lock is released", || quorum.servers[node].keys().is_empty());
    }
}

#[test]
fn a_minority_that_forgets_is_repaired_and_a_majority_is_a_loss() {
    let quorum = Quorum::durable(5);
    let locks = quorum.manager();
    let guard = locks.lock("k").ttl(3 * SECOND).wait(LIMIT).acquire_blocking().unwrap();
    eventually("all nodes have it", || quorum.copies("lock:k") == 5);
    for node in [0, 1] {
        let _: i32 = quorum.servers[node].run("DEL lock:k");
    }
    eventually("repaired at a renewal", || quorum.copies("lock:k") == 5);
    assert!(guard.is_held());
    for node in [0, 1, 2] {
        let _: String = quorum.servers[node].run("SET lock:k thief PX 600000");
    }
    eventually("lost", || !guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    for node in [3, 4] {
        eventually("the lock is released", || quorum.servers[node].keys().is_empty());
    }
}

#[test]
fn what_is_left_of_a_stolen_lock_is_given_back() {
    let quorum = Quorum::durable(5);
    let locks = quorum.manager();
    let guard = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap();
    eventually("all nodes have it", || quorum.copies("lock:k") == 5);
    // Its next renewal is far away.
    for server in &quorum.servers {
        eventually("the node tracks the key", || {
            server.run::<String>("INFO stats").contains("tracking_total_keys:1")
        });
    }
    for node in [0, 1, 2] {
        let _: String = quorum.servers[node].run("SET lock:k thief PX 600000");
    }
    eventually("lost", || !guard.is_held());
    for node in [3, 4] {
        eventually("the lock is released", || quorum.servers[node].keys().is_empty());
    }
}

/// Another caller gets the lock once the guard is dropped.
#[test]
fn a_holder_that_has_lost_its_quorum_keeps_others_out_until_its_guard_is_dropped() {
    let mut quorum = Quorum::durable(5);
    let (a, b) = (quorum.manager(), quorum.manager());
    for node in [3, 4] {
        let _: String = quorum.servers[node].run("SET lock:k stranger PX 600000");
    }
    let guard = a.lock("k").ttl(1000 * SECOND).wait(LIMIT).acquire_blocking().unwrap();
    for server in &quorum.servers {
        eventually("the node tracks the key", || {
            server.run::<String>("INFO stats").contains("tracking_total_keys:1")
        });
    }
    // Node 2 alone keeps the lock of the guard.
    quorum.servers[1].kill();
    let _: String = quorum.servers[0].run("SET lock:k stranger PX 600000");
    for node in [3, 4] {
        let _: i32 = quorum.servers[node].run("DEL lock:k");
    }
    eventually("lost", || !guard.is_held());
    let error = b.lock("k").ttl(1000 * SECOND).wait(SECOND).acquire_blocking().unwrap_err();
    assert!(error.is_busy(), "{error}");
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    let next = b.lock("k").ttl(1000 * SECOND).wait(LIMIT).acquire_blocking().unwrap();
    assert!(next.is_held());
}

#[test]
fn a_node_that_has_forgotten_does_not_vote_until_every_lock_of_before_is_over() {
    let ttl = 3 * SECOND;
    let mut quorum = Quorum::forgetful(3);
    let (a, b) = (quorum.manager(), quorum.manager());
    // A restarted node may have forgotten a lock, so it does not vote at first. The time until this call is no part of
    // the test, so the manager waits for longer than that.
    let careful = quorum.builder().max_ttl(1000 * SECOND).connect_blocking().unwrap();
    let early = careful.lock("k").ttl(ttl).acquire_blocking().unwrap_err();
    assert!(early.to_string().contains("votes again in"), "{early}");
    let guard = a.lock("k").ttl(ttl).renew(false).wait(LIMIT).acquire_blocking().unwrap();
    for node in [0, 1] {
        quorum.servers[node].kill();
        quorum.servers[node].restart();
    }
    let next = b.lock("k").ttl(ttl).wait(LIMIT).acquire_blocking().unwrap();
    assert!(!guard.is_held(), "two nodes were free all the time");
    assert!(next.is_held() && next.fencing_token() > guard.fencing_token());
}

#[test]
fn fencing_tokens_grow_over_all_managers_whatever_the_nodes_clocks_say() {
    let quorum = Quorum::durable(3);
    let managers = [quorum.manager(), quorum.manager(), quorum.manager()];
    let mut last = 0;
    for round in 0..60 {
        let locks = &managers[round % 3];
        let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
        assert!(guard.fencing_token() > last, "{} after {last}", guard.fencing_token());
        last = guard.fencing_token();
        drop(guard);
        if round % 10 == 0 {
            // The fencing clock of one node runs ahead.
            let ahead = last + 1_000_000 * u64::try_from(round).unwrap();
            let _: String = quorum.servers[round % 3].run(&format!("SET lock:%clock {ahead}"));
        }
    }
}

#[test]
fn many_managers_exclude_each_other_and_all_are_served() {
    let quorum = Quorum::durable(3);
    let (inside, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let locks = quorum.manager();
                for _ in 0..25 {
                    let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
                    most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
                done.store(true, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert!(done.load(Ordering::SeqCst));
    quorum.assert_nothing_left();
}

#[test]
fn forgotten_scripts_are_sent_again() {
    let quorum = Quorum::durable(3);
    let locks = quorum.manager();
    let held = locks.lock("held").ttl(3 * SECOND).wait(LIMIT).acquire_blocking().unwrap();
    drop(locks.lock("k").acquire_blocking().unwrap());
    for _ in 0..3 {
        for server in &quorum.servers {
            let _: String = server.run("SCRIPT FLUSH");
        }
        let guard = locks.lock("k").acquire_blocking().unwrap();
        for server in &quorum.servers {
            let _: String = server.run("SCRIPT FLUSH");
        }
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    assert!(held.is_held());
    drop(held);
    quorum.assert_nothing_left();
}

#[test]
fn four_nodes_need_three() {
    let mut quorum = Quorum::durable(4);
    let locks = quorum.manager();
    quorum.servers[0].kill();
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    quorum.servers[1].kill();
    let error = locks.lock("k").wait(SECOND).acquire_blocking().unwrap_err();
    assert!(error.to_string().contains("3 of 4 nodes must agree"), "{error}");
}

#[test]
fn locks_can_be_looked_at_listed_and_taken_away() {
    let quorum = Quorum::durable(3);
    let locks = quorum.manager();
    let guard = locks.lock("a").acquire_blocking().unwrap();
    let _b = locks.lock("b").acquire_blocking().unwrap();
    let info = locks.inspect_blocking("a").unwrap().unwrap();
    assert!(info.holder().name().unwrap().ends_with(&std::process::id().to_string()));
    assert_eq!(kit::listed(&locks, "*").unwrap(), ["a", "b"]);
    assert_eq!(locks.keys_blocking().unwrap().len(), 2);
    assert_eq!(locks.nodes_blocking().unwrap().len(), 3);
    let _: String = quorum.servers[0].run("SET lock:minority foreign PX 600000");
    assert_eq!(locks.inspect_blocking("minority").unwrap(), None, "one node is no majority");
    let _: i32 = quorum.servers[0].run("DEL lock:minority");
    locks.force_release_blocking("a").unwrap().unwrap();
    eventually("the lock is lost", || !guard.is_held());
    drop(quorum.manager().lock("a").wait(LIMIT).acquire_blocking().unwrap());
}

#[test]
fn a_foreign_lock_is_taken_away_whatever_its_value_is() {
    let quorum = Quorum::durable(3);
    let locks = quorum.manager();
    let foreign = b"\xff\0%!\n";
    let set = |node: usize, value: &[u8]| {
        let _: () =
            redis::cmd("SET").arg("lock:k").arg(value).query(&mut quorum.servers[node].client()).unwrap();
    };
    (0..2).for_each(|node| set(node, foreign));
    set(2, b"another");
    assert_eq!(locks.force_release_blocking("k").unwrap().unwrap().name(), None);
    assert_eq!(quorum.servers[2].keys(), ["lock:k"], "only few have it");
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    // No two nodes have the same one: each gives up its own.
    set(0, foreign);
    set(1, b"a third");
    assert_eq!(locks.force_release_blocking("k").unwrap(), None);
    for node in 0..3 {
        eventually("the node has none", || quorum.servers[node].keys().is_empty());
    }
}

#[test]
fn what_a_failed_attempt_got_is_given_back_although_its_manager_goes_at_once() {
    let quorum = Quorum::durable(5);
    for node in [0, 1, 2] {
        let _: String = quorum.servers[node].run("SET lock:k foreign PX 600000");
    }
    for round in 0..40 {
        let locks = quorum.manager();
        let error = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap_err();
        assert!(error.is_busy(), "{error:?}");
        if round % 2 == 0 {
            locks.shutdown_blocking(LIMIT).unwrap();
        }
        drop(locks);
        for node in [3, 4] {
            eventually("the lock is released", || quorum.servers[node].keys().is_empty());
        }
    }
}

#[test]
fn locks_are_listed_while_a_minority_is_down() {
    let mut quorum = Quorum::durable(3);
    let locks = quorum.manager();
    let _guard = locks.lock("a").acquire_blocking().unwrap();
    eventually("all nodes have it", || quorum.copies("lock:a") == 3);
    for node in 0..3 {
        quorum.servers[node].kill();
        assert_eq!(kit::listed(&locks, "*").unwrap(), ["a"], "without node {node}");
        quorum.servers[node].restart();
        eventually("the node votes again", || {
            let _probe = locks.lock("probe").acquire_blocking().unwrap();
            quorum.servers[node].keys().contains(&"lock:probe".to_owned())
        });
        eventually("nothing else is left", || quorum.copies("lock:probe") == 0);
    }
    quorum.servers[0].kill();
    quorum.servers[1].kill();
    assert!(kit::listed(&locks, "*").is_err(), "one node of three cannot answer for the quorum");
}

#[test]
fn one_server_under_two_names_has_one_vote() {
    let mut quorum = Quorum::durable(3);
    let [a, b, c] = [0, 1, 2].map(|node| quorum.servers[node].port());
    for (names, twice) in [
        (format!("redis://127.0.0.1:{a}/,redis://127.0.0.1:{b}/,redis://localhost:{a}/"), a),
        (format!("redis://127.0.0.1:{a}/,redis://127.0.0.1:{b}/1,redis://127.0.0.1:{b}/2"), b),
    ] {
        let start = Instant::now();
        let error = LockManager::connect_blocking(&names).unwrap_err();
        assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("the same server") && text.matches(&format!(":{twice}")).count() == 2,
            "{text}"
        );
        // A caller that may wait fails, too.
        let locks = LockManager::builder(&names).connect_lazy().unwrap();
        let error = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap_err();
        assert!(error.to_string().contains("the same server"), "{error}");
        assert!(start.elapsed() < LIMIT / 2);
    }

    // While the lock is in use, a name moves to a server that has a vote already.
    let name = Proxy::to(c);
    let builder =
        LockManager::builder(quorum.servers[0].url()).node(quorum.servers[1].url()).node(name.url());
    let locks = builder.connect_blocking().unwrap();
    // A connection that the proxy is about to open is not cut.
    eventually("the name is in use", || name.accepted() > 0);
    name.lead_to(b);
    name.cut();
    quorum.servers[0].kill();
    eventually("the node has lost its vote", || {
        locks.lock("k").acquire_blocking().unwrap_err().to_string().contains("the same server")
    });
    name.lead_to(c);
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
}

/// Two of three nodes are full, and one gives its vote.
#[test]
fn a_caller_hears_what_each_node_said() {
    let quorum = Quorum::durable(3);
    // A call whose `wait` is over waits a quarter of this for an answer that is on its way.
    let locks = quorum.builder().io_timeout(LIMIT).connect_blocking().unwrap();
    for server in &quorum.servers[1..] {
        let _: String = server.run("CONFIG SET min-replicas-to-write 1");
    }
    for wait in [0, 1, 300] {
        let error = locks.lock("k").wait(wait * SECOND / 1000).acquire_blocking().unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, LockError::Unavailable { .. }), "{said}");
        assert!(said.contains("2 of 3 nodes must agree") && said.contains("2 nodes: NOREPLICAS"), "{said}");
    }
}

/// Three of five nodes do not answer: to others the lock may be taken still.
#[test]
fn a_release_that_reaches_a_minority_is_no_release_until_the_others_have_done_it() {
    let quorum = Quorum::durable(5);
    let locks = quorum.manager();
    let guard = locks.lock("k").ttl(LIMIT).acquire_blocking().unwrap();
    eventually("all nodes have it", || quorum.copies("lock:k") == 5);
    quorum.servers[2..].iter().for_each(kit::RedisServer::pause);
    let error = guard.release_blocking().unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, LockError::Unavailable { .. }), "{said}");
    // The limit of the caller and that of each connection end at the same time.
    let is_silence = said.contains("no answer in time") || said.contains("did not answer within 1.0 s");
    assert!(said.contains("3 of 5 nodes must agree") && is_silence, "{said}");
    quorum.servers[2..].iter().for_each(kit::RedisServer::resume);
    quorum.assert_nothing_left();
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
}
