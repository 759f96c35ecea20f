//! What is printed of a lock: words for a person, JSON for a program.

use std::time::{Duration, SystemTime};
use std::{fmt, io};

use redlocked::Holder;
use redlocked::inspect::{LockInfo, Waiter};
use serde_json::Value;

/// The holder or a waiter: `web-3:4711 in shop::purchase`.
pub(crate) fn caller(name: Option<&str>, function: Option<&str>) -> String {
    let name = name.unwrap_or("a client of another kind");
    function.map_or_else(|| name.to_owned(), |function| format!("{name} in {function}"))
}

pub(crate) fn holder(lock: &LockInfo) -> String {
    together(lock).unwrap_or_else(|| caller(lock.holder().name(), lock.holder().function()))
}

/// How many hold it, where several may: `3 readers`, `2 of 5 permits`, `7 of 10 permits, 3 holders`, `2 of 20 permits (set centrally)`.
pub(crate) fn together(lock: &LockInfo) -> Option<String> {
    let inside = lock.holder().inside()?;
    let central = if lock.has_central_limit() { " (set centrally)" } else { "" };
    Some(match lock.limit() {
        Some(limit) if lock.taken() > inside => {
            let holders = if inside == 1 { "holder" } else { "holders" };
            format!("{} of {limit} permits{central}, {inside} {holders}", lock.taken())
        }
        Some(limit) => format!("{inside} of {limit} permits{central}"),
        None if inside == 1 => "1 reader".to_owned(),
        None => format!("{inside} readers"),
    })
}

/// The function that holds it, or that all those have which hold it together.
pub(crate) fn function(lock: &LockInfo) -> Option<&str> {
    let mut functions = lock.holders().iter().map(Holder::function);
    let first = functions.next()?;
    if functions.all(|other| other == first) { first } else { Some("(several)") }
}

/// When the first of those that hold it asked for it.
pub(crate) fn asked(lock: &LockInfo) -> Option<SystemTime> {
    lock.holders().iter().filter_map(Holder::asked).min()
}

/// `3 h 4 min`; or `≤ 3 h 4 min`, where several hold it: of those it is only known when they asked.
pub(crate) fn held_for(lock: &LockInfo) -> Option<String> {
    if lock.holder().inside().is_none() {
        return lock.holder().granted().map(|granted| Ago(granted).to_string());
    }
    asked(lock).map(|asked| format!("≤ {}", Ago(asked)))
}

/// One of those that hold it together.
pub(crate) fn one_of_them(holder: &Holder) -> String {
    let left = holder.expires_in().map_or_else(|| "no end".to_owned(), |left| Span(left).to_string());
    let asked = holder.asked().map_or_else(String::new, |asked| format!(", asked {} ago", Ago(asked)));
    let taken = if holder.taken() > 1 { format!(", {} permits", holder.taken()) } else { String::new() };
    format!("{}{taken}{asked}, lease left {left}", caller(holder.name(), holder.function()))
}

pub(crate) fn waiter(waiter: &Waiter) -> String {
    let name = caller(waiter.name(), waiter.function());
    waiter.asked().map_or_else(|| name.clone(), |asked| format!("{name}, asked {} ago", Ago(asked)))
}

pub(crate) fn lease_left(lock: &LockInfo) -> String {
    lock.holder().expires_in().map_or_else(|| "no end".to_owned(), |left| Span(left).to_string())
}

pub(crate) fn json(lock: &LockInfo) -> io::Result<Value> {
    Ok(serde_json::to_value(lock)?)
}

pub(crate) fn in_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// In seconds since 1970.
pub(crate) fn epoch(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// To the second.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// `45 ms`, `3.2 s`, `2 min 3 s`, `5 h 4 min` or `3 d 2 h`.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 if self.0.as_millis() == 0 => f.write_str("under 1 ms"),
            0 => write!(f, "{} ms", self.0.as_millis()),
            1..60 => write!(f, "{}.{} s", self.0.as_secs(), self.0.subsec_millis() / 100),
            _ => whole(self.0.as_secs(), f),
        }
    }
}

/// `0 s`, `12 s`, `2 min 3 s`: how long ago it was, on this clock.
pub(crate) struct Ago(pub(crate) SystemTime);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The clock of another host may be ahead.
        whole(SystemTime::now().duration_since(self.0).unwrap_or_default().as_secs(), f)
    }
}

/// In the two largest units.
pub(crate) fn whole(seconds: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match (minutes, hours) {
        (0, _) => write!(f, "{seconds} s"),
        (_, 0) => write!(f, "{minutes} min {} s", seconds % 60),
        (_, ..24) => write!(f, "{hours} h {} min", minutes % 60),
        _ => write!(f, "{} d {} h", hours / 24, hours % 24),
    }
}

/// With control characters escaped, and those that turn the direction of a line: any client can
/// write a key that would change what a terminal shows.
pub(crate) fn printable(text: &str) -> String {
    let turns = |char| matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escape = |char: char| match char {
        _ if char.is_control() || turns(char) => char.escape_default().to_string(),
        _ => char.into(),
    };
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
        assert_eq!(Ago(now + Duration::from_secs(60)).to_string(), "0 s");
        assert_eq!(Ago(now - Duration::from_millis(90_500)).to_string(), "1 min 30 s");
    }

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (ms, text) in [
            (0, "under 1 ms"),
            (1, "1 ms"),
            (999, "999 ms"),
            (9_760, "9.7 s"),
            (59_999, "59.9 s"),
            (62_900, "1 min 2 s"),
            (3_600_000, "1 h 0 min"),
            (93_600_000, "1 d 2 h"),
        ] {
            assert_eq!(Span(Duration::from_millis(ms)).to_string(), text);
        }
    }

    #[test]
    fn a_text_cannot_change_what_a_terminal_shows() {
        assert_eq!(printable("靴 \u{1b}[2J\u{202e}\n\"é\""), "靴 \\u{1b}[2J\\u{202e}\\n\"é\"");
    }
}
