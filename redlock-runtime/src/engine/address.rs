//! Addresses: what a URL says about where the lock lives.

use redis::IntoConnectionInfo;

use super::cluster::ClusterNodes;
use super::line::Deployment;
use super::link::Node;
use super::names::misfit;
use super::node::{NodeSettings, RedisNode};
use crate::error::LockError;
use crate::memory::MemoryNode;

/// One address, or several with commas between them.
pub(crate) fn parse(urls: &str, settings: &NodeSettings) -> Result<Deployment, LockError> {
    match split(urls).as_slice() {
        [url] if scheme(url) == "redis+cluster" => cluster(url, settings),
        [url] => node(url, settings).map(Deployment::One),
        several => Err(LockError::InvalidUrl {
            url: several.iter().map(|url| without_credentials(url)).collect::<Vec<_>>().join(",").into(),
            reason: "several servers are not supported yet".into(),
        }),
    }
}

/// A part that has no scheme of its own belongs to the address before it, which lists hosts.
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

fn node(url: &str, settings: &NodeSettings) -> Result<Node, LockError> {
    let refused = |reason: &str| invalid(url, reason);
    if let Some(name) = url.strip_prefix("memory://") {
        return Ok(Node::Memory(MemoryNode::named(name)));
    }
    if let Some(reason) = not_supported(url) {
        return Err(refused(reason));
    }
    let info = url.into_connection_info().map_err(|_| refused("it is not like redis://host:6379/"))?;
    Ok(Node::Redis(Box::new(RedisNode::new(info, settings))))
}

/// `redis+cluster://user:password@host:port,host:port`: some nodes of it, from which the others are known.
fn cluster(url: &str, settings: &NodeSettings) -> Result<Deployment, LockError> {
    let refused = |reason: &str| Err(invalid(url, reason));
    if let Some(reason) = misfit(&settings.prefix) {
        return refused(reason);
    }
    let rest = url.split_once("://").unwrap_or_default().1;
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (format!("{credentials}@"), rest),
        None => (String::new(), rest),
    };
    let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(database, "" | "0") {
        return refused("a Cluster has no databases");
    }
    if credentials.matches('@').count() > 1 {
        return refused("user and password stand once, before the first host");
    }
    if hosts.split(',').any(str::is_empty) {
        return refused("it is not like redis+cluster://host1:6379,host2:6379");
    }
    let seeds = hosts.split(',').map(|host| format!("redis://{credentials}{host}/").into_connection_info());
    match seeds.collect::<Result<Vec<_>, _>>() {
        Ok(seeds) => Ok(Deployment::Cluster(Box::new(ClusterNodes::new(seeds, settings.clone())))),
        Err(_) => refused("it is not like redis+cluster://host1:6379,host2:6379"),
    }
}

fn scheme(url: &str) -> &str {
    url.split_once("://").unwrap_or_default().0
}

fn invalid(url: &str, reason: &str) -> LockError {
    LockError::InvalidUrl { url: without_credentials(url).into(), reason: reason.into() }
}

/// What is wrong with an address that other tools may understand.
fn not_supported(url: &str) -> Option<&'static str> {
    match scheme(url) {
        "redis" | "redis+unix" | "unix" | "valkey" | "valkey+unix" => None,
        "rediss" | "valkeys" => Some("TLS is not supported yet"),
        "redis+sentinel" => Some("Sentinel is not supported yet"),
        _ => Some("it starts with none of redis://, redis+cluster://, redis+unix:// and memory://"),
    }
}

/// `redis://user:secret@host/` without the part that must not be shown.
fn without_credentials(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        (None, Some((_, rest))) => rest.to_owned(),
        (_, None) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(without_credentials("redis://u:p@ss@host:1/0"), "redis://host:1/0");
        assert_eq!(without_credentials("nonsense"), "nonsense");
        let settings = NodeSettings {
            prefix: String::new(),
            instance: String::new(),
            foreign_clients: true,
            allow_eviction: false,
        };
        for urls in ["redis://u:secret@[bad", "redis://u:secret@a,redis://b", "ftp://u:secret@h,b"] {
            let error = parse(urls, &settings).map(|_| ()).map_err(|error| error.to_string());
            assert!(matches!(&error, Err(text) if !text.contains("secret")), "{error:?}");
        }
    }

    #[test]
    fn a_cluster_has_hosts_and_one_user() {
        let settings = |prefix: &str| NodeSettings {
            prefix: prefix.to_owned(),
            instance: String::new(),
            foreign_clients: true,
            allow_eviction: false,
        };
        let known = |url: &str, prefix: &str| parse(url, &settings(prefix)).is_ok();
        for url in ["a", "a,b:7001", "user:pass@a:1,b:2/", "[::1]:7000,127.0.0.1:7001/0"] {
            assert!(known(&format!("redis+cluster://{url}"), "lock:"), "{url}");
        }
        for url in ["", "/", ",a", "a,", "a:port", "a/1", "u:p@a,u:p@b"] {
            assert!(!known(&format!("redis+cluster://{url}"), "lock:"), "{url}");
        }
        assert!(known("redis+cluster://a", "{shop}:") && !known("redis+cluster://a", "{shop"));
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
