//! Credentials that a function gives, for each kind of address: they change, and every next
//! connection has the new ones.

use std::sync::{Arc, Mutex};

use kit::{LIMIT, Quorum, RedisCluster, RedisServer, SECOND, SentinelGroup, eventually};
use redlocked::{Credentials, LockManager, LockManagerBuilder, ReleaseOutcome};

/// Gives the user `shop` on each of `servers` another password, twice: a lock is held all the time.
fn rotates(servers: &[&RedisServer], builder: LockManagerBuilder) {
    let password = Arc::new(Mutex::new(String::new()));
    let change_to = |new: &str| {
        for server in servers {
            let user = "ACL SETUSER shop on resetpass resetchannels allkeys allchannels allcommands";
            let _: String = server.run(&format!("{user} >{new}"));
        }
        new.clone_into(&mut password.lock().unwrap());
    };
    let store = Arc::clone(&password);
    let builder = builder.credentials(move || {
        let password = store.lock().unwrap().clone();
        async move { Ok::<_, String>(Credentials::new("shop", password)) }
    });
    change_to("pass-0");
    let locks = builder.connect_blocking().unwrap();
    let held = locks.lock("held").ttl(60 * SECOND).acquire_blocking().unwrap();
    for round in 1..=2 {
        change_to(&format!("pass-{round}"));
        let ended: u32 = servers.iter().map(|server| server.run::<u32>("CLIENT KILL USER shop")).sum();
        assert!(ended > 0, "no connection was this user's");
        for key in 0..20 {
            drop(locks.lock(format!("{round}:{key}")).wait(LIMIT).acquire_blocking().unwrap());
        }
        eventually("it is well", || locks.ping_blocking().is_ok());
        assert!(held.is_held());
    }
    assert_eq!(held.release_blocking().unwrap(), ReleaseOutcome::Released);
}

#[test]
fn of_a_cluster() {
    let cluster = RedisCluster::start();
    let servers: Vec<_> = cluster.nodes.iter().collect();
    rotates(&servers, LockManager::builder(cluster.url()));
    for primary in cluster.primaries() {
        eventually("no connection is left", || !primary.run::<String>("CLIENT LIST").contains("user=shop"));
    }
}

#[test]
fn of_a_quorum() {
    let quorum = Quorum::durable(3);
    let servers: Vec<_> = quorum.servers.iter().collect();
    rotates(&servers, quorum.builder());
}

#[test]
fn of_the_primary_behind_sentinel() {
    let group = SentinelGroup::start();
    rotates(&[group.primary()], LockManager::builder(group.url()));
}

#[cfg(feature = "tls")]
#[test]
fn of_a_server_that_speaks_tls() {
    let authority = kit::Authority::new();
    authority.vouch_for("server", "DNS:localhost,IP:127.0.0.1");
    let server = kit::TlsServer::start(&authority, "no");
    let builder = LockManager::builder(server.url("rediss", "127.0.0.1")).tls_ca(authority.pem("ca.pem"));
    rotates(&[&server.plain], builder);
}
