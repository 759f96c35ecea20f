//! Several real processes and one key: how long a killed, frozen or busy process delays the others.

use std::cell::Cell;
use std::env;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::pin;
use std::process::exit;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use kit::{
    Job, LIMIT, Line, RedisServer, SECOND, Worker, between, connect_to, eventually, listen, now, say, within,
};
use redlocked::{LockError, LockManager, LockRequest, ReleaseOutcome};

const MILLIS: u64 = 1000;
const MINUTE: u64 = 60 * MILLIS;

/// How many a caller allows inside together: itself alone, or any number, or so many.
const ALONE: u64 = 1;
const SHARED: u64 = 0;

fn request(locks: &LockManager, allows: u64) -> LockRequest {
    let request = locks.lock("k").wait(LIMIT);
    if allows == SHARED { request.shared() } else { request.permits(u32::try_from(allows).unwrap()) }
}

/// Prints a figure to stderr.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn in_ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

// The worker processes ----------------------------------------------------------------------------

#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (command, commands) = channel();
    listen(move |line| drop(command.send(line)), || exit(0));
    // A lock that is left free for clients of another kind is had by the next caller, in turn or
    // not.
    let fair = job.task == "greedy";
    let locks = LockManager::builder(&job.url).foreign_clients(!fair).connect_blocking().unwrap();
    say("ready", &[]);
    match job.task.as_str() {
        "obedient" => obedient(&locks, &commands, Duration::from_millis(job.numbers[0]), job.numbers[1]),
        "greedy" => greedy(&locks, &commands, job.numbers[1]),
        "patient" => patient(&locks, commands, Duration::from_millis(job.numbers[0])),
        "blocking" => blocking(&locks, &commands, Duration::from_millis(job.numbers[0])),
        other => panic!("no task is called {other}"),
    }
}

/// Takes and releases the lock when told.
fn obedient(locks: &LockManager, commands: &Receiver<String>, ttl: Duration, allows: u64) {
    while commands.recv().unwrap() == "take" {
        let guard = request(locks, allows).ttl(ttl).acquire_blocking().unwrap();
        let entered = now();
        assert!(guard.is_held(), "no caller enters on an expired grant");
        say("entered", &[entered, guard.fencing_token()]);
        assert_eq!(commands.recv().unwrap(), "give");
        let left = now();
        say("left", &[left, u64::from(guard.release_blocking().unwrap() == ReleaseOutcome::Released)]);
    }
}

/// Takes the lock in a loop, for a moment each time.
fn greedy(locks: &LockManager, commands: &Receiver<String>, allows: u64) {
    commands.recv().unwrap();
    loop {
        let guard = request(locks, allows).acquire_blocking().unwrap();
        say("entered", &[now(), guard.fencing_token()]);
        thread::sleep(Duration::from_millis(1));
        drop(guard);
    }
}

/// Holds the lock until the test sends a word.
fn patient(locks: &LockManager, commands: Receiver<String>, ttl: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (word, mut words) = tokio::sync::mpsc::unbounded_channel();
    thread::spawn(move || commands.into_iter().for_each(|line| drop(word.send(line))));
    loop {
        let (inside, mut told) = (Cell::new(false), false);
        let mut call = pin!(locks.lock("k").ttl(ttl).wait(LIMIT).run_value(async |_| {
            inside.set(true);
            words.recv().await.unwrap();
            say("polled", &[]);
        }));
        let outcome = runtime.block_on(poll_fn(|cx| {
            let outcome = call.as_mut().poll(cx);
            // Reported only here, outside any poll of the body.
            if inside.get() && !std::mem::replace(&mut told, inside.get()) {
                say("inside", &[]);
            }
            outcome
        }));
        match outcome {
            Ok(()) => say("done", &[]),
            Err(LockError::Lost { .. }) => say("lost", &[]),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Blocks its only thread while it holds the lock.
fn blocking(locks: &LockManager, commands: &Receiver<String>, ttl: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(locks.lock("k").ttl(ttl).run_value(async |guard| {
        say("inside", &[now()]);
        thread::sleep(5 * ttl);
        say("outside", &[now(), u64::from(guard.is_held())]);
    }));
    outcome.unwrap();
    say("done", &[]);
    let _ = commands.recv();
}

// The test ----------------------------------------------------------------------------------------

fn start(server: &RedisServer, task: &str, ttl: u64) -> Worker {
    start_of_kind(server, task, ttl, ALONE)
}

fn start_of_kind(server: &RedisServer, task: &str, ttl: u64, allows: u64) -> Worker {
    let worker = Worker::start("processes::worker", task, &server.url(), &[ttl, allows]);
    worker.says("ready");
    worker
}

fn waiters(server: &RedisServer) -> usize {
    server.run("ZCARD lock:k%queue")
}

/// A worker that is in the queue on the server when this returns.
fn queued(server: &RedisServer, ttl: u64) -> Worker {
    queued_of_kind(server, ttl, ALONE)
}

fn queued_of_kind(server: &RedisServer, ttl: u64, allows: u64) -> Worker {
    let before = waiters(server);
    let mut worker = start_of_kind(server, "obedient", ttl, allows);
    worker.tell("take");
    eventually("the waiter is queued", || waiters(server) == before + 1);
    worker
}

/// When the worker entered, and its fencing token.
#[track_caller]
fn entered(worker: &Worker) -> (u64, u64) {
    let numbers = worker.says("entered");
    (numbers[0], numbers[1])
}

/// Tells the worker to leave; it must still hold the lock. Returns when it left.
#[track_caller]
fn leaves(worker: &mut Worker) -> u64 {
    worker.tell("give");
    let numbers = worker.says("left");
    assert_eq!(numbers[1], 1, "the worker held the lock to the end");
    numbers[0]
}

/// The number of managers that listen to their inbox.
fn listeners(server: &RedisServer) -> usize {
    server.run::<Vec<String>>("PUBSUB CHANNELS lock:%inbox:*").len()
}

#[test]
fn a_killed_holder_is_followed_when_its_ttl_has_passed() {
    const TTL: u64 = 3000;
    /// The key of a lock that is waited for outlasts its lease by a grace of 100 ms, in which its
    /// waiters take it.
    const GRACE: Duration = Duration::from_millis(110);
    let server = RedisServer::start();
    let mut holder = start(&server, "obedient", TTL);
    holder.tell("take");
    let (_, mut fence) = entered(&holder);
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        // The next worker gets the lock when the key expires, and is killed in turn while it holds
        // it.
        let next = queued(&server, TTL);
        eventually("the holder has the lock for its ttl", || server.run::<u64>("PTTL lock:k") > TTL / 2);
        let killed = now();
        holder.kill();
        // Nobody renews it any more.
        let asked = now();
        let left = Duration::from_millis(server.run("PTTL lock:k"));
        let (at, next_fence) = entered(&next);
        let after = between(killed, at);
        report(&format!("next holder {} after kill -9 of the holder; ttl {TTL} ms", in_ms(after)));
        let lease = left.saturating_sub(GRACE);
        assert!(between(asked, at) >= lease, "the lease outlives its holder: {after:?}, {left:?} were left");
        assert!(next_fence > fence);
        quickest = quickest.min(after);
        (holder, fence) = (next, next_fence);
    }
    // The quickest of three attempts, because the machine may be busy.
    assert!(
        quickest <= Duration::from_millis(TTL) + SECOND,
        "the next worker waits at most for the ttl: {quickest:?}"
    );
}

#[test]
fn a_killed_waiter_costs_the_others_neither_its_claim_nor_its_ttl() {
    let server = RedisServer::start();
    for _ in 0..3 {
        let mut holder = start(&server, "obedient", MINUTE);
        holder.tell("take");
        entered(&holder);
        let mut head = queued(&server, MINUTE);
        let mut second = queued(&server, MINUTE);
        let mut third = queued(&server, MINUTE);
        assert_eq!(listeners(&server), 4);
        head.kill();
        eventually("the server has noticed", || listeners(&server) == 3);
        assert_eq!(waiters(&server), 3, "its place is still there");
        let released = leaves(&mut holder);
        let (at, _) = entered(&second);
        let after = between(released, at);
        report(&format!("next holder {} after the release; the head waiter was killed", in_ms(after)));
        assert!(after < SECOND, "neither a claim nor a ttl delays the next holder: {after:?}");
        leaves(&mut second);
        entered(&third);
        leaves(&mut third);
        for worker in [&mut holder, &mut second, &mut third] {
            worker.dismiss();
            worker.ends();
        }
        eventually("no manager listens, no key is left", || {
            listeners(&server) == 0 && server.keys().is_empty()
        });
    }
}

#[test]
fn a_frozen_waiter_costs_the_others_one_claim_and_does_not_enter_on_its_old_grant() {
    let server = RedisServer::start();
    let mut holder = start(&server, "obedient", MINUTE);
    holder.tell("take");
    entered(&holder);
    let mut frozen = queued(&server, MINUTE);
    let mut next = queued(&server, MINUTE);
    frozen.freeze();
    let released = leaves(&mut holder);
    let (next_entered, next_fence) = entered(&next);
    let after = between(released, next_entered);
    report(&format!(
        "next holder {} after the release; the head waiter was stopped; claim 1 s",
        in_ms(after)
    ));
    assert!(after >= SECOND / 2, "the head of the queue had its claim: {after:?}");
    assert!(after < 10 * SECOND, "one claim, not one ttl, delays the next holder: {after:?}");
    // The thawed worker reads its old grant first. It queues again instead of entering.
    frozen.thaw();
    eventually("the thawed worker is queued again", || waiters(&server) == 1);
    assert!(frozen.said().is_empty(), "the thawed worker does not enter beside the holder");
    let next_left = leaves(&mut next);
    let (at, fence) = entered(&frozen);
    assert!(at >= next_left && fence > next_fence, "{at} {next_left}, {fence} {next_fence}");
    leaves(&mut frozen);
}

#[test]
fn the_body_of_a_holder_that_was_frozen_past_its_lease_is_not_polled_again() {
    let server = RedisServer::start();
    let mut holder = start(&server, "patient", 500);
    holder.says("inside");
    // Without a fault, the word reaches the body.
    holder.tell("word");
    holder.says("polled");
    holder.says("done");
    holder.says("inside");
    holder.freeze();
    // The word makes the body ready while the process is frozen, so a late poll would run it.
    holder.tell("word");
    let mut other = start(&server, "obedient", MINUTE);
    other.tell("take");
    entered(&other);
    assert!(holder.said().is_empty(), "the holder is frozen");
    holder.thaw();
    holder.says("lost");
    assert!(holder.said().is_empty());
    leaves(&mut other);
    // The worker's next body reads the word.
    holder.says("polled");
}

#[test]
fn a_holder_that_blocks_its_runtime_keeps_its_lock() {
    let server = RedisServer::start();
    let locks = connect_to(&server.url());
    let holder = start(&server, "blocking", MILLIS);
    let inside = holder.says("inside")[0];
    let mut refused = 0;
    let free_from = loop {
        let asked = now();
        match locks.lock("k").acquire_blocking() {
            Ok(_) => break now(),
            Err(LockError::Busy { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(between(inside, asked) < LIMIT, "the holder never leaves");
        thread::sleep(Duration::from_millis(5));
    };
    let outside = holder.says("outside");
    report(&format!("{refused} times busy while the holder slept for {:.1?}", between(inside, outside[0])));
    assert!(outside[0] <= free_from, "free {:?} too soon", between(free_from, outside[0]));
    assert_eq!(outside[1], 1, "the holder knows that it holds the lock");
    assert!(refused > 10, "{refused}");
    holder.says("done");
}

#[test]
fn processes_are_served_in_the_order_of_their_arrival() {
    let server = RedisServer::start();
    let mut holder = start(&server, "obedient", MINUTE);
    holder.tell("take");
    let (_, mut fence) = entered(&holder);
    let line: Vec<Worker> = (0..10).map(|_| queued(&server, MINUTE)).collect();
    let mut left = leaves(&mut holder);
    for mut worker in line {
        let (at, next_fence) = entered(&worker);
        assert!(at >= left && next_fence > fence);
        assert!(between(left, at) < SECOND, "the grant went to another first");
        fence = next_fence;
        left = leaves(&mut worker);
    }
    eventually("no key is left", || server.keys().is_empty());
}

/// Those enter together who stand behind one another and allow it, and nobody before them.
#[test]
fn processes_of_all_kinds_are_served_in_the_order_of_their_arrival() {
    const TOGETHER: [&[u64]; 7] =
        [&[SHARED, SHARED, 3], &[ALONE], &[2, SHARED], &[ALONE], &[ALONE], &[SHARED; 4], &[ALONE]];
    let server = RedisServer::start();
    let mut holder = start(&server, "obedient", MINUTE);
    holder.tell("take");
    let (_, mut fence) = entered(&holder);
    let mut line: Vec<Vec<Worker>> = TOGETHER
        .iter()
        .map(|kinds| kinds.iter().map(|allows| queued_of_kind(&server, MINUTE, *allows)).collect())
        .collect();
    let mut left = leaves(&mut holder);
    while !line.is_empty() {
        let mut inside = line.remove(0);
        let entries: Vec<_> = inside.iter().map(entered).collect();
        for &(at, next_fence) in &entries {
            assert!(at >= left && between(left, at) < SECOND, "another one was first");
            assert!(next_fence > fence && next_fence == entries[0].1, "{entries:?} after {fence}");
        }
        fence = entries[0].1;
        for worker in &mut inside {
            assert!(line.iter().flatten().all(|worker| worker.said().is_empty()), "it is not their turn");
            left = leaves(worker);
        }
    }
    eventually("no key is left", || server.keys().is_empty());
}

/// A number from the environment, for longer runs by hand.
fn setting(name: &str, default: u32) -> u32 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// `FAIRNESS_PROCESSES` and `FAIRNESS_SECONDS` set the size and the least length.
#[test]
fn no_process_gets_more_than_its_share() {
    all_have_the_same_share(setting("FAIRNESS_PROCESSES", 20), &[ALONE]);
}

/// Readers, callers that must be alone, and those with permits wait in one queue.
#[test]
fn no_process_of_any_kind_gets_more_than_its_share() {
    all_have_the_same_share(setting("FAIRNESS_PROCESSES", 50), &[SHARED, ALONE, 5, SHARED, 3]);
}

/// So many of each process are enough to compare them.
const TURNS: usize = 20;

/// Processes of these kinds, one after the other.
fn all_have_the_same_share(processes: u32, kinds: &[u64]) {
    let lasts = SECOND * setting("FAIRNESS_SECONDS", 3);
    let server = RedisServer::start();
    let kinds = kinds.iter().cycle().take(processes as usize);
    let mut workers: Vec<Worker> = kinds.map(|allows| start_of_kind(&server, "greedy", 0, *allows)).collect();
    for worker in &mut workers {
        worker.tell("go");
    }
    // Counted from the moment when all workers compete.
    let mut entries: Vec<Vec<(u64, u64)>> = workers.iter().map(|worker| vec![entered(worker)]).collect();
    let from = now();
    let turns = |lines: Vec<Line>| lines.into_iter().map(|line| (line.numbers[0], line.numbers[1]));
    within(3 * LIMIT, "all have had their turns, on a busy machine, too", || {
        for (worker, entries) in workers.iter().zip(&mut entries) {
            entries.extend(turns(worker.said()));
        }
        let all: usize = entries.iter().map(Vec::len).sum();
        between(from, now()) >= lasts && all > (TURNS + 1) * workers.len()
    });
    let to = now();
    for (worker, entries) in workers.iter_mut().zip(&mut entries) {
        worker.kill();
        entries.extend(turns(worker.last_words()));
        entries.retain(|(at, _)| (from..to).contains(at));
    }
    let counts: Vec<u32> = entries.iter().map(|entries| u32::try_from(entries.len()).unwrap()).collect();
    let mean = f64::from(counts.iter().sum::<u32>()) / f64::from(processes);
    let (fewest, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    report(&format!("{processes} processes, {lasts:?}: {fewest} to {most} acquisitions, mean {mean:.1}"));
    // The end of the run may cut off one turn. And a process that gets no processor between two turns, on
    // a machine that is busy, does not stand in the queue when the next one comes.
    let margin = (mean * 0.05).max(4.0);
    assert!(f64::from(*most) <= mean + margin && f64::from(*fewest) >= mean - margin, "{counts:?}");
    // Grants go round: ordered by fencing token, and those of one phase by time, no process gets a
    // second turn before the others have had one.
    let mut grants: Vec<((u64, u64), usize)> = Vec::new();
    for (number, entries) in entries.iter().enumerate() {
        assert!(entries.is_sorted_by_key(|(_, fence)| *fence), "its own fencing tokens grow with the time");
        grants.extend(entries.iter().map(|&(at, fence)| ((fence, at), number)));
    }
    grants.sort_unstable();
    let round = usize::try_from(processes).unwrap() - 1;
    let in_turn = grants.windows(round.max(1)).filter(|window| {
        let latest = window[window.len() - 1].1;
        window[..window.len() - 1].iter().all(|&(_, number)| number != latest)
    });
    let (in_turn, all) = (in_turn.count(), grants.len() + 1 - round);
    report(&format!("{in_turn} of {all} grants in turn"));
    assert!(in_turn * 2 > all, "{in_turn} of {all} grants in turn");
}

/// How long the last waiter of a queue waits when the waiter before it, `in_front` places behind
/// the holder, gets stuck or dies: one claim (1 s), or one ttl. The waiters before them take no
/// time.
fn last_of_a_line(in_front: usize, ttl: u64, kill: bool) -> Duration {
    let server = RedisServer::start();
    let mut holder = start(&server, "obedient", MINUTE);
    holder.tell("take");
    entered(&holder);
    let mut front: Vec<Worker> = (0..in_front).map(|_| queued(&server, MINUTE)).collect();
    let mut stuck = queued(&server, ttl);
    let last = queued(&server, MINUTE);
    if !kill {
        stuck.freeze();
    }
    let mut left = leaves(&mut holder);
    for worker in &mut front {
        entered(worker);
        left = leaves(worker);
    }
    if kill {
        entered(&stuck);
        left = now();
        stuck.kill();
    }
    between(left, entered(&last).0)
}

#[test]
fn a_stuck_or_killed_one_costs_the_last_of_a_line_no_more_than_its_claim_or_ttl() {
    // Waiters in front, ttl, killed; and the longest wait of the last one, with half a second for a
    // slow machine.
    for (in_front, ttl, kill, most) in
        [(0, 200, true, 700), (12, MINUTE, false, 1500), (12, 1000, true, 1500)]
    {
        let waited = last_of_a_line(in_front, ttl, kill);
        report(&format!(
            "last waiter: {} with {in_front} in front, ttl {ttl} ms, killed: {kill}",
            in_ms(waited)
        ));
        assert!(waited <= Duration::from_millis(most), "{waited:?} with {in_front} in front, ttl {ttl} ms");
    }
}
