//! A lock that travels: a web process begins an export under the lock of its id, and a worker
//! finishes it. Then the web process is killed while its job waits, and the worker in the middle
//! of one: the lock has one holder all the time, and is free in the end.
//!
//! ```text
//! cargo run --example ticket            # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use kit::RedisServer;
use redis::AsyncCommands;
use redlocked::{LockError, LockManager, Ticket, distributed_lock};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// What this process is.
const ROLE: &str = "TICKET_EXAMPLE_ROLE";
const URL: &str = "REDIS_URL";

/// How long a job waits for a worker at most.
const WAITS: Duration = Duration::from_secs(30);

/// The TTL of the worker's lock: the id is locked for that long when the worker is killed.
const TTL: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Web {
    locks: LockManager,
    jobs: redis::Client,
}

/// One export of an id at a time, in the whole fleet, from here to the end of the worker's part.
#[distributed_lock(key = "export:{id}", ticket = lock, manager = web.locks)]
async fn begin(web: &Web, id: u64) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let mut jobs = web.jobs.get_multiplexed_async_connection().await?;
    let fence = lock.fencing_token();
    let ticket = lock.into_ticket(WAITS).await?;
    // A secret: the queue is as safe as the server of the locks.
    let () = jobs.rpush("ticket-example:jobs", ticket.expose()).await?;
    Ok(fence)
}

async fn on_request(State(web): State<Web>, Path(id): Path<u64>) -> (StatusCode, String) {
    match begin(&web, id).await {
        Ok(fence) => (StatusCode::OK, format!("began {id} with fencing token {fence}")),
        Err(error) => {
            let is_busy = error.downcast_ref::<LockError>().is_some_and(LockError::is_busy);
            let status = if is_busy { StatusCode::CONFLICT } else { StatusCode::BAD_GATEWAY };
            (status, error.to_string())
        }
    }
}

async fn connect(url: &str) -> Result<LockManager, LockError> {
    LockManager::builder(url).prefix("ticket-example:").connect().await
}

#[tokio::main(flavor = "current_thread")]
async fn web(url: &str) -> Outcome {
    let web = Web { locks: connect(url).await?, jobs: redis::Client::open(url)? };
    let router = Router::new().route("/export/{id}", post(on_request)).with_state(web);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}

/// Finishes one job after the other; each takes a second.
#[tokio::main(flavor = "current_thread")]
async fn worker(url: &str) -> Outcome {
    let locks = connect(url).await?;
    let mut jobs = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    println!("ready");
    loop {
        let job: Option<(String, String)> = jobs.blpop("ticket-example:jobs", 0.2).await.unwrap_or(None);
        let Some((_, text)) = job else { continue };
        let ticket: Ticket = text.parse()?;
        let finished = locks.redeem(ticket).ttl(TTL).run_value(async |guard| {
            println!("works on {} with fencing token {}", guard.key(), guard.fencing_token());
            tokio::time::sleep(Duration::from_secs(1)).await;
        });
        match finished.await {
            Ok(()) => println!("finished"),
            Err(error) => println!("gave up: {error}"),
        }
    }
}

/// A process, which ends with this value.
struct Process {
    name: &'static str,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(name: &'static str, url: &str) -> Outcome<Self> {
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.env(ROLE, name).env(URL, url).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("a process has no output")?;
        Ok(Self { name, child, output: BufReader::new(output) })
    }

    /// Its next line.
    fn says(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        println!("{:>8}: {}", self.name, line.trim());
        Ok(line.trim().to_owned())
    }

    fn says_that_it(&mut self, does: &str) -> Outcome {
        let line = self.says()?;
        if line.starts_with(does) { Ok(()) } else { Err(format!("{} was to say {does:?}", self.name).into()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The response that a client of the web process gets.
fn export(address: &str, id: u64) -> Outcome<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /export/{id} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    println!("{:>8}: {status} {}", "client", answer.lines().last().unwrap_or_default());
    Ok(status)
}

fn expect(status: &str, expected: &str) -> Outcome {
    if status == expected { Ok(()) } else { Err(format!("the client was to hear {expected}").into()) }
}

fn story(url: &str) -> Outcome {
    let mut web = Process::start("web", url)?;
    let address = web.says()?;
    let mut worker = Process::start("worker", url)?;
    worker.says_that_it("ready")?;

    println!("A web process begins, a worker finishes:");
    expect(&export(&address, 7)?, "200")?;
    worker.says_that_it("works")?;
    expect(&export(&address, 7)?, "409")?;
    worker.says_that_it("finished")?;

    println!("The web process is killed while its job waits:");
    drop(worker);
    expect(&export(&address, 7)?, "200")?;
    drop(web);
    let mut worker = Process::start("worker", url)?;
    worker.says_that_it("ready")?;
    worker.says_that_it("works")?;
    worker.says_that_it("finished")?;

    println!("The worker is killed in the middle:");
    let mut web = Process::start("web", url)?;
    let address = web.says()?;
    expect(&export(&address, 7)?, "200")?;
    worker.says_that_it("works")?;
    drop(worker);
    let killed = Instant::now();
    expect(&export(&address, 7)?, "409")?;
    while export(&address, 7)? != "200" {
        if killed.elapsed() > TTL + Duration::from_secs(5) {
            return Err("the lock of a worker that was killed does not end".into());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    println!(
        "The id was free again after {:.1} s. A killed worker keeps it for its TTL of {} s at most, counted from its last\n\
         renewal; the client asks every half second.",
        killed.elapsed().as_secs_f64(),
        TTL.as_secs()
    );
    Ok(())
}

fn main() -> ExitCode {
    let outcome = match (env::var(ROLE).as_deref(), env::var(URL)) {
        (Ok("web"), Ok(url)) => web(&url),
        (Ok(_), Ok(url)) => worker(&url),
        (_, Ok(url)) => {
            kit::no_arguments();
            story(&url)
        }
        (_, Err(_)) => {
            kit::no_arguments();
            let server = RedisServer::start();
            story(&server.url())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
