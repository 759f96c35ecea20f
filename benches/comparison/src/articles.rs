//! The other locks of the classic articles: in two commands, by timestamps, and re-entrant by the
//! thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::cmd;

use kit::bare::connect;

use crate::by_hand::{SetNx, in_words};
use crate::contender::{Body, Client, Clients, Contender, Kind, Outcome, Part, TTL};

/// The pause between two tries. The articles name none.
const PAUSE: Duration = Duration::from_millis(50);

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let (mut two, mut timestamps, mut reentrant) = (Clients::new(), Clients::new(), Clients::new());
    for _ in 0..clients {
        two.push(Arc::new(TwoCommands { connection: connect(url).await }));
        timestamps.push(Arc::new(Timestamps { connection: connect(url).await }));
        reentrant.push(Arc::new(Reentrant(SetNx::every(url, PAUSE).await)));
    }
    let contender = |name, clients| Contender { name, kind: Kind::Article, part: Part::Sale, clients };
    all.push(contender("SETNX + EXPIRE, again every 50 ms", two));
    all.push(contender("SETNX/GETSET of timestamps, every 50 ms", timestamps));
    all.push(contender("re-entrant by a count of the thread", reentrant));
}

/// The tries of one call, until its wait is over.
struct Tries {
    start: Instant,
    wait: Duration,
}

impl Tries {
    fn until(wait: Duration) -> Self {
        Self { start: Instant::now(), wait }
    }

    /// Pauses before the next try; an error when the wait is over.
    async fn pause(&self) -> Result<(), String> {
        let left = self.wait.saturating_sub(self.start.elapsed());
        if left.is_zero() {
            return Err("busy".to_owned());
        }
        tokio::time::sleep(PAUSE.min(left)).await;
        Ok(())
    }
}

async fn ask<T: redis::FromRedisValue>(
    command: &redis::Cmd,
    connection: &MultiplexedConnection,
) -> Result<T, String> {
    command.query_async(&mut connection.clone()).await.map_err(in_words)
}

/// A holder that is killed between the two commands keeps the lock forever; a late release deletes
/// another holder's lock.
struct TwoCommands {
    connection: MultiplexedConnection,
}

impl Client for TwoCommands {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let tries = Tries::until(wait);
            while !ask::<bool>(cmd("SETNX").arg(&key).arg(1), &self.connection).await? {
                tries.pause().await?;
            }
            let _: u8 = ask(cmd("EXPIRE").arg(&key).arg(TTL.as_secs()), &self.connection).await?;
            body.await;
            ask(cmd("DEL").arg(&key), &self.connection).await
        })
    }
}

/// Trusts every client's clock; a late release deletes another holder's lock.
struct Timestamps {
    connection: MultiplexedConnection,
}

fn now() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

impl Timestamps {
    async fn is_mine(&self, key: &str) -> Result<bool, String> {
        let expires = now() + u64::try_from(TTL.as_millis()).unwrap();
        if ask(cmd("SETNX").arg(key).arg(expires), &self.connection).await? {
            return Ok(true);
        }
        let theirs: Option<u64> = ask(cmd("GET").arg(key), &self.connection).await?;
        if theirs.is_none_or(|theirs| theirs > now()) {
            return Ok(false);
        }
        let before: Option<u64> = ask(cmd("GETSET").arg(key).arg(expires), &self.connection).await?;
        Ok(before == theirs)
    }
}

impl Client for Timestamps {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let tries = Tries::until(wait);
            while !self.is_mine(&key).await? {
                tries.pause().await?;
            }
            body.await;
            ask(cmd("DEL").arg(&key), &self.connection).await
        })
    }
}

thread_local! {
    /// The token, and how often the thread holds the lock.
    static HELD: RefCell<HashMap<String, (String, u32)>> = RefCell::default();
}

/// Whether this thread holds the lock already.
fn joins(key: &str) -> bool {
    HELD.with_borrow_mut(|held| held.get_mut(key).map(|(_, count)| *count += 1).is_some())
}

/// In async code it takes all tasks of a thread for one holder.
struct Reentrant(SetNx);

impl Client for Reentrant {
    fn locked(&self, key: String, wait: Duration, body: Body) -> Outcome<'_> {
        Box::pin(async move {
            let tries = Tries::until(wait);
            while !joins(&key) {
                if let Ok(token) = self.0.acquire(&key, Duration::ZERO).await {
                    HELD.with_borrow_mut(|held| held.insert(key.clone(), (token, 1)));
                    break;
                }
                tries.pause().await?;
            }
            body.await;
            let outermost = HELD.with_borrow_mut(|held| {
                let (_, count) = held.get_mut(&key)?;
                *count -= 1;
                if *count == 0 { held.remove(&key) } else { None }
            });
            match outermost {
                Some((token, _)) => self.0.release(&key, &token).await,
                None => Ok(()),
            }
        })
    }
}
