//! The CPU time and the commands of the server.

use std::time::Duration;

use kit::figures::cpu_in;
use redis::aio::MultiplexedConnection;

use crate::direct::DIRECT;
use crate::ours;

async fn info(connection: &mut MultiplexedConnection, section: &str) -> String {
    redis::cmd("INFO").arg(section).query_async(connection).await.unwrap()
}

/// The CPU time of the server, as it reports it.
pub async fn server_cpu(connection: &mut MultiplexedConnection) -> Duration {
    cpu_in(&info(connection, "cpu").await)
}

/// How many commands of a contender the server has had. The server also counts commands that scripts call, and does not
/// tell them apart, so this lists the commands that each contender sends itself.
pub async fn commands(connection: &mut MultiplexedConnection, contender: &str) -> f64 {
    let sends = sent_by(contender);
    let info = info(connection, "commandstats").await;
    let calls = |line: &str| -> Option<f64> {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        sends.contains(&name).then(|| rest.split(',').next().unwrap().parse().unwrap())
    };
    info.lines().filter_map(calls).sum()
}

fn sent_by(contender: &str) -> &'static [&'static str] {
    match contender {
        // Their scripts call SET.
        DIRECT | ours::ASYNC => &["evalsha", "eval"],
        _ if contender.starts_with("node-redlock") => &["evalsha", "eval"],
        _ if contender.starts_with("redis-lock") => &["fcall", "set", "eval"],
        _ if contender.starts_with("SETNX") => &["setnx", "expire", "get", "getset", "del"],
        _ => &["set", "evalsha", "eval", "blpop"],
    }
}
