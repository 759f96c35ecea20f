//! Encrypted connections, to a real server that speaks TLS.

use std::process::Command;
use std::thread;
use std::time::Instant;

use kit::{
    Authority, LIMIT, MASTER, RedisServer, SECOND, TlsServer, eventually, owns, sentinel, tls_cluster,
    trusting,
};
use redlocked::{LockError, LockManager, LockManagerBuilder, ReleaseOutcome};

/// A certificate authority, and a server with a certificate of it.
fn start(clients: &str) -> (Authority, TlsServer) {
    let authority = Authority::new();
    authority.vouch_for("server", "DNS:localhost,IP:127.0.0.1");
    let server = TlsServer::start(&authority, clients);
    (authority, server)
}

/// Asserts that the connection is refused at once, even with a `wait`, and that the error shows no
/// secret.
#[track_caller]
fn refused(builder: LockManagerBuilder, why: &str) {
    let lazy = builder.clone();
    let start = Instant::now();
    let error = builder.connect_blocking().map(drop).unwrap_err();
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
    assert!(error.to_string().contains(why), "{error}");
    let waited = lazy.connect_lazy().unwrap().lock("k").wait(LIMIT).acquire_blocking().map(drop).unwrap_err();
    assert!(waited.to_string().contains(why), "{waited}");
    assert!(start.elapsed() < LIMIT / 2, "at once: {:?}", start.elapsed());
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_encrypted_connection_is_kept_alive() {
    let (authority, server) = start("no");
    let url = server.url("rediss", "127.0.0.1");
    let port = url.rsplit_once(':').unwrap().1.trim_end_matches('/').parse().unwrap();
    let _locks = LockManager::builder(&url).tls_ca(authority.pem("ca.pem")).connect_blocking().unwrap();
    eventually("a probe is due", || kit::keeps_alive(port));
}

#[test]
fn everything_works_through_tls() {
    let (authority, server) = start("no");
    for (scheme, host) in [("rediss", "127.0.0.1"), ("valkeys", "localhost")] {
        let builder = LockManager::builder(server.url(scheme, host)).tls_ca(authority.pem("ca.pem"));
        let locks = builder.connect_blocking().unwrap();
        let capabilities = locks.capabilities_blocking().unwrap();
        assert!(capabilities.hands_over() && capabilities.tracks_changes());
        let guard = locks.lock("k").ttl(1000 * SECOND).acquire_blocking().unwrap();
        let waiter = {
            let locks = locks.clone();
            thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap())
        };
        eventually("the waiter is queued", || server.plain.keys().len() == 2);
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
        let guard = waiter.join().unwrap();
        eventually("the server tracks the key", || {
            server.plain.run::<String>("INFO stats").contains("tracking_total_keys:1")
        });
        let _: i32 = server.plain.run("DEL lock:k");
        eventually("the holder learns of the loss", || !guard.is_held());
        drop(guard);
        eventually("no key is left", || server.plain.keys().is_empty());
    }
}

#[cfg(feature = "redis")]
#[test]
fn a_client_that_encrypts_has_encrypted_locks() {
    let (authority, server) = start("no");
    let (host, port) = ("localhost".to_owned(), server.port());
    let addr = redis::ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    let info = redis::IntoConnectionInfo::into_connection_info(addr).unwrap();
    refused(LockManager::builder(&info), "not trusted here");
    let locks = LockManager::builder(info).tls_ca(authority.pem("ca.pem")).connect_blocking().unwrap();
    let guard = locks.lock("k").acquire_blocking().unwrap();
    assert_eq!(server.plain.keys(), ["lock:k"]);
    guard.release_blocking().unwrap();
}

#[test]
fn a_cut_connection_is_made_again() {
    let (authority, server) = start("no");
    let url = server.url("rediss", "127.0.0.1");
    let locks = LockManager::builder(url).tls_ca(authority.pem("ca.pem")).connect_blocking().unwrap();
    let guard = locks.lock("k").acquire_blocking().unwrap();
    for _ in 0..3 {
        let _: i32 = server.plain.run("CLIENT KILL TYPE pubsub");
        drop(locks.lock("other").wait(LIMIT).acquire_blocking().unwrap());
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    drop(locks);
    // The test's own connection has not subscribed.
    eventually("no connection is left", || {
        server.plain.run::<Vec<String>>("PUBSUB CHANNELS lock:*").is_empty()
    });
}

#[test]
fn a_server_is_checked() {
    let (authority, server) = start("no");
    let url = server.url("rediss", "127.0.0.1");
    // The system does not trust the test's authority.
    refused(LockManager::builder(&url), "not trusted here");
    refused(LockManager::builder(&url).tls_ca(Authority::new().pem("ca.pem")), "not trusted here");
    let elsewhere = Authority::new();
    elsewhere.vouch_for("server", "DNS:elsewhere.example");
    let impostor = TlsServer::start(&elsewhere, "no");
    let by_name = LockManager::builder(impostor.url("rediss", "localhost"));
    refused(by_name.tls_ca(elsewhere.pem("ca.pem")), "not valid for name");
    // No client sent a password.
    let stats = impostor.plain.run::<String>("INFO commandstats");
    assert!(!stats.contains("cmdstat_hello"), "{stats}");
    drop(authority);
}

#[test]
fn a_client_shows_its_certificate_where_that_is_wanted() {
    let (authority, server) = start("yes");
    authority.vouch_for("shop", "DNS:shop.example");
    let trusting = |authority: &Authority| {
        LockManager::builder(server.url("rediss", "127.0.0.1")).tls_ca(authority.pem("ca.pem"))
    };
    let builder = trusting(&authority).tls_client(authority.pem("shop.pem"), authority.pem("shop.key"));
    let text = format!("{builder:?}");
    assert!(!text.contains("BEGIN") && !text.contains("tls"), "{text}");
    builder.connect_blocking().unwrap().lock("k").run_value_blocking(|_| ()).unwrap();

    refused(trusting(&authority), "it wants a certificate of ours");
    let other = Authority::new();
    other.vouch_for("shop", "DNS:shop.example");
    let strangers = trusting(&authority).tls_client(other.pem("shop.pem"), other.pem("shop.key"));
    let error = strangers.connect_blocking().map(drop).unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
}

#[test]
fn what_speaks_another_language_is_told_from_what_is_down() {
    let (authority, server) = start("no");
    let plain = LockManager::builder(server.plain.url().replace("redis:", "rediss:"));
    // A plain server reads a TLS handshake as the start of a long line, and does not answer.
    let error = plain.tls_ca(authority.pem("ca.pem")).connect_blocking().map(drop).unwrap_err();
    assert!(error.to_string().contains("does it speak TLS"), "{error}");

    let start = Instant::now();
    let url = server.url("redis", "127.0.0.1");
    let error = LockManager::connect_blocking(&url).map(drop).unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("rediss://"), "{error}");
    assert!(start.elapsed() < LIMIT / 2);
    let nobody = LockManager::builder("rediss://127.0.0.1:1/").tls_ca(authority.pem("ca.pem"));
    let error = nobody.connect_blocking().map(drop).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_silent_server_does_not_hang_the_handshake() {
    let (authority, server) = start("no");
    server.plain.pause();
    let builder = LockManager::builder(server.url("rediss", "127.0.0.1")).tls_ca(authority.pem("ca.pem"));
    let start = Instant::now();
    let error = builder.io_timeout(SECOND / 4).connect_blocking().map(drop).unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(start.elapsed() < LIMIT / 2);
    server.plain.resume();
}

#[test]
fn settings_that_are_of_no_use_say_so() {
    let authority = Authority::new();
    authority.vouch_for("shop", "DNS:shop.example");
    let (certificate, key) = (authority.pem("shop.pem"), authority.pem("shop.key"));
    let (encrypted, plain) =
        (|| LockManager::builder("rediss://:secret@a/"), LockManager::builder("redis://:secret@a/"));
    let unusable = [
        (encrypted().tls_ca("nonsense"), "`tls_ca`"),
        (encrypted().tls_client("nonsense", key.clone()), "`tls_client`"),
        (encrypted().tls_client(certificate.clone(), "secret"), "not a private key"),
        (encrypted().tls_client(certificate, authority.pem("ca.key")), "`tls_client`"),
        (plain.tls_ca(authority.pem("ca.pem")), "not encrypted"),
        (LockManager::builder("rediss://a/#insecure"), "always checked"),
        (LockManager::builder("rediss+cluster://a,b/#insecure"), "always checked"),
        (LockManager::builder("redis+cluster://:secret@a").tls_ca(authority.pem("ca.pem")), "not encrypted"),
    ];
    for (builder, why) in unusable {
        let error = builder.connect_lazy().map(drop).unwrap_err();
        assert!(matches!(error, LockError::InvalidUrl { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(why) && !text.contains("secret"), "{text}");
    }
}

#[test]
fn the_authorities_of_the_system_are_trusted() {
    let (authority, server) = start("no");
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "tls::connects_without_settings", "--ignored"]);
    alone.env("REDLOCK_URL", server.url("rediss", "127.0.0.1"));
    trusting(&mut alone, &authority.path("ca.pem"));
    let output = alone.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
#[ignore = "runs in a process of its own"]
fn connects_without_settings() {
    let url = std::env::var("REDLOCK_URL").unwrap();
    LockManager::connect_blocking(&url).unwrap().lock("k").run_value_blocking(|_| ()).unwrap();
}

#[test]
fn sentinels_and_their_primary_are_encrypted() {
    let (authority, server) = start("yes");
    authority.vouch_for("shop", "DNS:shop.example");
    let (port, file) = (kit::free_port(), |name: &str| authority.path(name).display().to_string());
    // The sentinel is a client of the server, and uses the server's certificate.
    let more = format!(
        "tls-port {port}\ntls-replication yes\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n",
        file("server.pem"),
        file("server.key"),
        file("ca.pem")
    );
    let _sentinel = sentinel(server.port(), None, &more);
    let url = |scheme: &str| format!("{scheme}://127.0.0.1:{port}/{MASTER}");
    let builder = LockManager::builder(url("rediss+sentinel")).tls_ca(authority.pem("ca.pem"));
    refused(builder.clone(), "it wants a certificate of ours");
    let builder = builder.tls_client(authority.pem("shop.pem"), authority.pem("shop.key"));
    builder.connect_blocking().unwrap().lock("k").run_value_blocking(|_| ()).unwrap();
    let plain = LockManager::connect_blocking(url("redis+sentinel")).map(drop);
    assert!(matches!(plain, Err(LockError::Unavailable { .. })), "{plain:?}");
}

#[test]
fn all_nodes_of_a_cluster_are_encrypted() {
    let authority = Authority::new();
    authority.vouch_for("server", "IP:127.0.0.1");
    authority.vouch_for("shop", "DNS:shop.example");
    let cluster = tls_cluster(&authority, "yes");
    let trusting = || {
        let builder = LockManager::builder(cluster.url_of("rediss+cluster", "127.0.0.1"));
        builder.tls_ca(authority.pem("ca.pem"))
    };
    refused(LockManager::builder(cluster.url_of("rediss+cluster", "127.0.0.1")), "not trusted here");
    refused(trusting(), "it wants a certificate of ours");
    let connect =
        || trusting().tls_client(authority.pem("shop.pem"), authority.pem("shop.key")).connect_blocking();
    let (locks, others) = (connect().unwrap(), connect().unwrap());
    let capabilities = locks.capabilities_blocking().unwrap();
    assert!(capabilities.hands_over() && capabilities.tracks_changes());

    let keys: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let guards: Vec<_> =
        keys.iter().map(|key| locks.lock(key).ttl(60 * SECOND).acquire_blocking().unwrap()).collect();
    for node in cluster.primaries() {
        assert!(!node.keys().is_empty(), "locks on each node");
        // A manager is connected with the first node, and connects to the others in the background.
        let mut clients = String::new();
        eventually("both managers listen", || {
            clients = node.run("CLIENT LIST TYPE pubsub");
            clients.lines().count() >= 2
        });
        let there = format!("laddr=127.0.0.1:{} ", cluster.port_of(node));
        assert!(clients.lines().count() == 2 && clients.lines().all(|it| it.contains(&there)), "{clients}");
    }
    let waiters: Vec<_> = keys
        .iter()
        .map(|key| {
            let request = others.lock(key).wait(LIMIT);
            thread::spawn(move || request.acquire_blocking().unwrap())
        })
        .collect();
    eventually("all waiters are queued", || {
        keys.iter().all(|key| locks.inspect_blocking(key).unwrap().is_some_and(|info| info.waiters() == 1))
    });
    // A node redirects to the new owner of the slot, over TLS as well.
    let slot = cluster.slot_of("lock:0");
    let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
    cluster.migrate(slot, to, || ());
    drop(guards);
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap().release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    eventually("no key is left", || cluster.keys().is_empty());

    let plain = LockManager::connect_blocking(cluster.url_of("redis+cluster", "127.0.0.1")).map(drop);
    let text = plain.unwrap_err().to_string();
    assert!(text.contains("rediss+cluster://"), "{text}");
}

#[test]
fn an_address_that_a_node_announces_is_checked() {
    let authority = Authority::new();
    authority.vouch_for("server", "DNS:localhost");
    let cluster = tls_cluster(&authority, "no");
    let url = cluster.url_of("rediss+cluster", "localhost");
    let builder = LockManager::builder(&url).tls_ca(authority.pem("ca.pem"));
    // The nodes announce themselves as 127.0.0.1.
    refused(builder.clone(), "not valid for name");
    for node in &cluster.nodes {
        let _: String = node.run("CONFIG SET cluster-announce-hostname localhost");
        let _: String = node.run("CONFIG SET cluster-preferred-endpoint-type hostname");
    }
    let asked = &cluster.nodes[1];
    eventually("the nodes know each other by name", || {
        let shards: redis::Value = asked.run("CLUSTER SLOTS");
        format!("{shards:?}").matches("localhost").count() >= 6
    });
    builder.connect_blocking().unwrap().lock("k").run_value_blocking(|_| ()).unwrap();
}

#[test]
fn a_server_without_tls_does_as_before() {
    let server = RedisServer::start();
    LockManager::connect_blocking(server.url()).unwrap().lock("k").run_value_blocking(|_| ()).unwrap();
}
