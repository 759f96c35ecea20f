//! What a person reads of a lock: names, times, and texts of others that cannot change the page.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use redlocked::Holder;
use redlocked::inspect::LockInfo;

/// So many characters of a text that somebody else has written are shown.
const LONGEST: usize = 160;

/// With control characters escaped, and those that turn the direction of a line; and cut at a length.
pub(crate) fn printable(text: &str) -> String {
    let turns = |char| matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::new();
    for (at, char) in text.chars().enumerate() {
        if at == LONGEST {
            shown.push('…');
            break;
        }
        if char.is_control() || turns(char) {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

/// The process that holds the lock or waits for it.
pub(crate) fn process(name: Option<&str>) -> String {
    name.map_or_else(|| "a client of another kind".to_owned(), printable)
}

/// How many hold it, where several may: `3 readers`, `2 of 5 permits`, `7 of 10 permits, 3 holders`, `2 of 20 permits (set centrally)`.
pub(crate) fn together(lock: &LockInfo) -> Option<String> {
    let inside = lock.holder().inside()?;
    let central = if lock.has_central_limit() { " (set centrally)" } else { "" };
    Some(match lock.limit() {
        Some(limit) if lock.taken() > inside => {
            format!(
                "{} of {limit} permits{central}, {inside} {}",
                lock.taken(),
                one_or(inside, "holder", "holders")
            )
        }
        Some(limit) => format!("{inside} of {limit} permits{central}"),
        None => format!("{inside} {}", one_or(inside, "reader", "readers")),
    })
}

fn one_or(count: u32, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// When the lock was granted; of several holders, when the first of them asked.
pub(crate) fn since(lock: &LockInfo) -> Option<SystemTime> {
    match lock.holder().inside() {
        None => lock.holder().granted(),
        Some(_) => lock.holders().iter().filter_map(Holder::asked).min(),
    }
}

/// `45 ms`, `3.2 s`, `2 min 3 s`, `5 h 4 min` or `3 d 2 h`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    match (seconds, minutes, hours) {
        (0, ..) => format!("{} ms", duration.as_millis()),
        (1..10, ..) => format!("{seconds}.{} s", duration.subsec_millis() / 100),
        (_, 0, _) => format!("{seconds} s"),
        (_, _, 0) => format!("{minutes} min {} s", seconds % 60),
        (_, _, ..24) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// In whole seconds, as the servers keep them; the clock of another host may be ahead.
pub(crate) fn ago(time: SystemTime, now: SystemTime) -> String {
    match now.duration_since(time).unwrap_or_default().as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => span(Duration::from_secs(seconds)),
    }
}

/// To the second, in UTC.
pub(crate) fn exact(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// How long it is since then, with the exact time for who points at it.
pub(crate) fn since_then(time: SystemTime, now: SystemTime) -> Markup {
    let exact = exact(time);
    html! { time datetime=(exact) title=(exact) { (ago(time, now)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_is_cut_and_cannot_turn_a_line() {
        assert_eq!(printable("靴 \u{1b}[2J\u{202e}\n"), "靴 \\u{1b}[2J\\u{202e}\\n");
        let long = "x".repeat(64 * 1024);
        assert_eq!(printable(&long).chars().count(), LONGEST + 1);
    }

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (9_760, "9.7 s"),
            (59_999, "59 s"),
            (62_900, "1 min 2 s"),
            (93_600_000, "1 d 2 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
        let now = SystemTime::now();
        assert_eq!(ago(now + Duration::from_secs(60), now), "0 s");
        assert_eq!(ago(now - Duration::from_secs(9), now), "9 s");
    }
}
