//! What stands on the server, and what it costs.

use std::sync::atomic::AtomicU32;

use kit::{LIMIT, RedisServer, SECOND, connect, runtime};
use redlocked::once::Once;
use redlocked::{LockError, LockManager};

use crate::{DAY, until};

async fn seven(locks: &LockManager) -> Result<Once<u32>, LockError> {
    locks.lock("k").wait(LIMIT).once(DAY).fingerprint("request").run(async |_guard| Ok(7)).await
}

#[test]
fn the_first_call_costs_two_commands_and_a_replay_one() {
    let server = RedisServer::start();
    // A lock that a busy machine holds for longer than a moment would be watched.
    server.tell_of_no_changes();
    runtime().block_on(async {
        let [first, second] = [connect(&server), connect(&server)];
        let before = server.client_commands();
        assert_eq!(seven(&first).await, Ok(Once::Ran(7)));
        assert_eq!(server.client_commands() - before, 2);
        for locks in [&first, &second] {
            let before = server.client_commands();
            assert_eq!(seven(locks).await, Ok(Once::Replayed(7)));
            assert_eq!(server.client_commands() - before, 1);
        }
    });
    let left: Vec<String> = server.keys().into_iter().filter(|key| key.contains("lock:k")).collect();
    assert_eq!(left, ["lock:k%queue%once"]);
}

#[test]
fn the_record_names_its_owner_and_holds_no_token() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = connect(&server);
        let body = locks.lock("k").label("charge").once(DAY).fingerprint("request").run(async |_guard| {
            let (token, record): (String, String) =
                (server.run("GET lock:k"), server.run("GET lock:k%queue%once"));
            let (secret, owner) = token.split_once('@').unwrap();
            assert!(!record.contains(secret), "{record}");
            let parts: Vec<_> = record.split('|').collect();
            let [fingerprint, "s", since, runner, its_owner, ""] = parts[..] else { panic!("{record}") };
            assert_eq!((fingerprint.len(), runner.len(), its_owner), (32, 32, owner));
            assert!(since.parse::<u64>().is_ok_and(|since| since > 1_700_000_000_000), "{record}");
            let left: u64 = server.run("PTTL lock:k%queue%once");
            // For a day behind the end of the lease, which is one of 30 s.
            assert!(left > 86_420_000 && left <= 86_430_100, "{left}");
            Ok::<_, LockError>(7)
        });
        assert_eq!(body.await, Ok(Once::Ran(7)));
        let record: String = server.run("GET lock:k%queue%once");
        assert!(record.contains("|d|") && record.ends_with("/charge|7"), "{record}");
        let known = locks.once_record("k").await.unwrap().unwrap();
        assert_eq!((known.function(), known.result()), (Some("charge"), Some(&b"7"[..])));
        assert!(!format!("{known:?}").contains('7') || known.name().is_some());
    });
}

#[test]
fn a_key_of_another_kind_beside_the_lock_is_refused() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = connect(&server);
        for written in ["SET lock:k%queue%once nonsense", "LPUSH lock:k%queue%once a"] {
            let _: String = server.run("FLUSHALL");
            let _: redis::Value = server.run(written);
            let error = locks.lock("k").once(DAY).run(async |_guard| Ok::<u32, LockError>(7)).await;
            assert!(matches!(error, Err(LockError::Misconfigured { .. })), "{written}: {error:?}");
            let known = locks.once_record("k").await;
            assert!(matches!(known, Err(LockError::Misconfigured { .. })), "{written}: {known:?}");
            until("the lock is free", async || locks.inspect("k").await.unwrap().is_none()).await;
            assert!(locks.clear_once("k").await.unwrap());
            assert_eq!(seven(&locks).await, Ok(Once::Ran(7)));
        }
    });
}

#[test]
fn a_flush_between_the_body_and_the_store_loses_the_lock_and_stores_nothing() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let locks = connect(&server);
        let body = locks.lock("k").once(DAY).run(async |_guard| {
            let _: String = server.run("FLUSHALL");
            Ok::<_, LockError>(7)
        });
        let error = body.await;
        let Err(LockError::NotStored { result: Some(result), .. }) = &error else { panic!("{error:?}") };
        assert_eq!(&**result, b"7");
        assert_eq!(server.try_run::<Option<String>>("GET lock:k%queue%once").unwrap(), None);
        assert_eq!(seven(&locks).await, Ok(Once::Ran(7)));
        // A flush behind it: everybody runs again.
        let _: String = server.run("FLUSHALL");
        assert_eq!(seven(&locks).await, Ok(Once::Ran(7)));
    });
}

#[test]
fn a_waiter_that_is_granted_the_lock_by_a_push_looks_before_its_body() {
    let server = RedisServer::start();
    runtime().block_on(async {
        let [first, second] = [connect(&server), connect(&server)];
        let holder = first.lock("k").acquire().await.unwrap();
        let waits = tokio::spawn(async move {
            let runs = AtomicU32::new(0);
            second
                .lock("k")
                .wait(LIMIT)
                .once(DAY)
                .fingerprint("request")
                .run(async |_guard| {
                    runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    Ok::<_, LockError>(8)
                })
                .await
        });
        while first.inspect("k").await.unwrap().is_none_or(|info| info.waiters() == 0) {
            tokio::time::sleep(SECOND / 100).await;
        }
        // As a run would that it does not know of, whose message was lost.
        let digest: String = {
            let probe = first.lock("probe").once(DAY).fingerprint("request");
            probe.run(async |_guard| Ok::<_, LockError>(7)).await.unwrap();
            server.run("GET lock:probe%queue%once")
        };
        let mut client = server.client();
        let () = redis::cmd("SET").arg("lock:k%queue%once").arg(digest).query(&mut client).unwrap();
        holder.release().await.unwrap();
        assert_eq!(waits.await.unwrap(), Ok(Once::Replayed(7)));
        until("it has given the lock back", async || first.inspect("k").await.unwrap().is_none()).await;
    });
}
