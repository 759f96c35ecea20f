//! Keys: rendering of templates, where different arguments never give the same key, and validation.

use std::cell::Cell;
use std::fmt::{self, Write};

use crate::base::error::LockError;

/// Longer keys slow the server down for every client.
const MAX_BYTES: usize = 1024;

/// Behind the prefix: the clock of fencing tokens.
pub(crate) const CLOCK: &str = "%clock";

/// Behind a lock's key: its queue.
pub(crate) const QUEUE: &str = "%queue";

/// Behind a lock's key: the process that was granted it last. It holds [`QUEUE`], so no lock is
/// called so.
pub(crate) const CLAIM: &str = "%queue%claim";

/// The name of the set of those that have a counted lock, as that of a queue.
pub(crate) const HOLDERS: &str = "%queue%holders";

/// The name of the central limit of a lock, as that of a queue.
pub(crate) const PERMITS: &str = "%queue%permits";

/// The name of the record of a leader, behind that of its lock; in a Cluster as that of a queue.
pub(crate) const LEADER: &str = "%queue%leader";

/// The name of the record of the last tick, as that of a queue.
pub(crate) const TICK: &str = "%queue%tick";

/// Behind the name of a lock: the record of its body that runs once.
pub(crate) const ONCE: &str = "%queue%once";

/// Behind the prefix: a manager's channel.
pub(crate) const INBOX: &str = "%inbox";

/// True for a name that may belong to a side key: no lock may have it. A key template never makes
/// one, because it escapes each `%` of a value.
pub(crate) fn is_side_name(name: &str) -> bool {
    name.contains('%') && [CLOCK, QUEUE, INBOX].iter().any(|side| name.contains(side))
}

/// Checks what every key must be: not empty, at most 1 KiB with its prefix, without control
/// characters, and not named like a key of the library's own.
pub(crate) fn validate(prefix: &str, key: &str) -> Result<(), LockError> {
    // Nearly all are of such bytes, which are looked at many at once.
    let is_plain = key.bytes().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'$' | b'&'..=b'~'));
    let reason = if key.is_empty() {
        "it is empty"
    } else if prefix.len() + key.len() > MAX_BYTES {
        "it is longer than 1 KiB with its prefix; hash the long part"
    } else if !is_plain && key.chars().any(char::is_control) {
        "it holds control characters"
    } else if !is_plain && is_side_name(key) || prefix.contains('%') && is_side_name(&[prefix, key].concat())
    {
        "it holds %clock, %queue or %inbox, which are names beside those of locks"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidKey { key: shown(key).into(), reason })
}

/// The beginning of `text`, without control characters: for the error about it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

/// The type of a key expression: every `AsRef<str>`. A trait of its own, so that the compiler's
/// message can say so.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a key cannot be made of `{Self}`",
    label = "expected a `&str`, a `String` or another `AsRef<str>`",
    note = "write a template such as `key = \"order:{{id}}\"`, or `key = format!(...)`"
)]
pub trait KeyText: AsRef<str> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> KeyText for T {}

/// The key of an expression, without escaping.
#[doc(hidden)]
pub fn key<K: KeyText + ?Sized>(key: &K) -> String {
    key.as_ref().to_owned()
}

/// The type of a `once_fingerprint` expression: every `AsRef<str>`, with a message of its own.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the request that a key stands for cannot be made of `{Self}`",
    label = "expected a `&str`, a `String` or another `AsRef<str>`",
    note = "write a template such as `once_fingerprint = \"{{amount}}\"`, or `once_fingerprint = format!(...)`"
)]
pub trait RequestText: AsRef<str> {}

#[diagnostic::do_not_recommend]
impl<T: AsRef<str> + ?Sized> RequestText for T {}

/// The request of an expression, as it is.
#[doc(hidden)]
pub fn once_fingerprint<R: RequestText + ?Sized>(request: &R) -> String {
    request.as_ref().to_owned()
}

/// Renders a key from a format string whose interpolated values are escaped.
///
/// A value tells the writer when its formatting begins and ends; its text in between is
/// percent-escaped for `:` `{` `}` `%`, control characters, and the separators of this template. So
/// the literal and the format specs stay the user's own, and `"{a}-{b}"` never renders `("x-y",
/// "z")` and `("x", "y-z")` to the same key.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct KeyTemplate {
    inside_value: Cell<bool>,
}

impl KeyTemplate {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `value`, to be written by [`render`](Self::render) of the same template.
    pub fn escape<'a, T: ?Sized>(&'a self, value: &'a T) -> Escaped<'a, T> {
        Escaped { inside_value: &self.inside_value, is_fixed: false, value }
    }

    /// As [`escape`](Self::escape), except for a constant, which is written as it is. `names_it` is a
    /// closure that names `value`: it captures a variable, and nothing where `value` is a constant.
    pub fn escape_variable<'a, T: ?Sized, C: Fn()>(&'a self, value: &'a T, names_it: C) -> Escaped<'a, T> {
        Escaped { inside_value: &self.inside_value, is_fixed: size_of_val(&names_it) == 0, value }
    }

    /// The key, with `separators` escaped in its values. It is empty when a broken `Display` fails.
    #[must_use]
    pub fn render(&self, text: fmt::Arguments<'_>, separators: &str) -> String {
        let mut writer =
            EscapingWriter { key: String::with_capacity(48), inside_value: &self.inside_value, separators };
        if writer.write_fmt(text).is_err() {
            // An empty key is refused with `InvalidKey`: better no lock than a lock on the wrong
            // key.
            return String::new();
        }
        writer.key
    }
}

struct EscapingWriter<'a> {
    key: String,
    inside_value: &'a Cell<bool>,
    separators: &'a str,
}

impl Write for EscapingWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.inside_value.get() {
            self.key.push_str(text);
            return Ok(());
        }
        for char in text.chars() {
            if matches!(char, ':' | '{' | '}' | '%') || char.is_control() || self.separators.contains(char) {
                for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                    write!(self.key, "%{byte:02X}")?;
                }
            } else {
                self.key.push(char);
            }
        }
        Ok(())
    }
}

/// A value in a key template. It is formatted as the value is, with the user's format spec.
#[doc(hidden)]
pub struct Escaped<'a, T: ?Sized> {
    inside_value: &'a Cell<bool>,
    /// It is the same for every call.
    is_fixed: bool,
    value: &'a T,
}

impl<T: ?Sized> Escaped<'_, T> {
    fn announced(&self, write: impl FnOnce(&T) -> fmt::Result) -> fmt::Result {
        self.inside_value.set(!self.is_fixed);
        let written = write(self.value);
        self.inside_value.set(false);
        written
    }
}

// Not by the macro below: rustc shows these lines in the error for an argument without `Display`.
impl<T: fmt::Display + ?Sized> fmt::Display for Escaped<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.announced(|value| value.fmt(f))
    }
}

impl<T: fmt::Debug + ?Sized> fmt::Debug for Escaped<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.announced(|value| value.fmt(f))
    }
}

macro_rules! forward {
    ($($format:ident)*) => {$(
        impl<T: fmt::$format + ?Sized> fmt::$format for Escaped<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.announced(|value| value.fmt(f))
            }
        }
    )*};
}

forward!(LowerHex UpperHex Octal Binary LowerExp UpperExp);

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::proptest;

    use super::*;

    #[test]
    fn different_arguments_never_give_the_same_key() {
        let render = |a: &str, b: &str| {
            let key = KeyTemplate::new();
            key.render(format_args!("{a}:{b}", a = key.escape(a), b = key.escape(b)), "")
        };
        assert_eq!(render("x", "y"), "x:y");
        assert_eq!(render("x:y", "z"), "x%3Ay:z");
        assert_eq!(render("x", "y:z"), "x:y%3Az");
        assert_eq!(render("x%3Ay", "z"), "x%253Ay:z");
        assert_eq!(render("{", "}\n\u{85}"), "%7B:%7D%0A%C2%85");
        assert_eq!(render("grün", "日本"), "grün:日本");
        let render = |a: &str, b: &str| {
            let key = KeyTemplate::new();
            key.render(format_args!("{a}-{b}", a = key.escape(a), b = key.escape(b)), "-")
        };
        assert_eq!(render("a.b", "c"), "a.b-c");
        assert_eq!(render("a-b", "c"), "a%2Db-c");
        assert_eq!(render("a", "b-c"), "a-b%2Dc");
    }

    #[test]
    fn the_format_spec_is_the_users() {
        let key = KeyTemplate::new();
        let (n, name) = (7, "a:b");
        assert_eq!(key.render(format_args!("{{}}{n:04}/{n:#x}", n = key.escape(&n)), ""), "{}0007/0x7");
        assert_eq!(key.render(format_args!("{name:?}", name = key.escape(name)), ""), "\"a%3Ab\"");
        assert_eq!(key.render(format_args!("{name:_>5}", name = key.escape(name)), ""), "__a%3Ab");
    }

    #[test]
    fn a_value_that_cannot_be_formatted_gives_no_key() {
        struct Broken;
        impl fmt::Display for Broken {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        let key = KeyTemplate::new();
        assert_eq!(key.render(format_args!("a:{b}", b = key.escape(&Broken)), ""), "");
    }

    /// As documented: escapes `:`, `{`, `}`, `%` and control characters, byte for byte.
    fn escaped(value: &str) -> String {
        let mut escaped = String::new();
        for c in value.chars() {
            if ":{}%".contains(c) || c.is_control() {
                escaped.extend(c.to_string().bytes().map(|byte| format!("%{byte:02X}")));
            } else {
                escaped.push(c);
            }
        }
        escaped
    }

    /// The rendered and the expected key of a template with one placeholder between two texts.
    macro_rules! both {
        ($before:expr, $spec:literal, $value:expr, $after:expr) => {{
            let (key, value) = (KeyTemplate::new(), $value);
            let formatted = format!(concat!("{value", $spec, "}"), value = value);
            let text = format_args!(
                concat!("{before}{value", $spec, "}{after}"),
                before = $before,
                value = key.escape(&value),
                after = $after
            );
            (key.render(text, ""), [$before, &escaped(&formatted), $after].concat())
        }};
    }

    proptest! {
        #[test]
        fn a_key_is_the_formatted_text_with_its_values_escaped(
            before in ".{0,9}",
            text in "[a-z:{}%\\n\u{85}é日]{0,9}",
            number: i64,
            after in ".{0,9}",
        ) {
            let (before, text, after) = (before.as_str(), text.as_str(), after.as_str());
            for (key, expected) in [
                both!(before, "", text, after),
                both!(before, ":?", text, after),
                both!(before, ":>12", text, after),
                both!(before, ":%^12.3", text, after),
                both!(before, "", number, after),
                both!(before, ":+024", number, after),
                both!(before, ":#x", number, after),
                both!(before, ":X", number, after),
                both!(before, ":#010b", number, after),
                both!(before, ":o", number, after),
                both!(before, ":e", number, after),
                both!(before, ":#?", (text, Some(number)), after),
            ] {
                assert_eq!(key, expected);
            }
        }

        #[test]
        fn other_values_give_another_key(values in vec("[a:%3A{}]{0,5}", 3), others in vec("[a:%3A{}]{0,5}", 3)) {
            let render = |values: &[String]| {
                let key = KeyTemplate::new();
                let [a, b, c] = [0, 1, 2].map(|i| key.escape(&values[i]));
                key.render(format_args!("{a}:{b}:{c}"), "")
            };
            assert_eq!(render(&values) == render(&others), values == others, "{values:?} {others:?}");
        }

        #[test]
        fn other_values_give_another_key_with_any_separators(values in vec("[a_→1%2]{0,4}", 3), others in vec("[a_→1%2]{0,4}", 3)) {
            let render = |values: &[String]| {
                let key = KeyTemplate::new();
                let [a, b, c] = [0, 1, 2].map(|i| key.escape(&values[i]));
                // The fill of `a` is a separator, too.
                key.render(format_args!("1{a:_>2}_{b}a1→2{c}_"), "_→")
            };
            let formatted = |values: &[String]| [format!("{:_>2}", values[0]), values[1].clone(), values[2].clone()];
            assert_eq!(
                render(&values) == render(&others), formatted(&values) == formatted(&others),
                "{values:?} {others:?}"
            );
        }
    }

    #[test]
    fn an_invalid_key_is_refused_with_the_reason() {
        let long = "x".repeat(1020);
        let keys = [("", "empty"), (long.as_str(), "1 KiB"), ("a\nb", "control"), ("a%queue", "%queue")];
        for (key, reason) in keys {
            let refused = validate("lock:", key).map_err(|error| error.to_string());
            assert!(matches!(&refused, Err(text) if text.contains(reason)), "{refused:?}");
        }
        assert_eq!(validate("lock:", &long[..1019]), Ok(()));
    }
}
