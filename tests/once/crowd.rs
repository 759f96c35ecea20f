//! A thousand waiters for one result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kit::{LIMIT, RedisServer, SECOND, runtime};
use redlocked::once::Once;
use redlocked::{LockError, LockManager};
use tokio::sync::Notify;

use crate::{DAY, until};

const WAITERS: u32 = 1_000;

/// How often a command was called by clients.
fn calls(server: &RedisServer, command: &str) -> u64 {
    let stats: String = server.run("INFO commandstats");
    let start = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&start));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_thousand_waiters_are_one_run_and_one_read_each() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let connect = || LockManager::builder(server.url()).io_timeout(LIMIT / 4).connect_blocking().unwrap();
        let managers = [connect(), connect()];
        let (runs, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let call = |number: u32| {
            let (locks, runs, go) =
                (managers[number as usize % 2].clone(), Arc::clone(&runs), Arc::clone(&go));
            tokio::spawn(async move {
                let request = locks.lock("k").wait(Duration::from_secs(60)).once(DAY);
                request
                    .run(async |_guard| {
                        go.notified().await;
                        Ok::<_, LockError>(runs.fetch_add(1, Ordering::Relaxed))
                    })
                    .await
            })
        };
        let first = call(0);
        until("it runs", async || managers[0].once_record("k").await.unwrap().is_some()).await;
        let waiters: Vec<_> = (1..=WAITERS).map(call).collect();
        while managers[0].inspect("k").await.unwrap().is_none_or(|info| info.waiters() < WAITERS) {
            tokio::time::sleep(SECOND / 20).await;
        }
        let before = calls(&server, "evalsha") + calls(&server, "eval");
        go.notify_one();
        assert_eq!(first.await.unwrap(), Ok(Once::Ran(0)));
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), Ok(Once::Replayed(0)));
        }
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        let sent = calls(&server, "evalsha") + calls(&server, "eval") - before;
        // One to store the result; one for each waiter; one to release the lock for each waiter
        // that was granted it between the crowds that get the result together; and the requests of
        // the first waiters.
        assert!(sent >= u64::from(WAITERS) && sent <= u64::from(WAITERS) + 40, "{sent} scripts");
        until("the lock is free", async || managers[0].inspect("k").await.unwrap().is_none()).await;
        until("the queue is gone", async || server.keys().iter().all(|key| !key.ends_with("%queue"))).await;
    });
}
