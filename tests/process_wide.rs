//! The process-wide manager: annotated functions in many runtimes find it through the environment.
//! A binary of its own, because it sets the manager of its process.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kit::RedisServer;
#[cfg(target_os = "linux")]
use kit::eventually;
use redlocked::{LockError, LockManager, ReleaseOutcome, distributed_lock};
use tokio::runtime::Builder;

static INSIDE: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "shared:{name}", ttl = "10s", wait = "20s")]
async fn one_at_a_time(name: &str) -> Result<u32, LockError> {
    let others = INSIDE.fetch_add(1, Ordering::SeqCst);
    tokio::task::yield_now().await;
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    Ok(others)
}

async fn from_a_runtime_of_its_own() {
    LockManager::connect(&RedisServer::of_this_process()).await.unwrap().set_global();
    for _ in 0..20 {
        assert_eq!(one_at_a_time("k").await, Ok(0), "no other caller is inside");
    }
}

macro_rules! runtimes {
    ($($name:ident)*) => {
        $(#[tokio::test] async fn $name() { from_a_runtime_of_its_own().await; })*
    };
}

runtimes! { first second third fourth fifth sixth seventh eighth ninth tenth }

/// Runs one of the `#[ignore]`d tests below in a new process with this environment.
fn alone(test: &str, environment: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored"]).env_remove("REDIS_URL").env_remove("REDLOCK_URL");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[test]
fn the_environment_names_the_server() {
    let server = RedisServer::start();
    alone("a_call_reaches_the_server", &[("REDIS_URL", &server.url())]);
    alone(
        "a_call_reaches_the_server",
        &[("REDLOCK_URL", &server.url()), ("REDIS_URL", "redis://127.0.0.1:1/")],
    );
    assert!(server.client_commands() >= 4);
}

#[cfg(target_os = "linux")]
#[test]
fn locks_that_are_held_for_a_moment_wake_no_thread() {
    alone("a_thousand_locks_wake_no_thread", &[]);
}

#[cfg(target_os = "linux")]
#[test]
fn sync_locks_wake_no_thread_but_their_callers() {
    alone("sync_locks_one_after_the_other_wake_no_other_thread", &[]);
}

/// As a program that has a manager for each tenant.
#[cfg(target_os = "linux")]
#[test]
fn many_managers_share_their_thread() {
    alone("managers_with_own_thread_share_it", &[]);
    alone("managers_of_sync_callers_share_their_thread", &[]);
}

/// A runtime without I/O and timers, whatever the program says of its runtimes: tokio tells of it only by
/// a panic.
#[test]
fn a_runtime_without_drivers_is_served_and_the_panic_hook_hears_nothing() {
    alone("a_runtime_without_drivers", &[]);
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn a_runtime_without_drivers() {
    static PANICS: AtomicU32 = AtomicU32::new(0);
    let server = RedisServer::start();
    std::panic::set_hook(Box::new(|_| {
        PANICS.fetch_add(1, Ordering::SeqCst);
    }));
    for own_thread in [None, Some(false), Some(true)] {
        let bare =
            [Builder::new_current_thread().build(), Builder::new_multi_thread().worker_threads(1).build()];
        for runtime in bare {
            let builder = LockManager::builder(server.url());
            let builder = own_thread.into_iter().fold(builder, redlocked::LockManagerBuilder::own_thread);
            let outcome = runtime.unwrap().block_on(async {
                let locks = builder.connect().await?;
                locks.lock("k").run_value(async |_| 7).await
            });
            assert_eq!(outcome, Ok(7), "{own_thread:?}");
        }
    }
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
}

/// How often a thread of this process has gone to sleep.
#[cfg(target_os = "linux")]
fn sleeps_in(task: &std::path::Path) -> u64 {
    // A thread may have ended meanwhile.
    let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.map_or(0, |count| count.trim().parse().unwrap())
}

/// How often threads with this name have gone to sleep; `None` without such a thread.
#[cfg(target_os = "linux")]
fn sleeps_of(name: &str) -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).unwrap().trim() == name);
    let sleeps = named.map(|task| sleeps_in(&task));
    sleeps.reduce(|sum, more| sum + more)
}

#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "run by the tests above, in a process of its own"]
async fn a_thousand_locks_wake_no_thread() {
    const LOCKS: u64 = 1000;
    let server = RedisServer::start();
    LockManager::connect(server.url()).await.unwrap().set_global();
    assert_eq!(one_at_a_time("k").await, Ok(0));
    eventually("the stall watchdog sleeps", || sleeps_of("redlocked-guard") > Some(0));
    let (start, before) = (std::time::Instant::now(), sleeps_of("redlocked-guard").unwrap());
    for _ in 0..LOCKS {
        assert_eq!(one_at_a_time("k").await, Ok(0));
    }
    let woken = sleeps_of("redlocked-guard").unwrap() - before;
    // The stall watchdog looks ten times in a second, however many locks there are.
    let looks = 4 + start.elapsed().as_millis() as u64 / 40;
    assert!(woken <= looks, "{woken} times in {LOCKS} locks and {:?}", start.elapsed());
}

/// The threads of the engines, each on time, with 100 managers of one program.
#[cfg(target_os = "linux")]
fn engine_threads(connect: impl Fn(&str) -> LockManager) -> usize {
    let server = RedisServer::start();
    let managers: Vec<_> = (0..100).map(|_| connect(&server.url())).collect();
    let held: Vec<_> = managers
        .iter()
        .enumerate()
        .map(|(number, locks)| {
            locks.lock(format!("k{number}")).ttl(Duration::from_secs(1)).acquire_blocking().unwrap()
        })
        .collect();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    // A thread may have ended meanwhile.
    let name = |task: std::path::PathBuf| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    let threads = tasks.filter(|task| name(task.clone()).trim() == "redlocked").count();
    // Two leases: each engine has to renew its lock.
    std::thread::sleep(Duration::from_secs(2));
    for guard in held {
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
    }
    threads
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn managers_with_own_thread_share_it() {
    let connect = |url: &str| LockManager::builder(url).own_thread(true).connect_blocking().unwrap();
    assert_eq!(engine_threads(connect), 1);
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn managers_of_sync_callers_share_their_thread() {
    let threads = engine_threads(|url| LockManager::connect_blocking(url).unwrap());
    assert!(threads <= 65, "{threads}: 64 have one each, and the others one for all");
}

#[distributed_lock(key = "sync", ttl = "10s", wait = "20s", manager = locks)]
fn one_sync_call(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the tests above, in a process of its own"]
fn sync_locks_one_after_the_other_wake_no_other_thread() {
    const LOCKS: u64 = 2000;
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let this = std::fs::canonicalize("/proc/thread-self").unwrap();
    let sleeps = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let all: u64 = tasks.map(|task| sleeps_in(&task)).sum();
        (sleeps_in(&this), all)
    };
    assert_eq!(one_sync_call(&locks), Ok(()));
    let (start, before) = (std::time::Instant::now(), sleeps());
    for _ in 0..LOCKS {
        assert_eq!(one_sync_call(&locks), Ok(()));
    }
    let (elapsed, after) = (start.elapsed(), sleeps());
    let (own, others) = (after.0 - before.0, after.1 - before.1 - (after.0 - before.0));
    // One for each of the two answers.
    assert!(own <= 2 * LOCKS + LOCKS / 100, "{own} times in {LOCKS} locks");
    // The loop's own thread looks ten times in a second, however many locks there are.
    let rare = 10 + elapsed.as_millis() as u64 / 20;
    assert!(others <= rare, "other threads {others} times in {LOCKS} locks and {elapsed:?}");
}

#[test]
fn a_runtime_without_drivers_calls_no_panic_hook() {
    alone("locks_in_runtimes_without_drivers", &[]);
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn locks_in_runtimes_without_drivers() {
    static PANICS: AtomicU32 = AtomicU32::new(0);
    std::panic::set_hook(Box::new(|_| {
        PANICS.fetch_add(1, Ordering::SeqCst);
    }));
    let server = RedisServer::start();
    for workers in [0, 1, 2] {
        for (io, time) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut builder = match workers {
                0 => Builder::new_current_thread(),
                _ => Builder::new_multi_thread(),
            };
            if io {
                builder.enable_io();
            }
            if time {
                builder.enable_time();
            }
            let runtime = builder.worker_threads(workers.max(1)).build().unwrap();
            let task = async {
                let locks = LockManager::connect(server.url()).await.unwrap();
                let guard = locks.lock("k").acquire().await.unwrap();
                assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
                locks.shutdown(Duration::from_secs(10)).await.unwrap();
            };
            runtime.block_on(task);
        }
    }
    assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    assert!(std::thread::spawn(|| panic!("to the hook of the program")).join().is_err());
    assert_eq!(PANICS.load(Ordering::SeqCst), 1, "it is in its place");
}

#[test]
fn without_an_address_nothing_is_locked_in_silence() {
    alone("a_call_is_not_configured", &[]);
    alone("a_call_is_not_configured", &[("REDIS_URL", "")]);
    alone("a_call_has_a_bad_address", &[("REDIS_URL", "nonsense")]);
}

#[tokio::test]
#[ignore = "run by the tests above, in a process of its own"]
async fn a_call_reaches_the_server() {
    assert_eq!(one_at_a_time("k").await, Ok(0));
}

#[tokio::test]
#[ignore = "run by the tests above, in a process of its own"]
async fn a_call_is_not_configured() {
    assert_eq!(one_at_a_time("k").await, Err(LockError::NotConfigured));
}

#[tokio::test]
#[ignore = "run by the tests above, in a process of its own"]
async fn a_call_has_a_bad_address() {
    let outcome = one_at_a_time("k").await;
    assert!(matches!(outcome, Err(LockError::InvalidUrl { .. })), "{outcome:?}");
}
