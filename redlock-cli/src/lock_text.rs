//! What is printed of a lock: words for a person, JSON for a program.

use std::fmt;
use std::time::Duration;

use redlocked::LockInfo;
use serde_json::{Value, json};

/// Of a holder without a name.
pub(crate) const OTHER_CLIENT: &str = "a client of another kind";

/// A held lock.
pub(crate) struct LockText {
    pub(crate) key: String,
    pub(crate) info: LockInfo,
}

impl LockText {
    pub(crate) fn key(&self) -> String {
        printable(&self.key)
    }

    pub(crate) fn holder(&self) -> &str {
        self.info.holder().name().unwrap_or(OTHER_CLIENT)
    }

    pub(crate) fn lease_left(&self) -> String {
        self.info
            .holder()
            .expires_in()
            .map_or_else(|| "without an end".to_owned(), |left| Seconds(left).to_string())
    }

    pub(crate) fn json(&self) -> Value {
        let holder = self.info.holder();
        json!({
            "key": self.key,
            "holder": holder.name(),
            "lease_left_ms": holder.expires_in().map(in_ms),
            "waiters": self.info.waiters(),
        })
    }
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

/// With control characters escaped: any client can write a key that would change what a terminal shows.
pub(crate) fn printable(text: &str) -> String {
    let escape = |char: char| if char.is_control() { char.escape_default().to_string() } else { char.into() };
    text.chars().map(escape).collect()
}
