//! Tokens: the unguessable value that proves ownership, and the owner, which is public.
//!
//! The value of a lock's key is `<22 characters of base64url>@<host>:<pid>`: 132 random bits, and the owner. The random
//! part is a secret; it is never printed, logged or put into an error. A `!` stands behind the token while other clients wait
//! for the lock.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::sync::{Arc, LazyLock};

/// The value that this process writes into a lock's key for one attempt; never reused.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Token(Arc<str>);

/// Behind a token in its key, while other clients wait for the lock. No token ends with it.
pub(crate) const MARK: &str = "!";

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const SECRET_LENGTH: usize = 22;

static HOST: LazyLock<String> = LazyLock::new(|| {
    // Miri's `uname` leaves parts of its answer unset.
    let host = if cfg!(miri) { OsString::new() } else { gethostname::gethostname() };
    let host = host.to_string_lossy();
    let clean: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).collect();
    if clean.is_empty() { "unknown-host".to_owned() } else { clean }
});

/// `<host>:<pid>` of this process. The pid is not cached, because a forked child has another.
pub(crate) fn own_name() -> String {
    let mut name = String::new();
    push_name(&mut name, std::process::id());
    name
}

fn push_name(text: &mut String, process: u32) {
    // Writing into a string does not fail.
    let _ = write!(text, "{}:{process}", *HOST);
}

impl Token {
    /// A new token, from the operating system's random source.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        Self::random_in(std::process::id())
    }

    /// A new token of the process with this pid. Saves the system call where the caller knows its pid.
    pub(crate) fn random_in(process: u32) -> Result<Self, getrandom::Error> {
        let mut random = [0_u8; SECRET_LENGTH];
        getrandom::fill(&mut random)?;
        let mut value = String::with_capacity(SECRET_LENGTH + 1 + HOST.len() + 11);
        value.extend(random.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 63)])));
        value.push('@');
        push_name(&mut value, process);
        Ok(Self(value.into()))
    }

    /// The next token, never used before: the successor of a random number is as unlikely to collide as that number.
    pub(crate) fn successor(&self) -> Self {
        let (secret, owner) = self.0.split_at_checked(SECRET_LENGTH).unwrap_or((&self.0, ""));
        let mut secret = secret.as_bytes().to_vec();
        for byte in secret.iter_mut().rev() {
            let place = ALPHABET.iter().position(|letter| letter == byte).map_or(0, |place| place + 1);
            *byte = ALPHABET[place % ALPHABET.len()];
            if place < ALPHABET.len() {
                break;
            }
        }
        Self(format!("{}{owner}", String::from_utf8_lossy(&secret)).into())
    }

    /// For requests without a token.
    pub(crate) fn empty() -> Self {
        Self("".into())
    }

    /// A token as a node reports it.
    pub(crate) fn from_value(value: &str) -> Self {
        Self(value.into())
    }

    /// The text that is written into the key.
    pub(crate) fn value(&self) -> &str {
        &self.0
    }

    /// True when the value of a key is this token, with the mark or without.
    pub(crate) fn is_in(&self, value: &[u8]) -> bool {
        value.strip_prefix(self.0.as_bytes()).is_some_and(|rest| rest.is_empty() || rest == MARK.as_bytes())
    }
}

/// The reason in an error: without random numbers there is no token, and without a token no lock.
pub(crate) fn no_random(error: getrandom::Error) -> String {
    format!("the operating system gave no random numbers for a token: {error}")
}

/// The name of a host has 253 characters at most; a colon and the number of the process follow.
const LONGEST_OWNER: usize = 264;

/// The public part of a lock's value: `<host>:<pid>`, or `None` when another kind of client wrote it. Control characters
/// are escaped, because such a client may have written anything in this form.
pub(crate) fn owner_of(value: &str) -> Option<Arc<str>> {
    let (secret, owner) = value.strip_suffix(MARK).unwrap_or(value).split_once('@')?;
    let ours = secret.len() == SECRET_LENGTH && secret.bytes().all(|byte| ALPHABET.contains(&byte));
    let shown = || owner.chars().take(LONGEST_OWNER).flat_map(char::escape_debug).collect::<String>();
    (ours && !owner.is_empty()).then(|| shown().into())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_its_owner_and_hides_its_secret() -> Result<(), getrandom::Error> {
        let token = Token::random()?;
        let other = Token::random()?;
        assert_ne!(token.value(), other.value());
        assert_eq!(owner_of(token.value()).as_deref(), Some(own_name().as_str()));
        assert_eq!(format!("{token:?}"), "Token(..)");
        Ok(())
    }

    #[test]
    fn a_successor_differs_and_has_the_same_owner() {
        let first = Token::from_value("AAAAAAAAAAAAAAAAAAAA__@host:1");
        let second = first.successor();
        assert_eq!(second.value(), "AAAAAAAAAAAAAAAAAAABAA@host:1");
        assert_eq!(second.successor().value(), "AAAAAAAAAAAAAAAAAAABAB@host:1");
    }

    #[test]
    fn a_foreign_value_has_no_owner_and_is_never_shown() {
        for value in ["", "x", "secret@", "c0ffee@host:1", "0123456789012345678901"] {
            assert_eq!(owner_of(value), None, "{value}");
        }
    }

    #[test]
    fn control_characters_of_an_owner_are_escaped_and_its_length_is_limited() {
        let owner = |text: &str| owner_of(&format!("AAAAAAAAAAAAAAAAAAAAAA@{text}"));
        let shown = owner("web\u{1b}[2J\n\u{202e}3:1");
        assert_eq!(shown.as_deref(), Some("web\\u{1b}[2J\\n\\u{202e}3:1"));
        assert_eq!(owner(&"x".repeat(100_000)).map(|shown| shown.len()), Some(LONGEST_OWNER));
        let longest = format!("{}:4294967295", "h".repeat(253));
        assert_eq!(owner(&longest).as_deref(), Some(longest.as_str()));
    }
}
