use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kit::{RedisServer, eventually, unique};
use redlocked::{LockError, LockGuard, LockManager, LostReason};

use crate::tool::{Running, Said, said, tool};

fn hold(locks: &LockManager, key: &str) -> LockGuard {
    locks.lock(key).ttl(Duration::from_secs(100)).label("test").acquire_blocking().unwrap()
}

fn me() -> String {
    let locks = LockManager::connect_blocking(format!("memory://{}", unique("me"))).unwrap();
    let _guard = hold(&locks, "k");
    locks.inspect_blocking("k").unwrap().unwrap().holder().name().unwrap().to_owned()
}

/// A process that waits for the lock until this is dropped.
fn waiter(server: &RedisServer, key: &str) -> Running {
    let before: usize = server.run(&format!("ZCARD lock:{key}%queue"));
    let waiter = Running::start(&server.url(), &["run", key, "--", "true"]);
    eventually("it waits", || server.run::<usize>(&format!("ZCARD lock:{key}%queue")) > before);
    waiter
}

#[test]
fn list_has_a_line_for_each_held_lock_sorted_by_key() {
    let server = RedisServer::start();
    let empty = said(&server.url(), &["list"]);
    assert_eq!((empty.code, &*empty.out), (Some(0), ""));
    assert_eq!(empty.err, "no locks under `lock:`: --prefix names another one\n");
    let empty = said(&server.url(), &["list", "--prefix", "shop:", "stock:*"]);
    assert_eq!(empty.err, "no locks under `shop:` match `stock:*`: --prefix names another one\n");

    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let _guards = ["stock:2", "stock:1", "cron"].map(|key| hold(&locks, key));
    let _: () = server.run("SET lock:foreign x");
    let _waiter = waiter(&server, "stock:1");

    let out = said(&server.url(), &["list"]).out;
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split('\t').collect()).collect();
    let [header, cron, foreign, one, two] = &rows[..] else { panic!("{out}") };
    assert_eq!(
        header[..],
        ["key", "holder", "function", "asked_epoch", "granted_epoch", "lease_left_ms", "waiters"]
    );
    let me = me();
    assert_eq!((cron[0], cron[1], cron[2], cron[6]), ("cron", &*me, "test", "0"));
    assert_eq!(cron[4], cron[3], "it did not wait");
    let asked: u64 = cron[3].parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 60..=now).contains(&asked), "{cron:?}");
    assert!((90_000..=100_000).contains(&cron[5].parse::<u64>().unwrap()), "{cron:?}");
    assert_eq!(foreign[..], ["foreign", "", "", "", "", "", "0"]);
    assert_eq!((one[0], one[6], two[0], two[6]), ("stock:1", "1", "stock:2", "0"));

    let out = said(&server.url(), &["list", "--no-header", "stock:?"]).out;
    assert_eq!(out.lines().count(), 2, "{out}");
    let keys = |sort: &str| {
        let out = said(&server.url(), &["list", "--no-header", "--sort", sort]).out;
        out.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys("waiters"), ["stock:1", "cron", "foreign", "stock:2"]);
    assert_eq!((&*keys("lease")[3], &*keys("held")[3]), ("foreign", "foreign"), "it has neither");
    let _: () = server.run("SET lock:foreign x PX 60000");
    assert_eq!(keys("lease")[0], "foreign");
}

#[test]
fn each_format_has_its_header_and_each_pipe_the_width_that_it_needs() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let key = "x".repeat(300);
    let _guard = hold(&locks, &key);
    for (format, header) in [("table", "KEY "), ("wide", "KEY "), ("tsv", "key\t")] {
        for command in ["list", "show"] {
            let mut arguments = vec![command, "-o", format];
            arguments.extend((command == "show").then_some(&*key));
            let out = said(&server.url(), &arguments).out;
            let lines: Vec<&str> = out.lines().collect();
            assert!(lines.len() == 2 && lines[0].starts_with(header), "{out}");
            assert!(lines[1].starts_with(&key) && !out.contains('\u{1b}'), "{out}");
            assert_eq!(out.contains("NEXT"), format == "wide", "{out}");
        }
    }
    let free = said(&server.url(), &["show", "-o", "tsv", "free"]);
    assert_eq!((free.code, &*free.out, &*free.err), (Some(1), "", "`free` is free\n"));
}

#[cfg(unix)]
#[test]
fn list_that_watches_has_a_line_for_each_change() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let first = hold(&locks, "first");
    let mut list = Running::start(&server.url(), &["list", "--watch=20ms"]);
    let mut text = String::new();
    list.until(&mut text, "\t0\n");
    let _second = hold(&locks, "second");
    list.until(&mut text, "\t0\n");
    drop(first);
    list.until(&mut text, "\t\n");
    let keys: Vec<&str> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(keys, ["key", "first", "second", "first"], "{text}");
    assert_eq!(text.lines().last(), Some("first\t\t\t\t\t\t"), "it is free");
}

#[test]
fn json_has_the_same_in_fields() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    assert_eq!(said(&server.url(), &["list", "-o", "json"]).out, "[]\n");
    let free = said(&server.url(), &["show", "-o", "json", "k"]);
    assert_eq!((free.code, &*free.out), (Some(1), "null\n"));

    let _guard = hold(&locks, "k");
    let one: serde_json::Value =
        serde_json::from_str(&said(&server.url(), &["show", "--quick", "-o", "json", "k"]).out).unwrap();
    let holder = &one["holder"];
    assert_eq!((&one["key"], &one["waiters"]), (&"k".into(), &0.into()));
    assert_eq!((&holder["name"], &holder["function"]), (&me().into(), &"test".into()));
    let asked = humantime::parse_rfc3339(holder["asked"].as_str().unwrap()).unwrap();
    assert_eq!(holder["asked_epoch"], asked.duration_since(UNIX_EPOCH).unwrap().as_secs(), "{one}");
    assert_eq!((&holder["granted"], &holder["granted_epoch"]), (&holder["asked"], &holder["asked_epoch"]));
    assert_eq!(one["queue"], serde_json::json!([]));
    assert!((90_000..=100_000).contains(&one["lease_left_ms"].as_u64().unwrap()), "{one}");
    let all: serde_json::Value =
        serde_json::from_str(&said(&server.url(), &["list", "-o", "json"]).out).unwrap();
    assert_eq!(all[0]["key"], one["key"]);
}

#[test]
fn a_lock_that_several_hold_shows_how_many_and_each_of_them() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let request = |key, label| locks.lock(key).ttl(Duration::from_secs(100)).label(label);
    let _readers =
        ["one", "two"].map(|label| request("catalogue", label).shared().acquire_blocking().unwrap());
    let _permit = request("smtp", "send").permits(5).acquire_blocking().unwrap();

    let out = said(&server.url(), &["list", "--no-header", "-o", "tsv"]).out;
    let holders: Vec<&str> = out.lines().map(|line| line.split('\t').nth(1).unwrap()).collect();
    assert_eq!(holders, ["2 readers", "1 of 5 permits"]);
    let functions: Vec<&str> = out.lines().map(|line| line.split('\t').nth(2).unwrap()).collect();
    assert_eq!(functions, ["(several)", "send"]);
    assert!(
        out.lines().all(|line| line.split('\t').nth(3).is_some_and(|asked| asked.parse::<u64>().is_ok())),
        "{out}"
    );
    let out = said(&server.url(), &["list", "--no-header", "-o", "table"]).out;
    assert!(out.contains("2 readers") && out.contains("≤ ") && out.contains("  send "), "{out}");
    assert!(out.contains(&format!("1 of 5 permits: {}", me())), "{out}");

    let out = said(&server.url(), &["show", "--quick", "catalogue"]).out;
    let me = me();
    for label in ["one", "two"] {
        assert!(
            out.contains(&format!("  {me} in {label}, asked ")) && out.contains(" ago, lease left 1 min 3"),
            "{label}: {out}"
        );
    }
    assert!(out.contains("holder:      2 readers\n"), "{out}");
    let json = said(&server.url(), &["show", "--quick", "-o", "json", "smtp"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["inside"], &json["limit"]), (&1.into(), &5.into()), "{json}");
    assert_eq!(json["holders"][0]["function"], "send", "{json}");
    assert_eq!(json["holder"]["name"], serde_json::Value::Null, "{json}");

    let _jobs = [4, 2, 1].map(|size| locks.lock("gpu").permits(10).take(size).acquire_blocking().unwrap());
    let out = said(&server.url(), &["show", "--quick", "gpu"]).out;
    assert!(out.contains("holder:      7 of 10 permits, 3 holders\n"), "{out}");
    assert!(out.contains(", 4 permits, asked ") && out.contains(", 2 permits, asked "), "{out}");
    let out = said(&server.url(), &["list", "gpu"]).out;
    assert!(out.contains("7 of 10 permits, 3 holders"), "{out}");
    let json = said(&server.url(), &["show", "--quick", "-o", "json", "gpu"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["taken"], &json["inside"], &json["limit"]),
        (&7.into(), &3.into(), &10.into()),
        "{json}"
    );

    let out = said(&server.url(), &["release", "--yes", "catalogue"]).out;
    assert_eq!(out, "released `catalogue`, which was held by 2 callers at once\n");
    assert!(locks.inspect_blocking("catalogue").unwrap().is_none());
}

#[test]
fn a_number_of_permits_is_set_shown_and_cleared() {
    let server = RedisServer::start();
    let tool = |args: &[&str]| said(&server.url(), args);
    let none = tool(&["permits", "gpu"]);
    let words = "no number of permits is set for `gpu`: those of its callers count\n";
    assert_eq!((none.code, &*none.out), (Some(1), words));
    let set = tool(&["permits", "gpu", "2"]);
    assert_eq!((set.code, &*set.out), (Some(0), "`gpu` has 2 permits from now on; none was set\n"));
    assert_eq!(tool(&["permits", "gpu"]).out, "`gpu` has 2 permits, set centrally\n");
    let locks = kit::connect(&server);
    let held = [0; 2].map(|_| locks.lock("gpu").permits(9).acquire_blocking().unwrap());
    let error = locks.lock("gpu").permits(9).acquire_blocking().unwrap_err().to_string();
    assert!(error.contains("2 of 2 permits (set centrally)"), "{error}");
    assert_eq!(tool(&["permits", "gpu", "1"]).out, "`gpu` has 1 permit from now on; it had 2\n");
    let shown = tool(&["show", "--quick", "gpu"]).out;
    assert!(shown.contains("holder:      2 of 1 permits (set centrally)\n"), "{shown}");
    let json = tool(&["show", "--quick", "-o", "json", "gpu"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["limit"], &json["limit_is_central"]), (&1.into(), &true.into()), "{json}");
    drop(held);
    let cleared = tool(&["permits", "gpu", "--clear"]);
    let words = "cleared `gpu`: it had 1 permit, and the numbers of its callers count again\n";
    assert_eq!((cleared.code, &*cleared.out), (Some(0), words));
    let again = tool(&["permits", "gpu", "--clear"]);
    assert_eq!((again.code, &*again.err), (Some(1), "no number of permits is set for `gpu`\n"));
    for wrong in
        [&["permits", "gpu", "0"][..], &["permits", "gpu", "10001"], &["permits", "gpu", "3", "--clear"]]
    {
        assert_eq!(tool(wrong).code, Some(64), "{wrong:?}");
    }
}

#[test]
fn a_holder_that_had_to_wait_shows_since_when_it_has_the_lock() {
    let server = RedisServer::start();
    let value = "AAAAAAAAAAAAAAAAAAAAAA@web-3:7/1795348434/shop::buy=1795348500!";
    let _: () = server.run(&format!("SET lock:k {value} PX 60000"));
    let _: () = server.run("SET lock:earlier AAAAAAAAAAAAAAAAAAAAAA@web-3:7/1795348499/shop::buy PX 60000");
    let out = said(&server.url(), &["show", "--quick", "k"]).out;
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[2].starts_with("granted:     ") && lines[2].ends_with(" ago, 2026-11-22T11:55:00Z"),
        "{out}"
    );
    assert!(
        lines[3].starts_with("asked:       ") && lines[3].ends_with(" ago, 2026-11-22T11:53:54Z"),
        "{out}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&said(&server.url(), &["show", "--quick", "-o", "json", "k"]).out).unwrap();
    let holder = serde_json::json!({
        "name": "web-3:7",
        "function": "shop::buy",
        "asked": "2026-11-22T11:53:54Z",
        "asked_epoch": 1_795_348_434,
        "granted": "2026-11-22T11:55:00Z",
        "granted_epoch": 1_795_348_500,
        "taken": 1,
        "lease_left_ms": json["lease_left_ms"],
    });
    assert_eq!(json["holder"], holder);
    let out = said(&server.url(), &["list", "--no-header", "--sort", "held"]).out;
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((rows[0][0], rows[1][0]), ("earlier", "k"), "by the grant");
    assert_eq!(rows[1][3..5], ["1795348434", "1795348500"]);
    let wide = said(&server.url(), &["list", "-o", "wide"]).out;
    assert!(wide.lines().any(|line| line.contains("2026-11-22T11:53:54Z  2026-11-22T11:55:00Z  ")), "{wide}");
}

#[test]
fn show_has_the_holder_and_ends_with_1_when_the_lock_is_free() {
    let server = RedisServer::start();
    let free = said(&server.url(), &["show", "k"]);
    assert_eq!((free.code, &*free.out, &*free.err), (Some(1), "`k` is free\n", ""));

    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let _guard = hold(&locks, "k");
    let (first, second) = (waiter(&server, "k"), waiter(&server, "k"));
    let held = said(&server.url(), &["show", "-q", "k"]);
    assert_eq!(held.code, Some(0));
    let lines: Vec<&str> = held.out.lines().collect();
    assert_eq!(lines[..2], ["key:         k", &format!("holder:      {} in test", me())], "{}", held.out);
    assert!(lines[2].starts_with("granted:     ") && lines[2].contains(" s ago, 20"), "{}", held.out);
    assert!(lines[3].starts_with("lease left:  ") && lines[4] == "waiters:     2", "{}", held.out);
    for (waiter, place) in [(&first, 1), (&second, 2)] {
        let line = lines[4 + place];
        assert!(line.starts_with(&format!("{place:11}  ")), "{line}");
        assert!(line.contains(&format!(":{} in true, asked ", waiter.id())), "{line}");
    }
}

#[test]
fn show_says_whether_the_holder_renews_its_lease() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    // A busy machine may be late with a renewal: by a second, here.
    let guard = locks.lock("k").ttl(Duration::from_secs(6)).acquire_blocking().unwrap();
    let renewed = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["renewed"].clone();
    let alive = said(&server.url(), &["show", "k"]).out;
    assert!(alive.contains("\nalive:       yes, it renewed its lease after "), "{alive}");
    assert_eq!(renewed(&said(&server.url(), &["show", "-o", "json", "k"]).out), true);
    drop(guard);

    // As a holder that was killed leaves it.
    let _: () = server.run("SET lock:k x PX 2000");
    let silent = said(&server.url(), &["show", "k"]).out;
    assert!(silent.contains("\nalive:       no renewal in "), "{silent}");
    let _: () = server.run("SET lock:k x PX 2000");
    assert_eq!(renewed(&said(&server.url(), &["show", "-o", "json", "k"]).out), false);
    let _: () = server.run("SET lock:k x");
    assert_eq!(renewed(&said(&server.url(), &["show", "-o", "json", "k"]).out), serde_json::Value::Null);
}

/// Others come and go meanwhile, and each makes the lock last for longer.
#[test]
fn show_says_of_each_of_several_holders_whether_it_renews_its_lease() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let reader = |ttl| locks.lock("k").shared().ttl(Duration::from_secs(ttl));
    let _alive = reader(6).label("alive").acquire_blocking().unwrap();
    let now: Vec<u64> = server.run("TIME");
    let dead = format!("{:022}@web-9:1/1790000000/dead|0|lock:%inbox:dead", 0);
    let _: u32 = server.run(&format!("ZADD lock:k%queue%holders {} {dead}", now[0] * 1000 + 5000));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                drop(reader(10).acquire_blocking());
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let out = said(&server.url(), &["show", "k"]).out;
        let json = said(&server.url(), &["show", "-o", "json", "k"]).out;
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(out.contains("\nalive:       no renewal by 1 of "), "{out}");
        assert!(out.trim_end().ends_with("Without a renewal: web-9:1 in dead"), "{out}");
        let json = serde_json::from_str::<serde_json::Value>(&json).unwrap();
        assert_eq!(json["renewed"], false, "{json}");
        for one in json["holders"].as_array().unwrap() {
            let expected = match one["function"].as_str() {
                Some("alive") => true.into(),
                Some("dead") => false.into(),
                _ => serde_json::Value::Null,
            };
            assert_eq!(one["renewed"], expected, "{json}");
        }
    });
}

#[test]
fn show_says_that_a_lock_was_just_granted() {
    let server = RedisServer::start();
    let now: Vec<u64> = server.run("TIME");
    let call = format!("{:022}@web-1:1/{}/f={}", 0, now[0] - 60, now[0]);
    let shown = |ms: u64| {
        let _: () = server.run(&format!("SET lock:k {call} PX {ms}"));
        said(&server.url(), &["show", "--quick", "k"]).out
    };
    assert!(
        shown(1000).contains(" ms, a claim until its first renewal: it has just been granted\n"),
        "{}",
        shown(1000)
    );
    assert!(!shown(20_000).contains("claim"));
}

#[test]
fn what_another_client_wrote_into_a_key_or_value_does_not_reach_the_terminal() {
    let server = RedisServer::start();
    let _: () = server.run("SET lock:\u{1b}[2J x");
    let _: () = server.run("SET lock:k AAAAAAAAAAAAAAAAAAAAAA@\u{1b}[2J:1");
    let said = said(&server.url(), &["list"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("k\t") && !said.out.contains('\u{1b}'), "{:?}", said.out);
}

#[test]
fn wait_ends_when_the_lock_is_free_or_with_1_after_its_timeout() {
    let server = RedisServer::start();
    assert_eq!(said(&server.url(), &["wait", "k"]).code, Some(0));
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let guard = hold(&locks, "k");
    let late = said(&server.url(), &["wait", "k", "--timeout", "200ms"]);
    assert_eq!(late.code, Some(1));
    assert!(late.err.contains("waiting for `k`") && late.err.contains(&me()), "{}", late.err);

    let mut waiting = Running::start(&server.url(), &["wait", "k", "--timeout", "1m 30s"]);
    // Its own connection, and those of this test.
    eventually("it is connected", || server.run::<String>("INFO clients").contains("connected_clients:3"));
    assert!(waiting.is_running());
    drop(guard);
    assert_eq!(waiting.said().code, Some(0));
}

#[test]
fn release_takes_the_lock_away_and_asks_only_on_a_terminal() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let guard = hold(&locks, "k");
    let refused = said(&server.url(), &["release", "k"]);
    assert_eq!(
        (refused.code, &*refused.err),
        (Some(64), "redlocked: there is no terminal to ask on: give --yes\n")
    );
    assert!(guard.is_held());

    let released = said(&server.url(), &["release", "--yes", "k"]);
    assert_eq!(released.out, format!("released `k`, which was held by {} in test\n", me()));
    assert_eq!(released.code, Some(0));
    eventually("the holder knows", || !guard.is_held());
    let free = said(&server.url(), &["release", "--yes", "k"]);
    assert_eq!((free.code, &*free.err), (Some(1), "redlocked: `k` is free\n"));
}

/// The second manager stands for another process: they have one name.
#[test]
fn release_ends_one_of_several_holders_by_its_name() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let job = |label: &str, size| {
        let request = locks.lock("gpu").permits(10).take(size).label(label).ttl(Duration::from_secs(600));
        request.acquire_blocking().unwrap()
    };
    let (hung, other) = (job("train", 4), job("render", 2));
    let release = |arguments: &[&str]| said(&server.url(), &[&["release"], arguments].concat());
    let refused = release(&["gpu", "--holder", &me()]);
    assert_eq!(
        (refused.code, &*refused.err),
        (Some(64), "redlocked: there is no terminal to ask on: give --yes\n")
    );
    for name in ["web-3:1", "", &format!("{} in nothing", me())] {
        let refused = release(&["--yes", "gpu", "--holder", name]);
        let words = format!("`gpu` is not held by `{name}`, but by 6 of 10 permits, 2 holders");
        assert!(refused.code == Some(1) && refused.err.contains(&words), "{}", refused.err);
    }
    assert!(hung.is_held() && other.is_held());

    let train = format!("{} in train", me());
    let released = release(&["--yes", "gpu", "--holder", &train]);
    assert_eq!(released.out, format!("released `gpu`, which was held by {train} with 4 permits\n"));
    assert_eq!(released.code, Some(0));
    eventually("it knows", || !hung.is_held());
    assert_eq!(hung.lost_reason(), Some(LostReason::Revoked));
    assert!(other.is_held());

    // All of a process.
    let next = job("train", 8);
    let released = release(&["--yes", "gpu", "--holder", &me()]);
    assert!(released.code == Some(0) && released.out.lines().count() == 2, "{}", released.out);
    eventually("they know", || !next.is_held() && !other.is_held());
    let free = release(&["--yes", "gpu", "--holder", &me()]);
    assert_eq!((free.code, &*free.err), (Some(1), "redlocked: `gpu` is free\n"));

    // One that has the lock alone.
    let guard = hold(&locks, "k");
    assert_eq!(release(&["--yes", "k", "--holder", "web-3:1"]).code, Some(1));
    assert!(guard.is_held());
    assert_eq!(release(&["--yes", "k", "--holder", &me()]).code, Some(0));
    eventually("it knows", || !guard.is_held());
}

#[cfg(unix)]
#[test]
fn watch_has_a_line_for_each_hold_that_begins_and_that_has_ended() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let guard = hold(&locks, "k");
    let mut watch = Running::start(&server.url(), &["watch", "k", "--interval", "10ms"]);
    let mut text = String::new();
    watch.until(&mut text, "\thas it\t0 waiting\n");
    guard.release_blocking().unwrap();
    // By the same process, in the same function: another hold all the same.
    let second = hold(&locks, "k");
    let mut rest = String::new();
    watch.until(&mut rest, "\thas it\t0 waiting\n");
    second.release_blocking().unwrap();
    watch.until(&mut rest, "s\t0 waiting\n");
    text += &rest;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(humantime::parse_rfc3339(fields[0]).is_ok(), "{text}");
        assert_eq!((fields[1], fields[3]), (&*format!("{} in test", me()), "0 waiting"), "{text}");
    }
    let whats: Vec<&str> = text.lines().map(|line| line.split('\t').nth(2).unwrap()).collect();
    assert_eq!((whats.len(), whats[0], whats[2]), (4, "has it", "has it"), "{text}");
    assert!(whats[1].starts_with("held it for ") && whats[3].starts_with("held it for "), "{text}");
}

#[test]
fn the_address_is_that_of_the_argument_then_of_either_variable() {
    let [argument, ours, general] = [(); 3].map(|()| RedisServer::start());
    for (server, key) in [(&argument, "a"), (&ours, "o"), (&general, "g")] {
        let _: () = server.run(&format!("SET lock:{key} x"));
    }
    let keys = |url: Option<&str>, redlock: Option<&str>, redis: &str| {
        let mut command = tool("", &["list"]);
        command.args(url.map(|url| ["--url", url]).into_iter().flatten());
        command.env("REDLOCK_URL", redlock.unwrap_or_default()).env("REDIS_URL", redis);
        Said::from(command.arg("--no-header").output().unwrap()).out.chars().next()
    };
    let [argument, ours, general] = [argument.url(), ours.url(), general.url()];
    assert_eq!(keys(Some(&argument), Some(&ours), &general), Some('a'));
    assert_eq!(keys(None, Some(&ours), &general), Some('o'));
    assert_eq!(keys(None, None, &general), Some('g'), "an empty variable does not count");
    let none = said("", &["list"]);
    assert_eq!(none.code, Some(64));
    assert!(none.err.contains("give --url, or set REDLOCK_URL or REDIS_URL"), "{}", none.err);
}

#[test]
fn the_prefix_is_that_of_the_program_that_locks() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).prefix("shop:").connect_blocking().unwrap();
    let _guard = hold(&locks, "k");
    let listed = |variable: &str, arguments: &[&str]| {
        let mut command = tool(&server.url(), arguments);
        Said::from(command.env("REDLOCK_PREFIX", variable).output().unwrap())
    };
    assert_eq!(
        listed("", &["list"]).err,
        "no locks under `lock:`, but 1 under `shop:`: give --prefix 'shop:'\n",
        "an empty variable does not count"
    );
    assert_eq!(
        listed("shop:", &["list", "--prefix", "other:"]).err,
        "no locks under `other:`, but 1 under `shop:`: give --prefix 'shop:'\n"
    );
    for listed in [
        listed("shop:", &["list"]),
        listed("other:", &["list", "--prefix", "shop:"]),
        listed("", &["list", "--prefix=shop:"]),
    ] {
        assert!(listed.out.contains("\nk\t"), "{listed:?}");
    }
}

#[test]
fn a_key_that_is_held_under_another_prefix_is_named_with_it() {
    let server = RedisServer::start();
    let locks = LockManager::builder(server.url()).prefix("shop:").connect_blocking().unwrap();
    let guard = hold(&locks, "stock:42");
    let mail = LockManager::builder(server.url()).prefix("mail:").connect_blocking().unwrap();
    let _reader = mail.lock("stock:42").shared().acquire_blocking().unwrap();
    // No lock, and another key.
    let _: () = server.run("SET cache:stock:42 x");
    let _other = hold(&locks, "stock:142");
    let others = format!(
        "nobody holds `lock:stock:42`, but `mail:stock:42` is held by 1 reader: give --prefix 'mail:'; `shop:stock:42` is \
         held by {} in test: give --prefix 'shop:'\n",
        me()
    );
    let shown = said(&server.url(), &["show", "stock:42"]);
    assert_eq!((shown.code, shown.out), (Some(1), others.clone()));
    assert_eq!(said(&server.url(), &["show", "-o", "json", "stock:42"]).out, "null\n");
    let released = said(&server.url(), &["release", "--yes", "stock:42"]);
    assert_eq!((released.code, released.err), (Some(1), format!("redlocked: {others}")));
    assert!(guard.is_held());
    assert_eq!(said(&server.url(), &["show", "stock:4"]).out, "`stock:4` is free\n");
    let found = said(&server.url(), &["release", "--yes", "--prefix", "shop:", "stock:42"]);
    assert_eq!(found.code, Some(0));
}

#[test]
fn a_list_of_nothing_counts_the_locks_under_other_prefixes() {
    let server = RedisServer::start();
    let hold_under = |prefix: &str, key: &str| {
        let locks = LockManager::builder(server.url()).prefix(prefix).connect_blocking().unwrap();
        hold(&locks, key)
    };
    let listed = |arguments: &[&str]| {
        let said = said(&server.url(), &[&["list"], arguments].concat());
        (said.code, said.out, said.err)
    };
    let nothing = |err: &str| (Some(0), String::new(), format!("{err}\n"));
    // No clock of fencing tokens is there.
    let _: () = server.run("SET cache:stock:1 x");
    assert_eq!(listed(&[]), nothing("no locks under `lock:`: --prefix names another one"));
    let guards =
        [hold_under("shop:", "stock:1"), hold_under("shop:eu:", "stock:1"), hold_under("mail:", "box")];
    assert_eq!(
        listed(&[]),
        nothing(
            "no locks under `lock:`, but 1 under `mail:`, 1 under `shop:`, 1 under `shop:eu:`: give --prefix 'mail:' or \
             'shop:' or 'shop:eu:'"
        )
    );
    let matching = "no locks under `lock:` match `b*`, but 1 under `mail:`: give --prefix 'mail:'";
    assert_eq!(listed(&["b*"]), nothing(matching));
    let none = nothing("no locks under `lock:` match `c*`: --prefix names another one");
    assert_eq!(listed(&["c*"]), none, "that is no lock");
    assert_eq!(listed(&["-o", "json"]), (Some(0), "[]\n".to_owned(), String::new()));
    drop(guards);
}

#[test]
fn a_lock_that_a_ticket_carries_is_shown_as_one() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let shown = |options: &[&str]| said(&server.url(), &[&["show", "export:7"], options].concat()).out;
    let json = || serde_json::from_str::<serde_json::Value>(&shown(&["-o", "json", "--quick"])).unwrap();
    let guard = hold(&locks, "export:7");
    assert!(!shown(&["--quick"]).contains("ticket"));
    assert_eq!(json()["ticket"], false);

    let ticket = guard.into_ticket_blocking(Duration::from_secs(60)).unwrap();
    let start = Instant::now();
    let left = shown(&[]);
    assert!(start.elapsed() < Duration::from_secs(5), "nobody renews it: there is nothing to watch");
    let expected = [
        &*format!("holder:      {} in test\n", me()),
        "ticket:      the holder has left the lock to a ticket, which nobody has redeemed\n",
        "given away:  ",
        "alive:       nobody renews the lock of a ticket: it is free when its lease ends\n",
    ];
    assert!(expected.iter().all(|line| left.contains(line)), "{left}");
    assert_eq!((json()["ticket"].clone(), json()["renewed"].clone()), (true.into(), serde_json::Value::Null));

    let guard = locks.redeem(ticket).acquire_blocking().unwrap();
    assert!(!shown(&["--quick"]).contains("ticket"));
    guard.release_blocking().unwrap();
}

#[test]
fn what_a_key_has_under_another_prefix_is_named_with_it() {
    let server = RedisServer::start();
    let tool = |arguments: &[&str]| said(&server.url(), arguments);
    let locks = LockManager::builder(server.url()).prefix("shop:").connect_blocking().unwrap();
    let free = tool(&["tick", "show", "report"]);
    assert_eq!(free.out, "no tick of `report` is recorded: its next call runs\n");
    let running = hold(&locks, "report");
    let held = format!("`shop:report` is held by {} in test: give --prefix 'shop:'\n", me());
    let shown = tool(&["tick", "show", "report"]);
    assert_eq!(
        (shown.code, shown.out),
        (Some(1), format!("no tick of `lock:report` is recorded, but {held}"))
    );
    let shown = tool(&["once", "show", "report"]);
    assert_eq!((shown.code, shown.out), (Some(1), format!("nothing is known of `lock:report`, but {held}")));
    running.release_blocking().unwrap();

    locks.lock("report").tick(Duration::from_secs(3600)).run_value_blocking(|_| ()).unwrap();
    let once = locks.lock("report").once(Duration::from_secs(60));
    once.run_blocking(|_| Ok::<_, LockError>(7)).unwrap();
    let tick = "no tick of `lock:report` is recorded, but one of `shop:report` is: give --prefix 'shop:'\n";
    let known =
        "nothing is known of `lock:report`, but something is of `shop:report`: give --prefix 'shop:'\n";
    for (command, words) in [("tick", tick), ("once", known)] {
        let shown = tool(&[command, "show", "report"]);
        assert_eq!((shown.code, &*shown.out), (Some(1), words));
        assert_eq!(tool(&[command, "show", "report", "--json"]).out, "null\n");
        let cleared = tool(&[command, "clear", "--yes", "report"]);
        assert_eq!((cleared.code, &*cleared.err), (Some(1), words));
        assert_eq!(tool(&[command, "clear", "--yes", "--prefix", "shop:", "report"]).code, Some(0));
    }

    assert_eq!(tool(&["leader", "loop"]).out, "nobody leads `loop`\n");
    let term = locks.election("loop").lead_blocking(|_| {
        let leader = "nobody leads `lock:loop`, but `shop:loop` has a leader: give --prefix 'shop:'\n";
        eventually("its record is there", || tool(&["leader", "loop"]).out == leader);
        assert_eq!(tool(&["resign", "--yes", "loop"]).err, leader);
        Ok::<_, LockError>(())
    });
    term.unwrap();
}

#[test]
fn the_exit_code_tells_an_outage_from_a_refusal_and_from_a_mistake() {
    let mut server = RedisServer::with_password("secret");
    let refused = said(&server.url().replace("secret", "wrong"), &["list"]);
    assert_eq!(refused.code, Some(78), "{}", refused.err);
    assert!(!refused.err.contains("wrong@"), "{}", refused.err);
    server.kill();
    let away = said(&server.url(), &["show", "k"]);
    assert_eq!(away.code, Some(75), "{}", away.err);
    for mistake in [
        &["lsit"][..],
        &["show"],
        &["show", ""],
        &["wait", "k", "--timeout", "5"],
        &["list", "--url", "ftp://x"],
        &[],
    ] {
        let said = said("memory://", mistake);
        assert_eq!((said.code, &*said.out), (Some(64), ""), "{mistake:?}: {}", said.err);
        assert!(!said.err.is_empty());
    }
    for asked in [&["--help"][..], &["show", "--help"], &["--version"]] {
        let said = said("", asked);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{asked:?}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let server = RedisServer::start();
    let _: () = server.run("SET lock:k x");
    let mut list =
        tool(&server.url(), &["list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(list.stdout.take());
    let said = Said::from(list.wait_with_output().unwrap());
    assert_eq!((said.code, &*said.err), (Some(0), ""));
}

#[test]
fn what_is_known_of_a_body_that_runs_once_is_shown_and_cleared() {
    let server = RedisServer::start();
    let nothing = said(&server.url(), &["once", "show", "charge:7"]);
    let text = "nothing is known of `charge:7`: its next call runs\n";
    assert_eq!((nothing.code, &*nothing.out), (Some(1), text));
    assert_eq!(said(&server.url(), &["once", "show", "charge:7", "--json"]).out, "null\n");
    let nothing = said(&server.url(), &["once", "clear", "--yes", "charge:7"]);
    assert_eq!((nothing.code, &*nothing.err), (Some(1), text));

    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let once = || locks.lock("charge:7").label("charge").once(Duration::from_secs(60));
    let shown = || said(&server.url(), &["once", "show", "charge:7"]).out;
    // A body that panics is interrupted.
    let panics = catch_unwind(AssertUnwindSafe(|| {
        once().run_blocking(|_guard| -> Result<u32, LockError> {
            assert!(shown().contains("state:      running"));
            let short = said(&server.url(), &["show", "--quick", "charge:7"]).out;
            assert!(short.contains("\nruns once:   running, since "), "{short}");
            resume_unwind(Box::new("an accident"))
        })
    }));
    assert!(panics.is_err());
    eventually("it is interrupted", || shown().contains("state:      interrupted"));
    let short = said(&server.url(), &["show", "charge:7"]).out;
    let expected =
        format!("`charge:7` is free\nruns once:   interrupted, since 0 s ago by {} in charge\n", me());
    // A busy machine takes its time.
    assert!((0..60).any(|ago| short == expected.replace("0 s", &format!("{ago} s"))), "{short}");
    let out = shown();
    for line in [format!("by:         {}", me()), "function:   charge".to_owned()] {
        assert!(out.contains(&line), "{out}");
    }
    let asks = said(&server.url(), &["once", "clear", "charge:7"]);
    assert_eq!(asks.code, Some(64), "{}", asks.err);
    let cleared = said(&server.url(), &["once", "clear", "--yes", "charge:7"]);
    assert_eq!((cleared.code, &*cleared.out), (Some(0), "cleared `charge:7`\n"));

    assert!(!once().run_blocking(|_guard| Ok::<_, LockError>(12345)).unwrap().is_replayed());
    assert!(shown().contains("state:      done") && shown().contains("result:     5 bytes"));
    let json = said(&server.url(), &["once", "show", "charge:7", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["state"], &json["result_bytes"]), (&"done".into(), &5.into()));
}

#[test]
fn the_last_tick_is_shown_and_cleared() {
    // A tick begins a little early, so an hourly one is ahead at the end of an hour.
    const YEAR: Duration = Duration::from_secs(366 * 86_400);
    let server = RedisServer::start();
    let nothing = said(&server.url(), &["tick", "show", "report"]);
    let text = "no tick of `report` is recorded: its next call runs\n";
    assert_eq!((nothing.code, &*nothing.out), (Some(1), text));
    assert_eq!(said(&server.url(), &["tick", "show", "report", "--json"]).out, "null\n");
    let nothing = said(&server.url(), &["tick", "clear", "--yes", "report"]);
    assert_eq!((nothing.code, &*nothing.err), (Some(1), text));

    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let yearly = || locks.lock("report").label("reports").tick(YEAR).run_value_blocking(|_| ());
    yearly().unwrap();
    let shown = || said(&server.url(), &["tick", "show", "report"]).out;
    let out = shown();
    for line in [&*format!("run by:     {}", me()), "function:   reports", " ago\n"] {
        assert!(out.contains(line), "{out}");
    }
    let json = said(&server.url(), &["tick", "show", "report", "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["function"], json["last_tick_epoch"].is_number()), (&"reports".into(), true));
    let asks = said(&server.url(), &["tick", "clear", "report"]);
    assert_eq!(asks.code, Some(64), "{}", asks.err);
    assert!(yearly().is_err(), "it is not cleared");

    // As a run has left it whose server was far ahead.
    let _: String = server.run("SET lock:report%queue%tick 99999999999999|");
    assert!(yearly().is_err());
    let cleared = said(&server.url(), &["tick", "clear", "--yes", "report"]);
    assert_eq!((cleared.code, &*cleared.out), (Some(0), "cleared `report`\n"));
    yearly().unwrap();
    let _: String = server
        .run(&format!("SET lock:report%queue%tick 99999999999999|{:0>22}@host:1/1790000000/m::f|1|1", 1));
    assert!(shown().contains(" ahead: ticks until then count as taken"), "{}", shown());
}

#[test]
fn a_leader_is_shown_and_its_lead_taken_away_and_that_of_no_lock() {
    let server = RedisServer::start();
    let locks = LockManager::connect_blocking(server.url()).unwrap();
    let nobody = said(&server.url(), &["leader", "loop"]);
    assert_eq!((nobody.code, &*nobody.out), (Some(1), "nobody leads `loop`\n"));
    assert_eq!(said(&server.url(), &["leader", "loop", "--json"]).out, "null\n");
    assert_eq!(said(&server.url(), &["resign", "loop", "--yes"]).code, Some(1));

    let held = hold(&locks, "loop");
    let lock = said(&server.url(), &["resign", "loop", "--yes"]);
    assert_eq!(lock.code, Some(1));
    assert!(lock.err.contains("by no leader") && held.is_held(), "{}", lock.err);
    assert!(said(&server.url(), &["leader", "loop"]).out.contains("term:       not known"));
    drop(held);

    let mut terms = Vec::new();
    let election = locks.election("loop").announce("10.0.0.5:8080");
    let outcome = election.lead_blocking(|term| {
        terms.push(term.fencing_token());
        if terms.len() > 1 {
            return Ok::<_, LockError>(());
        }
        let is_announced = || {
            locks
                .election("loop")
                .leader_blocking()
                .unwrap()
                .is_some_and(|leader| leader.fencing_token().is_some())
        };
        eventually("it has announced itself", is_announced);
        let shown = said(&server.url(), &["leader", "loop"]).out;
        for line in [format!("leader:     {}", me()), format!("term:       {}", term.fencing_token())] {
            assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
        }
        assert!(
            shown.contains("announced:  10.0.0.5:8080\n") && shown.contains("\nlease left: 2"),
            "{shown}"
        );
        assert!(shown.ends_with(" s\n"), "{shown}");
        let json = said(&server.url(), &["leader", "loop", "--json"]).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["term"], &json["leader"]), (&term.fencing_token().into(), &me().into()));
        assert_eq!(said(&server.url(), &["resign", "loop", "--yes"]).code, Some(0));
        eventually("the leader is told", || !term.is_leading());
        Ok(())
    });
    outcome.unwrap();
    assert!(terms.len() == 2 && terms.is_sorted());
}
