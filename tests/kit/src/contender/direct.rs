//! Direct hand-off, written by hand: a release gives the lock to the longest waiter, on the server,
//! and tells it with one push. No claim, no check that the waiter is still there, no lease, no
//! fencing token: the lowest possible cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::oneshot;

use super::{Body, Client, Outcome, TTL, in_words};
use crate::bare::{self, token};
use crate::unique;

const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end \
     if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[1] .. '|' .. ARGV[3]) end return 0";

const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then \
       redis.call('LREM', KEYS[2], 1, ARGV[1] .. '|' .. ARGV[3]) return 0 end \
     local head = redis.call('LPOP', KEYS[2]) \
     if not head then redis.call('DEL', KEYS[1]) return 1 end \
     local token, inbox = string.match(head, '^(.*)|(.*)$') \
     redis.call('SET', KEYS[1], token, 'PX', ARGV[2]) \
     redis.call('PUBLISH', inbox, token) return 1";

type Waiters = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

/// One process: a connection for commands and pushes, driven by the runtime that
/// [`connect`](Self::connect) is called on.
pub struct Direct {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
    inbox: String,
    waiters: Waiters,
}

impl Direct {
    /// Subscribed, with both scripts loaded.
    pub async fn connect(url: &str) -> Self {
        let waiters = Waiters::default();
        let told = Arc::clone(&waiters);
        let mut connection = bare::connect_and_listen(url, move |push: PushInfo| {
            if let (PushKind::Message, [_, Value::BulkString(token)]) = (push.kind, push.data.as_slice()) {
                let waiter =
                    std::str::from_utf8(token).ok().and_then(|token| told.lock().unwrap().remove(token));
                let _ = waiter.map(|waiter| waiter.send(()));
            }
            Ok::<(), redis::aio::SendError>(())
        })
        .await;
        let inbox = unique("inbox");
        connection.subscribe(&inbox).await.unwrap();
        let mut hashes = Vec::new();
        for script in [ACQUIRE, RELEASE] {
            let mut load = redis::cmd("SCRIPT");
            hashes.push(load.arg("LOAD").arg(script).query_async(&mut connection).await.unwrap());
        }
        let [acquire, release] = hashes.try_into().unwrap();
        Self { connection, acquire, release, inbox, waiters }
    }

    async fn call(&self, script: &str, key: &str, token: &str, inbox: &str) -> Result<bool, String> {
        let mut call = redis::cmd("EVALSHA");
        call.arg(script).arg(2).arg(key).arg(format!("{key}:queue"));
        call.arg(token).arg(u64::try_from(TTL.as_millis()).unwrap()).arg(inbox);
        call.query_async(&mut self.connection.clone()).await.map_err(in_words)
    }

    async fn acquire(&self, key: &str, token: &str, wait: Duration) -> Result<(), String> {
        if wait.is_zero() {
            let held = self.call(&self.acquire, key, token, "").await?;
            return if held { Ok(()) } else { Err("busy".to_owned()) };
        }
        // Before the request is sent: the grant may come with the reply.
        let (tell, granted) = oneshot::channel();
        self.waiters.lock().unwrap().insert(token.to_owned(), tell);
        if self.call(&self.acquire, key, token, &self.inbox).await? {
            self.waiters.lock().unwrap().remove(token);
            return Ok(());
        }
        if tokio::time::timeout(wait, granted).await.is_ok() {
            return Ok(());
        }
        self.waiters.lock().unwrap().remove(token);
        self.call(&self.release, key, token, &self.inbox).await?;
        Err("busy".to_owned())
    }
}

impl Client for Direct {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let token = token();
            self.acquire(&key, &token, wait).await?;
            body.await;
            let released = self.call(&self.release, &key, &token, &self.inbox).await?;
            if released { Ok(()) } else { Err("lost".to_owned()) }
        })
    }
}
