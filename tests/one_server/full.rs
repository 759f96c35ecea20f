//! A server that takes no writes for a while, because it is full, cannot save, or has become a
//! replica: what it still does for the locks that are held, and when it does the rest.

use std::fs;
use std::future::poll_fn;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kit::{LIMIT, Quorum, RedisServer, SECOND, connect, eventually, runtime, within};
use redlocked::{LockError, LockKey, LockManager, ReleaseOutcome, distributed_lock};

const MINUTE: Duration = Duration::from_secs(60);

/// It takes no command any more that may need memory.
fn fill(server: &RedisServer) {
    let _: String = server.run("CONFIG SET maxmemory 1");
}

fn empty(server: &RedisServer) {
    let _: String = server.run("CONFIG SET maxmemory 0");
}

fn waiters(server: &RedisServer) -> u32 {
    server.run("ZCARD lock:k%queue")
}

#[track_caller]
fn assert_full<T>(outcome: Result<T, LockError>) {
    let error = outcome.map(drop).unwrap_err();
    assert!(matches!(&error, LockError::Misconfigured { .. }), "{error:?}");
    assert!(error.to_string().contains("OOM command not allowed"), "{error}");
}

/// A caller that draws a fencing token.
fn fenced(locks: &LockManager) -> Result<(), LockError> {
    locks.lock("k").ttl(MINUTE).wait(LIMIT).run_value_blocking(|guard| assert!(guard.fencing_token() > 0))
}

/// One that draws none.
#[distributed_lock(key = "k", ttl = "60s", wait = "20s", manager = locks)]
fn unfenced(locks: &LockManager) -> Result<(), LockError> {
    Ok(())
}

type Call = fn(&LockManager) -> Result<(), LockError>;

/// Holds the lock until it may leave.
type Holder = fn(&LockManager, &Sender<()>, &Receiver<()>) -> Result<(), LockError>;

fn fenced_holder(locks: &LockManager, enters: &Sender<()>, leaves: &Receiver<()>) -> Result<(), LockError> {
    let guard = locks.lock("k").ttl(MINUTE).acquire_blocking()?;
    enters.send(()).unwrap();
    leaves.recv_timeout(LIMIT * 2).unwrap();
    assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    Ok(())
}

#[distributed_lock(key = "k", constant_key, ttl = "60s", manager = locks)]
fn unfenced_holder(locks: &LockManager, enters: &Sender<()>, leaves: &Receiver<()>) -> Result<(), LockError> {
    enters.send(()).unwrap();
    leaves.recv_timeout(LIMIT * 2).unwrap();
    Ok(())
}

/// These wait in this order, each in the process of this number, when the server fills up and the
/// holder, of process 0, leaves. Each is served, and no key is left.
fn serve_on_a_full_server(foreign_clients: bool, holder: Holder, queue: &[(usize, Call)]) {
    let server = RedisServer::start();
    let builder = || LockManager::builder(server.url()).foreign_clients(foreign_clients);
    let managers = [(); 3].map(|()| builder().connect_blocking().unwrap());
    let ((enters, has_entered), (may_leave, leaves)) = (channel(), channel());
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let (enters, leaves) = (enters, leaves);
            holder(&managers[0], &enters, &leaves)
        });
        has_entered.recv().unwrap();
        let mut calls = Vec::new();
        for (place, (process, call)) in (1..).zip(queue) {
            let locks = &managers[*process];
            calls.push(scope.spawn(move || call(locks)));
            eventually("it waits", || waiters(&server) == place);
        }
        fill(&server);
        may_leave.send(()).unwrap();
        assert_eq!(holder.join().unwrap(), Ok(()), "{queue:?}");
        for call in calls {
            assert_eq!(call.join().unwrap(), Ok(()), "{queue:?}");
        }
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_full_server_frees_what_is_released_and_hands_it_over() {
    let queues: [&[(usize, Call)]; 8] = [
        &[],
        &[(1, fenced)],
        &[(1, unfenced)],
        &[(1, fenced), (2, fenced)],
        &[(1, fenced), (1, unfenced), (2, fenced)],
        &[(1, unfenced), (1, unfenced), (1, unfenced), (2, fenced), (1, unfenced)],
        &[(0, fenced)],
        &[(0, unfenced), (1, fenced)],
    ];
    for queue in queues {
        thread::scope(|scope| {
            for holder in [fenced_holder as Holder, unfenced_holder] {
                for foreign_clients in [true, false] {
                    scope.spawn(move || serve_on_a_full_server(foreign_clients, holder, queue));
                }
            }
        });
    }
}

/// No fencing token can be reserved for the callers of the holder's process, and they have no place
/// in the queue: the lock is released, and they hear why they cannot take it.
#[test]
fn a_full_server_reserves_nothing_for_a_cohort() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).cohort(8).connect_blocking().unwrap();
    runtime().block_on(async {
        let request = || locks.lock("k").ttl(MINUTE).wait(LIMIT);
        let guard = request().acquire().await.unwrap();
        let mut calls =
            [0; 3].map(|_| Box::pin(request().run_value(async |_| tokio::task::yield_now().await)));
        for call in &mut calls {
            assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
        }
        fill(&server);
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
        for call in calls {
            assert_full(call.await);
        }
    });
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_full_server_takes_no_lock_and_keeps_those_that_are_held() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let renewed = locks.lock("renewed").ttl(SECOND).acquire_blocking().unwrap();
    let longer = locks.lock("longer").ttl(10 * SECOND).acquire_blocking().unwrap();
    let several = locks.lock_all(["a", "b"]).ttl(MINUTE).acquire_blocking().unwrap();
    let mixed = |shared, permits, alone: &str| {
        [LockKey::shared(shared), LockKey::permits(permits, 3), LockKey::exclusive(alone)]
    };
    let of_kinds = locks.lock_all(mixed("s", "t", "u")).ttl(MINUTE).acquire_blocking().unwrap();
    let kept = locks.lock("kept").ttl(MINUTE).min_hold(3 * SECOND).acquire_blocking().unwrap();
    let taken_away = locks.lock("taken-away").ttl(MINUTE).acquire_blocking().unwrap();
    let waited_for = locks.lock("k").ttl(MINUTE).acquire_blocking().unwrap();
    let waiter = thread::spawn({
        let request = others.lock("k").wait(2 * SECOND);
        move || request.acquire_blocking().map(drop)
    });
    eventually("it waits", || waiters(&server) == 1);
    fill(&server);
    let start = Instant::now();

    assert_full(others.lock("free").acquire_blocking());
    assert_full(others.lock("free").wait(LIMIT).run_value_blocking(|_| ()));
    assert_full(others.lock("k").wait(LIMIT).run_value_blocking(|_| ()));
    assert_full(others.lock_all(["c", "d"]).acquire_blocking());
    assert_full(others.lock_all(mixed("v", "w", "x")).wait(LIMIT).acquire_blocking());
    assert_full(others.lock_all(mixed("x", "w", "v")).acquire_blocking());
    assert_full(unfenced_of(&others, "free"));
    assert!(start.elapsed() < LIMIT, "at once");

    let pttl = |key: &str| server.run::<u64>(&format!("PTTL lock:{key}"));
    longer.extend_blocking(MINUTE).unwrap();
    assert!(pttl("longer") > 50_000);
    longer.extend_blocking(10 * SECOND).unwrap();
    assert!(pttl("longer") <= 10_000);
    assert_eq!(locks.inspect_blocking("k").unwrap().unwrap().waiters(), 1);
    assert!(others.force_release_blocking("taken-away").unwrap().is_some());
    eventually("the holder hears of it", || !taken_away.is_held());
    assert_eq!(several.release_blocking(), Ok(ReleaseOutcome::Released));
    assert_eq!(of_kinds.release_blocking(), Ok(ReleaseOutcome::Released));
    assert_eq!(kept.release_blocking(), Ok(ReleaseOutcome::Kept));
    assert_eq!(server.run::<i32>("EXISTS lock:a lock:b lock:taken-away"), 0);
    assert!(pttl("kept") <= 3_001);
    eventually("the kept one has expired", || server.run::<i32>("EXISTS lock:kept") == 0);

    assert!(matches!(waiter.join().unwrap(), Err(LockError::TimedOut { .. })));
    eventually("its place is gone", || waiters(&server) == 0);
    eventually("a renewal is due for the third time", || start.elapsed() > SECOND);
    assert!(renewed.is_held() && server.run::<i32>("EXISTS lock:renewed") == 1);
    assert_eq!(renewed.release_blocking(), Ok(ReleaseOutcome::Released));
    assert_eq!(waited_for.release_blocking(), Ok(ReleaseOutcome::Released));
    drop(longer);
    eventually("no key is left", || server.keys().is_empty());
    empty(&server);
    others.lock("free").run_value_blocking(|_| ()).unwrap();
}

/// It frees something: readers that wait.
#[test]
fn a_full_server_lets_readers_in_beside_a_writer_that_becomes_one() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let guard = locks.lock("k").ttl(SECOND).acquire_blocking().unwrap();
    let reader = thread::spawn({
        let request = others.lock("k").shared().ttl(MINUTE).wait(LIMIT);
        move || request.acquire_blocking()
    });
    eventually("it waits", || waiters(&server) == 1);
    fill(&server);
    let start = Instant::now();
    guard.downgrade_blocking().unwrap();
    let reader = reader.join().unwrap().unwrap();
    assert_eq!(reader.fencing_token(), guard.fencing_token());
    eventually("renewals are due", || start.elapsed() > 2 * SECOND);
    assert!(guard.is_held() && reader.is_held());
    for guard in [guard, reader] {
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
    }
    eventually("no key is left", || server.keys().iter().all(|key| key.contains("%clock")));
}

#[distributed_lock(key = "{key}", manager = locks)]
fn unfenced_of(locks: &LockManager, key: &str) -> Result<(), LockError> {
    Ok(())
}

#[test]
fn full_nodes_of_a_quorum_keep_what_is_held_and_free_what_is_released() {
    let quorum = Quorum::durable(3);
    let (locks, others) = (quorum.manager(), quorum.manager());
    let renewed = locks.lock("renewed").ttl(SECOND).acquire_blocking().unwrap();
    let taken_away = locks.lock("taken-away").ttl(MINUTE).acquire_blocking().unwrap();
    let kept = locks.lock("kept").ttl(MINUTE).min_hold(2 * SECOND).acquire_blocking().unwrap();
    quorum.servers.iter().for_each(fill);
    let start = Instant::now();
    assert_full(others.lock("free").acquire_blocking());
    assert_eq!(quorum.copies("lock:free"), 0);
    assert!(matches!(others.lock("renewed").acquire_blocking(), Err(LockError::Misconfigured { .. })));
    assert!(others.force_release_blocking("taken-away").unwrap().is_some());
    assert_eq!(quorum.copies("lock:taken-away"), 0);
    assert_eq!(kept.release_blocking(), Ok(ReleaseOutcome::Kept));
    eventually("it has been renewed", || start.elapsed() > 2 * SECOND);
    assert!(renewed.is_held());
    assert_eq!(renewed.release_blocking(), Ok(ReleaseOutcome::Released));
    drop(taken_away);
    quorum.assert_nothing_left();
}

/// It refuses all writes, also those that free, until [`let_it_save`].
fn cannot_save(server: &RedisServer) {
    let (_, directory): (String, String) = server.run("CONFIG GET dir");
    fs::remove_dir_all(&directory).unwrap();
    let _: String = redis::cmd("CONFIG").arg(&["SET", "save", "3600 1"]).query(&mut server.client()).unwrap();
    let _: redis::RedisResult<String> = server.try_run("BGSAVE");
    eventually("the server refuses writes", || {
        server.try_run::<String>("SET a b").is_err_and(|error| error.code() == Some("MISCONF"))
    });
}

fn let_it_save(server: &RedisServer) {
    let _: String = server.run("CONFIG SET stop-writes-on-bgsave-error no");
}

fn make_a_replica(server: &RedisServer) {
    let _: String = server.run("REPLICAOF 127.0.0.1 1");
}

fn make_a_primary(server: &RedisServer) {
    let _: String = server.run("REPLICAOF NO ONE");
}

/// Locks that are held have to end later than this: so long it takes no writes.
#[track_caller]
fn does_it_later(refuses: fn(&RedisServer), is_well: fn(&RedisServer), words: &str) {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let [released, waited_for, leaves, shorter, held, taken_away] =
        ["released", "k", "leaves", "shorter", "held", "taken-away"]
            .map(|key| locks.lock(key).ttl(MINUTE).acquire_blocking().unwrap());
    let kept = locks.lock("kept").ttl(MINUTE).min_hold(SECOND / 10).acquire_blocking().unwrap();
    let wait = |key: &str, wait: Duration| {
        let request = others.lock(key).ttl(MINUTE).wait(wait);
        thread::spawn(move || request.run_value_blocking(|_| ()))
    };
    let waiter = wait("k", LIMIT);
    let second = wait("leaves", SECOND / 2);
    eventually("both wait", || server.run::<i32>("EXISTS lock:k%queue lock:leaves%queue") == 2);
    refuses(&server);

    let is_refused = |outcome: Result<(), LockError>| {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, LockError::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    };
    is_refused(others.lock("free").acquire_blocking().map(drop));
    for guard in [released, waited_for, kept] {
        let outcome = guard.release_blocking();
        assert!(matches!(&outcome, Err(LockError::Unavailable { .. })), "{outcome:?}");
    }
    let outcome = second.join().unwrap();
    assert!(
        matches!(&outcome, Err(LockError::TimedOut { .. } | LockError::Unavailable { .. })),
        "{outcome:?}"
    );
    assert!(others.force_release_blocking("taken-away").is_err());
    assert!(held.is_held() && leaves.is_held() && !waiter.is_finished());

    is_well(&server);
    waiter.join().unwrap().unwrap();
    within(LIMIT, "what was refused is done", || {
        server.run::<i32>("EXISTS lock:released lock:k lock:kept lock:leaves%queue") == 0
    });
    assert!(held.is_held() && taken_away.is_held());
    shorter.extend_blocking(10 * SECOND).unwrap();
    for guard in [held, taken_away, leaves, shorter] {
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
    }
    eventually("no key is left", || server.keys().iter().all(|key| key == "a"));
}

#[test]
fn a_server_that_cannot_save_does_it_later() {
    does_it_later(cannot_save, let_it_save, "MISCONF");
}

#[test]
fn a_server_that_is_a_replica_for_a_while_does_it_later() {
    does_it_later(make_a_replica, make_a_primary, "replica");
}

/// It runs no script any more, and sets no key.
fn forbids_scripts(server: &RedisServer) {
    let _: String = server.run("ACL SETUSER default -eval -evalsha -set");
}

#[distributed_lock(key = "{key}", wait = "100ms", manager = locks)]
fn waits_unfenced(locks: &LockManager, key: &str) -> Result<(), LockError> {
    Ok(())
}

/// Each of these calls fails. Then a shutdown has nothing to release.
#[track_caller]
fn assert_refused_and_owes_nothing(locks: &LockManager, held: &str) {
    for wait in [Duration::ZERO, SECOND / 10] {
        for key in ["free", held] {
            for keys in [&[key][..], &["a", key, "z"], &["a", "b", "c"]] {
                let outcome = locks.lock_all(keys.iter().copied()).wait(wait).acquire_blocking();
                assert!(outcome.is_err(), "{keys:?} with {wait:?}");
            }
            assert!(locks.lock(key).wait(wait).acquire_blocking().is_err(), "{key} with {wait:?}");
        }
    }
    assert!(unfenced_of(locks, "free").is_err() && waits_unfenced(locks, "free").is_err());
    // The first request of a waiter takes a free lock without its queue. Here it finds another one,
    // and the next is refused.
    let _ = waits_unfenced(locks, held);
    assert_eq!(runtime().block_on(locks.shutdown(Duration::ZERO)), Ok(()));
}

#[test]
fn calls_that_were_only_refused_owe_no_release() {
    for refuses in [fill, cannot_save, forbids_scripts] {
        let server = RedisServer::start();
        let (locks, other) = (connect(&server), connect(&server));
        let held = other.lock("held").ttl(MINUTE).acquire_blocking().unwrap();
        refuses(&server);
        assert_refused_and_owes_nothing(&locks, "held");
        drop(held);
    }
    // The refusal of a replica ends the connection.
    for (keys, wait) in [(&["a"][..], 0), (&["a"], 100), (&["a", "b"], 0), (&["a", "b"], 100)] {
        let server = RedisServer::start();
        let locks = connect(&server);
        make_a_replica(&server);
        let request = locks.lock_all(keys.iter().copied()).wait(Duration::from_millis(wait));
        assert!(request.acquire_blocking().is_err());
        assert_eq!(runtime().block_on(locks.shutdown(Duration::ZERO)), Ok(()), "{keys:?} within {wait} ms");
    }
}

#[test]
fn calls_that_the_nodes_of_a_quorum_have_only_refused_owe_no_release() {
    for refuses in [fill, cannot_save, forbids_scripts] {
        let quorum = Quorum::durable(3);
        let (locks, other) = (quorum.manager(), quorum.manager());
        let held = other.lock("held").ttl(MINUTE).acquire_blocking().unwrap();
        quorum.servers.iter().for_each(refuses);
        assert_refused_and_owes_nothing(&locks, "held");
        drop(held);
    }
}
