//! A Redlock written by hand: the two commands of [`bare`](crate::bare) to all nodes at once, and
//! the answers of a majority decide. The others are read and thrown away by their connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use crate::bare::{COMPARE_AND_DELETE, OwnThread, connect, token};

/// The thread drives the connections and counts the answers, so the caller is woken once.
pub struct BareQuorum<'a> {
    thread: &'a OwnThread,
    connections: Vec<MultiplexedConnection>,
    hash: String,
}

type Answer = Pin<Box<dyn Future<Output = bool> + Send>>;

impl<'a> BareQuorum<'a> {
    /// A connection to each node, driven by that thread.
    pub async fn connect_on(thread: &'a OwnThread, urls: Vec<String>) -> Self {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(COMPARE_AND_DELETE);
        let (mut connections, mut hash) = (Vec::new(), String::new());
        for url in urls {
            let mut connection = thread.run(async move { connect(&url).await }).await;
            hash = load.query_async(&mut connection).await.unwrap();
            connections.push(connection);
        }
        Self { thread, connections, hash }
    }

    /// Acquire and release of a lock that is free.
    pub async fn pair(&self, key: &str) {
        let token = token();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&token).arg("NX").arg("PX").arg(30_000);
        assert!(self.agree(set, Value::Okay).await);
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.hash).arg(1).arg(key).arg(token);
        assert!(self.agree(release, Value::Int(1)).await);
    }

    /// Whether a majority gives this answer.
    async fn agree(&self, command: Cmd, wanted: Value) -> bool {
        let connections = self.connections.clone();
        self.thread.run(ask(connections, command, wanted)).await
    }
}

async fn ask(connections: Vec<MultiplexedConnection>, command: Cmd, wanted: Value) -> bool {
    let needed = connections.len() / 2 + 1;
    let ask = |mut connection: MultiplexedConnection| -> Answer {
        let (command, wanted) = (command.clone(), wanted.clone());
        Box::pin(
            async move { connection.send_packed_command(&command).await.is_ok_and(|value| value == wanted) },
        )
    };
    let mut awaited: Vec<Answer> = connections.into_iter().map(ask).collect();
    let mut agreed = 0;
    poll_fn(|cx| {
        awaited.retain_mut(|answer| match answer.as_mut().poll(cx) {
            Poll::Ready(is_wanted) => {
                agreed += usize::from(is_wanted);
                false
            }
            Poll::Pending => true,
        });
        if agreed >= needed {
            Poll::Ready(true)
        } else if agreed + awaited.len() < needed {
            Poll::Ready(false)
        } else {
            Poll::Pending
        }
    })
    .await
}
