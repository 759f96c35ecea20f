//! A sentinel, real and simulated: where is the primary?

use kit::{MASTER, RedisServer, sentinel};
use redlocked_sim::server::{Server, ServerSettings};

use crate::pair::version_of;
use crate::real::Connection;
use crate::wire::{Said, encoded, words};

#[test]
fn a_sentinel_tells_where_the_primary_is() {
    let primary = RedisServer::start();
    let real = sentinel(primary.port(), None, "");
    let Some(version) = version_of(&primary) else { return };
    let mut simulated = Server::new(version, ServerSettings { sentinel: true, ..ServerSettings::default() });
    simulated.set_primary(0, MASTER, Some(("127.0.0.1", primary.port())));
    let mut client = Connection::open(real.port());
    let id = simulated.connect(0, "127.0.0.1:1");
    let mut compare = |command: &[&str]| {
        let real = client.ask(command);
        simulated.receive(0, id, &encoded(&words(command)));
        let output = simulated.take_output();
        let said = Said::read(&output[0].1).unwrap().0;
        assert_eq!(without_numbers(said), without_numbers(real), "{version:?}: {command:?}");
    };
    let commands = [
        &["PING"][..],
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER],
        &["SENTINEL", "get-master-addr-by-name", "another"],
        &["SENTINEL", "FOO"],
        &["SENTINEL", "GET-MASTER-ADDR-BY-NAME"],
        &["GET", "lock:a"],
        &["CLUSTER", "SLOTS"],
        &["CLIENT", "SETINFO", "LIB-NAME", "x"],
        &["ROLE"],
    ];
    for command in commands {
        compare(command);
    }
    compare(&["HELLO", "3"]);
    for command in commands {
        compare(command);
    }
    compare(&["SUBSCRIBE", "+switch-master"]);
    simulated.set_primary(0, MASTER, Some(("127.0.0.1", 1)));
    let output = simulated.take_output();
    let Some((Said::List(_, parts), _)) = Said::read(&output[0].1) else { panic!("no push") };
    let text = format!("{MASTER} 127.0.0.1 {} 127.0.0.1 1", primary.port());
    assert_eq!(parts.last(), Some(&Said::Text('$', text.into_bytes())));
}

/// The answer to HELLO has the number of the client, and modules.
fn without_numbers(said: Said) -> Said {
    match said {
        Said::List('%', items) => Said::List('%', [&items[..6], &items[8..items.len() - 1]].concat()),
        other => other,
    }
}
