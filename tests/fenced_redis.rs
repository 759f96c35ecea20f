//! Writes to Redis that only the right holder of a lock can make.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::time::Duration;

use kit::{RedisCluster, RedisServer, unique};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use redlocked::election::Term;
use redlocked::{LockError, LockGuard, LockManager, distributed_lock};

type Outcome<T = ()> = Result<T, LockError>;

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Two servers of which neither knows of the other one's locks, as after a failover that has lost
/// them.
struct Failover(LockManager, LockManager);

impl Failover {
    async fn new() -> Self {
        let locks = async || LockManager::connect(format!("memory://{}", unique("fenced"))).await.unwrap();
        Self(locks().await, locks().await)
    }

    /// Both hold their locks, by their own account.
    async fn holders(&self, keys: &[&str]) -> (LockGuard, LockGuard) {
        let early = self.0.lock_all(keys.iter().copied()).acquire().await.unwrap();
        let late = self.1.lock_all(keys.iter().copied()).acquire().await.unwrap();
        assert!(early.fencing_token() < late.fencing_token());
        (early, late)
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Outcome<T>) {
    let error = outcome.unwrap_err();
    assert!(error.is_fenced() && error.to_string().contains("`account:7`"), "{error}");
}

#[tokio::test]
async fn each_write_of_an_earlier_holder_is_refused_behind_a_later_one() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let (early, late) = Failover::new().await.holders(&["account:7"]).await;
    early.redis().set(&mut redis, "text", b"early").await.unwrap();
    assert!(early.redis().hset(&mut redis, "hash", "field", 1).await.unwrap());
    late.redis().set(&mut redis, "text", b"late").await.unwrap();
    assert!(!late.redis().hset(&mut redis, "hash", "field", 2).await.unwrap());
    let append = "return redis.call('APPEND', KEYS[1], ARGV[1] .. ARGV[2])";
    let length: u32 = late.redis().eval(&mut redis, append, &["text"], ("r", 1)).await.unwrap();
    assert_eq!(length, 6);

    refused(early.redis().set(&mut redis, "text", b"stale").await);
    refused(early.redis().hset(&mut redis, "hash", "field", 3).await);
    refused(early.redis().eval::<u32>(&mut redis, append, &["text"], ("s", 2)).await);
    refused(early.redis().del(&mut redis, "text").await);
    refused(early.redis().claim(&mut redis, "hash").await);
    assert_eq!(redis.get::<_, String>("text").await.unwrap(), "later1");
    assert_eq!(redis.hget::<_, _, u32>("hash", "field").await.unwrap(), 2);

    // What is gone is still fenced.
    assert!(late.redis().del(&mut redis, "text").await.unwrap());
    assert!(!late.redis().del(&mut redis, "text").await.unwrap());
    refused(early.redis().set(&mut redis, "text", b"stale").await);
    assert!(!redis.exists::<_, bool>("text").await.unwrap());
}

#[test]
fn sync_code_has_each_write_too() {
    let server = RedisServer::start();
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let (early, late) =
        kit::runtime().block_on(async { Failover::new().await.holders(&["account:7"]).await });
    early.redis().set_blocking(&mut redis, "text", b"early").unwrap();
    assert!(early.redis().hset_blocking(&mut redis, "hash", "field", 1).unwrap());
    late.redis().set_blocking(&mut redis, "text", b"late").unwrap();
    late.redis().claim_blocking(&mut redis, "hash").unwrap();
    let append = "return redis.call('APPEND', KEYS[1], ARGV[1] .. ARGV[2])";
    let length: u32 = late.redis().eval_blocking(&mut redis, append, &["text"], ("r", 1)).unwrap();
    assert_eq!(length, 6);

    refused(early.redis().set_blocking(&mut redis, "text", b"stale"));
    refused(early.redis().hset_blocking(&mut redis, "hash", "field", 3));
    refused(early.redis().eval_blocking::<u32>(&mut redis, append, &["text"], ("s", 2)));
    refused(early.redis().del_blocking(&mut redis, "text"));
    refused(early.redis().claim_blocking(&mut redis, "hash"));
    assert_eq!(server.run::<String>("GET text"), "later1");
    assert_eq!(server.run::<u32>("HGET hash field"), 1);
    assert!(late.redis().del_blocking(&mut redis, "text").unwrap());
    assert!(!late.redis().del_blocking(&mut redis, "text").unwrap());
}

/// A function that binds no guard. It is frozen while `meanwhile` runs.
#[distributed_lock(key = "account:{id}", manager = locks)]
async fn deposit(
    locks: &LockManager,
    redis: &mut MultiplexedConnection,
    id: u32,
    meanwhile: impl AsyncFnOnce(&mut MultiplexedConnection),
) -> Result<(), LockError> {
    let lock = redlocked::current()?;
    lock.redis().set(redis, "balance", 1).await?;
    meanwhile(redis).await;
    lock.redis().set(redis, "balance", 2).await?;
    Ok(())
}

#[distributed_lock(key = "account:{id}", manager = locks)]
fn deposit_blocking(
    locks: &LockManager,
    redis: &mut redis::Connection,
    id: u32,
    meanwhile: impl FnOnce(&mut redis::Connection),
) -> Result<(), LockError> {
    let lock = redlocked::current()?;
    lock.redis().set_blocking(redis, "balance", 1)?;
    meanwhile(redis);
    lock.redis().set_blocking(redis, "balance", 2)?;
    Ok(())
}

#[tokio::test]
async fn an_annotated_function_that_binds_no_guard_is_refused_as_well() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let Failover(first, second) = Failover::new().await;
    deposit(&first, &mut redis, 7, async |_| {}).await.unwrap();
    assert_eq!(redis.get::<_, u32>("balance").await.unwrap(), 2);
    let early: u64 = redis.get("{balance}%fence:lock:account:7").await.unwrap();
    let late = first.lock("account:7").run_value(async |guard| guard.fencing_token()).await.unwrap();
    assert!(early > 0 && early < late, "{early} {late}");
    let outcome = deposit(&first, &mut redis, 7, async |redis| {
        let late = second.lock("account:7").acquire().await.unwrap();
        late.redis().set(redis, "balance", 7).await.unwrap();
    });
    let error = outcome.await.unwrap_err();
    refused(Err::<(), _>(error));
    assert_eq!(redis.get::<_, u32>("balance").await.unwrap(), 7);
    let outcome = deposit(&first, &mut redis, 7, async |_| drop(first.force_release("account:7").await));
    let error = outcome.await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
}

#[test]
fn sync_an_annotated_function_that_binds_no_guard_is_refused_as_well() {
    let server = RedisServer::start();
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let Failover(first, second) = kit::runtime().block_on(Failover::new());
    deposit_blocking(&first, &mut redis, 7, |_| {}).unwrap();
    let outcome = deposit_blocking(&first, &mut redis, 7, |redis| {
        let late = second.lock("account:7").acquire_blocking().unwrap();
        late.redis().set_blocking(redis, "balance", 7).unwrap();
    });
    let error = outcome.unwrap_err();
    refused(Err::<(), _>(error));
    assert_eq!(server.run::<u32>("GET balance"), 7);
    let outcome =
        deposit_blocking(&first, &mut redis, 7, |_| drop(first.force_release_blocking("account:7")));
    let error = outcome.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
}

#[tokio::test]
async fn once_its_fencing_token_is_drawn_a_write_without_a_guard_costs_one_command() {
    let (server, data) = (RedisServer::start(), RedisServer::start());
    let mut redis = connect(&data).await;
    let locks = kit::connect(&server);
    deposit(&locks, &mut redis, 7, async |_| {}).await.unwrap(); // it loads the script
    let mut costs = [0, 0];
    deposit(&locks, &mut redis, 7, async |redis| {
        let lock = redlocked::current().unwrap();
        let before = [&server, &data].map(RedisServer::client_commands);
        for balance in 0..10 {
            lock.redis().set(redis, "balance", balance).await.unwrap();
        }
        let after = [&server, &data].map(RedisServer::client_commands);
        costs = [after[0] - before[0], after[1] - before[1]];
    })
    .await
    .unwrap();
    assert_eq!(costs, [0, 10]);
}

#[tokio::test]
async fn a_write_costs_one_command() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let (early, late) = Failover::new().await.holders(&["account:7"]).await;
    late.redis().set(&mut redis, "balance", 0).await.unwrap(); // it loads the script
    let before = server.client_commands();
    for balance in 1..=100 {
        late.redis().set(&mut redis, "balance", balance).await.unwrap();
        refused(early.redis().set(&mut redis, "balance", -1).await);
    }
    assert_eq!(server.client_commands() - before, 200);
}

/// Each adds one to what it has read, the first one frozen in front of its read, its write, or after
/// it: a write that comes too late would take another one's away.
#[tokio::test]
async fn no_stale_write_in_ten_thousand_tries() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let failover = Failover::new().await;
    let mut writes = 0_i64;
    for round in 0..10_000_u32 {
        let (early, late) = failover.holders(&["account:7"]).await;
        let frozen_at = round % 3;
        let mut read = 0;
        if frozen_at > 0 {
            read = redis.get::<_, Option<i64>>("balance").await.unwrap().unwrap_or_default();
        }
        if frozen_at > 1 {
            early.redis().set(&mut redis, "balance", read + 1).await.unwrap();
            writes += 1;
        }
        late.redis().claim(&mut redis, "balance").await.unwrap();
        let balance = redis.get::<_, Option<i64>>("balance").await.unwrap().unwrap_or_default();
        if frozen_at == 1 {
            // It has claimed before its read, so this one comes too late before it has written.
            refused(early.redis().set(&mut redis, "balance", read + 1).await);
        }
        late.redis().set(&mut redis, "balance", balance + 1).await.unwrap();
        writes += 1;
        refused(early.redis().set(&mut redis, "balance", read + 1).await);
        assert_eq!(redis.get::<_, i64>("balance").await.unwrap(), writes, "frozen at {frozen_at}");
        early.release().await.unwrap();
        late.release().await.unwrap();
    }
}

#[tokio::test]
async fn keys_with_one_hash_tag_share_their_fence_and_other_locks_do_not() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let failover = Failover::new().await;
    let (early, late) = failover.holders(&["account:7"]).await;
    late.redis().set(&mut redis, "{account:7}:balance", 1).await.unwrap();
    refused(early.redis().set(&mut redis, "{account:7}:history", 1).await);
    let (other, _) = failover.holders(&["account:8"]).await;
    other.redis().set(&mut redis, "{account:7}:seen", 1).await.unwrap();
    let fence: String = redis.get("{account:7}%fence:lock:account:7").await.unwrap();
    assert_eq!(fence, late.fencing_token().to_string());
}

#[tokio::test]
async fn of_several_locks_the_one_that_a_later_holder_has_is_named() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let failover = Failover::new().await;
    let early = failover.0.lock_all(["account:6", "account:7", "account:8"]).acquire().await.unwrap();
    let late = failover.1.lock("account:7").acquire().await.unwrap();
    early.redis().set(&mut redis, "transfer", 1).await.unwrap();
    late.redis().claim(&mut redis, "transfer").await.unwrap();
    refused(early.redis().set(&mut redis, "transfer", 2).await);
}

#[tokio::test]
async fn a_fence_stays_unless_it_is_to_be_forgotten() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let (_, late) = Failover::new().await.holders(&["account:7"]).await;
    let fence = "{balance}%fence:lock:account:7";
    late.redis().set(&mut redis, "balance", 1).await.unwrap();
    assert_eq!(redis.pttl::<_, i64>(fence).await.unwrap(), -1);
    late.redis().forget_after(Duration::from_secs(60)).set(&mut redis, "balance", 2).await.unwrap();
    assert!(redis.pttl::<_, i64>(fence).await.unwrap() > 50_000);
}

#[tokio::test]
async fn a_lost_lock_and_a_broken_script_are_told_apart() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let locks = LockManager::connect(format!("memory://{}", unique("fenced"))).await.unwrap();
    let guard = locks.lock("account:7").acquire().await.unwrap();
    let broken: Outcome<()> = guard.redis().eval(&mut redis, "nonsense", &["balance"], 1).await;
    let error = broken.unwrap_err();
    assert!(matches!(error, LockError::Store { .. }), "{error}");
    assert!(error.to_string().starts_with("`account:7`: the fenced write failed"), "{error}");
    let nowhere: Outcome<()> = guard.redis().eval(&mut redis, "return 1", &[], 1).await;
    assert!(matches!(nowhere, Err(LockError::InvalidRequest { .. })));
    assert!(locks.force_release("account:7").await.unwrap().is_some());
    let lost = guard.redis().set(&mut redis, "balance", 1).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })));
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn in_a_cluster_a_fence_is_in_the_slot_of_its_data() {
    let cluster = RedisCluster::of_this_process();
    let (early, late) = Failover::new().await.holders(&["account:7"]).await;
    for data in ["balance:7", "{account:7}:balance", "a{b", "x{y}z"] {
        let mut redis = connect(cluster.owner_of(data)).await;
        late.redis().set(&mut redis, data, 1).await.unwrap();
        refused(early.redis().set(&mut redis, data, 2).await);
    }
}

#[tokio::test]
async fn a_missing_rule_is_named_with_the_key_of_the_fence() {
    let server = RedisServer::start();
    let rules = "on >pw ~balance:* +evalsha +script|load +get +set +client|setinfo";
    let _: String = server.run(&format!("ACL SETUSER ledger {}", server.known_rules(rules)));
    let url = format!("redis://ledger:pw@127.0.0.1:{}/", server.port());
    let mut redis = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    let locks = LockManager::connect(format!("memory://{}", unique("fenced"))).await.unwrap();
    let guard = locks.lock("account:7").acquire().await.unwrap();
    let error = guard.redis().set(&mut redis, "balance:7", 1).await.unwrap_err().to_string();
    assert!(
        error.contains("`{balance:7}%fence:lock:account:7`") && error.contains("`+script|load`"),
        "{error}"
    );
    let _: String = server.run("ACL SETUSER ledger ~{balance:*}%fence:*");
    guard.redis().set(&mut redis, "balance:7", 1).await.unwrap();
}

#[tokio::test]
async fn a_leader_writes_until_a_later_one_has_written() {
    let server = RedisServer::start();
    let mut redis = connect(&server).await;
    let Failover(first, second) = Failover::new().await;
    let mut terms = Vec::new();
    let led = first.election("billing").lead(async |term: Term| {
        term.redis().set(&mut redis, "invoice", 1).await?;
        let late = second
            .election("billing")
            .lead(async |late: Term| late.redis().set(&mut redis, "invoice", 2).await);
        late.await.map_err(|error| error.to_string()).unwrap();
        let refused = term.redis().set(&mut redis, "invoice", 3).await;
        assert!(refused.is_err_and(|error| error.is_fenced()));
        terms.push(term);
        Ok::<_, LockError>(())
    });
    led.await.map_err(|error| error.to_string()).unwrap();
    assert_eq!(server.run::<u32>("GET invoice"), 2);
    let over = terms[0].redis().set(&mut redis, "invoice", 4).await;
    assert_eq!(over, Err(LockError::NotLocked));
}
