//! `"1m 30s"` to milliseconds, at compile time.

/// From the largest to the smallest, as they must follow one another.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// How others spell our units.
const SPELLINGS: [(&str, &[&str]); 5] = [
    ("d", &["day", "days"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("m", &["min", "mins", "minute", "minutes"]),
    ("s", &["sec", "secs", "second", "seconds"]),
    ("ms", &["msec", "msecs", "milli", "millis", "millisecond", "milliseconds"]),
];

/// The longest duration that survives a trip through a Lua number.
pub(crate) const MAX_MILLIS: u64 = 1 << 53;

/// The milliseconds of `text`, or what to write instead.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("expected a duration such as `\"10s\"`, found an empty string".to_owned());
    }
    let mut total: u64 = 0;
    let mut smallest = UNITS.len() + 1;
    while !rest.is_empty() {
        let digits = split_at(rest, |c| !c.is_ascii_digit());
        let unit = split_at(digits.1, |c| c.is_ascii_digit() || c.is_whitespace());
        rest = unit.1.trim_start();
        let (number, unit) = (digits.0, unit.0);

        let (rank, factor) = piece(text, number, unit, rest)?;
        if smallest <= UNITS.len() && rank <= smallest {
            return Err(format!("`{text}` is out of order: write the largest unit first, each once"));
        }
        smallest = rank;
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .and_then(|millis| total.checked_add(millis))
            .filter(|total| *total <= MAX_MILLIS)
            .ok_or_else(|| format!("`{text}` is too long: the limit is 2^53 ms, about 285,000 years"))?;
    }
    Ok(total)
}

/// Rank and factor of one `<number><unit>`, or the error that says how to spell it.
fn piece(text: &str, number: &str, unit: &str, rest: &str) -> Result<(usize, u64), String> {
    if number.is_empty() {
        return Err(format!("`{text}` is not a duration: write one such as `\"10s\"` or `\"1m 30s\"`"));
    }
    if unit.is_empty() {
        let next = split_at(rest, char::is_whitespace).0;
        return Err(match spelling(next) {
            Some(unit) => {
                format!("`{text}` has a space before its unit: write `\"{number}{unit}\"`")
            }
            None => format!("`{text}` has no unit: write `\"{number}s\"`, or `ms`, `m`, `h`, `d`"),
        });
    }
    if let Some(rank) = UNITS.iter().position(|(name, _)| *name == unit) {
        return Ok((rank, UNITS[rank].1));
    }
    Err(if unit.starts_with(['.', ',', '_']) {
        format!("`{text}` is not a whole number: write it with a smaller unit, such as `\"1500ms\"`")
    } else if let Some(unit) = spelling(unit) {
        format!("`{text}` has no known unit: write `\"{number}{unit}\"`")
    } else if ["us", "µs", "μs", "ns"].contains(&unit) {
        format!("`{text}` is too fine: the smallest unit is `ms`")
    } else {
        format!("unknown unit `{unit}` in `{text}`: the units are `ms`, `s`, `m`, `h` and `d`")
    })
}

/// Our spelling of a unit, if somebody's.
fn spelling(unit: &str) -> Option<&'static str> {
    let unit = unit.to_lowercase();
    SPELLINGS
        .iter()
        .find(|(ours, others)| *ours == unit || others.contains(&unit.as_str()))
        .map(|(ours, _)| *ours)
}

/// `text` before and from the first char that satisfies `stop`.
fn split_at(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::{MAX_MILLIS, parse};

    #[test]
    fn durations() {
        for (text, millis) in [
            ("500ms", 500),
            ("0s", 0),
            ("10s", 10_000),
            ("1m", 60_000),
            ("1m 30s", 90_000),
            ("1m30s", 90_000),
            (" 1h  2m\t3s 4ms ", 3_723_004),
            ("2d", 172_800_000),
            ("090s", 90_000),
            ("9007199254740992ms", MAX_MILLIS),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text:?}");
        }
    }

    #[test]
    fn mistakes_show_the_right_spelling() {
        for (text, hint) in [
            ("", "expected a duration such as `\"10s\"`"),
            ("  ", "expected a duration such as `\"10s\"`"),
            ("10", "write `\"10s\"`"),
            ("1m 30", "write `\"30s\"`"),
            ("10 s", "write `\"10s\"`"),
            ("10 seconds", "write `\"10s\"`"),
            ("10sec", "write `\"10s\"`"),
            ("10S", "write `\"10s\"`"),
            ("5mins", "write `\"5m\"`"),
            ("1.5s", "`\"1500ms\"`"),
            ("10us", "the smallest unit is `ms`"),
            ("10µs", "the smallest unit is `ms`"),
            ("1w", "unknown unit `w`"),
            ("ten seconds", "is not a duration"),
            ("-5s", "is not a duration"),
            ("10s,", "unknown unit `s,`"),
            ("30s 1m", "largest unit first"),
            ("1s 1s", "each once"),
            ("9007199254740993ms", "too long"),
            ("99999999999999999999s", "too long"),
            ("999999999999999d", "too long"),
            ("10 🦀", "has no unit"),
            ("٣s", "is not a duration"),
        ] {
            let error = parse(text).err().unwrap_or_default();
            assert!(error.contains(hint), "{text:?}: {error}");
        }
    }

    #[test]
    fn nothing_panics() {
        let pieces = ["", "1", "99999999999999999999", "s", "ms", " ", ".", "-", "µ", "\u{0}", "é"];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    let _ = parse(&format!("{a}{b}{c}"));
                }
            }
        }
    }
}
