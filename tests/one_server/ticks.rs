//! Once per tick: how many commands it costs, what a killed runner leaves, and what several real
//! processes make of it whose timers are shifted.

use std::env;
use std::process::exit;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kit::{
    Job, LIMIT, Line, Proxy, RedisServer, SECOND, Worker, connect, connect_to, eventually, listen, say,
};
use redlocked::{
    LockError, LockErrorKind, LockGuard, LockManager, LockRequest, TickMissed, distributed_lock,
};

/// No test comes near its end.
const YEAR: Duration = Duration::from_secs(366 * 86_400);

fn yearly(locks: &LockManager, missed: TickMissed) -> LockRequest {
    locks.lock("k").tick(YEAR).tick_missed(missed)
}

fn taken(request: LockRequest) -> bool {
    matches!(request.acquire_blocking().map(drop), Err(LockError::TickTaken { .. }))
}

// What it costs -----------------------------------------------------------------------------------

#[test]
fn a_tick_that_is_taken_is_one_command_and_one_that_runs_is_two() {
    for missed in [TickMissed::Skip, TickMissed::Retry] {
        let server = RedisServer::start();
        let (locks, others) = (connect(&server), connect(&server));
        // Loads the scripts into the server.
        for locks in [&locks, &others] {
            let request = || locks.lock("warm").tick(YEAR).tick_missed(missed);
            drop(request().run_value_blocking(|_| ()));
            assert!(taken(request()));
        }
        let start = server.client_commands();
        yearly(&locks, missed).run_value_blocking(|_| ()).unwrap();
        let ran = server.client_commands() - start;
        // Without a native command, a plain lock is released by one script, too.
        assert_eq!(ran, 2, "{missed:?}");
        for _ in 0..10 {
            assert!(taken(yearly(&others, missed)));
        }
        assert_eq!(server.client_commands() - start, ran + 10, "{missed:?}");
        let keys: Vec<_> = server.keys().into_iter().filter(|key| !key.contains("warm")).collect();
        assert_eq!(keys, ["lock:k%queue%tick"]);
    }
}

#[test]
fn a_tick_is_named_by_the_server_and_a_later_nominal_time_is_another_one() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let now = SystemTime::now();
    let at = |time: SystemTime| {
        locks.lock("k").tick_at(time).acquire_blocking().map(|guard| guard.tick().unwrap())
    };
    let whole =
        UNIX_EPOCH + Duration::from_millis(now.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64);
    assert_eq!(at(now).unwrap(), whole);
    assert_eq!(at(now).unwrap_err().kind(), LockErrorKind::TickTaken);
    assert_eq!(at(now - SECOND).unwrap_err().kind(), LockErrorKind::TickTaken, "a later one was run");
    assert_eq!(at(now + SECOND).unwrap(), whole + SECOND);
    let day = 86_400 * SECOND;
    for (time, says) in [(now + 2 * day, "a day ahead"), (now - 8 * day, "so old"), (UNIX_EPOCH, "so old")] {
        let error = at(time).unwrap_err();
        assert!(error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains(says), "{error}");
    }
    let last = locks.last_tick_blocking("k").unwrap().unwrap();
    assert_eq!(last.time(), whole + SECOND);
    assert!(last.by().name().is_some_and(|name| name.ends_with(&format!(":{}", std::process::id()))));
    assert_eq!(locks.last_tick_blocking("other").unwrap(), None);
    // The full multiple before the server's time, or a little behind it.
    let guard = locks.lock("hourly").tick(3600 * SECOND).acquire_blocking().unwrap();
    let tick = guard.tick().unwrap();
    assert_eq!(tick.duration_since(UNIX_EPOCH).unwrap().as_secs() % 3600, 0);
    assert!(tick <= now + 150 * SECOND + LIMIT && tick + 3450 * SECOND >= now, "{tick:?} at {now:?}");
}

// Who runs it -------------------------------------------------------------------------------------

#[test]
fn while_a_tick_runs_it_is_taken_or_busy_as_its_missed_ticks_say() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let guard = yearly(&locks, TickMissed::Skip).acquire_blocking().unwrap();
    let start = Instant::now();
    assert!(taken(yearly(&others, TickMissed::Skip).wait(LIMIT)), "it does not wait for what is over");
    assert!(start.elapsed() < LIMIT / 2, "it waits for a moment: the tick might be given back");
    drop(guard);
    let retried = |locks: &LockManager| locks.lock("retried").tick(YEAR).tick_missed(TickMissed::Retry);
    let guard = retried(&locks).acquire_blocking().unwrap();
    let error = retried(&others).acquire_blocking().map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Busy, "it may fail");
    assert!(error.is_busy());
    drop(guard);
    assert!(!taken(retried(&others)), "a guard that is dropped has not ended well");
    let failed = retried(&others).run_value_blocking(LockGuard::fail_tick);
    failed.unwrap();
    retried(&locks).run_value_blocking(|_| ()).unwrap();
    assert!(taken(retried(&others)));
}

#[test]
fn an_err_of_a_body_by_hand_gives_a_retried_tick_back() {
    let server = RedisServer::start();
    let locks = connect(&server);
    for (missed, is_over) in [(TickMissed::Skip, true), (TickMissed::Retry, false)] {
        let ways: [fn(LockRequest) -> Result<(), LockError>; 3] = [
            |request| request.run_blocking(|_| Err(LockError::NotConfigured)),
            |request| kit::runtime().block_on(request.run(async |_| Err(LockError::NotConfigured))),
            |request| kit::runtime().block_on(request.run_fn(async |_| Err(LockError::NotConfigured))),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let tick = || locks.lock(format!("{missed:?}:{number}")).tick(YEAR).tick_missed(missed);
            assert_eq!(way(tick()), Err(LockError::NotConfigured));
            assert_eq!(taken(tick()), is_over, "{missed:?}, way {number}");
            if !is_over {
                tick().run_blocking(|_| Ok::<_, LockError>(())).unwrap();
                assert!(taken(tick()), "an `Ok` ends it: way {number}");
            }
        }
        let plain = || locks.lock(format!("{missed:?}:value")).tick(YEAR).tick_missed(missed);
        plain().run_value_blocking(|_| Err::<(), _>("not looked at")).unwrap().unwrap_err();
        assert!(taken(plain()), "a value is the end of a run");
    }
}

#[test]
fn those_who_wait_for_a_runner_hear_that_it_has_ended_well_or_run_the_tick_themselves() {
    for ends_well in [true, false] {
        let server = RedisServer::start();
        let locks = connect(&server);
        let guard = yearly(&locks, TickMissed::Retry).acquire_blocking().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let request = yearly(&connect(&server), TickMissed::Retry).wait(LIMIT);
                thread::spawn(move || request.run_value_blocking(|_| ()).map_err(|error| error.kind()))
            })
            .collect();
        eventually("they wait", || server.run::<usize>("ZCARD lock:k%queue") == 3);
        if !ends_well {
            guard.fail_tick();
        }
        guard.release_blocking().unwrap();
        let outcomes: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        let ran = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(ran, usize::from(!ends_well), "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(LockErrorKind::TickTaken))));
        eventually("nothing else is left", || server.keys() == ["lock:k%queue%tick"]);
    }
}

#[test]
fn a_plain_caller_of_the_key_waits_its_turn_and_runs_no_tick() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server), connect(&server));
    let plain = others.lock("k").acquire_blocking().unwrap();
    let error = yearly(&locks, TickMissed::Skip).acquire_blocking().map(drop).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Busy);
    plain.release_blocking().unwrap();
    let tick = yearly(&locks, TickMissed::Skip).acquire_blocking().unwrap();
    assert_eq!(others.lock("k").acquire_blocking().map(drop).unwrap_err().kind(), LockErrorKind::Busy);
    drop(tick);
    others.lock("k").run_value_blocking(|_| ()).unwrap();
    assert!(taken(yearly(&locks, TickMissed::Skip)));
}

#[test]
fn a_caller_that_is_dropped_before_its_body_begins_gives_the_tick_back() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let is_locked = || server.keys().contains(&"lock:k".to_owned());
    kit::runtime().block_on(async {
        // A busy machine takes its time, and no call ends meanwhile. The test blocks this runtime: a
        // loop that ran in it would move, and connect again.
        let builder = LockManager::builder(proxy.url()).io_timeout(LIMIT).own_thread(true);
        let locks = builder.connect().await.unwrap();
        for _ in 0..20 {
            drop(locks.lock("warm").acquire().await);
            proxy.hold_replies(true);
            let executed = async {
                while !is_locked() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                outcome = yearly(&locks, TickMissed::Skip).acquire() => panic!("the reply is held back: {outcome:?}"),
                () = executed => {}
            }
            while is_locked() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            proxy.hold_replies(false);
        }
    });
    assert!(yearly(&connect(&server), TickMissed::Skip).acquire_blocking().is_ok(), "no body has begun");
}

/// The server has granted it the tick, and its caller has left before it heard of that. The server
/// waits a second for the tick to be given back: a round that took longer proves nothing.
#[test]
fn a_caller_that_waits_just_behind_a_dropped_one_runs_its_tick() {
    const ROUNDS: u32 = 20;
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    kit::runtime().block_on(async {
        // The test blocks this runtime: a loop that ran in it would move, and connect again.
        let builder = LockManager::builder(proxy.url()).io_timeout(LIMIT).own_thread(true);
        let locks = builder.connect().await.unwrap();
        let others = LockManager::connect(server.url()).await.unwrap();
        let mut in_time = 0;
        for number in 0..5 * ROUNDS {
            let key = format!("k{number}");
            drop(locks.lock("warm").acquire().await);
            proxy.hold_replies(true);
            let start = Instant::now();
            let tick = |locks: &LockManager| locks.lock(&key).tick(YEAR).wait(LIMIT).acquire();
            let waits = {
                let is_locked = async {
                    while !server.keys().contains(&format!("lock:{key}")) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                tokio::select! {
                    outcome = tick(&locks) => panic!("the reply is held back: {outcome:?}"),
                    () = is_locked => {}
                }
                tick(&others)
            };
            let outcome = waits.await;
            proxy.hold_replies(false);
            if start.elapsed() < SECOND {
                assert!(outcome.is_ok(), "{outcome:?}");
                in_time += 1;
            }
            if in_time == ROUNDS {
                break;
            }
        }
        assert!(in_time > 0, "no round was in time");
    });
}

#[test]
fn a_record_that_a_leaping_clock_has_left_is_shown_and_cleared() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let day = 86_400 * SECOND;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // As a run has left it whose server was 400 days ahead.
    let record = format!("{}|{:0>22}@host:1/1790000000/m::f|1|1", (now + 400 * day).as_millis(), 1);
    let _: String = server.run(&format!("SET lock:k%queue%tick {record}"));
    let last = locks.last_tick_blocking("k").unwrap().unwrap();
    assert!(last.time() > SystemTime::now() + 399 * day && last.by().function() == Some("m::f"));
    assert!(taken(locks.lock("k").tick(day)));
    assert!(locks.clear_tick_blocking("k").unwrap());
    locks.lock("k").tick(day).run_value_blocking(|_| ()).unwrap();
    assert!(locks.clear_tick_blocking("k").unwrap() && !locks.clear_tick_blocking("k").unwrap());
    assert_eq!(server.keys(), [""; 0]);
}

/// The release comes first: the lock is free, whatever becomes of the record.
#[test]
fn on_a_full_server_a_run_frees_its_lock_and_its_tick_is_over() {
    for missed in [TickMissed::Skip, TickMissed::Retry] {
        let server = RedisServer::start();
        let locks = connect(&server);
        let guard = yearly(&locks, missed).ttl(LIMIT).acquire_blocking().unwrap();
        let _: String = server.run("CONFIG SET maxmemory 1");
        guard.release_blocking().unwrap();
        assert_eq!(server.keys(), ["lock:k%queue%tick"], "{missed:?}");
        assert!(taken(yearly(&locks, missed)), "{missed:?}");
    }
}

#[test]
fn what_nobody_keeps_a_record_for_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let locks = connect(&server);
    let cohort = LockManager::builder(server.url()).cohort(8).connect_blocking().unwrap();
    let hour = || locks.lock("k").tick(3600 * SECOND);
    let start = server.client_commands();
    let cases = [
        (locks.lock("k").tick(Duration::from_millis(999)), "at least 1 s"),
        (locks.lock("k").tick_missed(TickMissed::Retry), "there is none"),
        (hour().tick_at(SystemTime::now()), "leave out one"),
        (hour().shared(), "`shared` or `permits`"),
        (hour().permits(5), "`shared` or `permits`"),
        (hour().min_hold(SECOND), "`min_hold`"),
        (hour().reentrant(true), "`reentrant`"),
        (locks.lock_all(["a", "b"]).tick(3600 * SECOND), "one key"),
        (cohort.lock("k").tick(3600 * SECOND), "`cohort`"),
    ];
    for (request, says) in cases {
        let error = request.acquire_blocking().map(drop).unwrap_err();
        assert!(error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains(says), "{error}");
    }
    let guard = hour().acquire_blocking().unwrap();
    let error = guard.into_ticket_blocking(SECOND).map(drop).unwrap_err();
    assert!(error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("tick"), "{error}");
    assert!(server.client_commands() - start <= 3, "the tick that was run, and its ticket");
}

#[test]
fn a_user_without_pushes_or_queues_runs_each_tick_once_as_well() {
    for rule in ["-publish", "-zadd", "-zrem"] {
        let server = RedisServer::start();
        let user = format!("ACL SETUSER shop on >secret ~* &* +@all {}", server.known_rules(rule));
        let _: String = server.run(&user);
        let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
        let connect = || connect_to(&url);
        let (locks, others) = (connect(), connect());
        for missed in [TickMissed::Skip, TickMissed::Retry] {
            let tick = |locks: &LockManager| {
                locks.lock(format!("{missed:?}")).tick(YEAR).tick_missed(missed).wait(LIMIT)
            };
            let guard = tick(&locks).acquire_blocking().unwrap();
            let other = tick(&others);
            let waits =
                thread::spawn(move || other.acquire_blocking().map(drop).map_err(|error| error.kind()));
            guard.release_blocking().unwrap();
            assert_eq!(waits.join().unwrap(), Err(LockErrorKind::TickTaken), "{rule}, {missed:?}");
            // One that gives it back.
            let key = format!("{missed:?} given back");
            let given_back = |locks: &LockManager| locks.lock(&key).tick(YEAR).tick_missed(missed);
            kit::runtime().block_on(async {
                let locks = LockManager::connect(&url).await.unwrap();
                assert!(kit::polled(given_back(&locks).acquire(), 1, false).await.is_none());
                tokio::task::yield_now().await;
                locks.shutdown(LIMIT).await.unwrap();
            });
            given_back(&others).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
        }
        let left: Vec<_> = server.keys().into_iter().filter(|key| !key.ends_with("%queue%tick")).collect();
        assert_eq!(left, [""; 0], "{rule}");
    }
}

// Annotated functions -----------------------------------------------------------------------------

#[distributed_lock(key = "skipped", constant_key, tick = "366d", on_busy = Ok(false), manager = locks)]
async fn skipped(locks: &LockManager, fails: bool) -> Result<bool, LockError> {
    if fails { Err(LockError::NotConfigured) } else { Ok(true) }
}

#[distributed_lock(key = "retried", constant_key, tick = "366d", tick_missed = "retry", on_busy = Ok(false), manager = locks)]
async fn retried(locks: &LockManager, fails: bool) -> Result<bool, LockError> {
    if fails { Err(LockError::NotConfigured) } else { Ok(true) }
}

type Outcome = Result<bool, LockError>;

#[distributed_lock(key = "sync", constant_key, tick_at = at, tick_missed = "retry", on_busy = Ok(false), guard = lock, manager = locks)]
fn retried_sync(locks: &LockManager, at: SystemTime, fails: bool) -> Outcome {
    assert!(lock.tick().is_some_and(|tick| tick <= at));
    if fails {
        return Err(LockError::NotConfigured);
    }
    Ok(true)
}

#[test]
fn an_err_of_an_annotated_function_ends_its_tick_if_ticks_are_skipped_and_not_if_they_are_retried() {
    let server = RedisServer::start();
    let locks = connect(&server);
    kit::runtime().block_on(async {
        assert!(skipped(&locks, true).await.is_err());
        assert_eq!(skipped(&locks, false).await, Ok(false), "it is over");
        assert!(retried(&locks, true).await.is_err());
        assert_eq!(retried(&locks, false).await, Ok(true), "it is not");
        assert_eq!(retried(&locks, false).await, Ok(false));
    });
    let at = SystemTime::now();
    assert!(retried_sync(&locks, at, true).is_err());
    assert_eq!(retried_sync(&locks, at, false), Ok(true));
    assert_eq!(retried_sync(&locks, at, false), Ok(false));
}

// Several processes -------------------------------------------------------------------------------

/// Runs in a process of its own.
#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, commands) = std::sync::mpsc::channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    let locks = connect_to(&job.url);
    say("ready", &[]);
    match job.task.as_str() {
        "timer" => {
            let first = commands.recv().unwrap().parse().unwrap();
            timer(&locks, job.numbers[0], job.numbers[1], first);
        }
        task => {
            let missed = if task == "skips" { TickMissed::Skip } else { TickMissed::Retry };
            let request = locks.lock("k").tick(YEAR).tick_missed(missed).ttl(SECOND).wait(LIMIT);
            // It is killed in one of these.
            let guard = request.acquire_blocking().unwrap();
            say("inside", &[]);
            let _ = commands.recv();
            guard.release_blocking().unwrap();
            say("released", &[]);
            let _ = commands.recv();
        }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Processes with a timer each. All are connected before the first timer fires: one alone, which fires a
/// little before or behind the begin of a tick, runs some ticks and misses others.
fn timers<const COUNT: usize>(server: &RedisServer, shifts: [u64; COUNT], ticks: u64) -> [Worker; COUNT] {
    let start = |shift| Worker::start("ticks::worker", "timer", &server.url(), &[shift, ticks]);
    let mut workers = shifts.map(start);
    for worker in &workers {
        worker.says("ready");
    }
    let first = since_1970().as_secs() + 2;
    for worker in &mut workers {
        worker.tell(&first.to_string());
    }
    workers
}

/// A timer of one second, which fires `shift` ms beside the full second, for so many ticks. As the
/// clock of this process goes wrong by some ms with each tick, so does its timer.
fn timer(locks: &LockManager, shift: u64, ticks: u64, first: u64) {
    for second in first..first + ticks {
        let off = (second * 7 + shift) % 40;
        let due = Duration::from_secs(second) + Duration::from_millis(shift + off);
        thread::sleep(due.saturating_sub(since_1970()));
        let request = locks.lock("k").tick(SECOND);
        let outcome = request.run_value_blocking(|guard| {
            let tick = guard.tick().unwrap();
            say("ran", &[tick.duration_since(UNIX_EPOCH).unwrap().as_secs()]);
        });
        assert!(outcome.is_ok() || outcome.as_ref().is_err_and(LockError::is_busy), "{outcome:?}");
        if since_1970().saturating_sub(due) > LATE {
            say("late", &[second]);
        }
    }
    say("done", &[]);
}

/// A call that ends so long after its timer was due may have asked in another tick, or have kept
/// out those that asked for theirs: a tick lasts a second, and a quarter of it begins early.
const LATE: Duration = Duration::from_millis(200);

/// Sixty ticks with `TICKS=60`, as `.ci/run` has it.
#[test]
fn three_processes_with_shifted_timers_run_each_tick_once() {
    let ticks: u64 = env::var("TICKS").ok().and_then(|ticks| ticks.parse().ok()).unwrap_or(5);
    let server = RedisServer::start();
    // Behind the full second, near it, and a little before the next one, of which it is a part then.
    let mut workers = timers(&server, [0, 120, 740], ticks);
    let (mut ran, mut late) = (Vec::new(), Vec::new());
    for worker in &mut workers {
        for line in worker.last_words() {
            match line.word.as_str() {
                "ran" => ran.push(line.numbers[0]),
                "late" => late.push(line.numbers[0]),
                _ => {}
            }
        }
        worker.ends();
    }
    ran.sort_unstable();
    let mut once = ran.clone();
    once.dedup();
    assert_eq!(ran, once, "no tick is run twice");
    let is_excused = |tick: u64| late.iter().any(|second| (*second..=second + 2).contains(&tick));
    let missed: Vec<u64> =
        (ran[0]..=ran[ran.len() - 1]).filter(|tick| !ran.contains(tick) && !is_excused(*tick)).collect();
    assert!(missed.is_empty(), "{missed:?} are missed: {ran:?} ran, {late:?} were late");
    assert!(ran.len() + 3 * late.len() >= usize::try_from(ticks).unwrap(), "{ran:?} ran, {late:?} were late");
}

#[test]
fn a_killed_runner_leaves_its_tick_as_its_missed_ticks_say() {
    let server = RedisServer::start();
    for (task, missed) in [("skips", TickMissed::Skip), ("retries", TickMissed::Retry)] {
        let _: String = server.run("FLUSHALL");
        let locks = connect(&server);
        let mut runner = Worker::start("ticks::worker", task, &server.url(), &[]);
        runner.says("ready");
        runner.says("inside");
        runner.kill();
        let next = yearly(&locks, missed).wait(LIMIT).acquire_blocking();
        if missed == TickMissed::Retry {
            next.unwrap().release_blocking().unwrap();
        } else {
            assert_eq!(next.map(drop).unwrap_err().kind(), LockErrorKind::TickTaken);
        }
        assert!(taken(yearly(&locks, missed)));
        // One that is killed behind its end has ended it.
        let _: String = server.run("FLUSHALL");
        let mut runner = Worker::start("ticks::worker", task, &server.url(), &[]);
        runner.says("ready");
        runner.says("inside");
        runner.tell("end");
        runner.says("released");
        runner.kill();
        assert!(taken(yearly(&locks, missed)), "{missed:?}");
    }
}

#[test]
fn a_waiter_that_is_killed_takes_no_tick() {
    let server = RedisServer::start();
    for (task, missed) in [("skips", TickMissed::Skip), ("retries", TickMissed::Retry)] {
        let _: String = server.run("FLUSHALL");
        let locks = connect(&server);
        let plain = locks.lock("k").acquire_blocking().unwrap();
        let mut waiter = Worker::start("ticks::worker", task, &server.url(), &[]);
        waiter.says("ready");
        eventually("it waits", || server.run::<usize>("ZCARD lock:k%queue") == 1);
        waiter.kill();
        plain.release_blocking().unwrap();
        yearly(&locks, missed).wait(LIMIT).run_value_blocking(|_| ()).unwrap();
        assert!(taken(yearly(&locks, missed)));
    }
}

/// The ticks that a process has run.
fn ticks_of(lines: &[Line]) -> Vec<u64> {
    lines.iter().filter(|line| line.word == "ran").map(|line| line.numbers[0]).collect()
}

/// Whichever of them is killed, and in which phase: what it has begun is over.
#[test]
fn processes_that_are_killed_all_the_time_run_no_tick_twice() {
    let ticks: u64 = env::var("TICKS").ok().and_then(|ticks| ticks.parse().ok()).unwrap_or(5);
    let server = RedisServer::start();
    let shifts = [0, 120, 740];
    let mut workers = timers(&server, shifts, 2 * ticks);
    let mut ran = Vec::new();
    let end = |worker: &mut Worker, ran: &mut Vec<u64>| {
        worker.kill();
        ran.extend(ticks_of(&worker.last_words()));
    };
    for round in 0..2 * ticks {
        // In another phase of the second each time.
        thread::sleep(Duration::from_millis(530));
        // A process that was just started has a while.
        if round >= 4 && round % 2 == 0 {
            let which = usize::try_from(round / 2).unwrap() % 3;
            end(&mut workers[which], &mut ran);
            [workers[which]] = timers(&server, [shifts[which]], 2 * ticks);
        }
    }
    // A busy machine takes its time.
    eventually("some are run", || {
        ran.extend(workers.iter().flat_map(|worker| ticks_of(&worker.said())));
        ran.len() as u64 >= ticks / 2
    });
    for worker in &mut workers {
        end(worker, &mut ran);
    }
    ran.sort_unstable();
    let mut once = ran.clone();
    once.dedup();
    assert_eq!(ran, once, "no tick is begun twice");
}
