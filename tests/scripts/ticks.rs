//! The record of ticks, beside a server whose clock the test sets: it stands in the scripts in the
//! place of the time.

use kit::RedisServer;
use redis::Value;

use crate::by_hand::source;

const KEYS: [&str; 7] = [
    "lock:k",
    "lock:k%queue",
    "lock:%clock",
    "lock:k%queue%claim",
    "lock:k%queue%holders",
    "lock:k%queue%permits",
    "lock:k%queue%tick",
];
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
const TEN: i64 = 1_795_687_200_000;
const MINUTE: i64 = 60_000;
/// So early a caller may be for a long tick.
const EARLY: i64 = 150_000;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Answer {
    Runs(i64),
    Busy(i64),
    Taken(i64, String),
    Old,
    Ahead,
}

struct Ticks {
    server: RedisServer,
    client: redis::Connection,
    /// The time of the server, in ms since 1970.
    now: i64,
    /// The rest of the lease, in ms, as the last busy answer says.
    left: i64,
}

/// What a request says of its tick.
#[derive(Clone, Copy)]
struct Call {
    at: Option<i64>,
    length: i64,
    age: i64,
    records: bool,
}

const HOURLY: Call = Call { at: None, length: HOUR, age: 0, records: true };

/// A call for a tick of this length.
fn call(length: i64) -> Call {
    Call { length, ..HOURLY }
}

impl Ticks {
    fn start() -> Self {
        let server = RedisServer::start();
        let client = server.client();
        Self { server, client, now: TEN, left: 0 }
    }

    fn at(&mut self, now: i64) -> &mut Self {
        self.now = now;
        self
    }

    fn invoke(&mut self, source: &str, arguments: &[&str]) -> Value {
        let time = format!("{{'{}', '{}'}}", self.now / 1000, self.now % 1000 * 1000);
        let script = redis::Script::new(&source.replace("redis.call('TIME')", &time));
        let mut call = script.prepare_invoke();
        for key in KEYS {
            call.key(key);
        }
        for argument in arguments {
            call.arg(*argument);
        }
        call.invoke(&mut self.client).unwrap()
    }

    fn token(number: u32) -> String {
        format!("{number:0>22}@host:1/1790000000/m::f")
    }

    fn acquire_as(&mut self, number: u32, call: Call, how: &str) -> Answer {
        let Call { at, length, age, records } = call;
        let keeps = if length == 0 { WEEK } else { WEEK.max(2 * length) };
        let script = source("tick");
        let [at, length, age, keeps, ahead] = [at, Some(length), Some(age), Some(keeps), Some(DAY)]
            .map(|it| it.map(|it| it.to_string()).unwrap_or_default());
        let effect = if records { "record" } else { "" };
        let token = Self::token(number);
        let arguments =
            [&*token, "10000", how, "inbox", "100", "", "", &at, &length, &age, &keeps, &ahead, effect];
        let Value::Array(parts) = self.invoke(&script, &arguments) else { panic!("a tick and an answer") };
        let number = |value: &Value| match value {
            Value::BulkString(text) => String::from_utf8_lossy(text).parse().unwrap(),
            other => panic!("{other:?}"),
        };
        let tick = number(&parts[0]);
        match &parts[1] {
            Value::Int(_) => Answer::Runs(tick),
            Value::Array(parts) => match &parts[..] {
                [Value::Int(8), last, Value::BulkString(by)] => {
                    Answer::Taken(number(last), String::from_utf8_lossy(by).into_owned())
                }
                [Value::Int(9), Value::Int(0)] => Answer::Old,
                [Value::Int(9), Value::Int(1)] => Answer::Ahead,
                [Value::Int(0), _, Value::Int(left), ..] => {
                    self.left = *left;
                    Answer::Busy(tick)
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn acquire(&mut self, number: u32, call: Call) -> Answer {
        self.acquire_as(number, call, "0")
    }

    /// True when the token held the lock.
    fn release(&mut self, number: u32, effect: &str, at: Option<i64>) -> bool {
        self.release_after(number, effect, at, 0)
    }

    /// Releases so many ms after the call.
    fn release_after(&mut self, number: u32, effect: &str, at: Option<i64>, age: i64) -> bool {
        let script = source("end_tick");
        let (token, at) = (Self::token(number), at.map(|at| at.to_string()).unwrap_or_default());
        let arguments =
            [&*token, "10000", "0", "inbox", "", "", "", effect, &at, &WEEK.to_string(), &age.to_string()];
        self.invoke(&script, &arguments) == Value::Int(1)
    }

    fn plain_release(&mut self, number: u32) {
        let script = source("release");
        let token = Self::token(number);
        let released = self.invoke(&script, &[&token, "10000", "0", "inbox", "", "", ""]);
        assert_eq!(released, Value::Int(1));
    }

    /// Runs a tick from its grant to its release.
    fn runs(&mut self, number: u32, call: Call) -> Option<i64> {
        match self.acquire(number, call) {
            Answer::Runs(tick) => {
                self.plain_release(number);
                Some(tick)
            }
            Answer::Taken(..) => None,
            other => panic!("{other:?}"),
        }
    }
}

fn taken_by(number: u32, tick: i64) -> Answer {
    Answer::Taken(tick, Ticks::token(number))
}

#[test]
pub(crate) fn callers_a_little_early_and_later_in_the_tick_are_for_one_tick() {
    let mut ticks = Ticks::start();
    assert_eq!(ticks.at(TEN).runs(1, HOURLY), Some(TEN));
    for (number, off) in [(2, 0), (3, 1), (4, -2000), (5, HOUR - EARLY - 1)] {
        assert_eq!(ticks.at(TEN + off).acquire(number, HOURLY), taken_by(1, TEN), "{off}");
    }
    assert_eq!(ticks.at(TEN + HOUR - EARLY).runs(6, HOURLY), Some(TEN + HOUR));
    assert_eq!(ticks.server.keys(), [KEYS[6]]);
}

/// In zones that are half an hour from UTC, and for cron expressions of any minute and second.
#[test]
pub(crate) fn a_timer_runs_once_for_each_of_its_firings_wherever_in_the_tick_it_fires() {
    let mut ticks = Ticks::start();
    for (length, early) in [(1000, 250), (60_000, 15_000), (HOUR, EARLY), (DAY, EARLY)] {
        let boundary = [length - early - 1, length - early, length - early + 1];
        for phase in (0..8).map(|part| part * length / 8).chain(boundary) {
            let _: String = ticks.server.run("FLUSHALL");
            let mut ran = Vec::new();
            let first = TEN / length * length + phase;
            let mut number = 0;
            for firing in 0..4 {
                // The replicas are late or early, and as far apart as they may be.
                let off = [0, 1, 1 - early, early / 2][firing as usize];
                let before = ran.len();
                for apart in [0, 1, early / 2, early - 1] {
                    number += 1;
                    ran.extend(ticks.at(first + firing * length + off + apart).runs(number, call(length)));
                }
                assert_eq!(ran.len(), before + 1, "firing {firing} at {phase} of {length}: {ran:?}");
            }
            assert!(ran.is_sorted_by(|one, next| one < next), "{phase} of {length}: {ran:?}");
            assert!(ran.iter().all(|tick| tick % length == 0));
        }
    }
}

#[test]
pub(crate) fn a_run_that_is_not_recorded_before_its_end_keeps_out_the_other_calls_of_its_firing() {
    let mut ticks = Ticks::start();
    let retried = Call { records: false, ..HOURLY };
    // One tick ends and the next one begins between the two calls.
    let boundary = TEN + HOUR - EARLY;
    assert_eq!(ticks.at(boundary - 600).acquire(1, retried), Answer::Runs(TEN));
    assert_eq!(ticks.at(boundary + 400).acquire(2, retried), Answer::Busy(TEN + HOUR));
    // The body takes a while, and the second caller waits.
    assert!(ticks.at(boundary + 20 * EARLY).release_after(1, "record", Some(TEN), 20 * EARLY + 600));
    let waiter = Call { at: Some(TEN + HOUR), age: 20 * EARLY - 400, ..retried };
    assert_eq!(ticks.acquire(2, waiter), taken_by(1, TEN));
}

#[test]
pub(crate) fn a_run_by_hand_takes_no_later_tick() {
    let mut ticks = Ticks::start();
    assert_eq!(ticks.at(TEN).runs(1, HOURLY), Some(TEN));
    assert_eq!(ticks.at(TEN + 40 * MINUTE).runs(2, HOURLY), None);
    assert_eq!(ticks.at(TEN + HOUR).runs(3, HOURLY), Some(TEN + HOUR));
    // Nobody has run that of 12:00.
    assert_eq!(ticks.at(TEN + 2 * HOUR + 40 * MINUTE).runs(4, HOURLY), Some(TEN + 2 * HOUR));
    assert_eq!(ticks.at(TEN + 3 * HOUR).runs(5, HOURLY), Some(TEN + 3 * HOUR));
    let monday = TEN / DAY * DAY;
    let mut ticks = Ticks::start();
    assert_eq!(ticks.at(monday + 3 * HOUR).runs(1, call(DAY)), Some(monday));
    for (number, hour) in [(2, 15), (3, 23)] {
        assert_eq!(ticks.at(monday + hour * HOUR).runs(number, call(DAY)), None, "{hour}");
    }
    assert_eq!(ticks.at(monday + DAY + 3 * HOUR).runs(4, call(DAY)), Some(monday + DAY));
}

#[test]
pub(crate) fn shorter_ticks_begin_a_moment_after_a_longer_one_was_run() {
    let mut ticks = Ticks::start();
    let three = TEN + 5 * HOUR;
    assert_eq!(ticks.at(three).runs(1, call(DAY)), Some(TEN / DAY * DAY));
    assert_eq!(ticks.at(three + 1000).runs(2, call(10 * MINUTE)), None, "a call of the same firing");
    for minutes in [10, 20, 30] {
        let at = three + minutes * MINUTE;
        assert_eq!(ticks.at(at).runs(minutes as u32, call(10 * MINUTE)), Some(at));
    }
}

#[test]
pub(crate) fn one_that_can_wait_does_so_for_a_moment_where_the_tick_may_be_given_back() {
    let mut ticks = Ticks::start();
    assert_eq!(ticks.acquire(1, HOURLY), Answer::Runs(TEN));
    assert_eq!(ticks.at(TEN + 300).acquire(2, HOURLY), taken_by(1, TEN), "one try");
    assert_eq!(ticks.acquire_as(3, HOURLY, "join"), Answer::Busy(TEN));
    assert_eq!(ticks.left, 700, "it asks again then");
    let named = Call { at: Some(TEN), age: 300, ..HOURLY };
    assert_eq!(ticks.acquire_as(3, named, "again"), Answer::Busy(TEN));
    // Its body runs.
    assert_eq!(ticks.at(TEN + 1000).acquire_as(3, Call { age: 1000, ..named }, "again"), taken_by(1, TEN));
    assert_eq!(ticks.acquire_as(4, HOURLY, "join"), taken_by(1, TEN));
    // Or it has ended, and nobody gives it back.
    let _: String = ticks.server.run("FLUSHALL");
    assert_eq!(ticks.at(TEN).runs(1, HOURLY), Some(TEN));
    assert_eq!(ticks.at(TEN + 300).acquire_as(2, HOURLY, "join"), taken_by(1, TEN));
    // Or it has left: the one that waits runs it.
    let _: String = ticks.server.run("FLUSHALL");
    assert_eq!(ticks.at(TEN).acquire(1, HOURLY), Answer::Runs(TEN));
    assert_eq!(ticks.at(TEN + 300).acquire_as(2, HOURLY, "join"), Answer::Busy(TEN));
    assert!(ticks.release(1, "undo", None));
    assert_eq!(ticks.acquire_as(2, named, "again"), Answer::Runs(TEN));
}

#[test]
pub(crate) fn a_call_that_comes_late_is_for_the_tick_of_its_call_and_a_waiter_for_the_one_it_was_told() {
    let mut ticks = Ticks::start();
    let late = Call { age: HOUR, ..HOURLY };
    assert_eq!(ticks.at(TEN + HOUR).runs(1, late), Some(TEN));
    let named = Call { at: Some(TEN), ..HOURLY };
    assert_eq!(ticks.at(TEN + HOUR).acquire(2, named), taken_by(1, TEN));
    assert_eq!(ticks.at(TEN + HOUR).runs(3, HOURLY), Some(TEN + HOUR));
    assert_eq!(ticks.at(TEN + HOUR).acquire(4, named), taken_by(3, TEN + HOUR), "a later one was run");
}

#[test]
pub(crate) fn a_caller_whose_answer_was_lost_has_its_tick_and_no_other_one_has() {
    let mut ticks = Ticks::start();
    assert_eq!(ticks.acquire(1, HOURLY), Answer::Runs(TEN));
    assert_eq!(ticks.acquire(1, HOURLY), Answer::Runs(TEN));
    assert_eq!(ticks.acquire(2, HOURLY), taken_by(1, TEN));
    // Also when the lease has ended meanwhile: its body has not begun.
    let _: i64 = ticks.server.run("DEL lock:k");
    assert_eq!(ticks.acquire(1, HOURLY), Answer::Runs(TEN));
    // And where one tick ends and the next one begins.
    let _: String = ticks.server.run("FLUSHALL");
    assert_eq!(ticks.at(TEN - EARLY).runs(1, HOURLY), Some(TEN));
    for _ in 0..2 {
        assert_eq!(ticks.at(TEN + HOUR - EARLY - 1).acquire(2, HOURLY), Answer::Runs(TEN + HOUR));
    }
}

#[test]
pub(crate) fn a_busy_lock_takes_no_tick() {
    let mut ticks = Ticks::start();
    let _: String = ticks.server.run("SET lock:k stranger");
    assert_eq!(ticks.acquire(1, HOURLY), Answer::Busy(TEN));
    let _: i64 = ticks.server.run("DEL lock:k");
    assert_eq!(ticks.acquire(2, HOURLY), Answer::Runs(TEN));
}

#[test]
pub(crate) fn a_tick_that_is_retried_is_over_with_a_release_of_the_lock_that_is_still_held() {
    let mut ticks = Ticks::start();
    let retried = Call { records: false, ..HOURLY };
    assert_eq!(ticks.acquire(1, retried), Answer::Runs(TEN));
    assert_eq!(ticks.acquire(2, retried), Answer::Busy(TEN), "it may fail");
    ticks.plain_release(1);
    assert_eq!(ticks.acquire(2, retried), Answer::Runs(TEN), "it has failed");
    // Its lock was lost to another one.
    let _: i64 = ticks.server.run("DEL lock:k");
    assert_eq!(ticks.acquire(3, retried), Answer::Runs(TEN));
    assert!(!ticks.release(2, "record", Some(TEN)));
    assert_eq!(ticks.acquire(4, retried), Answer::Busy(TEN));
    assert!(ticks.release(3, "record", Some(TEN)));
    assert_eq!(ticks.acquire(4, retried), taken_by(3, TEN));
    assert_eq!(ticks.server.keys(), [KEYS[6]]);
}

#[test]
pub(crate) fn a_marked_lock_that_was_waited_for_ends_its_tick_as_well() {
    let mut ticks = Ticks::start();
    let retried = Call { records: false, ..HOURLY };
    assert_eq!(ticks.acquire(1, retried), Answer::Runs(TEN));
    for number in [2, 3] {
        assert_eq!(ticks.acquire_as(number, retried, "join"), Answer::Busy(TEN));
    }
    let value: String = ticks.server.run("GET lock:k");
    assert!(value.ends_with('!'), "{value}");
    assert!(ticks.release(1, "record", Some(TEN)));
    assert_eq!(ticks.acquire_as(2, retried, "again"), taken_by(1, TEN));
}

#[test]
pub(crate) fn a_caller_that_leaves_before_its_body_begins_opens_its_own_tick_alone() {
    let mut ticks = Ticks::start();
    let hour_before = Call { at: Some(TEN - HOUR), ..HOURLY };
    assert_eq!(ticks.acquire(1, HOURLY), Answer::Runs(TEN));
    assert!(ticks.release(1, "undo", None));
    assert_eq!(ticks.acquire(2, hour_before), Answer::Taken(TEN, String::new()), "those before it are over");
    assert_eq!(ticks.acquire(2, HOURLY), Answer::Runs(TEN));
    // A late one, and one that did not have it.
    assert!(!ticks.release(1, "undo", None) && !ticks.release(3, "undo", None));
    assert_eq!(ticks.acquire(4, HOURLY), taken_by(2, TEN));
    ticks.plain_release(2);
    assert_eq!(ticks.acquire(4, HOURLY), taken_by(2, TEN));
}

#[test]
pub(crate) fn no_record_is_gone_before_its_tick_is_refused_as_old() {
    for (call, keeps) in [(HOURLY, WEEK), (call(5 * DAY), 10 * DAY)] {
        let mut ticks = Ticks::start();
        let Some(tick) = ticks.runs(1, call) else { panic!("it is the first one") };
        let px: i64 = ticks.server.run("PTTL lock:k%queue%tick");
        assert!((tick + keeps - TEN - 5000..=tick + keeps - TEN).contains(&px), "{px}");
        let named = Call { at: Some(tick), ..call };
        assert_eq!(ticks.at(tick + keeps - 1).acquire(2, named), taken_by(1, tick));
        assert_eq!(ticks.at(tick + keeps).acquire(2, named), Answer::Old);
    }
    let mut ticks = Ticks::start();
    let nominal = |at| Call { at: Some(at), length: 0, ..HOURLY };
    assert_eq!(ticks.acquire(1, nominal(TEN - WEEK)), Answer::Old);
    assert_eq!(ticks.acquire(1, nominal(TEN + DAY + 1)), Answer::Ahead);
    assert_eq!(ticks.runs(1, nominal(TEN + 1 - WEEK)), Some(TEN + 1 - WEEK));
    assert_eq!(ticks.runs(2, nominal(TEN + DAY)), Some(TEN + DAY));
    let monthly = Call { length: 30 * DAY, ..HOURLY };
    let mut ticks = Ticks::start();
    let month = TEN / (30 * DAY) * (30 * DAY);
    assert_eq!(ticks.at(month + 16 * DAY).runs(1, monthly), Some(month));
}

#[test]
pub(crate) fn a_clock_that_is_set_back_a_little_costs_nothing_and_by_more_the_ticks_in_between() {
    let mut ticks = Ticks::start();
    assert_eq!(ticks.at(TEN).runs(1, HOURLY), Some(TEN));
    // By a minute, when the next tick is due: it is run at its time.
    assert_eq!(ticks.at(TEN + HOUR - 60_000).runs(2, HOURLY), Some(TEN + HOUR));
    assert_eq!(ticks.at(TEN + HOUR).acquire(3, HOURLY), taken_by(2, TEN + HOUR));
    // By three hours: no tick is run twice, and the next one that is run is the one behind the last.
    for hour in [-2, -1, 0, 1] {
        let answer = ticks.at(TEN + hour * HOUR).acquire(4, HOURLY);
        assert_eq!(answer, taken_by(2, TEN + HOUR), "{hour}");
    }
    assert_eq!(ticks.at(TEN + 2 * HOUR).runs(4, HOURLY), Some(TEN + 2 * HOUR));
}

/// A fleet whose clocks are off, and whose timers are late: each tick is run once.
#[test]
pub(crate) fn a_random_fleet_runs_each_tick_once() {
    let mut seed: u64 = 7;
    let mut random = |below: i64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(seed >> 33).unwrap() % below
    };
    let mut ticks = Ticks::start();
    for _ in 0..20 {
        let _: String = ticks.server.run("FLUSHALL");
        let skews: Vec<i64> = (0..=random(3)).map(|_| random(HOUR * 3 / 4) - EARLY + 10_000).collect();
        let mut calls: Vec<i64> =
            (1..15).flat_map(|tick| skews.iter().map(move |skew| TEN + tick * HOUR + skew)).collect();
        for call in &mut calls {
            *call += random(20_000) - 10_000;
        }
        calls.sort_unstable();
        let mut ran = Vec::new();
        for (number, now) in calls.iter().enumerate() {
            ran.extend(ticks.at(*now).runs(number as u32, HOURLY));
        }
        let expected: Vec<i64> = (1..15).map(|tick| TEN + tick * HOUR).collect();
        assert_eq!(ran, expected, "{skews:?}");
    }
}
