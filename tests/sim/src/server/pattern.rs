//! The patterns of `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET` and access rules.

/// `*`, `?`, `[a-c]`, `[^a]`, and `\` in front of a character that stands for itself.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*'], _) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, text @ ..]) => matches(rest, text),
        ([b'[', rest @ ..], [first, text @ ..]) => {
            let (is_in, rest) = class(rest, *first);
            is_in && matches(rest, text)
        }
        ([b'\\', escaped, rest @ ..], [first, text @ ..]) => escaped == first && matches(rest, text),
        ([expected, rest @ ..], [first, text @ ..]) => expected == first && matches(rest, text),
    }
}

/// Whether the class holds the character, and the pattern behind the class.
fn class(pattern: &[u8], character: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', rest @ ..] => return (is_in != negated, rest),
            [b'\\', escaped, rest @ ..] => {
                is_in |= *escaped == character;
                rest
            }
            [from, b'-', to, rest @ ..] => {
                is_in |= (*from.min(to)..=*from.max(to)).contains(&character);
                rest
            }
            [one, rest @ ..] => {
                is_in |= *one == character;
                rest
            }
        };
    }
    (is_in != negated, rest)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_means_what_it_means_to_redis() {
        for (pattern, text, expected) in [
            ("lock:*", "lock:a", true),
            ("lock:*", "loc", false),
            ("*%clock", "lock:%clock", true),
            ("h?llo", "hello", true),
            ("h[a-e]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("a*b*c", "aXbYc", true),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
