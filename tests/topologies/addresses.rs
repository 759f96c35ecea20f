//! A name with two addresses, as a headless service or round-robin DNS gives: the server at the
//! first one cannot be used, and the one at the second can.

use std::thread;
use std::time::Instant;

#[cfg(feature = "tls")]
use kit::{Authority, TlsServer};
use kit::{LIMIT, MASTER, Proxy, RedisServer, SECOND, eventually, sentinel};
use redlocked::{LockError, LockManager, LockManagerBuilder};

fn builder(name: &str, proxies: &[Proxy; 2]) -> LockManagerBuilder {
    LockManager::builder(format!("redis://{name}:{}/", proxies[0].port())).io_timeout(LIMIT)
}

#[track_caller]
fn works(locks: &LockManager) {
    let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    guard.release_blocking().unwrap();
}

/// A primary with a replica that has its data.
fn primary_and_replica() -> [RedisServer; 2] {
    let servers = [RedisServer::start(), RedisServer::start()];
    let _: String = servers[0].run("CONFIG SET repl-diskless-sync-delay 0");
    replicate(&servers[1], &servers[0]);
    servers
}

fn replicate(replica: &RedisServer, primary: &RedisServer) {
    let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    eventually("it replicates", || {
        replica.run::<String>("INFO replication").contains("master_link_status:up")
    });
}

#[test]
fn the_primary_is_found_behind_a_replica_and_after_a_failover() {
    let [primary, replica] = primary_and_replica();
    let (proxies, name) = Proxy::to_both([replica.port(), primary.port()]);
    // Also with a connection of its own that awaits replicas.
    for replicas in [0, 1] {
        let locks = builder(&name, &proxies).replicas(replicas).connect_blocking().unwrap();
        works(&locks);
    }
    let locks = builder(&name, &proxies).connect_blocking().unwrap();
    let _: String = replica.run("REPLICAOF NO ONE");
    replicate(&primary, &replica);
    proxies.iter().for_each(Proxy::cut);
    works(&locks);
    assert!(replica.client_commands() > 0);
}

#[test]
fn a_server_that_is_busy_or_closes_or_is_silent_leaves_the_other() {
    let [busy, server] = [RedisServer::start(), RedisServer::start()];
    let (proxies, name) = Proxy::to_both([busy.port(), server.port()]);
    proxies[0].refuse(true);
    works(&builder(&name, &proxies).connect_blocking().unwrap());
    proxies[0].refuse(false);

    let _: String = busy.run("CONFIG SET lua-time-limit 1");
    let [mut client, mut other] = [busy.client(), busy.client()];
    let script = thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut other).unwrap_err();
    });
    eventually("it is busy", || redis::cmd("GET").arg("k").exec(&mut client).is_err());
    works(&builder(&name, &proxies).connect_blocking().unwrap());
    redis::cmd("SCRIPT").arg("KILL").exec(&mut client).unwrap();
    script.join().unwrap();

    // The first attempt ends with the limit of an answer. The next one begins with the other
    // address.
    busy.pause();
    let locks = builder(&name, &proxies).io_timeout(SECOND / 2).connect_lazy().unwrap();
    works(&locks);
    busy.resume();
}

#[test]
fn where_no_address_leads_to_a_primary_the_error_says_so() {
    let [_primary, replica] = primary_and_replica();
    let (proxies, name) = Proxy::to_both([replica.port(), replica.port()]);
    let error = builder(&name, &proxies).connect_blocking().map(drop).unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("is a replica"), "{error}");
}

#[test]
fn a_wrong_password_is_told_at_once_and_not_tried_elsewhere() {
    let [locked, other] = [RedisServer::with_password("secret"), RedisServer::start()];
    let (proxies, name) = Proxy::to_both([locked.port(), other.port()]);
    let start = Instant::now();
    let error = builder(&name, &proxies).connect_blocking().map(drop).unwrap_err();
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
    assert!(start.elapsed() < LIMIT / 2, "at once: {:?}", start.elapsed());
    assert!(!other.run::<String>("INFO commandstats").contains("cmdstat_hello"), "it was asked nothing");
}

#[test]
fn the_other_sentinels_of_a_name_are_asked() {
    let server = RedisServer::start();
    // The first one knows no primary of this name, as a server that has just joined the service.
    let [unaware, aware] = [RedisServer::start(), sentinel(server.port(), None, "")];
    let (proxies, name) = Proxy::to_both([unaware.port(), aware.port()]);
    let url = format!("redis+sentinel://{name}:{}/{MASTER}", proxies[0].port());
    works(&LockManager::builder(url).io_timeout(LIMIT).connect_blocking().unwrap());
}

#[cfg(feature = "tls")]
#[test]
fn the_primary_is_found_behind_a_replica_through_tls() {
    let authority = Authority::new();
    authority.vouch_for("server", "DNS:*.two.test");
    let [primary, replica] = [TlsServer::start(&authority, "no"), TlsServer::start(&authority, "no")];
    replicate(&replica.plain, &primary.plain);
    let (proxies, name) = Proxy::to_both([replica.port(), primary.port()]);
    let url = format!("rediss://{name}:{}/", proxies[0].port());
    let builder = LockManager::builder(url).tls_ca(authority.pem("ca.pem")).io_timeout(LIMIT);
    works(&builder.connect_blocking().unwrap());
}
