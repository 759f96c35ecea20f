//! A cron job on three replicas: each starts it at midnight by its own clock, one runs it, and two
//! skip it.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`. Here the replicas are three lock managers
//! in one process; in real life each is a machine.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::time::{Duration, SystemTime};

use redlocked::{LockError, LockManager, distributed_lock};

/// The result of one replica.
enum Night {
    Done { rows: u32 },
    Skipped,
}

struct Replica {
    name: &'static str,
    locks: LockManager,
    /// How late its clock is.
    late: Duration,
}

impl Replica {
    /// `tick_at` names the night for which a call runs the job, so the clocks and the length of the
    /// job do not matter: a replica that is late finds that this night has been run.
    #[distributed_lock(
        key = "cron:nightly-report",
        constant_key,
        ttl = "1m",
        tick_at = midnight,
        manager = self.locks,
        on_busy = Ok(Night::Skipped)
    )]
    async fn nightly_report(&self, midnight: SystemTime) -> Result<Night, LockError> {
        println!("{} runs the job", self.name);
        Ok(Night::Done { rows: 42 })
    }

    async fn at_midnight(&self, midnight: SystemTime) -> Result<(), LockError> {
        tokio::time::sleep(self.late).await;
        match self.nightly_report(midnight).await? {
            Night::Done { rows } => println!("{} has done it: {rows} rows", self.name),
            Night::Skipped => println!("{} skips it: another replica has run it", self.name),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    kit::no_arguments();
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://nightly".to_owned());
    let replica = async |name, late| {
        let late = Duration::from_millis(late);
        Ok::<_, LockError>(Replica { name, locks: LockManager::connect(&url).await?, late })
    };
    let (a, b, c) = (replica("web-1", 0).await?, replica("web-2", 50).await?, replica("web-3", 300).await?);
    println!("on {}:", if url.starts_with("memory:") { "memory://, this process alone" } else { "Redis" });
    // Midnight is now. A scheduler tells a job when it was due.
    let midnight = SystemTime::now();
    let nights = tokio::join!(a.at_midnight(midnight), b.at_midnight(midnight), c.at_midnight(midnight));
    nights.0.and(nights.1).and(nights.2)
}
