//! A primary and its replica.

use kit::{RedisServer, eventually};
use redlocked_sim::server::{ReplicaLink, Role, Server, ServerSettings};

use crate::pair::version_of;
use crate::real::Connection;
use crate::wire::{Said, encoded, words};

#[test]
fn a_replica_has_what_its_primary_had() {
    let real = [(); 2].map(|()| RedisServer::start());
    let Some(version) = version_of(&real[0]) else { return };
    let _: String = real[0].run("CONFIG SET repl-diskless-sync-delay 0");
    let _: String = real[1].run(&format!("REPLICAOF 127.0.0.1 {}", real[0].port()));
    eventually("it replicates", || {
        real[1].run::<String>("INFO replication").contains("master_link_status:up")
    });
    eventually("its primary knows it", || real[0].run::<String>("INFO replication").contains("state=online"));

    let port = real[1].port();
    let mut primary = Server::new(version, ServerSettings::default());
    let mut replica = Server::new(version, ServerSettings { port, ..ServerSettings::default() });
    let link = ReplicaLink { host: "127.0.0.1".to_owned(), port, acknowledged: 0 };
    primary.set_role(Role::Primary { replicas: vec![link] });
    let role = |link_is_up| Role::Replica {
        host: "127.0.0.1".to_owned(),
        port: real[0].port(),
        link_is_up,
        serves_stale_data: true,
    };
    replica.set_role(role(true));
    replica.copy_from(0, &primary);

    let mut clients = [0, 1].map(|node: usize| Connection::open(real[node].port()));
    let first = primary.connect(0, "127.0.0.1:1");
    for command in [
        &["SET", "lock:a", "v", "PX", "60000"][..],
        &[
            "EVAL",
            "redis.call('ZADD', KEYS[1], 1, 'm') return redis.call('INCR', KEYS[2])",
            "2",
            "queue",
            "number",
        ],
        &["DEL", "other"],
    ] {
        let said = clients[0].ask(command);
        primary.receive(0, first, &encoded(&words(command)));
        assert_eq!(said_to(&mut primary), [said]);
    }
    // The replica has not answered yet.
    primary.receive(0, first, &encoded(&words(&["WAIT", "1", "1000"])));
    primary.receive(0, first, &encoded(&words(&["GET", "number"])));
    assert_eq!(said_to(&mut primary), []);
    assert_eq!(primary.next_timeout(), Some(1_000_000));
    let effects = primary.take_effects();
    let offset = replica.apply(0, &effects);
    primary.acknowledge(0, "127.0.0.1", port, offset);
    let said = [clients[0].ask(&["WAIT", "1", "1000"]), clients[0].ask(&["GET", "number"])];
    assert_eq!(said_to(&mut primary), said);

    let second = replica.connect(0, "127.0.0.1:2");
    for command in [
        &["GET", "lock:a"][..],
        &["ZRANGE", "queue", "0", "-1"],
        &["SET", "lock:a", "w"],
        &["WAIT", "1", "10"],
        &["EXISTS", "lock:a", "number", "other"],
    ] {
        replica.receive(0, second, &encoded(&words(command)));
        assert_eq!(said_to(&mut replica), [clients[1].ask(command)], "{command:?}");
    }
    let [Said::List(_, simulated), Said::List(_, real)] =
        [said_of(&mut replica, &["ROLE"]), clients[1].ask(&["ROLE"])]
    else {
        panic!("no role")
    };
    // The last part is an offset.
    assert_eq!(simulated[..4], real[..4]);

    // A lock that was not replicated is gone after a failover.
    primary.receive(0, first, &encoded(&words(&["SET", "lock:late", "v"])));
    replica.set_role(Role::default());
    assert_eq!(replica.kind(0, b"lock:late"), None);
    assert_eq!(said_of(&mut replica, &["SET", "lock:late", "mine"]), Said::Line("+OK".to_owned()));
    primary.set_role(role(true));
    primary.copy_from(0, &replica);
    assert_eq!(primary.value(0, b"lock:late"), Some(&b"mine"[..]));
}

#[test]
fn a_wait_without_enough_replicas_ends_at_its_limit() {
    let real = RedisServer::start();
    let Some(version) = version_of(&real) else { return };
    let mut simulated = Server::new(version, ServerSettings::default());
    let client = simulated.connect(0, "127.0.0.1:1");
    simulated.receive(0, client, &encoded(&words(&["WAIT", "1", "10"])));
    simulated.receive(0, client, &encoded(&words(&["PING"])));
    simulated.time_out(9_999);
    assert_eq!(said_to(&mut simulated), []);
    simulated.time_out(10_000);
    let mut other = Connection::open(real.port());
    let said = [other.ask(&["WAIT", "1", "10"]), other.ask(&["PING"])];
    assert_eq!(said_to(&mut simulated), said);
}

fn said_of(server: &mut Server, command: &[&str]) -> Said {
    Said::read(&server.run(0, command)).unwrap().0
}

fn said_to(server: &mut Server) -> Vec<Said> {
    let bytes: Vec<u8> = server.take_output().into_iter().flat_map(|(_, bytes)| bytes).collect();
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some((said, length)) = Said::read(&bytes[at..]) {
        all.push(said);
        at += length;
    }
    all
}
