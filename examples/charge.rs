//! A shop of three processes. A client sends its order to each of them, and one charges it. Another
//! order kills its process in the middle: nobody charges it again, until an operator has looked.
//!
//! ```text
//! cargo run --example charge --features once      # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a machine.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

use kit::RedisServer;
use redlocked::once::OnceRecord;
use redlocked::{LockError, LockManager, distributed_lock};
use serde::{Deserialize, Serialize};

/// What makes this program a process of the shop: its number.
const NUMBER: &str = "CHARGE_EXAMPLE_NUMBER";
const URL: &str = "REDIS_URL";

/// The order whose process dies.
const BAD_LUCK: u64 = 13;

#[derive(Serialize, Deserialize)]
struct Receipt {
    order: u64,
    cents: u64,
    /// The process that has charged it.
    by: String,
}

/// Once for an order, whichever process gets it. The ttl says how long a killed one is waited for.
#[distributed_lock(
    key = "charge:{order}",
    once = "24h",
    once_fingerprint = "{cents}",
    on_interrupted = "error",
    spawn,
    ttl = "1s",
    wait = "20s",
    manager = locks
)]
async fn charge(locks: LockManager, order: u64, cents: u64) -> Result<Receipt, LockError> {
    let by = std::env::var(NUMBER).unwrap_or_default();
    println!("charges");
    if order == BAD_LUCK {
        // Long enough to be killed.
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(Receipt { order, cents, by })
}

/// Charges each order that it reads from its input: two numbers on a line.
#[tokio::main(flavor = "current_thread")]
async fn shop(url: &str) -> Result<(), Box<dyn Error>> {
    let locks = LockManager::builder(url).prefix("charge-example:").connect().await?;
    println!("ready");
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (order, cents) = line.split_once(' ').ok_or("an order and its cents")?;
        match charge(locks.clone(), order.parse()?, cents.parse()?).await {
            Ok(receipt) => println!("receipt of {} from {}", receipt.cents, receipt.by),
            Err(error) => println!("{:?}: {error}", error.kind()),
        }
    }
    Ok(())
}

/// One process of the shop, ended with this value.
struct Process {
    number: u32,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(number: u32, url: &str) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(URL, url)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (input, output) = (input.ok_or("no input")?, BufReader::new(output.ok_or("no output")?));
        let mut process = Self { number, child, input, output };
        process.hears("ready")?;
        Ok(process)
    }

    fn is_told(&mut self, order: u64, cents: u64) -> io::Result<()> {
        writeln!(self.input, "{order} {cents}")?;
        self.input.flush()
    }

    fn says(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn hears(&mut self, start: &str) -> Result<String, Box<dyn Error>> {
        let line = self.says()?;
        println!("{}: {line}", self.number);
        if line.starts_with(start) { Ok(line) } else { Err(format!("`{start}` was expected").into()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fleet(url: &str) -> Result<(), Box<dyn Error>> {
    let mut shops =
        [1, 2, 3].map(|number| Process::start(number, url)).into_iter().collect::<Result<Vec<_>, _>>()?;
    println!("-- an order comes three times: one process charges it, and all have its receipt");
    shops.iter_mut().try_for_each(|shop| shop.is_told(7, 500))?;
    let mut charged = 0;
    for shop in &mut shops {
        let mut line = shop.says()?;
        if line == "charges" {
            charged += 1;
            println!("{}: charges", shop.number);
            line = shop.says()?;
        }
        println!("{}: {line}", shop.number);
        if !line.starts_with("receipt of 500") {
            return Err("a receipt was expected".into());
        }
    }
    if charged != 1 {
        return Err(format!("it was charged {charged} times").into());
    }
    println!("-- the same order with another amount");
    let [first, second, third] = &mut shops[..] else { return Err("three processes".into()) };
    second.is_told(7, 900)?;
    second.hears("KeyReused")?;
    println!("-- a process dies while it charges: nobody knows how far it got, so nobody charges again");
    first.is_told(BAD_LUCK, 500)?;
    first.hears("charges")?;
    first.child.kill()?;
    third.is_told(BAD_LUCK, 500)?;
    third.hears("Interrupted")?;
    let locks = LockManager::builder(url).prefix("charge-example:").connect_blocking()?;
    let record = locks.once_record_blocking(&format!("charge:{BAD_LUCK}"))?;
    let who = record.as_ref().and_then(OnceRecord::name).unwrap_or("an unknown process");
    println!("-- an operator looks: {who} began the charge and did not end it; clears the record");
    locks.clear_once_blocking(&format!("charge:{BAD_LUCK}"))?;
    println!(
        "{}",
        if record.is_some_and(|record| !record.is_done()) { "one charge for each order" } else { "?" }
    );
    Ok(())
}

fn main() -> ExitCode {
    let outcome = match (std::env::var(NUMBER), std::env::var(URL)) {
        (Ok(_), Ok(url)) => shop(&url),
        (_, Ok(url)) => {
            kit::no_arguments();
            fleet(&url)
        }
        (_, Err(_)) => {
            kit::no_arguments();
            let server = RedisServer::start();
            fleet(&server.url())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("charge: {error}");
            ExitCode::FAILURE
        }
    }
}
