//! The process-wide manager in a test that uses `Testing`: never the server that the environment names. A
//! program that is only built with the feature keeps it.

use std::process::Command;

use kit::{RedisServer, unique};
use redlocked::testing::Testing;
use redlocked::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "stock:{sku}")]
async fn purchase(sku: u32) -> Result<u32, LockError> {
    Ok(sku)
}

fn says_what_to_do(outcome: Result<u32, LockError>) {
    let error = outcome.unwrap_err();
    assert_eq!(error, LockError::NotConfigured);
    for word in ["global_here()", "thread", "set_global", "REDIS_URL"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

/// In a process of its own, because other tests may set the manager of this one.
fn alone(test: &str, server: &RedisServer) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("global::{test}"), "--ignored"]);
    let output = command.env("REDIS_URL", server.url()).env("REDLOCK_URL", server.url()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[test]
fn a_test_that_sets_no_manager_locks_no_server() {
    let server = RedisServer::start();
    for test in ["a_forgotten_manager", "a_spawned_call"] {
        alone(test, &server);
    }
    assert!(server.keys().is_empty());
}

#[test]
fn a_program_without_testing_keeps_the_server_of_its_environment() {
    alone("a_program", &RedisServer::start());
}

#[tokio::test]
#[ignore = "run by `a_program_without_testing_keeps_the_server_of_its_environment`"]
async fn a_program() {
    assert_eq!(purchase(42).await, Ok(42));
    assert!(LockManager::global().unwrap().testing().is_err(), "it is that of a server");
    Testing::ignore_environment();
    says_what_to_do(purchase(42).await);
}

#[tokio::test]
#[ignore = "run by `a_test_that_sets_no_manager_locks_no_server`"]
async fn a_forgotten_manager() {
    Testing::ignore_environment();
    says_what_to_do(purchase(42).await);
    let locks = LockManager::connect(format!("memory://{}", unique("global"))).await.unwrap();
    let global = locks.testing().unwrap().global_here();
    assert_eq!(purchase(42).await, Ok(42));
    assert_eq!(tokio::spawn(purchase(42)).await.unwrap(), Ok(42), "a task on this thread");
    drop(global);
    says_what_to_do(purchase(42).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "run by `a_test_that_sets_no_manager_locks_no_server`"]
async fn a_spawned_call() {
    let locks = LockManager::connect(format!("memory://{}", unique("global"))).await.unwrap();
    let _global = locks.testing().unwrap().global_here();
    says_what_to_do(tokio::spawn(purchase(42)).await.unwrap());
    locks.set_global();
    assert_eq!(tokio::spawn(purchase(42)).await.unwrap(), Ok(42));
}
