//! Locks that several callers may have at a time: readers beside a writer, and permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kit::{Job, LIMIT, Proxy, RedisServer, SECOND, Worker, connect, connect_to, eventually, runtime, say};
use redlocked::{LockError, LockGuard, LockManager, ReleaseOutcome};

/// How many are inside, of each kind, and whether that was ever more than allowed.
#[derive(Default)]
struct Inside {
    readers: AtomicU32,
    writers: AtomicU32,
    permits: AtomicU32,
    most_readers: AtomicU32,
}

impl Inside {
    fn check(&self) {
        let [readers, writers, permits] =
            [&self.readers, &self.writers, &self.permits].map(|count| count.load(Ordering::SeqCst));
        assert!(writers == 0 || writers + readers + permits == 1, "{readers} {writers} {permits}");
        assert!(permits == 0 || readers + permits <= 3, "{readers} {permits}");
        self.most_readers.fetch_max(readers, Ordering::SeqCst);
    }
}

#[test]
fn readers_writers_and_permits_of_several_processes_keep_the_rule_and_leave_nothing() {
    let server = RedisServer::start();
    let managers: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    let inside = Arc::new(Inside::default());
    runtime().block_on(async {
        let calls = (0..90).map(|number: usize| {
            let (locks, inside) = (managers[number % 3].clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let request = locks.lock("k").wait(LIMIT);
                    let (request, count) = match number % 5 {
                        0 => (request, &inside.writers),
                        1 => (request.permits(3), &inside.permits),
                        _ => (request.shared(), &inside.readers),
                    };
                    let guard = request.acquire().await.unwrap();
                    count.fetch_add(1, Ordering::SeqCst);
                    inside.check();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    inside.check();
                    count.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
                }
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
    });
    assert!(inside.most_readers.load(Ordering::SeqCst) > 1, "readers are inside together");
    drop(managers);
    server.assert_nothing_left();
}

/// Its manager waits for a permit, and the process dies when it has it.
#[test]
#[ignore = "runs in a worker process"]
fn dies_inside() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let locks = connect_to(&job.url);
    let [permits, min_hold] = [0, 1].map(|at| job.numbers[at]);
    let request = locks.lock("k").permits(u32::try_from(permits).unwrap());
    let guard = request.min_hold(Duration::from_millis(min_hold)).ttl(SECOND).wait(LIMIT).acquire_blocking();
    let _guard = guard.unwrap();
    say("begins", &[]);
    std::process::abort();
}

/// However soon they die: within the claim for which a release lets them in.
#[test]
fn no_more_begin_in_a_min_hold_than_there_are_permits_although_they_die() {
    const MIN_HOLD: Duration = Duration::from_millis(2_500);
    for permits in [1, 2] {
        let server = RedisServer::start();
        let locks = connect(&server);
        let held: Vec<_> =
            (0..permits).map(|_| locks.lock("k").permits(permits).acquire_blocking().unwrap()).collect();
        let numbers = [permits.into(), u64::try_from(MIN_HOLD.as_millis()).unwrap()];
        let begins: Vec<_> = (0..=permits)
            .map(|_| {
                let dies = Worker::start("counted::dies_inside", "dies", &server.url(), &numbers);
                thread::spawn(move || {
                    dies.says("begins");
                    Instant::now()
                })
            })
            .collect();
        eventually("they wait", || server.run::<u32>("ZCARD lock:k%queue") == permits + 1);
        for guard in held {
            guard.release_blocking().unwrap();
        }
        let mut begins: Vec<_> = begins.into_iter().map(|begins| begins.join().unwrap()).collect();
        begins.sort();
        let after = begins[permits as usize] - begins[0];
        // What is read of the first one may be late.
        assert!(after + Duration::from_millis(200) >= MIN_HOLD, "{permits}: {after:?}");
        assert!(after < MIN_HOLD + 8 * SECOND, "its ttl, too: {after:?}");
    }
}

/// Requests for each acquisition, of callers that hold it for no time.
fn requests(server: &RedisServer, callers: u32, permits: u32) -> f64 {
    const ROUNDS: u32 = 3;
    let managers: Vec<_> = (0..2).map(|_| connect(server)).collect();
    let before = runtime().block_on(async {
        for locks in &managers {
            locks.lock("warm up").permits(permits).run_value(async |_| ()).await.unwrap();
        }
        let before = server.client_commands();
        let calls: Vec<_> = (0..callers)
            .map(|number| {
                let locks = managers[number as usize % 2].clone();
                tokio::spawn(async move {
                    for _ in 0..ROUNDS {
                        locks.lock("k").permits(permits).wait(LIMIT).run_value(async |_| ()).await.unwrap();
                    }
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        before
    });
    f64::from((server.client_commands() - before) as u32) / f64::from(callers * ROUNDS)
}

#[test]
fn an_acquisition_takes_two_requests_and_little_more_with_many_waiters() {
    let server = RedisServer::start();
    let alone = requests(&server, 1, 5);
    assert!((1.9..2.1).contains(&alone), "{alone}");
    for callers in [10, 200] {
        let requests = requests(&server, callers, 5);
        assert!(requests <= 3.1, "{callers}: {requests}");
    }
}

#[test]
fn one_release_lets_all_readers_in_front_of_the_next_writer_in() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let writer = locks.lock("k").acquire_blocking().unwrap();
    let queued = |locks: &LockManager, shared: bool, queue: u32| {
        let request = locks.lock("k").wait(LIMIT);
        let request = if shared { request.shared() } else { request };
        let waiter = thread::spawn(move || request.acquire_blocking().unwrap());
        eventually("it waits", || server.run::<u32>("ZCARD lock:k%queue") == queue);
        waiter
    };
    let readers = [queued(&locks, true, 1), queued(&other, true, 2), queued(&locks, true, 3)];
    let next = queued(&other, false, 4);
    let behind = queued(&locks, true, 5);
    drop(writer);
    let readers = readers.map(|reader| reader.join().unwrap());
    let tokens = readers.each_ref().map(LockGuard::fencing_token);
    assert!(tokens[0] == tokens[1] && tokens[1] == tokens[2], "{tokens:?}");
    assert_eq!(server.run::<u32>("ZCARD lock:k%queue%holders"), 3);
    assert!(!next.is_finished() && !behind.is_finished());
    drop(readers);
    let next = next.join().unwrap();
    assert!(next.fencing_token() > tokens[0] && !behind.is_finished());
    drop(next);
    drop(behind.join().unwrap());
    eventually("no key is left", || server.keys().is_empty());
}

#[test]
fn a_holder_that_is_cut_off_costs_its_own_ttl() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let (lost, locks) = (connect_to(&proxy.url()), connect(&server));
    let _dead = lost.lock("k").permits(2).ttl(SECOND).acquire_blocking().unwrap();
    let _lives = locks.lock("k").permits(2).acquire_blocking().unwrap();
    proxy.refuse(true);
    proxy.cut();
    let start = Instant::now();
    let third = locks.lock("k").permits(2).wait(LIMIT).acquire_blocking().unwrap();
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
    drop(third);
}

/// The server tells no client of its own changes, and such a change ends the watch.
#[test]
fn a_holder_hears_of_a_loss_at_once_although_others_of_its_process_have_come_and_gone() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let tracks = || server_tracks(&server);
    let reader = |ttl| locks.lock("k").shared().ttl(ttl);
    let stays = reader(10 * LIMIT).acquire_blocking().unwrap();
    eventually("the server tracks the key", tracks);
    // The key has to last for longer than before.
    reader(20 * LIMIT).run_value_blocking(|_| ()).unwrap();
    eventually("the server tracks the key again", tracks);
    let _: u32 = server.run("DEL lock:k");
    eventually("the loss is known", || !stays.is_held());
}

#[test]
fn readers_learn_of_a_flush_and_of_a_restart_and_keep_what_the_server_has_kept() {
    let mut server = RedisServer::durable();
    let (locks, other) = (connect(&server), connect(&server));
    let readers = |server: &RedisServer| {
        let readers =
            [&locks, &other, &locks].map(|locks| locks.lock("k").shared().acquire_blocking().unwrap());
        eventually("they are watched", || server_tracks(server));
        readers
    };
    let flushed = readers(&server);
    let _: String = server.run("FLUSHALL");
    eventually("all have lost it", || flushed.iter().all(|guard| !guard.is_held()));
    let writer = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    assert!(writer.fencing_token() > flushed[0].fencing_token());
    drop(writer);

    let kept = readers(&server);
    server.kill();
    server.restart();
    let request = other.lock("k").wait(LIMIT);
    let writer = thread::spawn(move || request.acquire_blocking().unwrap());
    eventually("the writer waits", || server.run::<u32>("ZCARD lock:k%queue") == 1);
    for guard in kept {
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released, "the data are there");
    }
    drop(writer.join().unwrap());
    drop((flushed, locks, other));
    server.assert_nothing_left();
}

fn server_tracks(server: &RedisServer) -> bool {
    !server.run::<String>("INFO stats").contains("tracking_total_keys:0")
}

#[test]
fn all_that_are_inside_learn_of_a_loss_and_what_a_stranger_does() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    let guards = [&locks, &other].map(|locks| locks.lock("k").shared().acquire_blocking().unwrap());
    assert!(server.run::<Option<String>>("SET lock:k stranger NX PX 1000").is_none());
    assert!(matches!(locks.lock("k").acquire_blocking(), Err(LockError::Busy { .. })));
    assert!(locks.force_release_blocking("k").unwrap().is_some());
    for guard in guards {
        eventually("the loss is known", || !guard.is_held());
        assert_ne!(guard.release_blocking().ok(), Some(ReleaseOutcome::Released));
    }
    assert!(server.run::<Option<String>>("SET lock:k stranger NX PX 200").is_some());
    drop(locks.lock("k").shared().wait(LIMIT).acquire_blocking().unwrap());
}
