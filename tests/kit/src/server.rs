//! One real `redis-server` process, on a free loopback port.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

use crate::{LIMIT, eventually, free_port, unique};

/// The program, from PATH.
pub(crate) const REDIS_SERVER: &str = "redis-server";

/// A server that is killed when this is dropped.
pub struct RedisServer {
    pub(crate) process: Child,
    /// `redis-server`, or the path of another one.
    pub(crate) program: PathBuf,
    pub(crate) port: u16,
    pub(crate) password: Option<&'static str>,
    pub(crate) durable: bool,
    /// Settings beyond the usual ones.
    pub(crate) more: Vec<String>,
    pub(crate) directory: PathBuf,
    /// Keeps the port of a server that was killed: otherwise the server of another test may get it,
    /// and the callers of this one find a free lock there.
    pub(crate) reserved: Option<OwnedFd>,
}

impl RedisServer {
    /// Without persistence: a restart forgets everything.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// [`start`](Self::start) with more settings.
    pub fn start_with(more: &[String]) -> Self {
        Self::launch(None, false, more)
    }

    /// [`start`](Self::start) of another program than the `redis-server` on PATH.
    pub fn start_program(program: &Path) -> Self {
        Self::launch_program(program, None, false, &[])
    }

    /// Without persistence, and with `requirepass`.
    pub fn with_password(password: &'static str) -> Self {
        Self::launch(Some(password), false, &[])
    }

    /// All answered writes survive a restart.
    pub fn durable() -> Self {
        Self::durable_with(&[])
    }

    /// [`durable`](Self::durable) with more settings.
    pub fn durable_with(more: &[String]) -> Self {
        Self::launch(None, true, more)
    }

    /// The URL of a server that lives as long as this process, for tests that share it.
    pub fn of_this_process() -> String {
        static URL: LazyLock<String> = LazyLock::new(|| {
            let server = RedisServer::start();
            end_with_this_process([&server]);
            let url = server.url();
            std::mem::forget(server);
            url
        });
        URL.clone()
    }

    fn launch(password: Option<&'static str>, durable: bool, more: &[String]) -> Self {
        Self::launch_program(Path::new(REDIS_SERVER), password, durable, more)
    }

    fn launch_program(
        program: &Path,
        password: Option<&'static str>,
        durable: bool,
        more: &[String],
    ) -> Self {
        // Another process may take the port before the server binds it: then try another one.
        for _ in 0..50 {
            let directory = temporary(durable).join(unique("redlocked-test"));
            fs::create_dir_all(&directory).unwrap();
            let port = free_port();
            let process = spawn(program, port, password, durable, more, &directory);
            let program = program.to_path_buf();
            let more = more.to_vec();
            let mut server =
                Self { process, program, port, password, durable, more, directory, reserved: None };
            if server.is_up() {
                return server;
            }
        }
        panic!("{} does not start on any port", program.display());
    }

    pub(crate) fn is_up(&mut self) -> bool {
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

    /// Its id.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// As the process that listens on our port says.
    fn process_id_of_server(&self) -> Option<u32> {
        let info: String = redis::cmd("INFO").arg("server").query(&mut self.connect()?).ok()?;
        info.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()
    }

    /// `None` when it does not answer. On a busy machine, a server that is not stopped gets more time.
    pub fn connect(&self) -> Option<redis::Connection> {
        self.try_connect().ok()
    }

    fn try_connect(&self) -> redis::RedisResult<redis::Connection> {
        let client = redis::Client::open(self.url())?;
        let start = Instant::now();
        loop {
            match client.get_connection_with_timeout(Duration::from_millis(500)) {
                Err(error) if error.is_timeout() && self.may_answer() && start.elapsed() < LIMIT / 4 => {}
                outcome => return outcome,
            }
        }
    }

    /// Neither stopped nor gone, as the system says, where it says so.
    fn may_answer(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()));
        let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
        state.is_some_and(|state| !"TZX".contains(state))
    }

    /// Neither killed nor stopped.
    pub fn is_running(&self) -> bool {
        self.process_id_of_server() == Some(self.process.id())
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// For a client, with its password.
    pub fn url(&self) -> String {
        match self.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}/", self.port),
            None => format!("redis://127.0.0.1:{}/", self.port),
        }
    }

    /// A connection of the test's own, as of `redis-cli`.
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
        in_words(command).query(&mut self.client()).unwrap()
    }

    /// [`run`](Self::run) that may fail.
    pub fn try_run<T: redis::FromRedisValue>(&self, command: &str) -> redis::RedisResult<T> {
        in_words(command).query(&mut self.try_connect()?)
    }

    /// Every key on the server, by SCAN, except for the one clock of fencing tokens that stays.
    pub fn keys(&self) -> Vec<String> {
        let mut client = self.client();
        let mut scan = redis::cmd("SCAN");
        scan.cursor_arg(0);
        let keys = scan.iter(&mut client).unwrap().map(Result::unwrap);
        keys.filter(|key: &String| !key.ends_with("%clock")).collect()
    }

    /// The channels that clients listen to.
    pub fn channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = self.run("PUBSUB CHANNELS");
        // Redis 6.2 has no sharded ones.
        channels.extend(self.try_run::<Vec<String>>("PUBSUB SHARDCHANNELS").unwrap_or_default());
        channels
    }

    /// All callers have gone, and all managers: waits until no key is left but the clock of fencing
    /// tokens, and no channel.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        eventually("no key is left", || self.keys().is_empty());
        eventually("no channel is left", || self.channels().is_empty());
    }

    /// What it is, as it says: `Redis 7.0.15`, `Valkey 9.1.2`.
    #[track_caller]
    pub fn version(&self) -> String {
        let info: String = self.run("INFO server");
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let (name, version) = match field("valkey_version:") {
            Some(version) => ("Valkey", Some(version)),
            None => ("Redis", field("redis_version:")),
        };
        format!("{name} {}", version.unwrap_or("?").trim())
    }

    /// Redis 6.2 or older.
    #[track_caller]
    pub fn is_before_7(&self) -> bool {
        self.version().starts_with("Redis 6.")
    }

    /// It has access rules, and pushes: Redis 6.0 or newer.
    #[track_caller]
    pub fn has_access_rules(&self) -> bool {
        !self.version().starts_with("Redis 5.")
    }

    /// It has a command that compares and deletes. So the release of a marked lock is two commands:
    /// this one leaves it.
    pub fn has_native_delete(&self) -> bool {
        !self.known_rules("+delifeq +delex").is_empty()
    }

    /// Those of these access rules that this version has.
    pub fn known_rules(&self, rules: &str) -> String {
        let (mut client, user) = (self.client(), unique("rules"));
        let is_known = |rule: &&str| {
            redis::cmd("ACL").arg("SETUSER").arg(&user).arg(rule).query::<String>(&mut client).is_ok()
        };
        let known: Vec<_> = rules.split_whitespace().filter(is_known).collect();
        let _: i32 = self.run(&format!("ACL DELUSER {user}"));
        known.join(" ")
    }

    /// Tells no client of changes from now on: a lock that is held for longer than a moment is watched
    /// otherwise, by two commands more.
    pub fn tell_of_no_changes(&self) {
        let without_tracking = self.known_rules("-client|tracking");
        // Redis 6 forbids whole commands only.
        let rules = if without_tracking.is_empty() { "-client" } else { &without_tracking };
        let _: String = self.run(&format!("ACL SETUSER default {rules}"));
    }

    /// How many scripts and native deletes clients have called: the requests of this library once
    /// it is connected, except for locks that are taken without a script. [`requests`](Self::requests)
    /// counts these, too.
    pub fn client_commands(&self) -> u64 {
        let stats: String = self.run("INFO commandstats");
        let calls = |line: &str| -> Option<u64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            matches!(name, "evalsha" | "eval" | "delifeq" | "delex")
                .then(|| rest.split(',').next().unwrap().parse().unwrap())
        };
        stats.lines().filter_map(calls).sum()
    }

    /// `kill -9`; it can be started again on the same port.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.reserved = reserve(self.port);
    }

    /// On the same port, and it answers when this returns.
    pub fn restart(&mut self) {
        self.reserved = None;
        self.process =
            spawn(&self.program, self.port, self.password, self.durable, &self.more, &self.directory);
        assert!(self.is_up(), "redis-server does not start again");
        eventually("it has read what it had written", || {
            self.connect().is_some_and(|mut client| redis::cmd("DBSIZE").query::<u64>(&mut client).is_ok())
        });
    }

    /// SIGSTOP: connected, and silent.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

/// A shell ends them when its standard input ends, however this process does.
pub(crate) fn end_with_this_process<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) {
    let servers: Vec<_> = servers.into_iter().collect();
    let ids = servers.iter().map(|server| server.process.id().to_string()).collect::<Vec<_>>().join(" ");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("read -r _; kill -9 {ids}; rm -rf \"$@\""), "sh"]);
    shell.args(servers.iter().map(|server| &server.directory)).stdin(Stdio::piped());
    std::mem::forget(shell.spawn().unwrap());
}

/// A socket that is bound to this port and does not listen: connections are refused as without it.
fn reserve(port: u16) -> Option<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    // Connections of the server that has ended may linger.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).ok()?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(socket)
}

fn in_words(command: &str) -> redis::Cmd {
    let mut words = command.split_whitespace();
    let mut cmd = redis::cmd(words.next().unwrap());
    for word in words {
        cmd.arg(word);
    }
    cmd
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A durable server writes before each reply: to memory where the system has such a directory,
/// because a disk may be busy.
fn temporary(durable: bool) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if durable && memory.is_dir() { memory } else { std::env::temp_dir() }
}

pub(crate) fn spawn(
    program: &Path,
    port: u16,
    password: Option<&str>,
    durable: bool,
    more: &[String],
    directory: &Path,
) -> Child {
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", if durable { "yes" } else { "no" }, "--appendfsync", "always"]);
    command.arg("--dir").arg(directory);
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    command.args(more).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        let program = program.display();
        panic!("these tests need `{program}`, and `redis-server` on PATH ({error}); `./test` gets that and runs them")
    })
}
