//! The address of a client of the crate `redis`. Only getters of the crate are called: what reads
//! and opens addresses there is not linked into a program that does not use it itself.

use std::fmt::Write as _;

use redis::{Client, ConnectionAddr, ConnectionInfo};

use super::{Address, Refusal};

const OWN_CERTIFICATES: Refusal = Refusal {
    reason: "the client has certificates of its own, which cannot be read from it: set `tls_ca`, `tls_client` or both on \
             the builder as well (feature `tls`)",
    is_lifted_by_tls_settings: true,
};

const INSECURE: Refusal = Refusal {
    reason: "the client checks no certificates (`insecure`), and a lock manager always does: set `tls_ca` for an authority \
             of your own, and give the address as text (rediss://host:6379/)",
    is_lifted_by_tls_settings: false,
};

const STRANGE_HOST: Refusal = Refusal {
    reason: "the host of the client is neither a name nor an address",
    is_lifted_by_tls_settings: false,
};

const STRANGE_PATH: Refusal = Refusal {
    reason: "the path of the client's unix socket is not UTF-8, or does not start with `/`",
    is_lifted_by_tls_settings: false,
};

const UNKNOWN_KIND: Refusal = Refusal {
    reason: "the client has an address of a kind that is not known here: give it as text (redis://host:6379/)",
    is_lifted_by_tls_settings: false,
};

impl From<&ConnectionInfo> for Address {
    fn from(info: &ConnectionInfo) -> Self {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => of_a_host(info, "redis", host, *port, None),
            ConnectionAddr::TcpTls { host, port, insecure, tls_params } => {
                let refusal =
                    if *insecure { Some(INSECURE) } else { tls_params.as_ref().map(|_| OWN_CERTIFICATES) };
                of_a_host(info, "rediss", host, *port, refusal)
            }
            ConnectionAddr::Unix(path) => {
                let path = path.to_str().filter(|path| path.starts_with('/'));
                of_a_socket(info, path.unwrap_or_default(), path.is_none().then_some(STRANGE_PATH))
            }
            _ => Self { text: "redis://…".to_owned(), refusal: Some(UNKNOWN_KIND) },
        }
    }
}

impl From<ConnectionInfo> for Address {
    fn from(info: ConnectionInfo) -> Self {
        Self::from(&info)
    }
}

impl From<&Client> for Address {
    fn from(client: &Client) -> Self {
        Self::from(client.get_connection_info())
    }
}

impl From<Client> for Address {
    fn from(client: Client) -> Self {
        Self::from(&client)
    }
}

fn of_a_host(
    info: &ConnectionInfo,
    scheme: &str,
    host: &str,
    port: u16,
    refusal: Option<Refusal>,
) -> Address {
    let settings = info.redis_settings();
    let login = match (settings.username(), settings.password()) {
        (None, None) => String::new(),
        (user, password) => {
            format!("{}:{}@", encoded(user.unwrap_or_default()), encoded(password.unwrap_or_default()))
        }
    };
    let is_strange = |letter: char| letter.is_control() || "/?#@,:[]\\".contains(letter);
    let (host, strange) = match host.parse::<std::net::Ipv6Addr>() {
        Ok(address) => (format!("[{address}]"), None),
        Err(_) => (host.to_owned(), host.contains(is_strange).then_some(STRANGE_HOST)),
    };
    let text = format!("{scheme}://{login}{host}:{port}/{}", settings.db());
    Address { text, refusal: refusal.or(strange) }
}

fn of_a_socket(info: &ConnectionInfo, path: &str, refusal: Option<Refusal>) -> Address {
    let settings = info.redis_settings();
    let path = encoded(path).replace("%2F", "/");
    let mut text = format!("redis+unix://{path}?db={}", settings.db());
    for (name, value) in [("user", settings.username()), ("pass", settings.password())] {
        if let Some(value) = value {
            text.extend(["&", name, "=", &encoded(value)]);
        }
    }
    Address { text, refusal }
}

/// With each character as `%` and two digits that means something in an address.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` never fails.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
