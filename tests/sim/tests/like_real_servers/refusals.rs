//! What servers refuse, and in which words: to a client, and in the middle of a script.

use std::fs;
use std::time::Duration;

use kit::{RedisServer, eventually};
use redlocked_sim::server::{ClientId, DEFAULT_USER, Role, Server, ServerSettings, Trouble, Version};

use crate::pair::version_of;
use crate::real::Connection;
use crate::wire::{Said, encoded, words};

/// Commands of all kinds: they read, write, need memory, publish, and manage the connection.
const COMMANDS: [&[&str]; 33] = [
    &["GET", "lock:a"],
    &["SET", "lock:a", "v", "PX", "60000"],
    &["DEL", "lock:a"],
    &["GET", "other"],
    &["PEXPIRE", "lock:a", "5000"],
    &["INCR", "number"],
    &["GETRANGE", "lock:a", "0", "2"],
    &["GETRANGE", "queue", "0", "2"],
    &["GETRANGE", "none", "0", "2"],
    &["EXISTS", "lock:a", "other"],
    &["ZADD", "queue", "1", "m"],
    &["PUBLISH", "lock:c", "x"],
    &["PUBLISH", "other", "x"],
    &["EVAL", "return 1", "0"],
    &["EVAL", "return redis.call('GET', KEYS[1])", "1", "lock:a"],
    &["EVAL", "return redis.pcall('GET', KEYS[1])", "1", "lock:a"],
    &["EVAL", "return redis.call('SET', KEYS[1], 'v')", "1", "lock:a"],
    &["EVAL", "return redis.pcall('SET', KEYS[1], 'v')", "1", "lock:a"],
    &["EVAL", "return redis.pcall('DEL', KEYS[1])", "1", "none"],
    &["EVAL", "redis.call('ZREM', KEYS[1], 'm') return redis.call('INCR', 'number')", "1", "none"],
    &["EVAL", "redis.call('PTTL', KEYS[1]) return redis.call('INCR', 'number')", "1", "none"],
    &["EVAL", "redis.pcall('SET', KEYS[1], 'v') return redis.call('INCR', 'number')", "1", "lock:a"],
    &["EVAL", "return redis.call('TTL', 'other')", "0"],
    &["EVAL", "return redis.call('PUBLISH', 'other', 'x')", "0"],
    &["EVAL", "return redis.call('PUBLISH', 'lock:c', 'x')", "0"],
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
    &["CLIENT", "KILL", "ID", "9223372036854775807", "ADDR", "0.0.0.0:0"],
    &["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"],
    &["CLIENT", "CACHING", "YES"],
    &["SELECT", "0"],
    &["PUBSUB", "NUMSUB", "lock:c"],
    &["FOO"],
    &["PING"],
];

struct Both {
    real: RedisServer,
    simulated: Server,
    version: Version,
}

/// A client of both.
struct Client {
    real: Connection,
    simulated: ClientId,
}

/// Commands of the test to the real server, and its hand on the other.
type Prepare<'a> = (&'a [&'a str], &'a dyn Fn(&mut Server));

impl Both {
    fn start() -> Option<Self> {
        Self::start_with(ServerSettings::default())
    }

    fn start_with(settings: ServerSettings) -> Option<Self> {
        let real = RedisServer::start();
        let version = version_of(&real)?;
        Some(Self { simulated: Server::new(version, settings), real, version })
    }

    /// The answer of the real server is that of a command that an operator gives.
    fn prepare(&mut self, (commands, simulated): Prepare<'_>) {
        for command in commands {
            let mut words = command.split(' ');
            let mut operation = redis::cmd(words.next().unwrap());
            operation.arg(words.collect::<Vec<_>>());
            operation
                .query::<redis::Value>(&mut self.real.client())
                .unwrap_or_else(|error| panic!("{command}: {error}"));
        }
        simulated(&mut self.simulated);
    }

    fn connect(&mut self) -> Client {
        Client {
            real: Connection::open(self.real.port()),
            simulated: self.simulated.connect(0, "127.0.0.1:1"),
        }
    }

    #[track_caller]
    fn compare(&mut self, client: &mut Client, condition: &str, command: &[&str]) {
        let real = client.real.ask(command);
        self.simulated.receive(0, client.simulated, &encoded(&words(command)));
        let said = self.simulated.take_output();
        let said =
            said.iter().find(|(to, _)| *to == client.simulated).and_then(|(_, bytes)| Said::read(bytes));
        let Some((simulated, _)) = said else { panic!("{condition}: {command:?} has no answer") };
        let are_like = real.is_like(&simulated, 0) || is_hello(&real) && is_hello(&simulated);
        assert!(are_like, "{:?}, {condition}: {command:?}\n  {real:?}\n  {simulated:?}", self.version);
    }

    #[track_caller]
    fn compare_all(&mut self, condition: &str) {
        let mut client = self.connect();
        self.compare_all_of(&mut client, condition);
    }

    #[track_caller]
    fn compare_all_of(&mut self, client: &mut Client, condition: &str) {
        for command in COMMANDS {
            self.compare(client, condition, command);
        }
    }
}

fn is_hello(said: &Said) -> bool {
    matches!(said, Said::List(_, items) if matches!(items.first(), Some(Said::Text(_, first)) if first == b"server"))
}

#[test]
fn a_server_that_is_well_refuses_nothing() {
    let Some(mut both) = Both::start() else { return };
    both.compare_all("well");
}

#[test]
fn a_replica_takes_no_writes_and_may_refuse_reads() {
    let Some(mut both) = Both::start() else { return };
    let role = |serves_stale_data| Role::Replica {
        host: "127.0.0.1".to_owned(),
        port: 1,
        link_is_up: false,
        serves_stale_data,
    };
    both.prepare((&["SET lock:a v"], &|server| server.set(0, b"lock:a", b"v", None)));
    both.prepare((&["REPLICAOF 127.0.0.1 1"], &|server| server.set_role(role(true))));
    both.compare_all("a replica");
    let mut client = both.connect();
    both.compare(&mut client, "a replica", &["ROLE"]);
    both.compare(&mut client, "a replica", &["WAIT", "1", "10"]);
    both.prepare((&["CONFIG SET replica-serve-stale-data no"], &|server| server.set_role(role(false))));
    both.compare_all("a replica that has lost its primary");
    both.prepare((&["REPLICAOF NO ONE"], &|server| server.set_role(Role::default())));
    both.compare_all("a primary again");
}

#[test]
fn too_few_replicas_or_too_little_memory_refuse_writes() {
    let Some(mut both) = Both::start() else { return };
    both.prepare((&["CONFIG SET min-replicas-to-write 1"], &|server| {
        server.settings_mut().replicas_to_write = 1;
    }));
    both.compare_all("without replicas");
    both.prepare((&["CONFIG SET min-replicas-to-write 0"], &|server| {
        server.settings_mut().replicas_to_write = 0;
    }));
    let is = |out_of_memory| {
        move |server: &mut Server| server.set_trouble(Trouble { out_of_memory, ..Trouble::default() })
    };
    both.prepare((&["CONFIG SET maxmemory 1000"], &is(true)));
    both.compare_all("without memory");
    both.prepare((&["CONFIG SET maxmemory 0"], &is(false)));
    both.compare_all("with memory");
}

#[test]
fn a_server_that_cannot_save_refuses_writes() {
    let Some(mut both) = Both::start() else { return };
    let directory: (String, String) = both.real.run("CONFIG GET dir");
    fs::remove_dir_all(directory.1).unwrap();
    // Not `CONFIG SET save 900 1`: the last save must have failed.
    let mut client = both.real.client();
    let _: String = redis::cmd("CONFIG").arg("SET").arg("save").arg("900 1").query(&mut client).unwrap();
    let _: redis::Value = both.real.run("BGSAVE");
    eventually("it could not save", || {
        both.real.run::<String>("INFO persistence").contains("last_bgsave_status:err")
    });
    both.simulated.set_trouble(Trouble { cannot_save: true, ..Trouble::default() });
    both.compare_all("cannot save");
}

#[test]
fn a_server_that_reads_its_data_refuses_almost_everything() {
    let Some(mut both) = Both::start() else { return };
    if !both.version.has_sharded_channels() {
        kit::skipped("before Redis 7.0, no setting makes it read slowly");
        return;
    }
    let settings =
        "--loading-process-events-interval-bytes 1024 --rdbcompression no --enable-debug-command yes";
    both.real = RedisServer::start_with(&settings.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let fill = "for i = 1, 10000 do redis.call('SET', 'key' .. i, string.rep('x', 1000)) end";
    let mut operator = Connection::open(both.real.port());
    operator.ask(&["EVAL", fill, "0"]);
    let mut client = both.connect();
    // In microseconds for each key.
    assert_eq!(operator.ask(&["CONFIG", "SET", "key-load-delay", "500"]), Said::Line("+OK".to_owned()));
    operator.send(&encoded(&words(&["DEBUG", "RELOAD"])));
    let mut other = Connection::open(both.real.port());
    eventually(
        "it is loading",
        || matches!(other.ask(&["GET", "k"]), Said::Line(line) if line.starts_with("-LOADING")),
    );
    both.simulated.set_trouble(Trouble { loading: true, ..Trouble::default() });
    both.compare_all_of(&mut client, "loading");
    for command in [&["ROLE"][..], &["HELLO", "3"], &["WAIT", "0", "0"], &["SUBSCRIBE", "lock:c"]] {
        both.compare(&mut client, "loading", command);
    }
}

#[test]
fn a_busy_server_refuses_almost_everything() {
    let Some(mut both) = Both::start() else { return };
    both.prepare((&["CONFIG SET lua-time-limit 1"], &|_| {}));
    let mut client = both.connect();
    let mut stuck = Connection::open(both.real.port());
    stuck.send(&encoded(&words(&["EVAL", "while true do end", "0"])));
    let mut other = Connection::open(both.real.port());
    eventually("it is busy", || {
        std::thread::sleep(Duration::from_millis(20));
        matches!(other.ask(&["GET", "k"]), Said::Line(line) if line.starts_with("-BUSY"))
    });
    both.simulated.set_trouble(Trouble { busy: true, ..Trouble::default() });
    both.compare_all_of(&mut client, "busy");
    if both.version.speaks_resp3() {
        both.compare(&mut client, "busy", &["HELLO", "3"]);
    }
    assert_eq!(other.ask(&["SCRIPT", "KILL"]), Said::Line("+OK".to_owned()));
}

#[test]
fn a_server_with_a_password_wants_it_first() {
    let Some(mut both) = Both::start() else { return };
    let password: Prepare<'_> =
        (&["CONFIG SET requirepass secret"], &|server| server.set_passwords(DEFAULT_USER, Some(&["secret"])));
    both.prepare(password);
    let mut client = both.connect();
    both.compare_all_of(&mut client, "no password given");
    for command in [
        &["HELLO", "3"][..],
        &["HELLO", "7"],
        &["AUTH", "wrong"],
        &["AUTH", "default", "wrong"],
        &["HELLO", "3", "AUTH", "default", "wrong"],
        &["CLIENT", "SETINFO", "LIB-NAME", "x"],
        &["HELLO", "3", "AUTH", "default", "secret"],
        &["AUTH", "secret"],
        &["CLIENT", "SETINFO", "LIB-NAME", "x"],
        &["CLIENT", "SETINFO", "LIB-NAME", "x y"],
        &["HELLO", "x"],
        &["HELLO", "2"],
        &["GET", "lock:a"],
    ] {
        both.compare(&mut client, "with a password", command);
    }
}

#[test]
fn access_rules_are_told_in_the_words_of_each_version() {
    let Some(mut both) = Both::start() else { return };
    if !both.version.speaks_resp3() {
        kit::skipped("Redis 5 has no access rules");
        return;
    }
    let wait_for = |both: &mut Both, rules: &str, simulated: &dyn Fn(&mut Server)| {
        both.prepare((&[&format!("ACL SETUSER shop on >secret {rules}")], simulated));
        let mut client = both.connect();
        both.compare(&mut client, "log in", &["AUTH", "shop", "secret"]);
        both.compare_all_of(&mut client, rules);
    };
    wait_for(&mut both, "allkeys allchannels +@all -get -set -publish -client", &|server| {
        server.set_passwords("shop", Some(&["secret"]));
        for command in ["get", "set", "publish", "client"] {
            server.deny("shop", command);
        }
    });
    wait_for(&mut both, "resetkeys resetchannels ~lock:* &lock:* +@all", &|server| {
        server.limit("shop", Some(&["lock:*"]), Some(&["lock:*"]));
        for command in ["get", "set", "publish", "client"] {
            server.allow("shop", command);
        }
    });
    let mut client = both.connect();
    both.compare(&mut client, "log in", &["AUTH", "shop", "secret"]);
    both.compare(&mut client, "a channel", &["SUBSCRIBE", "other"]);
}

#[test]
fn a_server_is_full_in_its_own_words() {
    let Some(mut both) = Both::start_with(ServerSettings { max_clients: 1, ..ServerSettings::default() })
    else {
        return;
    };
    both.prepare((&["CONFIG SET maxclients 1"], &|_| {}));
    let mut first = Connection::open(both.real.port());
    // The connection that has set the limit may not be gone yet.
    eventually("it is the only one", || {
        matches!(first.ask(&["PING"]), Said::Line(line) if line == "+PONG") || {
            first = Connection::open(both.real.port());
            false
        }
    });
    let told = Connection::open(both.real.port()).next().unwrap();
    both.simulated.connect(0, "127.0.0.1:1");
    let second = both.simulated.connect(0, "127.0.0.1:2");
    let output = both.simulated.take_output();
    assert_eq!(Said::read(&output[0].1).unwrap().0, told);
    assert_eq!(both.simulated.take_closed(), [second]);
}

#[test]
fn what_a_server_says_of_itself_is_read_in_the_same_way() {
    let Some(mut both) = Both::start() else { return };
    let mut client = both.connect();
    for command in [&["ROLE"][..], &["CONFIG", "GET", "appendonly"], &["CONFIG", "GET", "nothing"]] {
        both.compare(&mut client, "RESP2", command);
    }
    if both.version.speaks_resp3() {
        for command in
            [&["HELLO", "3"][..], &["ROLE"], &["CONFIG", "GET", "appendonly"], &["CLIENT", "GETNAME"]]
        {
            both.compare(&mut client, "RESP3", command);
        }
    }
    // Compares only the fields of long texts that we read.
    for (command, fields) in [
        (&["INFO", "memory"][..], &["maxmemory:", "maxmemory_policy:"][..]),
        (&["INFO", "server"], &["run_id:", "uptime_in_seconds:", "redis_version:"]),
        (&["INFO", "replication"], &["role:"]),
        (&["CLIENT", "INFO"], &["id=", " addr=", " name=", " db="]),
    ] {
        if command[0] == "CLIENT" && !both.version.speaks_resp3() {
            continue;
        }
        both.simulated.receive(0, client.simulated, &encoded(&words(command)));
        let simulated = Said::read(&both.simulated.take_output()[0].1).unwrap().0;
        for said in [client.real.ask(command), simulated] {
            let Said::Text(kind, text) = said else { panic!("{command:?}") };
            assert_eq!(kind, if both.version.speaks_resp3() { '=' } else { '$' });
            let text = String::from_utf8(text).unwrap();
            assert!(fields.iter().all(|field| text.contains(field)), "{command:?}: {text}");
        }
    }
}

#[test]
fn a_client_that_speaks_another_protocol_is_told_so_and_closed() {
    let Some(mut both) = Both::start() else { return };
    for nonsense in ["*1\r\n:1\r\n", "*x\r\n", "*1\r\n$x\r\n"] {
        let mut client = both.connect();
        client.real.send(nonsense.as_bytes());
        both.simulated.receive(0, client.simulated, nonsense.as_bytes());
        let simulated = both.simulated.take_output();
        let real = client.real.next().unwrap();
        assert_eq!(Said::read(&simulated[0].1).map(|(said, _)| said), Some(real), "{nonsense:?}");
        assert_eq!(client.real.next(), None);
        assert_eq!(both.simulated.take_closed(), [client.simulated]);
    }
}
