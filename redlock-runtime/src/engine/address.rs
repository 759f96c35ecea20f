//! Addresses: what a URL says about where the lock lives.

use redis::IntoConnectionInfo;

use super::link::Node;
use super::node::{NodeSettings, RedisNode};
use super::quorum::MOST_NODES;
use crate::error::LockError;
use crate::memory::MemoryNode;

/// One address, or several with commas between them.
pub(crate) fn parse(urls: &str, settings: &NodeSettings) -> Result<Vec<Node>, LockError> {
    let urls = split(urls);
    let refused = |url: &str, reason: String| {
        Err(LockError::InvalidUrl { url: without_credentials(url).into(), reason: reason.into() })
    };
    if urls.len() > MOST_NODES {
        return refused("", format!("{} servers are too many; a quorum of five is plenty", urls.len()));
    }
    for (at, url) in urls.iter().enumerate() {
        if urls[..at].contains(url) {
            return refused(url, "it stands there twice; a server has one vote".to_owned());
        }
    }
    urls.iter().map(|url| node(url, settings)).collect()
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
    let refused =
        |reason: &str| LockError::InvalidUrl { url: without_credentials(url).into(), reason: reason.into() };
    if let Some(name) = url.strip_prefix("memory://") {
        return Ok(Node::Memory(MemoryNode::named(name)));
    }
    if let Some(reason) = not_supported(url) {
        return Err(refused(reason));
    }
    let info = url.into_connection_info().map_err(|_| refused("it is not like redis://host:6379/"))?;
    Ok(Node::Redis(Box::new(RedisNode::new(info, settings))))
}

/// What is wrong with an address that other tools may understand.
fn not_supported(url: &str) -> Option<&'static str> {
    match url.split_once("://").unwrap_or_default().0 {
        "redis" | "redis+unix" | "unix" | "valkey" | "valkey+unix" => None,
        "rediss" | "valkeys" => Some("TLS is not supported yet"),
        "redis+sentinel" | "redis+cluster" => Some("Sentinel and Cluster are not supported yet"),
        _ => Some("it starts with none of redis://, redis+unix:// and memory://"),
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
        for urls in ["redis://u:secret@[bad", "redis://u:secret@a,redis://u:secret@a", "ftp://u:secret@h,b"] {
            let error = parse(urls, &settings).map(|_| ()).map_err(|error| error.to_string());
            assert!(matches!(&error, Err(text) if !text.contains("secret")), "{error:?}");
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
