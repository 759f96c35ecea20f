//! What a server says, read from its bytes.

use std::fmt;

/// A value of RESP2 or RESP3, with its kind.
#[derive(Clone, PartialEq)]
pub enum Said {
    /// With its first character.
    Line(String),
    /// `$` or `=`.
    Text(char, Vec<u8>),
    /// `*`, `%`, `~` or `>`.
    List(char, Vec<Self>),
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => f.write_str(line),
            Self::Text(kind, text) => write!(f, "{kind}{:?}", String::from_utf8_lossy(text)),
            Self::List(kind, items) => {
                write!(f, "{kind}")?;
                f.debug_list().entries(items).finish()
            }
        }
    }
}

impl Said {
    /// The first value, and where the next one begins. `None` when it is not all there.
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let line = String::from_utf8_lossy(&bytes[..end - 2]).into_owned();
        let (kind, rest) = (line.chars().next()?, line.get(1..)?);
        let length = || rest.parse::<usize>().ok();
        match kind {
            '$' | '=' if rest != "-1" => {
                let length = length()?;
                let text = bytes.get(end..end + length + 2)?;
                Some((Self::Text(kind, text[..length].to_vec()), end + length + 2))
            }
            '*' | '%' | '~' | '>' if rest != "-1" => {
                let (mut items, mut at) = (Vec::new(), end);
                for _ in 0..length()? * if kind == '%' { 2 } else { 1 } {
                    let (item, length) = Self::read(&bytes[at..])?;
                    items.push(item);
                    at += length;
                }
                Some((Self::List(kind, items), at))
            }
            _ => Some((Self::Line(line), end)),
        }
    }

    /// Equal, except for numbers that may be apart by what time may have passed: `slack` in
    /// microseconds.
    pub fn is_like(&self, other: &Self, slack: u64) -> bool {
        match (self, other) {
            (Self::Line(one), Self::Line(another)) => is_like(one.as_bytes(), another.as_bytes(), slack),
            (Self::Text(kind, one), Self::Text(other_kind, another)) => {
                kind == other_kind && is_like(one, another, slack)
            }
            (Self::List(kind, one), Self::List(other_kind, another)) => {
                kind == other_kind
                    && one.len() == another.len()
                    && one.iter().zip(another).all(|(one, another)| one.is_like(another, slack))
            }
            _ => false,
        }
    }
}

fn is_like(one: &[u8], another: &[u8], slack: u64) -> bool {
    if one == another {
        return true;
    }
    let (one, another) = (parts(one), parts(another));
    one.len() == another.len() && one.iter().zip(&another).all(|(one, another)| are_like(one, another, slack))
}

/// Runs of digits, and what is between them.
fn parts(text: &[u8]) -> Vec<&[u8]> {
    text.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()).collect()
}

/// Small numbers are counts and must be equal; larger ones may be times to live, and the largest
/// are times.
fn are_like(one: &[u8], another: &[u8], slack: u64) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    one == another
        || number(one).zip(number(another)).is_some_and(|(one, another)| {
            let allowed = match one.min(another) {
                0..10 => 0,
                // Each script that writes what is left of a lease rounds it once more.
                10..1_000_000 => slack / 1000 + 3,
                // Not 2^53, which is never a time.
                _ => slack,
            };
            one.abs_diff(another) <= allowed
        })
}

/// A command as a client sends it.
pub fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Words of a command that are text.
pub fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
