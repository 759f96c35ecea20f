//! A body in a task of its own, whose caller goes away at each of its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kit::{LIMIT, RedisServer, SECOND, connect, runtime, unique};
use redlocked::once::{OnInterrupted, Once};
use redlocked::{LockError, LockManager, LostReason, distributed_lock};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{DAY, until};

/// How long a body takes.
const TAKES: Duration = Duration::from_millis(60);

struct Bank {
    locks: LockManager,
    charges: AtomicU32,
}

impl Bank {
    fn new(locks: LockManager) -> Arc<Self> {
        Arc::new(Self { locks, charges: AtomicU32::new(0) })
    }

    fn charges(&self) -> u32 {
        self.charges.load(Ordering::Relaxed)
    }

    /// The effect is there before the answer.
    async fn charge(&self, order: u32) -> u32 {
        self.charges.fetch_add(1, Ordering::Relaxed);
        sleep(TAKES).await;
        order
    }

    async fn by_hand(self: Arc<Self>, order: u32) -> Result<Once<u32>, LockError> {
        let request = self.locks.lock(format!("charge:{order}")).wait(LIMIT).once(DAY);
        let request = request.on_interrupted(OnInterrupted::Error);
        request
            .run_spawned(async move |guard| {
                assert!(guard.is_held());
                Ok::<_, LockError>(self.charge(order).await)
            })
            .await
    }

    #[distributed_lock(
        key = "charge:{order}",
        once = "24h",
        spawn,
        wait = LIMIT,
        on_interrupted = "error",
        manager = self.locks
    )]
    async fn by_attribute(self: Arc<Self>, order: u32) -> Result<u32, LockError> {
        Ok(self.charge(order).await)
    }
}

/// Each order is sent by a client that gives up after another time, from before it asks until after its answer, and then sent
/// again.
async fn is_charged_once<F>(bank: &Arc<Bank>, charge: impl Fn(Arc<Bank>, u32) -> F)
where
    F: Future<Output = Result<u32, LockError>> + Send + 'static,
{
    let mut clients = JoinSet::new();
    for order in 0..100 {
        let (first, again) = (charge(Arc::clone(bank), order), charge(Arc::clone(bank), order));
        clients.spawn(async move {
            let gave_up = timeout(Duration::from_millis(order.into()), first).await.is_err();
            assert_eq!(again.await, Ok(order));
            gave_up
        });
    }
    let gave_up = clients.join_all().await.into_iter().filter(|gave_up| *gave_up).count();
    assert!(gave_up > 20, "{gave_up}");
    assert_eq!(bank.charges(), 100, "{gave_up} clients gave up");
}

#[test]
fn a_body_whose_caller_goes_away_at_any_time_runs_once_and_its_result_is_kept() {
    let server = RedisServer::start();
    runtime().block_on(async {
        for url in [server.url(), format!("memory://{}", unique("spawned"))] {
            for prefix in ["hand:", "attribute:"] {
                let bank = Bank::new(LockManager::builder(&url).prefix(prefix).connect().await.unwrap());
                if prefix == "hand:" {
                    is_charged_once(&bank, async |bank, order| {
                        bank.by_hand(order).await.map(Once::into_inner)
                    })
                    .await;
                } else {
                    is_charged_once(&bank, Bank::by_attribute).await;
                }
            }
        }
    });
}

#[test]
fn a_caller_that_goes_away_while_it_waits_leaves_the_queue() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let bank = Bank::new(connect(&server));
        let held = bank.locks.lock("charge:7").acquire().await.unwrap();
        assert!(timeout(SECOND / 10, Arc::clone(&bank).by_hand(7)).await.is_err());
        until("it has left", async || {
            bank.locks.inspect("charge:7").await.unwrap().is_some_and(|info| info.waiters() == 0)
        })
        .await;
        held.release().await.unwrap();
        sleep(2 * TAKES).await;
        assert_eq!((bank.charges(), bank.locks.once_record("charge:7").await.unwrap()), (0, None));
        assert_eq!(bank.by_hand(7).await, Ok(Once::Ran(7)));
    });
}

#[test]
fn a_shutdown_waits_for_a_body_whose_caller_has_gone() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let bank = Bank::new(connect(&server));
        tokio::select! {
            // On a busy machine the body may end first.
            _ = Arc::clone(&bank).by_hand(7) => {}
            () = until("the body has begun", async || bank.charges() == 1) => {}
        }
        bank.locks.shutdown(LIMIT).await.unwrap();
        let known = connect(&server).once_record("charge:7").await.unwrap().unwrap();
        assert_eq!(known.result(), Some(&b"7"[..]));
    });
}

#[test]
fn an_error_and_a_panic_come_to_the_caller() {
    runtime().block_on(async {
        let locks = LockManager::connect(format!("memory://{}", unique("spawned"))).await.unwrap();
        let once = || locks.lock("k").wait(LIMIT).once(DAY).on_interrupted(OnInterrupted::Error);
        let failed = once().run_spawned(async |_guard| Err::<u32, _>(LockError::NotConfigured)).await;
        assert_eq!(failed, Err(LockError::NotConfigured));
        let request = once();
        let panics =
            tokio::spawn(request.run_spawned(async |_guard| -> Result<u32, LockError> { panic!("broke") }));
        let panic = panics.await.unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"broke"));
        let next = once().run_spawned(async |_guard| Ok::<_, LockError>(1)).await;
        assert!(matches!(next, Err(LockError::Interrupted { .. })), "{next:?}");
    });
}

#[test]
fn a_lost_lock_stops_the_body_and_its_caller_hears_it() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let [locks, operator] = [connect(&server), connect(&server)];
        let body = locks.lock("k").once(DAY).run_spawned(async move |_guard| {
            operator.force_release("k").await?;
            std::future::pending::<Result<u32, LockError>>().await
        });
        let lost = timeout(LIMIT, body).await.unwrap();
        assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    });
}

#[test]
fn without_a_runtime_it_is_refused_and_its_end_interrupts_the_body() {
    let locks = LockManager::connect_blocking(format!("memory://{}", unique("spawned"))).unwrap();
    let body = || {
        let request = locks.lock("k").once(DAY).on_interrupted(OnInterrupted::Error);
        request.run_spawned(async |_guard| {
            sleep(LIMIT).await;
            Ok::<_, LockError>(1)
        })
    };
    let mut refused = Box::pin(body());
    let refused = refused.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(
        matches!(&refused, std::task::Poll::Ready(Err(LockError::InvalidRequest { reason, .. })) if reason.contains("tokio")),
        "{refused:?}"
    );
    let ended = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut call = Box::pin(body());
    assert!(ended.block_on(async { timeout(TAKES, call.as_mut()).await.is_err() }));
    drop(ended);
    let lost = runtime().block_on(call);
    assert!(matches!(lost, Err(LockError::Lost { reason: LostReason::Released, .. })), "{lost:?}");
    let next = runtime().block_on(async { locks.lock("k").wait(LIMIT).acquire().await.map(drop) });
    assert_eq!(next, Ok(()), "its lock is free");
}
