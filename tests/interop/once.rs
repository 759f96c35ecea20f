//! Bodies that run once, in our processes and in those of the second client: each gets the results of the other.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use kit::{LIMIT, RedisServer, eventually, runtime};
use redlocked::once::{OnInterrupted, Once, OnceRequest};
use redlocked::{LockError, LockManager};
use tokio::sync::Notify;

use super::connect;
use super::peer::{self, Peer};

const DAY: Duration = Duration::from_secs(86_400);

fn once(locks: &LockManager, key: &str, by: &str) -> OnceRequest {
    locks.lock(key).wait(2 * LIMIT).once(DAY).fingerprint(by).on_interrupted(OnInterrupted::Error)
}

fn run(locks: &LockManager, key: &str, by: &str, value: u32) -> Result<Once<u32>, LockError> {
    once(locks, key, by).run_blocking(|_guard| Ok(value))
}

fn waiting(server: &RedisServer, key: &str, count: usize) {
    eventually("they wait", || server.run::<usize>(&format!("ZCARD lock:{key}%queue")) == count);
}

impl Peer {
    /// It asks for a body that runs once, by request `a`, and a value of its own.
    #[track_caller]
    fn asks(&mut self, key: &str, value: u32) {
        self.does(&format!("once {key} a {value}"), "asks");
    }

    #[track_caller]
    fn runs(&mut self, key: &str, value: u32) {
        self.asks(key, value);
        self.expect("runs");
    }
}

#[test]
fn whoever_runs_the_body_all_that_wait_are_told_and_read_its_result() {
    let server = RedisServer::start();
    let peers: Option<Vec<_>> = (0..3).map(|_| peer::second_once(&server)).collect();
    let Some(mut peers) = peers else { return };
    let [locks, others] = [connect(&server), connect(&server)];
    for (key, is_ours) in [("ours", true), ("theirs", false), ("ours again", true), ("theirs again", false)] {
        let key = &*key.replace(' ', "-");
        let [first, second, plain] = &mut peers[..] else { panic!("three were started") };
        thread::scope(|scope| {
            let (go, goes) = channel::<()>();
            let ours = is_ours.then(|| {
                let request = once(&locks, key, "a");
                let runner = scope.spawn(move || {
                    request.run_blocking(|_guard| {
                        let _ = goes.recv();
                        Ok::<_, LockError>(41)
                    })
                });
                eventually("it runs", || locks.once_record_blocking(key).unwrap().is_some());
                runner
            });
            if is_ours {
                first.asks(key, 1);
            } else {
                first.runs(key, 41);
            }
            second.asks(key, 2);
            plain.does(&format!("lock {key}"), "asks");
            let waiters = [&locks, &others, &others].map(|locks| scope.spawn(|| run(locks, key, "a", 3)));
            waiting(&server, key, if is_ours { 6 } else { 5 });
            if let Some(ours) = ours {
                go.send(()).unwrap();
                assert_eq!(ours.join().unwrap(), Ok(Once::Ran(41)));
                first.expect("told 41");
            } else {
                first.does("go", "ran 41");
            }
            second.expect("told 41");
            plain.expect("held");
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Ok(Once::Replayed(41)));
            }
        });
        // Later calls, and those for another request.
        first.asks(key, 4);
        first.expect("read 41");
        first.does(&format!("once {key} b 5"), "asks");
        first.expect("reused");
        first.does(&format!("once {key} - 5"), "asks");
        first.expect("reused");
        assert_eq!(run(&locks, key, "a", 6), Ok(Once::Replayed(41)));
        let reused = run(&others, key, "b", 7);
        assert!(matches!(reused, Err(LockError::KeyReused { .. })), "{reused:?}");
    }
    eventually("only the records are left", || {
        server.keys().iter().all(|key| key.ends_with("%queue%once") || key.ends_with("%clock"))
    });
}

#[test]
fn one_that_is_granted_the_lock_by_a_push_looks_and_runs_where_the_other_has_failed() {
    let server = RedisServer::start();
    let Some(mut second) = peer::second_once(&server) else { return };
    let locks = connect(&server);
    let fails = once(&locks, "k", "a").run_blocking(|_guard| {
        second.asks("k", 2);
        waiting(&server, "k", 1);
        Err::<u32, _>(LockError::NotConfigured)
    });
    assert_eq!(fails, Err(LockError::NotConfigured));
    second.expect("runs");
    second.does("go", "ran 2");
    assert_eq!(run(&locks, "k", "a", 3), Ok(Once::Replayed(2)));
    // One that holds the lock without a body to run.
    let held = locks.lock("other").acquire_blocking().unwrap();
    second.asks("other", 4);
    waiting(&server, "other", 1);
    held.release_blocking().unwrap();
    second.expect("runs");
    second.does("go", "ran 4");
}

#[test]
fn a_body_that_was_interrupted_in_the_one_client_is_known_to_the_other() {
    let server = RedisServer::start();
    let [Some(mut second), Some(mut killed)] = [(); 2].map(|()| peer::second_once(&server)) else { return };
    let locks = connect(&server);
    killed.runs("theirs", 1);
    drop(killed);
    let error = run(&locks, "theirs", "a", 2);
    let Err(LockError::Interrupted { by, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(by.function(), Some("second_client"));

    runtime().block_on(async {
        let begun = Notify::new();
        let body = async |_guard: &_| {
            begun.notify_one();
            std::future::pending::<Result<u32, LockError>>().await
        };
        tokio::select! {
            outcome = once(&locks, "ours", "a").run(body) => panic!("{outcome:?}"),
            () = begun.notified() => {}
        }
    });
    let record: String = server.run("GET lock:ours%queue%once");
    let Some(owner) = record.split('|').nth(4) else { panic!("{record}") };
    second.asks("ours", 3);
    second.expect(&format!("interrupted {owner}"));
    // An operator of the one clears what the other has left.
    for key in ["ours", "theirs"] {
        assert!(locks.clear_once_blocking(key).unwrap());
        second.runs(key, 4);
        second.does("go", "ran 4");
        assert_eq!(run(&locks, key, "a", 5), Ok(Once::Replayed(4)));
    }
}
