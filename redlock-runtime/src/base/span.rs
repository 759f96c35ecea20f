//! A length of time in a message.

use std::fmt;
use std::time::Duration;

/// `45 ms`, `9.7 s`, `2 min 3 s`, `5 h 4 min` or `3 d 2 h`.
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            return write!(f, "{} ms", self.0.as_millis());
        }
        let tenths = (self.0.as_millis() + 50) / 100;
        if tenths < 600 {
            return write!(f, "{}.{} s", tenths / 10, tenths % 10);
        }
        let (seconds, minutes, hours) = (self.0.as_secs(), self.0.as_secs() / 60, self.0.as_secs() / 3_600);
        match (minutes, hours) {
            // It has been rounded up.
            (0, _) => f.write_str("1 min 0 s"),
            (_, 0) => write!(f, "{minutes} min {} s", seconds % 60),
            (_, ..24) => write!(f, "{hours} h {} min", minutes % 60),
            _ => write!(f, "{} d {} h", hours / 24, hours % 24),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (9_760, "9.8 s"),
            (59_999, "1 min 0 s"),
            (62_900, "1 min 2 s"),
            (3_600_000, "1 h 0 min"),
            (93_600_000, "1 d 2 h"),
        ] {
            assert_eq!(Span(Duration::from_millis(ms)).to_string(), text);
        }
    }
}
