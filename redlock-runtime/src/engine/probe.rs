//! Which commands the access rules of a server let us run: tried at each connect, because in the middle of a script
//! it would show too late.

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

/// Without these there are no locks.
const NEEDED: [&str; 8] = ["GET", "SET", "DEL", "EXISTS", "PEXPIRE", "PTTL", "INCR", "TIME"];

const PROBE: &str = include_str!("scripts/probe.lua");

/// What came out.
pub(super) enum Allowed {
    /// All that locks need. `hands_off`: all that hand-off needs, too.
    Enough { hands_off: bool },
    /// Not these, which locks need; in words.
    TooLittle(String),
}

/// Tries everything, after the inbox was subscribed to; leaves nothing behind at `key`.
pub(super) async fn try_commands(connection: &mut MultiplexedConnection, key: &str, inbox: &str) -> Allowed {
    let hash = redis::Script::new(PROBE).get_hash().to_owned();
    let tried = match call(connection, "EVALSHA", &hash, key, inbox).await {
        Err(error) if error.code() == Some("NOSCRIPT") => call(connection, "EVAL", PROBE, key, inbox).await,
        other => other,
    };
    let answer = match tried {
        Ok(answer) => answer,
        Err(error) if forbids(&error) => {
            let words = error.detail().unwrap_or("NOPERM");
            return Allowed::TooLittle(format!("{words} (a key like `{key}`)"));
        }
        // Not for ever, or a server of another kind: what it cannot do shows.
        Err(_) => return Allowed::Enough { hands_off: false },
    };
    let missing: Vec<_> = answer.iter().filter_map(name).collect();
    let needed: Vec<_> = missing.iter().copied().filter(|name| NEEDED.contains(name)).collect();
    if needed.is_empty() {
        let listens = matches!(answer.first(), Some(Value::Int(listeners)) if *listeners > 0);
        Allowed::Enough { hands_off: listens && missing.is_empty() }
    } else {
        Allowed::TooLittle(needed.join(", "))
    }
}

async fn call(
    connection: &mut MultiplexedConnection,
    command: &str,
    script: &str,
    key: &str,
    inbox: &str,
) -> Result<Vec<Value>, RedisError> {
    redis::cmd(command).arg(script).arg(1).arg(key).arg(inbox).query_async(connection).await
}

fn name(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(name) => std::str::from_utf8(name).ok(),
        _ => None,
    }
}

/// By an access rule. A server or a proxy that does not know a command is another matter.
pub(super) fn forbids(error: &RedisError) -> bool {
    error.code() == Some("NOPERM")
}
