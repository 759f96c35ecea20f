//! Three processes read a catalogue at the same time, and one replaces it: it waits for those that
//! read, and who comes after it waits for it. Then it becomes a reader, and no other writer comes
//! between: it reads what it has written, and the next reader enters beside it.
//!
//! ```text
//! cargo run --example catalogue         # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a machine.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kit::RedisServer;
use redlocked::{LockManager, distributed_lock};

const SHOP: &str = "acme";
const END: &str = "end of the catalogue";

/// What makes this program one of the fleet: what it does, and where the catalogue is.
const ROLE: &str = "CATALOGUE_EXAMPLE_ROLE";
const FILE: &str = "CATALOGUE_EXAMPLE_FILE";
const URL: &str = "REDIS_URL";

type Failed = Box<dyn Error + Send + Sync>;

/// Prints that it reads, and keeps the lock until its parent writes a line.
#[distributed_lock(key = "catalogue:{shop}", shared, wait = "30s")]
fn read(shop: &str, file: &Path) -> Result<(), Failed> {
    let catalogue = fs::read_to_string(file)?;
    if !catalogue.ends_with(END) {
        return Err(format!("half a catalogue of {shop}: {catalogue:?}").into());
    }
    println!("reads {}", catalogue.lines().next().unwrap_or_default());
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// In two steps: between them, the file is of no use to a reader. Then it reads the file itself, and
/// keeps the lock until its parent writes a line.
#[distributed_lock(key = "catalogue:{shop}", guard = lock, wait = "30s")]
fn replace(shop: &str, file: &Path) -> Result<(), Failed> {
    let mut catalogue = File::create(file)?;
    writeln!(catalogue, "the second catalogue of {shop}")?;
    sleep(Duration::from_millis(200));
    write!(catalogue, "{END}")?;
    println!("has replaced it");
    lock.downgrade_blocking()?;
    if !fs::read_to_string(file)?.starts_with(&format!("the second catalogue of {shop}")) {
        return Err("another one has written in between".into());
    }
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn work(role: &str, url: &str) -> Result<(), Failed> {
    let file = PathBuf::from(std::env::var(FILE)?);
    let locks = LockManager::builder(url).prefix("catalogue-example:").connect_blocking()?;
    locks.clone().set_global();
    if role == "writer" {
        replace(SHOP, &file)?;
    } else {
        read(SHOP, &file)?;
    }
    locks.shutdown_blocking(Duration::from_secs(5))?;
    Ok(())
}

/// A process that reads or writes.
struct Worker {
    process: Child,
    input: Option<ChildStdin>,
}

/// The name of a worker, and what it says.
type Said = (&'static str, String);

impl Worker {
    fn start(name: &'static str, fleet: &Fleet<'_>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let role = if name == "writer" { "writer" } else { "reader" };
        command.env(ROLE, role).env(URL, fleet.url).env(FILE, fleet.file);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output, say) = (process.stdin.take(), process.stdout.take(), fleet.say.clone());
        std::thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                let Ok(line) = line else { break };
                let _ = say.send((name, line));
            }
        });
        Ok(Self { process, input })
    }

    fn go_on(&mut self) -> Result<(), Failed> {
        if let Some(mut input) = self.input.take() {
            writeln!(input)?;
        }
        if self.process.wait()?.success() { Ok(()) } else { Err("a worker has failed".into()) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Fleet<'a> {
    url: &'a str,
    file: &'a Path,
    say: Sender<Said>,
}

fn next(said: &Receiver<Said>) -> Result<Said, Failed> {
    let (name, line) = said.recv_timeout(Duration::from_secs(30))?;
    println!("{name} {line}");
    Ok((name, line))
}

fn run(url: &str, file: &Path) -> Result<(), Failed> {
    let (say, said) = channel();
    let fleet = Fleet { url, file, say };
    let locks = LockManager::builder(url).prefix("catalogue-example:").connect_blocking()?;
    let queue = |waiters| -> Result<(), Failed> {
        let begun = Instant::now();
        while locks
            .inspect_blocking(&format!("catalogue:{SHOP}"))?
            .is_none_or(|info| info.waiters() < waiters)
        {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err("nobody waits".into());
            }
            sleep(Duration::from_millis(5));
        }
        Ok(())
    };

    let mut readers = Vec::new();
    for name in ["web-1", "web-2", "web-3"] {
        readers.push(Worker::start(name, &fleet)?);
    }
    // None of them has ended: they are inside together.
    for _ in &readers {
        next(&said)?;
    }

    let mut writer = Worker::start("writer", &fleet)?;
    queue(1)?;
    println!("the writer waits for them");
    let mut late = Worker::start("web-4", &fleet)?;
    queue(2)?;
    println!("web-4 does not pass it");

    for reader in &mut readers {
        reader.go_on()?;
    }
    // Each process prints to a pipe of its own, so the two lines may arrive in either order. The
    // reader reads what the writer wrote, so the writer has had the lock first. The writer has not ended:
    // it has become a reader.
    let lines = [next(&said)?, next(&said)?];
    if !lines.iter().any(|(name, line)| *name == "web-4" && line.contains("second")) {
        return Err("the reader that came after the writer did not wait for it".into());
    }
    writer.go_on()?;
    late.go_on()?;
    println!(
        "three processes read together, the writer waited for them, then it read beside web-4: nobody read half a catalogue"
    );
    locks.shutdown_blocking(Duration::from_secs(5))?;
    Ok(())
}

fn fleet(url: &str) -> Result<(), Failed> {
    let file = std::env::temp_dir().join(format!("catalogue-example-{}.txt", std::process::id()));
    fs::write(&file, format!("the first catalogue of {SHOP}\n{END}"))?;
    let outcome = run(url, &file);
    fs::remove_file(&file)?;
    outcome
}

fn main() -> ExitCode {
    let role = std::env::var(ROLE).ok();
    if role.is_none() {
        kit::no_arguments();
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let outcome = match (role, url) {
        (Some(role), Some(url)) => work(&role, &url),
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
