//! Real `redis-server` processes, alone or as a Cluster, started on free loopback ports and killed with the test that
//! owns them; a proxy that holds replies back, and one that rewrites requests; worker processes; and waiting for a
//! condition with a limit.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    reason = "each test binary uses a part of this, and a test may panic"
)]

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

mod cluster;
mod late;
mod proxy;
pub mod quorum;
mod rewriter;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod worker;

pub use cluster::{RedisCluster, owns};
pub use late::LateProxy;
pub use proxy::Proxy;
pub use rewriter::Rewriter;
pub use sentinel::{MASTER, SentinelGroup, sentinel};
#[cfg(feature = "tls")]
pub use tls::{Authority, TlsServer, tls_cluster, trusting};
#[cfg(unix)]
pub use worker::{Job, Line, Worker, between, listen, now, say};

/// The longest that any condition may take on a slow machine.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Waits until `condition` holds; fails the test with `what` when it does not within [`LIMIT`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    within(LIMIT, what, condition);
}

/// The same with another limit.
#[track_caller]
pub fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// True when a timer of TCP's keep-alive runs on a connection to this port.
#[cfg(target_os = "linux")]
pub fn keeps_alive(port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    // The third field is the remote address, the fourth the state, the sixth which timer runs, and for how long.
    let mut connections = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    connections.any(|of| of[2].ends_with(&port) && of[3] == "01" && of[5].starts_with("02:"))
}

/// A name that no other test of this run uses.
pub fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// One server.
pub struct RedisServer {
    process: Child,
    port: u16,
    password: Option<&'static str>,
    durable: bool,
    /// What else it is told when it starts.
    more: Vec<String>,
    directory: PathBuf,
}

impl RedisServer {
    /// Without persistence: a restart forgets everything.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more settings.
    pub fn start_with(more: &[String]) -> Self {
        Self::launch(None, false, more)
    }

    pub fn with_password(password: &'static str) -> Self {
        Self::launch(Some(password), false, &[])
    }

    /// Whatever it has answered survives a restart.
    pub fn durable() -> Self {
        Self::durable_with(&[])
    }

    /// The same with more settings.
    pub fn durable_with(more: &[String]) -> Self {
        Self::launch(None, true, more)
    }

    /// The URL of a server that lives as long as this process, for tests that share it: a shell ends it when
    /// its standard input ends, however this process does.
    pub fn of_this_process() -> String {
        static URL: LazyLock<String> = LazyLock::new(|| {
            let server = RedisServer::start();
            let watch = format!("read -r _; kill -9 {}; rm -rf \"$0\"", server.process.id());
            let mut shell = Command::new("sh");
            shell.args(["-c", &watch]).arg(&server.directory).stdin(Stdio::piped());
            let url = server.url();
            std::mem::forget((shell.spawn().unwrap(), server));
            url
        });
        URL.clone()
    }

    fn launch(password: Option<&'static str>, durable: bool, more: &[String]) -> Self {
        // Another process may take the port between our look and the server's bind: then try another one.
        for _ in 0..50 {
            let directory = temporary(durable).join(unique("redlocked-test"));
            fs::create_dir_all(&directory).unwrap();
            let port = free_port();
            let process = spawn(port, password, durable, more, &directory);
            let mut server = Self { process, port, password, durable, more: more.to_vec(), directory };
            if server.is_up() {
                return server;
            }
        }
        panic!("redis-server does not start on any port");
    }

    fn is_up(&mut self) -> bool {
        let start = Instant::now();
        loop {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if let Some(id) = self.process_id_of_server() {
                return id == self.process.id();
            }
            assert!(start.elapsed() < LIMIT, "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asked of whoever listens on our port.
    fn process_id_of_server(&self) -> Option<u32> {
        let info: String = redis::cmd("INFO").arg("server").query(&mut self.connect()?).ok()?;
        info.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()
    }

    /// `None` when it does not answer.
    pub fn connect(&self) -> Option<redis::Connection> {
        let client = redis::Client::open(self.url()).ok()?;
        client.get_connection_with_timeout(Duration::from_millis(500)).ok()
    }

    /// Neither killed nor stopped.
    pub fn is_running(&self) -> bool {
        self.process_id_of_server() == Some(self.process.id())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        match self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port),
            None => format!("redis://127.0.0.1:{}/", self.port),
        }
    }

    /// A connection of the test's own, as `redis-cli` would have.
    #[track_caller]
    pub fn client(&self) -> redis::Connection {
        let mut client = None;
        eventually("it answers", || {
            client = self.connect();
            client.is_some()
        });
        client.unwrap()
    }

    /// One command, by a client that knows nothing of this library.
    #[track_caller]
    pub fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        self.try_run(command).unwrap()
    }

    /// The same, which may fail.
    pub fn try_run<T: redis::FromRedisValue>(&self, command: &str) -> redis::RedisResult<T> {
        let mut words = command.split_whitespace();
        let mut cmd = redis::cmd(words.next().unwrap());
        for word in words {
            cmd.arg(word);
        }
        let client = redis::Client::open(self.url())?;
        cmd.query(&mut client.get_connection_with_timeout(Duration::from_millis(500))?)
    }

    /// Every key on the server, by SCAN, but for the one clock of fencing tokens that stays.
    pub fn keys(&self) -> Vec<String> {
        let mut client = self.client();
        let mut scan = redis::cmd("SCAN");
        scan.cursor_arg(0);
        let keys = scan.iter(&mut client).unwrap().map(Result::unwrap);
        keys.filter(|key: &String| !key.ends_with("%clock")).collect()
    }

    /// How many scripts clients have called: what this library sends once it is connected.
    pub fn client_commands(&self) -> u64 {
        let stats: String = self.run("INFO commandstats");
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            matches!(name, "evalsha" | "eval").then(|| rest.split(',').next().unwrap().parse().unwrap())
        };
        stats.lines().filter_map(calls).sum()
    }

    /// `kill -9`; it can be started again on the same port.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.process = spawn(self.port, self.password, self.durable, &self.more, &self.directory);
        assert!(self.is_up(), "redis-server does not start again");
        eventually("it has read what it had written", || {
            self.connect().is_some_and(|mut client| redis::cmd("DBSIZE").query::<u64>(&mut client).is_ok())
        });
    }

    /// SIGSTOP: connected, and silent.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What is written before each answer goes to memory where there is such a place: a disk may be busy with something else.
fn temporary(durable: bool) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if durable && memory.is_dir() { memory } else { std::env::temp_dir() }
}

fn spawn(port: u16, password: Option<&str>, durable: bool, more: &[String], directory: &PathBuf) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", if durable { "yes" } else { "no" }, "--appendfsync", "always"]);
    command.arg("--dir").arg(directory);
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    command.args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("these tests need `redis-server` on PATH ({error}); `./test` gets it and runs them")
    })
}
