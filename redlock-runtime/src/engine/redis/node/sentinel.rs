//! Sentinel: which server is the primary, and whether it has changed.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::engine::protocol::{ConnectionEvent, Disconnected};
use crate::engine::redis::connect::login::Speak;
use crate::engine::redis::connect::server_address::{LONGEST_HOST, ServerAddress};
use crate::engine::redis::connect::tls::Tls;
use crate::engine::redis::connect::{Opening, open};
use crate::engine::redis::wire::command::Pipeline;
use crate::engine::redis::wire::dns::Addresses;
use crate::engine::redis::wire::error_reply::{ErrorReply, is_unknown};
use crate::engine::redis::wire::exchange::{Exchange, Interrupted};
use crate::engine::redis::wire::failure::Failure;
use crate::engine::redis::wire::hedged;
use crate::engine::redis::wire::stream::ConnectError;
use crate::engine::redis::wire::value::Value;
use crate::engine::redis::wire::value::text;
use crate::engine::timers::jittered;

/// How often a sentinel is asked whether the primary has changed. A primary that has vanished is
/// noticed by this, even while there are no requests for it.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

const DEFAULT_PORT: u16 = 26379;

/// The sentinels of one primary.
#[derive(Clone)]
pub(crate) struct Sentinels {
    /// The addresses of each sentinel.
    all: Arc<[(ServerAddress, Addresses)]>,
    /// The name of the primary.
    name: Arc<str>,
    tls: Option<Tls>,
    /// The sentinel to ask first: the last that answered, unless its answer led to no connection.
    first: Arc<AtomicUsize>,
}

/// The primary that a sentinel reports, and the connection to that sentinel.
pub(super) struct PrimaryAddress {
    pub(super) host: String,
    pub(super) port: u16,
    by: Sentinel,
}

struct Sentinel {
    address: String,
    /// The addresses of its host.
    addresses: Addresses,
    exchange: Exchange,
}

impl Sentinels {
    /// Reads what is behind the scheme:
    /// `[user:password@]host[:port],…/name[/db][?sentinel_user=…&sentinel_password=…]`. Also
    /// returns the URL of the primary, with a placeholder for the host.
    pub(crate) fn read(rest: &str, tls: Option<Tls>) -> Result<(Self, String), &'static str> {
        const FORM: &str = "it is not like redis+sentinel://host:26379,host:26379/name";
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').ok_or(FORM)?;
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (name, db) = path.split_once('/').unwrap_or((path, ""));
        if name.is_empty() {
            return Err(FORM);
        }
        let credentials = credentials(query)?;
        let sentinel = |host: &str| {
            let port = if has_port(host) { String::new() } else { format!(":{DEFAULT_PORT}") };
            let address = ServerAddress::read(&format!("redis://{credentials}{host}{port}/"));
            address.map(|address| (address, Addresses::default()))
        };
        let all = hosts.split(',').map(sentinel).collect::<Result<_, _>>()?;
        let first = Arc::new(AtomicUsize::new(0));
        Ok((Self { all, name: name.into(), tls, first }, format!("redis://{user}primary/{db}")))
    }

    /// Asks where the primary is.
    pub(super) fn find(&self, timeout: Duration) -> Opening<'_, PrimaryAddress, Disconnected> {
        Box::pin(self.find_primary(timeout))
    }

    async fn find_primary(&self, timeout: Duration) -> Result<PrimaryAddress, Disconnected> {
        let (first, all) = (self.first.load(Ordering::Relaxed), self.all.len());
        let calls = (first..first + all).map(|index| index % all).map(|index| {
            let (sentinels, address) = (self.clone(), self.all[index].0.place.to_string());
            async move {
                let (server, addresses) = &sentinels.all[index];
                let addresses = &addresses.next_round();
                let found =
                    addresses.try_each(timeout, |_| true, || sentinels.ask(server, addresses, timeout)).await;
                found.map(|found| (index, found)).map_err(|silence| (address, silence))
            }
        });
        match hedged::first(calls).await {
            Ok((index, found)) => {
                self.first.store(index, Ordering::Relaxed);
                Ok(found)
            }
            Err(silences) => Err(self.not_found(&silences)),
        }
    }

    /// The reported primary cannot be reached: another sentinel may know better.
    fn ask_another_first(&self) {
        let next = (self.first.load(Ordering::Relaxed) + 1) % self.all.len();
        self.first.store(next, Ordering::Relaxed);
    }

    /// The error when the reported primary cannot be reached.
    pub(super) fn no_connection(&self, found: &PrimaryAddress, trouble: Disconnected) -> Disconnected {
        // Also one at another address of the same name.
        found.by.addresses.put_last();
        self.ask_another_first();
        let Disconnected { reason, is_permanent } = trouble;
        let reason =
            format!("{reason} (that is where `{}` is, says the sentinel at {})", self.name, found.by.address);
        Disconnected { reason: reason.into(), is_permanent }
    }

    /// Tells when the sentinels report another primary. Ends with the receiver of `pushes`.
    pub(super) async fn watch(
        self,
        found: PrimaryAddress,
        pushes: UnboundedSender<ConnectionEvent>,
        timeout: Duration,
    ) {
        until_closed(&pushes, async {
            let PrimaryAddress { host, port, mut by } = found;
            loop {
                tokio::time::sleep(jittered(CHECK_INTERVAL)).await;
                let now = match tokio::time::timeout(timeout, by.primary(&self.name)).await {
                    Ok(Ok(Some(now))) => now,
                    // The sentinel is down or no longer knows the primary: the next one is asked.
                    _ => match self.find(timeout).await {
                        Ok(found) => {
                            by = found.by;
                            (found.host, found.port)
                        }
                        Err(_) => continue,
                    },
                };
                if (now.0.as_str(), now.1) != (host.as_str(), port) {
                    let _ = pushes.send(ConnectionEvent::Superseded);
                    return;
                }
            }
        })
        .await;
    }

    /// Connecting and the answer each have the time limit.
    async fn ask(
        &self,
        address: &ServerAddress,
        addresses: &Addresses,
        timeout: Duration,
    ) -> Result<PrimaryAddress, Silence> {
        let exchange = open(address, addresses, self.tls.as_ref(), Speak::Resp2, timeout).await?;
        let mut by = Sentinel { address: address.place.to_string(), addresses: addresses.clone(), exchange };
        match tokio::time::timeout(timeout, by.primary(&self.name)).await {
            Ok(Ok(Some((host, port)))) => Ok(PrimaryAddress { host, port, by }),
            Ok(Ok(None)) => Err(Silence::Unknown),
            Ok(Err(Failure::Said(reply))) if is_unknown(reply.details()) => Err(Silence::NoSentinel),
            Ok(Err(failure)) => Err(ConnectError::Failed(failure).into()),
            Err(_) => Err(ConnectError::TimedOut.into()),
        }
    }

    fn not_found(&self, silences: &[(String, Silence)]) -> Disconnected {
        let addresses: Vec<_> = silences.iter().map(|(address, _)| address.as_str()).collect();
        let is_permanent = silences.iter().all(|(_, silence)| silence.is_permanent());
        let reason = if silences.iter().all(|(_, silence)| matches!(silence, Silence::Unknown)) {
            format!("no sentinel of {} knows a master called `{}`", addresses.join(", "), self.name)
        } else {
            let each: Vec<_> =
                silences.iter().map(|(address, silence)| format!("{address}: {}", silence.words())).collect();
            format!("no sentinel says where `{}` is ({})", self.name, each.join("; "))
        };
        Disconnected { reason: reason.into(), is_permanent }
    }
}

/// Why a sentinel reports no primary.
enum Silence {
    Unknown,
    /// It does not know `SENTINEL`.
    NoSentinel,
    Failed(ConnectError),
}

impl From<ConnectError> for Silence {
    fn from(attempt: ConnectError) -> Self {
        Self::Failed(attempt)
    }
}

impl Silence {
    fn words(&self) -> String {
        match self {
            Self::Unknown => "it knows no master of this name".to_owned(),
            Self::NoSentinel => {
                "it is no sentinel: the address of a server starts with redis:// or rediss://".to_owned()
            }
            Self::Failed(ConnectError::TimedOut) => "it does not answer in time".to_owned(),
            Self::Failed(ConnectError::Refused(words) | ConnectError::NoCredentials(words)) => words.clone(),
            Self::Failed(ConnectError::Failed(Failure::Said(reply))) if reply.code == "NOAUTH" => {
                "it wants a password (NOAUTH): ?sentinel_password=…".to_owned()
            }
            Self::Failed(ConnectError::Failed(Failure::Said(reply))) if reply.code == "WRONGPASS" => {
                "`sentinel_user` or `sentinel_password` is wrong".to_owned()
            }
            Self::Failed(ConnectError::Failed(failure)) => failure.to_string(),
        }
    }

    /// Waiting does not help.
    fn is_permanent(&self) -> bool {
        match self {
            Self::Unknown | Self::NoSentinel | Self::Failed(ConnectError::Refused(_)) => true,
            Self::Failed(ConnectError::TimedOut | ConnectError::NoCredentials(_)) => false,
            Self::Failed(ConnectError::Failed(failure)) => failure.is_permanent(),
        }
    }
}

impl Sentinel {
    async fn primary(&mut self, name: &str) -> Result<Option<(String, u16)>, Failure> {
        let mut ask = Pipeline::default();
        ask.add(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]);
        let answer = match self.exchange.ask(&ask).await {
            Ok(answers) => answers.into_iter().next().unwrap_or(Value::Nil),
            Err(Interrupted { failure, .. }) => return Err(failure),
        };
        match answer {
            Value::Nil => Ok(None),
            Value::ServerError(error) => Err(Failure::Said(ErrorReply::of(&error))),
            Value::Array(parts) => {
                let [host, port] = parts.as_slice() else { return Err(nonsense()) };
                let host = text(host).filter(|host| host.len() <= LONGEST_HOST);
                let address = host.zip(text(port).and_then(|port| port.parse().ok()));
                address.map(|(host, port)| Some((host.to_owned(), port))).ok_or_else(nonsense)
            }
            _ => Err(nonsense()),
        }
    }
}

fn nonsense() -> Failure {
    Failure::Broke("its answer names no address".into())
}

/// User and password of the sentinels, as part of a URL.
fn credentials(query: &str) -> Result<String, &'static str> {
    let (mut user, mut password) = ("", "");
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = value,
            _ => return Err("of parameters it may have `sentinel_user` and `sentinel_password`"),
        }
    }
    match (user, password) {
        ("", "") => Ok(String::new()),
        (_, "") => Err(
            "`sentinel_user` needs `sentinel_password`: without it, the sentinel would take it for `default`",
        ),
        _ => Ok(format!("{}:{}@", escaped(user), escaped(password))),
    }
}

/// Escapes the characters that are allowed behind a `?` but not before an `@`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ':' => escaped.push_str("%3A"),
            '/' => escaped.push_str("%2F"),
            '?' => escaped.push_str("%3F"),
            '@' => escaped.push_str("%40"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// An IPv6 address in brackets has colons, too.
fn has_port(host: &str) -> bool {
    host.rsplit_once(']').map_or(host, |(_, rest)| rest).contains(':')
}

/// Does `work` as long as `pushes` has a receiver, which is as long as the connection is in use.
async fn until_closed(pushes: &UnboundedSender<ConnectionEvent>, work: impl Future<Output = ()>) {
    let (mut work, mut closed) = (pin!(work), pin!(pushes.closed()));
    poll_fn(|cx| match closed.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => work.as_mut().poll(cx),
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read() {
        let Ok((sentinels, primary)) =
            Sentinels::read("shop:s%40@a,b:1,[::1]/main/2?sentinel_user=u&sentinel_password=p@/", None)
        else {
            unreachable!()
        };
        let addresses: Vec<_> = sentinels.all.iter().map(|(address, _)| address.place.to_string()).collect();
        assert_eq!(addresses, ["a:26379", "b:1", "[::1]:26379"]);
        assert_eq!(sentinels.all[0].0.password.as_deref(), Some("p@/"));
        assert_eq!(sentinels.all[0].0.user.as_deref(), Some("u"));
        assert_eq!((&*sentinels.name, primary.as_str()), ("main", "redis://shop:s%40@primary/2"));
        for unusable in ["a", "a/", "/main", "a,,b/main", "a/main?sentinel_pasword=p", "a:port/main"] {
            assert!(Sentinels::read(unusable, None).is_err(), "{unusable}");
        }
    }
}
