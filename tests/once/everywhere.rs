//! What holds on each backend, and with managers whose loop runs on a thread of its own, where `REDLOCK_TEST_MODE`
//! is `own_thread`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisCluster, RedisServer, SECOND, SentinelGroup, eventually, runtime, unique};
use redlocked::once::{Json, OnInterrupted, OnUndecodable, Once, OnceRequest};
use redlocked::{HandOver, LockError, LockManager, LockManagerBuilder};
use tokio::sync::Barrier;
use tokio::task::{JoinSet, LocalSet};

use crate::{DAY, until};

/// The store that one test uses.
struct Backend {
    name: &'static str,
    url: String,
    prefix: String,
    _server: Option<RedisServer>,
}

impl Backend {
    fn all() -> Vec<Self> {
        let (prefix, server) = (unique("once:"), RedisServer::start());
        let of = |name, url| Self { name, url, prefix: prefix.clone(), _server: None };
        let mut all = vec![
            of("memory", format!("memory://{prefix}")),
            of("sentinel", SentinelGroup::of_this_process().url()),
            of("cluster", RedisCluster::of_this_process().url()),
        ];
        if server.has_access_rules() {
            let silent = if server.is_before_7() { "-publish" } else { "-publish -spublish" };
            for (name, forbidden) in [("no hand-over", silent), ("no queue", "-@sortedset -publish")] {
                let server = RedisServer::start();
                let _: String = server.run(&format!("ACL SETUSER shop on >pass ~* &* +@all {forbidden}"));
                let url = format!("redis://shop:pass@127.0.0.1:{}/", server.port());
                all.push(Self { _server: Some(server), ..of(name, url) });
            }
        }
        let url = server.url();
        all.push(Self { _server: Some(server), ..of("redis", url) });
        all
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder(&self.url).prefix(&self.prefix).own_thread(own_thread())
    }

    /// A new manager, as another process would have.
    async fn manager(&self) -> LockManager {
        self.builder().connect().await.unwrap()
    }

    async fn two() -> Vec<(&'static str, [LockManager; 2], Self)> {
        let mut all = Vec::new();
        for backend in Self::all() {
            let managers = [backend.manager().await, backend.manager().await];
            all.push((backend.name, managers, backend));
        }
        all
    }
}

/// The mode of all managers here: in the others of `one_server`, nothing runs once, or there is a backend for it.
fn own_thread() -> bool {
    match std::env::var("REDLOCK_TEST_MODE").as_deref() {
        Err(_) => false,
        Ok("own_thread") => true,
        Ok(other) => panic!("REDLOCK_TEST_MODE={other}: it may be own_thread"),
    }
}

fn once(locks: &LockManager, key: &str) -> OnceRequest {
    locks.lock(key).wait(LIMIT).once(DAY)
}

/// Some of the backends do not show who has a lock.
async fn is_free(locks: &LockManager) -> bool {
    locks.lock("k").acquire().await.is_ok()
}

/// A body that counts its runs.
async fn counted(request: OnceRequest<Json>, runs: &AtomicU32) -> Result<Once<u32>, LockError> {
    request.run(async |_guard| Ok(runs.fetch_add(1, Ordering::Relaxed))).await
}

/// The result is stored together with the release, so a call waits for that.
#[test]
fn a_call_returns_when_its_result_is_stored_whatever_the_manager_says_of_releases() {
    runtime().block_on(async {
        for backend in Backend::all() {
            let hasty = backend.builder().default_release_in_background(true).connect().await.unwrap();
            let (other, runs) = (backend.manager().await, AtomicU32::new(0));
            for key in 0..20 {
                let request = |locks: &LockManager| locks.lock(format!("hasty:{key}")).once(DAY);
                assert_eq!(counted(request(&hasty), &runs).await.unwrap(), Once::Ran(key));
                assert_eq!(
                    counted(request(&other), &runs).await.unwrap(),
                    Once::Replayed(key),
                    "{}",
                    backend.name
                );
            }
        }
    });
}

#[test]
fn a_body_runs_once_and_later_callers_get_its_result() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            let runs = AtomicU32::new(7);
            assert_eq!(counted(once(&first, "k"), &runs).await, Ok(Once::Ran(7)), "{name}");
            for locks in [&first, &second] {
                assert_eq!(counted(once(locks, "k"), &runs).await, Ok(Once::Replayed(7)), "{name}");
            }
            assert_eq!(counted(once(&second, "other"), &runs).await, Ok(Once::Ran(8)), "{name}");
            until("the lock is free", async || is_free(&first).await).await;
            assert!(first.clear_once("k").await.unwrap() && !first.clear_once("k").await.unwrap());
            assert_eq!(counted(once(&first, "k"), &runs).await, Ok(Once::Ran(9)), "{name}");
        }
    });
}

#[test]
fn callers_that_wait_get_the_result_of_the_one_that_runs() {
    runtime().block_on(async {
        for (name, managers, _backend) in Backend::two().await {
            let (runs, started) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(2)));
            let [first, _] = &managers;
            let runner = once(first, "k").run({
                let started = Arc::clone(&started);
                async move |_guard| {
                    started.wait().await;
                    tokio::time::sleep(SECOND / 5).await;
                    Ok::<_, LockError>(41)
                }
            });
            let runner = tokio::spawn(runner);
            started.wait().await;
            let waiters: Vec<_> = (0..40)
                .map(|number| {
                    let (locks, runs) = (managers[number % 2].clone(), Arc::clone(&runs));
                    tokio::spawn(async move {
                        once(&locks, "k")
                            .run(async |_guard| Ok::<_, LockError>(runs.fetch_add(1, Ordering::Relaxed)))
                            .await
                    })
                })
                .collect();
            assert_eq!(runner.await.unwrap(), Ok(Once::Ran(41)), "{name}");
            for waiter in waiters {
                assert_eq!(waiter.await.unwrap(), Ok(Once::Replayed(41)), "{name}");
            }
            assert_eq!(runs.load(Ordering::Relaxed), 0, "{name}");
            until("the lock is free", async || is_free(first).await).await;
        }
    });
}

#[test]
fn an_error_is_not_stored_and_the_next_waiter_runs() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            let started = Barrier::new(2);
            let fails = once(&first, "k").run(async |_guard| {
                started.wait().await;
                tokio::time::sleep(SECOND / 10).await;
                Err::<u32, _>(LockError::NotConfigured)
            });
            let waits = async {
                started.wait().await;
                counted(once(&second, "k").on_interrupted(OnInterrupted::Error), &AtomicU32::new(3)).await
            };
            let (failed, ran) = tokio::join!(fails, waits);
            assert_eq!(failed, Err(LockError::NotConfigured), "{name}");
            assert_eq!(ran, Ok(Once::Ran(3)), "{name}: a failure is no interruption");
        }
    });
}

#[test]
fn a_key_stands_for_one_request() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            let (runs, started) = (AtomicU32::new(0), Barrier::new(2));
            let runs_on = once(&first, "k").fingerprint("500").run(async |_guard| {
                started.wait().await;
                tokio::time::sleep(SECOND / 10).await;
                Ok::<_, LockError>(runs.fetch_add(1, Ordering::Relaxed))
            });
            let others = async {
                started.wait().await;
                // While it runs, and behind it.
                for _ in 0..2 {
                    let other = counted(once(&second, "k").fingerprint("900"), &runs).await;
                    assert!(matches!(other, Err(LockError::KeyReused { .. })), "{name}: {other:?}");
                    let none = counted(once(&second, "k"), &runs).await;
                    assert!(matches!(none, Err(LockError::KeyReused { .. })), "{name}: {none:?}");
                    let same = counted(once(&second, "k").fingerprint("500"), &runs).await;
                    assert_eq!(same, Ok(Once::Replayed(0)), "{name}");
                }
            };
            let (ran, ()) = tokio::join!(runs_on, others);
            assert_eq!(ran, Ok(Once::Ran(0)), "{name}");
        }
    });
}

#[test]
fn results_up_to_64_kib_are_stored_and_a_larger_one_is_in_the_error() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            // A text of JSON has two quotes.
            for bytes in [2, 3, 64 * 1024] {
                let (key, text) = (format!("k{bytes}"), "x".repeat(bytes - 2));
                let run = |locks| once(locks, &key).run(async |_guard| Ok::<_, LockError>(text.clone()));
                assert_eq!(run(&first).await, Ok(Once::Ran(text.clone())), "{name}, {bytes}");
                assert_eq!(run(&second).await, Ok(Once::Replayed(text.clone())), "{name}, {bytes}");
            }
            let text = "x".repeat(64 * 1024 - 1);
            let error = once(&first, "k").run(async |_guard| Ok(text.clone())).await;
            let Err(LockError::NotStored { result: Some(result), reason, .. }) = error else {
                panic!("{name}: {error:?}")
            };
            assert_eq!(serde_json::from_slice::<String>(&result).unwrap(), text, "{name}");
            assert!(reason.contains("65537 bytes"), "{reason}");
            let next = once(&second, "k").on_interrupted(OnInterrupted::Error);
            let next = counted(next, &AtomicU32::new(0)).await;
            assert!(
                matches!(next, Err(LockError::Interrupted { .. })),
                "{name}: its effects are done: {next:?}"
            );
        }
    });
}

/// Bytes as they are: also none, and such as are no text.
struct Bytes;

impl redlocked::once::ResultCodec<Vec<u8>> for Bytes {
    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(bytes.to_vec())
    }
}

#[test]
fn a_codec_stores_any_bytes() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            for bytes in [vec![], vec![0, 255, b'|', b'\r', b'\n', 0], vec![7; 64 * 1024]] {
                let key = format!("k{}", bytes.len());
                let run = |locks| {
                    once(locks, &key).codec(Bytes).run(async |_guard| Ok::<_, LockError>(bytes.clone()))
                };
                assert_eq!(run(&first).await, Ok(Once::Ran(bytes.clone())), "{name}");
                assert_eq!(run(&second).await, Ok(Once::Replayed(bytes.clone())), "{name}");
            }
        }
    });
}

#[test]
fn a_result_that_cannot_be_decoded_is_an_error_or_is_replaced() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            let text = once(&first, "k").run(async |_guard| Ok::<_, LockError>("seven".to_owned())).await;
            assert_eq!(text.map(Once::into_inner).as_deref(), Ok("seven"));
            let runs = AtomicU32::new(7);
            let number = counted(once(&second, "k"), &runs).await;
            assert!(matches!(number, Err(LockError::Undecodable { .. })), "{name}: {number:?}");
            let replaces = || once(&second, "k").on_undecodable(OnUndecodable::Rerun);
            assert_eq!(counted(replaces(), &runs).await, Ok(Once::Ran(7)), "{name}");
            assert_eq!(counted(replaces(), &runs).await, Ok(Once::Replayed(7)), "{name}");
            assert_eq!(counted(once(&first, "k"), &runs).await, Ok(Once::Replayed(7)), "{name}");
        }
    });
}

#[test]
fn a_record_expires() {
    runtime().block_on(async {
        let (all, runs) = (Backend::two().await, AtomicU32::new(0));
        let short = |locks: &LockManager| locks.lock("k").wait(LIMIT).once(SECOND);
        for (name, [first, second], _backend) in &all {
            let (start, before) = (Instant::now(), runs.load(Ordering::Relaxed));
            assert_eq!(counted(short(first), &runs).await, Ok(Once::Ran(before)), "{name}");
            let again = counted(short(second), &runs).await;
            // A busy machine may take as long as it lasts.
            assert!(again == Ok(Once::Replayed(before)) || start.elapsed() >= SECOND, "{name}: {again:?}");
        }
        tokio::time::sleep(SECOND).await;
        for (name, [first, _], _backend) in &all {
            let before = runs.load(Ordering::Relaxed);
            assert_eq!(counted(short(first), &runs).await, Ok(Once::Ran(before)), "{name}");
        }
    });
}

/// On all backends side by side: time itself is what this tests.
#[test]
fn a_record_lasts_for_as_long_as_its_runner_and_from_its_end_for_once() {
    runtime().block_on(LocalSet::new().run_until(async {
        let mut tests = JoinSet::new();
        for (name, [first, second], backend) in Backend::two().await {
            tests.spawn_local(async move {
                let _backend = backend;
                a_record_lasts(name, &first, &second).await;
            });
        }
        while let Some(test) = tests.join_next().await {
            test.unwrap();
        }
    }));
}

async fn a_record_lasts(name: &str, first: &LockManager, second: &LockManager) {
    const LASTS: Duration = Duration::from_millis(500);
    const TTL: Duration = Duration::from_secs(3);
    /// Several renewals, and longer than a record lasts whose lock is not renewed.
    const RUNS: Duration = Duration::from_millis(4500);
    let once = |locks: &LockManager, by: &str| {
        let request = locks.lock("k").ttl(TTL).wait(LIMIT).once(LASTS).fingerprint(by);
        request.on_interrupted(OnInterrupted::Error)
    };
    let mut ends = Instant::now();
    let inside = once(first, "500").run(async |_guard| {
        tokio::time::sleep(RUNS).await;
        let other = counted(once(second, "900"), &AtomicU32::new(0)).await;
        assert!(matches!(other, Err(LockError::KeyReused { .. })), "{name}: {other:?}");
        assert!(!second.once_record("k").await?.unwrap().is_done(), "{name}");
        ends = Instant::now();
        Ok::<_, LockError>(1)
    });
    assert_eq!(inside.await, Ok(Once::Ran(1)), "{name}");
    let same = counted(once(second, "500"), &AtomicU32::new(7)).await;
    // A busy machine may take as long as it lasts.
    assert!(same == Ok(Once::Replayed(1)) || ends.elapsed() >= LASTS, "{name}: {same:?}");
    tokio::time::sleep(LASTS).await;
    assert_eq!(second.once_record("k").await, Ok(None), "{name}");
    // One that is interrupted after that time is not forgotten.
    let started = Barrier::new(2);
    let dropped = once(first, "500").run(async |_guard| {
        started.wait().await;
        std::future::pending::<Result<u32, LockError>>().await
    });
    let runs = async {
        started.wait().await;
        tokio::time::sleep(RUNS).await;
    };
    tokio::select! {
        outcome = dropped => panic!("{name}: it runs until it is dropped: {outcome:?}"),
        () = runs => {}
    }
    let next = counted(once(second, "500"), &AtomicU32::new(2)).await;
    assert!(matches!(next, Err(LockError::Interrupted { .. })), "{name}: {next:?}");
}

#[test]
fn a_result_survives_a_body_that_fails_in_its_place() {
    runtime().block_on(async {
        for (name, [older, newer], _backend) in Backend::two().await {
            let text = |locks| once(locks, "k").run(async |_guard| Ok::<_, LockError>("seven".to_owned()));
            assert_eq!(text(&older).await, Ok(Once::Ran("seven".to_owned())), "{name}");
            let reruns = || once(&newer, "k").on_undecodable(OnUndecodable::Rerun);
            for _ in 0..2 {
                let failed = reruns().run(async |_guard| {
                    assert_eq!(
                        text(&older).await,
                        Ok(Once::Replayed("seven".to_owned())),
                        "{name}: meanwhile"
                    );
                    Err::<u32, _>(LockError::NotConfigured)
                });
                assert_eq!(failed.await, Err(LockError::NotConfigured), "{name}");
                assert_eq!(text(&older).await, Ok(Once::Replayed("seven".to_owned())), "{name}");
            }
            let dropped = reruns().run(async |_guard| {
                tokio::time::sleep(LIMIT).await;
                Ok::<u32, LockError>(1)
            });
            assert!(tokio::time::timeout(SECOND / 5, dropped).await.is_err());
            assert_eq!(text(&older).await, Ok(Once::Replayed("seven".to_owned())), "{name}");
            assert_eq!(counted(reruns(), &AtomicU32::new(7)).await, Ok(Once::Ran(7)), "{name}");
            let replaced = once(&older, "k").run(async |_guard| Ok::<_, LockError>(0)).await;
            assert_eq!(replaced, Ok(Once::Replayed(7)), "{name}");
        }
    });
}

#[test]
fn one_try_is_busy_while_the_body_runs() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            let inside = once(&first, "k").run(async |guard| {
                assert!(guard.is_held() && guard.fencing_token() > 0);
                let busy = counted(second.lock("k").once(DAY), &AtomicU32::new(0)).await;
                assert!(matches!(&busy, Err(error) if error.is_busy()), "{name}: {busy:?}");
                let record = second.once_record("k").await?.unwrap();
                assert!(!record.is_done() && record.result().is_none() && record.name().is_some(), "{name}");
                let nested = counted(once(&first, "k"), &AtomicU32::new(0)).await;
                assert!(matches!(nested, Err(LockError::Deadlock { .. })), "{name}: {nested:?}");
                Ok::<_, LockError>(1)
            });
            assert_eq!(inside.await, Ok(Once::Ran(1)), "{name}");
            let record = second.once_record("k").await.unwrap().unwrap();
            assert!(record.is_done() && record.result() == Some(b"1"), "{name}");
        }
    });
}

#[test]
fn a_plain_lock_of_the_same_key_is_an_ordinary_waiter() {
    runtime().block_on(async {
        for (name, [first, second], _backend) in Backend::two().await {
            let started = Barrier::new(3);
            let runner = once(&first, "k").run(async |_guard| {
                started.wait().await;
                tokio::time::sleep(SECOND / 5).await;
                Ok::<_, LockError>(1)
            });
            let plain = async {
                started.wait().await;
                second.lock("k").wait(LIMIT).acquire().await.unwrap().release().await.unwrap();
            };
            let replayed = async {
                started.wait().await;
                tokio::time::sleep(SECOND / 10).await;
                counted(once(&second, "k"), &AtomicU32::new(0)).await
            };
            let (ran, (), replayed) = tokio::join!(runner, plain, replayed);
            assert_eq!((ran, replayed), (Ok(Once::Ran(1)), Ok(Once::Replayed(1))), "{name}");
        }
    });
}

#[test]
fn sync_code_runs_once_too() {
    for backend in Backend::all() {
        let connect = || backend.builder().connect_blocking().unwrap();
        let (first, second) = (connect(), connect());
        let run = |locks: &LockManager, value: u32| {
            once(locks, "k").run_blocking(|_guard| Ok::<_, LockError>(value))
        };
        std::thread::scope(|scope| {
            let runner = scope.spawn(|| {
                once(&first, "k").run_blocking(|guard| {
                    std::thread::sleep(SECOND / 10);
                    assert!(guard.is_held());
                    Ok::<_, LockError>(1)
                })
            });
            eventually("the body runs", || second.once_record_blocking("k").unwrap().is_some());
            assert_eq!(run(&second, 2), Ok(Once::Replayed(1)), "{}", backend.name);
            assert_eq!(runner.join().unwrap(), Ok(Once::Ran(1)), "{}", backend.name);
        });
        let failed = once(&first, "f").run_blocking(|_guard| Err::<u32, _>(LockError::NotConfigured));
        assert_eq!(failed, Err(LockError::NotConfigured));
        assert!(second.clear_once_blocking("k").unwrap());
        assert_eq!(run(&second, 3), Ok(Once::Ran(3)), "{}", backend.name);
    }
}

#[test]
fn what_does_not_go_with_it_is_refused_and_nothing_is_sent() {
    runtime().block_on(async {
        let locks = LockManager::connect(format!("memory://{}", unique("refused"))).await.unwrap();
        let requests = [
            locks.lock("k").shared().once(DAY),
            locks.lock("k").permits(3).once(DAY),
            locks.lock("k").min_hold(SECOND).once(DAY),
            locks.lock("k").reentrant(true).once(DAY),
            locks.lock("k").tick(SECOND).once(DAY),
            locks.lock("k").once(Duration::ZERO),
            locks.lock_all(["a", "b"]).once(DAY),
        ];
        let cohort = LockManager::builder(format!("memory://{}", unique("refused"))).cohort(4);
        let cohort = cohort.connect().await.unwrap();
        for request in requests.into_iter().chain([cohort.lock("k").once(DAY)]) {
            let refused = counted(request, &AtomicU32::new(0)).await;
            assert!(matches!(refused, Err(LockError::InvalidRequest { .. })), "{refused:?}");
        }
        assert_eq!(locks.once_record("k").await.unwrap(), None);
        let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
        let url = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
        let quorum = LockManager::connect(&url).await.unwrap();
        let refused = counted(once(&quorum, "k"), &AtomicU32::new(0)).await;
        assert!(matches!(refused, Err(LockError::InvalidRequest { .. })), "{refused:?}");
        assert!(matches!(quorum.once_record("k").await, Err(LockError::InvalidRequest { .. })));
        // A ticket would give the lock away without a result.
        let body = once(&locks, "k").run(async |guard| {
            let refused = HandOver::of(guard).into_ticket(SECOND).await;
            assert!(matches!(refused, Err(LockError::InvalidRequest { .. })), "{refused:?}");
            Ok::<_, LockError>(guard.is_held())
        });
        assert_eq!(body.await, Ok(Once::Ran(true)));
    });
}
