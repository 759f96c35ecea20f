//! A server gets older data under a live connection, of any age, and has to draw larger fencing
//! tokens than a manager has seen, however it takes the lock.

use std::thread;
use std::time::Duration;

use kit::{LIMIT, RedisServer, SECOND, connect, eventually};
use redlocked::{LockError, LockGuard, LockManager};

/// In us.
const HOUR: u64 = 3_600_000_000;

/// How a caller gets a lock with a fencing token.
const WAYS: [(&str, Way); 8] = [
    ("alone", |it| it.locks.lock("k").run_value_blocking(LockGuard::fencing_token).unwrap()),
    ("with another one", |it| {
        it.locks.lock_all(["k", "l"]).run_value_blocking(LockGuard::fencing_token).unwrap()
    }),
    ("as one of several", |it| {
        it.locks.lock("several").permits(3).run_value_blocking(LockGuard::fencing_token).unwrap()
    }),
    ("for a tick", |it| {
        let key = format!("tick:{}", it.number);
        it.locks.lock(key).tick(SECOND).run_value_blocking(LockGuard::fencing_token).unwrap()
    }),
    ("as a leader", |it| {
        it.locks.election("leader").lead_blocking(|term| Ok::<_, LockError>(term.fencing_token())).unwrap()
    }),
    ("with a ticket", |it| {
        let ticket = it.other.lock("ticket").acquire_blocking().unwrap();
        let ticket = ticket.into_ticket_blocking(LIMIT).unwrap();
        it.gets_older_data();
        it.locks.redeem(ticket).run_value_blocking(LockGuard::fencing_token).unwrap()
    }),
    ("from another manager", |it| it.handed_over(it.other)),
    ("from its own process", |it| it.handed_over(it.locks)),
];

type Way = fn(&Round) -> u64;

struct Round<'a> {
    server: &'a RedisServer,
    locks: &'a LockManager,
    other: &'a LockManager,
    number: u32,
    /// What has become of the clock.
    older: &'a str,
}

impl Round<'_> {
    fn gets_older_data(&self) {
        let _: redis::Value = self.server.run(self.older);
    }

    /// The holder has the lock by newer data, and hands it over by older ones.
    fn handed_over(&self, holder: &LockManager) -> u64 {
        let guard = holder.lock("k").acquire_blocking().unwrap();
        let waiter = self.locks.lock("k").wait(LIMIT);
        self.gets_older_data();
        thread::scope(|scope| {
            let next = scope.spawn(move || waiter.run_value_blocking(LockGuard::fencing_token).unwrap());
            if std::ptr::eq(holder, self.locks) {
                // With a cohort, the server does not know that it waits.
                thread::sleep(SECOND / 20);
            } else {
                eventually("the waiter is queued", || self.server.run::<u32>("ZCARD lock:k%queue") == 1);
            }
            self.gets_older_data();
            drop(guard);
            next.join().unwrap()
        })
    }
}

#[test]
fn no_number_is_given_that_is_not_above_those_that_its_manager_has_seen() {
    let server = RedisServer::start();
    // One with a cohort reserves numbers.
    let with_a_cohort = LockManager::builder(server.url()).cohort(8).connect_blocking().unwrap();
    for (locks, passes_on) in [(connect(&server), false), (with_a_cohort, true)] {
        let other = connect(&server);
        // Ticks, and locks that several have, are not passed on.
        let ways = WAYS.into_iter().filter(|(way, _)| !passes_on || way.starts_with("from "));
        for (way, take) in ways {
            for round in 0..24 {
                // The data are those of three seconds ago; or the server's time was ahead by an hour.
                let ahead = if round % 2 == 0 { 0 } else { HOUR };
                let now = locks.lock("first").run_value_blocking(LockGuard::fencing_token).unwrap();
                let _: String = server.run(&format!("SET lock:%clock {}", now + ahead));
                let before = locks.lock("first").run_value_blocking(LockGuard::fencing_token).unwrap();
                let older = if round % 2 == 0 {
                    format!("SET lock:%clock {}", before - 3_000_000)
                } else {
                    "DEL lock:%clock".to_owned()
                };
                // So soon after a comparison that no other one is due, and later.
                if round % 3 == 0 {
                    thread::sleep(Duration::from_millis(45));
                }
                let round =
                    Round { server: &server, locks: &locks, other: &other, number: round, older: &older };
                round.gets_older_data();
                let next = take(&round);
                assert!(before < next, "{way} in round {}: {before}, {next}", round.number);
            }
        }
    }
    eventually("no lock is left", || server.keys().iter().all(|key| key.contains("%queue%tick")));
}

/// Hands the lock to its first waiter, with a number that is as much below the server's time as the
/// second argument says, or with the first one: a client that sends no floor does so.
const HANDS_OVER: &str = "
local member = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
local token, inbox = string.match(member, '^([^|]+)|%d+|([^|]+)$')
local now = redis.call('TIME')
local micros = string.format('%d%06d', now[1], now[2])
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], token .. '=' .. now[1], 'PX', 1000)
local number = ARGV[1] ~= '' and ARGV[1] or string.format('%.0f', micros - ARGV[2])
redis.call('PUBLISH', inbox, 'granted|' .. token .. '|' .. number .. '|' .. micros .. '||' .. KEYS[1])";

#[test]
fn a_hand_over_of_a_client_without_a_floor_gives_no_number_that_was_given_before() {
    let server = RedisServer::start();
    let (locks, other) = (connect(&server), connect(&server));
    for twice in [true, false] {
        let guard = other.lock("k").acquire_blocking().unwrap();
        let before = locks.lock("first").run_value_blocking(LockGuard::fencing_token).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let guard = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
                // It still has the lock after the claim.
                thread::sleep(SECOND * 3 / 2);
                (guard.fencing_token(), guard.is_held())
            });
            eventually("the waiter is queued", || server.run::<u32>("ZCARD lock:k%queue") == 1);
            // The manager has seen none that is larger than the second one, and others may have.
            let number = if twice { before.to_string() } else { String::new() };
            let mut call = redis::cmd("EVAL");
            call.arg(HANDS_OVER).arg(2).arg("lock:k").arg("lock:k%queue").arg(number).arg(3_000_000);
            let _: redis::Value = call.query(&mut server.client()).unwrap();
            let (next, is_held) = waiter.join().unwrap();
            assert!(before < next && is_held, "{before}, {next}");
        });
        drop(guard);
    }
    eventually("no key is left", || server.keys().is_empty());
}
