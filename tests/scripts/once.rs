//! The scripts of bodies that run once, called by hand.

use redis::Value;

use crate::by_hand::{CLAIM, CLOCK, Caller, HOLDERS, LOCK, PERMITS, QUEUE, Scripts};

const ONCE: &str = "lock:k%queue%once";
const DAY: &str = "86400000";

/// What the script that takes the lock says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Runs,
    Waits,
    Replayed { result: String, kept: bool },
    Reused { kept: bool },
    Interrupted { by: String },
}

fn runner(caller: &Caller) -> String {
    format!("{:0>32}", caller.token.len() + usize::from(caller.token.as_bytes()[21]))
}

fn ask(scripts: &mut Scripts, caller: &Caller, how: &str, fingerprint: &str, policy: &str) -> Asked {
    ask_without(scripts, caller, how, &[fingerprint, DAY, &runner(caller), policy])
}

fn ask_without(scripts: &mut Scripts, caller: &Caller, how: &str, of_once: &[&str]) -> Asked {
    let ttl = caller.ttl.to_string();
    let arguments = [&caller.token, &*ttl, how, &caller.inbox, "10000", "", "once"];
    let text = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8(text.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    let keys = [LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, ONCE];
    match scripts.call_with("acquire_once", &keys, &[&arguments[..], of_once].concat()) {
        Value::Int(fence) if fence > 0 => Asked::Runs,
        Value::Array(parts) => match &parts[..] {
            [Value::Int(0), ..] => Asked::Waits,
            [Value::Int(5), Value::Int(kept)] => Asked::Reused { kept: *kept == 1 },
            [Value::Int(6), Value::Int(kept), result] => {
                Asked::Replayed { result: text(result), kept: *kept == 1 }
            }
            [Value::Int(7), Value::Int(1), since, owner] => {
                assert!(text(since).parse::<u64>().is_ok());
                Asked::Interrupted { by: text(owner) }
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn first(scripts: &mut Scripts, caller: &Caller) -> Asked {
    ask(scripts, caller, "join", "-", "")
}

fn again(scripts: &mut Scripts, caller: &Caller) -> Asked {
    ask(scripts, caller, "again", "-", "")
}

/// True when the token held the lock.
fn finish(scripts: &mut Scripts, caller: &Caller, how: &str, result: &str) -> bool {
    let (ttl, runner) = (caller.ttl.to_string(), runner(caller));
    let arguments =
        [&*caller.token, &ttl, "0", &caller.inbox, "0", "", "once", "-", DAY, &runner, how, result];
    let keys = [LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, ONCE];
    match scripts.call_with("finish", &keys, &arguments) {
        Value::Int(held) => held == 1,
        other => panic!("{other:?}"),
    }
}

fn replayed(result: &str, kept: bool) -> Asked {
    Asked::Replayed { result: result.to_owned(), kept }
}

fn three(scripts: &mut Scripts) -> [Caller; 3] {
    for inbox in ["a", "b", "c"] {
        scripts.listen(inbox);
    }
    ["a", "b", "c"].map(|inbox| scripts.caller(1, 30_000, inbox))
}

pub(crate) fn a_body_runs_once_and_those_that_wait_are_told() {
    let mut scripts = Scripts::start();
    let [runs, waits, late] = three(&mut scripts);
    assert_eq!(first(&mut scripts, &runs), Asked::Runs);
    assert_eq!(first(&mut scripts, &runs), Asked::Runs, "its reply was lost");
    assert_eq!(first(&mut scripts, &waits), Asked::Waits);
    assert!(finish(&mut scripts, &runs, "done", "7"));
    let told: Vec<_> = scripts.pushes("b").into_iter().map(|(kind, token, _)| (kind, token)).collect();
    assert_eq!(told, [("done".to_owned(), waits.token.clone())]);
    let keys: Vec<String> = scripts.run(&["KEYS", "lock:k*"]);
    assert_eq!(keys, [ONCE], "no lock and no queue is left");
    assert_eq!(again(&mut scripts, &waits), replayed("7", false));
    assert_eq!(first(&mut scripts, &late), replayed("7", false));
    assert!(finish(&mut scripts, &runs, "done", "8"), "its reply was lost");
    assert_eq!(first(&mut scripts, &late), replayed("7", false), "it is stored once");
    let left: i64 = scripts.run(&["PTTL", ONCE]);
    assert!((86_390_000..=86_400_000).contains(&left), "{left}");
}

pub(crate) fn a_result_whose_lock_was_lost_is_not_stored() {
    let mut scripts = Scripts::start();
    let [loses, next, _] = three(&mut scripts);
    assert_eq!(first(&mut scripts, &loses), Asked::Runs);
    let _: i64 = scripts.run(&["DEL", LOCK]);
    assert_eq!(first(&mut scripts, &next), Asked::Runs);
    assert!(!finish(&mut scripts, &loses, "done", "7"));
    assert!(!finish(&mut scripts, &loses, "undone", ""), "nor does it forget that the next one runs");
    let record: String = scripts.run(&["GET", ONCE]);
    assert!(record.contains("|s|") && record.contains(&runner(&next)), "{record}");
    assert!(finish(&mut scripts, &next, "done", "8"));
    assert!(!finish(&mut scripts, &loses, "done", "7"));
    assert_eq!(first(&mut scripts, &loses), replayed("8", false));
}

pub(crate) fn what_was_interrupted_is_an_error_where_it_is_asked_for() {
    let mut scripts = Scripts::start();
    let [dies, careful, next] = three(&mut scripts);
    assert_eq!(first(&mut scripts, &dies), Asked::Runs);
    assert_eq!(ask(&mut scripts, &careful, "join", "-", "error"), Asked::Waits, "it lives");
    let _: i64 = scripts.run(&["DEL", LOCK]);
    let interrupted = Asked::Interrupted { by: "host:1/1790000000/m::f".to_owned() };
    assert_eq!(ask(&mut scripts, &careful, "again", "-", "error"), interrupted);
    assert!(finish(&mut scripts, &careful, "undone", ""), "it gives the lock back");
    assert_eq!(ask(&mut scripts, &careful, "join", "-", "error"), interrupted);
    assert!(finish(&mut scripts, &careful, "undone", ""));
    assert_eq!(first(&mut scripts, &next), Asked::Runs);
    // Its own record does not keep a runner out that asks again.
    assert_eq!(ask(&mut scripts, &next, "again", "-", "error"), Asked::Runs);
    assert!(finish(&mut scripts, &next, "undone", ""));
    let left: i64 = scripts.run(&["EXISTS", ONCE]);
    assert_eq!(left, 0, "a body that has failed may run again");
    assert_eq!(ask(&mut scripts, &careful, "join", "-", "error"), Asked::Runs);
    assert!(finish(&mut scripts, &careful, "interrupted", ""));
    assert_eq!(ask(&mut scripts, &dies, "0", "-", "error"), interrupted);
}

pub(crate) fn a_grant_by_a_push_is_given_back_and_tells_the_next() {
    let mut scripts = Scripts::start();
    let [_, second, third] = three(&mut scripts);
    let holder = scripts.caller(1, 30_000, "c");
    assert!(scripts.ask(&holder, "join").is_inside());
    assert_eq!(first(&mut scripts, &second), Asked::Waits);
    assert_eq!(first(&mut scripts, &third), Asked::Waits);
    // The result is there meanwhile, as far as the second one knows by itself, which is never forgotten.
    let record = format!("-|d|1790000000000|{}|host:1|7", runner(&second));
    let () = scripts.run(&["SET", ONCE, &record]);
    assert!(scripts.leave(&holder));
    let granted: Vec<_> = scripts.pushes("b").into_iter().map(|(kind, ..)| kind).collect();
    assert!(granted.contains(&"granted".to_owned()), "{granted:?}");
    assert_eq!(again(&mut scripts, &third), replayed("7", true), "it has a place");
    assert_eq!(again(&mut scripts, &second), replayed("7", true), "it has the lock");
    assert!(finish(&mut scripts, &second, "undone", ""));
    let told: Vec<_> = scripts.pushes("c").into_iter().map(|(kind, ..)| kind).collect();
    assert_eq!(told.last().map(String::as_str), Some("done"), "{told:?}");
    assert_eq!(again(&mut scripts, &third), replayed("7", false));
    let keys: Vec<String> = scripts.run(&["KEYS", "lock:k*"]);
    assert_eq!(keys, [ONCE]);
}

pub(crate) fn a_plain_waiter_behind_gets_the_lock() {
    let mut scripts = Scripts::start();
    let [runs, waits, plain] = three(&mut scripts);
    assert_eq!(first(&mut scripts, &runs), Asked::Runs);
    assert_eq!(first(&mut scripts, &waits), Asked::Waits);
    assert!(!scripts.ask(&plain, "join").is_inside());
    assert!(finish(&mut scripts, &runs, "done", "7"));
    let state = scripts.state();
    assert!(state.inside.contains_key(&plain.token) && state.waiting.is_empty(), "{state:?}");
    assert_eq!(again(&mut scripts, &waits), replayed("7", false));
    assert!(scripts.state().waiting.is_empty(), "it takes no new place");
    assert!(scripts.leave(&plain));
}

pub(crate) fn a_key_stands_for_one_request() {
    let mut scripts = Scripts::start();
    let [runs, other, _] = three(&mut scripts);
    assert_eq!(ask(&mut scripts, &runs, "join", "five", ""), Asked::Runs);
    assert_eq!(ask(&mut scripts, &other, "join", "nine", ""), Asked::Reused { kept: false });
    assert_eq!(ask(&mut scripts, &other, "join", "five", ""), Asked::Waits);
    assert_eq!(ask(&mut scripts, &other, "again", "nine", ""), Asked::Reused { kept: true });
}

pub(crate) fn a_result_that_is_ignored_counts_as_none() {
    let mut scripts = Scripts::start();
    let [runs, next, _] = three(&mut scripts);
    assert_eq!(first(&mut scripts, &runs), Asked::Runs);
    assert!(finish(&mut scripts, &runs, "done", "7"));
    // The SHA-1 of another one, and its own.
    let other = "b1d5781111d84f7b3fe45a0852e59758cd7a87e5";
    let runner = runner(&next);
    let without = |sha| ["-", DAY, &runner, "error", sha];
    assert_eq!(ask_without(&mut scripts, &next, "0", &without(other)), replayed("7", false));
    let its = "902ba3cda1883801594b6e1b452790cc53948fda";
    assert_eq!(ask_without(&mut scripts, &next, "0", &without(its)), Asked::Runs);
}

fn lasts(scripts: &mut Scripts) -> i64 {
    scripts.run(&["PTTL", ONCE])
}

pub(crate) fn a_record_lasts_for_as_long_as_its_lock_and_behind_it_for_once() {
    let mut scripts = Scripts::start();
    let [runs, other, _] = three(&mut scripts);
    let renew = |scripts: &mut Scripts, caller: &Caller, ttl: &str, how: &str| {
        let keys: &[&str] =
            if how.is_empty() { &[LOCK, ONCE] } else { &[LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, ONCE] };
        match scripts.call_with("renew_once", keys, &[&*caller.token, ttl, how, "1000", &runner(caller)]) {
            Value::Int(held) => held == 1,
            other => panic!("{other:?}"),
        }
    };
    let without = |caller: &Caller| ["-".to_owned(), "1000".to_owned(), runner(caller), "error".to_owned()];
    let of_runs = without(&runs);
    assert_eq!(
        ask_without(&mut scripts, &runs, "join", &of_runs.each_ref().map(String::as_str)),
        Asked::Runs
    );
    assert!((30_900..=31_100).contains(&lasts(&mut scripts)), "its lock lasts for 30 s");
    for (ttl, how, least) in [
        ("40000", "", 40_900),
        ("20000", "", 40_900),
        ("50000", "exactly", 50_900),
        ("10000", "exactly", 50_900),
    ] {
        assert!(renew(&mut scripts, &runs, ttl, how));
        let left = lasts(&mut scripts);
        assert!((least..=least + 200).contains(&left), "{ttl} {how}: {left}");
    }
    // The record of an earlier runner, or of a body that is done, does not change.
    let record: String = scripts.run(&["GET", ONCE]);
    for of_another in
        [record.replace(&runner(&runs), &runner(&other)), record.replacen("|s|", "|d|", 1), String::new()]
    {
        let () = scripts.run(&["SET", ONCE, &of_another, "PX", "500"]);
        assert!(renew(&mut scripts, &runs, "60000", ""), "the lock is renewed all the same");
        assert!(lasts(&mut scripts) <= 500, "{of_another}");
    }
    let _: i64 = scripts.run(&["DEL", ONCE]);
    let _: i64 = scripts.run(&["RPUSH", ONCE, "a list"]);
    assert!(renew(&mut scripts, &runs, "60000", "") && lasts(&mut scripts) == -1);
    assert!(!renew(&mut scripts, &other, "60000", "") && !renew(&mut scripts, &other, "60000", "exactly"));
}

pub(crate) fn a_result_that_is_ignored_survives_a_body_that_fails() {
    let mut scripts = Scripts::start();
    let [older, newer, late] = three(&mut scripts);
    let sha = "902ba3cda1883801594b6e1b452790cc53948fda";
    assert_eq!(first(&mut scripts, &older), Asked::Runs);
    assert!(finish(&mut scripts, &older, "done", "7"));
    let () = scripts.run(&["PEXPIRE", ONCE, "50000"]);
    let before: String = scripts.run(&["GET", ONCE]);
    let [of_newer, of_late] = [runner(&newer), runner(&late)];
    let ignores = |runner| ["-", DAY, runner, "", sha];
    for _ in 0..2 {
        assert_eq!(ask_without(&mut scripts, &newer, "join", &ignores(&of_newer)), Asked::Runs);
        assert_eq!(ask_without(&mut scripts, &newer, "join", &ignores(&of_newer)), Asked::Runs, "again");
        assert_eq!(first(&mut scripts, &older), replayed("7", false), "who can decode it has it meanwhile");
        assert!(finish(&mut scripts, &newer, "undone", ""));
        let after: String = scripts.run(&["GET", ONCE]);
        assert_eq!(after, before);
        assert!((40_000..=50_000).contains(&lasts(&mut scripts)), "it lasts as long as before");
    }
    // One that is killed, and the one behind it, which fails.
    assert_eq!(ask_without(&mut scripts, &newer, "join", &ignores(&of_newer)), Asked::Runs);
    let _: i64 = scripts.run(&["DEL", LOCK]);
    assert_eq!(first(&mut scripts, &older), replayed("7", false));
    let interrupted = ask_without(&mut scripts, &late, "join", &["-", DAY, &of_late, "error", sha]);
    assert!(matches!(interrupted, Asked::Interrupted { .. }), "{interrupted:?}");
    assert!(finish(&mut scripts, &late, "undone", ""));
    assert_eq!(ask_without(&mut scripts, &late, "join", &ignores(&of_late)), Asked::Runs);
    assert!(finish(&mut scripts, &late, "undone", ""));
    let after: String = scripts.run(&["GET", ONCE]);
    assert_eq!(after, before);
    // And one that succeeds.
    assert_eq!(ask_without(&mut scripts, &late, "join", &ignores(&of_late)), Asked::Runs);
    assert!(finish(&mut scripts, &late, "done", "8"));
    assert_eq!(first(&mut scripts, &older), replayed("8", false));
    assert!(lasts(&mut scripts) > 50_000);
}

#[test]
fn by_hand() {
    a_record_lasts_for_as_long_as_its_lock_and_behind_it_for_once();
    a_result_that_is_ignored_survives_a_body_that_fails();
    a_body_runs_once_and_those_that_wait_are_told();
    a_result_whose_lock_was_lost_is_not_stored();
    what_was_interrupted_is_an_error_where_it_is_asked_for();
    a_grant_by_a_push_is_given_back_and_tells_the_next();
    a_plain_waiter_behind_gets_the_lock();
    a_key_stands_for_one_request();
    a_result_that_is_ignored_counts_as_none();
}
