//! `"1m 30s"` to milliseconds, at compile time.

/// From the largest to the smallest: the order in which a duration names them.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Other spellings of the units, for suggestions.
const SPELLINGS: [(&str, &[&str]); 5] = [
    ("d", &["day", "days"]),
    ("h", &["hr", "hrs", "hour", "hours"]),
    ("m", &["min", "mins", "minute", "minutes"]),
    ("s", &["sec", "secs", "second", "seconds"]),
    ("ms", &["msec", "msecs", "milli", "millis", "millisecond", "milliseconds"]),
];

/// The longest duration that a Lua number holds exactly.
pub(crate) const MAX_MILLIS: u64 = 1 << 53;

/// The milliseconds of `text`, or an error that says what to write instead.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("expected a duration such as `\"10s\"`, found an empty string".to_owned());
    }
    let mut total: u64 = 0;
    let (mut ordered, mut units) = (true, Vec::new());
    while !rest.is_empty() {
        let digits = split_at(rest, |c| !c.is_ascii_digit());
        let unit = split_at(digits.1, |c| c.is_ascii_digit() || c.is_whitespace());
        rest = unit.1.trim_start();
        let (number, unit) = (digits.0, unit.0);

        let (rank, factor) = piece(text, number, unit, rest)?;
        if units.contains(&rank) {
            return Err(format!("`{text}` has `{unit}` twice: write each unit once, as in `\"1m 30s\"`"));
        }
        ordered &= units.last().is_none_or(|last| *last < rank);
        units.push(rank);
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .and_then(|millis| total.checked_add(millis))
            .filter(|total| *total <= MAX_MILLIS)
            .ok_or_else(|| format!("`{text}` is too long: the limit is 2^53 ms, about 285,000 years"))?;
    }
    if ordered {
        return Ok(total);
    }
    Err(format!("`{text}` is out of order: write `\"{}\"`", spelled(total)))
}

/// The error for a duration without quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("a duration goes in quotes: `\"{text}\"`")
}

/// The duration as `parse` reads it.
fn spelled(mut millis: u64) -> String {
    let mut pieces = Vec::new();
    for (unit, factor) in UNITS {
        if millis >= factor {
            pieces.push(format!("{}{unit}", millis / factor));
            millis %= factor;
        }
    }
    if pieces.is_empty() { "0s".to_owned() } else { pieces.join(" ") }
}

/// The milliseconds of `1.5s`, if they are whole.
fn fraction(text: &str) -> Option<u64> {
    let (number, rest) = split_at(text, |c| !c.is_ascii_digit());
    let (digits, unit) = split_at(rest.strip_prefix(['.', ','])?, |c| !c.is_ascii_digit());
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let scale = 10_u64.checked_pow(u32::try_from(digits.len()).ok()?)?;
    let millis = format!("{number}{digits}").parse::<u64>().ok()?.checked_mul(factor)?;
    (millis % scale == 0).then_some(millis / scale)
}

/// Rank and factor of one `<number><unit>`, or the error that says how to spell it.
fn piece(text: &str, number: &str, unit: &str, rest: &str) -> Result<(usize, u64), String> {
    if let Some(positive) = text.strip_prefix(['-', '+'])
        && positive.starts_with(|c: char| c.is_ascii_digit())
        && parse(positive).is_ok()
    {
        return Err(format!("`{text}` has a sign: write `\"{positive}\"`"));
    }
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
    Err(if unit.starts_with('_') {
        format!("`{text}` has a `_`: write `\"{}\"`", text.replace('_', ""))
    } else if unit.starts_with(['.', ',']) {
        match fraction(text) {
            Some(millis) => format!("`{text}` is not a whole number: write `\"{}\"`", spelled(millis)),
            None => {
                format!("`{text}` is not a whole number: write it with a smaller unit, such as `\"1500ms\"`")
            }
        }
    } else if let Some(unit) = spelling(unit) {
        format!("`{text}` has no known unit: write `\"{number}{unit}\"`")
    } else if ["us", "µs", "μs", "ns"].contains(&unit) {
        format!("`{text}` is too fine: the smallest unit is `ms`")
    } else {
        format!("unknown unit `{unit}` in `{text}`: the units are `ms`, `s`, `m`, `h` and `d`")
    })
}

/// The unit that `unit` is another spelling of.
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
            ("1.5s", "write `\"1s 500ms\"`"),
            ("1,5h", "write `\"1h 30m\"`"),
            ("0.0s", "write `\"0s\"`"),
            ("1.0001s", "such as `\"1500ms\"`"),
            ("1h 1.5s", "such as `\"1500ms\"`"),
            ("9999999999.99999999999999s", "such as `\"1500ms\"`"),
            ("1_000ms", "write `\"1000ms\"`"),
            ("10us", "the smallest unit is `ms`"),
            ("10µs", "the smallest unit is `ms`"),
            ("1w", "unknown unit `w`"),
            ("ten seconds", "is not a duration"),
            ("-5s", "has a sign: write `\"5s\"`"),
            ("+1m 5s", "has a sign: write `\"1m 5s\"`"),
            ("--5s", "is not a duration"),
            ("-", "is not a duration"),
            ("10s,", "unknown unit `s,`"),
            ("30s 1m", "out of order: write `\"1m 30s\"`"),
            ("500ms 90s 1m", "out of order: write `\"2m 30s 500ms\"`"),
            ("1s 1s", "has `s` twice"),
            ("1s 1m 1s", "has `s` twice"),
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
