//! A cron job on three replicas: all three start it at midnight, one runs it, two skip it.
//!
//! On Redis when `REDIS_URL` is set, else on `memory://`. Here the replicas are three lock managers in one process;
//! in real life each is a machine.

#![allow(clippy::print_stdout, reason = "a program that talks to its user")]

use redlocked::{LockError, LockManager, distributed_lock};
use tokio::sync::Semaphore;

/// What one replica made of the night.
enum Night {
    Done { report: String },
    Skipped,
}

struct Replica<'a> {
    name: &'static str,
    locks: LockManager,
    /// One for each replica that has its answer.
    answers: &'a Semaphore,
}

impl Replica<'_> {
    /// No `wait`: one try. Who finds the lock taken skips the job, which is no failure.
    #[distributed_lock(
        key = "cron:nightly-report",
        ttl = "1m",
        manager = self.locks,
        on_busy = Ok(Night::Skipped)
    )]
    async fn nightly_report(&self) -> Result<Night, LockError> {
        println!("{} runs the job", self.name);
        // A job that is quicker than the clocks of the replicas differ would be run again by the last of them. This
        // one lasts until the two others have tried.
        let others = self.answers.acquire_many(2).await;
        Ok(Night::Done {
            report: format!("{} others have tried", others.map_or(0, |others| others.num_permits())),
        })
    }

    async fn midnight(&self) -> Result<(), LockError> {
        let night = self.nightly_report().await;
        self.answers.add_permits(1);
        match night? {
            Night::Done { report } => println!("{} has done it: {report}", self.name),
            Night::Skipped => println!("{} skips it: another replica is at it", self.name),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "memory://nightly".to_owned());
    let answers = Semaphore::new(0);
    let replica = async |name| {
        Ok::<_, LockError>(Replica { name, locks: LockManager::connect(&url).await?, answers: &answers })
    };
    let (a, b, c) = (replica("web-1").await?, replica("web-2").await?, replica("web-3").await?);
    let nights = tokio::join!(a.midnight(), b.midnight(), c.midnight());
    nights.0.and(nights.1).and(nights.2)
}
