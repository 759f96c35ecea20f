//! One suite for every backend: `memory://`, a real Redis server with and without cohorts, a quorum
//! of three, and a real Cluster; and for every mode of a manager.
//!
//! `REDLOCK_TEST_MODE` names the mode of all managers here and in `sharing`, and `./test` runs both in
//! each:
//!
//! | mode | managers |
//! | --- | --- |
//! | not set | as they are by default |
//! | `cohort` | hand a lock to eight callers of their own process first, where the backend has cohorts |
//! | `own_thread` | run their loop on a thread of their own |
//! | `no_publish` | are of a user without the right to `PUBLISH`: no lock is handed over, and waiters ask |

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use kit::{LIMIT, RedisCluster, RedisServer, SECOND, eventually, polled, runtime, unique};
use redlocked::{
    Holder, LockError, LockGuard, LockKey, LockManager, LockManagerBuilder, LockRequest, LostReason, OnLost,
    ReleaseOutcome, Ticket, distributed_lock,
};

/// How managers work: see the table above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Default,
    Cohort,
    OwnThread,
    NoPublish,
}

impl Mode {
    pub(crate) fn of_this_run() -> Self {
        match std::env::var("REDLOCK_TEST_MODE").as_deref() {
            Err(_) => Self::Default,
            Ok("cohort") => Self::Cohort,
            Ok("own_thread") => Self::OwnThread,
            Ok("no_publish") => Self::NoPublish,
            Ok(other) => panic!("REDLOCK_TEST_MODE={other}: it may be cohort, own_thread or no_publish"),
        }
    }

    /// False where the backend is the same as by default, or shows no queue.
    fn changes(self, backend: &str, module: &str) -> bool {
        match self {
            Self::Default | Self::OwnThread => true,
            Self::Cohort => matches!(backend, "memory" | "redis"),
            Self::NoPublish => {
                matches!(backend, "redis" | "cohorts" | "quorum") && !module.contains("with_a_queue")
            }
        }
    }
}

/// A user who may do everything but publish.
const SILENT: &str = "ACL SETUSER silent on >pass ~* &* +@all -publish -spublish";

/// The URL of the server, for managers in this mode.
pub(crate) fn url_of(server: &RedisServer) -> String {
    if Mode::of_this_run() != Mode::NoPublish {
        return server.url();
    }
    let rules = if server.is_before_7() { SILENT.trim_end_matches(" -spublish") } else { SILENT };
    let _: String = server.run(rules);
    format!("redis://silent:pass@127.0.0.1:{}/", server.port())
}

/// The store that one test uses.
struct Backend {
    url: String,
    servers: Vec<RedisServer>,
    /// How many callers of one process may hold the lock one after another.
    cohort: u32,
    /// All tests share one Cluster; each has its own prefix.
    cluster: Option<(&'static RedisCluster, String)>,
}

impl Backend {
    fn memory() -> Self {
        Self {
            url: format!("memory://{}", unique("behaviour")),
            servers: Vec::new(),
            cohort: if Mode::of_this_run() == Mode::Cohort { 8 } else { 0 },
            cluster: None,
        }
    }

    fn redis() -> Self {
        let server = RedisServer::start();
        let cohort = if Mode::of_this_run() == Mode::Cohort { 8 } else { 0 };
        Self { url: url_of(&server), servers: vec![server], cohort, cluster: None }
    }

    fn cohorts() -> Self {
        Self { cohort: 8, ..Self::redis() }
    }

    fn quorum() -> Self {
        let servers: Vec<_> = (0..3).map(|_| RedisServer::durable()).collect();
        let url = servers.iter().map(url_of).collect::<Vec<_>>().join(",");
        Self { url, servers, cohort: 0, cluster: None }
    }

    fn cluster() -> Self {
        let cluster = RedisCluster::of_this_process();
        Self {
            url: cluster.url(),
            servers: Vec::new(),
            cohort: 0,
            cluster: Some((cluster, unique("behaviour:"))),
        }
    }

    /// A new manager, as another process would have.
    fn manager(&self) -> LockManager {
        self.builder().connect_blocking().unwrap()
    }

    fn builder(&self) -> LockManagerBuilder {
        let builder = LockManager::builder(&self.url)
            .io_timeout(4 * SECOND)
            .own_thread(Mode::of_this_run() == Mode::OwnThread);
        match &self.cluster {
            Some((_, prefix)) => builder.prefix(prefix),
            None => builder.cohort(self.cohort),
        }
    }

    /// The test has dropped its managers, and all that they have lent.
    fn assert_nothing_left(&self) {
        self.servers.iter().for_each(RedisServer::assert_nothing_left);
        if let Some((cluster, prefix)) = &self.cluster {
            eventually("no key is left", || cluster.keys_of(prefix).is_empty());
        }
    }

    /// No key is left on a server; on `memory://` the lock can be taken.
    fn assert_no_lock_left(&self, key: &str) {
        for server in &self.servers {
            eventually("no key is left", || server.keys().is_empty());
        }
        if let Some((cluster, prefix)) = &self.cluster {
            eventually("no key is left", || cluster.keys_of(prefix).is_empty());
        }
        let probe = self.manager();
        eventually("the lock is free", || probe.lock(key).acquire_blocking().is_ok());
    }
}

macro_rules! on {
    ($($backend:ident)*: $tests:tt) => { $(on! { @ $backend $tests })* };
    (@ $backend:ident { $($test:ident)* }) => {
        mod $backend {
            $(#[test] fn $test() {
                if super::super::Mode::of_this_run().changes(stringify!($backend), module_path!()) {
                    let backend = super::super::Backend::$backend();
                    super::super::$test(&backend);
                    backend.assert_nothing_left();
                }
            })*
        }
    };
}

mod everywhere {
    on! { memory redis cohorts quorum cluster: {
        one_holder_at_a_time
        a_failed_try_never_moves_the_holders_ttl
        a_waiter_gets_it_after_the_release
        dropping_a_guard_releases
        a_panic_in_the_body_releases
        a_caller_dropped_at_any_poll_leaves_nothing
        a_body_dropped_in_the_middle_is_gone_before_the_lock_is
        a_body_longer_than_its_ttl_keeps_the_lock
        a_body_does_not_run_past_its_lease
        without_renewal_a_guard_hears_of_the_end
        extend_moves_the_end
        a_late_release_never_frees_the_next_holder
        waiters_of_one_process_are_served_in_order
        two_managers_exclude_each_other
        a_guard_outlives_its_runtime_and_its_manager
        sync_callers_work_inside_every_runtime
        sync_callers_work_after_the_task_has_spent_its_budget
        bad_requests_are_refused_before_anything_is_sent
        prefixes_separate_applications
        shutdown_waits_for_every_release
        nobody_waits_for_himself
        a_reentrant_call_joins
        max_hold_ends_what_renewals_would_not
        min_hold_keeps_the_key
        calls_that_do_not_wait_for_their_release_are_in_order
        a_body_may_finish_after_a_loss
        a_lock_is_taken_only_from_the_holder_that_was_seen
        a_holder_shows_since_when_it_has_the_lock
    } }
}

/// All but a quorum, which has no tickets.
mod with_tickets {
    on! { memory redis cohorts cluster: {
        a_ticket_takes_the_lock_to_another_process_once
        a_redeemed_lock_travels_on
        a_ticket_that_nobody_redeems_ends_in_time
        a_waiter_does_not_pass_a_ticket
    } }
}

/// Backends that show the queue to other clients: without the right to publish, waiters ask by
/// themselves, and there is none.
mod with_a_queue {
    on! { memory redis cluster: {
        a_waiter_gives_up_after_its_wait_and_names_the_key
        a_full_queue_is_an_error_at_once
        locks_can_be_looked_at_and_listed
        a_holder_and_its_waiters_say_who_they_are
        a_hung_holder_can_be_relieved
        a_lock_that_is_taken_from_its_holder_goes_to_the_next_waiter
        keys_say_what_the_server_has_for_them
        who_looks_sees_that_a_ticket_carries_the_lock
        what_a_key_has_under_another_prefix_is_found
    } }
}

fn one_holder_at_a_time(backend: &Backend) {
    let (a, b) = (backend.manager(), backend.manager());
    let guard = a.lock("k").acquire_blocking().unwrap();
    for manager in [&a, &b] {
        let error = manager.lock("k").acquire_blocking().unwrap_err();
        assert!(matches!(&error, LockError::Busy { key, .. } if &**key == "k"), "{error:?}");
        let me = format!(":{}", std::process::id());
        assert!(error.to_string().contains(&me), "the error names the holder: {error}");
    }
    drop(b.lock("other").acquire_blocking().unwrap());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    drop(b.lock("k").acquire_blocking().unwrap());
}

/// By the server's own account. A waiter lets it know that others wait, and so the key outlasts the
/// lease by a moment.
const GRACE: Duration = Duration::from_millis(100);

fn a_failed_try_never_moves_the_holders_ttl(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let guard = locks.lock("k").ttl(60 * SECOND).renew(false).acquire_blocking().unwrap();
    // When the key ends, at the earliest and at the latest: the process may stand still in between.
    let ends = |after: Duration| {
        let ttl = |server: &RedisServer| {
            let asked = Instant::now();
            let left = Duration::from_millis(server.run("PTTL lock:k")).saturating_sub(after);
            [asked + left, Instant::now() + left]
        };
        backend.servers.iter().map(ttl).collect::<Vec<_>>()
    };
    // A node of a quorum may get the lock a little later than its caller.
    eventually("each server has it", || {
        backend.servers.iter().all(|server| server.run::<i64>("PTTL lock:k") > 0)
    });
    let (before, left) = (ends(Duration::ZERO), guard.remaining());
    let lease_ends = Instant::now() + left;
    let is_refused = |request: LockRequest| {
        let error = request.acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::Busy { .. } | LockError::TimedOut { .. }), "{error:?}");
    };
    for round in 0..20 {
        // A shorter ttl, a longer one, and one of the same length, by both managers.
        for ttl in [SECOND, 60 * SECOND, 3_000 * SECOND] {
            for manager in [&locks, &other] {
                is_refused(manager.lock("k").ttl(ttl));
            }
        }
        if round % 10 == 0 {
            is_refused(other.lock("k").ttl(3_000 * SECOND).wait(SECOND / 2));
            is_refused(other.lock("k").ttl(SECOND).wait(SECOND / 2));
        }
    }
    let room = SECOND / 4;
    for ([after, after_at_most], [before, before_at_most]) in ends(GRACE).into_iter().zip(before) {
        assert!(after <= before_at_most + room, "it ends {:?} later", after - before_at_most);
        assert!(after_at_most + GRACE + room >= before, "it ends {:?} sooner", before - after_at_most);
    }
    assert!(guard.is_held() && Instant::now() + guard.remaining() <= lease_ends + SECOND / 20);
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

fn a_waiter_gets_it_after_the_release(backend: &Backend) {
    let (a, b) = (backend.manager(), backend.manager());
    let guard = a.lock("k").acquire_blocking().unwrap();
    let waiter = std::thread::spawn(move || b.lock("k").wait(LIMIT).acquire_blocking().map(drop));
    // Whether the release or the request comes first: the waiter gets the lock.
    guard.release_blocking().unwrap();
    waiter.join().unwrap().unwrap();
}

fn a_waiter_gives_up_after_its_wait_and_names_the_key(backend: &Backend) {
    let (a, b) = (backend.manager(), backend.manager());
    let _guard = a.lock("stock:42").acquire_blocking().unwrap();
    for manager in [&a, &b] {
        let start = Instant::now();
        let error = manager.lock("stock:42").wait(SECOND / 2).acquire_blocking().unwrap_err();
        assert!(start.elapsed() >= SECOND / 2, "the caller waits for its full `wait`");
        assert!(matches!(&error, LockError::TimedOut { waited, .. } if *waited >= SECOND / 2), "{error:?}");
        assert!(error.to_string().contains("`stock:42`"), "{error}");
    }
    let waiters = || a.inspect_blocking("stock:42").unwrap().map_or(0, |info| info.waiters());
    eventually("callers that timed out have left the queue", || waiters() == 0);
    let _first = std::thread::spawn({
        let locks = backend.manager();
        move || locks.lock("stock:42").wait(LIMIT).acquire_blocking().map(drop)
    });
    eventually("the waiter is queued", || waiters() == 1);
    let error = b.lock("stock:42").wait(SECOND).acquire_blocking().unwrap_err();
    assert!(error.to_string().contains("with 1 waiter in front"), "{error}");
}

fn dropping_a_guard_releases(backend: &Backend) {
    let locks = backend.manager();
    drop(locks.lock("k").acquire_blocking().unwrap());
    // The release was sent before this request, on the same connection.
    drop(locks.lock("k").acquire_blocking().unwrap());
    backend.assert_no_lock_left("k");
}

fn a_panic_in_the_body_releases(backend: &Backend) {
    let locks = backend.manager();
    let body = || locks.lock("k").run_value_blocking(|_| -> u32 { panic!("on purpose") });
    assert!(catch_unwind(AssertUnwindSafe(body)).is_err());
    let async_body =
        || runtime().block_on(locks.lock("k").run_value(async |_| -> u32 { panic!("on purpose") }));
    assert!(catch_unwind(AssertUnwindSafe(async_body)).is_err());
    backend.assert_no_lock_left("k");
}

/// Drops the future of a locked call after 0, 1, 2 … 20 polls, again and again.
fn a_caller_dropped_at_any_poll_leaves_nothing(backend: &Backend) {
    let locks = backend.manager();
    let finished = runtime().block_on(async {
        let mut finished = 0;
        for round in 0..1000 {
            let call = locks.lock("k").wait(LIMIT).run_value(async |_| {
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
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    backend.assert_no_lock_left("k");
}

fn a_body_dropped_in_the_middle_is_gone_before_the_lock_is(backend: &Backend) {
    struct Inside<'a>(&'a AtomicBool);
    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }

    let (locks, probe) = (backend.manager(), backend.manager());
    let inside = AtomicBool::new(false);
    runtime().block_on(async {
        let call = locks.lock("k").run_value(async |_| {
            inside.store(true, Ordering::SeqCst);
            let _inside = Inside(&inside);
            std::future::pending::<()>().await;
        });
        let entered = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            if inside.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            _ = call => panic!("the body never ends"),
            () = entered => {}
        }
        let _next = probe.lock("k").wait(LIMIT).acquire().await.unwrap();
        assert!(!inside.load(Ordering::SeqCst));
    });
}

fn a_body_longer_than_its_ttl_keeps_the_lock(backend: &Backend) {
    let (locks, probe) = (backend.manager(), backend.manager());
    let ttl = 2 * SECOND;
    let guard = locks.lock("k").ttl(ttl).acquire_blocking().unwrap();
    let start = Instant::now();
    while start.elapsed() < ttl * 3 / 2 {
        assert!(guard.is_held());
        assert!(probe.lock("k").acquire_blocking().unwrap_err().is_busy());
        std::thread::sleep(ttl / 10);
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

fn a_body_does_not_run_past_its_lease(backend: &Backend) {
    let locks = backend.manager();
    let polls_after_the_end = AtomicU32::new(0);
    // A quorum gives its nodes a quarter of the ttl to answer.
    let request = locks.lock("k").ttl(2 * SECOND).renew(false).wait(LIMIT);
    let outcome = runtime().block_on(request.run_value(async |guard| {
        poll_fn(|cx| {
            // Always ready to be polled, never finished.
            cx.waker().wake_by_ref();
            if guard.remaining().is_zero() {
                polls_after_the_end.fetch_add(1, Ordering::SeqCst);
            }
            Poll::<()>::Pending
        })
        .await;
    }));
    assert!(matches!(outcome, Err(LockError::Lost { .. })), "{outcome:?}");
    // The lease may end between the library's check and the check in the body, but only once.
    assert!(polls_after_the_end.load(Ordering::SeqCst) <= 1);
}

fn without_renewal_a_guard_hears_of_the_end(backend: &Backend) {
    let (locks, next) = (backend.manager(), backend.manager());
    runtime().block_on(async {
        // A quorum gives its nodes a quarter of the ttl to answer.
        let request = locks.lock("k").ttl(SECOND / 2).renew(false).wait(LIMIT);
        let guard = request.acquire().await.unwrap();
        tokio::time::timeout(LIMIT, guard.lost()).await.unwrap();
        assert!(!guard.is_held());
        assert!(guard.remaining().is_zero());
        assert!(
            matches!(guard.extend(SECOND).await, Err(LockError::Lost { .. })),
            "a lost lock cannot be extended"
        );
        drop(next.lock("k").wait(LIMIT).acquire().await.unwrap());
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::AlreadyLost);
    });
}

fn extend_moves_the_end(backend: &Backend) {
    let locks = backend.manager();
    let guard = locks.lock("k").ttl(10 * SECOND).renew(false).acquire_blocking().unwrap();
    guard.extend_blocking(60 * SECOND).unwrap();
    assert!(guard.remaining() > 30 * SECOND);
    guard.extend_blocking(10 * SECOND).unwrap();
    assert!(guard.remaining() < 10 * SECOND, "a lease can be shortened, too");
    let error = guard.extend_blocking(Duration::ZERO).unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
}

fn a_late_release_never_frees_the_next_holder(backend: &Backend) {
    let (locks, next) = (backend.manager(), backend.manager());
    // A quorum gives its nodes a quarter of the ttl to answer.
    let request = locks.lock("k").ttl(2 * SECOND).renew(false).wait(LIMIT);
    let late = request.acquire_blocking().unwrap();
    let guard = next.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert_eq!(late.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    assert!(locks.lock("k").acquire_blocking().unwrap_err().is_busy());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

fn waiters_of_one_process_are_served_in_order(backend: &Backend) {
    let locks = backend.manager();
    let served = Arc::new(Mutex::new(Vec::new()));
    runtime().block_on(async {
        let guard = locks.lock("k").acquire().await.unwrap();
        let mut waiters = Vec::new();
        for number in 0..20 {
            let (locks, served) = (locks.clone(), Arc::clone(&served));
            let mut call = Box::pin(async move {
                let guard = locks.lock("k").wait(LIMIT).acquire().await.unwrap();
                served.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            // The first poll sends the request.
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
            waiters.push(tokio::spawn(call));
        }
        guard.release().await.unwrap();
        for waiter in waiters {
            waiter.await.unwrap();
        }
    });
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

fn two_managers_exclude_each_other(backend: &Backend) {
    let inside = Arc::new(AtomicU32::new(0));
    let rounds = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (locks, inside, rounds) = (backend.manager(), Arc::clone(&inside), Arc::clone(&rounds));
            std::thread::spawn(move || {
                for _ in 0..25 {
                    let body = |_: &_| {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another caller is inside");
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        rounds.fetch_add(1, Ordering::SeqCst);
                    };
                    locks.lock("k").wait(LIMIT).run_value_blocking(body).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(rounds.load(Ordering::SeqCst), 100);
}

fn a_guard_outlives_its_runtime_and_its_manager(backend: &Backend) {
    const TTL: Duration = Duration::from_secs(3);
    let locks = backend.manager();
    let guard = runtime().block_on(async move { locks.lock("k").ttl(TTL).acquire().await.unwrap() });
    // The runtime and the manager are dropped; the guard still holds and renews the lock.
    let probe = backend.manager();
    let start = Instant::now();
    while start.elapsed() < TTL * 3 / 2 {
        assert!(probe.lock("k").acquire_blocking().unwrap_err().is_busy());
        std::thread::sleep(SECOND / 50);
    }
    std::thread::spawn(move || drop(guard)).join().unwrap();
    drop(probe.lock("k").wait(LIMIT).acquire_blocking().unwrap());
}

fn sync_callers_work_inside_every_runtime(backend: &Backend) {
    let locks = backend.manager();
    let call = |locks: LockManager| locks.lock("k").wait(LIMIT).run_value_blocking(|_| 7).unwrap();
    assert_eq!(call(locks.clone()), 7);

    let in_current_thread = runtime().block_on(async { call(locks.clone()) });
    assert_eq!(in_current_thread, 7);

    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    multi.block_on(async {
        let (first, second) = (locks.clone(), locks.clone());
        assert_eq!(tokio::spawn(async move { call(first) }).await.unwrap(), 7);
        assert_eq!(tokio::task::spawn_blocking(move || call(second)).await.unwrap(), 7);
        assert_eq!(call(locks.clone()), 7);
    });
}

fn sync_callers_work_after_the_task_has_spent_its_budget(backend: &Backend) {
    let locks = backend.manager();
    runtime().block_on(async move {
        let task = tokio::spawn(async move {
            // Uses up tokio's cooperative budget in this one poll.
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            for number in 0..1000 {
                sender.send(number).unwrap();
            }
            poll_fn(|cx| {
                while receiver.poll_recv(cx).is_ready() {}
                Poll::Ready(())
            })
            .await;
            locks.lock("k").run_value_blocking(|_| 7).unwrap()
        });
        assert_eq!(task.await.unwrap(), 7);
    });
}

fn bad_requests_are_refused_before_anything_is_sent(backend: &Backend) {
    let locks = backend.manager();
    for server in &backend.servers {
        let _: String = server.run("CONFIG RESETSTAT");
    }
    for key in [String::new(), "a\nb".to_owned(), "x".repeat(1025)] {
        let error = locks.lock(key).acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
    }
    for ttl in [Duration::ZERO, Duration::from_millis(9), Duration::MAX] {
        let error = locks.lock("k").ttl(ttl).acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
    }
    let holds = [
        locks.lock("k").max_hold(Duration::ZERO),
        locks.lock("k").min_hold(Duration::MAX),
        locks.lock("k").min_hold(2 * SECOND).max_hold(SECOND),
    ];
    for request in holds {
        let error = request.acquire_blocking().unwrap_err();
        assert!(matches!(error, LockError::InvalidRequest { .. }), "{error:?}");
    }
    // The longest wait does not overflow.
    drop(locks.lock("k").wait(Duration::MAX).acquire_blocking().unwrap());
    for server in &backend.servers {
        eventually("only the last request reached the server", || server.client_commands() == 2);
    }
}

fn prefixes_separate_applications(backend: &Backend) {
    let shop = backend.builder().prefix("shop:").connect_blocking().unwrap();
    let bank = backend.builder().prefix("bank:").connect_blocking().unwrap();
    let _a = shop.lock("k").acquire_blocking().unwrap();
    let _b = bank.lock("k").acquire_blocking().unwrap();
    for server in &backend.servers {
        // A node of a quorum may get a lock a little later than its caller.
        eventually("each has its own key", || {
            let mut keys = server.keys();
            keys.sort();
            keys == ["bank:k", "shop:k"]
        });
    }
}

fn shutdown_waits_for_every_release(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let guard = locks.lock("k").acquire_blocking().unwrap();
    let _elsewhere = other.lock("elsewhere").acquire_blocking().unwrap();
    let waiter = {
        let locks = locks.clone();
        std::thread::spawn(move || locks.lock("elsewhere").wait(LIMIT).acquire_blocking().map(drop))
    };
    let still_held = locks.shutdown_blocking(SECOND / 20).unwrap_err();
    assert!(still_held.to_string().contains("still held"), "{still_held}");
    let told = waiter.join().unwrap();
    assert!(matches!(&told, Err(error) if error.to_string().contains("shut down")), "{told:?}");
    drop(guard);
    locks.shutdown_blocking(LIMIT).unwrap();
    // One try is enough: shutdown returns after the release.
    drop(other.lock("k").acquire_blocking().unwrap());
    assert!(matches!(locks.lock("k").acquire_blocking(), Err(LockError::ManagerClosed { .. })));
}

fn a_full_queue_is_an_error_at_once(backend: &Backend) {
    let locks = backend.builder().max_waiters(2).connect_blocking().unwrap();
    let guard = locks.lock("k").acquire_blocking().unwrap();
    runtime().block_on(async {
        let waiters: Vec<_> = (0..2).map(|_| tokio::spawn(locks.lock("k").wait(LIMIT).acquire())).collect();
        tokio::task::yield_now().await;
        let error = locks.lock("k").wait(LIMIT).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::QueueFull { waiters: 2, .. }), "{error:?}");
        drop(guard);
        for waiter in waiters {
            drop(waiter.await.unwrap().unwrap());
        }
    });
    drop(locks.lock("k").wait(LIMIT).acquire_blocking().unwrap());
}

fn nobody_waits_for_himself(backend: &Backend) {
    fn is_deadlock<T: std::fmt::Debug>(outcome: &Result<T, LockError>) -> bool {
        matches!(outcome, Err(LockError::Deadlock { key, .. }) if &**key == "k")
    }
    let locks = backend.manager();
    let nested = || locks.lock("k").wait(LIMIT).run_value_blocking(|_| ());
    let outer = locks.lock("k").run_value_blocking(|_| {
        let inner = nested();
        assert!(is_deadlock(&inner), "{inner:?}");
        locks.lock("other").run_value_blocking(|_| assert!(is_deadlock(&nested()))).unwrap();
    });
    outer.unwrap();
    nested().unwrap();

    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    multi.block_on(async {
        let outer = locks.lock("k").run_value(async |_| {
            for _ in 0..10 {
                // The task may continue on another thread after each yield.
                tokio::task::yield_now().await;
                let inner = locks.lock("k").wait(LIMIT).run_value(async |_| ()).await;
                assert!(is_deadlock(&inner), "{inner:?}");
            }
            // A spawned task is another caller.
            let other = tokio::spawn(locks.lock("k").acquire()).await.unwrap();
            assert!(matches!(other, Err(LockError::Busy { .. })), "{other:?}");
        });
        // Meanwhile other tasks on the same threads wait as usual.
        let beside = locks.lock("k").wait(LIMIT).run_value(async |_| ());
        let (outer, beside) = tokio::join!(outer, beside);
        outer.unwrap();
        beside.unwrap();
    });
}

fn a_reentrant_call_joins(backend: &Backend) {
    let (locks, probe) = (backend.manager(), backend.manager());
    let outer = locks.lock("k").run_value_blocking(|outer| {
        let inner = locks.lock("k").reentrant(true).run_value_blocking(|inner| {
            assert_eq!(inner.fencing_token(), outer.fencing_token());
            // A third level.
            locks.lock("k").reentrant(true).run_value_blocking(|_| ()).unwrap();
        });
        inner.unwrap();
        assert!(probe.lock("k").acquire_blocking().is_err(), "the inner call released nothing");
        let guard = locks.lock("k").reentrant(true).acquire_blocking().unwrap();
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Joined);
        assert!(outer.is_held());
    });
    outer.unwrap();
    probe.lock("k").acquire_blocking().unwrap().release_blocking().unwrap();
    // Outside a locked body, a reentrant request takes the lock like any other.
    let guard = locks.lock("k").reentrant(true).acquire_blocking().unwrap();
    assert!(probe.lock("k").acquire_blocking().is_err());
    drop(guard);
}

fn max_hold_ends_what_renewals_would_not(backend: &Backend) {
    let (locks, next) = (backend.manager(), backend.manager());
    let start = Instant::now();
    let request = locks.lock("k").ttl(SECOND * 3 / 2).max_hold(2 * SECOND);
    let body = request.run_value(async |_| std::future::pending::<()>().await);
    let stuck = runtime().block_on(async { tokio::time::timeout(LIMIT, body).await });
    assert!(matches!(stuck, Ok(Err(LockError::Lost { .. }))), "{stuck:?}");
    assert!(start.elapsed() >= SECOND * 19 / 10, "renewed until then: {:?}", start.elapsed());
    // The lock is released: the next caller does not wait for the ttl.
    drop(next.lock("k").wait(LIMIT).acquire_blocking().unwrap());
    let refused = locks.lock("k").max_hold(Duration::ZERO).acquire_blocking().unwrap_err();
    assert!(matches!(refused, LockError::InvalidRequest { .. }), "{refused:?}");
}

fn min_hold_keeps_the_key(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let start = Instant::now();
    let long = locks.lock("long").ttl(10 * SECOND).min_hold(10 * LIMIT);
    long.run_value_blocking(|_| ()).unwrap();
    assert!(start.elapsed() < 5 * LIMIT, "the caller does not wait for `min_hold`");
    for manager in [&locks, &other] {
        assert!(manager.lock("long").acquire_blocking().unwrap_err().is_busy());
    }
    assert!(other.force_release_blocking("long").unwrap().is_some());
    let start = Instant::now();
    locks.lock("k").ttl(SECOND / 2).wait(LIMIT).min_hold(SECOND).run_value_blocking(|_| ()).unwrap();
    let next = other.lock("k").wait(LIMIT).min_hold(10 * LIMIT).acquire_blocking().unwrap();
    assert!(start.elapsed() >= SECOND * 9 / 10, "{:?}", start.elapsed());
    assert_eq!(next.release_blocking(), Ok(ReleaseOutcome::Kept));
    assert!(other.force_release_blocking("k").unwrap().is_some());
    let next = other.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert_eq!(next.release_blocking(), Ok(ReleaseOutcome::Released));
    // After a body that took longer than `min_hold`, the lock is free at once.
    let slow = locks.lock("k").min_hold(SECOND / 50).run_value_blocking(|_| std::thread::sleep(SECOND / 20));
    slow.unwrap();
    drop(other.lock("k").acquire_blocking().unwrap());
}

/// The reason of a lost lock.
fn reason<T>(outcome: Result<T, LockError>) -> LostReason {
    match outcome.map(drop) {
        Err(LockError::Lost { reason, .. }) => reason,
        other => panic!("the lock is not lost: {other:?}"),
    }
}

fn a_ticket_takes_the_lock_to_another_process_once(backend: &Backend) {
    let (web, worker) = (backend.manager(), backend.manager());
    let guard = web.lock("k").acquire_blocking().unwrap();
    let fence = guard.fencing_token();
    let ticket = guard.into_ticket_blocking(60 * SECOND).unwrap();
    assert!(web.lock("k").acquire_blocking().unwrap_err().is_busy(), "it is taken in between");
    let text = ticket.expose();
    let guard = worker.redeem(text.parse().unwrap()).ttl(6 * SECOND).acquire_blocking().unwrap();
    assert!(guard.fencing_token() > fence && guard.key() == "k");
    for manager in [&web, &worker] {
        let again = manager.redeem(ticket.clone()).acquire_blocking();
        assert_eq!(reason(again), LostReason::TicketUsed);
    }
    // It is a lock as each other: it is renewed, and released once.
    let mut left = guard.remaining();
    eventually("it is renewed", || {
        let before = std::mem::replace(&mut left, guard.remaining());
        left > before
    });
    assert!(guard.is_held());
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    // A job that was delivered twice is not told that it came late.
    let again = worker.redeem(ticket).acquire_blocking();
    assert!(again.as_ref().is_err_and(|error| error.to_string().contains("redeemed before")), "{again:?}");
    assert_eq!(reason(again), LostReason::TicketOver);
    drop(web.lock("k").acquire_blocking().unwrap());
}

fn who_looks_sees_that_a_ticket_carries_the_lock(backend: &Backend) {
    let (web, other, third) = (backend.manager(), backend.manager(), backend.manager());
    let seen = || other.inspect_blocking("k").unwrap().unwrap().holder().clone();
    let asks = || third.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    // Alone, with a waiter, after a wait, and from one that redeems it.
    let guard = web.lock("k").acquire_blocking().unwrap();
    assert!(!seen().is_ticket());
    let guard = std::thread::scope(|scope| {
        let mut guard = guard;
        for with_waiter in [false, true] {
            let waiter = with_waiter.then(|| scope.spawn(asks));
            eventually("it waits", || {
                other.inspect_blocking("k").unwrap().unwrap().waiters() == u32::from(with_waiter)
            });
            let ticket = guard.into_ticket_blocking(60 * SECOND).unwrap();
            let left = seen();
            assert!(left.is_ticket() && left.name().is_some() && left.granted() >= left.asked(), "{left:?}");
            assert!(
                left.expires_in().is_some_and(|left| left > 50 * SECOND && left < 61 * SECOND),
                "{left:?}"
            );
            // One that is refused marks the lock, and changes nothing else.
            assert!(other.lock("k").acquire_blocking().unwrap_err().is_busy());
            assert!(seen().is_ticket());
            guard = other.redeem(ticket).acquire_blocking().unwrap();
            assert!(!seen().is_ticket(), "it is redeemed");
            if let Some(waiter) = waiter {
                guard.release_blocking().unwrap();
                guard = waiter.join().unwrap();
                assert!(!seen().is_ticket());
            }
        }
        guard
    });
    // The process of both passes the lock on to the second one, and tells the server a moment later.
    drop(guard);
    let guard = web.lock("k").acquire_blocking().unwrap();
    let (granted, grants) = channel();
    let waiters = ["one", "other"].map(|label| {
        let (third, granted) = (third.clone(), granted.clone());
        std::thread::spawn(move || {
            let guard = third.lock("k").label(label).wait(LIMIT).acquire_blocking().unwrap();
            granted.send((label, guard)).unwrap();
        })
    });
    eventually("they wait", || other.inspect_blocking("k").unwrap().unwrap().waiters() > 0);
    drop(guard);
    drop(grants.recv_timeout(LIMIT).unwrap());
    let (label, guard) = grants.recv_timeout(LIMIT).unwrap();
    for waiter in waiters {
        waiter.join().unwrap();
    }
    eventually("the server knows who has it", || seen().function() == Some(label));
    let ticket = guard.into_ticket_blocking(60 * SECOND).unwrap();
    assert!(seen().is_ticket());
    assert!(web.cancel_ticket_blocking(ticket).unwrap());
    drop(web.lock("k").min_hold(10 * LIMIT).acquire_blocking().unwrap());
    assert!(!seen().is_ticket(), "a lock that is kept for its min_hold is no ticket's");
    assert!(web.force_release_blocking("k").unwrap().is_some());
}

fn a_redeemed_lock_travels_on(backend: &Backend) {
    let managers = [backend.manager(), backend.manager(), backend.manager()];
    let mut guard = managers[0].lock("k").acquire_blocking().unwrap();
    let (mut fence, mut used) = (guard.fencing_token(), Vec::<Ticket>::new());
    for stop in 1..7 {
        let [here, next] = [stop - 1, stop].map(|stop| &managers[stop % 3]);
        let ticket = guard.into_ticket_blocking(60 * SECOND).unwrap();
        assert!(here.lock("k").acquire_blocking().unwrap_err().is_busy(), "it is taken in between");
        // Each is good once, also where its lock is under way again.
        for used in &used {
            assert_eq!(reason(next.redeem(used.clone()).acquire_blocking()), LostReason::TicketUsed);
        }
        guard = next.redeem(ticket.clone()).acquire_blocking().unwrap();
        used.push(ticket);
        assert!(guard.fencing_token() > fence && guard.is_held(), "stop {stop}");
        fence = guard.fencing_token();
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    let guard = managers[1].lock("k").acquire_blocking().unwrap();
    assert!(guard.fencing_token() > fence);
}

fn a_ticket_that_nobody_redeems_ends_in_time(backend: &Backend) {
    let (web, other) = (backend.manager(), backend.manager());
    let start = Instant::now();
    let guard = web.lock("k").ttl(60 * SECOND).acquire_blocking().unwrap();
    let ticket = guard.into_ticket_blocking(SECOND).unwrap();
    let next = other.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    let took = start.elapsed();
    assert!(took >= SECOND * 9 / 10 && took < LIMIT / 2, "{took:?}");
    assert_eq!(reason(web.redeem(ticket).acquire_blocking()), LostReason::TicketUsed);
    assert!(next.is_held(), "who comes late takes nothing from the next holder");
}

fn a_waiter_does_not_pass_a_ticket(backend: &Backend) {
    let (web, worker) = (backend.manager(), backend.manager());
    let guard = web.lock("k").acquire_blocking().unwrap();
    let runtime = runtime();
    let waiting = [&web, &worker].map(|locks| {
        let request = locks.lock("k").wait(LIMIT);
        runtime.spawn(async move { request.run_value(async |guard| guard.fencing_token()).await })
    });
    runtime.block_on(async {
        // Both ask, and neither is served.
        tokio::time::sleep(SECOND / 5).await;
        let ticket = guard.into_ticket(60 * SECOND).await.unwrap();
        tokio::time::sleep(SECOND / 5).await;
        assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
        let redeemed = worker.redeem(ticket).await.unwrap();
        let fence = redeemed.fencing_token();
        assert_eq!(redeemed.release().await.unwrap(), ReleaseOutcome::Released);
        for waiter in waiting {
            assert!(waiter.await.unwrap().unwrap() > fence);
        }
    });
}

/// One try each, of all kinds in turn: each call comes behind the release of the one before it.
fn calls_that_do_not_wait_for_their_release_are_in_order(backend: &Backend) {
    let locks = backend.builder().default_release_in_background(true).connect_blocking().unwrap();
    let mut kinds: Vec<fn(&LockManager) -> LockRequest> = vec![
        |locks| locks.lock("{k}b"),
        |locks| locks.lock("{k}b").max_hold(60 * SECOND),
        |locks| locks.lock("{k}b").renew(false),
        |locks| locks.lock("{k}b").reentrant(true),
        |locks| locks.lock_all(["{k}a", "{k}b", "c"]),
    ];
    let is_counted = backend.servers.len() < 2 && backend.cohort == 0;
    if is_counted {
        kinds.push(|locks| locks.lock("{k}b").shared());
        kinds.push(|locks| locks.lock("{k}b").permits(2));
        kinds.push(|locks| {
            let others = [LockKey::exclusive("{k}a"), LockKey::permits("c", 2), LockKey::exclusive("d")];
            locks.lock_all(others.into_iter().chain([LockKey::shared("{k}b")]))
        });
    }
    let fence = |guard: &LockGuard| guard.fencing_token_of("{k}b").unwrap();
    let mut last = 0;
    let mut is_later = |fence: u64| {
        assert!(last < fence, "{last}, {fence}");
        last = fence;
    };
    for round in 0..5 {
        // In another order each time.
        kinds.rotate_left(round);
        for kind in &kinds {
            is_later(kind(&locks).run_value_blocking(fence).unwrap());
        }
        runtime().block_on(async {
            for kind in &kinds {
                is_later(kind(&locks).run_value(async |guard| fence(guard)).await.unwrap());
            }
        });
    }
}

fn a_body_may_finish_after_a_loss(backend: &Backend) {
    let (locks, next) = (backend.manager(), backend.manager());
    // A quorum gives its nodes a quarter of the ttl to answer.
    let request = locks.lock("k").ttl(2 * SECOND).renew(false).on_lost(OnLost::Finish).wait(LIMIT);
    let outcome = runtime().block_on(request.run_value(async |guard| {
        guard.lost().await;
        drop(next.lock("k").wait(LIMIT).acquire().await.unwrap());
        guard.is_held()
    }));
    assert_eq!(outcome, Ok(false));
}

fn locks_can_be_looked_at_and_listed(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    assert_eq!(locks.inspect_blocking("stock:1").unwrap(), None);
    let guards =
        ["stock:1", "stock:22", "stock[1]", "cron"].map(|key| locks.lock(key).acquire_blocking().unwrap());
    let waiter = {
        let locks = backend.manager();
        std::thread::spawn(move || locks.lock("stock:1").wait(LIMIT).acquire_blocking().map(drop))
    };
    eventually("a caller waits", || {
        let info = other.inspect_blocking("stock:1").unwrap();
        info.is_some_and(|info| info.waiters() == 1)
    });
    let info = other.inspect_blocking("stock:1").unwrap().unwrap();
    assert!(info.holder().name().is_some_and(|name| name.ends_with(&std::process::id().to_string())));
    assert!(info.holder().expires_in().is_some_and(|left| left > 20 * SECOND));

    assert_eq!(kit::listed(&other, "stock:*").unwrap(), ["stock:1", "stock:22"]);
    assert_eq!(kit::listed(&other, "stock:?").unwrap(), ["stock:1"]);
    assert_eq!(kit::listed(&other, "*").unwrap().len(), 4, "the listing omits the queue and the clock");
    assert_eq!(kit::listed(&other, "nothing").unwrap(), [""; 0]);
    assert!(matches!(other.inspect_blocking(""), Err(LockError::InvalidKey { .. })));
    drop(guards);
    waiter.join().unwrap().unwrap();
}

fn what_a_key_has_under_another_prefix_is_found(backend: &Backend) {
    let prefix = format!("{}:", unique("shop"));
    // With a cohort there are no ticks.
    let shop = backend.builder().cohort(0).prefix(&prefix).connect_blocking().unwrap();
    let locks = backend.manager();
    for key in [unique("report"), format!("{{{}}}:report", unique("shard"))] {
        assert!(locks.keys_elsewhere_blocking(&key).unwrap().is_empty());
        shop.lock(&key).tick(60 * 60 * SECOND).run_value_blocking(|_| ()).unwrap();
        let found = locks.keys_elsewhere_blocking(&key).unwrap();
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!(found.key(), format!("{prefix}{key}"));
        assert!(found.has_tick() && !found.is_locked() && !found.has_once_record(), "{found:?}");
        assert!(shop.keys_elsewhere_blocking(&key).unwrap().is_empty(), "it is its own");
        assert!(shop.clear_tick_blocking(&key).unwrap());
    }
    let prefixes = locks.prefixes_blocking().unwrap();
    let is_memory = backend.servers.is_empty() && backend.cluster.is_none();
    assert_eq!(prefixes.contains(&prefix), !is_memory, "{prefixes:?}");
    assert!(!prefixes.iter().any(|prefix| prefix.contains('{')), "none has the tag of a slot: {prefixes:?}");
}

fn keys_say_what_the_server_has_for_them(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    assert!(other.keys_blocking().unwrap().is_empty());
    let key = |name: &str| other.keys_blocking().unwrap().into_iter().find(|key| key.key() == name);
    // With a cohort there are no ticks.
    let plain = backend.builder().cohort(0).connect_blocking().unwrap();
    plain.lock("hourly").tick(60 * 60 * SECOND).run_value_blocking(|_| ()).unwrap();
    let guard = locks.lock("stock:{1}").acquire_blocking().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(backend.manager().lock("stock:{1}").wait(LIMIT).acquire_blocking().unwrap()));
        eventually("a caller waits", || key("stock:{1}").is_some_and(|key| key.has_waiters()));
        let term = locks.election("cron").lead_blocking(|_| {
            eventually("it leads", || key("cron").is_some_and(|key| key.has_leader()));
            let found = other.keys_blocking()?;
            let found: Vec<_> = found
                .iter()
                .map(|key| (key.key(), key.is_locked(), key.has_waiters(), key.has_leader(), key.has_tick()))
                .collect();
            let expected = [
                ("cron", true, false, true, false),
                ("hourly", false, false, false, true),
                ("stock:{1}", true, true, false, false),
            ];
            assert_eq!(found, expected);
            Ok::<_, LockError>(())
        });
        term.unwrap();
        drop(guard);
    });
    assert!(other.clear_tick_blocking("hourly").unwrap());
    let nodes = other.nodes_blocking().unwrap();
    assert_eq!(nodes.len(), backend.cluster.as_ref().map_or(backend.servers.len(), |_| 3), "{nodes:?}");
    for node in nodes {
        assert!(node.version().is_some_and(|version| version.contains(' ')), "{node:?}");
        assert!(node.used_memory().is_some() && node.role() == Some("master"), "{node:?}");
        assert!(node.connections().is_some() && node.commands_per_second().is_some(), "{node:?}");
    }
}

#[distributed_lock(key = "k", constant_key, manager = locks)]
fn inside(locks: &LockManager, body: impl FnOnce()) -> Result<(), LockError> {
    body();
    Ok(())
}

fn a_holder_and_its_waiters_say_who_they_are(backend: &Backend) {
    let (locks, other) = (backend.manager(), backend.manager());
    let process = |name: Option<&str>| name.unwrap().ends_with(&format!(":{}", std::process::id()));
    let recent = |since: Option<SystemTime>| since.unwrap().elapsed().unwrap_or_default() < LIMIT;
    let waiter = |label: &'static str, in_front: u32| {
        let request = backend.manager().lock("k").wait(LIMIT).label(label);
        let waiter = std::thread::spawn(move || request.acquire_blocking().map(drop));
        let is_queued = || other.inspect_blocking("k").unwrap().unwrap().waiters() == in_front + 1;
        eventually("it is queued", is_queued);
        waiter
    };
    let mut waiters = Vec::new();
    let outcome = inside(&locks, || {
        let info = other.inspect_blocking("k").unwrap().unwrap();
        let holder = info.holder();
        assert_eq!(holder.function(), Some("one_server::behaviour::inside"));
        assert!(process(holder.name()) && recent(holder.asked()));
        let busy = other.lock("k").acquire_blocking().unwrap_err().to_string();
        assert!(busy.contains(" in one_server::behaviour::inside (lease expires in "), "{busy}");

        waiters.extend([waiter("restock", 0), waiter("nightly report", 1)]);
        for info in
            [other.inspect_blocking("k").unwrap().unwrap(), other.list_blocking("*").unwrap().remove(0)]
        {
            let queue = info.queue();
            assert_eq!((info.key(), info.waiters(), queue.len()), ("k", 2, 2));
            assert_eq!(info.holder().function(), Some("one_server::behaviour::inside"));
            assert_eq!(queue[0].function(), Some("restock"));
            assert_eq!(queue[1].function(), Some("nightly_report"));
            assert!(queue.iter().all(|waiter| process(waiter.name()) && recent(waiter.asked())));
        }
    });
    outcome.unwrap();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
}

fn a_holder_shows_since_when_it_has_the_lock(backend: &Backend) {
    // To the second, as it is shown: the clock of the server is the one of this machine.
    let shows = |holder: &Holder, asked: SystemTime, granted: SystemTime| {
        let to_the_second = |time: SystemTime, shown: Option<SystemTime>| {
            let shown = shown.unwrap();
            // A process that got no time for a moment took the lock by an older look at its clock.
            assert!(shown <= SystemTime::now() && shown + 3 * SECOND > time, "{shown:?} instead of {time:?}");
            shown
        };
        let (asked, granted) =
            (to_the_second(asked, holder.asked()), to_the_second(granted, holder.granted()));
        (asked, granted)
    };
    let (locks, other, operator) = (backend.manager(), backend.manager(), backend.manager());
    let request = |locks: &LockManager| locks.lock("k").ttl(3 * SECOND).wait(LIMIT);
    let began = SystemTime::now();
    let mut guard = request(&locks).acquire_blocking().unwrap();
    let first = operator.inspect_blocking("k").unwrap().unwrap();
    assert_eq!(
        shows(first.holder(), began, began),
        (first.holder().asked().unwrap(), first.holder().asked().unwrap())
    );

    // A waiter of another process, then one of the same.
    for waits in [&other, &other] {
        let asked = SystemTime::now();
        let request = request(waits);
        let waiter = std::thread::spawn(move || request.acquire_blocking().unwrap());
        eventually("it has waited for longer than a time is precise to", || {
            asked.elapsed().unwrap_or_default() > 2 * SECOND
        });
        let granted = SystemTime::now();
        guard.release_blocking().unwrap();
        guard = waiter.join().unwrap();
        // Its process may have passed it on: then a renewal names the holder.
        let mut seen = None;
        eventually("it is seen", || {
            let info = operator.inspect_blocking("k").unwrap();
            seen = info.filter(|info| info.holder().asked().unwrap() + SECOND > asked);
            seen.is_some()
        });
        let seen = shows(seen.unwrap().holder(), asked, granted);
        let busy = |locks: &LockManager| {
            // Without a wait: one that ends before the server has answered knows no holder.
            let error = locks.lock("k").acquire_blocking().unwrap_err();
            shows(error.holder().unwrap(), asked, granted)
        };
        assert_eq!(busy(&operator), seen);
        busy(waits);

        // Renewals change nothing, nor does another ttl.
        guard.extend_blocking(4 * SECOND).unwrap();
        eventually("it is renewed", || granted.elapsed().unwrap_or_default() > 2 * SECOND + SECOND / 2);
        assert!(guard.is_held());
        let later = operator.inspect_blocking("k").unwrap().unwrap();
        assert_eq!(shows(later.holder(), asked, granted), seen);
        // Redis 5 cannot list.
        if let Ok(locks) = operator.list_blocking("k") {
            assert!(locks.iter().all(|lock| shows(lock.holder(), asked, granted) == seen));
        }
    }
    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
}

fn a_lock_is_taken_only_from_the_holder_that_was_seen(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    let look = || operator.inspect_blocking("k").unwrap().unwrap();
    let first = locks.lock("k").acquire_blocking().unwrap();
    let seen = look();
    assert!(format!("{seen:?}").contains("Token(..)"), "its token is not shown");
    assert!(seen.has_same_holder(&look()));
    first.release_blocking().unwrap();

    let second = locks.lock("k").acquire_blocking().unwrap();
    assert!(!look().has_same_holder(&seen));
    assert!(!operator.force_release_from_blocking("k", seen.holder()).unwrap());
    assert!(look().has_same_holder(&look()), "it keeps its lock");
    assert!(operator.force_release_from_blocking("k", look().holder()).unwrap());
    let next = operator.lock("k").acquire_blocking().unwrap();
    assert_eq!(second.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);

    // The server does not tell a client of its own changes.
    assert!(operator.force_release_from_blocking("k", look().holder()).unwrap());
    assert!(!next.is_held());
}

fn a_lock_that_is_taken_from_its_holder_goes_to_the_next_waiter(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    let hung = locks.lock("k").acquire_blocking().unwrap();
    let waiter = {
        let locks = backend.manager();
        std::thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap())
    };
    let look = || operator.inspect_blocking("k").unwrap().unwrap();
    eventually("a caller waits", || look().waiters() == 1);
    assert!(operator.force_release_from_blocking("k", look().holder()).unwrap());
    let next = waiter.join().unwrap();
    assert!(next.fencing_token() > hung.fencing_token());
    assert_eq!(hung.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    assert_eq!(next.release_blocking().unwrap(), ReleaseOutcome::Released);
}

fn a_hung_holder_can_be_relieved(backend: &Backend) {
    let (locks, operator) = (backend.manager(), backend.manager());
    let hung = locks.lock("k").acquire_blocking().unwrap();
    let waiter = {
        let locks = backend.manager();
        std::thread::spawn(move || locks.lock("k").wait(LIMIT).acquire_blocking().unwrap())
    };
    eventually("a caller waits", || {
        operator.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == 1)
    });
    let relieved = operator.force_release_blocking("k").unwrap();
    assert!(relieved.is_some_and(|holder| holder.name().is_some()));
    let next = waiter.join().unwrap();
    assert!(next.fencing_token() > hung.fencing_token());
    assert_eq!(hung.release_blocking().unwrap(), ReleaseOutcome::AlreadyLost);
    assert_eq!(next.release_blocking().unwrap(), ReleaseOutcome::Released);
    assert_eq!(operator.force_release_blocking("k").unwrap(), None);
}
