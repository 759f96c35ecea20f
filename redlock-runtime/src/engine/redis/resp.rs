//! RESP, the protocol of Redis, as far as servers speak it: where a value ends, and which one it is.
//!
//! The `redis` crate reads every value, but takes several times as long: the kinds that lock scripts return are read here, the
//! others there.

use redis::{PushKind, RedisError, Value};

/// Lists within lists that are read here.
const DEEPEST: usize = 4;

/// The bytes are none of RESP.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// Finds where a value ends whose bytes arrive in pieces.
#[derive(Default)]
pub(super) struct ValueEnd {
    /// Up to here, the bytes are known.
    at: usize,
    /// How many values end behind that: those of the lists that have begun.
    open: usize,
}

impl ValueEnd {
    /// `bytes`: from the start of the value. `None` as long as its end has not arrived; then `bytes` has more the next time.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if self.at == 0 {
            self.open = 1;
        }
        while self.open > 0 {
            let Some((&kind, rest)) = bytes.get(self.at..).and_then(<[u8]>::split_first) else {
                return Ok(None);
            };
            let Some(line) = line(rest) else {
                return Ok(None);
            };
            let behind = self.at + 1 + line.len() + 2;
            let (behind, contents) = match kind {
                b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => (behind, 0),
                b'$' | b'!' | b'=' => match length(line)? {
                    Some(length) => {
                        (behind.checked_add(length).and_then(|at| at.checked_add(2)).ok_or(Malformed)?, 0)
                    }
                    None => (behind, 0),
                },
                b'*' | b'~' | b'>' => (behind, length(line)?.unwrap_or(0)),
                b'%' => (behind, length(line)?.unwrap_or(0).checked_mul(2).ok_or(Malformed)?),
                // Attributes, and the value that has them.
                b'|' => (
                    behind,
                    length(line)?
                        .unwrap_or(0)
                        .checked_mul(2)
                        .and_then(|each| each.checked_add(1))
                        .ok_or(Malformed)?,
                ),
                _ => return Err(Malformed),
            };
            if behind > bytes.len() {
                return Ok(None);
            }
            self.at = behind;
            self.open = (self.open - 1).checked_add(contents).ok_or(Malformed)?;
        }
        Ok(Some(std::mem::take(&mut self.at)))
    }
}

/// The bytes up to the end of the line; `None` as long as that has not arrived.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..bytes.windows(2).position(|two| two == b"\r\n")?)
}

/// `None` for a value that does not exist, which has a negative length.
fn length(line: &[u8]) -> Result<Option<usize>, Malformed> {
    Ok(usize::try_from(number(line).ok_or(Malformed)?).ok())
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Appends a command.
pub(super) fn write_command(into: &mut Vec<u8>, words: &[&str]) {
    write_length(into, b'*', words.len());
    for word in words {
        write_length(into, b'$', word.len());
        into.extend_from_slice(word.as_bytes());
        into.extend_from_slice(b"\r\n");
    }
}

fn write_length(into: &mut Vec<u8>, kind: u8, length: usize) {
    into.push(kind);
    match u8::try_from(length) {
        Ok(digit @ 0..=9) => into.push(b'0' + digit),
        Ok(digits @ 10..=99) => into.extend([b'0' + digits / 10, b'0' + digits % 10]),
        _ => into.extend(length.to_string().into_bytes()),
    }
    into.extend_from_slice(b"\r\n");
}

/// The value that is all of `bytes`.
pub(super) fn value(bytes: &[u8]) -> Result<Value, RedisError> {
    match push(bytes).or_else(|| usual(bytes, DEEPEST)) {
        Some((value, [])) => Ok(value),
        _ => redis::parse_redis_value(bytes),
    }
}

/// A value of the kinds that scripts return, and what is behind it. `None` for any other.
fn usual(bytes: &[u8], depth: usize) -> Option<(Value, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let line = line(rest)?;
    let rest = rest.get(line.len() + 2..)?;
    match (kind, line) {
        (b':', line) => Some((Value::Int(number(line)?), rest)),
        (b'+', b"OK") => Some((Value::Okay, rest)),
        (b'_', _) => Some((Value::Nil, rest)),
        (b'$', line) => {
            let Some(length) = length(line).ok()? else {
                return Some((Value::Nil, rest));
            };
            let (text, rest) = rest.split_at_checked(length)?;
            Some((Value::BulkString(text.to_vec()), rest.strip_prefix(b"\r\n")?))
        }
        (b'*', line) => {
            let Some(count) = length(line).ok()? else {
                return Some((Value::Nil, rest));
            };
            let (values, rest) = list(count, rest, depth.checked_sub(1)?)?;
            Some((Value::Array(values), rest))
        }
        _ => None,
    }
}

fn list(count: usize, mut rest: &[u8], depth: usize) -> Option<(Vec<Value>, &[u8])> {
    // Each takes more than one byte.
    let mut values = Vec::with_capacity(count.min(rest.len()));
    for _ in 0..count {
        let (value, behind) = usual(rest, depth)?;
        values.push(value);
        rest = behind;
    }
    Some((values, rest))
}

/// A push of the kinds that tell of locks.
fn push(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let rest = bytes.strip_prefix(b">")?;
    let line = line(rest)?;
    let count = length(line).ok()??.checked_sub(1)?;
    let (Value::BulkString(kind), rest) = usual(rest.get(line.len() + 2..)?, 0)? else {
        return None;
    };
    let kind = match kind.as_slice() {
        b"message" => PushKind::Message,
        b"smessage" => PushKind::SMessage,
        b"invalidate" => PushKind::Invalidate,
        _ => return None,
    };
    let (data, rest) = list(count, rest, DEEPEST)?;
    Some((Value::Push { kind, data }, rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// One of each kind, and what servers send.
    const VALUES: [&str; 32] = [
        "+OK\r\n",
        "+PONG\r\n",
        "-ERR it is wrong\r\n",
        "-NOSCRIPT No matching script.\r\n",
        ":0\r\n",
        ":-3\r\n",
        ":9007199254740993\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\nlo\rck\r\n",
        "$6\r\nlo\r\nck\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n$1\r\n2\r\n",
        "*5\r\n:0\r\n$7\r\ntoken!!\r\n:29999\r\n$16\r\n1790000000000000\r\n:3\r\n",
        "*2\r\n$1\r\n0\r\n*2\r\n$6\r\nlock:1\r\n$6\r\nlock:2\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:6\r\n",
        "*2\r\n:1\r\n-ERR in a list\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "!10\r\nERR it is \r\n",
        "=8\r\ntxt:lock\r\n",
        "~2\r\n:1\r\n:2\r\n",
        "%1\r\n+key\r\n:1\r\n",
        "|1\r\n+ttl\r\n:3600\r\n:7\r\n",
        ">3\r\n$7\r\nmessage\r\n$12\r\nlock:%inbox1\r\n$6\r\nfree|k\r\n",
        ">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\np\r\n",
        ">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nlock:k\r\n",
        ">2\r\n$10\r\ninvalidate\r\n_\r\n",
        ">3\r\n$9\r\nsubscribe\r\n$12\r\nlock:%inbox1\r\n:1\r\n",
    ];

    fn read(bytes: &[u8]) -> Option<String> {
        value(bytes).ok().map(|value| format!("{value:?}"))
    }

    fn read_by_the_crate(bytes: &[u8]) -> Option<String> {
        redis::parse_redis_value(bytes).ok().map(|value| format!("{value:?}"))
    }

    #[test]
    fn each_value_is_the_one_that_the_redis_crate_reads() {
        for text in VALUES {
            assert!(read(text.as_bytes()).is_some(), "{text:?}");
            assert_eq!(read(text.as_bytes()), read_by_the_crate(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn the_usual_values_need_no_other_reader() {
        let is_read_here =
            |text: &&str| push(text.as_bytes()).or_else(|| usual(text.as_bytes(), DEEPEST)).is_some();
        let others: Vec<_> = VALUES.into_iter().filter(|text| !is_read_here(text)).collect();
        let kinds: String = others.iter().filter_map(|text| text.chars().next()).collect();
        assert_eq!(kinds, "+--**#,(!=~%|>", "{others:?}");
    }

    #[test]
    fn a_value_ends_with_its_last_byte_however_it_arrives() {
        for text in VALUES {
            let bytes = [text.as_bytes(), b":1\r\n"].concat();
            let mut end = ValueEnd::default();
            for arrived in 0..text.len() {
                assert_eq!(end.find(&bytes[..arrived]), Ok(None), "{text:?} after {arrived} bytes");
            }
            assert_eq!(end.find(&bytes), Ok(Some(text.len())), "{text:?}");
            assert_eq!(end.find(&bytes[text.len()..]), Ok(Some(4)), "the next one");
        }
    }

    #[test]
    fn a_command_is_written_as_the_redis_crate_does() {
        let long = "x".repeat(12_345);
        let words =
            ["", "SET", "lock:ä", &long[..9], &long[..10], &long[..99], &long[..100], &long[..256], &long];
        for count in 1..=words.len() {
            let words = &words[..count];
            let mut by_the_crate = redis::Cmd::new();
            by_the_crate.arg(words);
            let mut written = b"before".to_vec();
            write_command(&mut written, words);
            assert_eq!(written.strip_prefix(b"before"), Some(&*by_the_crate.get_packed_command()));
        }
    }

    #[test]
    fn what_is_no_value_has_no_end() {
        for text in [
            "HTTP/1.1 400\r\n",
            "\r\n",
            "$x\r\n",
            "*\r\n",
            ":1\rx",
            "*99999999999999999999\r\n",
            "$9223372036854775807\r\n",
        ] {
            let found = ValueEnd::default().find(text.as_bytes());
            assert!(matches!(found, Err(Malformed) | Ok(None)), "{text:?}: {found:?}");
        }
        assert_eq!(ValueEnd::default().find(b"HTTP/1.1 400\r\n"), Err(Malformed));
        assert_eq!(ValueEnd::default().find(b"%9223372036854775807\r\n"), Ok(None));
    }

    proptest! {
        #[test]
        fn noise_is_read_as_the_redis_crate_does(
            parts in vec(prop_oneof![
                prop::sample::select(&VALUES[..]).prop_map(str::to_owned),
                prop::sample::select(&["*2\r\n", ">2\r\n", "$3\r\n", "\r\n", ":", "-1", "$", "7", "+OK"][..]).prop_map(str::to_owned),
                "[ -~]{0,4}",
            ], 0..6),
        ) {
            let text = parts.concat();
            let bytes = text.as_bytes();
            // The crate reads the first value, and does not say where it ends.
            if let Ok(Some(end)) = ValueEnd::default().find(bytes) {
                prop_assert_eq!(read(&bytes[..end]), read_by_the_crate(&bytes[..end]), "{:?}", text);
            }
        }
    }
}
