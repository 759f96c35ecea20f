//! What a body leaves that does not end.

use std::cell::Cell;
use std::process::exit;
use std::sync::mpsc::channel;

use kit::{
    Job, LIMIT, Proxy, RedisServer, SECOND, Worker, connect, connect_to, eventually, listen, runtime, say,
};
use redlocked::inspect::LockInfo;
use redlocked::once::{OnInterrupted, Once};
use redlocked::{LockError, LockManager, OnLost};
use tokio::sync::Notify;

use crate::{DAY, until};

/// Runs a body once, with a lease of two seconds. The body ends when the test says so, or never.
#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, commands) = channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    let locks = connect_to(&job.url);
    let request = locks.lock("k").label("charge").ttl(2 * SECOND).wait(LIMIT).once(DAY);
    say("asks", &[]);
    let done = request.run_blocking(|_guard| {
        say("runs", &[]);
        let _ = commands.recv();
        Ok::<_, LockError>(job.numbers[0])
    });
    say("done", &[done.unwrap().into_inner()]);
    let _ = commands.recv();
}

fn start(server: &RedisServer, value: u64) -> Worker {
    start_at(&server.url(), value)
}

fn start_at(url: &str, value: u64) -> Worker {
    let worker = Worker::start("interrupted::worker", "runner", url, &[value]);
    worker.says("asks");
    worker
}

/// A server that knows the scripts, and a proxy in front of it: what is stopped there and passes when
/// its process is gone is executed, and not refused as `NOSCRIPT`.
fn behind_a_proxy() -> (RedisServer, LockManager, Proxy) {
    let server = RedisServer::start();
    let (locks, proxy) = (connect(&server), Proxy::to(server.port()));
    let before = locks.lock("before").once(SECOND).run_blocking(|_guard| Ok::<u64, LockError>(0));
    assert_eq!(before, Ok(Once::Ran(0)));
    (server, locks, proxy)
}

fn next(locks: &LockManager, policy: OnInterrupted) -> Result<Once<u64>, LockError> {
    let request = locks.lock("k").wait(LIMIT).once(DAY).on_interrupted(policy);
    request.run_blocking(|_guard| Ok(2))
}

#[test]
fn a_body_whose_process_is_killed_runs_again() {
    let server = RedisServer::start();
    let mut worker = start(&server, 1);
    worker.says("runs");
    worker.kill();
    let locks = connect(&server);
    assert_eq!(next(&locks, OnInterrupted::Rerun), Ok(Once::Ran(2)));
    assert_eq!(next(&locks, OnInterrupted::Rerun), Ok(Once::Replayed(2)));
}

#[test]
fn or_is_an_error_for_everybody_until_an_operator_clears_it() {
    let server = RedisServer::start();
    let mut worker = start(&server, 1);
    worker.says("runs");
    // Alive, it is not mistaken for interrupted.
    let locks = connect(&server);
    let busy = locks.lock("k").once(DAY).on_interrupted(OnInterrupted::Error);
    let busy = busy.run_blocking(|_guard| Ok::<u64, LockError>(2));
    assert!(busy.is_err_and(|error| error.is_busy()));
    let pid = server_side_owner(&locks);
    worker.kill();
    for _ in 0..2 {
        let error = next(&locks, OnInterrupted::Error).unwrap_err();
        let LockError::Interrupted { by, since, .. } = &error else { panic!("{error:?}") };
        assert_eq!((by.name(), by.function()), (Some(&*pid), Some("charge")));
        assert!(since.elapsed().is_ok_and(|ago| ago < LIMIT));
        assert!(error.to_string().contains("redlocked once clear k"), "{error}");
    }
    eventually("the lock is free", || locks.inspect_blocking("k").unwrap().is_none());
    assert!(locks.clear_once_blocking("k").unwrap());
    assert_eq!(next(&locks, OnInterrupted::Error), Ok(Once::Ran(2)));
}

fn server_side_owner(locks: &LockManager) -> String {
    locks.inspect_blocking("k").unwrap().unwrap().holder().name().unwrap().to_owned()
}

#[test]
fn a_waiter_that_is_killed_leaves_nothing() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let mut runner = start(&server, 1);
    runner.says("runs");
    let mut waiter = start(&server, 3);
    eventually("it waits", || locks.inspect_blocking("k").unwrap().is_some_and(|info| info.waiters() == 1));
    waiter.kill();
    runner.tell("end");
    assert_eq!(runner.says("done"), [1]);
    assert_eq!(next(&locks, OnInterrupted::Error), Ok(Once::Replayed(1)));
}

/// The lock was granted to it by a push, which it has not read: it has written no record.
#[test]
fn a_process_that_is_killed_when_the_lock_is_its_own_has_interrupted_nothing() {
    let (_server, locks, proxy) = behind_a_proxy();
    let held = locks.lock("k").acquire_blocking().unwrap();
    let mut waiter = start_at(&proxy.url(), 1);
    let is_so =
        |so: fn(&LockInfo) -> bool| locks.inspect_blocking("k").unwrap().is_some_and(|info| so(&info));
    eventually("it waits", || is_so(|info| info.waiters() == 1));
    // It asks again from time to time. If such a request arrived now, its record would be written.
    proxy.stop_at("once");
    eventually("it asks again", || proxy.has_stopped());
    proxy.hold_replies(true);
    held.release_blocking().unwrap();
    eventually("it has the lock", || is_so(|info| info.waiters() == 0));
    waiter.kill();
    assert_eq!(locks.once_record_blocking("k"), Ok(None));
    assert_eq!(next(&locks, OnInterrupted::Error), Ok(Once::Ran(2)));
}

/// The server has granted the lock and written that the body has begun. Nobody can tell that it has
/// not.
#[test]
fn a_process_that_is_killed_before_it_hears_that_its_body_may_begin_was_interrupted() {
    let (_server, locks, proxy) = behind_a_proxy();
    proxy.stop_at("once");
    let mut runner = start_at(&proxy.url(), 1);
    eventually("it asks", || proxy.has_stopped());
    proxy.hold_replies(true);
    proxy.let_pass();
    eventually("it has the lock", || locks.once_record_blocking("k").unwrap().is_some());
    runner.kill();
    let error = next(&locks, OnInterrupted::Error);
    assert!(matches!(error, Err(LockError::Interrupted { .. })), "{error:?}");
    assert_eq!(next(&locks, OnInterrupted::Rerun), Ok(Once::Ran(2)));
}

/// Kills a process whose body has ended and whose result is under way, and looks what the next caller
/// makes of it. The result arrives later, and is stored no more.
fn is_killed_in_front_of_its_record(policy: OnInterrupted, is_so: fn(Result<Once<u64>, LockError>) -> bool) {
    let (server, locks, proxy) = behind_a_proxy();
    let mut runner = start_at(&proxy.url(), 1);
    runner.says("runs");
    proxy.stop_at("done");
    runner.tell("end");
    eventually("its body has ended", || proxy.has_stopped());
    // What the server says to a client that is gone would end its connection here.
    proxy.hold_replies(true);
    runner.kill();
    assert!(locks.once_record_blocking("k").unwrap().is_some_and(|known| !known.is_done()));
    let heard = next(&locks, policy);
    assert!(is_so(heard.clone()), "{policy:?}: {heard:?}");
    eventually("the lock is free", || locks.inspect_blocking("k").unwrap().is_none());
    let (known, executed) = (locks.once_record_blocking("k"), server.client_commands());
    proxy.let_pass();
    eventually("its result arrives", || server.client_commands() > executed);
    assert_eq!(locks.once_record_blocking("k"), known);
}

#[test]
fn a_body_whose_process_is_killed_between_its_end_and_its_record_runs_again() {
    is_killed_in_front_of_its_record(OnInterrupted::Rerun, |heard| heard == Ok(Once::Ran(2)));
}

#[test]
fn or_is_an_error_because_its_effects_may_be_done() {
    is_killed_in_front_of_its_record(OnInterrupted::Error, |heard| {
        matches!(heard, Err(LockError::Interrupted { .. }))
    });
}

#[test]
fn a_process_that_is_killed_before_it_hears_of_its_record_has_stored_the_result() {
    let (_server, locks, proxy) = behind_a_proxy();
    let mut runner = start_at(&proxy.url(), 1);
    runner.says("runs");
    proxy.hold_replies(true);
    runner.tell("end");
    eventually("it is stored", || locks.once_record_blocking("k").unwrap().is_some_and(|it| it.is_done()));
    runner.kill();
    assert_eq!(next(&locks, OnInterrupted::Error), Ok(Once::Replayed(1)));
}

#[test]
fn a_process_that_is_killed_behind_its_body_has_stored_the_result() {
    let server = RedisServer::start();
    let mut runner = start(&server, 1);
    runner.says("runs");
    runner.tell("end");
    assert_eq!(runner.says("done"), [1]);
    runner.kill();
    assert_eq!(next(&connect(&server), OnInterrupted::Error), Ok(Once::Replayed(1)));
}

#[test]
fn a_body_that_is_dropped_was_interrupted() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = connect(&server);
        let began = Notify::new();
        let body = locks.lock("k").once(DAY).run(async |_guard| {
            began.notify_one();
            std::future::pending::<Result<u64, LockError>>().await
        });
        tokio::select! {
            outcome = body => panic!("it runs until it is dropped: {outcome:?}"),
            () = began.notified() => {}
        }
        let request = || locks.lock("k").wait(LIMIT).once(DAY);
        let error = request().on_interrupted(OnInterrupted::Error).run(async |_guard| Ok(2)).await;
        assert!(matches!(error, Err(LockError::Interrupted { .. })), "{error:?}");
        assert_eq!(request().run(async |_guard| Ok::<_, LockError>(2)).await, Ok(Once::Ran(2)));
    });
}

#[test]
fn a_caller_that_leaves_before_its_body_begins_has_interrupted_nothing() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let [first, second] = [connect(&server), connect(&server)];
        let held = first.lock("k").acquire().await.unwrap();
        let request = || second.lock("k").once(DAY).on_interrupted(OnInterrupted::Error);
        // It has a place when its future is dropped.
        let waits = second.lock("k").wait(LIMIT).once(DAY).run(async |_guard| Ok::<_, LockError>(1));
        assert!(tokio::time::timeout(SECOND / 5, waits).await.is_err());
        held.release().await.unwrap();
        assert_eq!(request().run(async |_guard| Ok::<_, LockError>(2)).await, Ok(Once::Ran(2)));
        // Its request is under way.
        second.clear_once("k").await.unwrap();
        for _ in 0..20 {
            let began = Cell::new(false);
            let asks = request().run(async |_guard| {
                began.set(true);
                std::future::pending::<Result<u64, LockError>>().await
            });
            assert!(kit::polled(asks, 1, true).await.is_none());
            if began.get() {
                // The engine, on its own thread, has answered within the first poll.
                second.clear_once("k").await.unwrap();
                continue;
            }
            until("no body has begun", async || {
                first.once_record("k").await.unwrap().is_none() && first.inspect("k").await.unwrap().is_none()
            })
            .await;
        }
    });
}

#[test]
fn a_result_whose_lock_was_lost_is_not_stored() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let [locks, operator] = [connect(&server), connect(&server)];
        for on_lost in [OnLost::Cancel, OnLost::Finish, OnLost::Error] {
            let body = locks.lock("k").on_lost(on_lost).once(DAY).run(async |_guard| {
                operator.force_release("k").await?;
                // What was told may not be known here yet.
                Ok::<_, LockError>(1)
            });
            let error = body.await;
            assert!(matches!(error, Err(LockError::NotStored { .. } | LockError::Lost { .. })), "{error:?}");
            let known = operator.once_record("k").await.unwrap();
            assert!(known.is_some_and(|known| !known.is_done()), "its effects may be done");
        }
        let body = locks.lock("k").ttl(SECOND / 4).wait(LIMIT).renew(false).once(DAY);
        let lost = body.run(async |guard| {
            guard.lost().await;
            Ok::<_, LockError>(1)
        });
        assert!(matches!(lost.await, Err(LockError::Lost { .. })));
        let next = locks.lock("k").wait(LIMIT).once(DAY).run(async |_guard| Ok::<_, LockError>(2)).await;
        assert_eq!(next, Ok(Once::Ran(2)));
    });
}
