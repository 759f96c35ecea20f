//! Connecting: to distant, busy, older or silent servers.

use std::thread;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use kit::keeps_alive;
use kit::{
    DelayProxy, LIMIT, LateProxy, MASTER, Proxy, Quorum, RedisCluster, RedisServer, Rewriter, SECOND,
    eventually, sentinel, skipped,
};
use redlocked::{LockError, LockManager, ReleaseOutcome};

/// Half a round trip. Longer than around the world, because the proxy accepts connections without a
/// round trip.
const ONE_WAY: Duration = Duration::from_millis(125);

/// A refused try, a hand-off to a waiter, and a release.
#[track_caller]
fn works(locks: &LockManager) {
    let acquire = |locks: &LockManager| locks.lock("k").wait(LIMIT).acquire_blocking();
    let guard = in_time(|| acquire(locks));
    assert!(locks.lock("k").acquire_blocking().is_err());
    let waiter = {
        let locks = locks.clone();
        thread::spawn(move || in_time(|| acquire(&locks)).release_blocking().unwrap())
    };
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    assert_eq!(waiter.join().unwrap(), ReleaseOutcome::Released);
}

/// The usual limits leave a call one to three more round trips, which a busy machine may take for itself:
/// then it is tried again.
#[track_caller]
fn in_time<T>(call: impl Fn() -> Result<T, LockError>) -> T {
    let mut done = None;
    eventually("a call is answered in time", || {
        done = match call() {
            Err(LockError::Unavailable { .. }) => None,
            outcome => Some(outcome.unwrap()),
        };
        done.is_some()
    });
    done.unwrap()
}

#[test]
fn a_server_on_another_continent_can_be_connected_to() {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), ONE_WAY);
    let locks = in_time(|| LockManager::connect_blocking(far.url()));
    let nearby = LockManager::connect_blocking(server.url()).unwrap();
    let abilities = nearby.capabilities_blocking().unwrap();
    assert!(abilities.hands_over() && abilities.tracks_changes());
    assert_eq!(locks.capabilities_blocking().unwrap(), abilities, "as without the delay");
    works(&locks);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_primary_behind_sentinels_far_away_is_found() {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), ONE_WAY);
    let sentinels = [sentinel(far.port(), None, ""), sentinel(far.port(), None, "")];
    let proxies = sentinels.each_ref().map(|sentinel| DelayProxy::to(sentinel.port(), ONE_WAY));
    let hosts = proxies.each_ref().map(|proxy| format!("127.0.0.1:{}", proxy.port()));
    let url = format!("redis+sentinel://{}/{MASTER}", hosts.join(","));
    works(&in_time(|| LockManager::connect_blocking(&url)));
    // A sentinel that does not answer is skipped.
    sentinels[0].pause();
    works(&in_time(|| LockManager::connect_blocking(&url)));
    sentinels[0].resume();
}

/// Up to Redis 6.2 a node reads it when it starts.
fn cannot_announce_another_port(cluster: &RedisCluster) -> bool {
    let node = &cluster.nodes[0];
    node.is_before_7() && skipped("a running node of this version keeps the port that it has announced")
}

#[test]
fn locks_of_a_node_that_is_not_connected_yet_are_listed() {
    let cluster = RedisCluster::start();
    if cannot_announce_another_port(&cluster) {
        return;
    }
    let slow = &cluster.nodes[0];
    let far = DelayProxy::to(slow.port(), ONE_WAY);
    let _: String = slow.run(&format!("CONFIG SET cluster-announce-port {}", far.port()));
    eventually("the others know where it is", || {
        let there = format!(":{}@", far.port());
        cluster.nodes.iter().all(|node| node.run::<String>("CLUSTER NODES").contains(&there))
    });
    let connect = || LockManager::builder(cluster.url()).io_timeout(LIMIT).connect_blocking().unwrap();
    let locks = connect();
    assert!(kit::listed(&locks, "*").unwrap().is_empty());
    let _guard = locks.lock("k").acquire_blocking().unwrap();
    let later = connect();
    assert_eq!(kit::listed(&later, "*").unwrap(), ["k"]);
}

#[test]
fn a_cluster_far_away_can_be_connected_to() {
    let cluster = RedisCluster::start();
    if cannot_announce_another_port(&cluster) {
        return;
    }
    let far: Vec<_> = cluster.nodes.iter().map(|node| DelayProxy::to(node.port(), ONE_WAY)).collect();
    for (node, far) in cluster.nodes.iter().zip(&far) {
        let _: String = node.run(&format!("CONFIG SET cluster-announce-port {}", far.port()));
    }
    eventually("each node knows the others", || {
        cluster.nodes.iter().all(|node| {
            let nodes: String = node.run("CLUSTER NODES");
            far.iter().all(|far| nodes.contains(&format!(":{}@", far.port())))
        })
    });
    let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", far[1].port(), far[4].port());
    let locks = in_time(|| LockManager::connect_blocking(&url));
    assert!(locks.capabilities_blocking().unwrap().hands_over());
    works(&locks);
    eventually("no key is left", || cluster.keys().is_empty());
}

#[test]
fn replicas_of_a_primary_far_away_confirm() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let _: String = primary.run("CONFIG SET repl-diskless-sync-delay 0");
    let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    eventually("the replica is in sync", || {
        replica.run::<String>("INFO replication").contains("master_link_status:up")
    });
    let far = DelayProxy::to(primary.port(), ONE_WAY);
    works(&in_time(|| LockManager::builder(far.url()).replicas(1).connect_blocking()));
}

#[test]
fn a_quorum_far_away_is_one() {
    let quorum = Quorum::durable(3);
    let far = quorum.servers.iter().map(|server| DelayProxy::to(server.port(), ONE_WAY)).collect::<Vec<_>>();
    let builder = || LockManager::builder(far[0].url()).node(far[1].url()).node(far[2].url());
    works(&in_time(|| builder().connect_blocking()));
    quorum.assert_nothing_left();
}

#[test]
fn a_server_that_is_busy_is_asked_again_later() {
    let server = RedisServer::start();
    let _: String = server.run("CONFIG SET lua-time-limit 1");
    let mut other = server.client();
    let script = thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut other).unwrap_err()
    });
    let mut client = server.client();
    eventually("the server is busy", || {
        let told = redis::cmd("GET").arg("k").query::<Option<String>>(&mut client);
        told.is_err_and(|error| error.code() == Some("BUSY"))
    });
    let locks = LockManager::builder(server.url()).connect_lazy().unwrap();
    let error = locks.capabilities_blocking().unwrap_err();
    assert!(error.to_string().contains("not ready: BUSY"), "{error}");
    let waiter = thread::spawn({
        let request = locks.lock("k").wait(LIMIT);
        move || request.run_value_blocking(|_| ()).unwrap()
    });
    let _: String = redis::cmd("SCRIPT").arg("KILL").query(&mut client).unwrap();
    script.join().unwrap();
    waiter.join().unwrap();
    let abilities = locks.capabilities_blocking().unwrap();
    assert!(abilities.hands_over() && abilities.tracks_changes(), "{abilities:?}");
}

#[test]
fn a_server_that_speaks_an_older_protocol_is_polled() {
    let server = RedisServer::start();
    // In the words of this version, of Redis 5, of a proxy, and with the code of a server without
    // this protocol.
    let unknown = Rewriter::to(server.port(), "HELLO", "HELLX");
    let backticks = Rewriter::of_answers(unknown.port(), "'HELLX'", "`HELLO`");
    let proxy = Rewriter::of_answers(unknown.port(), "unknown command", "not a command--");
    // Envoy, whose error has no code.
    let envoy = Rewriter::of_answers(unknown.port(), "-ERR unknown command", "-unsupported command");
    let no_such_protocol = Rewriter::to(server.port(), "HELLO\r\n$1\r\n3", "HELLO\r\n$1\r\n9");
    for older in [&unknown, &backticks, &proxy, &envoy, &no_such_protocol] {
        let locks = LockManager::connect_blocking(older.url()).unwrap();
        let abilities = locks.capabilities_blocking().unwrap();
        assert!(!abilities.hands_over() && !abilities.tracks_changes(), "{abilities:?}");
        works(&locks);
    }
    assert!(unknown.rewritten() > 0 && proxy.rewritten() > 0 && no_such_protocol.rewritten() > 0);
    assert!(envoy.rewritten() > 0);
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_server_with_too_many_clients_is_asked_again_later() {
    let server = RedisServer::start();
    let mut client = server.client();
    let mut set = |limit: &str| {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxclients").arg(limit).exec(&mut client).unwrap();
    };
    set("1");
    let locks = LockManager::builder(server.url()).connect_lazy().unwrap();
    let error = locks.capabilities_blocking().unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    set("100");
    eventually("the manager is connected", || locks.capabilities_blocking().is_ok());
    assert!(locks.capabilities_blocking().unwrap().hands_over(), "not taken for an older server");
    works(&locks);
}

#[test]
fn what_arrives_late_over_a_broken_connection_takes_no_lock() {
    let server = RedisServer::start();
    let proxy = LateProxy::to(server.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
    let clients = || {
        let info: String = server.run("INFO clients");
        let count = info.lines().find_map(|line| line.strip_prefix("connected_clients:")).unwrap();
        count.parse::<u32>().unwrap()
    };
    let before = clients();
    proxy.keep();
    let caller = thread::spawn({
        let request = locks.lock("k").ttl(600 * LIMIT).wait(LIMIT);
        move || request.run_value_blocking(|_| ()).unwrap()
    });
    eventually("the proxy keeps the request", || proxy.kept() > 0);
    proxy.cut();
    // The caller asks again over the next connection, and releases there.
    caller.join().unwrap();
    assert!(server.keys().is_empty());
    proxy.deliver();
    eventually("the old connection has ended", || clients() == before);
    assert!(server.keys().is_empty(), "{:?}", server.keys());
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_connection_is_kept_alive() {
    let server = RedisServer::start();
    let sentinel = sentinel(server.port(), None, "");
    let url = format!("redis+sentinel://127.0.0.1:{}/{MASTER}", sentinel.port());
    let _locks = LockManager::connect_blocking(&url).unwrap();
    eventually("a probe is due on both", || keeps_alive(server.port()) && keeps_alive(sentinel.port()));
}

#[test]
fn a_firewall_that_forgot_an_idle_connection_does_not_cost_the_next_call_its_only_try() {
    let server = RedisServer::start();
    let replica = RedisServer::start();
    let _: String = server.run("CONFIG SET repl-diskless-sync-delay 0");
    let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    let proxy = LateProxy::to(server.port());
    let io_timeout = Duration::from_secs(2);
    let managers = [0, 1].map(|replicas| {
        let builder = LockManager::builder(proxy.url()).io_timeout(io_timeout).replicas(replicas);
        builder.connect_blocking().unwrap()
    });
    for locks in &managers {
        eventually("the manager can lock", || locks.lock("k").run_value_blocking(|_| ()).is_ok());
    }
    // From now on the proxy drops the data of both ends, and closes no connection.
    proxy.keep();
    // A connection over which nothing came for so long is doubted.
    thread::sleep(io_timeout);
    for locks in &managers {
        let start = Instant::now();
        let guard = locks.lock("k").acquire_blocking().unwrap();
        assert!(start.elapsed() < io_timeout, "{:?}", start.elapsed());
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
}

/// What each of these addresses is, and what to write instead; no caller waits for it, however long
/// it would.
#[test]
fn an_address_of_another_kind_of_server_is_told_at_once() {
    let server = RedisServer::start();
    let asked = sentinel(server.port(), None, "");
    let server_at = format!("127.0.0.1:{}", server.port());
    let sentinel_at = format!("127.0.0.1:{}", asked.port());
    for (url, words) in [
        (format!("redis://{sentinel_at}/"), "is a sentinel: its address is redis+sentinel://"),
        (
            format!("redis+sentinel://{server_at}/{MASTER}"),
            "it is no sentinel: the address of a server starts with redis://",
        ),
        (format!("redis+sentinel://{server_at},{server_at}/{MASTER}"), "it is no sentinel"),
        (format!("redis+cluster://{server_at}"), "it is not part of a Cluster"),
        (format!("redis+cluster://{sentinel_at}"), "CLUSTER"),
    ] {
        let error = LockManager::connect_blocking(&url).map(drop).unwrap_err();
        assert!(matches!(&error, LockError::Misconfigured { .. }), "{url}: {error:?}");
        assert!(error.to_string().contains(words), "{url}: {error}");
        let locks = LockManager::builder(&url).connect_lazy().unwrap();
        let error = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap_err();
        assert!(matches!(&error, LockError::Misconfigured { .. }), "{url}: {error:?}");
    }
}

#[test]
fn an_address_that_a_cluster_announces_in_vain_is_told_with_its_reason() {
    let cluster = RedisCluster::start();
    if cannot_announce_another_port(&cluster) {
        return;
    }
    // No process listens there.
    let nowhere = kit::free_port();
    let node = cluster.owner_of("lock:k");
    let _: String = node.run(&format!("CONFIG SET cluster-announce-port {nowhere}"));
    // One that does not know it yet may tell another one of the address before.
    let others: Vec<_> = cluster.nodes.iter().filter(|other| other.port() != node.port()).collect();
    eventually("the others know it", || {
        let knows =
            |other: &&RedisServer| other.run::<String>("CLUSTER NODES").contains(&format!(":{nowhere}@"));
        others.iter().all(knows)
    });
    let seed = others[0];
    let locks =
        LockManager::builder(format!("redis+cluster://127.0.0.1:{}", seed.port())).connect_lazy().unwrap();
    let error = locks.lock("k").wait(SECOND).acquire_blocking().unwrap_err();
    assert!(matches!(&error, LockError::Unavailable { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains(&nowhere.to_string()) && error.contains("cluster-announce-"), "{error}");
}

/// As with a limit for idle connections: it says nothing, and cuts.
#[test]
fn a_proxy_that_cuts_idle_connections_costs_one_connection_each_time() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let mut client = server.client();
    let mut connections = || {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut client).unwrap();
        let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
        count.trim().parse::<u32>().unwrap()
    };
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    let held = locks.lock("held").ttl(LIMIT).acquire_blocking().unwrap();
    let request = locks.lock("held").wait(2 * LIMIT);
    let waiter = thread::spawn(move || request.run_value_blocking(|_| ()));
    eventually("it waits", || server.run::<u32>("ZCARD lock:held%queue") == 1);
    // Those of this test come over other ones.
    let first = connections();
    for before in first..first + 5 {
        proxy.cut();
        eventually("it is connected again", || connections() > before);
        locks.lock("k").run_value_blocking(|_| ()).unwrap();
        assert!(held.is_held() && !waiter.is_finished());
        assert_eq!(connections(), before + 1);
    }
    assert_eq!(held.release_blocking(), Ok(ReleaseOutcome::Released));
    waiter.join().unwrap().unwrap();
    eventually("no key is left", || server.keys().is_empty());
}
