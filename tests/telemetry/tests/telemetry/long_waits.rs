//! A wait that is longer than the limit writes a warning that says who holds the lock, and a line
//! at its end.

use std::time::{Duration, Instant};

use kit::{RedisServer, eventually, unique};
use redlocked::once::Once;
use redlocked::{LockError, LockManager, distributed_lock};
use tokio::time::sleep;
use tracing::{Instrument, Level, info_span};

use crate::seen::{SeenEvent, events, subscribe};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_millis(150);

/// Its loop has a thread: on its way from one runtime to another, it would not know the holder.
fn locks(server: &RedisServer, limit: Duration) -> LockManager {
    subscribe();
    LockManager::builder(server.url()).own_thread(true).warn_after(limit).connect_blocking().unwrap()
}

fn field<'a>(event: &'a SeenEvent, name: &str) -> &'a str {
    event.fields.get(name).map_or("-", |value| value)
}

fn warnings(key: &str) -> Vec<SeenEvent> {
    events("key", key).into_iter().filter(|event| event.level == Level::WARN).collect()
}

/// The outcomes of the waits that were reported.
fn ends(key: &str) -> Vec<String> {
    let ends = events("key", key).into_iter().filter(|event| event.level == Level::INFO);
    ends.map(|event| field(&event, "outcome").to_owned()).collect()
}

fn waited(event: &SeenEvent) -> Duration {
    Duration::from_millis(field(event, "waited_ms").parse().unwrap())
}

fn waiters(locks: &LockManager, key: &str) -> u32 {
    locks.inspect_blocking(key).unwrap().map_or(0, |info| info.waiters())
}

#[distributed_lock(key = "long:{key}", manager = locks, ttl = "9s")]
async fn import(
    locks: &LockManager,
    key: &str,
    done: tokio::sync::oneshot::Receiver<()>,
) -> Result<(), LockError> {
    let _ = done.await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warning_says_who_holds_the_lock_in_which_function_since_when_and_how_many_are_in_front() {
    let (server, name) = (RedisServer::start(), unique("holder"));
    let key = format!("long:{name}");
    let (others, ours) = (locks(&server, Duration::MAX), locks(&server, LIMIT));
    let (done, until) = tokio::sync::oneshot::channel();
    let holder = tokio::spawn({
        let (others, name) = (others.clone(), name.clone());
        async move { import(&others, &name, until).await }
    });
    eventually("it is held", || others.inspect_blocking(&key).unwrap().is_some());
    let in_front = tokio::spawn(others.lock(&*key).wait(30 * SECOND).run_value(async |_| ()));
    eventually("one waits", || waiters(&others, &key) == 1);
    let queue: Vec<String> = server.run(&format!("ZRANGE lock:{key}%queue 0 9"));
    assert!(queue.len() == 1 && queue[0].contains('@'), "as docs/operating.md tells operators: {queue:?}");
    let request = info_span!("request");
    let waits = tokio::spawn(
        ours.lock(&*key).label("report").wait(30 * SECOND).run_value(async |_| ()).instrument(request),
    );
    eventually("again after four times as long", || warnings(&key).len() >= 2);
    for (warning, at_least) in warnings(&key).iter().zip([LIMIT, 4 * LIMIT]) {
        assert_eq!(field(warning, "holder_function"), "telemetry::long_waits::import");
        assert!(field(warning, "holder").ends_with(&format!(":{}", std::process::id())), "{warning:?}");
        assert!(
            field(warning, "holder_asked_at").starts_with("20")
                && field(warning, "holder_asked_at").ends_with('Z'),
            "{warning:?}"
        );
        assert_eq!(field(warning, "holder_granted_at"), field(warning, "holder_asked_at"), "it did not wait");
        assert_eq!((field(warning, "in_front"), field(warning, "waiters")), ("1", "2"));
        assert_eq!(field(warning, "waiters_here"), "1");
        assert!(waited(warning) >= at_least, "{warning:?}");
        assert_eq!(warning.within, ["lock_wait", "request"]);
    }
    assert!(ends(&key).is_empty());
    drop(done);
    for task in [holder, in_front, waits] {
        task.await.unwrap().unwrap();
    }
    eventually("one line tells of the end", || ends(&key) == ["acquired"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_is_the_one_at_the_time_of_the_warning() {
    let (server, key) = (RedisServer::start(), unique("fresh"));
    let (others, ours) = (locks(&server, Duration::MAX), locks(&server, 4 * LIMIT));
    let first = others.lock(&*key).label("first").acquire().await.unwrap();
    let mut others_wait = Vec::new();
    for (label, nth) in ["second", "third", "fourth"].into_iter().zip(1..) {
        others_wait.push(tokio::spawn(others.lock(&*key).label(label).wait(30 * SECOND).acquire()));
        eventually("one more waits", || waiters(&others, &key) == nth);
    }
    let began = Instant::now();
    let waits = tokio::spawn(ours.lock(&*key).wait(30 * SECOND).acquire());
    eventually("all wait", || waiters(&others, &key) == 4);
    drop(first);
    let second = others_wait.remove(0).await.unwrap().unwrap();
    // On a busy machine, the first warnings may have come before.
    let waited = began.elapsed();
    let nth = (0..10).find(|nth| waited < 4 * LIMIT * 4_u32.pow(*nth)).unwrap() as usize;
    eventually("a warning", || warnings(&key).len() > nth);
    let warning = &warnings(&key)[nth];
    assert_eq!((field(warning, "holder_function"), field(warning, "in_front")), ("second", "2"));
    drop(second);
    for waits in others_wait {
        drop(waits.await.unwrap().unwrap());
    }
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_shorter_than_the_limit_costs_no_command_and_a_report_costs_one() {
    let server = RedisServer::start();
    let count = async |limit| {
        let (locks, key) = (locks(&server, limit), unique("count"));
        // What comes with a first call.
        drop(locks.lock(&*key).acquire().await.unwrap());
        let held = locks.lock(&*key).acquire().await.unwrap();
        let before = server.client_commands();
        let waits = tokio::spawn(locks.lock(&*key).wait(30 * SECOND).acquire());
        sleep(2 * LIMIT).await;
        held.release().await.unwrap();
        waits.await.unwrap().unwrap().release().await.unwrap();
        server.client_commands() - before
    };
    // On a busy machine a wait takes longer, and the waiter asks once more.
    let mut fewest = [u64::MAX; 3];
    for round in 0..20 {
        for (fewest, limit) in fewest.iter_mut().zip([Duration::MAX, 10 * SECOND, LIMIT]) {
            *fewest = count(limit).await.min(*fewest);
        }
        let [without, below, above] = fewest;
        if round >= 3 && (below, above) == (without, without + 1) {
            return;
        }
    }
    panic!("without a limit, below it and above it: {fewest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_waiters_is_one_warning() {
    let (server, key) = (RedisServer::start(), unique("crowd"));
    // All of them wait at the first warning, and none at the second one, after 8 s.
    let locks = locks(&server, 2 * SECOND);
    let held = locks.lock(&*key).acquire().await.unwrap();
    let crowd: Vec<_> =
        (0..200).map(|_| tokio::spawn(locks.lock(&*key).wait(4 * SECOND).acquire())).collect();
    for waits in crowd {
        assert!(waits.await.unwrap().is_err());
    }
    drop(held);
    eventually("a line says how the wait ended", || !ends(&key).is_empty());
    let ends = ends(&key);
    // A server that stands still at the end of the wait is unavailable.
    assert!(matches!(&*ends[0], "timed_out" | "unavailable") && ends.len() == 1, "{ends:?}");
    let warnings = warnings(&key);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(field(&warnings[0], "waiters_here").parse::<u32>().unwrap() > 100, "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_warning_says_why_the_holder_is_unknown() {
    let (mut server, key) = (RedisServer::start(), unique("gone"));
    let locks = locks(&server, LIMIT);
    let held = locks.lock(&*key).acquire().await.unwrap();
    let waits = tokio::spawn(locks.lock(&*key).wait_forever().acquire());
    eventually("it waits", || waiters(&locks, &key) == 1);
    server.kill();
    eventually("a warning", || warnings(&key).iter().any(|event| field(event, "error") != "-"));
    let unknown = warnings(&key).into_iter().filter(|event| field(event, "error") != "-");
    for warning in unknown {
        // It does not blame Redis: the connection may only be another one.
        let message = field(&warning, "message");
        assert_eq!(message, "slow lock wait: the holder is not known now");
    }
    waits.abort();
    eventually("it ends", || ends(&key) == ["cancelled"]);
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_a_local_hand_over_ends_has_its_line() {
    subscribe();
    let (server, key) = (RedisServer::start(), unique("cohort"));
    let builder = LockManager::builder(server.url()).warn_after(LIMIT).cohort(10);
    let locks = builder.connect().await.unwrap();
    let held = locks.lock(&*key).acquire().await.unwrap();
    let waits = tokio::spawn(locks.lock(&*key).wait(30 * SECOND).acquire());
    eventually("a warning", || !warnings(&key).is_empty());
    drop(held);
    drop(waits.await.unwrap().unwrap());
    eventually("a line says how the wait ended", || ends(&key) == ["acquired"]);
}

/// Nobody holds it, but the server takes no writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_the_server_refuses_is_not_called_free() {
    let (server, key) = (RedisServer::start(), unique("refused"));
    let ours = locks(&server, LIMIT);
    let _: String = server.run("CONFIG SET min-replicas-to-write 1");
    let waits = tokio::spawn(ours.lock(&*key).wait(30 * SECOND).acquire());
    eventually("a warning", || !warnings(&key).is_empty());
    for warning in warnings(&key) {
        assert_eq!(field(&warning, "message"), "slow lock wait: Redis refuses the lock");
        assert!(field(&warning, "error").contains("NOREPLICAS"), "{warning:?}");
    }
    let _: String = server.run("CONFIG SET min-replicas-to-write 0");
    assert!(waits.await.unwrap().is_ok());
}

#[tokio::test]
async fn the_end_of_a_long_wait_for_a_body_that_runs_once_says_who_has_run_it() {
    let server = RedisServer::start();
    let (locks, others) = (locks(&server, LIMIT / 10), locks(&server, Duration::MAX));
    for (outcome, ends_well) in [("replayed", true), ("ran", false)] {
        let key = unique(outcome);
        let once = |locks: &LockManager| locks.lock(&*key).wait(30 * SECOND).once(3600 * SECOND);
        let mut waiter = None;
        let runner = once(&others).run(async |_guard| {
            waiter = Some(tokio::spawn(once(&locks).run(async |_guard| Ok::<_, LockError>(7))));
            while warnings(&key).is_empty() {
                sleep(LIMIT / 10).await;
            }
            ends_well.then_some(7).ok_or(LockError::NotConfigured)
        });
        assert_eq!(runner.await.is_ok(), ends_well);
        assert_eq!(waiter.unwrap().await.unwrap().map(Once::into_inner), Ok(7));
        eventually("a line says how the wait ended", || ends(&key) == [outcome]);
    }
}
