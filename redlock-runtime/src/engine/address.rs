//! Addresses: what a URL says about where the lock lives.

use redis::IntoConnectionInfo;

use super::link::Node;
use super::node::{NodeSettings, RedisNode};
use super::tls::Tls;
use crate::error::LockError;
use crate::memory::MemoryNode;

/// One address, or several with commas between them.
pub(crate) fn parse(urls: &str, settings: &NodeSettings) -> Result<Node, LockError> {
    match split(urls).as_slice() {
        [url] => node(url, settings),
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
    let refused =
        |reason: &str| LockError::InvalidUrl { url: without_credentials(url).into(), reason: reason.into() };
    if let Some(name) = url.strip_prefix("memory://") {
        return Ok(Node::Memory(MemoryNode::named(name)));
    }
    if let Some(reason) = not_supported(url) {
        return Err(refused(reason));
    }
    let (encrypted, plain_url) = match url.split_once("://") {
        Some((scheme, rest)) if ENCRYPTED.contains(&scheme) => (true, format!("redis://{rest}")),
        _ => (false, url.to_owned()),
    };
    if encrypted && url.contains('#') {
        return Err(refused("certificates are always checked: `tls_ca` names an authority of your own"));
    }
    let info = plain_url.into_connection_info().map_err(|_| refused("it is not like redis://host:6379/"))?;
    let node = RedisNode::new(info, settings);
    let node = match encrypted {
        true => node.encrypted(Tls::new(&settings.tls).map_err(|reason| refused(&reason))?),
        false if settings.tls.is_set() => {
            return Err(refused(
                "`tls_ca` and `tls_client` are for rediss://: this address is not encrypted",
            ));
        }
        false => node,
    };
    Ok(Node::Redis(Box::new(node)))
}

/// The same as `redis`, with TLS.
const ENCRYPTED: [&str; 2] = ["rediss", "valkeys"];

/// What is wrong with an address that other tools may understand.
fn not_supported(url: &str) -> Option<&'static str> {
    match url.split_once("://").unwrap_or_default().0 {
        "redis" | "redis+unix" | "unix" | "valkey" | "valkey+unix" => None,
        scheme if ENCRYPTED.contains(&scheme) => None,
        "redis+sentinel" | "redis+cluster" => Some("Sentinel and Cluster are not supported yet"),
        _ => Some("it starts with none of redis://, rediss://, redis+unix:// and memory://"),
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
            tls: crate::engine::TlsSettings::default(),
        };
        for urls in ["redis://u:secret@[bad", "redis://u:secret@a,redis://b", "ftp://u:secret@h,b"] {
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
