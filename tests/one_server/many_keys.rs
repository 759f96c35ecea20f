//! Several keys as one lock: all or nothing, in one order, under one deadline; on `memory://` and
//! on a real Redis server.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use kit::{LIMIT, RedisServer, SECOND, connect_to, eventually, polled, runtime, unique};
use redlocked::{LockError, LockManager, ReleaseOutcome, distributed_lock};

/// The store that one test uses.
pub(crate) struct Backend {
    pub(crate) url: String,
    pub(crate) server: Option<RedisServer>,
}

impl Backend {
    pub(crate) fn memory() -> Self {
        Self { url: format!("memory://{}", unique("many-keys")), server: None }
    }

    pub(crate) fn redis() -> Self {
        let server = RedisServer::start();
        Self { url: server.url(), server: Some(server) }
    }

    /// A new manager, as another process would have.
    pub(crate) fn manager(&self) -> LockManager {
        connect_to(&self.url)
    }

    pub(crate) fn assert_free(&self, keys: &[&str]) {
        let probe = self.manager();
        eventually("the locks are free", || probe.lock_all(keys.iter().copied()).acquire_blocking().is_ok());
        if let Some(server) = &self.server {
            eventually("no key is left", || server.keys().is_empty());
        }
    }
}

macro_rules! on_both_backends {
    ($($test:ident)*) => {
        mod memory {
            $(#[test] fn $test() { super::$test(&super::Backend::memory()); })*
        }
        mod redis {
            $(#[test] fn $test() { super::$test(&super::Backend::redis()); })*
        }
    };
}

pub(crate) use on_both_backends;

on_both_backends! {
    transfers_in_all_directions_keep_the_sum
    waiters_are_served_in_order
    every_key_once_and_in_order
    a_list_without_keys_is_refused
    one_busy_key_leaves_nothing_held
    the_deadline_is_for_all_keys_together
    the_last_key_gets_a_try_at_the_end_of_the_wait
    a_caller_dropped_at_any_poll_leaves_nothing
    the_loss_of_one_stops_the_body_and_releases_the_others
    what_is_lost_while_the_others_are_waited_for_is_asked_for_again
    what_is_waited_for_without_renewal_is_asked_for_again
    a_release_tells_of_the_one_that_was_lost
    a_guard_hears_of_each_loss
    extend_extends_all
    each_key_has_its_own_fencing_token
    max_hold_counts_from_the_first
    min_hold_keeps_all
    min_hold_is_for_bodies_that_ran
    nobody_waits_for_himself
    a_reentrant_call_joins_what_is_held_and_takes_the_rest
    the_attribute_locks_every_key_of_its_list
    an_attribute_inside_another_one
}

fn waiters(locks: &LockManager, key: &str) -> u32 {
    locks.inspect_blocking(key).unwrap().map_or(0, |info| info.waiters())
}

struct Account {
    balance: AtomicI64,
    taken: AtomicBool,
}

impl Account {
    /// Fails if another caller has this account.
    fn enter(&self) -> i64 {
        assert!(!self.taken.swap(true, Ordering::SeqCst), "another caller has this account");
        self.balance.load(Ordering::SeqCst)
    }

    fn leave(&self, balance: i64) {
        self.balance.store(balance, Ordering::SeqCst);
        self.taken.store(false, Ordering::SeqCst);
    }
}

fn transfers_in_all_directions_keep_the_sum(backend: &Backend) {
    const PAIRS: [(usize, usize); 6] = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)];
    let account = |_| Account { balance: AtomicI64::new(100), taken: AtomicBool::new(false) };
    let accounts: Arc<[Account]> = (0..3).map(account).collect();
    let done = Arc::new(AtomicU32::new(0));

    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let managers = [backend.manager(), backend.manager()];
    let calls: Vec<_> = (0..24)
        .map(|number| {
            let (locks, accounts, done) =
                (managers[number % 2].clone(), Arc::clone(&accounts), Arc::clone(&done));
            let (from, to) = PAIRS[number % 6];
            let request =
                move || locks.lock_all([from, to].map(|id| format!("account:{id}"))).wait(10 * LIMIT);
            let body = move || {
                let balances = (accounts[from].enter(), accounts[to].enter());
                std::thread::yield_now();
                accounts[from].leave(balances.0 - 1);
                accounts[to].leave(balances.1 + 1);
                done.fetch_add(1, Ordering::SeqCst);
            };
            if number % 3 == 0 {
                return multi.spawn_blocking(move || {
                    (0..10).for_each(|_| request().run_value_blocking(|_| body()).unwrap());
                });
            }
            multi.spawn(async move {
                for _ in 0..10 {
                    request().run_value(async |_| body()).await.unwrap();
                }
            })
        })
        .collect();
    multi.block_on(async {
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), 240);
    assert_eq!(accounts.iter().map(|account| account.balance.load(Ordering::SeqCst)).sum::<i64>(), 300);
    backend.assert_free(&["account:0", "account:1", "account:2"]);
}

fn waiters_are_served_in_order(backend: &Backend) {
    let locks = backend.manager();
    let served = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let guard = locks.lock_all(["a", "b"]).acquire().await.unwrap();
        let mut calls = Vec::new();
        for number in 0..20 {
            let (locks, served) = (locks.clone(), Arc::clone(&served));
            let keys = if number % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            let mut call = Box::pin(async move {
                let guard = locks.lock_all(keys).wait(LIMIT).acquire().await.unwrap();
                served.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            // The first poll sends the request.
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
            calls.push(tokio::spawn(call));
        }
        guard.release().await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
    });
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

fn every_key_once_and_in_order(backend: &Backend) {
    let (locks, probe) = (backend.manager(), backend.manager());
    let guard = locks.lock_all(["b", "aa", "Z", "b", "ä", "a"]).acquire_blocking().unwrap();
    assert!(guard.keys().eq(["Z", "a", "aa", "b", "ä"]), "{guard:?}");
    assert_eq!(guard.key(), "Z");
    assert!(guard.is_held());
    assert!(guard.remaining() > 20 * SECOND);
    for key in ["b", "aa", "Z", "ä", "a"] {
        let error = probe.lock(key).acquire_blocking().unwrap_err();
        assert!(matches!(&error, LockError::Busy { key: busy, .. } if **busy == *key), "{error:?}");
    }
    assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));

    let guard = locks.lock_all(vec![String::from("a"), String::from("a")]).acquire_blocking().unwrap();
    assert!(guard.keys().eq(["a"]), "{guard:?}");
    drop(guard);
    let guard = locks.lock_all(Some("a")).acquire_blocking().unwrap();
    drop(guard);
    backend.assert_free(&["a", "aa", "b", "Z", "ä"]);
}

fn a_list_without_keys_is_refused(backend: &Backend) {
    let locks = backend.manager();
    let commands = || backend.server.as_ref().map_or(0, RedisServer::client_commands);
    let before = commands();
    let error = locks.lock_all([""; 0]).wait(LIMIT).acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
    assert!(error.to_string().contains("the list of keys is empty"), "{error}");
    let error = locks.lock_all(["a", "b\n"]).acquire_blocking().unwrap_err();
    assert!(matches!(&error, LockError::InvalidKey { key, .. } if &**key == "b\\n"), "{error:?}");
    let error = locks.lock_all(["a", "b"]).ttl(Duration::ZERO).acquire_blocking().unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
    assert_eq!(commands(), before, "nothing was sent");
}

fn one_busy_key_leaves_nothing_held(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let busy = other.lock("b").acquire_blocking().unwrap();
    for wait in [Duration::ZERO, SECOND / 5] {
        let error = locks.lock_all(["c", "b", "a"]).wait(wait).acquire_blocking().unwrap_err();
        assert!(error.is_busy() && error.to_string().contains("`b`"), "{error}");
        assert_eq!(matches!(error, LockError::Busy { .. }), wait.is_zero(), "{error:?}");
        // The keys that were taken are released before the manager's next request.
        drop(locks.lock_all(["a", "c"]).acquire_blocking().unwrap());
    }
    let error = runtime().block_on(locks.lock_all(["a", "b"]).wait(LIMIT).try_acquire()).unwrap_err();
    assert!(matches!(error, LockError::Busy { .. }), "{error:?}");
    drop(busy);
    backend.assert_free(&["a", "b", "c"]);
}

fn the_deadline_is_for_all_keys_together(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let first = other.lock("a").acquire_blocking().unwrap();
    let _second = other.lock("b").acquire_blocking().unwrap();
    let start = Instant::now();
    let call = {
        let locks = locks.clone();
        std::thread::spawn(move || locks.lock_all(["a", "b"]).wait(2 * SECOND).acquire_blocking())
    };
    eventually("most of the wait is over", || start.elapsed() >= SECOND * 3 / 2);
    drop(first);
    let error = call.join().unwrap().unwrap_err();
    assert!(start.elapsed() < SECOND * 16 / 5, "a wait for each would be 3.5 s: {:?}", start.elapsed());
    let LockError::TimedOut { key, waited, .. } = &error else { panic!("{error:?}") };
    assert_eq!(&**key, "b");
    assert!(*waited >= 2 * SECOND, "the error gives the whole wait: {error}");
    drop(locks.lock("a").acquire_blocking().unwrap());
}

/// Its first answer may come after the end.
fn the_last_key_gets_a_try_at_the_end_of_the_wait(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let busy = other.lock("b").acquire_blocking().unwrap();
    let request = locks.lock_all(["a", "b"]).wait(Duration::from_millis(4));
    for _ in 0..10 {
        let error = request.clone().acquire_blocking().unwrap_err();
        assert!(matches!(&error, LockError::TimedOut { key, .. } if &**key == "b"), "{error:?}");
    }
    drop(busy);
    eventually("the lock is held", || request.clone().acquire_blocking().is_ok());
    backend.assert_free(&["a", "b"]);
}

/// Drops the future of a locked call after 0, 1, 2 … 20 polls, again and again.
fn a_caller_dropped_at_any_poll_leaves_nothing(backend: &Backend) {
    let locks = backend.manager();
    let finished = runtime().block_on(async {
        let mut finished = 0;
        for round in 0..1000 {
            let call = locks.lock_all(["a", "b", "c"]).wait(LIMIT).run_value(async |_| {
                for _ in 0..12 {
                    tokio::task::yield_now().await;
                }
            });
            let outcome = polled(call, round % 21, round % 2 == 0).await;
            finished += u32::from(outcome.is_some_and(|outcome| outcome.is_ok()));
        }
        finished
    });
    assert!(finished > 0, "some calls finish");
    // Every dropped call has released: the next caller does not wait for a ttl.
    drop(locks.lock_all(["a", "b", "c"]).wait(LIMIT).acquire_blocking().unwrap());
    backend.assert_free(&["a", "b", "c"]);
}

fn the_loss_of_one_stops_the_body_and_releases_the_others(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    for stolen in ["a", "b", "c"] {
        // Without a push, the loss shows at the next renewal.
        let request = locks.lock_all(["a", "b", "c"]).ttl(3 * SECOND);
        let outcome = runtime().block_on(request.run_value(async |guard| {
            operator.force_release(stolen).await.unwrap();
            guard.lost().await;
            assert!(!guard.is_held());
            std::future::pending::<()>().await;
        }));
        assert!(matches!(&outcome, Err(LockError::Lost { key, .. }) if &**key == stolen), "{outcome:?}");
        // The other keys are released before the manager's next request.
        drop(locks.lock_all(["a", "b", "c"]).acquire_blocking().unwrap());
    }
    backend.assert_free(&["a", "b", "c"]);
}

fn what_is_lost_while_the_others_are_waited_for_is_asked_for_again(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let busy = other.lock("b").acquire_blocking().unwrap();
    let request = locks.lock_all(["a", "b"]).ttl(3 * SECOND).wait(LIMIT);
    let call = std::thread::spawn(move || request.acquire_blocking());
    eventually("the caller has the first key and waits for the second", || waiters(&other, "b") == 1);

    // The thief queues before the caller that loses the first key and asks for it again at once.
    let thief = other.lock("a").wait(LIMIT);
    let thief = std::thread::spawn(move || thief.acquire_blocking().unwrap());
    eventually("the thief waits for the first key", || waiters(&other, "a") == 1);
    other.force_release_blocking("a").unwrap().unwrap();
    let thief = thief.join().unwrap();
    eventually("the caller waits for the first key again", || waiters(&other, "a") == 1);
    eventually("and for no other key", || waiters(&other, "b") == 0);

    let fence = thief.fencing_token();
    drop(thief);
    eventually("the caller waits for the second key again", || waiters(&other, "b") == 1);
    drop(busy);
    let guard = call.join().unwrap().unwrap();
    assert!(guard.is_held());
    assert!(guard.fencing_token_of("a").unwrap() > fence, "the first key was taken again");
    drop(guard);
    backend.assert_free(&["a", "b"]);
}

fn what_is_waited_for_without_renewal_is_asked_for_again(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let busy = other.lock("b").acquire_blocking().unwrap();
    let start = Instant::now();
    let request = locks.lock_all(["a", "b"]).ttl(2 * SECOND).renew(false).wait(LIMIT);
    let call = std::thread::spawn(move || request.acquire_blocking());
    eventually("the first lease is over", || start.elapsed() > 3 * SECOND);
    drop(busy);
    assert!(call.join().unwrap().unwrap().is_held());
    backend.assert_free(&["a", "b"]);
}

fn a_release_tells_of_the_one_that_was_lost(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    for stolen in ["a", "b"] {
        let guard = locks.lock_all(["a", "b"]).ttl(3 * SECOND).acquire_blocking().unwrap();
        operator.force_release_blocking(stolen).unwrap().unwrap();
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::AlreadyLost), "{stolen}");
        drop(locks.lock_all(["a", "b"]).acquire_blocking().unwrap());
    }
}

fn a_guard_hears_of_each_loss(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    for stolen in ["a", "b"] {
        runtime().block_on(async {
            let guard = locks.lock_all(["a", "b"]).ttl(3 * SECOND).acquire().await.unwrap();
            operator.force_release(stolen).await.unwrap().unwrap();
            tokio::time::timeout(LIMIT, guard.lost()).await.unwrap();
            assert!(!guard.is_held());
            assert_eq!(guard.remaining(), Duration::ZERO);
            assert_eq!(guard.release().await, Ok(ReleaseOutcome::AlreadyLost));
        });
    }
}

fn extend_extends_all(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    let guard = locks.lock_all(["a", "b"]).ttl(2 * SECOND).renew(false).acquire_blocking().unwrap();
    guard.extend_blocking(60 * SECOND).unwrap();
    assert!(guard.remaining() > 50 * SECOND, "the shortest of the leases");
    for key in ["a", "b"] {
        let info = operator.inspect_blocking(key).unwrap().unwrap();
        assert!(info.holder().expires_in().unwrap() > 50 * SECOND, "{key}");
    }
    let error = guard.extend_blocking(Duration::ZERO).unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
    operator.force_release_blocking("b").unwrap().unwrap();
    let error = guard.extend_blocking(60 * SECOND).unwrap_err();
    assert!(matches!(&error, LockError::Lost { key, .. } if &**key == "b"), "{error:?}");
}

fn each_key_has_its_own_fencing_token(backend: &Backend) {
    let locks = backend.manager();
    let single = locks.lock("b").acquire_blocking().unwrap();
    let before = single.fencing_token();
    assert_eq!(single.fencing_token_of("b"), Some(before));
    assert_eq!(single.fencing_token_of("a"), None);
    drop(single);
    let guard = locks.lock_all(["b", "a"]).acquire_blocking().unwrap();
    let (a, b) = (guard.fencing_token_of("a").unwrap(), guard.fencing_token_of("b").unwrap());
    assert!(before < a && a < b);
    assert_eq!(guard.fencing_token(), b);
    drop(guard);
    assert!(
        locks.lock("a").acquire_blocking().unwrap().fencing_token() > b,
        "the next holder's token is above all of these"
    );
}

fn max_hold_counts_from_the_first(backend: &Backend) {
    let (locks, next) = (backend.manager(), backend.manager());
    let start = Instant::now();
    let request = locks.lock_all(["a", "b"]).ttl(SECOND).max_hold(2 * SECOND);
    let body = request.run_value(async |_| std::future::pending::<()>().await);
    let stuck = runtime().block_on(async { tokio::time::timeout(LIMIT, body).await });
    assert!(matches!(&stuck, Ok(Err(LockError::Lost { key, .. })) if &**key == "a"), "{stuck:?}");
    assert!(start.elapsed() >= SECOND * 19 / 10, "renewed until then: {:?}", start.elapsed());
    drop(next.lock_all(["a", "b"]).wait(LIMIT).acquire_blocking().unwrap());
}

fn min_hold_keeps_all(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let start = Instant::now();
    locks.lock_all(["a", "b"]).min_hold(SECOND).run_value_blocking(|_| ()).unwrap();
    for key in ["a", "b"] {
        // Checked before `min_hold` can end, however slow this machine is.
        let is_busy = other.lock(key).acquire_blocking().is_err_and(|error| error.is_busy());
        assert!(is_busy || start.elapsed() >= SECOND, "{key}");
    }
    drop(other.lock_all(["a", "b"]).wait(LIMIT).acquire_blocking().unwrap());
    assert!(start.elapsed() >= SECOND * 9 / 10, "{:?}", start.elapsed());
}

fn min_hold_is_for_bodies_that_ran(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let busy = other.lock("b").acquire_blocking().unwrap();
    for wait in [Duration::ZERO, SECOND / 5] {
        let request = locks.lock_all(["a", "b"]).min_hold(60 * SECOND).wait(wait);
        assert!(request.acquire_blocking().unwrap_err().is_busy());
        drop(locks.lock("a").acquire_blocking().unwrap());
    }
    let call = locks.lock_all(["a", "b"]).min_hold(60 * SECOND).wait(LIMIT).acquire();
    runtime().block_on(async {
        let waiting =
            async { while other.inspect("b").await.unwrap().is_none_or(|info| info.waiters() == 0) {} };
        tokio::select! {
            outcome = call => panic!("{outcome:?}"),
            () = waiting => {}
        }
    });
    drop(locks.lock("a").acquire_blocking().unwrap());
    drop(busy);
    backend.assert_free(&["a", "b"]);
}

fn nobody_waits_for_himself(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let deadlock = |outcome: Result<(), LockError>, at: &str| {
        assert!(matches!(&outcome, Err(LockError::Deadlock { key, .. }) if &**key == at), "{outcome:?}");
    };
    let outer = locks.lock_all(["b", "d"]).run_value_blocking(|_| {
        deadlock(locks.lock_all(["a", "b", "c"]).wait(LIMIT).run_value_blocking(|_| ()), "b");
        deadlock(locks.lock("d").wait(LIMIT).run_value_blocking(|_| ()), "d");
        // The refused call took no key.
        other.lock_all(["a", "c"]).acquire_blocking().unwrap().release_blocking().unwrap();
        // Keys that the outer call does not hold lock as usual.
        locks.lock_all(["a", "c"]).run_value_blocking(|_| ()).unwrap();
    });
    outer.unwrap();
    let outer = runtime().block_on(locks.lock("b").run_value(async |_| {
        tokio::task::yield_now().await;
        deadlock(locks.lock_all(["a", "b"]).wait(LIMIT).run_value(async |_| ()).await, "b");
    }));
    outer.unwrap();
    // A finished body holds no key.
    locks.lock_all(["a", "b", "d"]).run_value_blocking(|_| ()).unwrap();
}

fn a_reentrant_call_joins_what_is_held_and_takes_the_rest(backend: &Backend) {
    let (locks, probe) = (backend.manager(), backend.manager());
    let outer = locks.lock_all(["b", "d"]).run_value_blocking(|outer| {
        let inner = locks.lock_all(["a", "b", "c"]).reentrant(true).run_value_blocking(|inner| {
            assert!(inner.keys().eq(["a", "b", "c"]));
            assert_eq!(inner.fencing_token_of("b"), outer.fencing_token_of("b"));
            for key in ["a", "b", "c", "d"] {
                assert!(probe.lock(key).acquire_blocking().unwrap_err().is_busy(), "{key}");
            }
            // A third level, with keys of both outer calls.
            locks.lock_all(["a", "d"]).reentrant(true).run_value_blocking(|_| ()).unwrap();
            locks.lock("c").reentrant(true).run_value_blocking(|_| ()).unwrap();
        });
        inner.unwrap();
        drop(probe.lock_all(["a", "c"]).acquire_blocking().unwrap());
        assert!(probe.lock("b").acquire_blocking().is_err(), "the inner call has not released it");
        assert!(outer.is_held());
        // When a key is busy, the inner call releases its own keys and no others.
        let busy = probe.lock("c").acquire_blocking().unwrap();
        assert!(locks.lock_all(["a", "b", "c"]).reentrant(true).acquire_blocking().unwrap_err().is_busy());
        assert!(outer.is_held());
        assert!(probe.lock("b").acquire_blocking().is_err());
        drop(busy);
        drop(locks.lock("a").acquire_blocking().unwrap());
    });
    outer.unwrap();
    backend.assert_free(&["a", "b", "c", "d"]);
}

const AUDIT: &str = "audit";

struct Bank {
    locks: LockManager,
    probe: LockManager,
}

impl Bank {
    fn assert_busy(&self, keys: &[&str]) {
        for key in keys {
            let error = self.probe.lock(*key).acquire_blocking().unwrap_err();
            assert!(matches!(&error, LockError::Busy { key: busy, .. } if **busy == **key), "{error:?}");
        }
    }

    #[distributed_lock(
        keys = ["account:{to}", "account:{from.0}", AUDIT],
        manager = self.locks,
        guard = lock
    )]
    async fn transfer(&self, from: (u32, u32), to: &str, lock_all: u64) -> Result<u64, LockError> {
        self.assert_busy(&["account:7", "account:a%3Ab", "audit"]);
        assert!(lock.keys().eq(["account:7", "account:a%3Ab", "audit"]), "{lock:?}");
        Ok(lock_all)
    }

    #[distributed_lock(keys = [format!("account:{from}"), to], manager = self.locks, on_busy = None, on_error = |_| None)]
    fn merge(&self, from: u32, to: String) -> Option<String> {
        self.assert_busy(&["account:7", &to]);
        Some(to)
    }

    #[distributed_lock(keys = ["account:{id}"], manager = self.locks)]
    fn close(&self, id: u32, others: &[u32]) -> Result<(), LockError> {
        others.iter().try_for_each(|other| self.book(id, *other))
    }

    #[distributed_lock(keys = ["account:{from}", "account:{to}"], manager = self.locks, reentrant)]
    fn book(&self, from: u32, to: u32) -> Result<(), LockError> {
        self.assert_busy(&[&format!("account:{from}"), &format!("account:{to}")]);
        Ok(())
    }

    #[distributed_lock(keys = ["account:{id}", "audit"], manager = self.locks, wait = "forever")]
    async fn audit(&self, id: u32) -> Result<(), LockError> {
        Box::pin(self.audit(id)).await
    }
}

fn the_attribute_locks_every_key_of_its_list(backend: &Backend) {
    let bank = Bank { locks: backend.manager(), probe: backend.manager() };
    let call = || runtime().block_on(bank.transfer((7, 0), "a:b", 42));
    assert_eq!(call(), Ok(42));
    // All keys are released when the call returns, not later.
    let busy = bank.probe.lock("audit").acquire_blocking().unwrap();
    let outcome = call();
    assert!(matches!(&outcome, Err(LockError::Busy { key, .. }) if &**key == "audit"), "{outcome:?}");
    drop(busy);

    assert_eq!(bank.merge(7, "x".to_owned()).as_deref(), Some("x"));
    let busy = bank.probe.lock("x").acquire_blocking().unwrap();
    assert_eq!(bank.merge(7, "x".to_owned()), None);
    drop(busy);
    assert_eq!(bank.merge(7, "account:7".to_owned()).as_deref(), Some("account:7"), "two equal keys are one");
    backend.assert_free(&["account:7", "account:a%3Ab", "audit", "x"]);
}

fn an_attribute_inside_another_one(backend: &Backend) {
    let bank = Bank { locks: backend.manager(), probe: backend.manager() };
    assert_eq!(bank.close(2, &[1, 2, 3]), Ok(()));
    let outcome = runtime().block_on(bank.audit(2));
    assert!(matches!(&outcome, Err(LockError::Deadlock { key, .. }) if &**key == "account:2"), "{outcome:?}");
    backend.assert_free(&["account:1", "account:2", "account:3", "audit"]);
}
