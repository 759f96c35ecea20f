//! What is indispensable, written by hand: the ways beside which ours are compared. No queue that
//! outlives a crash, no claim, no check that a waiter is still there, no lease that is watched.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, PushInfo, PushKind, cmd};
use tokio::sync::mpsc;

use kit::bare::{Bare, COMPARE_AND_DELETE, connect, connect_and_listen, token};
use kit::load::runtime;

use crate::ways::{KEY, own_key};

const QUEUE: &str = "a-key-of-usual-length:queue";

const PX: u32 = 30_000;

/// How large a stored result is.
const RESULT: &str = "{\"status\":\"charged\",\"amount\":4200}";

/// Hands the lock to the longest waiter: the lock, and a push.
const HAND_OVER: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
     local head = redis.call('ZPOPMIN', KEYS[2])[1] \
     if not head then return redis.call('DEL', KEYS[1]) end \
     local token, inbox = string.match(head, '^(.*)|(.*)$') \
     redis.call('SET', KEYS[1], token, 'PX', ARGV[2]) \
     redis.call('PUBLISH', inbox, token) return 1";

const COMPARE_AND_EXPIRE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// One bare round trip.
pub(crate) fn ping(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut bare = Bare::connect(urls[0]).await;
        for _ in 0..times {
            bare.ping().await;
        }
    });
}

/// A free lock, taken and released: `SET NX PX`, and a script that compares and deletes.
pub(crate) fn pair(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut bare = Bare::connect(urls[0]).await;
        for _ in 0..times {
            bare.pair(KEY).await;
        }
    });
}

/// Takes and releases a lock with a fencing token: `INCR`.
pub(crate) fn fenced(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut locks = Hand::connect(urls[0], COMPARE_AND_DELETE).await;
        for _ in 0..times {
            let token = token();
            locks.take(KEY, &token).await;
            let _: u64 = locks.ask(cmd("INCR").arg("fence")).await;
            locks.release(KEY, &token).await;
        }
    });
}

/// Two processes that pass a lock to each other: `ZADD` of the one that waits, then a script of the
/// holder with `ZPOPMIN`, `SET` and `PUBLISH`.
pub(crate) fn hand_off(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut processes = Vec::new();
        for name in ["inbox-of-usual-length-a", "inbox-of-usual-length-b"] {
            let (tell, told) = mpsc::unbounded_channel();
            let push = move |push: PushInfo| {
                let _ = (push.kind == PushKind::Message).then(|| tell.send(()));
                Ok::<(), redis::aio::SendError>(())
            };
            let mut connection = connect_and_listen(urls[0], push).await;
            connection.subscribe(name).await.unwrap();
            processes.push((Hand::on(connection, HAND_OVER).await, name, told));
        }
        let mut holder = token();
        processes[0].0.take(KEY, &holder).await;
        for turn in 1..=times {
            let [waits, holds] = [turn % 2, (turn + 1) % 2].map(|at| usize::try_from(at).unwrap());
            let (locks, inbox, _) = &mut processes[waits];
            let token = token();
            let joined: u8 =
                locks.ask(cmd("ZADD").arg(QUEUE).arg(turn).arg(format!("{token}|{inbox}"))).await;
            assert_eq!(joined, 1);
            let given: u8 = processes[holds].0.call(&[KEY, QUEUE], &holder).await;
            assert_eq!(given, 1);
            processes[waits].2.recv().await.unwrap();
            holder = token;
        }
    });
}

/// A caller that finds a lock held, joins its queue, and leaves it.
pub(crate) fn join(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut locks = Hand::connect(urls[0], COMPARE_AND_DELETE).await;
        locks.take(KEY, &token()).await;
        for turn in 0..times {
            let token = token();
            let mut try_it = cmd("SET");
            try_it.arg(KEY).arg(&token).arg("NX").arg("PX").arg(PX);
            assert!(!locks.ask::<bool>(&try_it).await);
            let _: u8 = locks.ask(cmd("ZADD").arg(QUEUE).arg(turn).arg(&token)).await;
            let _: u8 = locks.ask(cmd("ZREM").arg(QUEUE).arg(&token)).await;
        }
    });
}

/// A script that compares and moves the expiry.
pub(crate) fn renewal(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut locks = Hand::connect(urls[0], COMPARE_AND_EXPIRE).await;
        let token = token();
        locks.take(KEY, &token).await;
        for _ in 0..times {
            let renewed: u8 = locks.call(&[KEY], &token).await;
            assert_eq!(renewed, 1);
        }
    });
}

/// A job that is to run once for each key: a look at its record, a free lock, and its record.
pub(crate) fn once(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut locks = Hand::connect(urls[0], COMPARE_AND_DELETE).await;
        for turn in 0..times {
            let (key, token) = (own_key(turn), token());
            let record = format!("{key}:record");
            locks.take(&key, &token).await;
            assert_eq!(locks.ask::<Option<String>>(cmd("GET").arg(&record)).await, None);
            let _: String = locks.ask(cmd("SET").arg(&record).arg(RESULT).arg("PX").arg(PX)).await;
            locks.release(&key, &token).await;
        }
    });
}

/// A look at the record of a job that has run.
pub(crate) fn replay(times: u64, urls: &[&str]) {
    runtime(1).block_on(async {
        let mut locks = Hand::connect(urls[0], COMPARE_AND_DELETE).await;
        let _: String = locks.ask(cmd("SET").arg(KEY).arg(RESULT).arg("PX").arg(PX)).await;
        for _ in 0..times {
            let _: String = locks.ask(cmd("GET").arg(KEY)).await;
        }
    });
}

/// A connection, and the digest of one script.
struct Hand {
    connection: MultiplexedConnection,
    script: String,
}

impl Hand {
    async fn connect(url: &str, script: &str) -> Self {
        Self::on(connect(url).await, script).await
    }

    async fn on(mut connection: MultiplexedConnection, script: &str) -> Self {
        let script = cmd("SCRIPT").arg("LOAD").arg(script).query_async(&mut connection).await.unwrap();
        Self { connection, script }
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        command.query_async(&mut self.connection).await.unwrap()
    }

    async fn call(&mut self, keys: &[&str], token: &str) -> u8 {
        let mut call = cmd("EVALSHA");
        call.arg(&self.script).arg(keys.len()).arg(keys).arg(token).arg(PX);
        self.ask(&call).await
    }

    async fn take(&mut self, key: &str, token: &str) {
        let mut set = cmd("SET");
        set.arg(key).arg(token).arg("NX").arg("PX").arg(PX);
        assert!(self.ask::<bool>(&set).await);
    }

    async fn release(&mut self, key: &str, token: &str) {
        assert_eq!(self.call(&[key], token).await, 1);
    }
}
