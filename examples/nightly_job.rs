//! A cron job on three replicas: each starts it at midnight by its own clock, one runs it, two skip
//! it.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`. Here the replicas are three lock managers
//! in one process; in real life each is a machine.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use std::time::Duration;

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
    /// No `wait`: a replica that finds the lock taken skips the job, which is no failure.
    ///
    /// The job is quicker than the clocks of the replicas differ: without `min_hold` the last
    /// replica would run it again. With it, the key stays until every clock has passed midnight. In
    /// real life that is `"5m"` rather than `"3s"`.
    #[distributed_lock(
        key = "cron:nightly-report",
        ttl = "1m",
        min_hold = "3s",
        manager = self.locks,
        on_busy = Ok(Night::Skipped)
    )]
    async fn nightly_report(&self) -> Result<Night, LockError> {
        println!("{} runs the job", self.name);
        Ok(Night::Done { rows: 42 })
    }

    async fn midnight(&self) -> Result<(), LockError> {
        tokio::time::sleep(self.late).await;
        match self.nightly_report().await? {
            Night::Done { rows } => println!("{} has done it: {rows} rows", self.name),
            Night::Skipped => println!("{} skips it: another replica has it", self.name),
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
    let nights = tokio::join!(a.midnight(), b.midnight(), c.midnight());
    nights.0.and(nights.1).and(nights.2)
}
