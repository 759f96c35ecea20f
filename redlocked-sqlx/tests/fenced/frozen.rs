//! Two processes with one lock on a real Redis, of which the first is stopped in front of each of its
//! statements, and goes on when its lease has long ended and the second has the lock.

use std::time::Duration;

use kit::{DatabaseServer, Job, RedisServer, Worker, listen, say};
use redlocked::LockManager;
use redlocked_sqlx::{FencedTransaction as _, record};
use sqlx::{MySqlPool, PgPool};
use tokio::sync::mpsc::unbounded_channel;

use crate::bank::{Bank, mariadb, mysql, postgres};

const WORKER: &str = "frozen::a_worker";

const TTL: Duration = Duration::from_millis(200);

/// `BEGIN`, the fence, the read, the write, the commit.
const STATEMENTS: u32 = 5;

/// Adds one to the balance, and waits for a line in front of each statement. It looks at its lease no
/// more: the first is stopped after its look.
async fn adds_one<B: Bank>(redis: &str, bank: B) {
    let locks = LockManager::connect(redis).await.unwrap();
    let (lines, mut told) = unbounded_channel();
    let last = lines.clone();
    listen(move |line| drop(lines.send(line)), move || drop(last));
    let guard = locks.lock("account:7").ttl(TTL).wait(20 * kit::SECOND).acquire().await.unwrap();
    say("holds", &[guard.fencing_token()]);
    let (mut tx, mut balance) = (None, 0);
    for statement in 0..STATEMENTS {
        if told.recv().await.is_none() {
            return;
        }
        match (statement, &mut tx) {
            (0, _) => tx = Some(bank.start().await),
            (1, Some(tx)) => {
                let fence = guard.fences().next().unwrap();
                if let Err(error) = record(tx, &fence).await {
                    say("refused", &[u64::from(error.is_fenced())]);
                    return;
                }
            }
            (2, Some(tx)) => balance = B::balance(tx, 7).await.unwrap(),
            (3, Some(tx)) => B::set(tx, 7, balance + 1).await.unwrap(),
            _ => tx.take().unwrap().commit().await.unwrap(),
        }
        say("did", &[u64::from(statement)]);
    }
    say("committed", &[]);
}

#[test]
#[ignore = "a worker that the test below starts"]
fn a_worker() {
    let Some(job) = Job::of_this_process() else { return };
    let (redis, database) = job.url.split_once(' ').unwrap();
    kit::runtime().block_on(async {
        if database.starts_with("postgres") {
            adds_one(redis, PgPool::connect(database).await.unwrap()).await;
        } else {
            // `REPEATABLE READ`, unless its server has another default.
            adds_one(redis, MySqlPool::connect(database).await.unwrap()).await;
        }
    });
}

/// Lets it run these statements.
fn runs(worker: &mut Worker, first: u32, end: u32) {
    for statement in first..end {
        worker.tell("go");
        assert_eq!(worker.says("did"), [u64::from(statement)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_front_of_a_statement_commits_nothing_stale_in_postgres() {
    if let Some((server, bank)) = postgres().await {
        commits_nothing_stale(&server, bank).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_front_of_a_statement_commits_nothing_stale_in_mariadb() {
    if let Some((server, bank)) = mariadb("READ COMMITTED").await {
        commits_nothing_stale(&server, bank).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_front_of_a_statement_commits_nothing_stale_in_mysql() {
    if let Some((server, bank)) = mysql(DatabaseServer::mysql(), "READ COMMITTED").await {
        commits_nothing_stale(&server, bank).await;
    }
}

async fn commits_nothing_stale<B: Bank>(server: &DatabaseServer, bank: B) {
    let redis = RedisServer::start();
    let url = format!("{} {}", redis.url(), server.url());
    bank.open(7).await;
    let mut committed = 0;
    for frozen_at in 0..STATEMENTS {
        let start = || Worker::start(WORKER, "adds_one", &url, &[]);
        let mut first = start();
        let early = first.says("holds")[0];
        runs(&mut first, 0, frozen_at);
        first.freeze();

        let mut second = start();
        let late = second.says("holds")[0];
        assert!(late > early, "its lease has ended on the server");
        runs(&mut second, 0, 1);
        if frozen_at <= 1 {
            runs(&mut second, 1, STATEMENTS);
            second.says("committed");
            first.thaw();
            runs(&mut first, frozen_at, 1);
            first.tell("go");
            assert_eq!(first.says("refused"), [1], "frozen in front of statement {frozen_at}");
            committed += 1;
        } else {
            // It waits for the one that has fenced in before, and then sees what that one has written.
            second.tell("go");
            first.thaw();
            runs(&mut first, frozen_at, STATEMENTS);
            first.says("committed");
            assert_eq!(second.says("did"), [1]);
            runs(&mut second, 2, STATEMENTS);
            second.says("committed");
            committed += 2;
        }
        first.ends();
        second.ends();
        assert_eq!(bank.committed(7).await, committed, "frozen in front of statement {frozen_at}");
    }
}
