//! Tokens: the unguessable value that proves ownership, and the owner, which is public.
//!
//! The value of a lock's key is `<22 characters of base64url>@<owner>`: 132 random bits, and the
//! [owner](crate::owner). The random part is a secret; it is never printed, logged or put into an
//! error. A `!` stands behind the token once other clients have waited for the lock.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use crate::base::host;
use crate::base::owner::Origin;
use crate::base::owner::{self, Owner, Requester};

/// The value that this process writes into a lock's key for one attempt; never reused.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Token(Arc<str>);

/// Behind a token in its key, once other clients have waited for the lock. No token ends with it.
pub(crate) const MARK: &str = "!";

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
pub(crate) const SECRET_LENGTH: usize = 22;

impl Token {
    /// A new token that names this process alone.
    pub(crate) fn of_this_process() -> Result<Self, getrandom::Error> {
        Self::with_owner(|text| owner::push_process(text, host::process_id()))
    }

    /// A new token with the same owner.
    pub(crate) fn another(&self) -> Result<Self, getrandom::Error> {
        Self::with_owner(|text| text.push_str(self.0.split_once('@').map_or("", |(_, owner)| owner)))
    }

    fn with_owner(owner: impl FnOnce(&mut String)) -> Result<Self, getrandom::Error> {
        Ok(Self::of(random()?, &mut String::new(), owner))
    }

    /// `value` is a buffer for it.
    fn of(secret: Secret, value: &mut String, owner: impl FnOnce(&mut String)) -> Self {
        value.clear();
        value.reserve(SECRET_LENGTH + 1 + owner::usual_length());
        // All letters are ASCII.
        const { assert!(ALPHABET.is_ascii()) };
        let secret = secret.map(|byte| ALPHABET[usize::from(byte & 63)]);
        value.push_str(std::str::from_utf8(&secret).unwrap_or_default());
        value.push('@');
        owner(value);
        Self(value.as_str().into())
    }

    /// The next token, never used before: the successor of a random number is as unlikely to
    /// collide as that number.
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

    /// The token of a request that needs none.
    pub(crate) fn empty() -> Self {
        Self("".into())
    }

    /// A token as a node reports it.
    pub(crate) fn from_value(value: &str) -> Self {
        Self(value.into())
    }

    /// Stands for the value of a key, which may be that of a foreign client, and no text: its
    /// hexadecimal digits.
    pub(crate) fn naming(value: &[u8]) -> Self {
        let mut digits = String::with_capacity(2 * value.len());
        for byte in value {
            // Writing to a string cannot fail.
            let _ = write!(digits, "{byte:02x}");
        }
        Self(digits.into())
    }

    /// Stands for those that hold a lock together, from the first that entered to the last that
    /// leaves.
    pub(crate) fn naming_phase(phase: u64) -> Self {
        Self::naming(format!("%holders|{phase}").as_bytes())
    }

    /// The token that this [names](Self::naming); `None` for the value of a foreign client.
    pub(crate) fn named(&self) -> Option<Self> {
        let digits = self.0.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok());
        let bytes: Option<Vec<u8>> = digits.map(|two| u8::from_str_radix(two?, 16).ok()).collect();
        let value = String::from_utf8(bytes?).ok()?;
        (value.as_bytes().get(SECRET_LENGTH) == Some(&b'@')).then(|| Self(value.into()))
    }

    /// True for one that this library has made.
    pub(crate) fn is_ours(&self) -> bool {
        owner_of(&self.0).is_some() && !self.0.ends_with(MARK)
    }

    /// The random characters at its start, which no other token has.
    pub(crate) fn secret(&self) -> &str {
        self.0.split_at_checked(SECRET_LENGTH).map_or(&*self.0, |(secret, _)| secret)
    }

    /// The secrets in this text, one behind the other.
    pub(crate) fn take_secret<'a>(secrets: &mut &'a str) -> Option<&'a str> {
        let (first, rest) = secrets.split_at_checked(SECRET_LENGTH)?;
        *secrets = rest;
        Some(first)
    }

    /// The text that is written into the key.
    pub(crate) fn value(&self) -> &str {
        &self.0
    }
}

/// Random bytes, of which each becomes one character.
type Secret = [u8; SECRET_LENGTH];

/// From the operating system's random source.
fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut random = [0; N];
    host::random(&mut random)?;
    Ok(random)
}

/// Makes the tokens of the requests of one engine.
///
/// A forked child has the secrets of its parent: it may use them for nothing, so the source belongs
/// to the engine, whose loop is not in the child.
#[derive(Default)]
pub(crate) struct TokenSource(Mutex<Drawn>);

/// Secrets are drawn many at once, because each draw is a system call.
struct Drawn {
    random: [u8; Self::COUNT * SECRET_LENGTH],
    left: usize,
    requester: Requester,
    /// A buffer, reused.
    value: String,
}

impl Drawn {
    const COUNT: usize = 16;

    fn secret(&mut self) -> Result<Secret, getrandom::Error> {
        if self.left == 0 {
            self.random = random()?;
            self.left = Self::COUNT;
        }
        self.left -= 1;
        let (secrets, _) = self.random.as_chunks();
        secrets.get(self.left).map_or_else(random, |secret| Ok(*secret))
    }
}

impl Default for Drawn {
    fn default() -> Self {
        let random = [0; Self::COUNT * SECRET_LENGTH];
        Self { random, left: 0, requester: Requester::default(), value: String::new() }
    }
}

impl TokenSource {
    /// For a request of the process with this pid, which saves the system call where the caller
    /// knows it.
    pub(crate) fn token(&self, process: u32, origin: &Origin) -> Result<Token, getrandom::Error> {
        // Another thread uses it; in a forked child, forever.
        let Ok(mut drawn) = self.0.try_lock() else {
            return Token::with_owner(|text| Requester::default().push_owner(text, process, origin));
        };
        let secret = drawn.secret()?;
        let Drawn { requester, value, .. } = &mut *drawn;
        Ok(Token::of(secret, value, |text| requester.push_owner(text, process, origin)))
    }
}

/// The reason in an error: without random numbers there is no token, and without a token no lock.
pub(crate) fn no_random(error: getrandom::Error) -> String {
    format!("the operating system gave no random numbers for a token: {error}")
}

/// The public part of a lock's value; `None` when another kind of client wrote it.
pub(crate) fn owner_of(value: &str) -> Option<Owner> {
    let (secret, owner) = value.strip_suffix(MARK).unwrap_or(value).split_once('@')?;
    let ours = secret.len() == SECRET_LENGTH && secret.bytes().all(|byte| ALPHABET.contains(&byte));
    (ours && !owner.is_empty()).then(|| Owner::read(owner))
}

/// Returns what tells one text from another where the text itself must not stand: 128 bits of
/// SHA-1, in hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    let mut digits = sha1_smol::Sha1::from(text).digest().to_string();
    digits.truncate(32);
    digits
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
    fn a_name_is_read_back_as_the_token() {
        let token = Token::from_value("AAAAAAAAAAAAAAAAAAAAAA@web-3:7/1/f");
        assert_eq!(Token::naming(token.value().as_bytes()).named(), Some(token));
        for foreign in [&b""[..], b"x", b"\xff\xfe", "AAAAAAAAAAAAAAAAAAAAAAé".as_bytes()] {
            assert_eq!(Token::naming(foreign).named(), None);
        }
    }

    #[test]
    fn a_token_shows_its_owner_and_hides_its_secret() -> Result<(), getrandom::Error> {
        let token = TokenSource::default().token(7, &Origin::Unnamed)?;
        let other = token.another()?;
        assert_ne!(token.value(), other.value());
        assert!(owner_of(token.value()).is_some_and(|owner| owner.name().ends_with(":7")));
        assert_eq!(owner_of(token.value()), owner_of(other.value()));
        assert_eq!(format!("{token:?}"), "Token(..)");
        Ok(())
    }

    #[test]
    fn no_two_tokens_have_the_same_secret() -> Result<(), getrandom::Error> {
        let source = TokenSource::default();
        let token = || source.token(7, &Origin::Unnamed);
        let mut all = (0..5 * Drawn::COUNT).map(|_| token()).collect::<Result<Vec<_>, _>>()?;
        let used_by_another_thread = source.0.lock();
        all.push(token()?);
        drop(used_by_another_thread);
        all.sort_unstable_by(|a, b| a.value().cmp(b.value()));
        let secrets: Vec<_> = all.iter().map(|token| token.value().split('@').next()).collect();
        assert!(secrets.windows(2).all(|two| two[0] != two[1]));
        assert!(!secrets.contains(&Some("AAAAAAAAAAAAAAAAAAAAAA")), "no secret is used before it is drawn");
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
}
