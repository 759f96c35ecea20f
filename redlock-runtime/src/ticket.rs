//! [`Ticket`]: a held lock on its way to another process.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use sha1_smol::Sha1;

use crate::base::error::LockError;
use crate::base::token::Token;

/// The first letter of the text of each ticket: how the rest is to be read.
const FORMAT: char = '2';

/// The last letters of that text are the first ones of the SHA-1 of what they follow, so that a text
/// of which a part is lost is no ticket.
const CHECK_LENGTH: usize = 8;

/// The checksum of the bytes that a text shows.
fn check_of(bytes: &[u8]) -> String {
    let mut digest = Sha1::from(bytes).digest().to_string();
    digest.truncate(CHECK_LENGTH);
    digest
}

/// Stands between the prefix, the key and the token in that text: none of them holds it.
const SEPARATOR: char = '\0';

/// A held lock on its way to another process, which [redeems](crate::LockManager::redeem) it there.
///
/// [`LockGuard::into_ticket`](crate::LockGuard::into_ticket) makes one. It is good once, for as long
/// as its maker said, and for a manager of the same server and
/// [prefix](crate::LockManagerBuilder::prefix).
///
/// A ticket is a secret: whoever has it can take the lock, or, with Redis at hand, release it. Treat
/// it as a password: send it over connections that you trust, and keep it out of logs. `{:?}` hides
/// it, no error shows it, and there is no `Display`.
///
/// Its text, from [`expose`](Self::expose), is one word of ASCII letters and digits, for a header, a
/// column or an argument, and is read back with [`str::parse`]. With the feature `serde` a ticket is
/// serialized as that text, so a job may be written by one way and read by the other.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redlocked::{LockManager, Ticket};
///
/// let locks = LockManager::connect("memory://ticket-example").await?;
/// let guard = locks.lock("export:7").acquire().await?;
/// let ticket = guard.into_ticket(Duration::from_secs(60)).await?;
/// assert_eq!(format!("{ticket:?}"), r#"Ticket { key: "export:7", .. }"#);
///
/// let text = ticket.expose();                       // to another process …
/// let ticket: Ticket = text.parse()?;               // … which takes the lock over
/// let guard = locks.redeem(ticket).await?;
/// assert_eq!(guard.key(), "export:7");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a ticket that nobody redeems keeps its lock taken until its time is over"]
pub struct Ticket {
    prefix: Arc<str>,
    key: Arc<str>,
    token: Token,
}

impl Ticket {
    /// `None` where `name` is not the name of `key`.
    pub(crate) fn new(name: &str, key: &Arc<str>, token: Token) -> Option<Self> {
        let prefix = name.strip_suffix(&**key)?;
        Some(Self { prefix: prefix.into(), key: Arc::clone(key), token })
    }

    /// The key of its lock, without the prefix. It is not secret.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # use std::time::Duration;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://ticket-key-example")?;
    /// let guard = locks.lock("export:7").acquire_blocking()?;
    /// let ticket = guard.into_ticket_blocking(Duration::from_secs(60))?;
    /// assert_eq!(ticket.key(), "export:7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The secret text of the ticket: ASCII letters and digits. [`str::parse`] reads it.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use redlocked::Ticket;
    /// # let locks = redlocked::LockManager::connect_blocking("memory://ticket-text-example")?;
    /// let guard = locks.lock("export:7").acquire_blocking()?;
    /// let text = guard.into_ticket_blocking(Duration::from_secs(60))?.expose();
    /// assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    /// assert_eq!(text.parse::<Ticket>()?.key(), "export:7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn expose(&self) -> String {
        let parts = [&*self.prefix, &*self.key, self.token.value()];
        let bytes = parts.join(SEPARATOR.encode_utf8(&mut [0; 4])).into_bytes();
        let mut text = String::from(FORMAT);
        for byte in &bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str(&check_of(&bytes));
        text
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// An error if a manager with this prefix cannot redeem it.
    pub(crate) fn check(&self, prefix: &str) -> Result<(), LockError> {
        if *self.prefix == *prefix {
            return Ok(());
        }
        let reason = format!(
            "its ticket is for the prefix `{}`, and this lock manager has `{prefix}`: redeem it with a manager that has \
             the prefix of the ticket",
            self.prefix
        );
        Err(LockError::invalid(&self.key, reason))
    }
}

impl FromStr for Ticket {
    type Err = ParseTicketError;

    fn from_str(text: &str) -> Result<Self, ParseTicketError> {
        Self::read(text).ok_or(ParseTicketError(()))
    }
}

impl Ticket {
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix(FORMAT)?;
        let (digits, check) = text.split_at_checked(text.len().checked_sub(CHECK_LENGTH)?)?;
        let byte = |two: &[u8]| match two {
            [high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()
            }
            _ => None,
        };
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.filter(|bytes| check_of(bytes) == check)?;
        let parts = String::from_utf8(bytes).ok()?;
        let mut parts = parts.split(SEPARATOR);
        let (Some(prefix), Some(key), Some(token), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let token = Token::from_value(token);
        (!key.is_empty() && token.is_ours()).then(|| Self { prefix: prefix.into(), key: key.into(), token })
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("key", &self.key).finish_non_exhaustive()
    }
}

/// As its [text](Ticket::expose).
#[cfg(feature = "serde")]
impl serde_core::Serialize for Ticket {
    fn serialize<S: serde_core::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.expose())
    }
}

/// From its [text](Ticket::expose).
#[cfg(feature = "serde")]
impl<'de> serde_core::Deserialize<'de> for Ticket {
    fn deserialize<D: serde_core::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde_core::de::Visitor<'_> for Text {
            type Value = Ticket;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of a ticket")
            }

            fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<Ticket, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// A text is not that of a [`Ticket`], or not all of it: a column or a header was too short. The
/// error does not show it.
///
/// # Examples
///
/// ```
/// let error = "export:7".parse::<redlocked::Ticket>().unwrap_err();
/// assert!(error.to_string().contains("not the text of a ticket"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseTicketError(());

impl fmt::Display for ParseTicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is not the text of a ticket, which `Ticket::expose` has returned, or not all of it")
    }
}

impl std::error::Error for ParseTicketError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_which_a_part_is_lost_is_no_ticket() {
        let token = Token::from_value("0123456789012345678901@web-3:4711");
        for (prefix, key) in [("lock:", "export:7"), ("", "k"), ("ü:", "schlüssel")] {
            let ticket = Ticket { prefix: prefix.into(), key: key.into(), token: token.clone() };
            let text = ticket.expose();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert_eq!(text.parse(), Ok(ticket));
            for cut in 0..text.len() {
                assert_eq!(text[..cut].parse::<Ticket>(), Err(ParseTicketError(())), "behind letter {cut}");
                assert_eq!(
                    text[cut + 1..].parse::<Ticket>(),
                    Err(ParseTicketError(())),
                    "up to letter {cut}"
                );
                let without = format!("{}{}", &text[..cut], &text[cut + 1..]);
                assert_eq!(without.parse::<Ticket>(), Err(ParseTicketError(())), "without letter {cut}");
                let other = if text.as_bytes()[cut] == b'3' { "4" } else { "3" };
                let changed = format!("{}{other}{}", &text[..cut], &text[cut + 1..]);
                assert_eq!(changed.parse::<Ticket>(), Err(ParseTicketError(())), "with another letter {cut}");
            }
            for longer in [format!("{text}0"), format!("{text}00"), format!("{text}é"), format!(" {text}")] {
                assert_eq!(longer.parse::<Ticket>(), Err(ParseTicketError(())));
            }
        }
    }
}
