//! Every call counts once, and no gauge drifts, however the call ends.

use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use kit::{RedisServer, connect, eventually, unique};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use redlocked::once::Once;
use redlocked::{
    LockError, LockErrorKind, LockManager, LostReason, OnLost, ReleaseOutcome, distributed_lock,
};
use redlocked_telemetry::value;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the recorder of this process.
fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).unwrap();
        handle
    })
}

/// The metrics of one label, which one test uses.
struct Seen {
    lock: String,
}

impl Seen {
    fn new(stem: &str) -> Self {
        recorder();
        Self { lock: unique(stem) }
    }

    fn number(&self, name: &str, more: &[(&str, &str)]) -> f64 {
        let mut labels = vec![("lock", &*self.lock)];
        labels.extend(more);
        value(&recorder().render(), name, &labels).unwrap_or_default()
    }

    fn waiting(&self) -> f64 {
        self.number("redlocked_callers_waiting", &[])
    }

    fn holding(&self) -> f64 {
        self.number("redlocked_callers_holding", &[])
    }

    fn attempts(&self, outcome: &str) -> f64 {
        self.number("redlocked_attempts_total", &[("outcome", outcome)])
    }

    fn lost(&self, reason: &str) -> f64 {
        self.number("redlocked_locks_lost_total", &[("reason", reason)])
    }

    /// The numbers of waits and of holds that have ended.
    #[track_caller]
    fn have_ended(&self, waits: u32, holds: u32) {
        assert_eq!(self.number("redlocked_wait_seconds_count", &[]), f64::from(waits), "waits");
        assert_eq!(self.number("redlocked_hold_seconds_count", &[]), f64::from(holds), "holds");
        assert_eq!((self.waiting(), self.holding()), (0.0, 0.0), "callers that wait, and that hold");
    }
}

fn memory() -> LockManager {
    LockManager::connect_blocking(format!("memory://{}", unique("metrics"))).unwrap()
}

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn each_call_counts_once_with_its_outcome() {
    let (seen, locks) = (Seen::new("outcomes"), memory());
    let request = |key: &str| locks.lock(key).label(&*seen.lock);
    let held = request("k").acquire_blocking().unwrap();
    assert_eq!((seen.attempts("acquired"), seen.holding()), (1.0, 1.0));
    for (request, outcome) in [
        (request("k"), "busy"),
        (request("k").wait(Duration::from_millis(20)), "timed_out"),
        (request(""), "invalid_key"),
        (request("k").ttl(Duration::ZERO), "invalid_request"),
    ] {
        let error = request.acquire_blocking().unwrap_err();
        assert_eq!((error.kind().as_str(), seen.attempts(outcome)), (outcome, 1.0));
    }
    drop(held);
    let deadlock = request("k").run_value_blocking(|_| request("k").acquire_blocking().err()).unwrap();
    assert!(matches!(deadlock, Some(LockError::Deadlock { .. })));
    assert_eq!(seen.attempts("deadlock"), 1.0);
    locks.shutdown_blocking(SECOND).unwrap();
    assert!(request("k").acquire_blocking().is_err());
    assert_eq!(seen.attempts("manager_closed"), 1.0);
    seen.have_ended(8, 2);
}

#[test]
fn a_tick_and_a_body_that_runs_once_are_counted_as_ran_taken_and_replayed() {
    let locks = memory();
    let (seen, day) = (Seen::new("tick"), 24 * 3600 * SECOND);
    let tick = || locks.lock("tick").label(&*seen.lock).tick(7 * day);
    assert!(tick().run_value_blocking(|_guard| seen.holding()) == Ok(1.0));
    for taken in [1.0, 2.0] {
        assert_eq!(tick().acquire_blocking().unwrap_err().kind(), LockErrorKind::TickTaken);
        assert_eq!((seen.attempts("ran"), seen.attempts("taken")), (1.0, taken));
    }
    seen.have_ended(3, 1);
    assert_eq!((seen.attempts("acquired"), seen.attempts("tick_taken")), (0.0, 0.0));

    let seen = Seen::new("once");
    let once = || locks.lock("once").label(&*seen.lock).once(day);
    let failed = once().run_blocking(|_guard| Err::<u32, _>(LockError::NotConfigured));
    assert_eq!((failed, seen.attempts("ran")), (Err(LockError::NotConfigured), 1.0));
    for replayed in [0.0, 1.0, 2.0] {
        let result = once().run_blocking(|_guard| Ok::<_, LockError>(7));
        assert_eq!(result.map(Once::into_inner), Ok(7));
        assert_eq!((seen.attempts("ran"), seen.attempts("replayed")), (2.0, replayed));
    }
    let other = once().fingerprint("another").run_blocking(|_guard| Ok::<_, LockError>(8));
    assert!(matches!(other, Err(LockError::KeyReused { .. })));
    assert_eq!((seen.attempts("key_reused"), seen.attempts("acquired")), (1.0, 0.0));
    seen.have_ended(5, 2);
}

#[test]
fn readers_and_a_writer_of_one_template_are_told_apart() {
    let (seen, locks) = (Seen::new("kinds"), memory());
    let request = || locks.lock("k").label(&*seen.lock);
    let _readers = [(); 2].map(|()| request().shared().acquire_blocking().unwrap());
    assert!(request().acquire_blocking().is_err());
    assert!(request().permits(2).acquire_blocking().is_err());
    for (kind, inside, waits, outcome) in
        [("shared", 2.0, 2.0, "acquired"), ("exclusive", 0.0, 1.0, "busy"), ("permits", 0.0, 1.0, "busy")]
    {
        let of_kind = ("kind", kind);
        assert_eq!(seen.number("redlocked_callers_holding", &[of_kind]), inside, "{kind}");
        assert_eq!(seen.number("redlocked_wait_seconds_count", &[of_kind]), waits, "{kind}");
        assert_eq!(
            seen.number("redlocked_attempts_total", &[of_kind, ("outcome", outcome)]),
            waits,
            "{kind}"
        );
    }
}

#[test]
fn a_writer_that_becomes_a_reader_counts_as_a_reader_from_then_on() {
    let (seen, locks) = (Seen::new("downgrade"), memory());
    let of_kind = |kind| {
        let label = [("kind", kind)];
        (
            seen.number("redlocked_callers_holding", &label),
            seen.number("redlocked_hold_seconds_count", &label),
        )
    };
    let guard = locks.lock("k").label(&*seen.lock).acquire_blocking().unwrap();
    let written = Duration::from_millis(50);
    thread::sleep(written); // The time that the writer takes is what the histogram shows.
    assert_eq!((of_kind("exclusive"), of_kind("shared")), ((1.0, 0.0), (0.0, 0.0)));
    // A second call finds a reader.
    for _ in 0..2 {
        guard.downgrade_blocking().unwrap();
        assert_eq!((of_kind("exclusive"), of_kind("shared")), ((0.0, 1.0), (1.0, 0.0)));
        assert_eq!(seen.number("redlocked_downgrades_total", &[]), 1.0);
    }
    let alone = seen.number("redlocked_hold_seconds_sum", &[("kind", "exclusive")]);
    assert!(alone >= written.as_secs_f64(), "{alone}");
    guard.release_blocking().unwrap();
    assert_eq!((of_kind("exclusive"), of_kind("shared")), ((0.0, 1.0), (0.0, 1.0)));
    let after = seen.number("redlocked_hold_seconds_sum", &[("kind", "exclusive")]);
    assert_eq!(after.to_bits(), alone.to_bits(), "the time as a reader is not the writer's");
    assert_eq!(seen.attempts("acquired"), 1.0);
    seen.have_ended(1, 2);
}

#[tokio::test]
async fn a_full_queue_and_a_server_that_is_down_are_counted_as_such() {
    let (seen, mut server) = (Seen::new("down"), RedisServer::start());
    let locks = LockManager::builder(server.url()).max_waiters(0).connect().await.unwrap();
    let request = |key: &str| locks.lock(key).label(&*seen.lock);
    let held = request("k").acquire().await.unwrap();
    assert!(request("k").wait(SECOND).acquire().await.is_err());
    assert_eq!(seen.attempts("queue_full"), 1.0);
    server.kill();
    assert!(request("other").acquire().await.is_err());
    assert_eq!(seen.attempts("unavailable"), 1.0);
    drop(held);
    seen.have_ended(3, 1);
}

#[tokio::test]
async fn a_future_that_is_dropped_while_it_waits_is_cancelled() {
    // Its engine runs on this thread: it answers between two polls.
    let locks = LockManager::connect(format!("memory://{}", unique("metrics"))).await.unwrap();
    let seen = Seen::new("cancelled");
    let held = locks.lock("k").acquire().await.unwrap();
    {
        drop(locks.lock("k").label(&*seen.lock).wait_forever().acquire());
        let mut never_polled_again = pin!(locks.lock("k").label(&*seen.lock).wait_forever().acquire());
        assert!(poll_once(never_polled_again.as_mut()).is_pending());
        assert_eq!((seen.waiting(), seen.holding()), (1.0, 0.0));
    }
    assert_eq!(seen.attempts("cancelled"), 1.0, "that which was never polled is no call");
    // Also where the lock was granted to a future that is not polled again.
    drop(held);
    {
        let mut granted = pin!(locks.lock("free").label(&*seen.lock).acquire());
        assert!(poll_once(granted.as_mut()).is_pending());
        while locks.inspect("free").await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(seen.attempts("cancelled"), 2.0);
    seen.have_ended(2, 0);
}

#[tokio::test]
async fn a_body_that_is_dropped_ends_its_hold() {
    let (seen, locks) = (Seen::new("body"), memory());
    {
        let held = locks.lock("k").label(&*seen.lock).run_value(async |_| std::future::pending::<()>().await);
        let mut held = pin!(held);
        while seen.holding() < 1.0 {
            assert!(poll_once(held.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    }
    seen.have_ended(1, 1);
    assert_eq!((seen.attempts("acquired"), seen.lost("released")), (1.0, 0.0));
}

#[tokio::test]
async fn a_lost_lease_ends_the_hold_while_its_guard_lives() {
    let (seen, locks) = (Seen::new("lost"), memory());
    let request = |key: &str| locks.lock(key).label(&*seen.lock);
    let stolen = request("stolen").acquire().await.unwrap();
    let capped = request("capped").max_hold(SECOND).acquire().await.unwrap();
    let several = locks.lock_all(["a", "b", "c"]).label(&*seen.lock).acquire().await.unwrap();
    assert_eq!((seen.attempts("acquired"), capped.lost().await), (3.0, LostReason::MaxHold));
    locks.force_release("stolen").await.unwrap();
    locks.force_release("b").await.unwrap();
    locks.force_release("c").await.unwrap();
    assert_eq!(
        (stolen.lost().await, several.lost().await),
        (LostReason::ForceReleased, LostReason::ForceReleased)
    );
    assert_eq!((seen.lost("max_hold"), seen.lost("force_released")), (1.0, 2.0), "one for each call");
    seen.have_ended(3, 3);
    drop((stolen, capped, several));
    seen.have_ended(3, 3);
}

#[test]
fn a_loss_that_the_release_finds_is_counted_and_logged_once() {
    crate::seen::subscribe();
    let (seen, server) = (Seen::new("found"), RedisServer::start());
    let locks = connect(&server);
    // A hold so short that the server does not track the key, and one that it tracks.
    for delay in [Duration::ZERO, Duration::from_millis(200)] {
        let (key, lost) = (unique("found"), seen.lost("key_changed"));
        let guard = locks.lock(&*key).label(&*seen.lock).acquire_blocking().unwrap();
        thread::sleep(delay);
        server.run::<u32>(&format!("DEL lock:{key}"));
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::AlreadyLost));
        eventually("it is counted", || seen.lost("key_changed") == lost + 1.0);
        eventually("it is logged", || crate::seen::events("key", &key).len() == 1);
    }
    let kept = locks.lock(unique("found")).label(&*seen.lock).acquire_blocking().unwrap();
    assert_eq!(kept.release_blocking(), Ok(ReleaseOutcome::Released));
    assert_eq!(seen.lost("key_changed"), 2.0);
    seen.have_ended(3, 3);
}

#[test]
fn a_shutdown_that_ends_leases_ends_their_holds() {
    let (seen, locks) = (Seen::new("shutdown"), memory());
    let guard = locks.lock("k").label(&*seen.lock).acquire_blocking().unwrap();
    assert!(locks.shutdown_blocking(Duration::ZERO).is_err());
    assert_eq!(seen.lost("manager_closed"), 1.0);
    drop(guard);
    seen.have_ended(1, 1);
}

#[test]
fn before_the_first_loss_and_the_first_bug_each_is_exported_as_zero() {
    let (seen, locks) = (Seen::new("zero"), memory());
    let lost = |reason| {
        value(&recorder().render(), "redlocked_locks_lost_total", &[("lock", &seen.lock), ("reason", reason)])
    };
    let attempts = |outcome| {
        let labels = [("lock", &*seen.lock), ("kind", "exclusive"), ("outcome", outcome)];
        value(&recorder().render(), "redlocked_attempts_total", &labels)
    };
    assert_eq!((lost("expired"), attempts("deadlock")), (None, None), "no call yet");
    let _held = locks.lock("k").label(&*seen.lock).acquire_blocking().unwrap();
    for reason in
        ["expired", "max_hold", "key_changed", "force_released", "revoked", "manager_closed", "blocked"]
    {
        assert_eq!(lost(reason), Some(0.0), "{reason}");
    }
    assert_eq!((lost("released"), lost("forked")), (None, None), "these are no losses of a hold");
    for outcome in ["queue_full", "deadlock", "invalid_key", "invalid_request"] {
        assert_eq!(attempts(outcome), Some(0.0), "{outcome}");
    }
}

#[test]
fn a_guard_may_end_on_another_thread() {
    let (seen, locks) = (Seen::new("threads"), memory());
    let guard = locks.lock("k").label(&*seen.lock).acquire_blocking().unwrap();
    assert_eq!(seen.holding(), 1.0);
    thread::spawn(move || guard.release_blocking()).join().unwrap().unwrap();
    seen.have_ended(1, 1);
}

#[tokio::test]
async fn a_nested_call_is_part_of_the_outer_hold() {
    let (seen, locks) = (Seen::new("nested"), memory());
    let (label, inner) = (&*seen.lock, locks.clone());
    let request = |keys: &[&str]| inner.lock_all(keys.iter().copied()).label(label).reentrant(true);
    let outer = locks.lock("k").label(label).run_value(async |_| {
        let joined = request(&["k"]).acquire().await.unwrap();
        assert_eq!((seen.holding(), seen.attempts("joined"), seen.attempts("acquired")), (1.0, 1.0, 1.0));
        drop(joined);
        assert_eq!(seen.holding(), 1.0);
        let with_one_more = request(&["k", "more"]).acquire().await.unwrap();
        assert_eq!((seen.holding(), seen.attempts("acquired")), (2.0, 2.0));
        drop(with_one_more);
        assert_eq!(seen.holding(), 1.0);
    });
    outer.await.unwrap();
    seen.have_ended(2, 2);
}

#[test]
fn several_keys_are_one_wait_and_one_hold() {
    let (seen, locks) = (Seen::new("several"), memory());
    let request = || locks.lock_all(["a", "b", "c"]).label(&*seen.lock);
    let guard = request().acquire_blocking().unwrap();
    assert_eq!((seen.attempts("acquired"), seen.holding()), (1.0, 1.0));
    assert!(request().acquire_blocking().is_err());
    assert_eq!((seen.attempts("busy"), seen.holding()), (1.0, 1.0));
    drop(guard);
    seen.have_ended(2, 1);
}

#[tokio::test]
async fn a_panic_ends_the_hold() {
    let (seen, locks) = (Seen::new("panic"), memory());
    let request = || locks.lock("k").label(&*seen.lock);
    let blocking = AssertUnwindSafe(|| request().run_value_blocking(|_| panic!("on purpose")));
    assert!(catch_unwind(blocking).is_err());
    let (manager, label) = (locks.clone(), seen.lock.clone());
    let task = tokio::spawn(async move {
        let body = async |_: &redlocked::LockGuard| panic!("on purpose");
        manager.lock("k").label(label).wait(SECOND).run_value(body).await
    });
    assert!(task.await.is_err());
    seen.have_ended(2, 2);
}

/// A recorder that is installed, or gone, while a call is under way sees no gauge below zero.
#[test]
fn a_gauge_is_lowered_where_it_was_raised() {
    let (seen, locks) = (Seen::new("late"), memory());
    let guard = locks.lock("k").label(&*seen.lock).acquire_blocking().unwrap();
    let late = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&late, || drop(guard));
    assert_eq!(seen.holding(), 0.0);
    assert_eq!(value(&late.handle().render(), "redlocked_callers_holding", &[]), None);
}

#[tokio::test]
async fn a_body_that_finishes_without_its_lock_counts_as_lost() {
    let (seen, locks) = (Seen::new("finish"), memory());
    // An answer that comes when the lease is over is no lock.
    let request = locks.lock("k").label(&*seen.lock).ttl(SECOND).renew(false);
    request.on_lost(OnLost::Finish).run_value(async |guard| guard.lost().await).await.unwrap();
    assert_eq!(seen.lost("expired"), 1.0);
    seen.have_ended(1, 1);
}

#[test]
fn hand_overs_are_counted_by_their_way() {
    let (seen, server) = (Seen::new("hand-overs"), RedisServer::start());
    let by = |way: &str| seen.number("redlocked_hand_overs_total", &[("by", way)]);
    let cohort = LockManager::builder(server.url()).prefix("cohort:").cohort(100).connect_blocking().unwrap();
    for (locks, way) in [(connect(&server), "server"), (cohort, "process")] {
        thread::scope(|scope| {
            let held = locks.lock("k").label(&*seen.lock).acquire_blocking().unwrap();
            let before = seen.attempts("acquired");
            for _ in 0..5 {
                scope.spawn(|| {
                    let request = locks.lock("k").label(&*seen.lock).wait(30 * SECOND);
                    request.run_value_blocking(|_| thread::sleep(Duration::from_millis(20))).unwrap();
                });
            }
            eventually("all wait", || seen.waiting() == 5.0);
            drop(held);
            eventually("all have had it", || seen.attempts("acquired") == before + 5.0);
        });
        assert!(by(way) >= 2.0, "{way}: {}", by(way));
    }
    seen.have_ended(12, 12);
}

#[test]
fn a_connection_that_breaks_is_counted() {
    recorder();
    let server = RedisServer::start();
    let locks = connect(&server);
    let broken = || value(&recorder().render(), "redlocked_reconnects_total", &[]);
    let before = broken().unwrap();
    // The manager subscribes over its only connection.
    eventually("it is cut", || server.run::<u32>("CLIENT KILL TYPE pubsub") == 1);
    eventually("it broke", || broken().unwrap() > before);
    drop(locks.lock("k").wait(30 * SECOND).acquire_blocking().unwrap());
}

#[distributed_lock(key = "metrics:{sku}", manager = locks)]
async fn purchase(locks: &LockManager, sku: &str) -> Result<usize, LockError> {
    Ok(sku.len())
}

#[tokio::test]
async fn an_annotated_function_is_labelled_with_its_template_and_no_metric_names_a_key() {
    recorder();
    let locks = memory();
    purchase(&locks, "a-secret-shoe").await.unwrap();
    drop(locks.lock("a-secret-boot").acquire().await.unwrap());
    let scraped = recorder().render();
    for lock in ["metrics:{sku}", "unlabelled"] {
        let acquired = [("lock", lock), ("outcome", "acquired")];
        assert!(value(&scraped, "redlocked_attempts_total", &acquired).unwrap() >= 1.0, "{scraped}");
    }
    assert!(!scraped.contains("a-secret"), "{scraped}");
}

#[tokio::test]
async fn a_process_leads_from_the_lock_to_the_end_of_its_term_however_that_comes() {
    let (seen, locks) = (Seen::new("terms"), memory());
    let election = locks.election("terms").label(&*seen.lock).stop_on_error();
    let leading = || seen.number("redlocked_leading", &[]);
    let ended = |end| seen.number("redlocked_terms_total", &[("end", end)]);
    let is_shown = |number: u64| {
        assert_eq!(leading(), 1.0);
        #[expect(clippy::cast_precision_loss, reason = "microseconds are exact until the year 2255")]
        let number = number as f64;
        assert_eq!(seen.number("redlocked_term", &[]), number);
    };
    let mut bodies = 0;
    election
        .lead(async |term| {
            is_shown(term.fencing_token());
            bodies += 1;
            if bodies == 1 {
                term.resign();
            }
            Ok::<_, LockError>(())
        })
        .await
        .unwrap();
    assert_eq!((leading(), ended("resigned"), ended("returned")), (0.0, 1.0, 1.0));
    let failed = election.lead_blocking(|term| {
        is_shown(term.fencing_token());
        Err::<(), _>("no such table")
    });
    assert!(failed.is_err());
    assert_eq!((leading(), ended("failed")), (0.0, 1.0));
    {
        let mut dropped =
            pin!(election.lead(async |_| std::future::pending::<Result<(), LockError>>().await));
        while leading() < 1.0 {
            assert!(poll_once(dropped.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((leading(), ended("dropped")), (0.0, 1.0));
    let panics = || election.lead_blocking(|_| -> Result<(), LockError> { panic!("a body") });
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!((leading(), ended("dropped"), ended("panicked")), (0.0, 1.0, 1.0));
    let lost = election.lead(async |term| {
        if ended("lost") < 1.0 {
            is_shown(term.fencing_token());
            locks.force_release("terms").await.unwrap();
            std::future::pending::<()>().await;
        }
        Ok::<_, LockError>(())
    });
    lost.await.unwrap();
    assert_eq!((leading(), ended("lost"), ended("returned")), (0.0, 1.0, 2.0));
    let closed = election.lead(async |_| {
        let manager = locks.clone();
        tokio::spawn(async move { manager.shutdown(SECOND).await });
        std::future::pending::<Result<(), LockError>>().await
    });
    assert!(closed.await.is_err());
    assert_eq!((leading(), ended("manager_closed")), (0.0, 1.0));
}

/// All words of a text that begin like our metrics.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    words.filter(|word| word.starts_with("redlocked_")).collect()
}

#[tokio::test]
async fn the_dashboard_and_the_table_name_exactly_what_is_exported() {
    let (seen, locks) = (Seen::new("names"), memory());
    let guard = locks.lock("k").label(&*seen.lock).acquire().await.unwrap();
    let waits = tokio::spawn(locks.lock("k").label(&*seen.lock).wait(30 * SECOND).acquire());
    while locks.inspect("k").await.unwrap().is_none_or(|info| info.waiters() == 0) {}
    guard.downgrade().await.unwrap();
    drop(guard);
    let guard = waits.await.unwrap().unwrap();
    locks.force_release("k").await.unwrap();
    guard.lost().await;
    let election = locks.election("leader").label(&*seen.lock);
    election.lead(async |_| Ok::<_, LockError>(())).await.unwrap();

    let scraped = recorder().render();
    let described =
        |kind: &'static str| scraped.lines().filter_map(move |line| line.strip_prefix(kind)).flat_map(names);
    let exported: BTreeSet<_> = described("# TYPE ").collect();
    assert_eq!(exported, described("# HELP ").collect(), "each is described");
    let dashboard = names(include_str!("../../../../docs/dashboard.json"));
    let of_series = |name| {
        ["_bucket", "_sum", "_count"].iter().find_map(|end| str::strip_suffix(name, end)).unwrap_or(name)
    };
    assert_eq!(exported, dashboard.into_iter().map(of_series).collect(), "in the dashboard and exported");
    let alerts = names(include_str!("../../../../docs/alerts.yaml"));
    let unknown: Vec<_> = alerts.into_iter().map(of_series).filter(|name| !exported.contains(name)).collect();
    assert!(unknown.is_empty(), "in the alerts and not exported: {unknown:?}");
    let table = include_str!("../../../../docs/operating.md");
    assert_eq!(exported, names(table).into_iter().map(of_series).collect(), "in the page and exported");
    let cells = exported.iter().filter(|name| table.contains(&format!("\n| `{name}` | ")));
    assert_eq!(cells.count(), exported.len(), "each has its row");
}
