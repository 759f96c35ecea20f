//! With `cohort(n)` a process hands its lock to its own callers up to `n` times; then other
//! processes get it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use kit::{LIMIT, Proxy, RedisServer, eventually, runtime};
use redlocked::{LockError, LockManager, ReleaseOutcome};
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(10);

fn connect(url: &str, cohort: u32) -> LockManager {
    // A lock that is left free for clients of another kind is had by the next caller, in turn or
    // not.
    LockManager::builder(url).cohort(cohort).foreign_clients(false).connect_blocking().unwrap()
}

/// The holders, in order: the number of the process, and the fencing token.
#[derive(Clone, Default)]
struct Book {
    inside: Arc<AtomicBool>,
    holds: Arc<Mutex<Vec<(usize, u64)>>>,
}

impl Book {
    /// Starts a caller whose body takes this long.
    async fn caller(
        &self,
        process: usize,
        locks: &LockManager,
        ttl: Duration,
        body: Duration,
    ) -> JoinHandle<()> {
        let (book, locks) = (self.clone(), locks.clone());
        let mut call = Box::pin(async move {
            let request = locks.lock("k").ttl(ttl).wait(LIMIT);
            let body = async |guard: &redlocked::LockGuard| {
                assert!(!book.inside.swap(true, Ordering::SeqCst), "two callers are inside");
                book.holds.lock().unwrap().push((process, guard.fencing_token()));
                if body.is_zero() {
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(body).await;
                }
                book.inside.store(false, Ordering::SeqCst);
            };
            request.run_value(body).await.unwrap();
        });
        poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        tokio::spawn(call)
    }

    /// The holders so far. Asserts that their fencing tokens grow.
    fn holds(&self) -> Vec<(usize, u64)> {
        let holds = self.holds.lock().unwrap().clone();
        assert!(holds.is_sorted_by(|(_, one), (_, next)| one < next), "{holds:?}");
        holds
    }
}

#[test]
fn a_lock_goes_on_within_its_process_without_a_word_to_the_server() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), 1000);
    locks.lock("warm up").run_value_blocking(|_| ()).unwrap();
    let book = Book::default();
    let start = Instant::now();
    runtime().block_on(async {
        let _: String = server.run("CONFIG RESETSTAT");
        let mut calls = Vec::new();
        for _ in 0..500 {
            calls.push(book.caller(0, &locks, TTL, Duration::ZERO).await);
        }
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(book.holds().len(), 500);
    // Two commands each 50 ms tell the server who holds a lock that was passed on.
    let over_time = 2 * start.elapsed().as_millis() / 50;
    let commands = u128::from(server.client_commands());
    assert!(commands < 50 + over_time, "{commands} commands for 500 locks, {over_time} because of the time");
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn processes_take_turns() {
    const COHORT: u32 = 10;
    let server = RedisServer::start();
    let managers =
        [connect(&server.url(), COHORT), connect(&server.url(), COHORT), connect(&server.url(), 0)];
    let book = Book::default();
    runtime().block_on(async {
        let first = managers[0].lock("k").acquire().await.unwrap();
        let mut calls = Vec::new();
        for (process, locks) in managers.iter().enumerate() {
            for _ in 0..60 {
                calls.push(book.caller(process, locks, TTL, Duration::from_micros(200)).await);
            }
        }
        // The first two processes have one entry each, the third one for each of its callers.
        eventually("all are queued", || server.run::<u32>("ZCARD lock:k%queue") == 61);
        first.release().await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
    });
    let holds = book.holds();
    assert_eq!(holds.len(), 180);
    let rows: Vec<_> =
        holds.chunk_by(|(one, _), (next, _)| one == next).map(|row| (row[0].0, row.len())).collect();
    // The limit counts only while other processes wait: not for the last one.
    let (last, others) = rows.split_last().unwrap();
    let too_long = others.iter().filter(|(process, length)| *process < 2 && *length > 1 + COHORT as usize);
    assert_eq!(too_long.count(), 0, "{rows:?}");
    let passed_on = rows.iter().any(|(process, length)| *process < 2 && *length > 5);
    assert!(passed_on && last.1 > 0, "{rows:?}");
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_row_that_takes_longer_than_the_ttl_is_renewed_as_one() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), 100);
    // In a runtime that stands still for a moment, its loop would move, and one try fail meanwhile.
    let other = LockManager::builder(server.url()).own_thread(true).connect_blocking().unwrap();
    let (book, ttl) = (Book::default(), Duration::from_millis(1500));
    runtime().block_on(async {
        let mut calls = Vec::new();
        for _ in 0..30 {
            calls.push(book.caller(0, &locks, ttl, ttl / 10).await);
        }
        eventually("the lock is held", || server.run::<Option<String>>("GET lock:k").is_some());
        while book.holds().len() < 20 {
            assert!(matches!(other.lock("k").try_acquire().await, Err(LockError::Busy { .. })));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(book.holds().len(), 30);
}

#[test]
fn what_others_see_of_a_lock_that_its_process_passes_on_is_true() {
    for url in [None, Some("memory://a-cohort-that-is-seen")] {
        let server = url.is_none().then(RedisServer::start);
        let url = server.as_ref().map_or_else(|| url.unwrap_or_default().to_owned(), RedisServer::url);
        let (locks, other) = (connect(&url, 100), connect(&url, 0));
        runtime().block_on(async {
            let mut guard = locks.lock("k").label("0").ttl(TTL).acquire().await.unwrap();
            for holder in ["1", "2", "3"] {
                let mut next = pin!(locks.lock("k").label(holder).ttl(TTL).wait(LIMIT).acquire());
                poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
                let waiting = tokio::spawn({
                    let request = other.lock("k").label("behind").wait(LIMIT);
                    request.acquire()
                });
                // Its loop may be on its way to another thread, where this one stands still.
                let info = async || loop {
                    if let Ok(info) = other.inspect("k").await {
                        break info.unwrap();
                    }
                };
                while info().await.waiters() == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                guard.release().await.unwrap();
                guard = next.await.unwrap();
                let start = Instant::now();
                while info().await.holder().function() != Some(holder) {
                    assert!(start.elapsed() < Duration::from_secs(2), "{holder}: {:?}", info().await);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let busy = other.lock("k").try_acquire().await.unwrap_err();
                assert!(busy.to_string().contains(&format!(" in {holder} ")), "{busy}");
                assert_eq!(info().await.queue()[0].function(), Some("behind"));
                waiting.abort();
                while info().await.waiters() > 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
            other.lock("k").try_acquire().await.unwrap().release().await.unwrap();
        });
    }
}

#[test]
fn whoever_follows_on_a_holder_that_was_robbed_hears_of_it() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), 100);
    runtime().block_on(async {
        let first = locks.lock("k").acquire().await.unwrap();
        let mut second = pin!(locks.lock("k").wait(LIMIT).acquire());
        poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        let watched = || server.run::<String>("INFO stats").contains("tracking_total_keys:1");
        eventually("the key of the cohort is watched", watched);
        assert_eq!(first.release().await.unwrap(), ReleaseOutcome::Released);
        let second = second.await.unwrap();
        let _: String = server.run("FLUSHALL");
        let start = Instant::now();
        second.lost().await;
        assert!(start.elapsed() < TTL, "the loss shows before the renewal");
        assert_eq!(second.release().await.unwrap(), ReleaseOutcome::AlreadyLost);
        locks.lock("k").try_acquire().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn nobody_follows_while_there_is_no_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let locks = connect(&proxy.url(), 100);
    runtime().block_on(async {
        let first = locks.lock("k").acquire().await.unwrap();
        let mut second = pin!(locks.lock("k").wait(LIMIT).acquire());
        poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        proxy.refuse(true);
        proxy.cut();
        eventually("the manager knows it", || locks.lock("other").acquire_blocking().is_err());
        drop(first);
        assert!(tokio::time::timeout(Duration::from_millis(50), second.as_mut()).await.is_err());
        proxy.refuse(false);
        let second = second.await.unwrap();
        assert!(
            server.run::<Option<String>>("GET lock:k").is_some(),
            "the lock was acquired by a request of its own"
        );
        second.release().await.unwrap();
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn who_has_left_the_line_or_has_another_ttl_does_not_follow() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), 100);
    runtime().block_on(async {
        let first = locks.lock("k").ttl(TTL).acquire().await.unwrap();
        let mut calls: Vec<_> = [TTL, TTL, TTL * 2]
            .map(|ttl| Box::pin(locks.lock("k").ttl(ttl).wait(LIMIT).acquire()))
            .into_iter()
            .collect();
        for call in &mut calls {
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        }
        let third = calls.pop().unwrap();
        let second = calls.pop().unwrap();
        drop(calls);
        // Answers keep their order: after this one, the reserved fencing tokens have arrived.
        locks.lock("another").acquire().await.unwrap().release().await.unwrap();
        let requests = server.requests();
        first.release().await.unwrap();
        let second = second.await.unwrap();
        // On a busy machine, the server may be told by now who has the lock.
        assert!(requests.count() <= 1, "the same cohort");
        let requests = server.requests();
        second.release().await.unwrap();
        let third = third.await.unwrap();
        assert!(requests.count() >= 2, "a ttl of its own: released, and asked for");
        third.release().await.unwrap();
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_full_line_is_an_error_at_once() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).cohort(8).max_waiters(2).connect_blocking().unwrap();
    runtime().block_on(async {
        let held = locks.lock("k").acquire().await.unwrap();
        let mut waiters: Vec<_> = (0..2).map(|_| Box::pin(locks.lock("k").wait(LIMIT).acquire())).collect();
        for waiter in &mut waiters {
            poll_fn(|cx| Poll::Ready(waiter.as_mut().poll(cx).is_pending())).await;
        }
        let full = locks.lock("k").wait(LIMIT).acquire().await;
        assert!(matches!(full, Err(LockError::QueueFull { waiters: 2, .. })), "{full:?}");
        held.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap().release().await.unwrap();
        }
    });
}
