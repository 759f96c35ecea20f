//! Numbers as text, and back.

/// A whole number of 64 bits, written as Redis reads it.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i64 = text.parse().ok()?;
    // Neither `+1` nor `01` is one.
    (number.to_string() == text).then_some(number)
}

pub(super) fn float(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// As `%.17g` of C.
pub(super) fn exact(number: f64) -> String {
    if let Some(whole) = whole(number) {
        return whole;
    }
    if !number.is_finite() {
        return infinite(number);
    }
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if !(-4..17).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(16 - exponent).unwrap_or(0);
    trimmed(&format!("{number:.decimals$}"))
}

/// The shortest text that is read as the same number.
pub(super) fn shortest(number: f64) -> String {
    match whole(number) {
        Some(whole) => whole,
        None if number.is_finite() => number.to_string(),
        None => infinite(number),
    }
}

fn infinite(number: f64) -> String {
    if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() }
}

#[expect(clippy::cast_possible_truncation, clippy::float_cmp, reason = "such a number is whole and in range")]
fn whole(number: f64) -> Option<String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (number.abs() <= EXACT && number.trunc() == number).then(|| (number as i64).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_servers_write_them() {
        for (number, text) in [
            (1.5, "1.5"),
            (1e20, "1e+20"),
            (1_795_000_000_000_000.0, "1795000000000000"),
            (0.1, "0.10000000000000001"),
            (-3.0, "-3"),
            (1e-7, "9.9999999999999995e-08"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(exact(number), text);
        }
        assert_eq!(shortest(0.1), "0.1");
        assert_eq!(
            [integer(b"12"), integer(b"-1"), integer(b"01"), integer(b"")],
            [Some(12), Some(-1), None, None]
        );
    }
}
