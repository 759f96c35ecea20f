//! What a server says that is no answer, why it closes, and servers that are none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, MASTER, Proxy, RedisServer, Rewriter, eventually, sentinel};
use redlocked::{LockError, LockGuard, LockManager, ReleaseOutcome};

/// Replies that grant a lock, refuse one, or confirm something.
const UNASKED: [&str; 4] = ["+OK\r\n", ":1\r\n", "$-1\r\n", "*0\r\n"];

/// Nobody behind the proxy gets a lock that is held, whatever the server says unasked, and
/// afterwards all is well.
#[track_caller]
fn grants_nothing_unasked(locks: &LockManager, proxy: &Proxy, server: &RedisServer) {
    let other = LockManager::connect_blocking(server.url()).unwrap();
    let held = other.lock("k").ttl(10 * LIMIT).acquire_blocking().unwrap();
    for unasked in UNASKED {
        locks.lock("another").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
        let accepted = proxy.accepted();
        eventually("it is said", || proxy.say(unasked.as_bytes()));
        eventually("the client connects anew", || proxy.accepted() > accepted);
        for _ in 0..4 {
            let error = locks.lock("k").acquire_blocking().unwrap_err();
            assert!(!matches!(error, LockError::Misconfigured { .. }), "{error}");
            assert!(held.is_held());
        }
        locks.lock("another").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    }
    drop((held, other));
}

#[test]
fn a_reply_that_no_command_has_asked_for_grants_no_lock() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    grants_nothing_unasked(&locks, &proxy, &server);
    assert!(locks.capabilities_blocking().unwrap().hands_over());
}

/// It answers a request in place of its own reply, which answers the next one.
#[test]
fn a_reply_that_another_script_gives_grants_no_lock_and_leaves_none_behind() {
    const UNASKED: [&str; 6] = [":0\r\n", ":1\r\n", ":29999\r\n", "_\r\n", "*0\r\n", "*1\r\n:1\r\n"];
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let other = LockManager::connect_blocking(server.url()).unwrap();
    for (keys, unasked) in [&["k"][..], &["k", "l"]].into_iter().flat_map(|keys| UNASKED.map(|it| (keys, it)))
    {
        let clock = other.lock("clock").run_value_blocking(LockGuard::fencing_token).unwrap();
        let locks = LockManager::connect_blocking(proxy.url()).unwrap();
        locks.lock_all(keys.iter().copied()).run_value_blocking(|_| ()).unwrap();
        let accepted = proxy.accepted();
        proxy.hold_replies(true);
        thread::scope(|scope| {
            let call = scope.spawn(|| locks.lock_all(keys.iter().copied()).wait(LIMIT).acquire_blocking());
            eventually("the server has it", || server.run::<i32>("EXISTS lock:k") == 1);
            proxy.slip_in(unasked.as_bytes());
            eventually("the client connects anew", || proxy.accepted() > accepted);
            proxy.hold_replies(false);
            let guard = call.join().unwrap().unwrap();
            assert!(guard.fencing_token() > clock, "{unasked:?} for {keys:?}");
            assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
        });
        eventually("no key is left", || server.keys().is_empty());
    }
}

#[test]
fn nor_does_one_over_a_connection_without_pushes() {
    let server = RedisServer::start();
    let older = Rewriter::to(server.port(), "HELLO", "HELLX");
    let proxy = Proxy::to(older.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    grants_nothing_unasked(&locks, &proxy, &server);
    assert!(!locks.capabilities_blocking().unwrap().hands_over());
}

#[test]
fn nor_does_one_of_a_sentinel_lead_to_another_primary() {
    let server = RedisServer::start();
    let sentinel = sentinel(server.port(), None, "");
    let proxy = Proxy::to(sentinel.port());
    let url = format!("redis+sentinel://127.0.0.1:{}/{MASTER}", proxy.port());
    let locks = LockManager::connect_blocking(&url).unwrap();
    let held = locks.lock("k").ttl(10 * LIMIT).acquire_blocking().unwrap();
    let accepted = proxy.accepted();
    eventually("it is said", || proxy.say(b"*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n"));
    eventually("the sentinel is asked over another connection", || proxy.accepted() > accepted);
    locks.lock("another").run_value_blocking(|_| ()).unwrap();
    assert!(held.is_held());
}

/// A server that says this to each client as soon as it has connected, and closes. Counts its
/// clients.
fn that_says(words: &'static [u8]) -> (u16, Arc<AtomicUsize>) {
    fake(move |mut client| drop(client.write_all(words)))
}

/// A server that does this with each client.
fn fake(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let (port, clients) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
    let (counted, serve) = (Arc::clone(&clients), Arc::new(serve));
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(client));
        }
    });
    (port, clients)
}

fn connect_error(port: u16) -> LockError {
    LockManager::connect_blocking(format!("redis://127.0.0.1:{port}/")).unwrap_err()
}

#[test]
fn the_last_words_of_a_server_are_its_reason() {
    let denied = b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is \
        set for the default user. In this mode connections are only accepted from the loopback interface.\r\n";
    let (port, _) = that_says(denied);
    for _ in 0..20 {
        let error = connect_error(port);
        assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
        let words = error.to_string();
        assert!(words.contains("DENIED Redis is running in protected mode"), "{words}");
        assert!(!words.contains("rediss"), "{words}");
    }
    let (port, _) = that_says(b"-ERR max number of clients + cluster connections reached\r\n");
    for _ in 0..20 {
        let error = connect_error(port);
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        let words = error.to_string();
        assert!(words.contains("ERR max number of clients") && !words.contains("rediss"), "{words}");
    }
}

#[test]
fn a_full_server_says_that_it_is() {
    let server = RedisServer::start();
    let mut client = server.client();
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut client).unwrap();
    for _ in 0..20 {
        let error = connect_error(server.port());
        let words = error.to_string();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        assert!(words.contains("max number of clients reached") && !words.contains("rediss"), "{words}");
    }
}

#[test]
fn a_server_that_is_none_is_called_so_in_one_sentence() {
    for (words, expected) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nConnection: close\r\n\r\n<html>"[..],
            "answered with `HTTP/1.1`",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "answered with `SSH-2.0-OpenSSH_9.6`"),
        (b"J\0\0\0\x0a8.0.36\0", "answered with the greeting of MySQL"),
        (b"\x5f\0\0\0\x0a11.4.2-MariaDB\0", "answered with the greeting of MySQL"),
        (b"220 mail.example.com ESMTP\r\n", "answered with `220`"),
        (b"ERROR\r\n", "answered with `ERROR`"),
    ] {
        let (port, _) = that_says(words);
        let error = connect_error(port);
        let said = error.to_string();
        assert!(said.contains(expected) && said.contains("it is no Redis server"), "{said}");
        assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
        assert!(!said.contains('\n') && said.len() < 200, "{said}");
    }
}

#[test]
fn what_speaks_tls_is_told_from_what_says_nothing() {
    let (port, _) = that_says(b"\x15\x03\x01\x00\x02\x02\x46");
    let error = connect_error(port);
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
    assert!(error.to_string().contains("it speaks TLS on this port: rediss://"), "{error}");
    let (port, _) = that_says(b"");
    let error = connect_error(port);
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let words = error.to_string();
    assert!(
        words.contains("said nothing") && words.contains("a proxy without a server behind it"),
        "{words}"
    );
}

/// A proxy that closes its client's connection when it reads this word, while the test wants it
/// to.
fn that_closes_at(word: &'static str, port: u16, at_most: usize) -> (u16, Arc<AtomicUsize>) {
    let closed = AtomicUsize::new(0);
    fake(move |client| {
        let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
        let (mut client, mut server) = (client, server);
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            let has_it = buffer[..read].windows(word.len()).any(|window| window == word.as_bytes());
            if has_it && closed.fetch_add(1, Ordering::SeqCst) < at_most {
                break;
            }
            if server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (client.shutdown(std::net::Shutdown::Both), server.shutdown(std::net::Shutdown::Both));
    })
}

#[test]
fn a_proxy_that_closes_at_hello_is_spoken_to_without_it() {
    let server = RedisServer::start();
    let (port, clients) = that_closes_at("HELLO", server.port(), usize::MAX);
    let locks = LockManager::connect_blocking(format!("redis://127.0.0.1:{port}/")).unwrap();
    assert_eq!(clients.load(Ordering::SeqCst), 3, "with it, without it, and with it once more");
    assert!(!locks.capabilities_blocking().unwrap().hands_over());
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
    assert_eq!(clients.load(Ordering::SeqCst), 3, "the connection stays");
    // One that ends just then, and is there again, is not taken for such a proxy.
    let (port, _) = that_closes_at("HELLO", server.port(), 1);
    let locks = LockManager::connect_blocking(format!("redis://127.0.0.1:{port}/")).unwrap();
    assert!(locks.capabilities_blocking().unwrap().hands_over());
    // One that knows no command of the handshake either is named with it.
    let (port, _) = that_closes_at("CLIENT", server.port(), usize::MAX);
    let words = connect_error(port).to_string();
    assert!(words.contains("closed the connection instead of answering CLIENT KILL"), "{words}");
}

#[test]
fn an_error_of_the_server_shows_no_token_that_it_repeats() {
    let server = RedisServer::start();
    let renamed = Rewriter::to(server.port(), "EVALSHA", "EVALSHX");
    renamed.rest(true);
    let locks = LockManager::connect_blocking(renamed.url()).unwrap();
    let guards: Vec<_> = (0..3)
        .map(|nth| locks.lock(format!("k{nth}")).ttl(Duration::from_secs(20)).acquire_blocking().unwrap())
        .collect();
    // The first has sent the source of the script.
    let mut guards = guards.into_iter();
    guards.next().unwrap().release_blocking().unwrap();
    renamed.rest(false);
    let secrets: Vec<String> = guards
        .as_slice()
        .iter()
        .map(|guard| server.run::<String>(&format!("GET lock:{}", guard.key()))[..22].to_owned())
        .collect();
    for guard in guards {
        let error = guard.release_blocking().unwrap_err().to_string();
        assert!(error.contains("EVALSHX"), "the server knows no such command: {error}");
        let shows = |secret: &String| (0..=16).any(|at| error.contains(&secret[at..at + 6]));
        assert!(!secrets.iter().any(shows), "{error}");
    }
    assert!(renamed.rewritten() > 0);
}

#[test]
fn a_flood_of_pushes_takes_no_lock_away() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = LockManager::connect_blocking(proxy.url()).unwrap();
    let held = locks.lock("held").ttl(2 * LIMIT).acquire_blocking().unwrap();
    let inbox: Vec<String> = server.run("PUBSUB CHANNELS lock:%inbox*");
    let (accepted, mut client) = (proxy.accepted(), server.client());
    let flooding = thread::spawn(move || {
        let mut forged = redis::pipe();
        for _ in 0..2_500 {
            forged.cmd("PUBLISH").arg(&inbox[0]).arg("granted|sometoken|1|2||lock:x").ignore();
        }
        (0..4).for_each(|_| forged.exec(&mut client).unwrap());
    });
    while !flooding.is_finished() {
        locks.lock("another").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    }
    flooding.join().unwrap();
    locks.lock("another").wait(LIMIT).run_value_blocking(|_| ()).unwrap();
    assert!(held.is_held());
    assert_eq!(proxy.accepted(), accepted, "the connection stays");
}

/// It gives this answer to `CLUSTER SLOTS`, and speaks no RESP3.
fn node_that_reports(slots: String) -> (u16, Arc<AtomicUsize>) {
    fake(move |client| {
        let (mut lines, mut client) = (BufReader::new(client.try_clone().unwrap()).lines(), client);
        while let Some(Ok(begins)) = lines.next() {
            let words: usize = begins.trim_start_matches('*').parse().unwrap();
            // Behind the length of each.
            let words: Vec<_> =
                (0..words).map_while(|_| lines.by_ref().map_while(Result::ok).nth(1)).collect();
            let answer = match words.first().map(String::as_str) {
                Some("CLUSTER") => &slots,
                Some("HELLO") => "-ERR unknown command 'HELLO'\r\n",
                _ => "+OK\r\n",
            };
            if client.write_all(answer.as_bytes()).is_err() {
                break;
            }
        }
    })
}

/// A slot range of `CLUSTER SLOTS`, and its nodes on loopback addresses.
fn range(first: usize, last: usize, nodes: impl ExactSizeIterator<Item = usize>) -> String {
    let head = format!("*{}\r\n:{first}\r\n:{last}\r\n", 2 + nodes.len());
    let node = |node| {
        let host = format!("127.{}.{}.{}", 1 + node / 62_500, node / 250 % 250, 1 + node % 250);
        format!("*2\r\n${}\r\n{host}\r\n:1\r\n", host.len())
    };
    head + &nodes.map(node).collect::<String>()
}

#[test]
fn a_map_that_no_cluster_has_takes_no_connections_and_is_told_in_time() {
    let ranges = |ranges: Vec<String>| format!("*{}\r\n{}", ranges.len(), ranges.concat());
    for (slots, expected) in [
        (
            ranges((0..16_384).map(|at| range(at, at, std::iter::once(at))).collect()),
            "more than 512 primaries",
        ),
        (ranges(vec![range(0, 16_383, 0..20_000)]), "more than 2048 nodes of the Cluster"),
        (
            ranges((0..20_000).map(|at| range(at % 100, at % 100, std::iter::once(0))).collect()),
            "slot 0 of the Cluster twice",
        ),
    ] {
        let (port, _clients) = node_that_reports(slots);
        let open = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let before = open();
        let url = format!("redis+cluster://127.0.0.1:{port}/");
        let locks = LockManager::builder(url).io_timeout(LIMIT / 4).connect_lazy().unwrap();
        let called = Instant::now();
        let error = locks.lock("k").wait(Duration::from_secs(1)).acquire_blocking().unwrap_err();
        let words = error.to_string();
        assert!(called.elapsed() < LIMIT, "{:?}", called.elapsed());
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        let server = format!("Redis at 127.0.0.1:{port} reports {expected}");
        assert!(words.contains(&server), "{words}");
        assert!(open() < before + 300, "{} descriptors", open() - before);
    }
}
