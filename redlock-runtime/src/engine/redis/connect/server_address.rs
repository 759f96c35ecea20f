//! The address of one server, read from its URL:
//! `redis://[user[:password]@]host[:port][/database]`, or
//! `unix:///path[?db=…&user=…&pass=…]`.
//!
//! What a scheme may have, and which parts are refused, is decided before.

use std::fmt;
use std::net::Ipv6Addr;

const DEFAULT_PORT: u16 = 6379;

const FORM: &str = "it is not like redis://host:6379/";
const IPV6: &str = "between [ and ] stands an IPv6 address, and behind them a port: redis://[::1]:6379/";
const ALL_ADDRESSES: &str =
    "`0.0.0.0` and `::` stand for all addresses of a machine: name the one where the server listens";
const PORT: &str = "its port is not a number from 0 to 65535: redis://host:6379/";
const DATABASE: &str = "its database is not a number: redis://host:6379/0";
const SOCKET: &str = "it is not like redis+unix:///path/to/redis.sock";
const SOCKET_DATABASE: &str = "its database is not a number: redis+unix:///path/to/redis.sock?db=0";
const PERCENT: &str = "in a user, password or path, a percent sign with two digits behind it stands for a byte, and these \
    bytes are not UTF-8: a percent sign itself is written %25";

/// The longest host name or address that a server may name, in bytes: DNS has no longer name.
pub(crate) const LONGEST_HOST: usize = 255;

/// The place of a server: a host and port, or a socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Tcp(String, u16),
    Unix(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // An IPv6 address.
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => f.write_str(path),
        }
    }
}

/// The place of a server, and the login. Not `Debug`: it holds a password.
#[derive(Clone)]
pub(crate) struct ServerAddress {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
}

impl ServerAddress {
    /// The error says which part cannot be read, and shows none of it: it may be a piece of a password.
    pub(crate) fn read(url: &str) -> Result<Self, &'static str> {
        // As in each URL, ends of lines and tabs count for nothing: the file that a password was
        // read from may end with one.
        let url: String = url.chars().filter(|letter| !matches!(letter, '\t' | '\n' | '\r')).collect();
        let (scheme, rest) = url.trim_matches(|letter| letter <= ' ').split_once("://").ok_or(FORM)?;
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        match scheme {
            "redis" | "valkey" => Self::of_a_host(place),
            "unix" | "redis+unix" | "valkey+unix" => Self::of_a_socket(place, query),
            _ => Err(FORM),
        }
    }

    pub(crate) fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// A user that cannot log in.
    pub(crate) fn lacks_a_password(&self) -> bool {
        self.user.as_ref().is_some_and(|user| !user.is_empty()) && self.password.is_none()
    }

    fn of_a_host(place: &str) -> Result<Self, &'static str> {
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (login, host_and_port) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let ipv6 = host_and_port.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (host, port) = if let Some((address, port)) = ipv6 {
            let address = address.parse::<Ipv6Addr>().map_err(|_| IPV6)?.to_string();
            (address, if port.is_empty() { "" } else { port.strip_prefix(':').ok_or(IPV6)? })
        } else {
            let (host, port) = host_and_port.split_once(':').unwrap_or((host_and_port, ""));
            (host.to_owned(), port)
        };
        let is_of_a_name =
            |letter: char| !matches!(letter, '\0'..=' ' | '<' | '>' | '[' | '\\' | ']' | '^' | '|');
        // Nobody listens there: it stands for all addresses of a machine.
        let is_all = matches!(&*host, "0.0.0.0" | "::");
        if host.is_empty() || !host.chars().all(is_of_a_name) {
            return Err(FORM);
        }
        if is_all {
            return Err(ALL_ADDRESSES);
        }
        let port = match port {
            "" => DEFAULT_PORT,
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().map_err(|_| PORT)?,
            _ => return Err(PORT),
        };
        let database = match path.trim_matches('/') {
            "" => 0,
            database => database.parse().map_err(|_| DATABASE)?,
        };
        let [user, password] =
            [decoded(user)?, decoded(password)?].map(|text| Some(text).filter(|text| !text.is_empty()));
        let place = Place::Tcp(host, port);
        Ok(Self { place, user, password, database })
    }

    fn of_a_socket(place: &str, query: &str) -> Result<Self, &'static str> {
        let path = place.strip_prefix("localhost").unwrap_or(place);
        let path = path.strip_prefix('/').ok_or(SOCKET)?;
        let place = Place::Unix(format!("/{}", decoded(path)?));
        let mut address = Self { place, user: None, password: None, database: 0 };
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(&value.replace('+', " "))?;
            match name {
                "db" => address.database = value.parse().map_err(|_| SOCKET_DATABASE)?,
                "user" => address.user = Some(value),
                "pass" => address.password = Some(value),
                _ => {}
            }
        }
        Ok(address)
    }
}

/// With the characters that are written as `%` and two digits.
fn decoded(text: &str) -> Result<String, &'static str> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = match behind {
            [
                high @ (b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F'),
                low @ (b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F'),
                ..,
            ] if *first == b'%' => digit(*high).zip(digit(*low)).map(|(high, low)| 16 * high + low),
            _ => None,
        };
        decoded.push(code.unwrap_or(*first));
        rest = behind.get(if code.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8(decoded).map_err(|_| PERCENT)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use redis::{ConnectionAddr, IntoConnectionInfo};

    use super::*;

    type Parts = (String, Option<String>, Option<String>, i64);

    fn parts(url: &str) -> Option<Parts> {
        let ServerAddress { place, user, password, database } = ServerAddress::read(url).ok()?;
        Some((place.to_string(), user, password, database))
    }

    /// Returns the parts as the `redis` crate reads them.
    fn parts_by_the_crate(url: &str) -> Option<Parts> {
        let info = url.into_connection_info().ok()?;
        let place = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Place::Tcp(host.clone(), *port).to_string(),
            other => other.to_string(),
        };
        let settings = info.redis_settings();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some((place, owned(settings.username()), owned(settings.password()), settings.db()))
    }

    #[test]
    fn an_address_is_read_as_the_redis_crate_does() {
        for url in [
            "redis://h",
            "redis://h/",
            "redis://h:1",
            "redis://h:/2",
            "redis://h:65536",
            "redis://h:-1",
            "redis://h:+1",
            "redis://h:a",
            "redis://h/a",
            "redis://h/-1",
            "redis://h//3//",
            "valkey://h/3?",
            "redis://user@h",
            "redis://user:@h",
            "redis://:@h",
            "redis://@h",
            "redis://:pass@h",
            "redis://us%20er:p%40%3A%2fs:s@h:7/3",
            "redis://u:p@ss@h",
            "redis://u:100%@h",
            "redis://u:%zz%4@h",
            "redis://u:%ff@h",
            "redis://u:pässwörd@h",
            "redis://u:pass\n@h",
            " redis://u:pass@h/1\n",
            "redis://127.0.0.1:1",
            "redis://0.0.0.0",
            "redis://[::]",
            "redis://[::1]",
            "redis://[0:0::0:1]:7/1",
            "redis://u:p@[::ffff:1.2.3.4]:7",
            "redis://[::1",
            "redis://[::1]7",
            "redis://::1",
            "redis://",
            "redis:///1",
            "redis://:7",
            "redis://u:p@",
            "redis://a b",
            "redis://a<b",
            "redis://a[b]",
            "redis://a_b-c.example.",
            "redis://h/#insecure",
            "redis://h/1?protocol=3",
            "unix:///run/redis.sock",
            "redis+unix:///run/re%20dis.sock?db=2&user=u&pass=p%26+q",
            "valkey+unix:///s?db=",
            "unix:///s?db=a",
            "unix:///s?db",
            "unix:///s?&user",
            "unix://localhost/s",
            "unix://relative/s",
            "unix://",
            "unix:///s?user=%41&user=b",
            "http://h/",
            "h:6379",
        ] {
            if cfg!(not(unix)) && url.contains("unix") {
                continue;
            }
            assert_eq!(parts(url), parts_by_the_crate(url), "{url:?}");
        }
    }

    proptest! {
        #[test]
        fn any_address_is_read_as_the_redis_crate_does(
            pieces in vec(
                prop::sample::select(
                    &["user", "p", ":", "@", "host", "h.example", "[::1]", "127.0.0.1", ":6379", "/", "3", "%40", "%", "%2f", "+", "=", "x", "-", "ä", "?"][..],
                ),
                0..8,
            ),
        ) {
            let url = format!("redis://{}", pieces.concat());
            // A name that is not ASCII is left to the resolver.
            let (ours, theirs) = (parts(&url), parts_by_the_crate(&url));
            if ours.as_ref().is_none_or(|(place, ..)| place.is_ascii()) {
                prop_assert_eq!(ours, theirs, "{}", url);
            }
        }
    }
}
