//! Addresses: the URL that says where the locks live.
//!
//! One address is a server, a Sentinel group, a Cluster or a node in memory, by its scheme; several
//! addresses are the nodes of a quorum. What an address may not have is refused with a reason, and
//! no error shows a user, a password, or what may be part of one.

use std::sync::Arc;

use super::Deployment;
use super::link::Node;
use super::quorum::MOST_NODES;
use crate::base::error::LockError;
use crate::engine::memory::MemoryNode;
use crate::engine::redis::connect::server_identity::NodeIdentity;
use crate::engine::redis::connect::tls::Tls;
use crate::engine::redis::node::cluster_layout::ClusterNodes;
use crate::engine::redis::node::sentinel::Sentinels;
use crate::engine::redis::node::{NodeSettings, RedisNode};
use crate::engine::redis::wire::keyspace::{misfit, refused_prefix};

/// The kind of server that an address leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    Server,
    Socket,
    Sentinel,
    Cluster,
    Memory,
}

/// As [`allow_eviction`](crate::LockManagerBuilder::allow_eviction), of the servers of this address.
const ALLOW_EVICTION: &str = "allow_eviction";

const PROTOCOL: &str = "protocol";

const OTHER_PROTOCOL: &str = "`protocol` may be `resp3`: RESP3 is spoken with each server that can, and RESP2 with each other one. Leave it out";

/// The scheme that an address starts with.
struct Scheme {
    name: &'static str,
    kind: AddressKind,
    is_encrypted: bool,
    /// The error names the usual ones.
    is_usual: bool,
}

const fn scheme(name: &'static str, kind: AddressKind, is_encrypted: bool, is_usual: bool) -> Scheme {
    Scheme { name, kind, is_encrypted, is_usual }
}

const SCHEMES: [Scheme; 12] = [
    scheme("redis", AddressKind::Server, false, true),
    scheme("rediss", AddressKind::Server, true, true),
    scheme("valkey", AddressKind::Server, false, false),
    scheme("valkeys", AddressKind::Server, true, false),
    scheme("redis+unix", AddressKind::Socket, false, true),
    scheme("unix", AddressKind::Socket, false, false),
    scheme("valkey+unix", AddressKind::Socket, false, false),
    scheme("redis+sentinel", AddressKind::Sentinel, false, true),
    scheme("rediss+sentinel", AddressKind::Sentinel, true, false),
    scheme("redis+cluster", AddressKind::Cluster, false, true),
    scheme("rediss+cluster", AddressKind::Cluster, true, false),
    scheme("memory", AddressKind::Memory, false, true),
];

impl AddressKind {
    /// Returns what may stand behind the `?`.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Server => &[PROTOCOL, ALLOW_EVICTION],
            Self::Socket => &["db", "user", "pass", PROTOCOL, ALLOW_EVICTION],
            Self::Sentinel => &["sentinel_user", "sentinel_password", ALLOW_EVICTION],
            Self::Cluster => &[ALLOW_EVICTION],
            Self::Memory => &[],
        }
    }
}

/// The scheme of an address, and what follows it.
fn read(url: &str) -> Result<(&'static Scheme, &str), String> {
    let (name, rest) = url.split_once("://").ok_or_else(unknown_scheme)?;
    let scheme =
        SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name)).ok_or_else(unknown_scheme)?;
    let reason = unescaped(scheme.kind, rest).or_else(|| unknown_parameter(scheme.kind, rest));
    reason.map_or(Ok((scheme, rest)), Err)
}

/// The address of one server as `ServerAddress` reads it: whether it is encrypted is known.
fn plain(scheme: &Scheme, rest: &str) -> String {
    let name = if scheme.kind == AddressKind::Socket { "unix" } else { "redis" };
    format!("{name}://{rest}")
}

/// A character of a user or password that means something else in an address.
fn unescaped(kind: AddressKind, rest: &str) -> Option<String> {
    let written = |letter, code| {
        format!("`{letter}` means something else in an address: in a user or password it is written {code}")
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once(['/', '#']).unwrap_or((place, ""));
    match kind {
        // A name may have any character.
        AddressKind::Memory => None,
        AddressKind::Server | AddressKind::Sentinel | AddressKind::Cluster if path.contains('@') => {
            let is_slash = place.as_bytes().get(authority.len()) == Some(&b'/');
            Some(if is_slash { written('/', "%2F") } else { written('#', "%23") })
        }
        // The parameters of Sentinel stand behind a name, and may have an `@`.
        AddressKind::Server | AddressKind::Sentinel | AddressKind::Cluster
            if path.is_empty() && query.contains('@') =>
        {
            Some(written('?', "%3F"))
        }
        _ if rest.contains('#') && !rest.ends_with("#insecure") => Some(written('#', "%23")),
        _ => None,
    }
}

fn unknown_scheme() -> String {
    let usual = SCHEMES.iter().filter(|scheme| scheme.is_usual).map(|scheme| format!("{}://", scheme.name));
    let mut usual: Vec<String> = usual.collect();
    let last = usual.pop().unwrap_or_default();
    format!("it starts with none of {} and {last}", usual.join(", "))
}

/// One address, or several with commas between them.
pub(crate) fn parse(urls: &str, settings: &NodeSettings) -> Result<Deployment, LockError> {
    if let Some(reason) = refused_prefix(&settings.prefix) {
        return Err(unusable_prefix(reason));
    }
    let urls = split(urls);
    if let [url] = urls.as_slice()
        && let Ok((scheme, rest)) = read(url)
        && scheme.kind == AddressKind::Cluster
    {
        if let Some(reason) = misfit(&settings.prefix) {
            return Err(unusable_prefix(reason));
        }
        let nodes = cluster(scheme, rest, settings).map_err(|reason| invalid(url, &reason))?;
        return Ok(Deployment::Cluster(Box::new(nodes)));
    }
    if urls.len() > MOST_NODES {
        let reason = format!("{} servers are too many; a quorum of five is plenty", urls.len());
        return Err(invalid("", &reason));
    }
    for (at, url) in urls.iter().enumerate() {
        if urls[..at].contains(url) {
            return Err(invalid(url, "it is listed twice; each server has one vote"));
        }
    }
    let identities = (urls.len() > 1).then(Arc::default);
    let identified = |(number, url): (usize, &String)| {
        let node = node(url, settings).map_err(|reason| invalid(url, &reason))?;
        Ok(match (node, &identities) {
            (Node::Redis(node), Some(identities)) => {
                Node::Redis(Box::new(node.voting_as(NodeIdentity::new(identities, number))))
            }
            (node, _) => node,
        })
    };
    let nodes = urls.iter().enumerate().map(identified).collect::<Result<_, _>>()?;
    Ok(Deployment::Nodes(nodes))
}

/// A part without a scheme belongs to the address before it, which lists hosts.
fn split(urls: &str) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    for part in urls.split(',').map(str::trim) {
        match addresses.last_mut() {
            Some(address) if !part.contains("://") => {
                address.push(',');
                address.push_str(part);
            }
            _ => addresses.push(part.to_owned()),
        }
    }
    addresses
}

/// The error is the reason why the address cannot be used.
fn node(url: &str, settings: &NodeSettings) -> Result<Node, String> {
    let (scheme, rest) = read(url)?;
    let (rest, settings) = with_parameters(rest, settings)?;
    let (rest, settings) = (&*rest, &settings);
    match scheme.kind {
        AddressKind::Memory => return Ok(Node::Memory(MemoryNode::named(rest))),
        AddressKind::Cluster => return Err("a Cluster cannot be a node of a quorum".to_owned()),
        AddressKind::Socket if cfg!(not(unix)) => {
            return Err("this system has no unix sockets: use redis://host:6379/".to_owned());
        }
        AddressKind::Server | AddressKind::Socket | AddressKind::Sentinel => {}
    }
    let tls = tls(scheme, rest, settings)?;
    let (sentinels, url) = match scheme.kind {
        AddressKind::Sentinel => {
            let (sentinels, url) = Sentinels::read(rest, tls.clone())?;
            (Some(sentinels), url)
        }
        AddressKind::Server if rest.rsplit_once('@').map_or(rest, |(_, host)| host).contains(',') => {
            return Err("several servers have an address each: redis://host1,redis://host2".to_owned());
        }
        _ => (None, plain(scheme, rest)),
    };
    let node = RedisNode::at(&url, settings)?;
    if node.has_two_passwords() {
        return Err(TWO_PASSWORDS.to_owned());
    }
    if node.lacks_a_password() {
        return Err(USER_ALONE.to_owned());
    }
    let mut node = node.encrypted(tls);
    if let Some(sentinels) = sentinels {
        node = node.behind(sentinels);
    }
    Ok(Node::Redis(Box::new(node)))
}

/// Without a password, a client does not log in.
const USER_ALONE: &str = "it has a user and no password, so the server would take it for `default`: add the password \
    (a user with `nopass` has any)";

/// The error for two passwords, because it would be a guess which one counts.
const TWO_PASSWORDS: &str = "user and password come from `credentials`: leave them out of the address";

/// Returns how connections are encrypted, if they are.
fn tls(scheme: &Scheme, rest: &str, settings: &NodeSettings) -> Result<Option<Tls>, String> {
    if !scheme.is_encrypted && settings.tls.is_set() {
        return Err("`tls_ca` and `tls_client` are for rediss://: this address is not encrypted".to_owned());
    }
    if !scheme.is_encrypted {
        return Ok(None);
    }
    if rest.contains('#') {
        return Err("certificates are always checked: `tls_ca` names an authority of your own".to_owned());
    }
    Tls::new(&settings.tls).map(Some)
}

/// `user:password@host:port,host:port`: some nodes of the Cluster, which name the others.
fn cluster(scheme: &Scheme, rest: &str, settings: &NodeSettings) -> Result<ClusterNodes, String> {
    const FORM: &str = "it is not like redis+cluster://host1:6379,host2:6379";
    let (rest, settings) = with_parameters(rest, settings)?;
    let (rest, settings) = (&*rest, &settings);
    let tls = tls(scheme, rest, settings)?;
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (format!("{credentials}@"), rest),
        None => (String::new(), rest),
    };
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(database, "" | "0") {
        return Err("a Cluster has no databases".to_owned());
    }
    if settings.credentials.is_some() && !credentials.is_empty() {
        return Err(TWO_PASSWORDS.to_owned());
    }
    if credentials.matches('@').count() > 1 {
        return Err("user and password stand once, before the first host".to_owned());
    }
    if hosts.split(',').any(str::is_empty) {
        return Err(FORM.to_owned());
    }
    let seeds = hosts.split(',').map(|host| format!("redis://{credentials}{host}/"));
    let nodes = ClusterNodes::new(seeds, settings.clone(), tls)?;
    if nodes.lack_a_password() { Err(USER_ALONE.to_owned()) } else { Ok(nodes) }
}

/// The rest of the address without the parameters that are settings of the manager, and the settings
/// with them. The crate `redis` needs `protocol=resp3`; here it changes nothing.
fn with_parameters(rest: &str, settings: &NodeSettings) -> Result<(String, NodeSettings), String> {
    let mut settings = settings.clone();
    let Some((place, query)) = rest.split_once('?') else { return Ok((rest.to_owned(), settings)) };
    let mut others = Vec::new();
    for part in query.split('&') {
        match part.split_once('=').unwrap_or((part, "")) {
            (ALLOW_EVICTION, "true") => settings.allow_eviction = true,
            (ALLOW_EVICTION, "false") => settings.allow_eviction = false,
            (PROTOCOL, "resp3" | "3") => {}
            (PROTOCOL, _) => return Err(OTHER_PROTOCOL.to_owned()),
            (ALLOW_EVICTION, _) => return Err(format!("`{ALLOW_EVICTION}` is `true` or `false`")),
            _ => others.push(part),
        }
    }
    let question = if others.is_empty() { "" } else { "?" };
    Ok((format!("{place}{question}{}", others.join("&")), settings))
}

fn unknown_parameter(kind: AddressKind, rest: &str) -> Option<String> {
    let known = kind.parameters();
    let (_, query) = rest.split_once('?')?;
    let names = || query.split('&').map(|part| part.split_once('=').map_or(part, |(name, _)| name));
    let unknown = names().find(|name| !name.is_empty() && !known.contains(name))?;
    // Anything but a plain name may be a piece of a password with a `?` in it, and is not shown.
    let is_name = unknown.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let which = if is_name && !query.contains('@') { format!(" `{unknown}`") } else { String::new() };
    let may_have = match known {
        [] => "an address like this has none".to_owned(),
        known => format!("an address like this may have `{}`", known.join("`, `")),
    };
    Some(format!("unknown parameter{which}: {may_have}"))
}

fn unusable_prefix(reason: &str) -> LockError {
    LockError::InvalidSetting { setting: "prefix", reason: reason.into() }
}

fn invalid(url: &str, reason: &str) -> LockError {
    LockError::InvalidUrl { url: without_credentials(url).into(), reason: reason.into() }
}

/// `redis://user:secret@host/?sentinel_password=secret` without the parts that must not be shown.
pub(crate) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let shown = match rest.split_once('?') {
        // The secret may begin on either side of the `?`.
        Some((_, query)) if query.contains('@') => "…",
        Some((place, _)) => place,
        None => rest,
    };
    let shown = shown.rsplit_once('@').map_or(shown, |(_, place)| place);
    let shown = shown.split_once('#').map_or(shown, |(place, _)| place);
    if scheme.is_empty() { shown.to_owned() } else { format!("{scheme}://{shown}") }
}

#[cfg(test)]
mod tests {
    use redis::{ConnectionAddr, IntoConnectionInfo as _};

    use super::*;
    use crate::engine::redis::connect::server_address::{Place, ServerAddress};

    fn settings(prefix: &str) -> NodeSettings {
        NodeSettings {
            prefix: prefix.to_owned(),
            instance: String::new(),
            foreign_clients: true,
            allow_eviction: false,
            tls: crate::engine::redis::connect::tls::TlsSettings::default(),
            credentials: None,
            seen: crate::engine::redis::wire::seen_fences::SeenFences::default(),
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(without_credentials("redis://u:p@ss@host:1/0"), "redis://host:1/0");
        assert_eq!(without_credentials("nonsense"), "nonsense");
        assert_eq!(
            without_credentials("redis+sentinel://u:p@h,i/n?sentinel_password=p"),
            "redis+sentinel://h,i/n"
        );
        assert_eq!(without_credentials("redis+sentinel://h/n?sentinel_password=p@q"), "redis+sentinel://…");
        assert_eq!(without_credentials("redis://u:p?q@h/"), "redis://…");
        for urls in [
            "redis://u:secret@[bad",
            "redis://u:secret@a,redis://u:secret@a",
            "ftp://u:secret@h,b",
            "redis+sentinel://u:secret@h/n?x=secret",
            "redis+cluster://u:secret@a/1",
            "rediss+cluster://u:secret@a/1",
            "redis+cluster://u:secret@a,redis://b",
        ] {
            let error = parse(urls, &settings("")).map(|_| ()).map_err(|error| error.to_string());
            assert!(matches!(&error, Err(text) if !text.contains("secret")), "{error:?}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_named_with_the_known_ones() {
        let told = |url: &str| parse(url, &settings("")).err().map(|error| error.to_string());
        for (url, name, known) in [
            ("redis://h/0?timeout=5", "`timeout`", "`protocol`, `allow_eviction`"),
            ("memory://?ttl", "`ttl`", "none"),
            ("redis+cluster://a,b?x=1", "`x`", "`allow_eviction`"),
            ("redis+unix:///s.sock?db=1&passw=secret", "`passw`", "`db`, `user`, `pass`"),
            ("redis+sentinel://h/n?sentinel_pasword=secret", "`sentinel_pasword`", "`sentinel_password`"),
            ("redis://a,redis://b?x=1", "`x`", "`allow_eviction`"),
        ] {
            let error = told(url).unwrap_or_default();
            assert!(
                error.contains(name) && error.contains(known) && !error.contains("ret"),
                "{url}: {error}"
            );
        }
        for url in ["redis://h/0?", "redis+sentinel://h/n?sentinel_user=u&sentinel_password=p"] {
            assert_eq!(told(url), None, "{url}");
        }
    }

    #[test]
    fn an_address_may_accept_a_server_that_evicts() {
        let of = |rest: &str| {
            with_parameters(rest, &settings("")).map(|(rest, settings)| (rest, settings.allow_eviction))
        };
        for (rest, left, accepts) in [
            ("h/1", "h/1", false),
            ("h/1?allow_eviction=true", "h/1", true),
            ("h/1?allow_eviction=false", "h/1", false),
            ("/s.sock?db=1&allow_eviction=true&pass=p", "/s.sock?db=1&pass=p", true),
        ] {
            assert_eq!(of(rest), Ok((left.to_owned(), accepts)), "{rest}");
        }
        for url in [
            "redis://u:p@h/1?allow_eviction=true",
            "redis+sentinel://h,i/n/1?allow_eviction=true&sentinel_user=u&sentinel_password=p",
            "redis+cluster://u:p@a,b?allow_eviction=true",
            "redis://a?allow_eviction=true,redis://b?allow_eviction=true,redis://c",
        ] {
            assert!(parse(url, &settings("lock:")).is_ok(), "{url}");
        }
        for url in ["redis://h?allow_eviction", "redis+cluster://h?allow_eviction=yes"] {
            let error = parse(url, &settings("lock:")).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("is `true` or `false`")), "{url}");
        }
    }

    #[test]
    fn a_character_of_a_password_that_ends_it_is_named_with_its_code() {
        let told = |url: &str| parse(url, &settings("")).err().map(|error| error.to_string());
        for (url, letter, code) in [
            ("redis://:se#cret@h/", '#', "%23"),
            ("redis://u:se?cret@h/1", '?', "%3F"),
            ("redis://u:se/cret@h/1", '/', "%2F"),
            ("redis://u:?cret@h", '?', "%3F"),
            ("rediss://u:se#cret@h", '#', "%23"),
            ("redis://h/#cret", '#', "%23"),
            ("redis+cluster://u:se?cret@a,b", '?', "%3F"),
            ("redis+sentinel://u:se#cret@h,i/n", '#', "%23"),
            ("redis+sentinel://u:se?cret@h,i/n", '?', "%3F"),
            ("redis+sentinel://h/n?sentinel_password=se#cret", '#', "%23"),
            ("redis+unix:///s.sock?pass=se#cret", '#', "%23"),
            ("redis://a,redis://:se#cret@b", '#', "%23"),
        ] {
            if cfg!(not(unix)) && url.contains("unix") {
                continue;
            }
            let error = told(url).unwrap_or_default();
            assert!(error.contains(&format!("`{letter}`")) && error.contains(code), "{url}: {error}");
            assert!(!error.contains("cret"), "{url}: {error}");
        }
        for url in [
            "redis://u:p@ss@h/1",
            "redis://:p%23%3F%2F@h",
            "redis+sentinel://u:p@h/n?sentinel_password=p@q?",
            "memory://a#b@c",
        ] {
            assert_eq!(told(url), None, "{url}");
        }
    }

    #[test]
    fn a_system_without_unix_sockets_says_so() {
        let error =
            parse("redis+unix:///s.sock?db=1&pass=p", &settings("")).err().map(|error| error.to_string());
        let expected = cfg!(not(unix)).then_some(
            "cannot connect to `redis+unix:///s.sock`: this system has no unix sockets: use redis://host:6379/",
        );
        assert_eq!(error.as_deref(), expected);
    }

    #[test]
    fn a_cluster_has_hosts_and_one_user() {
        let known = |url: &str, prefix: &str| parse(url, &settings(prefix)).is_ok();
        for url in ["a", "a,b:7001", "user:pass@a:1,b:2/", "[::1]:7000,127.0.0.1:7001/0"] {
            assert!(known(&format!("redis+cluster://{url}"), "lock:"), "{url}");
        }
        for url in ["", "/", ",a", "a,", "a:port", "a/1", "u:p@a,u:p@b"] {
            assert!(!known(&format!("redis+cluster://{url}"), "lock:"), "{url}");
        }
        assert!(known("redis+cluster://a", "{shop}:") && !known("redis+cluster://a", "{shop"));
    }

    /// The parts of an address that a manager uses: encrypted or not, the place, user, password,
    /// database.
    type Meaning = (bool, Place, Option<String>, Option<String>, i64);

    fn meaning(url: &str) -> Result<Meaning, String> {
        let (scheme, rest) = read(url.trim())?;
        let ServerAddress { place, user, password, database } = ServerAddress::read(&plain(scheme, rest))?;
        parse(url, &settings("")).map_err(|error| error.to_string())?;
        Ok((scheme.is_encrypted, place, user, password, database))
    }

    /// As the crate `redis` reads it.
    fn meaning_by_the_crate(url: &str) -> Option<Meaning> {
        let info = url.into_connection_info().ok()?;
        let (is_encrypted, place) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (false, Place::Tcp(host.clone(), *port)),
            ConnectionAddr::TcpTls { host, port, .. } => (true, Place::Tcp(host.clone(), *port)),
            ConnectionAddr::Unix(path) => (false, Place::Unix(path.to_str()?.to_owned())),
            _ => return None,
        };
        let settings = info.redis_settings();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some((is_encrypted, place, owned(settings.username()), owned(settings.password()), settings.db()))
    }

    #[test]
    fn an_address_means_the_same_to_the_redis_crate_or_is_refused() {
        const SAME: &str = "";
        for (url, refusal) in [
            ("redis://h", SAME),
            ("redis://h:7/3", SAME),
            ("REDIS://h:7/3", SAME),
            ("Redis://H/", SAME),
            (" redis://u:p@h/1\n", SAME),
            ("redis://h/?protocol=resp3", SAME),
            ("redis://u:p@h:7/3?protocol=3", SAME),
            ("redis://h/?protocol=resp2", "`protocol` may be `resp3`"),
            ("redis://h/?protocol=4", "`protocol` may be `resp3`"),
            ("redis://h/?timeout=5", "unknown parameter `timeout`"),
            ("redis://user@h/", "a user and no password"),
            ("redis://user:@h/", "a user and no password"),
            ("redis://:p@h", SAME),
            ("redis://u:p%40%3A%2F%25@h", SAME),
            ("redis://u:100%@h", SAME),
            ("redis://u:50%off@h", SAME),
            ("redis://u:%ff@h", "a percent sign itself is written %25"),
            ("redis://u:p#q@h", "%23"),
            ("redis://u:a,b@h", SAME),
            ("redis://h:99999", "not a number from 0 to 65535"),
            ("redis://h:abc", "not a number from 0 to 65535"),
            ("redis://h/abc", "database is not a number"),
            ("redis://h/3/4", "database is not a number"),
            ("redis://h:/2", SAME),
            ("redis://0.0.0.0", "stand for all addresses"),
            ("redis://[::1]:7", SAME),
            ("redis://[::g]:7", "IPv6"),
            ("redis://", "not like redis://host:6379/"),
            ("redis:/h", "it starts with none of"),
            ("http://h/", "it starts with none of"),
            ("redis+unix:///run/re%20dis.sock?db=2&user=u&pass=p%26+q", SAME),
            ("unix:///s?protocol=resp3", SAME),
            ("UNIX:///s?db=a", "database is not a number"),
            ("unix:///s?user=u", "a user and no password"),
            ("unix://relative/s", "redis+unix:///path"),
        ] {
            if cfg!(not(unix)) && url.to_lowercase().contains("unix") {
                continue;
            }
            let ours = meaning(url);
            if refusal == SAME {
                assert!(ours.is_ok(), "{url:?}: {ours:?}");
                assert_eq!(ours.ok(), meaning_by_the_crate(url), "{url:?}");
            } else {
                assert!(matches!(&ours, Err(error) if error.contains(refusal)), "{url:?}: {ours:?}");
            }
        }
    }

    #[test]
    fn a_user_without_a_password_is_refused_everywhere() {
        let told = |url: &str| parse(url, &settings("")).err().map(|error| error.to_string());
        for url in [
            "redis+cluster://u@a,b",
            "redis+sentinel://u@h/n",
            "redis+sentinel://h/n?sentinel_user=u",
            "redis://a,redis://u@b",
        ] {
            let error = told(url).unwrap_or_default();
            assert!(error.contains("`default`"), "{url}: {error}");
        }
    }

    #[test]
    fn several_addresses_are_told_from_several_hosts() {
        assert_eq!(split("redis://a"), ["redis://a"]);
        assert_eq!(split("redis://a/1, redis://b:2/"), ["redis://a/1", "redis://b:2/"]);
        assert_eq!(
            split("redis+sentinel://a:1,b:2/shop,redis://c"),
            ["redis+sentinel://a:1,b:2/shop", "redis://c"]
        );
    }
}
