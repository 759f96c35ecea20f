//! Three processes, one leads. The leader is killed, and the next one leads in time; that one
//! resigns, and the last one leads at once.
//!
//! ```text
//! cargo run --example leader            # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a machine.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kit::RedisServer;
use redlocked::election::Term;
use redlocked::{LockError, LockManager};

/// Nobody leads for as long after a kill.
const TTL: Duration = Duration::from_secs(2);

/// What makes this program a candidate: the name of one.
const NAME: &str = "LEADER_EXAMPLE_NAME";
const URL: &str = "REDIS_URL";

/// The loop that one process of the fleet runs.
async fn send_invoices(term: Term, words: &mut tokio::sync::mpsc::UnboundedReceiver<String>) -> Never {
    println!("leads {}", term.fencing_token());
    let mut invoices = 0_u64;
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(100)) => invoices += 1,
            _ = words.recv() => {
                println!("resigns {invoices}");
                term.resign();
            }
        }
    }
}

type Never = Result<(), LockError>;

#[tokio::main(flavor = "current_thread")]
async fn candidate(url: &str) -> Result<(), Box<dyn Error>> {
    let (word, mut words) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = word.send(line);
        }
        // The program that has started this one has ended.
        std::process::exit(0);
    });
    let locks = LockManager::builder(url).prefix("leader-example:").connect().await?;
    let election = locks.election("billing-loop").ttl(TTL);
    election.lead(async |term| send_invoices(term, &mut words).await).await?;
    Ok(())
}

/// A process that waits or leads.
struct Candidate {
    name: &'static str,
    process: Child,
    input: Option<ChildStdin>,
}

/// The name of a candidate, and what it says.
type Said = (&'static str, String);

impl Candidate {
    fn start(name: &'static str, url: &str, say: Sender<Said>) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(NAME, name).env(URL, url).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        std::thread::spawn(move || {
            for line in output.into_iter().flat_map(|output| BufReader::new(output).lines()) {
                let Ok(line) = line else { break };
                let _ = say.send((name, line));
            }
        });
        Ok(Self { name, process, input })
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the next leader: its name and its term.
fn next_leader(said: &Receiver<Said>) -> Result<(&'static str, u64), Box<dyn Error>> {
    loop {
        let (name, line) = said.recv_timeout(Duration::from_secs(30))?;
        if let Some(term) = line.strip_prefix("leads ") {
            return Ok((name, term.parse()?));
        }
    }
}

fn fleet(url: &str) -> Result<(), Box<dyn Error>> {
    let (say, said) = channel();
    let mut candidates = Vec::new();
    for name in ["web-1", "web-2", "web-3"] {
        candidates.push(Candidate::start(name, url, say.clone())?);
    }
    let (first, term) = next_leader(&said)?;
    println!("{first} leads, the others wait");
    // They are in the queue of the server by then.
    std::thread::sleep(Duration::from_secs(1));

    let at = candidates.iter().position(|candidate| candidate.name == first).ok_or("an unknown leader")?;
    let killed = Instant::now();
    drop(candidates.swap_remove(at));
    let (second, next_term) = next_leader(&said)?;
    let took = killed.elapsed();
    println!("{first} was killed: {second} leads {} ms later, with a ttl of {TTL:?}", took.as_millis());
    if took > TTL + Duration::from_secs(1) || next_term <= term {
        return Err("the next leader came too late, or with an older term".into());
    }

    let resigned = Instant::now();
    for candidate in candidates.iter_mut().filter(|candidate| candidate.name == second) {
        if let Some(input) = &mut candidate.input {
            writeln!(input, "resign")?;
        }
    }
    let (third, last_term) = next_leader(&said)?;
    println!("{second} has resigned: {third} leads {} ms later", resigned.elapsed().as_millis());
    if third == second || last_term <= next_term {
        return Err("a leader that resigns waits behind the others".into());
    }
    Ok(())
}

fn main() -> ExitCode {
    if std::env::var_os(NAME).is_none() {
        kit::no_arguments();
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let outcome = match url {
        Some(url) if std::env::var_os(NAME).is_some() => candidate(&url),
        Some(url) => fleet(&url),
        None => fleet(&RedisServer::start().url()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
