//! Time that passes: servers remove keys that have expired, and tell those who watch them.

use kit::{RedisServer, eventually};
use redlocked_sim::server::{Server, ServerSettings};

use crate::pair::version_of;
use crate::real::Connection;
use crate::wire::{Said, encoded, words};

#[test]
fn a_key_that_expires_is_told_to_its_readers_without_a_command() {
    let real = RedisServer::start();
    let version = version_of(&real);
    if !version.speaks_resp3() {
        kit::skipped("Redis 5 does not tell");
        return;
    }
    let commands = [
        words(&["HELLO", "3"]),
        words(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"]),
        words(&["SET", "lock:a", "v", "PX", "20"]),
        words(&["CLIENT", "CACHING", "YES"]),
        words(&["GET", "lock:a"]),
    ];
    let mut client = Connection::open(real.port());
    for command in &commands {
        client.send(&encoded(command));
        client.next().unwrap();
    }
    let mut told = None;
    eventually("the client is told", || {
        told = client.next();
        true
    });
    assert!(matches!(&told, Some(Said::List('>', parts)) if parts.len() == 2), "{told:?}");

    let mut simulated = Server::new(version, ServerSettings::default());
    let start = 1_000_000;
    let id = simulated.connect(start, "127.0.0.1:1");
    for command in &commands {
        simulated.receive(start, id, &encoded(command));
    }
    simulated.take_output();
    let end = simulated.next_expiry().unwrap();
    simulated.expire(end - 1);
    assert_eq!(simulated.take_output(), []);
    assert_eq!(simulated.value(end - 1, b"lock:a"), Some(&b"v"[..]));
    simulated.expire(end);
    let output = simulated.take_output();
    assert_eq!(output.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [id]);
    assert_eq!(Said::read(&output[0].1).map(|(said, _)| said), told);
    assert_eq!((simulated.next_expiry(), simulated.keys(end).count()), (None, 0));
}
