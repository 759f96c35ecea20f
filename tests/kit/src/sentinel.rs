//! A primary with two replicas, and three sentinels that watch over them.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::server::{REDIS_SERVER, end_with_this_process};
use crate::{LIMIT, RedisServer, eventually, free_port, unique, within};

/// The name of the primary for the sentinels.
pub const MASTER: &str = "shop";

/// Its processes are killed when this is dropped.
pub struct SentinelGroup {
    /// The first primary, then its replicas.
    pub servers: Vec<RedisServer>,
    /// Each watches over all servers.
    pub sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// Ready for a failover: each sentinel knows the others and the replicas.
    pub fn start() -> Self {
        let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
        let _: String = servers[0].run("CONFIG SET repl-diskless-sync-delay 0");
        for replica in &servers[1..] {
            let _: String = replica.run(&format!("REPLICAOF 127.0.0.1 {}", servers[0].port()));
        }
        for replica in &servers[1..] {
            eventually("it replicates", || {
                replica.run::<String>("INFO replication").contains("master_link_status:up")
            });
        }
        let sentinels = (0..3).map(|_| sentinel(servers[0].port(), None, "")).collect();
        let group = Self { servers, sentinels };
        for sentinel in &group.sentinels {
            // They look for each other every few seconds.
            within(3 * LIMIT, "the sentinel knows the others, and the replicas", || {
                let info: String = sentinel.run("INFO sentinel");
                info.contains("status=ok,") && info.contains("slaves=2,sentinels=3")
            });
        }
        group
    }

    /// One that lives as long as this process, for tests that share it and let its primary be.
    pub fn of_this_process() -> &'static Self {
        static GROUP: LazyLock<SentinelGroup> = LazyLock::new(|| {
            let group = SentinelGroup::start();
            end_with_this_process(group.servers.iter().chain(&group.sentinels));
            group
        });
        &GROUP
    }

    /// All sentinels, and the name of the primary.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
        format!("redis+sentinel://{}/{MASTER}", hosts.join(","))
    }

    /// Where one of the sentinels says that it is.
    pub fn primary(&self) -> &RedisServer {
        let ask = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {MASTER}");
        let (_, port): (String, u16) = self.sentinels[0].run(&ask);
        self.servers.iter().find(|server| server.port() == port).unwrap()
    }

    /// Has a sentinel promote a replica. The sentinel refuses while it has no recent answer of a replica,
    /// as on a machine that is busy.
    pub fn fail_over(&self) {
        let sentinel = &self.sentinels[1];
        eventually("a replica is promoted", || {
            let begun = sentinel.try_run::<String>(&format!("SENTINEL FAILOVER {MASTER}"));
            begun.map_or_else(|error| error.code() == Some("INPROG"), |_| true)
        });
    }

    /// The servers agree, too.
    pub fn wait_for_another_primary_than(&self, port: u16) {
        // An election without a majority is held again, after a while.
        within(3 * LIMIT, "there is another primary", || {
            let now = self.primary();
            now.port() != port && now.run::<String>("INFO replication").contains("role:master")
        });
    }

    /// `lock:<key>` is gone from both replicas, as if the primary had not told them yet.
    pub fn forget_on_replicas(&self, key: &str) {
        let primary = self.primary().port();
        for replica in self.servers.iter().filter(|server| server.port() != primary) {
            eventually("it is replicated", || replica.run::<i32>(&format!("EXISTS lock:{key}")) == 1);
            let _: String = replica.run("CONFIG SET replica-read-only no");
            let _: i32 = replica.run(&format!("DEL lock:{key}"));
            let _: String = replica.run("CONFIG SET replica-read-only yes");
        }
    }
}

/// One that watches over the primary at this port. `more`: lines of its settings.
pub fn sentinel(primary: u16, password: Option<&'static str>, more: &str) -> RedisServer {
    // Another process may take the port before the sentinel binds it: then try another one.
    for _ in 0..50 {
        let directory = std::env::temp_dir().join(unique("redlocked-sentinel"));
        fs::create_dir_all(&directory).unwrap();
        let (port, place) = (free_port(), directory.display());
        // It writes its state to this file.
        let file = directory.join("sentinel.conf");
        let locked = password.map(|password| format!("requirepass {password}\n")).unwrap_or_default();
        let settings = format!(
            "port {port}\nbind 127.0.0.1\ndir {place}\n{locked}{more}\
             sentinel monitor {MASTER} 127.0.0.1 {primary} 2\n\
             sentinel down-after-milliseconds {MASTER} 500\n\
             sentinel failover-timeout {MASTER} 3000\n"
        );
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(REDIS_SERVER);
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let mut sentinel = RedisServer {
            process,
            program: REDIS_SERVER.into(),
            port,
            password,
            durable: false,
            more: Vec::new(),
            directory,
            reserved: None,
        };
        if sentinel.is_up() {
            return sentinel;
        }
    }
    panic!("no sentinel starts on any port");
}
