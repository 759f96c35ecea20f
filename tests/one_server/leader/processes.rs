//! Candidates in processes of their own: killed, frozen, and told to resign.

use std::process::exit;
use std::time::Duration;

use kit::{Job, Line, RedisServer, SECOND, Worker, between, eventually, listen, now, say};
use redlocked::{LockError, LockManager};

use super::waiting_candidates;

#[test]
#[ignore = "runs in a worker process"]
fn worker() {
    let Some(job) = Job::of_this_process() else {
        return;
    };
    let (word, mut words) = tokio::sync::mpsc::unbounded_channel();
    listen(move |line| drop(word.send(line)), || exit(0));
    let ttl = Duration::from_millis(job.numbers[0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let locks = LockManager::connect(&job.url).await.unwrap();
        let election = locks.election("k").ttl(ttl);
        let mut account = Account::default();
        election
            .lead(async |term| {
                account.begins(term.fencing_token());
                loop {
                    tokio::select! {
                        word = words.recv() => {
                            assert_eq!(word.as_deref(), Some("resign"));
                            term.resign();
                        }
                        () = tokio::time::sleep(SECOND / 1000) => {}
                    }
                    account.polled();
                }
                #[expect(unreachable_code, reason = "the type of the body")]
                Ok::<(), LockError>(())
            })
            .await
            .unwrap();
    });
}

/// When a body was last polled, told when the next one begins, and every 10 ms.
#[derive(Default)]
struct Account {
    term: u64,
    told: u64,
    last: u64,
}

impl Account {
    fn begins(&mut self, term: u64) {
        if self.term > 0 {
            say("polled", &[self.last, self.term]);
        }
        let now = now();
        (self.term, self.told, self.last) = (term, now, now);
        say("leads", &[now, term]);
    }

    fn polled(&mut self) {
        self.last = now();
        if between(self.told, self.last) > SECOND / 100 {
            self.told = self.last;
            say("polled", &[self.last, self.term]);
        }
    }
}

fn start(server: &RedisServer, ttl: u64) -> Worker {
    Worker::start("leader::processes::worker", "candidate", &server.url(), &[ttl])
}

/// Waits until one of these leads a later term than `term`: which, when it began, and its term. On a
/// busy machine, several may have led meanwhile: then this is the last term.
fn next_leader(workers: &[Worker], said: &mut Vec<Line>, term: u64) -> (usize, u64, u64) {
    let mut found: Option<(usize, u64, u64)> = None;
    eventually("one leads", || {
        for (number, worker) in workers.iter().enumerate() {
            for line in worker.said() {
                let latest = found.map_or(term, |(_, _, latest)| latest);
                if line.word == "leads" && line.numbers[1] > latest {
                    found = Some((number, line.numbers[0], line.numbers[1]));
                }
                said.push(line);
            }
        }
        found.is_some()
    });
    found.unwrap()
}

/// No body was polled when a later term had begun.
fn assert_apart(said: &[Line]) {
    let begun: Vec<_> = said.iter().filter(|line| line.word == "leads").collect();
    for polled in said.iter().filter(|line| line.word == "polled") {
        for later in begun.iter().filter(|begun| begun.numbers[1] > polled.numbers[1]) {
            assert!(polled.numbers[0] < later.numbers[0], "{polled:?} when {later:?}");
        }
    }
}

#[test]
fn a_killed_leader_is_followed_when_its_ttl_has_passed() {
    const TTL: u64 = 1500;
    let server = RedisServer::start();
    let mut workers: Vec<_> = (0..3).map(|_| start(&server, TTL)).collect();
    let mut said = Vec::new();
    let (mut leader, _, mut term) = next_leader(&workers, &mut said, 0);
    for _ in 0..3 {
        eventually("the others wait", || waiting_candidates(&server) == 2);
        eventually("the leader has renewed", || server.run::<u64>("PTTL lock:k") > TTL - 300);
        let (read, left) = (now(), server.run::<i64>("PTTL lock:k"));
        let killed = now();
        workers[leader].kill();
        said.extend(workers[leader].last_words());
        let (next, at, next_term) = next_leader(&workers, &mut said, term);
        let after = between(killed, at);
        // Within the ttl and 100 ms where the machine has time: the simulation says so to the
        // millisecond. The second is for the load of a machine that runs other tests.
        assert!(after <= Duration::from_millis(TTL + 100) + SECOND, "{after:?} with a ttl of {TTL} ms");
        // The key of a lock that is waited for outlasts the lease by 100 ms.
        let least = u64::try_from(left - 120).unwrap_or(0);
        assert!(between(read, at) >= Duration::from_millis(least), "its lease has lasted: {after:?}");
        workers[leader] = start(&server, TTL);
        (leader, term) = (next, next_term);
    }
    assert_apart(&said);
}

#[test]
fn nothing_of_a_killed_leader_is_left_when_its_ttl_has_passed_twice() {
    const TTL: u64 = 3000;
    let server = RedisServer::start();
    let mut leader = start(&server, TTL);
    let mut said = Vec::new();
    next_leader(std::slice::from_ref(&leader), &mut said, 0);
    eventually("it is announced", || server.run::<i64>("PTTL lock:k%queue%leader") > 0);
    // It renews often enough for its record to be written again.
    let until = now();
    eventually("it leads on", || between(until, now()) > Duration::from_millis(3 * TTL));
    let mut client = server.client();
    leader.kill();
    let mut both = redis::pipe();
    both.cmd("PTTL").arg("lock:k").cmd("PTTL").arg("lock:k%queue%leader");
    let (lock, record): (i64, i64) = both.query(&mut client).unwrap();
    assert!(0 < lock && lock < record, "the record outlasts its lock: {record} ms and {lock} ms");
    assert!(record <= 2 * TTL.cast_signed(), "the server forgets the record by itself: {record} ms");
    // Time itself is what this tests.
    eventually("nothing is left", || server.keys().is_empty());
}

#[test]
fn a_leader_that_is_frozen_past_its_ttl_is_stopped_before_it_is_polled_again() {
    const TTL: u64 = 800;
    let server = RedisServer::start();
    let workers: Vec<_> = (0..3).map(|_| start(&server, TTL)).collect();
    let mut said = Vec::new();
    let (mut leader, _, mut term) = next_leader(&workers, &mut said, 0);
    for _ in 0..4 {
        eventually("the others wait", || waiting_candidates(&server) == 2);
        workers[leader].freeze();
        let (next, _, next_term) = next_leader(&workers, &mut said, term);
        workers[leader].thaw();
        (leader, term) = (next, next_term);
    }
    eventually("the last one waits again", || waiting_candidates(&server) == 2);
    assert!(said.iter().any(|line| line.word == "polled"), "the test sees them");
    assert_apart(&said);
}

#[test]
fn a_leader_that_resigns_is_followed_without_a_wait() {
    let server = RedisServer::start();
    let mut workers: Vec<_> = (0..3).map(|_| start(&server, 60_000)).collect();
    let mut said = Vec::new();
    let (mut leader, _, mut term) = next_leader(&workers, &mut said, 0);
    for _ in 0..5 {
        eventually("the others wait", || waiting_candidates(&server) == 2);
        let told = now();
        workers[leader].tell("resign");
        let (next, at, next_term) = next_leader(&workers, &mut said, term);
        assert!(next != leader && between(told, at) < 5 * SECOND, "{:?}", between(told, at));
        (leader, term) = (next, next_term);
    }
    assert_apart(&said);
}
