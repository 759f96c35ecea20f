//! Four processes run jobs of 1 to 8 GB on a GPU with 16 GB. Each job takes as many permits as it needs
//! gigabytes, and the large ones are not starved by the small ones.
//!
//! ```text
//! cargo run --example gpu      # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a machine. The GPU is this program, too: it counts the gigabytes
//! that are in use at once.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use kit::RedisServer;
use redlocked::{LockManager, distributed_lock, key};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the GPU has.
const GIGABYTES: u32 = 16;

/// The sizes of the jobs of each process, in gigabytes.
const JOBS: [u32; 8] = [1, 8, 2, 5, 1, 3, 8, 4];

/// What makes this program a worker: its number, and the address of the GPU.
const NUMBER: &str = "GPU_EXAMPLE_NUMBER";
const GPU: &str = "GPU_EXAMPLE_GPU";
const URL: &str = "REDIS_URL";

type Failed = Box<dyn Error + Send + Sync>;

struct Job {
    gigabytes: u32,
}

#[distributed_lock(key = "gpu:{gpu}", permits = { GIGABYTES }, take = { job.gigabytes }, wait = "1m")]
async fn train(gpu: SocketAddr, job: &Job) -> Result<(), Failed> {
    let mut gpu = tokio::net::TcpStream::connect(gpu).await?;
    gpu.write_all(format!("{}\n", job.gigabytes).as_bytes()).await?;
    gpu.read_u8().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn worker(number: usize, url: &str) -> Result<(), Failed> {
    let locks = LockManager::builder(url).prefix("gpu-example:").connect().await?;
    locks.clone().set_global();
    let gpu = std::env::var(GPU)?.parse()?;
    let jobs = JOBS.iter().cycle().skip(number).take(JOBS.len()).map(|&gigabytes| Job { gigabytes });
    // Two at a time, so that the queue on the server has callers of all processes.
    let (one, other): (Vec<_>, Vec<_>) = jobs.enumerate().partition(|(at, _)| at % 2 == 0);
    let run = async |jobs: Vec<(usize, Job)>| {
        for (_, job) in jobs {
            train(gpu, &job).await?;
        }
        Ok::<_, Failed>(())
    };
    tokio::try_join!(run(one), run(other))?;
    locks.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// What is in use, and the most that was, in gigabytes; and how many jobs are done.
#[derive(Default)]
struct Use {
    now: AtomicU32,
    most: AtomicU32,
    done: AtomicU32,
}

static USE: Use = Use { now: AtomicU32::new(0), most: AtomicU32::new(0), done: AtomicU32::new(0) };

/// Runs one job.
fn run_job(mut client: TcpStream) -> Result<(), Failed> {
    let mut size = String::new();
    BufReader::new(client.try_clone()?).read_line(&mut size)?;
    let size: u32 = size.trim().parse()?;
    let now = USE.now.fetch_add(size, Ordering::SeqCst) + size;
    USE.most.fetch_max(now, Ordering::SeqCst);
    // What a job takes.
    sleep(Duration::from_millis(30));
    // The permits are free for the next ones as soon as its process has read this.
    USE.now.fetch_sub(size, Ordering::SeqCst);
    USE.done.fetch_add(1, Ordering::SeqCst);
    client.write_all(b"!")?;
    Ok(())
}

fn gpu() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || run_job(client));
        }
    });
    Ok(address)
}

/// A process that runs jobs.
struct Worker(Child);

impl Worker {
    fn start(number: usize, url: &str, gpu: SocketAddr) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(NUMBER, number.to_string()).env(URL, url).env(GPU, gpu.to_string()).stdin(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn fleet(url: &str) -> Result<(), Failed> {
    let gpu = gpu()?;
    let mut workers = (0..4).map(|number| Worker::start(number, url, gpu)).collect::<io::Result<Vec<_>>>()?;
    let locks = LockManager::builder(url).prefix("gpu-example:").connect_blocking()?;
    let mut is_shown = false;
    while workers.iter_mut().any(|worker| !matches!(worker.0.try_wait(), Ok(Some(_)))) {
        let seen = locks.inspect_blocking(&key!("gpu:{gpu}"))?;
        if let Some(lock) = seen.filter(|lock| !is_shown && lock.inside() > 1) {
            println!("{} of {GIGABYTES} GB are taken by {} jobs", lock.taken(), lock.inside());
            is_shown = true;
        }
        sleep(Duration::from_millis(5));
    }
    for worker in &mut workers {
        if !worker.0.wait()?.success() {
            return Err("a worker has failed".into());
        }
    }
    let [most, done] = [&USE.most, &USE.done].map(|count| count.load(Ordering::SeqCst));
    println!("{done} jobs of 1 to 8 GB are done, with at most {most} of {GIGABYTES} GB in use");
    if most > GIGABYTES {
        return Err("more gigabytes in use than the GPU has".into());
    }
    locks.shutdown_blocking(Duration::from_secs(5))?;
    Ok(())
}

fn main() -> ExitCode {
    let number = std::env::var(NUMBER).ok().and_then(|number| number.parse().ok());
    if number.is_none() {
        kit::no_arguments();
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let outcome = match (number, url) {
        (Some(number), Some(url)) => worker(number, &url),
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
