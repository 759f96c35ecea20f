//! The commands that the server gets.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use kit::RedisServer;
use kit::bare::connect;
use redis::aio::MultiplexedConnection;

use crate::direct::DIRECT;

/// The commands of one contender so far.
pub struct Commands {
    connection: MultiplexedConnection,
    sends: &'static [&'static str],
    monitor: Option<Monitor>,
}

impl Commands {
    /// Counted by the statistics of the server.
    pub async fn of(contender: &str, server: &RedisServer) -> Self {
        Self { connection: connect(&server.url()).await, sends: sent_by(contender), monitor: None }
    }

    /// Counted by `MONITOR`, which tells the commands of scripts apart. It costs time: nothing else
    /// is measured meanwhile.
    pub async fn monitored(contender: &str, server: &RedisServer) -> Self {
        Self { monitor: Some(Monitor::start(server)), ..Self::of(contender, server).await }
    }

    pub async fn so_far(&mut self) -> f64 {
        match &self.monitor {
            Some(monitor) => monitor.seen.load(Ordering::SeqCst) as f64,
            None => self.by_statistics().await,
        }
    }

    /// The server also counts commands that scripts call, and does not tell them apart, so this
    /// counts the commands that each contender sends itself. Of ours, these are the scripts: a
    /// waiter joins the queue with one.
    pub async fn by_statistics(&mut self) -> f64 {
        let mut ask = redis::cmd("INFO");
        let info: String = ask.arg("commandstats").query_async(&mut self.connection).await.unwrap();
        let calls = |line: &str| -> Option<f64> {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            self.sends.contains(&name).then(|| rest.split(',').next().unwrap().parse().unwrap())
        };
        info.lines().filter_map(calls).sum()
    }

    /// The waiters of one of our locks that have a place in its queue.
    pub async fn queued(&mut self, key: &str) -> usize {
        let mut ask = redis::cmd("ZCARD");
        ask.arg(format!("lock:{key}%queue")).query_async(&mut self.connection).await.unwrap()
    }
}

fn sent_by(contender: &str) -> &'static [&'static str] {
    match contender {
        // Their scripts call SET.
        DIRECT => &["evalsha", "eval"],
        _ if contender.starts_with("redlocked") || contender.starts_with("node-redlock") => {
            &["evalsha", "eval"]
        }
        _ if contender.starts_with("redis-lock") => &["fcall", "set", "eval"],
        _ if contender.starts_with("SETNX") => &["setnx", "expire", "get", "getset", "del"],
        _ => &["set", "evalsha", "eval", "blpop"],
    }
}

/// Whether a script of this contender calls commands that it also sends, so that only `MONITOR`
/// tells them apart.
pub fn needs_monitor(contender: &str) -> bool {
    contender.starts_with("redlocked")
}

/// Reads every command that the server gets, until it is dropped.
struct Monitor {
    stream: TcpStream,
    seen: Arc<AtomicU64>,
}

impl Monitor {
    fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let seen = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&seen);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                count.fetch_add(u64::from(is_sent(&line)), Ordering::SeqCst);
            }
        });
        Self { stream, seen }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Whether a client sent it, and for its lock: not a script, and not the INCR that a request of the
/// flash sale makes.
fn is_sent(line: &str) -> bool {
    let Some((place, command)) = line.split_once("] ") else { return false };
    let name = command.trim_start_matches('"').split('"').next().unwrap_or_default();
    !place.ends_with(" lua") && !["info", "incr", "hello", "client"].contains(&&*name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::is_sent;

    #[test]
    fn commands_of_scripts_and_of_the_workload_are_not_counted() {
        assert!(is_sent(r#"+1339518083.107412 [0 127.0.0.1:60866] "SET" "lock:a" "] b""#));
        assert!(is_sent(r#"+1339518083.107412 [0 127.0.0.1:60866] "evalsha" "0a" "1" "lock:a""#));
        assert!(!is_sent(r#"+1339518083.107413 [0 lua] "SET" "lock:a" "b""#));
        assert!(!is_sent(r#"+1339518083.107413 [0 127.0.0.1:60866] "INCR" "sold""#));
    }
}
