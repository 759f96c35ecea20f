//! What goes wrong: a function for each message, which returns the error that a user gets.

use std::fmt::Display;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kit::{DelayProxy, LIMIT, RedisCluster, RedisServer, Rewriter, eventually, free_port, runtime};
use redlocked::{LockError, LockManager, distributed_lock};

/// What a user sees when the manager cannot connect.
pub(crate) fn connecting_to(url: &str) -> LockError {
    LockManager::connect_blocking(url).map(drop).unwrap_err()
}

pub(crate) fn at(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

/// What a user sees of one try.
fn locking(locks: &LockManager) -> LockError {
    locks.lock("k").acquire_blocking().map(drop).unwrap_err()
}

/// The port of something that does this with each client.
fn fake(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (port, serve) = (listener.local_addr().unwrap().port(), Arc::new(serve));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(client));
        }
    });
    port
}

pub(crate) fn that_says(words: &'static [u8]) -> u16 {
    fake(move |mut client| drop(client.write_all(words)))
}

pub(crate) fn a_silent_server() -> LockError {
    let server = RedisServer::start();
    let builder = LockManager::builder(server.url()).io_timeout(Duration::from_millis(300));
    server.pause();
    builder.connect_blocking().map(drop).unwrap_err()
}

pub(crate) fn no_password() -> LockError {
    let server = RedisServer::with_password("secret");
    connecting_to(&at(server.port()))
}

pub(crate) fn a_wrong_password() -> LockError {
    let server = RedisServer::with_password("secret");
    connecting_to(&format!("redis://:other@127.0.0.1:{}/", server.port()))
}

pub(crate) fn no_permission() -> LockError {
    let server = RedisServer::start();
    let _: String = server.run("ACL SETUSER shop on >password ~shop:* &* +@all");
    connecting_to(&format!("redis://shop:password@127.0.0.1:{}/", server.port()))
}

pub(crate) fn too_many_clients() -> LockError {
    let server = RedisServer::start();
    let mut client = server.client();
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut client).unwrap();
    connecting_to(&server.url())
}

#[cfg(feature = "tls")]
pub(crate) fn an_unknown_authority() -> LockError {
    let authority = kit::Authority::new();
    authority.vouch_for("server", "DNS:localhost,IP:127.0.0.1");
    let server = kit::TlsServer::start(&authority, "no");
    connecting_to(&server.url("rediss", "localhost"))
}

#[cfg(feature = "tls")]
pub(crate) fn no_tls_on_this_port() -> LockError {
    let server = RedisServer::start();
    connecting_to(&format!("rediss://127.0.0.1:{}/", server.port()))
}

/// As twemproxy does.
pub(crate) fn a_proxy_that_closes() -> LockError {
    let server = RedisServer::start();
    let behind = server.port();
    let proxy = fake(move |mut client| {
        let mut server = TcpStream::connect(("127.0.0.1", behind)).unwrap();
        let (mut answers, mut answered) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut answers, &mut answered));
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            if buffer[..read].windows(6).any(|word| word == b"CLIENT")
                || server.write_all(&buffer[..read]).is_err()
            {
                break;
            }
        }
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    });
    connecting_to(&at(proxy))
}

pub(crate) fn a_proxy_of_commands() -> LockError {
    let server = RedisServer::start();
    let proxy = Rewriter::to(server.port(), "EVAL", "EVXX");
    connecting_to(&proxy.url())
}

pub(crate) fn a_replica() -> LockError {
    let server = RedisServer::start();
    let _: String = server.run(&format!("REPLICAOF 127.0.0.1 {}", free_port()));
    connecting_to(&server.url())
}

pub(crate) fn evicts() -> LockError {
    let server = RedisServer::start();
    let _: String = server.run("CONFIG SET maxmemory 100mb");
    let _: String = server.run("CONFIG SET maxmemory-policy allkeys-lru");
    connecting_to(&server.url())
}

pub(crate) fn is_full() -> LockError {
    let server = RedisServer::start();
    let locks = kit::connect(&server);
    let _: String = server.run("CONFIG SET maxmemory 1");
    locking(&locks)
}

pub(crate) fn cannot_save() -> LockError {
    let server = RedisServer::start();
    let locks = kit::connect(&server);
    let (_, directory): (String, String) = server.run("CONFIG GET dir");
    fs::remove_dir_all(&directory).unwrap();
    let _: String = redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).query(&mut server.client()).unwrap();
    let _: redis::RedisResult<String> = server.try_run("BGSAVE");
    eventually("the server refuses writes", || {
        server.try_run::<String>("SET a b").is_err_and(|error| error.code() == Some("MISCONF"))
    });
    locking(&locks)
}

pub(crate) fn too_few_replicas() -> LockError {
    let server = RedisServer::start();
    let locks = kit::connect(&server);
    let _: String = server.run("CONFIG SET min-replicas-to-write 1");
    locking(&locks)
}

pub(crate) fn no_cluster() -> LockError {
    let server = RedisServer::start();
    connecting_to(&format!("redis+cluster://127.0.0.1:{}", server.port()))
}

pub(crate) fn several_keys_in_a_cluster() -> LockError {
    let url = RedisCluster::of_this_process().nodes[0].url();
    let several = |locks: LockManager| locks.lock_all(["a", "b", "c"]).acquire_blocking().map(drop);
    LockManager::connect_blocking(&url).and_then(several).unwrap_err()
}

pub(crate) fn a_key_of_another_type() -> LockError {
    let server = RedisServer::start();
    let _: i32 = server.run("RPUSH lock:k a");
    locking(&kit::connect(&server))
}

pub(crate) fn held_by_another_client() -> LockError {
    let server = RedisServer::start();
    let _: String = server.run("SET lock:k anything PX 30000");
    locking(&kit::connect(&server))
}

pub(crate) fn a_far_server() -> LockError {
    let server = RedisServer::start();
    let far = DelayProxy::to(server.port(), Duration::from_millis(50));
    let locks = LockManager::connect_blocking(far.url()).unwrap();
    let request = locks.lock("k").ttl(Duration::from_millis(20)).wait(LIMIT);
    request.acquire_blocking().map(drop).unwrap_err()
}

pub(crate) fn a_nested_call() -> LockError {
    let locks = LockManager::connect_blocking("memory://nested").unwrap();
    locks.lock("k").run_value_blocking(|_| locking(&locks)).unwrap()
}

pub(crate) fn a_reader_that_writes() -> LockError {
    let locks = LockManager::connect_blocking("memory://a-reader-that-writes").unwrap();
    let write = || locks.lock("k").reentrant(true).acquire_blocking().unwrap_err();
    locks.lock("k").shared().run_value_blocking(|_| write()).unwrap()
}

pub(crate) fn readers_over_a_quorum() -> LockError {
    let url = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    let locks = LockManager::builder(url).connect_lazy().unwrap();
    locks.lock("k").shared().acquire_blocking().unwrap_err()
}

pub(crate) fn readers_in_cohorts() -> LockError {
    let locks = LockManager::builder("memory://readers-in-cohorts").cohort(8).connect_blocking().unwrap();
    locks.lock("k").permits(3).acquire_blocking().unwrap_err()
}

#[distributed_lock(key = "{name}", manager = locks)]
fn rename(locks: &LockManager, name: &str) -> Result<(), LockError> {
    let _ = (locks, name);
    Ok(())
}

pub(crate) fn an_empty_value() -> LockError {
    let locks = LockManager::connect_blocking("memory://empty").unwrap();
    rename(&locks, "").unwrap_err()
}

pub(crate) fn deleted_meanwhile() -> LockError {
    let server = RedisServer::start();
    let locks = kit::connect(&server);
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let _: i32 = server.run("DEL lock:k");
    guard.extend_blocking(LIMIT).unwrap_err()
}

pub(crate) fn its_lease_ended() -> LockError {
    let locks = LockManager::connect_blocking("memory://lease").unwrap();
    let request = locks.lock("k").ttl(Duration::from_millis(50)).renew(false);
    runtime().block_on(request.run_value(async |guard| guard.lost().await)).unwrap_err()
}

#[cfg(not(feature = "testing"))]
pub(crate) fn a_paused_clock() -> LockError {
    runtime().block_on(async {
        let locks = LockManager::connect("memory://paused").await.unwrap();
        tokio::time::pause();
        locks.lock("k").acquire().await.map(drop).unwrap_err()
    })
}

/// Reads the environment, which is not that of the test: in a process of its own.
pub(crate) fn not_configured() -> impl Display {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_process_that_has_no_manager", "--ignored", "--nocapture"]);
    child.env_remove("REDLOCK_URL").env_remove("REDIS_URL");
    String::from_utf8(child.output().unwrap().stdout).unwrap()
}
