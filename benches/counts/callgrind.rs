//! A program under callgrind, and the instructions of all its threads.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kit::{Cores, LIMIT, RedisServer, free_port};

use crate::ways::{ORDER, Way};

/// The runs of each length. The one with the fewest instructions was disturbed least.
const RUNS: usize = 3;

/// How often a way is run that is written by hand, and has nothing that could disturb it.
const RUNS_BY_HAND: usize = 2;

/// A run is that much longer than the one that is subtracted from it.
const LONGER: u64 = 5;

/// What a server does for its clients: not how it starts, and not what it does each tenth of a
/// second, of which there are more on a busy machine.
const COLLECT: [&str; 2] = ["--toggle-collect=readQueryFromClient", "--toggle-collect=writeToClient"];

/// The instructions of one lock, or of what the way does once.
pub(crate) struct Counted {
    pub(crate) client: u64,
    /// `None` where the way needs no server.
    pub(crate) server: Option<u64>,
}

/// What one run of a client executes, and its server meanwhile.
#[derive(Clone, Copy)]
struct Run {
    client: u64,
    /// Zero where there is none.
    server: u64,
    /// How often the server renewed a lock.
    renewed: u64,
}

pub(crate) fn count(way: &Way) -> Counted {
    // On one core, a client runs until it waits for its server, and the server until it waits for a
    // client: the order of events is the same in each run. What is started from here stays there.
    Cores::One.place(&[], std::process::id());
    let [short, long] = [way.times / LONGER, way.times].map(|times| runs(way, times));
    let each = |of: fn(&Run) -> u64| {
        let short = short.iter().min_by_key(|run| of(run)).unwrap();
        let of_one = |long: &Run| {
            // Renewals come with time, so the server says how many there were in that run.
            let more = if way.counts_renewals {
                long.renewed.saturating_sub(short.renewed).max(1)
            } else {
                way.times - way.times / LONGER
            };
            of(long).saturating_sub(of(short)) / more
        };
        long.iter().map(of_one).min().unwrap()
    };
    Counted { client: each(|run| run.client), server: way.needs_server.then(|| each(|run| run.server)) }
}

fn runs(way: &Way, times: u64) -> Vec<Run> {
    let count = if way.is_by_hand() { RUNS_BY_HAND } else { RUNS };
    (0..count).map(|_| run(way, times)).collect()
}

fn run(way: &Way, times: u64) -> Run {
    let directory = directory();
    let server = way.needs_server.then(|| Server::start(&directory));
    let others: Vec<RedisServer> = (0..way.other_servers).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> =
        server.iter().map(Server::url).chain(others.iter().map(RedisServer::url)).collect();
    let file = directory.join(format!("client-{}.out", way.name));
    let mut client = callgrind(&file);
    client.arg(std::env::current_exe().unwrap());
    client.env(ORDER, format!("{} {times} {}", way.name, urls.join(" ")));
    let output = client.output().unwrap();
    assert!(output.status.success(), "{}: {}", way.name, String::from_utf8_lossy(&output.stderr));
    let renewed = server.as_ref().filter(|_| way.counts_renewals).map(Server::renewals);
    let server = server.map(|server| server.end(&directory.join(format!("server-{}.out", way.name))));
    Run { client: total(&file), server: server.unwrap_or_default(), renewed: renewed.unwrap_or_default() }
}

/// Where callgrind leaves what it has counted. `callgrind_annotate` shows whose instructions they
/// are.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("counts")
}

/// Removes what an earlier run has left.
pub(crate) fn clear() {
    let _ = fs::remove_dir_all(directory());
    fs::create_dir_all(directory()).unwrap();
}

fn callgrind(file: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "-q"]).arg(format!("--callgrind-out-file={}", file.display()));
    command
}

/// The last line of such a file is `totals: 123`.
fn total(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    total.unwrap_or_else(|| panic!("{} has no total", file.display())).trim().parse().unwrap()
}

/// A server that is counted. Unlike that of the kit, it gets no command but those of the client:
/// how many it takes until a slow server answers would differ.
struct Server {
    process: Child,
    port: u16,
    file: PathBuf,
}

impl Server {
    fn start(directory: &Path) -> Self {
        let start = Instant::now();
        loop {
            let port = free_port();
            let mut command = callgrind(&directory.join("server-%p"));
            // The one on PATH may be a script, whose own commands are not of interest.
            command.args(["--trace-children=yes", "--trace-children-skip=*/find,*/sort,*/tr"]);
            command.args(COLLECT);
            command.arg(program()).args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--appendonly", "no"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let process = command.spawn().unwrap_or_else(|error| panic!("valgrind is needed ({error})"));
            let file = directory.join(format!("server-{}", process.id()));
            let mut server = Self { process, port, file };
            if server.is_up() {
                return server;
            }
            assert!(start.elapsed() < LIMIT, "redis-server does not start under valgrind");
        }
    }

    /// Another process may have taken its port: then it ends.
    fn is_up(&mut self) -> bool {
        let start = Instant::now();
        while self.process.try_wait().unwrap().is_none() {
            if self.ask("PING").is_some_and(|answer| answer.starts_with("+PONG")) {
                return self.process.try_wait().unwrap().is_none();
            }
            assert!(start.elapsed() < LIMIT, "redis-server does not answer under valgrind");
            thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// One command on a connection of its own; the beginning of the answer, or nothing where the
    /// server ended instead. `None`: it does not listen.
    fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = vec![0; 64 * 1024];
        let read = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..read]).into_owned())
    }

    /// How many expiries it has moved.
    fn renewals(&self) -> u64 {
        let stats = self.ask("INFO commandstats").unwrap();
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_pexpire:calls="));
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }

    /// What it has executed. Its file is that of the way then.
    fn end(mut self, file: &Path) -> u64 {
        self.ask("SHUTDOWN NOSAVE");
        self.process.wait().unwrap();
        fs::rename(&self.file, file).unwrap();
        let total = total(file);
        assert!(total > 0, "this redis-server does not say where its functions are: nothing is counted");
        total
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `redis-server` on PATH.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
    found.into_iter().find(|program| program.is_file()).expect("`redis-server` is needed on PATH")
}
