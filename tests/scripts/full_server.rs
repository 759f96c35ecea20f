//! Each script on a full server: what gives a lock back frees it, and what is refused changes nothing.
//!
//! The list of the scripts is that of the engine, so a new script without a case here fails the test.

use std::collections::BTreeMap;

use kit::RedisServer;
use redis::Value;

use crate::by_hand::{all_scripts, source};

const LOCK: &str = "lock:k";
const QUEUE: &str = "lock:k%queue";
const CLOCK: &str = "lock:%clock";
const CLAIM: &str = "lock:k%queue%claim";
const HOLDERS: &str = "lock:k%queue%holders";
const PERMITS: &str = "lock:k%queue%permits";
const TICK: &str = "lock:k%queue%tick";
const ONCE: &str = "lock:k%queue%once";
const LEADER: &str = "lock:k%queue%leader";

const OURS: &str = "0000000000000000000001@host:1/1790000000/m::f";
const OTHER: &str = "0000000000000000000002@host:2/1790000000/m::f";
/// Someone listens there.
const INBOX: &str = "inbox";
const DAY: &str = "86400000";
/// A time behind which each record is still kept.
const TICK_TIME: &str = "99999999999999";

/// One call of a script.
struct Case {
    what: &'static str,
    /// What is on the server before it is full.
    before: Vec<Vec<String>>,
    keys: Vec<&'static str>,
    arguments: Vec<String>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// The lock is free: nobody waits for it.
    Frees,
    /// The first waiter has the lock.
    HandsOver,
    /// It is done as on any server: it needs no memory, or begins with what is always allowed.
    IsDone,
    /// It is refused, and nothing is changed.
    IsRefused,
}

fn case(
    what: &'static str,
    before: &[&[&str]],
    keys: &[&'static str],
    arguments: &[&str],
    then: Then,
) -> Case {
    let owned = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Case {
        what,
        before: before.iter().map(owned).collect(),
        keys: keys.to_vec(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        then,
    }
}

fn joined<'a>(some: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [some, more].concat()
}

/// What each script is called with. One that gives something back has a case for each way.
#[expect(clippy::too_many_lines, reason = "one arm for each script")]
fn cases(script: &str) -> Vec<Case> {
    use Then::{Frees, HandsOver, IsDone, IsRefused};
    const KEYS: &[&str] = &[LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS];
    const OF_TICK: &[&str] = &[LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, TICK];
    const OF_ONCE: &[&str] = &[LOCK, QUEUE, CLOCK, CLAIM, HOLDERS, PERMITS, ONCE];
    let held: &[&str] = &["SET", LOCK, OURS, "PX", "10000"];
    let marked_value = format!("{OURS}!");
    let marked: &[&str] = &["SET", LOCK, &marked_value, "PX", "10000"];
    let place = format!("{OTHER}|10000|{INBOX}");
    let waiter: &[&str] = &["ZADD", QUEUE, "1790000000000000", &place];
    let counted: &[&str] = &["SET", LOCK, "%holders|2|1790000000000000", "PX", "20000"];
    let member = format!("{OURS}|2|{INBOX}");
    let inside: &[&str] = &["ZADD", HOLDERS, TICK_TIME, &member];
    let ours_of_tick = format!("{TICK_TIME}|{OURS}");
    let recorded: &[&str] = &["SET", TICK, &ours_of_tick, "PX", DAY];
    let ours_of_once = format!("-|s|1790000000000|{:0>32}|host:1/1790000000/m::f|", 1);
    let started: &[&str] = &["SET", ONCE, &ours_of_once, "PX", DAY];
    let plain = [OURS, "10000", "0", INBOX, "0", "", ""];
    let of_counted = [OURS, "10000", "0", INBOX, "0", "", "n2"];
    let runner = format!("{:0>32}", 1);
    match script {
        "acquire" => vec![case("a free lock", &[], &KEYS[..4], &plain, IsRefused), {
            let joins = [OURS, "10000", "join", INBOX, "100", "", ""];
            case("a queue", &[&["SET", LOCK, OTHER, "PX", "10000"]], &KEYS[..4], &joins, IsRefused)
        }],
        "acquire_all" => {
            let keys = [LOCK, QUEUE, CLAIM, HOLDERS, PERMITS, CLOCK];
            vec![case("one of one", &[], &keys, &[INBOX, "", OURS, "10000", "0", "100"], IsRefused)]
        }
        "acquire_once" => {
            let arguments = [OURS, "10000", "0", INBOX, "100", "", "once", "-", DAY, &runner, ""];
            vec![case("a free lock", &[], OF_ONCE, &arguments, IsRefused)]
        }
        "tick" => {
            let of_tick = ["", "3600000", "0", DAY, DAY, "record"];
            vec![case("a free lock", &[], OF_TICK, &joined(&plain, &of_tick), IsRefused)]
        }
        "acquire_counted" => vec![case("a free lock", &[], KEYS, &of_counted, IsRefused)],
        "vote" => {
            vec![case("a free lock", &[], &[LOCK, CLOCK], &[OURS, "10000", "1790000000000000"], IsRefused)]
        }
        "repair" => vec![
            case("a free lock", &[], &[LOCK], &[OURS, "10000"], IsRefused),
            case("its own lock", &[held], &[LOCK], &[OURS, "20000"], IsDone),
        ],
        "raise_fence" | "reserve" => {
            vec![case("its own lock", &[held], &[LOCK, CLOCK], &[OURS, "7"], IsRefused)]
        }
        "draw" => {
            vec![case("its own lock", &[held], &KEYS[..4], &[OURS, "10000", "0", "", "0", ""], IsRefused)]
        }
        "redeem" => {
            let with_ticket = [OURS, "10000", "0", INBOX, "0", "", "", OTHER];
            vec![case(
                "a ticket",
                &[&["SET", LOCK, OTHER, "PX", "10000"]],
                &KEYS[..4],
                &with_ticket,
                IsRefused,
            )]
        }
        "announce" => vec![
            case("a record", &[held], &[LOCK, LEADER], &[OURS, "20000", "5", "7", "here"], IsRefused),
            case("no record", &[held, &["SET", LEADER, "x"]], &[LOCK, LEADER], &[OURS, "0"], IsDone),
        ],
        "renew" => vec![
            case("its own lock", &[held], &[LOCK], &[OURS, "20000"], IsDone),
            case("exactly", &[marked, waiter], &KEYS[..4], &[OURS, "5000", "exactly"], IsDone),
            case("to a ticket", &[marked, waiter], &KEYS[..4], &[OURS, "5000", "ticket"], IsDone),
        ],
        "renew_all" => vec![case("its own lock", &[held], &[LOCK], &[OURS, "20000"], IsDone)],
        "renew_counted" => vec![case(
            "inside",
            &[counted, inside],
            &[LOCK, HOLDERS],
            &[OURS, "20000", "", INBOX, "n2"],
            IsDone,
        )],
        "expire_counted" => {
            let ends = [OURS, "5000", "exactly", INBOX, "0", "", "n2"];
            vec![case("inside", &[counted, inside], KEYS, &ends, IsDone)]
        }
        "downgrade" => {
            let downgrades = [OURS, "20000", "1790000000000000", INBOX, "10000", "", "n0", ""];
            let reader = format!("{OTHER}|10000|{INBOX}|n0");
            let reader: &[&str] = &["ZADD", QUEUE, "1790000000000000", &reader];
            let member = format!("{OURS}|0|{INBOX}");
            let inside: &[&str] = &["ZADD", HOLDERS, TICK_TIME, &member];
            let shared: &[&str] = &["SET", LOCK, "%holders|0|1790000000000000", "PX", "200000000000000"];
            vec![
                case("its own lock", &[held], KEYS, &downgrades, IsDone),
                case("a lock with a reader that waits", &[marked, reader], KEYS, &downgrades, IsDone),
                case("once more", &[shared, inside, reader], KEYS, &downgrades, IsDone),
            ]
        }
        "pass_on" => {
            let passes = [OURS, "20000", "", INBOX, "", OTHER];
            vec![case("its own lock", &[held], &KEYS[..4], &passes, IsDone)]
        }
        "set_permits" => {
            let sets = |to| [to, "", "", "", "", ""];
            let before: &[&str] = &["SET", PERMITS, "1"];
            vec![
                case("a number", &[counted, inside, before], KEYS, &sets("2"), IsRefused),
                case("no number", &[counted, inside, before, waiter], KEYS, &sets(""), IsDone),
            ]
        }
        "inspect" => vec![case("a lock", &[held], &[LOCK, QUEUE, HOLDERS, PERMITS], &[], IsDone)],
        "leader" => vec![case("a lock", &[held], &[LOCK, LEADER], &[], IsDone)],
        "watch" => vec![case("a lock", &[held], &[LOCK], &[OURS], IsDone)],
        "delete" | "give_up" => vec![case("its own lock", &[held], &[LOCK], &[OURS], Frees)],
        "take_away" => {
            let digits: Vec<_> = OURS.bytes().map(|byte| format!("{byte:02x}")).collect();
            let digits = digits.concat();
            vec![case("a lock", &[held], &[LOCK], &[&digits], Frees)]
        }
        "force_release" => vec![
            case("a lock", &[held], KEYS, &["", "0", "0", "", "0", ""], Frees),
            case("a lock with a waiter", &[marked, waiter], KEYS, &["", "0", "0", "", "0", ""], HandsOver),
        ],
        "release" => vec![
            case("its own lock", &[held], &KEYS[..4], &plain, Frees),
            case("a lock with a waiter", &[marked, waiter], &KEYS[..4], &plain, HandsOver),
        ],
        "release_counted" => vec![
            case("the last one inside", &[counted, inside], KEYS, &of_counted, Frees),
            case("a lock with a waiter", &[counted, inside, waiter], KEYS, &of_counted, HandsOver),
        ],
        "revoke" => {
            let revokes = [OURS, "0", "0", INBOX, "", ""];
            vec![
                case("the last one inside", &[counted, inside], KEYS, &revokes, Frees),
                case("a lock with a waiter", &[counted, inside, waiter], KEYS, &revokes, HandsOver),
            ]
        }
        "end_tick" | "give_up_tick" => {
            let ends = ["record", TICK_TIME, DAY, "5"];
            let undoes = ["undo", "", DAY, "5"];
            let mut cases = vec![
                case("a tick that was run", &[held], OF_TICK, &joined(&plain, &ends), Frees),
                case(
                    "a tick that was run, behind another one",
                    &[held, recorded],
                    OF_TICK,
                    &joined(&plain, &ends),
                    Frees,
                ),
                case("no body has begun", &[held, recorded], OF_TICK, &joined(&plain, &undoes), Frees),
                case(
                    "no body has begun, and the lock is gone",
                    &[recorded],
                    OF_TICK,
                    &joined(&plain, &undoes),
                    Frees,
                ),
            ];
            if script == "end_tick" {
                let waits: &[&[&str]] = &[marked, waiter, recorded];
                cases.push(case(
                    "a waiter, a tick that was run",
                    waits,
                    OF_TICK,
                    &joined(&plain, &ends),
                    HandsOver,
                ));
                cases.push(case(
                    "a waiter, no body has begun",
                    waits,
                    OF_TICK,
                    &joined(&plain, &undoes),
                    HandsOver,
                ));
            }
            cases
        }
        "renew_once" => vec![
            case(
                "a body that runs",
                &[held, started],
                &[LOCK, ONCE],
                &[OURS, "20000", "", DAY, &runner],
                IsDone,
            ),
            case(
                "to an earlier time",
                &[held, started],
                OF_ONCE,
                &[OURS, "5000", "exactly", DAY, &runner],
                IsDone,
            ),
        ],
        "finish" | "finish_alone" => {
            let mut cases = Vec::new();
            for (what, how) in [("a result", "done"), ("a failure", "undone"), ("interrupted", "interrupted")]
            {
                let of_once = [OURS, "10000", "0", INBOX, "0", "", "once", "-", DAY, &runner, how, "result"];
                cases.push(case(what, &[held, started], OF_ONCE, &of_once, Frees));
                cases.push(case(what, &[held], OF_ONCE, &of_once, Frees));
                if script == "finish" {
                    cases.push(case(what, &[marked, waiter, started], OF_ONCE, &of_once, HandsOver));
                }
            }
            cases
        }
        _ => Vec::new(),
    }
}

/// Each key with its value, and how long it lasts, to a minute.
fn dump(server: &RedisServer) -> BTreeMap<String, (String, i64)> {
    let read = |key: String| {
        let value = match &*server.run::<String>(&format!("TYPE {key}")) {
            "zset" => server.run::<Vec<String>>(&format!("ZRANGE {key} 0 -1 WITHSCORES")).join(" "),
            _ => server.run(&format!("GET {key}")),
        };
        let lasts: i64 = server.run(&format!("PTTL {key}"));
        (key, (value, (lasts + 30_000) / 60_000))
    };
    server.keys().into_iter().map(read).collect()
}

#[test]
pub(crate) fn on_a_full_server_each_script_frees_what_it_releases_and_changes_nothing_where_it_is_refused() {
    let server = RedisServer::start();
    let mut client = server.client();
    let mut listener = server.client();
    let mut listener = listener.as_pubsub();
    listener.subscribe(INBOX).unwrap();
    let scripts = all_scripts();
    let without: Vec<_> = scripts.iter().filter(|script| cases(script).is_empty()).collect();
    assert!(without.is_empty(), "scripts without a case: {without:?}");
    for script in &scripts {
        for Case { what, before, keys, arguments, then } in cases(script) {
            let what = format!("{script}: {what}");
            let _: String = server.run("FLUSHALL");
            for words in before {
                redis::cmd(&words[0]).arg(&words[1..]).exec(&mut client).unwrap();
            }
            let left_before = dump(&server);
            let _: String = server.run("CONFIG SET maxmemory 1");
            let code = redis::Script::new(&source(script));
            let mut call = code.prepare_invoke();
            for key in keys {
                call.key(key);
            }
            for argument in &arguments {
                call.arg(argument);
            }
            let answer: Result<Value, _> = call.invoke(&mut client);
            let _: String = server.run("CONFIG SET maxmemory 0");
            let left = dump(&server);
            match then {
                Then::IsRefused => {
                    assert!(answer.is_err_and(|error| error.to_string().contains("maxmemory")), "{what}");
                    assert_eq!(left, left_before, "{what}");
                }
                Then::IsDone => assert!(answer.is_ok(), "{what}: {answer:?}"),
                Then::Frees => {
                    assert!(answer.is_ok(), "{what}: {answer:?}");
                    let rest: Vec<_> =
                        left.keys().filter(|key| ![TICK, ONCE, CLOCK].contains(&&***key)).collect();
                    assert!(rest.is_empty(), "{what}: {left:?}");
                }
                Then::HandsOver => {
                    assert!(answer.is_ok(), "{what}: {answer:?}");
                    let holder = left.get(LOCK).map(|(value, _)| value.starts_with(OTHER));
                    assert_eq!(holder, Some(true), "{what}: {left:?}");
                }
            }
        }
    }
}
