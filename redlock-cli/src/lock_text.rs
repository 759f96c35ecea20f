//! What is printed of a lock: words for a person, JSON for a program.

use std::fmt;
use std::time::{Duration, SystemTime};

use redlocked::{LockInfo, Waiter};
use serde_json::{Value, json};

/// The holder or a waiter: `web-3:4711 in shop::purchase`.
pub(crate) fn caller(name: Option<&str>, function: Option<&str>) -> String {
    let name = name.unwrap_or("a client of another kind");
    function.map_or_else(|| name.to_owned(), |function| format!("{name} in {function}"))
}

pub(crate) fn holder(lock: &LockInfo) -> String {
    caller(lock.holder().name(), lock.holder().function())
}

pub(crate) fn waiter(waiter: &Waiter) -> String {
    let name = caller(waiter.name(), waiter.function());
    waiter.since().map_or_else(|| name.clone(), |since| format!("{name}, asked {}", Ago(since)))
}

pub(crate) fn lease_left(lock: &LockInfo) -> String {
    lock.holder().expires_in().map_or_else(|| "without an end".to_owned(), |left| Seconds(left).to_string())
}

pub(crate) fn json(lock: &LockInfo) -> Value {
    let time =
        |since: Option<SystemTime>| since.map(|since| humantime::format_rfc3339_seconds(since).to_string());
    let holder = lock.holder();
    let queue = lock.queue().iter().map(|waiter| {
        json!({ "name": waiter.name(), "function": waiter.function(), "asked": time(waiter.since()) })
    });
    json!({
        "key": lock.key(),
        "holder": { "name": holder.name(), "function": holder.function(), "asked": time(holder.since()) },
        "lease_left_ms": holder.expires_in().map(in_ms),
        "waiters": lock.waiters(),
        "queue": queue.collect::<Value>(),
    })
}

fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `3.2 s`, or `45 ms` below a second.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        }
    }
}

/// `2m 3s ago`, on this clock.
pub(crate) struct Ago(pub(crate) SystemTime);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The clock of another host may be ahead.
        let ago = SystemTime::now().duration_since(self.0).unwrap_or_default();
        write!(f, "{} ago", humantime::format_duration(Duration::from_secs(ago.as_secs())))
    }
}

/// With control characters escaped: any client can write a key that would change what a terminal shows.
pub(crate) fn printable(text: &str) -> String {
    let escape = |char: char| if char.is_control() { char.escape_default().to_string() } else { char.into() };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_a_name_and_a_function() {
        assert_eq!(caller(Some("web-3:7"), Some("shop::buy")), "web-3:7 in shop::buy");
        assert_eq!(caller(Some("web-3:7"), None), "web-3:7");
        assert_eq!(caller(None, None), "a client of another kind");
    }

    #[test]
    fn a_time_in_the_future_is_now() {
        let now = SystemTime::now();
        assert_eq!(Ago(now + Duration::from_secs(60)).to_string(), "0s ago");
        assert_eq!(Ago(now - Duration::from_millis(90_500)).to_string(), "1m 30s ago");
    }
}
