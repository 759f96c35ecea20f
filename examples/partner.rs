//! Three processes call a partner, whose contract allows five calls in any two seconds. One process is
//! killed in the middle; the others keep to the rate, and get the starts that it no longer takes.
//!
//! ```text
//! cargo run --example partner      # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a machine. The partner is this program, too: it notes when each
//! call arrives.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use kit::RedisServer;
use redlocked::{LockManager, distributed_lock};
use tokio::io::AsyncWriteExt;

/// What the contract allows.
const STARTS: u32 = 5;
const PER: Duration = Duration::from_secs(2);

/// The calls that the partner waits for.
const CALLS: usize = 18;

/// How much later a call may arrive than its body has started.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// What makes this program a caller: its name, and the address of the partner.
const NAME: &str = "PARTNER_EXAMPLE_NAME";
const PARTNER: &str = "PARTNER_EXAMPLE_ADDRESS";
const URL: &str = "REDIS_URL";

type Failed = Box<dyn Error + Send + Sync>;

#[distributed_lock(key = "partner:{partner}", rate = { (STARTS, PER) }, wait = "30s")]
async fn call(partner: SocketAddr, name: &str) -> Result<(), Failed> {
    let mut connection = tokio::net::TcpStream::connect(partner).await?;
    connection.write_all(format!("{name}\n").as_bytes()).await?;
    Ok(())
}

/// Calls as often as it may, until it is killed.
#[tokio::main(flavor = "current_thread")]
async fn caller(name: &str, url: &str) -> Result<(), Failed> {
    LockManager::builder(url).prefix("partner-example:").connect().await?.set_global();
    let partner = std::env::var(PARTNER)?.parse()?;
    loop {
        call(partner, name).await?;
    }
}

/// Says who has called, and when the call arrived.
fn partner() -> io::Result<(SocketAddr, Receiver<(String, Instant)>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (say, said) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let arrived = Instant::now();
            let mut name = String::new();
            if BufReader::new(client).read_line(&mut name).is_ok_and(|length| length > 0) {
                let _ = say.send((name.trim().to_owned(), arrived));
            }
        }
    });
    Ok((address, said))
}

/// A process that calls.
struct Caller(Child);

impl Caller {
    fn start(name: &str, url: &str, partner: SocketAddr) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(NAME, name).env(URL, url).env(PARTNER, partner.to_string()).stdin(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn fleet(url: &str) -> Result<(), Failed> {
    let (address, said) = partner()?;
    let names = ["web-1", "web-2", "web-3"];
    let mut callers = Vec::new();
    for name in names {
        callers.push(Caller::start(name, url, address)?);
    }
    let mut calls: Vec<(String, Instant)> = Vec::new();
    while calls.len() < CALLS {
        calls.push(said.recv_timeout(Duration::from_secs(30))?);
        if calls.len() == CALLS / 2 {
            callers.pop();
            println!("web-3 is killed");
        }
    }
    drop(callers);
    for name in names {
        println!("{name}: {} calls", calls.iter().filter(|(caller, _)| caller == name).count());
    }
    let one_more = usize::try_from(STARTS)? + 1;
    let six = |calls: &[(String, Instant)]| Some(calls.last()?.1 - calls.first()?.1);
    let shortest = calls.windows(one_more).filter_map(six).min().unwrap_or_default();
    println!(
        "{one_more} calls arrived within {} ms at the quickest: {STARTS} are allowed in {} ms",
        shortest.as_millis(),
        PER.as_millis()
    );
    if shortest + ON_THE_WAY < PER {
        return Err("more calls than the contract allows".into());
    }
    Ok(())
}

fn main() -> ExitCode {
    let name = std::env::var(NAME).ok();
    if name.is_none() {
        kit::no_arguments();
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let outcome = match (name, url) {
        (Some(name), Some(url)) => caller(&name, &url),
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
