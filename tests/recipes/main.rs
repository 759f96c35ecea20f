//! What the page "Recipes" promises of processes that die: the recipe, with shorter times, in real
//! processes.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic")]

use std::process::exit;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kit::{Job, LIMIT, RedisServer, SECOND, Worker, eventually, listen, runtime, say};
use redlocked::{LockError, LockManager, distributed_lock};

/// As on the page: the runner's lock ends this long after its death,
const TTL: Duration = SECOND;
/// and the others wait for longer than that and the job.
const WAIT: Duration = Duration::from_secs(30);

/// The test names the ticks, so that they are no hours.
#[distributed_lock(
    key = "cron:invoices",
    constant_key,
    tick_at = UNIX_EPOCH + Duration::from_secs(tick),
    tick_missed = "retry",
    ttl = TTL,
    wait = WAIT,
    manager = locks,
    on_busy = Ok(false)
)]
async fn send_invoices(locks: &LockManager, tick: u64, job: Duration) -> Result<bool, LockError> {
    if !job.is_zero() {
        say("runs", &[tick]);
        tokio::time::sleep(job).await;
    }
    Ok(true)
}

#[test]
#[ignore = "runs in a worker process"]
fn replica() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, commands) = channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    let locks = LockManager::connect_blocking(&job.url).unwrap();
    for tick in commands.iter().map(|line| line.parse().unwrap()) {
        let work = if job.task == "hangs" { 10 * LIMIT } else { Duration::ZERO };
        let ran = runtime().block_on(send_invoices(&locks, tick, work)).unwrap();
        say("done", &[tick, u64::from(ran)]);
    }
}

/// How many of these replicas have run the tick, when all have tried.
fn runs(replicas: &[Worker], tick: u64) -> u64 {
    let outcome = |replica: &Worker| {
        let done = replica.says("done");
        assert_eq!(done[0], tick);
        done[1]
    };
    replicas.iter().map(outcome).sum()
}

#[test]
fn a_tick_is_run_once_also_if_its_runner_is_killed() {
    let server = RedisServer::start();
    let locks = kit::connect(&server);
    let start = |task| Worker::start("replica", task, &server.url(), &[]);
    let mut runner = start("hangs");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (tick, next) = (now, now + 3600);
    runner.tell(&tick.to_string());
    assert_eq!(runner.says("runs"), [tick]);

    let mut others = [start("works"), start("works")];
    for other in &mut others {
        other.tell(&tick.to_string());
    }
    eventually("both wait", || {
        locks.inspect_blocking("cron:invoices").unwrap().is_some_and(|lock| lock.waiters() == 2)
    });
    runner.kill();
    assert_eq!(runs(&others, tick), 1, "one of the others runs it");

    let mut late = [start("works")];
    late[0].tell(&tick.to_string());
    assert_eq!(runs(&late, tick), 0, "a late replica finds it done");

    for other in &mut others {
        other.tell(&next.to_string());
    }
    assert_eq!(runs(&others, next), 1, "where nobody dies, one runs it");
}
