//! Learns from the nodes of a Cluster which of them has which slots.

use std::sync::Arc;
use std::time::Duration;

use super::decode::text;
use super::hedged;
use super::node::{NodeSettings, RedisNode};
use super::server_address::{Place, ServerAddress};
use super::tls::Tls;
use super::value::Value;
use crate::engine::protocol::Disconnected;
use crate::engine::slots::Slot;

/// Some nodes of a Cluster, and the settings for all nodes.
#[derive(Clone)]
pub(crate) struct ClusterNodes {
    seeds: Vec<ServerAddress>,
    settings: NodeSettings,
    tls: Option<Tls>,
}

/// Which node has which slots, as one of them sees it.
pub(crate) struct Layout {
    /// From, to, and the primary.
    pub(crate) ranges: Vec<(Slot, Slot, Arc<str>)>,
    /// Replicas: they answer, too.
    pub(crate) replicas: Vec<Arc<str>>,
}

impl ClusterNodes {
    /// `None` when a seed is not like `redis://host:6379/`.
    pub(crate) fn new(
        seeds: impl IntoIterator<Item = String>,
        settings: NodeSettings,
        tls: Option<Tls>,
    ) -> Option<Self> {
        let seeds = seeds.into_iter().map(|url| ServerAddress::read(&url)).collect::<Option<_>>()?;
        Some(Self { seeds, settings, tls })
    }

    /// The node at `host:port`, with the user and password of the seeds.
    pub(crate) fn node_at(&self, address: &str, slots: Option<(Slot, Slot)>) -> Option<RedisNode> {
        let (host, port) = address.rsplit_once(':')?;
        let (host, port) = (host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?);
        let place = Place::Tcp(host, port);
        let is_announced = self.seeds.iter().all(|seed| seed.place != place);
        let node = self.node(self.seeds.first()?.clone().at(place), slots);
        Some(if is_announced { node.announced() } else { node })
    }

    /// With the settings of the seeds.
    fn node(&self, address: ServerAddress, slots: Option<(Slot, Slot)>) -> RedisNode {
        let node = RedisNode::in_a_cluster(address, &self.settings, slots);
        node.encrypted(self.tls.clone())
    }

    /// Asks one node after the other: first those at the `known` addresses, then the seeds.
    pub(crate) fn learn(
        &self,
        known: &[Arc<str>],
        timeout: Duration,
    ) -> impl Future<Output = Result<Layout, Disconnected>> + Send + use<> {
        let known = known.iter().filter_map(|address| self.node_at(address, None));
        let seeds = self.seeds.iter().map(|seed| self.node(seed.clone(), None));
        let nodes: Vec<RedisNode> = known.chain(seeds).collect();
        async move {
            let calls = nodes.into_iter().map(|node| async move { ask(&node, timeout).await });
            hedged::first(calls).await.map_err(|troubles| {
                // A permanent error says more than a node that is down.
                let telling = troubles.iter().position(|trouble| trouble.is_permanent);
                troubles.into_iter().nth(telling.unwrap_or(0)).unwrap_or_else(|| Disconnected {
                    reason: "no node of the Cluster is known".into(),
                    is_permanent: false,
                })
            })
        }
    }
}

async fn ask(node: &RedisNode, timeout: Duration) -> Result<Layout, Disconnected> {
    let answer = node.cluster_slots(timeout).await?;
    let layout = read(&answer, node.host());
    if layout.ranges.is_empty() {
        let reason = format!("Redis at {} reports that no node of the Cluster has a slot", node.place());
        return Err(Disconnected { reason: reason.into(), is_permanent: false });
    }
    Ok(layout)
}

/// Reads the answer to `CLUSTER SLOTS`. Ranges that cannot be read are skipped: a slot without a
/// node is asked for again.
fn read(answer: &Value, host_asked: &str) -> Layout {
    let mut layout = Layout { ranges: Vec::new(), replicas: Vec::new() };
    let Value::Array(ranges) = answer else {
        return layout;
    };
    for range in ranges {
        if let Value::Array(parts) = range
            && let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = parts.as_slice()
            && let (Some(first), Some(last)) = (slot(*first), slot(*last))
        {
            if let Some(address) = address(primary, host_asked) {
                layout.ranges.push((first, last, address));
            }
            layout.replicas.extend(replicas.iter().filter_map(|replica| address(replica, host_asked)));
        }
    }
    layout
}

fn slot(number: i64) -> Option<Slot> {
    Slot::new(u16::try_from(number).ok()?)
}

/// A node without a host is at the host that was asked. A host name that is not known yet comes
/// with an IP address.
fn address(node: &Value, host_asked: &str) -> Option<Arc<str>> {
    let Value::Array(node) = node else {
        return None;
    };
    let [host, Value::Int(port), rest @ ..] = node.as_slice() else {
        return None;
    };
    let host = match text(host) {
        None | Some("") => host_asked,
        Some("?") => match rest {
            [_, Value::Array(more), ..] => more
                .chunks_exact(2)
                .find(|pair| text(&pair[0]) == Some("ip"))
                .and_then(|pair| text(&pair[1]))?,
            _ => return None,
        },
        Some(host) => host,
    };
    Some(format!("{host}:{port}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_node_is_found_however_the_cluster_names_it() {
        let range = |host: Value, more: Value| {
            let node = Value::Array(vec![host, Value::Int(7001), bulk("id"), more]);
            Value::Array(vec![Value::Int(0), Value::Int(16_383), node])
        };
        let nothing = || Value::Array(Vec::new());
        let ip = || Value::Array(vec![bulk("ip"), bulk("10.0.0.2")]);
        for (answer, expected) in [
            (range(bulk("10.0.0.1"), nothing()), Some("10.0.0.1:7001")),
            (range(bulk("a.example"), ip()), Some("a.example:7001")),
            (range(bulk(""), nothing()), Some("seed:7001")),
            (range(Value::Nil, nothing()), Some("seed:7001")),
            (range(bulk("?"), ip()), Some("10.0.0.2:7001")),
            (range(bulk("?"), nothing()), None),
        ] {
            let layout = read(&Value::Array(vec![answer]), "seed");
            assert_eq!(layout.ranges.first().map(|(_, _, address)| &**address), expected);
        }
        assert!(read(&Value::Nil, "seed").ranges.is_empty());
    }
}
