//! The smallest access rules that work, and what is missing without each of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use redlocked::{Capabilities, LockError, LockManager, ReleaseOutcome};
use support::{LIMIT, RedisServer, eventually};

const SECOND: Duration = Duration::from_secs(1);

/// What is missing without a rule.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Without {
    /// Connecting fails, in words that name the command.
    Connecting,
    /// Something else fails, in such words.
    Something,
    HandOff,
    Watching,
}

/// As in the README.
const RULES: &[(&str, Without)] = &[
    ("+role", Without::Connecting),
    ("+info", Without::Connecting),
    ("+eval", Without::Connecting),
    ("+evalsha", Without::Connecting),
    ("+get", Without::Connecting),
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
];

/// A user with all rules but one, in a fresh server.
fn user(without: Option<&str>, keys: &str, channels: &str) -> (RedisServer, String) {
    let server = RedisServer::start();
    let rules: Vec<_> = RULES.iter().map(|(rule, _)| *rule).filter(|rule| Some(*rule) != without).collect();
    let _: String = server
        .run(&format!("ACL SETUSER shop on >secret resetchannels {keys} {channels} {}", rules.join(" ")));
    let url = format!("redis://shop:secret@127.0.0.1:{}/", server.port());
    (server, url)
}

/// Everything that there is, as far as this server can do it.
fn everything(server: &RedisServer, url: &str) -> Result<Capabilities, LockError> {
    let locks = LockManager::connect_blocking(url)?;
    let others = LockManager::connect_blocking(url)?;
    let capabilities = locks.capabilities_blocking()?;

    locks.lock("k").acquire_blocking()?.release_blocking()?;
    let guard = locks.lock("k").ttl(60 * SECOND).acquire_blocking()?;
    assert!(guard.fencing_token() > 0);
    guard.extend_blocking(1000 * SECOND)?;
    assert!(matches!(
        others.lock("k").acquire_blocking(),
        Err(LockError::Busy { .. } | LockError::Unavailable { .. })
    ));
    assert!(locks.inspect_blocking("k")?.is_some());
    assert!(locks.inspect_blocking("other")?.is_none());
    assert_eq!(locks.list_blocking("*")?, ["k"]);
    let waiter = thread::spawn(move || others.lock("k").wait(LIMIT).acquire_blocking());
    if capabilities.hands_off() {
        eventually("it waits", || locks.inspect_blocking("k").unwrap().unwrap().waiters() == 1);
    }
    assert_eq!(guard.release_blocking()?, ReleaseOutcome::Released);
    let guard = waiter.join().unwrap()?;

    if capabilities.watches() {
        eventually("it is watched", || server.run::<String>("INFO stats").contains("tracking_total_keys:1"));
        let _: i32 = server.run("DEL lock:k");
        eventually("the loss is told", || !guard.is_held());
        assert_eq!(guard.release_blocking()?, ReleaseOutcome::AlreadyLost);
    } else {
        assert!(locks.force_release_blocking("k")?.is_some());
    }
    Ok(capabilities)
}

#[test]
fn the_smallest_rules_are_enough_for_everything() {
    let (server, url) = user(None, "~lock:*", "&lock:*");
    let capabilities = everything(&server, &url).unwrap();
    assert!(capabilities.hands_off() && capabilities.watches());
    // Nothing was tried in vain, but to say which library this is.
    let denied: Vec<redis::Value> = server.run("ACL LOG");
    let denied = format!("{denied:?}");
    assert_eq!(denied.matches("context").count(), denied.matches("client|setinfo").count(), "{denied}");
}

#[test]
fn without_a_rule_something_is_missing_and_it_is_told_what() {
    thread::scope(|scope| {
        for (rule, without) in RULES {
            scope.spawn(move || {
                let (server, url) = user(Some(rule), "~lock:*", "&lock:*");
                let outcome = everything(&server, &url);
                match (without, &outcome) {
                    (Without::Connecting | Without::Something, Err(error)) => {
                        let connected = LockManager::connect_blocking(&url).is_ok();
                        assert_eq!(connected, *without == Without::Something, "{rule}: {error:?}");
                        assert!(matches!(error, LockError::Unavailable { .. }), "{rule}: {error:?}");
                        let command = rule.trim_start_matches('+');
                        let text = error.to_string();
                        let names =
                            |name: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
                        assert!(names(command) || names(&command.to_uppercase()), "{rule}: {text}");
                    }
                    (Without::HandOff, Ok(less)) => {
                        assert!(!less.hands_off() && less.watches(), "{rule}: {less:?}");
                    }
                    (Without::Watching, Ok(less)) => {
                        assert!(less.hands_off() && !less.watches(), "{rule}: {less:?}");
                    }
                    _ => panic!("{rule}: {outcome:?}"),
                }
                assert!(!format!("{outcome:?}").contains("secret"));
            });
        }
    });
}

#[test]
fn other_keys_and_channels_are_forbidden_by_name() {
    let (_server, url) = user(None, "~other:*", "&other:*");
    let error = LockManager::connect_blocking(&url).map(drop).unwrap_err();
    assert!(error.to_string().contains("keys") && error.to_string().contains("`lock:%clock"), "{error}");
    let others = LockManager::builder(&url).prefix("other:").connect_blocking().unwrap();
    assert!(others.capabilities_blocking().unwrap().hands_off());
    others.lock("k").run_blocking(|_| ()).unwrap();

    let (_server, url) = user(None, "~lock:*", "");
    let locks = LockManager::connect_blocking(&url).unwrap();
    assert!(!locks.capabilities_blocking().unwrap().hands_off());
    locks.lock("k").run_blocking(|_| ()).unwrap();
}

#[test]
fn a_rule_that_is_taken_away_later_is_named_too() {
    let (server, url) = user(None, "~lock:*", "&lock:*");
    let guard = LockManager::connect_blocking(&url).unwrap().lock("k").acquire_blocking().unwrap();
    let _: String = server.run("ACL SETUSER shop -pexpire");
    let start = Instant::now();
    let error = guard.extend_blocking(60 * SECOND).unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().ends_with(": PEXPIRE"), "{error}");
    assert!(start.elapsed() < LIMIT / 2, "at once");
    assert!(guard.is_held(), "its ttl is not over");
    let _: String = server.run("ACL SETUSER shop +pexpire");
    guard.extend_blocking(60 * SECOND).unwrap();
}
