use kit::{Authority, RedisServer, TlsServer};

use crate::tool::{Said, said, tool};

/// The state of each check.
fn states(url: &str) -> (Option<i32>, Vec<(String, String)>, String) {
    let said = said(url, &["doctor", "-o", "json"]);
    let checks: Vec<serde_json::Value> = serde_json::from_str(&said.out).unwrap();
    let text = |check: &serde_json::Value, field: &str| check[field].as_str().unwrap().to_owned();
    let states = checks.iter().map(|check| (text(check, "check"), text(check, "state"))).collect();
    (said.code, states, said.out)
}

#[test]
fn ping_says_that_a_server_takes_locks_or_why_not() {
    let mut server = RedisServer::start();
    let takes = said(&server.url(), &["ping"]);
    assert_eq!((takes.code, &*takes.err), (Some(0), ""));
    assert!(takes.out.starts_with("takes locks, answered in "), "{}", takes.out);
    let _: () = server.run("CONFIG SET maxmemory 1");
    let _: () = server.run("CONFIG SET maxmemory-policy noeviction");
    let full = said(&server.url(), &["ping"]);
    assert_eq!((full.code, &*full.out), (Some(78), ""), "{}", full.err);
    server.kill();
    assert_eq!(said(&server.url(), &["ping"]).code, Some(75));
}

#[test]
fn doctor_finds_nothing_missing_on_a_server_without_rules() {
    let server = RedisServer::start();
    let (code, states, out) = states(&server.url());
    let names: Vec<&str> = states.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["address", "connection", "writes", "lock", "hand-over", "loss", "list"]);
    assert!(states.iter().all(|(_, state)| state == "ok"), "{out}");
    assert_eq!(code, Some(0));
    assert!(server.keys().is_empty(), "its lock is released");
    assert!(out.contains("that of REDLOCK_URL; keys start with `lock:`"), "{out}");
}

#[test]
fn doctor_names_what_rules_forbid_and_what_to_do() {
    let server = RedisServer::start();
    let user = |rules: &str| {
        let line = format!("ACL SETUSER shop on >secret resetchannels ~lock:* &lock:* +@all {rules}");
        let _: () = server.run(&line);
        server.url().replace("redis://", "redis://shop:secret@")
    };
    let missing = |rules: &str| {
        let (code, states, out) = states(&user(rules));
        let missing = states.into_iter().filter(|(_, state)| state != "ok");
        (code, missing.collect::<Vec<_>>(), out)
    };
    let one = |name: &str| vec![(name.to_owned(), "missing".to_owned())];
    let (code, states, out) = missing("-zadd");
    assert_eq!((code, states), (Some(1), one("hand-over")), "{out}");
    assert!(out.contains("it refuses ZADD") && out.contains("+zadd"), "{out}");
    let (code, states, out) = missing("-client|tracking");
    assert_eq!((code, states), (Some(1), one("loss")), "{out}");
    let (code, states, out) = missing("-scan");
    assert_eq!((code, states), (Some(1), one("list")), "{out}");
    let (code, states, out) = missing("-pexpire");
    assert_eq!((code, states), (Some(78), vec![("connection".to_owned(), "fails".to_owned())]), "{out}");
    assert!(out.contains("PEXPIRE") && !out.contains("secret"), "{out}");
}

#[test]
fn doctor_says_which_address_it_cannot_use() {
    let none = states("");
    assert_eq!((none.0, none.1.last()), (Some(64), Some(&("address".to_owned(), "fails".to_owned()))));
    let wrong = states("ftp://x");
    assert_eq!((wrong.0, wrong.1.last()), (Some(64), Some(&("address".to_owned(), "fails".to_owned()))));
}

#[test]
fn an_authority_of_ones_own_is_given_as_a_file() {
    let authority = Authority::new();
    authority.vouch_for("server", "DNS:localhost,IP:127.0.0.1");
    let server = TlsServer::start(&authority, "no");
    let url = server.url("rediss", "127.0.0.1");
    let ca = crate::tool::Scratch::new();
    std::fs::write(ca.path(), authority.pem("ca.pem")).unwrap();
    assert_eq!(said(&url, &["ping"]).code, Some(78), "the system does not trust it");
    let takes = said(&url, &["ping", "--ca", ca.path()]);
    assert_eq!((takes.code, &*takes.err), (Some(0), ""));
    let gone = said(&url, &["ping", "--ca", "/no/such/file.pem"]);
    assert_eq!(gone.code, Some(64));
    assert!(gone.err.starts_with("redlocked: cannot read --ca /no/such/file.pem: "), "{}", gone.err);
}

#[test]
fn a_server_that_may_evict_is_read_from_and_the_rest_needs_a_word() {
    let server = RedisServer::start();
    let _: () = server.run("CONFIG SET maxmemory 100mb");
    let _: () = server.run("CONFIG SET maxmemory-policy allkeys-lru");
    let _: () = server.run("SET lock:k x PX 60000");
    for (reads, code) in [
        ("list", 0),
        ("show --quick k", 0),
        ("ping", 0),
        ("wait k --timeout 1ms", 1),
        ("leader k", 0),
        ("once show k", 1),
        ("tick show k", 1),
        ("permits k", 1),
    ] {
        let said = said(&server.url(), &reads.split(' ').collect::<Vec<_>>());
        assert_eq!(said.code, Some(code), "{reads}: {}", said.err);
    }
    #[cfg(unix)]
    let more = ["run free -- true"];
    #[cfg(not(unix))]
    let more = [];
    for changes in
        ["release --yes k", "once clear --yes k", "tick clear --yes k", "permits k 3"].into_iter().chain(more)
    {
        let words: Vec<_> = changes.split(' ').collect();
        let refused = said(&server.url(), &words);
        assert_eq!(refused.code, Some(78), "{changes}: {}", refused.err);
        assert!(
            refused.err.contains("allkeys-lru") && refused.err.contains("--allow-eviction"),
            "{}",
            refused.err
        );
        let accepted = |mut command: std::process::Command| Said::from(command.output().unwrap());
        let mut by_variable = tool(&server.url(), &words);
        by_variable.env("REDLOCK_ALLOW_EVICTION", "true");
        let by_flag = tool(&server.url(), &[&["--allow-eviction"], &*words].concat());
        let by_address = tool(&format!("{}?allow_eviction=true", server.url()), &words);
        for accepted in [by_variable, by_flag, by_address].map(accepted) {
            assert!(matches!(accepted.code, Some(0 | 1)), "{changes}: {}", accepted.err);
        }
    }
    let mut mistaken = tool(&server.url(), &["release", "--yes", "k"]);
    mistaken.env("REDLOCK_ALLOW_EVICTION", "1");
    assert_eq!(mistaken.output().unwrap().status.code(), Some(64));

    let (code, states, out) = states(&server.url());
    let failing: Vec<_> = states.iter().filter(|(_, state)| state != "ok").collect();
    assert_eq!((code, failing), (Some(78), vec![&("eviction".to_owned(), "fails".to_owned())]), "{out}");
    assert!(out.contains("\"check\":\"lock\""), "it goes on: {out}");
}
