//! The short way of a release does what the long way does.

use kit::chaos::random::Random;

use crate::by_hand::{CLAIM, CLOCK, LOCK, QUEUE, Scripts, source};

/// They listen.
const INBOXES: [&str; 2] = ["inbox:a", "inbox:b"];

/// Below the time, and above the least number that needs not be raised.
const DRAWN: &str = "1700000000000000";

/// All that a release changes, and what it tells, without the time.
#[derive(PartialEq, Eq, Debug)]
struct Left {
    answer: i64,
    lock: Option<String>,
    claim: Option<String>,
    queue: Vec<String>,
    drawn: String,
    told: [Vec<String>; 2],
}

/// Those in the queue, and the arguments of the release.
#[derive(Debug)]
struct Case {
    queue: Vec<String>,
    arguments: Vec<String>,
}

fn token(number: usize) -> String {
    format!("{number:0>22}@host:1/1790000000/m::f")
}

fn case(random: &mut Random) -> Case {
    let of_same_process = random.index(4) < 2;
    let mut queue = Vec::new();
    let served = if random.index(2) == 0 { 0 } else { random.index(32) + 1 };
    let followers: Vec<String> = (1..=served).map(token).collect();
    // Some have left already.
    let stay = followers.iter().filter(|_| random.index(8) > 0);
    queue.extend(stay.map(|token| format!("{token}|5000|inbox:a|unfenced")).collect::<Vec<_>>());
    for number in 100..100 + random.index(40) {
        let one = random.index(if of_same_process { 40 } else { 8 });
        queue.push(match one {
            0 => format!("{}|5000|inbox:dead|unfenced", token(number)),
            1 => format!("{}|5000|inbox:b|unfenced", token(number)),
            2 => format!("{}|5000|inbox:b", token(number)),
            3 => format!("{}|800|inbox:a|unfenced", token(number)),
            4 => format!("{number}|5000|inbox:a|unfenced"),
            5 => "no member of ours".to_owned(),
            6 => format!("{}|5000|inbox:a", token(number)),
            _ => format!("{}|5000|inbox:a|unfenced", token(number)),
        });
    }
    // One of another process has had it, and nobody has followed it.
    let inbox = if served == 0 && random.index(2) == 0 { "inbox:b" } else { "inbox:a" };
    let kind = if served == 0 && random.index(2) == 0 { "" } else { "unfenced" };
    let arguments = [&token(0), "5000", "0", inbox, "0", "", kind].map(str::to_owned);
    Case { queue, arguments: arguments.into_iter().chain(followers).collect() }
}

/// Each number of 10 to 16 digits is a time or was drawn.
fn without_time(text: &str) -> String {
    let parts: Vec<&str> = text.split_inclusive(|letter: char| !letter.is_ascii_digit()).collect();
    let is_time = |part: &str| {
        (10..=16).contains(&part.trim_end_matches(|letter: char| !letter.is_ascii_digit()).len())
    };
    parts
        .into_iter()
        .map(|part| {
            if is_time(part) { part.trim_start_matches(|letter: char| letter.is_ascii_digit()) } else { part }
        })
        .collect()
}

fn release(scripts: &mut Scripts, script: &str, case: &Case) -> Left {
    scripts.forget_all();
    let value = format!("{}=1790000000!", token(0));
    scripts.run::<()>(&["SET", LOCK, &value, "PX", "5000"]);
    scripts.run::<()>(&["SET", CLAIM, "inbox:a", "PX", "60000"]);
    scripts.run::<()>(&["SET", CLOCK, DRAWN]);
    for (at, member) in case.queue.iter().enumerate() {
        scripts.run::<()>(&["ZADD", QUEUE, &at.to_string(), member]);
    }
    let mut call = vec!["EVAL", script, "4", LOCK, QUEUE, CLOCK, CLAIM];
    call.extend(case.arguments.iter().map(String::as_str));
    Left {
        answer: scripts.run(&call),
        lock: scripts.run::<Option<String>>(&["GET", LOCK]).map(|value| without_time(&value)),
        claim: scripts.run(&["GET", CLAIM]),
        queue: scripts.run(&["ZRANGE", QUEUE, "0", "-1"]),
        drawn: scripts.run(&["GET", CLOCK]),
        told: INBOXES.map(|inbox| scripts.texts(inbox).iter().map(|text| without_time(text)).collect()),
    }
}

#[test]
pub(crate) fn a_release_does_the_same_the_short_way_and_the_long_way() {
    let short = source("release");
    let begins = "if value == token .. '!' and ";
    assert!(short.contains(begins));
    let long = short.replacen(begins, "if false and ", 1);
    let mut scripts = Scripts::start();
    for inbox in INBOXES {
        scripts.listen(inbox);
    }
    let mut granted = 0;
    for seed in 0..400 {
        let case = case(&mut Random::new(seed));
        let [by_short, by_long] = [&short, &long].map(|script| release(&mut scripts, script, &case));
        assert_eq!(by_short, by_long, "{seed}: {case:?}");
        granted += usize::from(by_long.lock.is_some());
    }
    assert!((100..400).contains(&granted), "{granted}");
}
