//! The record of ticks, beside a server whose clock the test sets: it stands in the scripts in the
//! place of the time.

use kit::RedisServer;
use redis::Value;

use crate::by_hand::{edited, source};

const KEYS: [&str; 6] = [
    "lock:k",
    "lock:k%queue",
    "lock:%clock",
    "lock:k%queue%claim",
    "lock:k%queue%holders",
    "lock:k%queue%tick",
];
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
const TEN: i64 = 1_795_687_200_000;

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
    /// Of the server, in ms since 1970.
    now: i64,
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

impl Ticks {
    fn start() -> Self {
        let server = RedisServer::start();
        let client = server.client();
        Self { server, client, now: TEN }
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
        let keeps = if length == 0 { WEEK } else { DAY.max(2 * length) };
        let script =
            format!("local function acquire(KEYS, ARGV)\n{}end\n{}", source("Acquire"), edited("tick"));
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
                [Value::Int(0), ..] => Answer::Busy(tick),
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
        let script = format!(
            "local function release(KEYS, ARGV)\nARGV = {{unpack(ARGV, 1, 7)}}\n{}end\n{}{}",
            source("Release"),
            edited("granted"),
            edited("end_tick")
        );
        let (token, at) = (Self::token(number), at.map(|at| at.to_string()).unwrap_or_default());
        let arguments = [&*token, "10000", "0", "inbox", "", "", "", effect, &at, &DAY.to_string()];
        self.invoke(&script, &arguments) == Value::Int(1)
    }

    fn plain_release(&mut self, number: u32) {
        let script = source("Release");
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
pub(crate) fn callers_a_little_early_and_a_little_late_are_for_one_tick() {
    let mut ticks = Ticks::start();
    assert_eq!(ticks.at(TEN - HOUR / 2).runs(1, HOURLY), Some(TEN));
    for (number, off) in [(2, 0), (3, 1), (4, -2000), (5, HOUR / 2 - 1)] {
        assert_eq!(ticks.at(TEN + off).acquire(number, HOURLY), taken_by(1, TEN), "{off}");
    }
    assert_eq!(ticks.at(TEN + HOUR / 2).runs(6, HOURLY), Some(TEN + HOUR));
    assert_eq!(ticks.server.keys(), [KEYS[5]]);
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
    assert_eq!(ticks.server.keys(), [KEYS[5]]);
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
    for (call, keeps) in [(HOURLY, DAY), (Call { length: 20 * HOUR, ..HOURLY }, 40 * HOUR)] {
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
    // A long tick may be named half of it ahead.
    let monthly = Call { length: 30 * DAY, ..HOURLY };
    let mut ticks = Ticks::start();
    let named = ticks.at(TEN / (30 * DAY) * (30 * DAY) + 16 * DAY).runs(1, monthly).unwrap();
    assert!(named - ticks.now > DAY, "{named}");
}

#[test]
pub(crate) fn a_clock_that_is_set_back_by_less_than_half_a_tick_costs_nothing_and_by_more_the_ticks_in_between()
 {
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

/// A fleet whose clocks are off, and whose timers are late: each tick is run once, as long as both
/// together are below half a tick.
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
        let skews: Vec<i64> = (0..=random(3)).map(|_| random(HOUR - 20_000) - HOUR / 2 + 10_000).collect();
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
