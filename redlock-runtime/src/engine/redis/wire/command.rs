//! Commands as bytes of RESP, behind those that wait to be written, and several for one write.
//!
//! A command begins with the number of its words. Where that is known at the end alone, it is
//! written behind the words and turned to their front: no word is kept anywhere else.

use std::fmt::{self, Write};

use super::resp::Reader;
use super::value::Value;

/// The kind of a word, its length and the ends of two lines, in bytes at most.
const ROOM_AROUND: usize = 1 + LONGEST_NUMBER + 4;

const LONGEST_NUMBER: usize = 20;

/// Appends a command of these words.
pub(crate) fn write_command(into: &mut Vec<u8>, words: &[&str]) {
    let bytes: usize = words.iter().map(|word| word.len() + ROOM_AROUND).sum();
    into.reserve(ROOM_AROUND + bytes);
    write_length(into, b'*', words.len());
    for word in words {
        write_word(into, word);
    }
}

/// A command whose words come one by one.
pub(crate) struct Command<'a> {
    into: &'a mut Vec<u8>,
    start: usize,
    words: usize,
}

impl<'a> Command<'a> {
    /// `bytes`: about as many as its words take.
    pub(crate) fn begin(into: &'a mut Vec<u8>, bytes: usize) -> Self {
        into.reserve(bytes);
        let start = into.len();
        Self { into, start, words: 0 }
    }

    /// Appends a word; none for `None`.
    pub(crate) fn arg(&mut self, word: impl Word) -> &mut Self {
        word.write(self);
        self
    }

    /// Appends a word of two parts.
    pub(crate) fn joined(&mut self, first: &str, second: &str) -> &mut Self {
        self.words += 1;
        write_length(self.into, b'$', first.len() + second.len());
        self.into.extend_from_slice(first.as_bytes());
        self.into.extend_from_slice(second.as_bytes());
        self.into.extend_from_slice(b"\r\n");
        self
    }

    /// Appends a word that need not be text.
    pub(crate) fn bytes(&mut self, word: &[u8]) -> &mut Self {
        self.words += 1;
        write_length(self.into, b'$', word.len());
        self.into.extend_from_slice(word);
        self.into.extend_from_slice(b"\r\n");
        self
    }

    /// No more words.
    pub(crate) fn end(self) {
        let Self { into, start, words } = self;
        let before = into.len();
        write_length(into, b'*', words);
        let length = into.len() - before;
        if let Some(command) = into.get_mut(start..) {
            command.rotate_right(length);
        }
    }

    fn push(&mut self, word: &str) {
        self.words += 1;
        write_word(self.into, word);
    }
}

/// A word of a command.
pub(crate) trait Word {
    fn write(self, command: &mut Command<'_>);
}

impl Word for &str {
    fn write(self, command: &mut Command<'_>) {
        command.push(self);
    }
}

impl Word for u64 {
    fn write(self, command: &mut Command<'_>) {
        let (mut digits, mut from, mut rest) = ([b'0'; LONGEST_NUMBER], LONGEST_NUMBER, self);
        for digit in digits.iter_mut().rev() {
            *digit += u8::try_from(rest % 10).unwrap_or_default();
            (from, rest) = (from - 1, rest / 10);
            if rest == 0 {
                break;
            }
        }
        let digits = digits.get(from..).unwrap_or_default();
        command.words += 1;
        write_length(command.into, b'$', digits.len());
        command.into.extend_from_slice(digits);
        command.into.extend_from_slice(b"\r\n");
    }
}

impl Word for u32 {
    fn write(self, command: &mut Command<'_>) {
        u64::from(self).write(command);
    }
}

impl Word for usize {
    fn write(self, command: &mut Command<'_>) {
        u64::try_from(self).unwrap_or(u64::MAX).write(command);
    }
}

impl Word for fmt::Arguments<'_> {
    fn write(self, command: &mut Command<'_>) {
        let mut word = String::new();
        // Writing to a string cannot fail.
        let _ = word.write_fmt(self);
        command.push(&word);
    }
}

impl<W: Word> Word for Option<W> {
    fn write(self, command: &mut Command<'_>) {
        if let Some(word) = self {
            word.write(command);
        }
    }
}

/// Commands that are sent in one write.
#[derive(Default)]
pub(crate) struct Pipeline {
    bytes: Vec<u8>,
    /// The position of each command.
    starts: Vec<usize>,
}

impl Pipeline {
    /// Appends a command, and returns its place.
    pub(crate) fn add(&mut self, words: &[&str]) -> usize {
        self.starts.push(self.bytes.len());
        write_command(&mut self.bytes, words);
        self.starts.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// One word or two of the command at this place, and none of its arguments.
    pub(crate) fn name_of(&self, at: usize) -> Option<String> {
        let mut command = self.bytes.get(*self.starts.get(at)?..)?;
        let Ok(Some(Value::Array(words))) = Reader::default().next(&mut command, 0) else {
            return None;
        };
        let mut words = words.iter().filter_map(Value::text);
        Some(match (words.next()?, words.next()) {
            (first @ ("CLIENT" | "CLUSTER" | "CONFIG" | "PUBSUB" | "SENTINEL"), Some(second)) => {
                format!("{first} {second}")
            }
            (first, _) => first.to_owned(),
        })
    }
}

/// Appends a word of a command whose other words are written by the caller.
pub(crate) fn write_word(into: &mut Vec<u8>, word: &str) {
    write_length(into, b'$', word.len());
    into.extend_from_slice(word.as_bytes());
    into.extend_from_slice(b"\r\n");
}

fn write_length(into: &mut Vec<u8>, kind: u8, length: usize) {
    match u8::try_from(length) {
        Ok(digit @ 0..=9) => into.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
        Ok(digits @ 10..=99) => {
            into.extend_from_slice(&[kind, b'0' + digits / 10, b'0' + digits % 10, b'\r', b'\n']);
        }
        _ => {
            into.push(kind);
            into.extend_from_slice(length.to_string().as_bytes());
            into.extend_from_slice(b"\r\n");
        }
    }
}

/// The words of the command that these bytes are.
#[cfg(test)]
pub(crate) fn words_of(command: &[u8]) -> Vec<String> {
    let words = redis::parse_redis_value(command).and_then(|words| Ok(redis::from_redis_value(words)?));
    words.unwrap_or_else(|error| unreachable!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut one_by_one = b"before".to_vec();
            let mut command = Command::begin(&mut one_by_one, 0);
            for word in words {
                command.arg(*word);
            }
            command.end();
            assert_eq!(one_by_one, written);
        }
    }

    #[test]
    fn a_word_is_a_text_a_number_two_parts_or_nothing() {
        let mut written = Vec::new();
        let mut command = Command::begin(&mut written, 0);
        command.arg("PX").arg(0_u32).arg(u64::MAX).arg(10_u64).arg(None::<u64>).arg(Some("x"));
        command.joined("lock:k", "%queue").arg(format_args!("{}:{}", 1, 2));
        command.end();
        let expected = ["PX", "0", "18446744073709551615", "10", "x", "lock:k%queue", "1:2"];
        assert_eq!(words_of(&written), expected);
        let mut by_the_crate = redis::Cmd::new();
        by_the_crate.arg(&expected);
        assert_eq!(written, by_the_crate.get_packed_command());
    }

    #[test]
    fn a_command_is_named_without_its_arguments() {
        let mut commands = Pipeline::default();
        for (words, name) in [
            (&["SUBSCRIBE", "lock:%inbox"][..], "SUBSCRIBE"),
            (&["EVAL", "return redis.call('GET', KEYS[1])"], "EVAL"),
            (&["CLIENT", "NO-EVICT", "ON"], "CLIENT NO-EVICT"),
            (&["HELLO", "3", "AUTH", "default", "SECRET"], "HELLO"),
            (&["AUTH", "SECRET"], "AUTH"),
        ] {
            let at = commands.add(words);
            assert_eq!(commands.name_of(at).as_deref(), Some(name));
        }
        assert_eq!(commands.name_of(commands.len()), None);
    }
}
