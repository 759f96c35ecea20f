//! Time that passes: servers remove keys that have expired, and tell the clients that watch them.

use kit::{RedisServer, eventually};
use redlocked_sim::server::{Server, ServerSettings, Version};

use crate::pair::version_of;
use crate::real::Connection;
use crate::sequence::{Abilities, Sequence};
use crate::wire::{Said, encoded, words};

#[test]
fn a_key_that_expires_is_told_to_its_readers_without_a_command() {
    let real = RedisServer::start();
    let Some(version) = version_of(&real) else { return };
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

#[test]
fn two_servers_that_are_told_the_same_say_the_same() {
    for version in Version::ALL {
        let abilities = Abilities { resp3: version.speaks_resp3(), sharded: version.has_sharded_channels() };
        let said = [(); 2].map(|()| {
            let mut server = Server::new(version, ServerSettings::default());
            let clients = [1, 2, 3, 4].map(|port| server.connect(0, &format!("127.0.0.1:{port}")));
            let mut sequence = Sequence::new(7, abilities);
            let mut steps = sequence.opening();
            steps.extend((0..400).map(|_| sequence.next()));
            let mut now = 1_795_000_000_000_000;
            for (client, commands) in steps {
                now += 20_000;
                for command in commands {
                    server.receive(now, clients[client], &encoded(&command));
                }
                server.expire(now);
            }
            server.take_output()
        });
        assert!(said[0] == said[1], "{version:?}");
        assert!(said[0].iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 4000, "{version:?}");
    }
}
