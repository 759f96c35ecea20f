//! Three processes have a timer of one second each, and none fires at the same moment. Each second is
//! run by one of them, also the one whose runner is killed in the middle.
//!
//! ```text
//! cargo run --example tick              # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a replica with a timer of an hour.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kit::RedisServer;
use redlocked::{LockError, LockManager, distributed_lock};

/// A tick of a killed process goes to one that waits, as soon as its lock is over.
const TTL: Duration = Duration::from_millis(500);

/// The example ends when so many seconds were run from the one in which a replica is killed.
const TICKS: u64 = 6;

/// A second that was not run when this many later ones were is run by nobody.
const LATEST: u64 = 5;

/// What makes this program a replica: its name, and how far its timer is from the full second, in ms.
const NAME: &str = "TICK_EXAMPLE_NAME";
const SHIFT: &str = "TICK_EXAMPLE_SHIFT";
const URL: &str = "REDIS_URL";

/// Its first report never ends.
const STUCK: &str = "web-1";

type Failed = Box<dyn Error + Send + Sync>;

/// The tick that this replica has run; `None` where another one has.
#[distributed_lock(
    key = "report",
    constant_key,
    tick = "1s",
    tick_missed = "retry",
    ttl = TTL,
    wait = "2s",
    guard = lock,
    manager = locks,
    on_busy = Ok(None)
)]
async fn report(locks: &LockManager, name: &str) -> Result<Option<SystemTime>, LockError> {
    let tick = lock.tick();
    if name == STUCK {
        println!("begins {}", seconds(tick));
        std::future::pending::<()>().await;
    }
    Ok(tick)
}

fn seconds(tick: Option<SystemTime>) -> u64 {
    tick.and_then(|tick| tick.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_secs()
}

#[tokio::main(flavor = "current_thread")]
async fn replica(name: &str, url: &str) -> Result<(), Failed> {
    let shift = Duration::from_millis(std::env::var(SHIFT)?.parse()?);
    let locks = LockManager::builder(url).prefix("tick-example:").connect().await?;
    let mut next = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() + 1;
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        tokio::time::sleep((Duration::from_secs(next) + shift).saturating_sub(now)).await;
        next += 1;
        if let tick @ Some(_) = report(&locks, name).await? {
            println!("ran {}", seconds(tick));
        }
    }
}

/// A process of the fleet, which says what it runs.
struct Replica(Child);

impl Replica {
    fn start(
        name: &'static str,
        shift: u64,
        url: &str,
        say: Sender<(&'static str, String)>,
    ) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(NAME, name).env(SHIFT, shift.to_string()).env(URL, url);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        if let Some(output) = process.stdout.take() {
            std::thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.for_each(|line| drop(say.send((name, line))));
            });
        }
        Ok(Self(process))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Said = Receiver<(&'static str, String)>;

/// The next line that begins with this word, who has said it, and its number.
fn next(said: &Said, word: &str) -> Result<(&'static str, u64), Failed> {
    loop {
        let (name, line) = said.recv_timeout(Duration::from_secs(20))?;
        if let Some(number) = line.strip_prefix(word) {
            return Ok((name, number.trim().parse()?));
        }
    }
}

fn fleet(url: &str) -> Result<(), Failed> {
    let (say, said) = channel();
    let _others =
        [Replica::start("web-2", 150, url, say.clone())?, Replica::start("web-3", 850, url, say.clone())?];
    // They are at it.
    let (_, first) = next(&said, "ran")?;
    // Its timer fires before theirs, and for the same full second.
    let mut stuck = Some(Replica::start(STUCK, 800, url, say)?);
    let (mut ran, mut killed_in) = (BTreeSet::from([first]), None);
    // Each process prints to a pipe of its own, so the line of a later second may arrive first.
    while killed_in.is_none_or(|killed| (first..killed + TICKS).any(|second| !ran.contains(&second))) {
        let (name, line) = said.recv_timeout(Duration::from_secs(20))?;
        let (word, second) = line.split_once(' ').ok_or("a line of another kind")?;
        let second: u64 = second.parse()?;
        if word == "begins" {
            println!("second {second}: {name} begins, and is killed");
            (stuck, killed_in) = (None, Some(second));
            continue;
        }
        println!("second {second}: {name}");
        if !ran.insert(second) {
            return Err("a second was run twice".into());
        }
        if (first..second.saturating_sub(LATEST)).any(|second| !ran.contains(&second)) {
            return Err("a second was run by nobody".into());
        }
    }
    drop(stuck);
    println!("each of {} seconds ran once, also the one whose process was killed", ran.len());
    Ok(())
}

fn main() -> ExitCode {
    let name = std::env::var(NAME).ok();
    if name.is_none() {
        kit::no_arguments();
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let outcome = match (name, url) {
        (Some(name), Some(url)) => replica(&name, &url),
        (_, Some(url)) => fleet(&url),
        (_, None) => fleet(&RedisServer::start().url()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
