//! The smallest set of access rules that works, and which feature stops without each rule.

use std::collections::HashMap;
use std::thread;
use std::time::Instant;

use kit::{
    LIMIT, MASTER, RedisCluster, RedisServer, SECOND, connect_to, eventually, next_leader, owns, runtime,
    sentinel, unique, within,
};
use redis::FromRedisValue;
use redlocked::election::LeadError;
use redlocked::{
    Capabilities, LockError, LockGuard, LockKey, LockManager, LockManagerBuilder, ReleaseOutcome,
};

/// Which feature stops without a rule.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Without {
    /// Connecting fails; the error names the command.
    Connecting,
    /// Another call fails; the error names the command.
    Something,
    HandOff,
    Watching,
    /// No feature stops: the library uses another command.
    Nothing,
}

impl Without {
    /// The phrase in `docs/access-rules.md`.
    fn words(self) -> &'static str {
        match self {
            Self::Connecting => "Connecting fails",
            Self::Something => "fails with `Misconfigured`",
            Self::HandOff => "No hand-off",
            Self::Watching => "shows at the next renewal",
            Self::Nothing => "",
        }
    }
}

/// The users' documentation of the rules.
const PAGE: &str = include_str!("../../docs/access-rules.md");

const RULES: &[(&str, Without)] = &[
    ("+role", Without::Connecting),
    ("+info", Without::Connecting),
    ("+eval", Without::Connecting),
    ("+evalsha", Without::Connecting),
    ("+get", Without::Connecting),
    ("+getrange", Without::Nothing),
    ("+set", Without::Connecting),
    ("+del", Without::Connecting),
    ("+exists", Without::Connecting),
    ("+pexpire", Without::Connecting),
    ("+pttl", Without::Connecting),
    ("+incr", Without::Connecting),
    ("+time", Without::Connecting),
    ("+scan", Without::Something),
    ("+subscribe", Without::HandOff),
    ("+publish", Without::HandOff),
    ("+pubsub|numsub", Without::HandOff),
    ("+zadd", Without::HandOff),
    ("+zcard", Without::Something),
    ("+zpopmin", Without::HandOff),
    ("+zrange", Without::HandOff),
    ("+zrank", Without::HandOff),
    ("+zrem", Without::HandOff),
    ("+zscore", Without::HandOff),
    ("+client|tracking", Without::Watching),
    ("+client|caching", Without::Watching),
    ("+client|info", Without::Nothing),
    ("+client|kill", Without::Nothing),
];

#[test]
fn the_page_grants_these_rules_in_one_line() {
    let rules: Vec<&str> = RULES.iter().map(|(rule, _)| *rule).collect();
    let line = format!("ACL SETUSER shop on >password resetchannels ~lock:* &lock:* {}", rules.join(" "));
    assert!(PAGE.lines().any(|it| it == line), "{line}");
}

#[test]
fn the_page_says_what_is_missing_without_each_rule() {
    let (one_server, cluster) = PAGE.split_once("\n## A Cluster\n").unwrap();
    for (part, rules) in
        [(one_server, RULES), (one_server, RULES_OF_A_TOPOLOGY), (cluster, RULES_IN_A_CLUSTER)]
    {
        for (rule, without) in rules {
            let permission = format!("`{}`", rule.replace('|', "\\|"));
            let row = part.lines().find(|line| line.starts_with('|') && line.contains(&permission));
            assert!(row.is_some_and(|row| row.contains(without.words())), "{rule}: {without:?}: {row:?}");
        }
    }
}

/// The rules that a Cluster needs in addition, or for another reason.
const RULES_IN_A_CLUSTER: &[(&str, Without)] = &[
    ("+cluster|slots", Without::Connecting),
    ("+ssubscribe", Without::Nothing),
    ("+spublish", Without::Nothing),
    ("+pubsub|shardnumsub", Without::Nothing),
    ("+subscribe", Without::Nothing),
    ("+publish", Without::Nothing),
];

/// The rules that another database, `replicas` and a quorum need in addition.
const RULES_OF_A_TOPOLOGY: &[(&str, Without)] =
    &[("+select", Without::Connecting), ("+wait", Without::Something), ("+getset", Without::Something)];

/// No feature stops without these, and not each version has them all: without one that it has,
/// connecting leaves an entry in its `ACL LOG`.
const RULES_OF_A_VERSION: &str = "+client|setname +client|setinfo +delifeq +delex";

/// Needed while a slot moves.
const ASKING: &str = "+asking";

/// A user with all rules but one, on a new server.
fn user(without: Option<&str>, keys: &str, channels: &str) -> (RedisServer, String) {
    let server = RedisServer::start();
    let rules: Vec<_> = RULES.iter().map(|(rule, _)| *rule).filter(|rule| Some(*rule) != without).collect();
    let more = server.known_rules(RULES_OF_A_VERSION);
    let rules = format!("{} {more}", rules.join(" "));
    let _: String =
        server.run(&format!("ACL SETUSER shop on >secret resetchannels {keys} {channels} {rules}"));
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
    (server, url)
}

/// Calls every operation that this server supports. The server has the key `k`.
fn everything(server: &RedisServer, url: &str, prefix: &str) -> Result<Capabilities, LockError> {
    // Many of these run beside each other, and a busy server needs more than a second for an answer.
    let connect = || LockManager::builder(url).prefix(prefix).io_timeout(4 * SECOND).connect_blocking();
    let (locks, others) = (connect()?, connect()?);
    let capabilities = locks.capabilities_blocking()?;

    locks.lock("k").acquire_blocking()?.release_blocking()?;
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking()?;
    assert!(guard.fencing_token() > 0);
    guard.extend_blocking(1000 * SECOND)?;
    assert!(matches!(
        others.lock("k").acquire_blocking(),
        Err(LockError::Busy { .. } | LockError::Unavailable { .. } | LockError::Misconfigured { .. })
    ));
    assert!(locks.inspect_blocking("k")?.is_some());
    assert!(locks.inspect_blocking("other")?.is_none());
    assert_eq!(kit::listed(&locks, "*")?, ["k"]);
    let request = others.lock("k").ttl(1000 * SECOND).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking());
    if capabilities.hands_over() {
        eventually("the waiter is queued", || locks.inspect_blocking("k").unwrap().unwrap().waiters() == 1);
    }
    assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    let guard = waiter.join().unwrap()?;

    if capabilities.tracks_changes() {
        let watched = || !server.run::<String>("INFO stats").contains("tracking_total_keys:0");
        eventually("the server tracks the key", watched);
        let _: i32 = server.run(&format!("DEL {prefix}k"));
        eventually("the holder learns of the loss", || !guard.is_held());
        assert_eq!(guard.release_blocking()?, ReleaseOutcome::AlreadyLost);
    } else {
        assert!(locks.force_release_blocking("k")?.is_some());
    }
    runtime().block_on(leads(&locks, &others, capabilities))?;
    Ok(capabilities)
}

/// One leads and announces itself, the other sees it, and leads next.
async fn leads(
    locks: &LockManager,
    others: &LockManager,
    capabilities: Capabilities,
) -> Result<(), LockError> {
    let (election, candidate) = (locks.election("led").announce("here"), others.election("led"));
    let mut changes = candidate.observe();
    let led = election.lead(async |term| {
        // The server refuses no record of a leader whose lock it has granted.
        let start = Instant::now();
        let leader = loop {
            let leader = candidate.leader().await?.filter(|leader| leader.fencing_token().is_some());
            if let Some(leader) = leader {
                break leader;
            }
            assert!(start.elapsed() < LIMIT, "the leader announces itself");
        };
        assert_eq!((leader.fencing_token(), leader.announced()), (Some(term.fencing_token()), Some("here")));
        match next_leader(&mut changes).await {
            Ok(seen) => assert!(capabilities.tracks_changes() && seen.is_some()),
            Err(error) => assert!(!capabilities.tracks_changes(), "{error:?}"),
        }
        Ok::<_, LockError>(term.fencing_token())
    });
    let of_lock = |error| match error {
        LeadError::Lock(error) | LeadError::Body(error) => error,
    };
    let first = led.await.map_err(of_lock)?;
    let second =
        candidate.lead(async |term| Ok::<_, LockError>(term.fencing_token())).await.map_err(of_lock)?;
    assert!(second > first && election.leader().await?.is_none());
    Ok(())
}

#[test]
fn the_smallest_rules_are_enough_for_everything() {
    let (server, url) = user(None, "~lock:*", "&lock:*");
    let capabilities = everything(&server, &url, "lock:").unwrap();
    assert!(capabilities.hands_over() && capabilities.tracks_changes());
    let denied: Vec<redis::Value> = server.run("ACL LOG");
    assert!(denied.is_empty(), "{denied:?}");
}

#[test]
fn counted_locks_need_no_rule_of_their_own() {
    let (server, url) = user(None, "~lock:*", "&lock:*");
    let connect = |url: &str| connect_to(url);
    let (locks, others) = (connect(&url), connect(&url));
    let guards = [&locks, &others].map(|locks| locks.lock("k").permits(2).acquire_blocking().unwrap());
    let request = others.lock("k").permits(2).wait(LIMIT);
    let waiter = thread::spawn(move || request.acquire_blocking());
    eventually("the waiter is queued", || locks.inspect_blocking("k").unwrap().unwrap().waiters() == 1);
    assert_eq!(locks.set_permits_blocking("k", 3).unwrap(), None);
    drop(waiter.join().unwrap().unwrap());
    for guard in guards {
        guard.extend_blocking(1000 * SECOND).unwrap();
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
    assert_eq!(locks.permits_blocking("k").unwrap(), Some(3));
    assert_eq!(locks.clear_permits_blocking("k").unwrap(), Some(3));
    let writer = locks.lock("k").wait(LIMIT).acquire_blocking().unwrap();
    let request = others.lock("k").shared().wait(LIMIT);
    let reader = thread::spawn(move || request.acquire_blocking());
    eventually("the reader is queued", || locks.inspect_blocking("k").unwrap().unwrap().waiters() == 1);
    writer.downgrade_blocking().unwrap();
    drop(reader.join().unwrap().unwrap());
    let denied: Vec<redis::Value> = server.run("ACL LOG");
    assert!(denied.is_empty(), "{denied:?}");
}

/// What a lock needs that several callers may have.
const COUNTING: [&str; 5] = ["+zadd", "+zcard", "+zrange", "+zrem", "+zscore"];

/// A request for a counted lock is refused, which names the command and leaves nothing.
#[track_caller]
fn assert_refuses_counted(server: &RedisServer, locks: &LockManager, rule: &str) {
    let refused = locks.lock("k").shared().acquire_blocking().unwrap_err();
    assert!(matches!(refused, LockError::Misconfigured { .. }), "{rule}: {refused:?}");
    let names = |word: &str| word.eq_ignore_ascii_case(&rule[1..]);
    let text = refused.to_string();
    assert!(text.split(|c: char| !c.is_alphanumeric()).any(names), "{rule}: {text}");
    assert_eq!(server.keys(), [""; 0], "{rule}");
    drop(locks.lock("k").acquire_blocking().unwrap());
}

/// Also over a connection that began without them.
#[test]
fn counted_locks_are_refused_without_sorted_sets_and_had_as_soon_as_these_are_allowed() {
    thread::scope(|scope| {
        for rule in COUNTING {
            scope.spawn(move || {
                let permission = format!("`{rule}`");
                let row = PAGE.lines().find(|line| line.starts_with('|') && line.contains(&permission));
                assert!(
                    row.is_some_and(|row| row.contains("`shared` or `permits`")
                        || row.contains("The same as without `+zrange`")),
                    "{rule}: {row:?}"
                );

                let (server, url) = user(Some(rule), "~lock:*", "&lock:*");
                let locks = connect_to(&url);
                assert_refuses_counted(&server, &locks, rule);
                let others = kit::connect(&server);
                let reader = others.lock("k").shared().acquire_blocking().unwrap();
                let writer = locks.lock("k").acquire_blocking().unwrap_err();
                let sees_nobody = matches!(rule, "+zrange" | "+zcard");
                assert_eq!(
                    matches!(writer, LockError::Misconfigured { .. }),
                    sees_nobody,
                    "{rule}: {writer:?}"
                );
                assert_eq!(writer.is_busy(), !sees_nobody, "{rule}: {writer:?}");
                reader.release_blocking().unwrap();
                drop(others);
                let _: String = server.run(&format!("ACL SETUSER shop {rule}"));
                let request = || locks.lock("k").permits(2);
                let both = [(); 2].map(|()| request().acquire_blocking().unwrap());
                assert!(request().acquire_blocking().is_err_and(|error| error.is_busy()));
                let waiter = request().wait(LIMIT);
                let waiter = thread::spawn(move || waiter.acquire_blocking());
                for guard in both {
                    guard.extend_blocking(1000 * SECOND).unwrap();
                    assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
                }
                drop(waiter.join().unwrap().unwrap());
                drop(locks);
                server.assert_nothing_left();
            });
        }
        scope.spawn(|| {
            let renamed = ["--rename-command", "zadd", ""].map(str::to_owned);
            let server = RedisServer::start_with(&renamed);
            let locks = connect_to(&server.url());
            assert_refuses_counted(&server, &locks, "+zadd");
        });
    });
}

#[test]
fn without_the_rules_of_a_version_nothing_stops() {
    let server = RedisServer::start();
    let rules: Vec<_> = RULES.iter().map(|(rule, _)| *rule).collect();
    let user = "ACL SETUSER shop on >secret resetchannels ~lock:* &lock:*";
    let _: String = server.run(&format!("{user} {}", rules.join(" ")));
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
    let capabilities = everything(&server, &url, "lock:").unwrap();
    assert!(capabilities.hands_over() && capabilities.tracks_changes());
    let known = server.known_rules(RULES_OF_A_VERSION);
    for denied in server.run::<Vec<redis::Value>>("ACL LOG") {
        let denied = format!("{denied:?}");
        let is_told = |rule: &str| denied.contains(&format!("\"{}\"", &rule[1..]));
        // Redis 6.2 names no subcommand.
        assert!(known.split(' ').any(is_told) || denied.contains("\"client\""), "{known}: {denied}");
    }
    for rule in RULES_OF_A_VERSION.split(' ') {
        let permission = format!("`{}`", rule.replace('|', "\\|"));
        assert!(PAGE.lines().any(|line| line.starts_with('|') && line.contains(&permission)), "{rule}");
    }
}

/// The call fails as `without` says, with an error that names the command.
#[track_caller]
fn assert_without(
    rule: &str,
    without: Without,
    outcome: &Result<Capabilities, LockError>,
    connect: impl Fn() -> Result<LockManager, LockError>,
) {
    match (without, outcome) {
        (Without::Connecting | Without::Something, Err(error)) => {
            let connected = connect().is_ok();
            assert_eq!(connected, without == Without::Something, "{rule}: {error:?}");
            assert!(matches!(error, LockError::Misconfigured { .. }), "{rule}: {error:?}");
            let command = rule.rsplit(['+', '|']).next().unwrap();
            let text = error.to_string();
            let names = |name: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
            assert!(names(command) || names(&command.to_uppercase()), "{rule}: {text}");
        }
        (Without::HandOff, Ok(less)) => {
            assert!(!less.hands_over() && less.tracks_changes(), "{rule}: {less:?}");
        }
        (Without::Watching, Ok(less)) => {
            assert!(less.hands_over() && !less.tracks_changes(), "{rule}: {less:?}");
        }
        (Without::Nothing, Ok(all)) => assert!(all.hands_over() && all.tracks_changes(), "{rule}: {all:?}"),
        _ => panic!("{rule}: {outcome:?}"),
    }
    assert!(!format!("{outcome:?}").contains("secret"));
}

#[test]
fn without_a_rule_something_is_missing_and_it_is_told_what() {
    thread::scope(|scope| {
        for (rule, without) in RULES {
            scope.spawn(move || {
                let (server, url) = user(Some(rule), "~lock:*", "&lock:*");
                let outcome = everything(&server, &url, "lock:");
                assert_without(rule, *without, &outcome, || LockManager::connect_blocking(&url));
            });
        }
    });
}

/// As with `rename-command`. The error repeats no argument: one of them is the secret inbox.
#[test]
fn a_command_that_the_server_does_not_know_counts_as_forbidden() {
    let whole = |(rule, _): &&(&str, Without)| !rule.contains('|');
    thread::scope(|scope| {
        for (rule, without) in RULES.iter().filter(whole) {
            scope.spawn(move || {
                let command = &rule[1..];
                let settings = ["--rename-command", command, ""].map(str::to_owned);
                // The kit asks for `INFO` while it waits for the server.
                if command == "info" {
                    return;
                }
                let server = RedisServer::start_with(&settings);
                let connect = || LockManager::connect_blocking(server.url());
                let outcome = renamed(&server);
                assert_without(rule, *without, &outcome, connect);
                if let Err(error) = &outcome {
                    assert!(!error.to_string().contains("%inbox"), "{error}");
                }
                if *without == Without::Connecting {
                    let locks = LockManager::builder(server.url()).connect_lazy().unwrap();
                    let error = locks.ping_blocking().unwrap_err();
                    assert!(matches!(&error, LockError::Misconfigured { .. }), "{error:?}");
                    assert!(error.to_string().contains(&command.to_uppercase()), "{error}");
                }
            });
        }
    });
}

fn renamed(server: &RedisServer) -> Result<Capabilities, LockError> {
    let locks = LockManager::connect_blocking(server.url())?;
    let others = LockManager::connect_blocking(server.url())?;
    let guard = locks.lock("k").acquire_blocking()?;
    kit::listed(&locks, "*")?;
    locks.inspect_blocking("k")?;
    let request = others.lock("k").wait(LIMIT);
    let waiter = thread::spawn(move || request.run_value_blocking(|_| ()));
    guard.release_blocking()?;
    waiter.join().unwrap()?;
    locks.capabilities_blocking()
}

#[test]
fn a_topology_needs_rules_of_its_own() {
    let acquire = |builder: LockManagerBuilder| {
        let locks = builder.connect_blocking()?;
        drop(locks.lock("k").acquire_blocking()?);
        locks.capabilities_blocking()
    };
    for (rule, without) in RULES_OF_A_TOPOLOGY {
        let servers = [(); 3].map(|()| RedisServer::durable());
        let grant = |rule: &str| {
            let rules: Vec<_> = RULES.iter().map(|(rule, _)| *rule).collect();
            for server in &servers {
                let user = "ACL SETUSER shop on >secret resetchannels ~lock:* &lock:* +config|get";
                let _: String = server.run(&format!("{user} {} {rule}", rules.join(" ")));
            }
        };
        grant("");
        let [a, b, c] = servers.each_ref().map(|it| format!("redis://shop:secret@127.0.0.1:{}/", it.port()));
        let builder = match *rule {
            "+select" => LockManager::builder(format!("{a}1")),
            "+wait" => LockManager::builder(a).replicas(1),
            _ => LockManager::builder(a).node(b).node(c),
        };
        assert_without(rule, *without, &acquire(builder.clone()), || builder.clone().connect_blocking());
        grant(rule);
        let outcome = acquire(builder);
        // The server has no replicas, so `WAIT` runs and the lock is not replicated.
        assert!(
            matches!((*rule, &outcome), (_, Ok(_)) | ("+wait", Err(LockError::NotReplicated { .. }))),
            "{rule}: {outcome:?}"
        );
    }
}

#[test]
fn a_user_of_the_sentinels_needs_one_rule() {
    let server = RedisServer::start();
    for (rule, is_enough) in [("+sentinel|get-master-addr-by-name", true), ("", false)] {
        let asked = sentinel(server.port(), None, &format!("user shop on >secret resetchannels {rule}\n"));
        let user = "sentinel_user=shop&sentinel_password=secret";
        let url = format!("redis+sentinel://127.0.0.1:{}/{MASTER}?{user}", asked.port());
        let outcome = LockManager::connect_blocking(&url).map(drop);
        assert!(
            matches!((is_enough, &outcome), (true, Ok(())) | (false, Err(LockError::Misconfigured { .. }))),
            "{rule}: {outcome:?}"
        );
    }
}

#[test]
fn other_keys_and_channels_are_forbidden_by_name() {
    let (_server, url) = user(None, "~other:*", "&other:*");
    let error = LockManager::connect_blocking(&url).map(drop).unwrap_err();
    assert!(error.to_string().contains("on a key like `lock:%clock"), "{error}");
    let others = LockManager::builder(&url).prefix("other:").connect_blocking().unwrap();
    assert!(others.capabilities_blocking().unwrap().hands_over());
    others.lock("k").run_value_blocking(|_| ()).unwrap();

    let (_server, url) = user(None, "~lock:*", "");
    let locks = connect_to(&url);
    assert!(!locks.capabilities_blocking().unwrap().hands_over());
    locks.lock("k").run_value_blocking(|_| ()).unwrap();
}

/// How often the server has refused a command.
fn refusals(server: &RedisServer) -> i64 {
    let entries: Vec<HashMap<String, redis::Value>> = server.run("ACL LOG 128");
    entries.into_iter().map(|mut entry| i64::from_redis_value(entry.remove("count").unwrap()).unwrap()).sum()
}

#[test]
fn without_getrange_a_lock_costs_one_script_and_leaves_no_entry() {
    const CALLS: u64 = 20;
    for is_live in [false, true] {
        let (server, url) = user((!is_live).then_some("+getrange"), "~lock:*", "&lock:*");
        let locks = connect_to(&url);
        // The first of several carries the floor, the others ask without a script.
        let together = || {
            let threads = ["a", "b", "c", "d"].map(|key| {
                let request = locks.lock(key);
                thread::spawn(move || request.run_value_blocking(LockGuard::fencing_token).unwrap())
            });
            assert!(threads.map(|thread| thread.join().unwrap()).iter().all(|fence| *fence > 0));
        };
        together();
        let _: String = server.run("ACL LOG RESET");
        if is_live {
            let _: String = server.run("ACL SETUSER shop -getrange");
            eventually("the manager has learned it", || {
                together();
                refusals(&server) > 0
            });
            eventually("no lock is left", || server.keys().is_empty());
            let _: String = server.run("ACL LOG RESET");
        }
        let start = server.client_commands();
        (0..CALLS).for_each(|_| drop(locks.lock("k").acquire_blocking().unwrap()));
        let (commands, refused) = (server.client_commands() - start, refusals(&server));
        assert!(commands <= 2 * CALLS + 4, "{commands} commands, live: {is_live}");
        assert_eq!(refused, 0, "live: {is_live}");
    }
}

#[test]
fn a_rule_that_is_taken_away_later_is_named_too() {
    let (server, url) = user(None, "~lock:*", "&lock:*");
    let guard = connect_to(&url).lock("k").acquire_blocking().unwrap();
    let _: String = server.run("ACL SETUSER shop -pexpire");
    let start = Instant::now();
    let error = guard.extend_blocking(60 * SECOND).unwrap_err();
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error:?}");
    assert!(error.to_string().to_uppercase().contains("PEXPIRE"), "{error}");
    assert!(start.elapsed() < LIMIT / 2, "at once");
    assert!(guard.is_held(), "its ttl is not over");
    let _: String = server.run("ACL SETUSER shop +pexpire");
    guard.extend_blocking(60 * SECOND).unwrap();
}

/// Also when the test fails: its callers end.
struct Stops<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// What callers do while access rules are taken away under their connections, and given back.
/// Callers of two managers take turns while `rule` forbids what a hand-over needs, and until it is
/// allowed again.
fn falls_back_and_comes_back(url: &str, rule: &str, change: &dyn Fn(&str), is_empty: &dyn Fn() -> bool) {
    let managers =
        [(); 2].map(|()| LockManager::builder(url).io_timeout(4 * SECOND).connect_blocking().unwrap());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let grants = std::sync::atomic::AtomicU32::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    let grants_come_in = |when: &str| {
        let before = grants.load(order);
        eventually(&format!("{rule}: {when}"), || grants.load(order) > before + 50);
    };
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for locks in managers.iter().chain(&managers) {
            let (stop, grants) = (&stop, &grants);
            scope.spawn(move || {
                let request = || locks.lock("k").ttl(2 * SECOND).wait(LIMIT);
                while !stop.load(order) {
                    // A request that was under way learns of the change.
                    if request().run_value_blocking(|_| ()).is_ok() {
                        grants.fetch_add(1, order);
                    }
                    // Else one that still waits in the queue is passed for as long as the load
                    // lasts.
                    thread::sleep(SECOND / 500);
                }
            });
        }
        grants_come_in("it is handed over");
        change(rule);
        // In a Cluster, the plain channels are left.
        let hands_over = rule == "-spublish";
        let know =
            || managers.iter().all(|it| it.capabilities_blocking().unwrap().hands_over() == hands_over);
        // One that still waits in the queue is passed by the callers of one that does not.
        within(4 * LIMIT, &format!("{rule}: each manager knows"), know);
        // One grant a second would take longer.
        grants_come_in("it is asked for again and again");
        change("allchannels +@all");
        let all = || managers.iter().all(|it| it.capabilities_blocking().unwrap().hands_over());
        // After 5 s, then 10 s, 20 s …, if it had looked before.
        within(4 * LIMIT, &format!("{rule}: each manager looks again"), all);
        grants_come_in("it is handed over again");
    });
    eventually(&format!("{rule}: no key is left"), is_empty);
}

#[test]
fn access_rules_that_change_under_a_connection_lead_to_the_documented_fallback_and_back() {
    thread::scope(|scope| {
        for rule in ["-publish", "-pubsub", "-zpopmin", "-zrem", "-zscore", "-zrange", "resetchannels"] {
            scope.spawn(move || {
                let server = RedisServer::start();
                // Before Redis 7.0, such a manager may learn of it only with its next connection.
                if rule == "resetchannels" && server.known_rules("+spublish").is_empty() {
                    return;
                }
                let change = |rule: &str| server.run::<()>(&format!("ACL SETUSER shop {rule}"));
                change("on >secret ~* &* +@all");
                let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
                falls_back_and_comes_back(&url, rule, &change, &|| server.keys().is_empty());
            });
        }
    });
}

/// What a hand-over needs may be taken away while callers wait in the queue, and another user of
/// the lock may have it.
#[test]
fn callers_in_the_queue_are_served_when_access_rules_change() {
    thread::scope(|scope| {
        for rule in ["-publish", "-pubsub", "-zpopmin", "-zrem", "-zscore", "-zrange", "-zadd", "-zcard"] {
            scope.spawn(move || served_after_a_change(rule));
        }
    });
}

fn served_after_a_change(rule: &str) {
    let server = RedisServer::start();
    let connect_as = |user: &str| {
        server.run::<()>(&format!("ACL SETUSER {user} on >secret ~* &* +@all"));
        let url = format!("redis://{user}:secret@127.0.0.1:{}/", server.port());
        connect_to(&url)
    };
    let (holder, waiting, other) = (connect_as("shop"), connect_as("shop"), connect_as("bank"));
    let ttl = 10 * LIMIT;
    let guard = holder.lock("k").ttl(ttl).acquire_blocking().unwrap();
    let both = holder.lock_all(["i", "j"]).ttl(ttl).acquire_blocking().unwrap();
    thread::scope(|scope| {
        let callers = [&waiting, &waiting, &other, &other].map(|locks| {
            scope.spawn(move || {
                let run =
                    |request: redlocked::LockRequest| request.ttl(ttl).wait(LIMIT).run_value_blocking(|_| ());
                run(locks.lock("k")).and(run(locks.lock_all(["h", "i", "j"])))
            })
        });
        eventually(rule, || server.run::<usize>("ZCARD lock:k%queue") == 4);
        server.run::<()>(&format!("ACL SETUSER shop {rule}"));
        assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released), "{rule}");
        assert_eq!(both.release_blocking(), Ok(ReleaseOutcome::Released), "{rule}");
        for caller in callers {
            assert_eq!(caller.join().unwrap(), Ok(()), "{rule}");
        }
    });
}

#[test]
fn access_rules_that_change_under_a_connection_to_a_cluster_lead_to_the_documented_fallback_and_back() {
    thread::scope(|scope| {
        for rule in ["-spublish", "-spublish -publish", "-pubsub", "-zrem", "resetchannels"] {
            scope.spawn(move || {
                let cluster = RedisCluster::start();
                if cluster.nodes[0].known_rules("+spublish").is_empty() {
                    return;
                }
                let change = |rule: &str| {
                    for node in &cluster.nodes {
                        node.run::<()>(&format!("ACL SETUSER shop {rule}"));
                    }
                };
                change("on >secret ~* &* +@all");
                let url = cluster.url().replace("://", "://shop:secret@");
                falls_back_and_comes_back(&url, rule, &change, &|| cluster.keys().is_empty());
            });
        }
    });
}

/// The rules for this Cluster, each once. Before Redis 7.0 there are no sharded channels: it needs
/// the rules of one server.
fn rules_in_a_cluster(cluster: &RedisCluster) -> impl Iterator<Item = (&'static str, Without)> {
    let has_sharded_channels = !cluster.nodes[0].known_rules("+spublish").is_empty();
    let here: &[_] = if has_sharded_channels { RULES_IN_A_CLUSTER } else { &RULES_IN_A_CLUSTER[..1] };
    let changed = |rule: &str| here.iter().any(|(other, _)| *other == rule);
    let same = RULES.iter().filter(move |(rule, _)| !changed(rule));
    same.chain(here).copied()
}

/// A user `name` with all rules but one, on each node of a Cluster.
fn user_in(cluster: &RedisCluster, name: &str, without: Option<&str>) -> String {
    let rules = rules_in_a_cluster(cluster).map(|(rule, _)| rule).chain([ASKING]);
    let rules: Vec<_> = rules.filter(|rule| Some(*rule) != without).collect();
    let more = cluster.nodes[0].known_rules(RULES_OF_A_VERSION);
    for node in &cluster.nodes {
        let user = format!("ACL SETUSER {name} on >secret resetchannels ~{name}:* &{name}:*");
        let _: String = node.run(&format!("{user} {} {more}", rules.join(" ")));
    }
    cluster.url().replace("://", &format!("://{name}:secret@"))
}

#[test]
fn the_smallest_rules_are_enough_for_everything_in_a_cluster() {
    let cluster = RedisCluster::of_this_process();
    let name = unique("all");
    let url = user_in(cluster, &name, None);
    let prefix = format!("{name}:");
    let capabilities = everything(cluster.owner_of(&format!("{prefix}k")), &url, &prefix).unwrap();
    assert!(capabilities.hands_over() && capabilities.tracks_changes());
    for node in &cluster.nodes {
        for denied in node.run::<Vec<redis::Value>>("ACL LOG") {
            let denied = format!("{denied:?}");
            assert!(!denied.contains(&name), "{denied}");
        }
    }
}

#[test]
fn without_a_rule_something_is_missing_in_a_cluster() {
    let cluster = RedisCluster::of_this_process();
    thread::scope(|scope| {
        for (rule, without) in rules_in_a_cluster(cluster) {
            scope.spawn(move || {
                let name = unique("less");
                let url = user_in(cluster, &name, Some(rule));
                let prefix = format!("{name}:");
                let outcome = everything(cluster.owner_of(&format!("{prefix}k")), &url, &prefix);
                let connect =
                    || LockManager::builder(&url).prefix(&prefix).io_timeout(4 * SECOND).connect_blocking();
                assert_without(rule, without, &outcome, connect);
            });
        }
    });
}

#[test]
fn without_asking_a_lock_cannot_be_renewed_on_its_way_to_another_node() {
    let cluster = RedisCluster::of_this_process();
    for (without, is_enough) in [(None, true), (Some(ASKING), false)] {
        let name = unique("moves");
        let url = user_in(cluster, &name, without);
        let prefix = format!("{name}:");
        let locks = LockManager::builder(url).prefix(&prefix).connect_blocking().unwrap();
        let guard = locks.lock("k").acquire_blocking().unwrap();
        let slot = cluster.slot_of(&format!("{prefix}k"));
        let to = cluster.primaries().into_iter().find(|node| !owns(node, slot)).unwrap();
        cluster.migrate(slot, to, || {
            let renewed = guard.extend_blocking(60 * SECOND);
            assert_eq!(renewed.is_ok(), is_enough, "{renewed:?}");
            assert!(is_enough || renewed.unwrap_err().to_string().contains("'asking'"));
        });
        assert_eq!(guard.release_blocking().unwrap(), ReleaseOutcome::Released);
    }
}

/// The digest of a script is refused from one moment to the next; its source is not.
#[test]
fn what_is_held_is_given_back_when_evalsha_is_taken_away() {
    let server = RedisServer::start();
    let [locks, other] = [(); 2].map(|()| connect_to(&server.url()));
    let kinds = || {
        let several = locks.lock_all(["a", "b"]);
        let mixed = locks.lock_all([LockKey::from("c"), LockKey::shared("d"), LockKey::permits("e", 3)]);
        let (alone, permit) = (locks.lock("alone"), locks.lock("permit").permits(3));
        let kinds = [alone, locks.lock("read").shared(), permit, several, mixed];
        kinds.map(|request| request.ttl(60 * SECOND))
    };
    // Each script has been sent.
    for request in kinds() {
        request.acquire_blocking().unwrap().release_blocking().unwrap();
    }
    let held = kinds().map(|request| request.acquire_blocking().unwrap());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.lock("alone").wait(LIMIT).run_value_blocking(|_| 7));
        eventually("it waits", || server.run::<u32>("ZCARD lock:alone%queue") == 1);
        let _: String = server.run("ACL SETUSER default -evalsha");
        for guard in held {
            assert_eq!(guard.release_blocking(), Ok(ReleaseOutcome::Released));
        }
        assert_eq!(waiter.join().unwrap(), Ok(7));
    });
    for request in kinds() {
        assert_eq!(request.run_value_blocking(|_| 7), Ok(7), "until the next connection");
    }
    eventually("no key is left", || server.keys().is_empty());
}
