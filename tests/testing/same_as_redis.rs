//! What a test does to `memory://`, done to a real server: callers see the same.

use std::time::Duration;

use kit::{DelayProxy, LIMIT, RedisServer, SECOND, runtime, unique};
use redlocked::testing::Testing;
use redlocked::{
    LockError, LockErrorKind, LockManager, LostReason, ReleaseOutcome, TickMissed, distributed_lock,
};

/// No test comes near its end.
const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// A node that a test can break.
enum Node {
    Memory { locks: LockManager, node: Testing },
    Redis { locks: LockManager, server: RedisServer },
}

impl Node {
    async fn both() -> [Self; 2] {
        let memory = LockManager::connect(format!("memory://{}", unique("same"))).await.unwrap();
        let server = RedisServer::start();
        let redis = LockManager::connect(server.url()).await.unwrap();
        let node = memory.testing().unwrap();
        [Self::Memory { locks: memory, node }, Self::Redis { locks: redis, server }]
    }

    fn locks(&self) -> &LockManager {
        match self {
            Self::Memory { locks, .. } | Self::Redis { locks, .. } => locks,
        }
    }

    /// Another process takes the lock away.
    async fn take_away(&self, key: &str) {
        match self {
            Self::Memory { node, .. } => drop(node.take_away(key)),
            Self::Redis { server, .. } => {
                let operator = LockManager::connect(server.url()).await.unwrap();
                operator.force_release(key).await.unwrap();
            }
        }
    }

    fn lose_data(&self) {
        match self {
            Self::Memory { node, .. } => node.lose_data(),
            Self::Redis { server, .. } => server.run("FLUSHALL"),
        }
    }

    fn set_unreachable(&mut self) {
        match self {
            Self::Memory { node, .. } => node.set_unreachable(),
            Self::Redis { server, .. } => server.kill(),
        }
    }

    fn recover(&mut self) {
        match self {
            Self::Memory { node, .. } => node.recover(),
            Self::Redis { server, .. } => server.restart(),
        }
    }

    fn refuse(&self) {
        match self {
            Self::Memory { node, .. } => node.refuse("NOPERM User default has no permissions"),
            Self::Redis { server, .. } => server.run("ACL SETUSER default -@all"),
        }
    }
}

#[distributed_lock(key = "k", constant_key, wait = "20s", manager = locks)]
async fn holds(locks: &LockManager) -> Result<(), LockError> {
    std::future::pending().await
}

/// `holds`, once it holds the lock.
async fn holding(locks: &LockManager) -> tokio::task::JoinHandle<Result<(), LockError>> {
    let manager = locks.clone();
    let task = tokio::spawn(async move { holds(&manager).await });
    while locks.inspect("k").await.unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    task
}

async fn within<T>(outcome: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, outcome).await.unwrap()
}

/// Another process takes its place from the one of several with this function.
async fn take_away_from(node: &Node, key: &str, function: &str) -> bool {
    match node {
        Node::Memory { node, .. } => {
            let holders = node.holders(key);
            let mut named = holders.iter().filter(|holder| holder.function() == Some(function));
            named.all(|holder| node.take_away_from(key, holder))
        }
        Node::Redis { server, .. } => {
            let operator = LockManager::connect(server.url()).await.unwrap();
            let seen = operator.inspect(key).await.unwrap().unwrap();
            let named = seen.holders().iter().find(|holder| holder.function() == Some(function)).unwrap();
            operator.force_release_from(key, named).await.unwrap()
        }
    }
}

#[tokio::test]
async fn one_of_several_that_an_operator_ends() {
    for node in Node::both().await {
        let takes = |label| node.locks().lock("k").permits(5).take(2).label(label).acquire();
        let (hung, other) = (takes("hung").await.unwrap(), takes("other").await.unwrap());
        assert!(take_away_from(&node, "k", "hung").await);
        assert_eq!(within(hung.lost()).await, LostReason::Revoked);
        let _next = takes("next").await.unwrap();
        assert!(other.is_held());
    }
}

#[tokio::test]
async fn a_lock_that_is_taken_away() {
    for node in Node::both().await {
        let task = holding(node.locks()).await;
        node.take_away("k").await;
        let outcome = within(task).await.unwrap();
        assert!(
            matches!(outcome, Err(LockError::Lost { reason: LostReason::KeyChanged, .. })),
            "{outcome:?}"
        );
        let guard = node.locks().lock("k").acquire().await.unwrap();
        node.take_away("k").await;
        assert_eq!(within(guard.lost()).await, LostReason::KeyChanged);
        drop(node.locks().lock("k").acquire().await.unwrap());
    }
}

#[tokio::test]
async fn readers_whose_lock_is_taken_away_or_gone() {
    for node in Node::both().await {
        for is_gone in [false, true] {
            let locks = node.locks();
            let reader = || locks.lock("k").shared().acquire();
            let readers = [reader().await.unwrap(), reader().await.unwrap()];
            let writer = tokio::spawn(locks.lock("k").wait(LIMIT).acquire());
            while locks.inspect("k").await.unwrap().is_none_or(|info| info.waiters() == 0) {
                tokio::task::yield_now().await;
            }
            if is_gone {
                node.lose_data();
            } else {
                node.take_away("k").await;
            }
            for reader in &readers {
                assert_eq!(within(reader.lost()).await, LostReason::KeyChanged, "{is_gone}");
            }
            let writer = within(writer).await.unwrap().unwrap();
            assert!(writer.fencing_token() > readers[0].fencing_token());
            assert_eq!(writer.release().await.unwrap(), ReleaseOutcome::Released);
        }
    }
}

#[tokio::test]
async fn lost_data() {
    for node in Node::both().await {
        let task = holding(node.locks()).await;
        node.lose_data();
        let outcome = within(task).await.unwrap();
        assert!(
            matches!(outcome, Err(LockError::Lost { reason: LostReason::KeyChanged, .. })),
            "{outcome:?}"
        );
        let guard = node.locks().lock("k").acquire().await.unwrap();
        node.lose_data();
        assert_eq!(within(guard.lost()).await, LostReason::KeyChanged);
        let next = node.locks().lock("k").acquire().await.unwrap();
        assert!(next.fencing_token() > guard.fencing_token());
    }
}

#[tokio::test]
async fn an_unreachable_node() {
    for mut node in Node::both().await {
        let locks = node.locks().clone();
        let guard = locks.lock("held").ttl(SECOND).acquire().await.unwrap();
        node.set_unreachable();
        for wait in [Duration::ZERO, SECOND / 2] {
            let error = locks.lock("k").wait(wait).acquire().await.unwrap_err();
            assert!(
                matches!(&error, LockError::Unavailable { key: Some(key), .. } if &**key == "k"),
                "{error:?}"
            );
            assert!(error.to_string().contains("Connection refused"), "{error}");
        }
        assert!(matches!(locks.inspect("k").await, Err(LockError::Unavailable { .. })));
        assert_eq!(within(guard.lost()).await, LostReason::Expired);
        node.recover();
        drop(locks.lock("k").wait(LIMIT).acquire().await.unwrap());
    }
}

#[tokio::test]
async fn a_waiter_in_an_outage_gets_the_lock_after_it() {
    for mut node in Node::both().await {
        let locks = node.locks().clone();
        node.set_unreachable();
        let waiter = tokio::spawn(locks.lock("k").wait(LIMIT).acquire());
        // Long enough for several connections that are refused.
        tokio::time::sleep(SECOND / 5).await;
        assert!(!waiter.is_finished());
        node.recover();
        drop(waiter.await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn a_node_that_refuses() {
    for node in Node::both().await {
        drop(node.locks().lock("k").acquire().await.unwrap());
        node.refuse();
        let error = node.locks().lock("k").acquire().await.unwrap_err();
        assert!(
            matches!(&error, LockError::Misconfigured { key: Some(_), reason, .. } if reason.contains("NOPERM")),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_tick_whose_record_is_lost_or_whose_lock_is_taken_away() {
    for node in Node::both().await {
        let locks = node.locks();
        for missed in [TickMissed::Skip, TickMissed::Retry] {
            let key = format!("{missed:?}");
            let tick = || locks.lock(&*key).tick(YEAR).tick_missed(missed);
            let is_taken = async || tick().acquire().await.map(drop).map_err(|error| error.kind());
            assert_eq!(locks.last_tick(&key).await.unwrap(), None);
            tick().run_value(async |_guard| ()).await.unwrap();
            let last = locks.last_tick(&key).await.unwrap().unwrap();
            assert_eq!(is_taken().await, Err(LockErrorKind::TickTaken));
            node.lose_data();
            assert_eq!(locks.last_tick(&key).await.unwrap(), None);
            let guard = tick().acquire().await.unwrap();
            assert_eq!(guard.tick(), Some(last.time()));
            node.take_away(&key).await;
            assert_eq!(within(guard.lost()).await, LostReason::KeyChanged);
            // One whose lock was lost has not ended well.
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyLost);
            let runs_again = missed == TickMissed::Retry;
            assert_eq!(is_taken().await, if runs_again { Ok(()) } else { Err(LockErrorKind::TickTaken) });
        }
    }
}

#[tokio::test]
async fn a_tick_of_a_node_that_is_unreachable_or_refuses() {
    for mut node in Node::both().await {
        let locks = node.locks().clone();
        let tick = || locks.lock("k").tick(YEAR);
        node.set_unreachable();
        for kind in [tick().acquire().await.map(drop), locks.last_tick("k").await.map(drop)] {
            assert_eq!(kind.map_err(|error| error.kind()), Err(LockErrorKind::Unavailable));
        }
        node.recover();
        tick().wait(LIMIT).run_value(async |_guard| ()).await.unwrap();
        node.refuse();
        for kind in [tick().acquire().await.map(drop), locks.last_tick("k").await.map(drop)] {
            assert_eq!(kind.map_err(|error| error.kind()), Err(LockErrorKind::Misconfigured));
        }
    }
}

#[cfg(feature = "once")]
mod once {
    use redlocked::once::{OnInterrupted, Once, OnceRequest};

    use super::*;

    fn request(locks: &LockManager) -> OnceRequest {
        locks.lock("k").wait(LIMIT).once(YEAR).on_interrupted(OnInterrupted::Error)
    }

    async fn run(locks: &LockManager, value: u32) -> Result<Once<u32>, LockError> {
        request(locks).run(async |_guard| Ok(value)).await
    }

    /// The state of the record, and its result.
    async fn record(locks: &LockManager) -> Option<(bool, Option<Vec<u8>>)> {
        let record = locks.once_record("k").await.unwrap()?;
        Some((record.is_done(), record.result().map(<[u8]>::to_vec)))
    }

    #[tokio::test]
    async fn a_body_that_runs_once_whose_record_is_lost_or_cleared() {
        for node in Node::both().await {
            let locks = node.locks();
            assert_eq!(record(locks).await, None);
            let body = request(locks).run(async |_guard| {
                assert_eq!(record(locks).await, Some((false, None)));
                Ok::<_, LockError>(1)
            });
            assert_eq!(body.await, Ok(Once::Ran(1)));
            assert_eq!(record(locks).await, Some((true, Some(b"1".to_vec()))));
            assert_eq!(run(locks, 2).await, Ok(Once::Replayed(1)));
            node.lose_data();
            assert_eq!(run(locks, 2).await, Ok(Once::Ran(2)));
            assert!(locks.clear_once("k").await.unwrap());
            assert!(!locks.clear_once("k").await.unwrap());
            assert_eq!(run(locks, 3).await, Ok(Once::Ran(3)));
            // One that fails leaves none.
            locks.clear_once("k").await.unwrap();
            let fails = request(locks).run(async |_guard| Err::<u32, _>(LockError::NotConfigured));
            assert_eq!(fails.await, Err(LockError::NotConfigured));
            assert_eq!(record(locks).await, None);
        }
    }

    #[tokio::test]
    async fn a_body_that_runs_once_whose_lock_is_taken_away_or_whose_data_is_lost() {
        for node in Node::both().await {
            let locks = node.locks();
            for data_is_lost in [false, true] {
                let body = request(locks).run(async |_guard| {
                    if data_is_lost {
                        node.lose_data();
                    } else {
                        node.take_away("k").await;
                    }
                    std::future::pending::<Result<u32, LockError>>().await
                });
                let lost = within(body).await;
                assert!(
                    matches!(lost, Err(LockError::Lost { reason: LostReason::KeyChanged, .. })),
                    "{lost:?}"
                );
                let next = run(locks, 2).await;
                if data_is_lost {
                    assert_eq!(next, Ok(Once::Ran(2)));
                } else {
                    assert!(matches!(next, Err(LockError::Interrupted { .. })), "{next:?}");
                }
                locks.clear_once("k").await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_result_that_a_node_cannot_store() {
        for mut node in Node::both().await {
            let locks = node.locks().clone();
            let body = request(&locks).run(async |_guard| {
                node.set_unreachable();
                Ok::<_, LockError>(1)
            });
            let error = within(body).await;
            let Err(LockError::NotStored { result: Some(result), .. }) = &error else { panic!("{error:?}") };
            assert_eq!(&**result, b"1");
            node.recover();
            // A server that was killed has forgotten all. Else the lock is free when its runner gives up.
            drop(locks.lock("k").wait(LIMIT).acquire().await.unwrap());
            locks.clear_once("k").await.unwrap();
            assert_eq!(run(&locks, 2).await, Ok(Once::Ran(2)));
            node.refuse();
            for kind in [run(&locks, 3).await.map(drop), locks.once_record("k").await.map(drop)] {
                assert_eq!(kind.map_err(|error| error.kind()), Err(LockErrorKind::Misconfigured));
            }
        }
    }
}

#[test]
fn a_slow_node_and_one_that_answers_too_late() {
    let server = RedisServer::start();
    let delay = DelayProxy::to(server.port(), SECOND / 5);
    let memory = format!("memory://{}", unique("slow"));
    for url in [memory, delay.url()] {
        // A node that is reached, and then is slow.
        let locks = LockManager::builder(url).io_timeout(2 * SECOND).connect_lazy().unwrap();
        if let Ok(node) = locks.testing() {
            node.set_latency(SECOND / 5);
        }
        let start = std::time::Instant::now();
        runtime().block_on(async {
            locks
                .lock("k")
                .wait(LIMIT)
                .run_value(async |guard| {
                    assert!(guard.remaining() < 30 * SECOND);
                })
                .await
                .unwrap();
        });
        assert!(start.elapsed() >= SECOND / 5);
    }
}
