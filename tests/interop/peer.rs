//! A client of another kind in its own process, which reads one command a line.
//!
//! | we say | it answers |
//! | --- | --- |
//! | | `ready` |
//! | `try KEY TTL` | `held` or `refused`, after one try |
//! | `wait KEY TTL` | `waiting`, unless it has it at the first try; `held`, or `refused` after 20 s |
//! | `extend TTL` | `extended` or `lost` |
//! | `release` | `released` or `lost` |
//! | `count KEY COUNTER ROUNDS` | `counted`: each round reads, pauses and writes the counter, under the lock |

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use kit::{LIMIT, RedisServer, Worker, install};

use super::by_hand;

pub(crate) struct Peer {
    tell: Box<dyn FnMut(&str) + Send>,
    answers: Receiver<String>,
    process: Option<Child>,
}

/// Starts a client of one kind; `None` when it is not available.
pub(crate) type Start = fn(&RedisServer) -> Option<Peer>;

pub(crate) fn redis_py(server: &RedisServer) -> Option<Peer> {
    python(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/redis_py.py"), server)
}

pub(crate) fn redis_py_asyncio(server: &RedisServer) -> Option<Peer> {
    python(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/redis_py_asyncio.py"), server)
}

/// The directory of the libraries of other languages.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("interop")
}

/// A Python with redis-py.
static PYTHON: LazyLock<Result<PathBuf, String>> =
    LazyLock::new(|| install::python(&peers(), include_str!("requirements.txt")));

fn python(script: &str, server: &RedisServer) -> Option<Peer> {
    let python = or_skip("redis-py", PYTHON.as_ref())?;
    Some(Peer::process(Command::new(python).arg(script), server))
}

/// A process of the second client; with its seed, its number of callers, and that of its keys.
pub(crate) fn second(server: &RedisServer, numbers: &[String; 3]) -> Option<Worker> {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/second/worker.py");
    let python = or_skip("redis-py", PYTHON.as_ref())?;
    Some(Worker::run(Command::new(python).args(["-B", SCRIPT, &server.url()]).args(numbers)))
}

/// A process of the second client that runs bodies once; its lines are in `second/once.py`.
#[cfg(feature = "once")]
pub(crate) fn second_once(server: &RedisServer) -> Option<Peer> {
    python(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/second/once.py"), server)
}

pub(crate) fn node_redlock(server: &RedisServer) -> Option<Peer> {
    static SCRIPT: LazyLock<Result<PathBuf, String>> =
        LazyLock::new(|| install::node_redlock(&peers(), include_str!("node_redlock.mjs")));
    let script = or_skip("node-redlock", SCRIPT.as_ref())?;
    Some(Peer::process(Command::new("node").arg(script), server))
}

#[allow(clippy::unnecessary_wraps, reason = "the same signature as the other clients")]
pub(crate) fn hand_written(server: &RedisServer) -> Option<Peer> {
    Some(Peer::thread(server))
}

/// Prints and skips a client that is not available; fails if `CI` is set, where a skipped test
/// would go unnoticed.
fn or_skip<'a>(what: &str, found: Result<&'a PathBuf, &String>) -> Option<&'a PathBuf> {
    let why = match found {
        Ok(found) => return Some(found),
        Err(why) => why,
    };
    assert!(env::var_os("CI").is_none(), "{what} cannot be installed, and this is CI: {why}");
    let name = thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {what} cannot be installed: {why}");
    None
}

impl Peer {
    fn process(command: &mut Command, server: &RedisServer) -> Self {
        let command = command.arg(server.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (mut stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (answer, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = answer.send(line);
            }
        });
        let tell = Box::new(move |line: &str| writeln!(stdin, "{line}").unwrap());
        let mut peer = Self { tell, answers, process: Some(process) };
        peer.expect("ready");
        peer
    }

    fn thread(server: &RedisServer) -> Self {
        let (tell, lines): (Sender<String>, _) = channel();
        let (answer, answers) = channel();
        let client = server.client();
        thread::spawn(move || by_hand::obey(client, &lines, &answer));
        let tell = Box::new(move |line: &str| tell.send(line.to_owned()).unwrap());
        let mut peer = Self { tell, answers, process: None };
        peer.expect("ready");
        peer
    }

    pub(crate) fn say(&mut self, line: &str) {
        (self.tell)(line);
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, answer: &str) {
        let said = self.answers.recv_timeout(2 * LIMIT);
        assert_eq!(said.as_deref(), Ok(answer), "the peer's answer");
    }

    #[track_caller]
    pub(crate) fn does(&mut self, line: &str, answer: &str) {
        self.say(line);
        self.expect(answer);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
