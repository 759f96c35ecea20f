//! Learns from the nodes of a Cluster which of them has which slots.

use std::sync::Arc;
use std::time::Duration;

use super::{NodeSettings, RedisNode};
use crate::base::host::HashSet;
use crate::engine::protocol::Disconnected;
use crate::engine::redis::connect::server_address::{LONGEST_HOST, Place, ServerAddress};
use crate::engine::redis::connect::tls::Tls;
use crate::engine::redis::wire::hedged;
use crate::engine::redis::wire::value::Value;
use crate::engine::redis::wire::value::text;
use crate::engine::slots::{Slot, Slots};

/// The primaries that a node may name: to each, there is a connection.
pub(crate) const MOST_PRIMARIES: usize = 512;

/// All nodes that a node may name, with the replicas: each may be asked for the slots.
const MOST_NODES: usize = 2048;

/// Some nodes of a Cluster, and the settings for all nodes.
#[derive(Clone)]
pub(crate) struct ClusterNodes {
    seeds: Vec<ServerAddress>,
    settings: NodeSettings,
    tls: Option<Tls>,
}

/// The map from slots to nodes, as one of the nodes sees it.
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
    ) -> Result<Self, &'static str> {
        let seeds = seeds.into_iter().map(|url| ServerAddress::read(&url)).collect::<Result<_, _>>()?;
        Ok(Self { seeds, settings, tls })
    }

    /// A user that cannot log in.
    pub(crate) fn lack_a_password(&self) -> bool {
        self.seeds.iter().any(ServerAddress::lacks_a_password)
    }

    /// The node at `host:port`, with the user and password of the seeds.
    pub(crate) fn node_at(&self, address: &str, slots: Option<(Slot, Slot)>) -> Option<RedisNode> {
        let (host, port) = address.rsplit_once(':').filter(|(host, _)| host.len() <= LONGEST_HOST)?;
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
    let refused = |words: &str| {
        let reason = format!("Redis at {} reports {words}", node.place());
        Disconnected { reason: reason.into(), is_permanent: false }
    };
    let layout = read(&answer, node.host()).map_err(|words| refused(&words))?;
    if layout.ranges.is_empty() {
        return Err(refused("that no node of the Cluster has a slot"));
    }
    Ok(layout)
}

/// Reads the answer to `CLUSTER SLOTS`. Ranges that cannot be read are skipped: a slot without a
/// node is asked for again. A map that no Cluster has is refused, in words that go on behind
/// "reports".
fn read(answer: &Value, host_asked: &str) -> Result<Layout, String> {
    let mut layout = Layout { ranges: Vec::new(), replicas: Vec::new() };
    let Value::Array(ranges) = answer else {
        return Ok(layout);
    };
    let (mut slots, mut primaries, mut nodes) = (Slots::none(), HashSet::default(), HashSet::default());
    for range in ranges {
        if let Value::Array(parts) = range
            && let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = parts.as_slice()
            && let (Some(first), Some(last)) = (slot(*first), slot(*last))
        {
            // Each slot once: so there are no more ranges than slots.
            for slot in first.to(last) {
                if slots.contains(slot) {
                    return Err(format!("slot {} of the Cluster twice", slot.index()));
                }
                slots.insert(slot);
            }
            if let Some(address) = address(primary, host_asked) {
                primaries.insert(Arc::clone(&address));
                if primaries.len() > MOST_PRIMARIES {
                    return Err(format!("more than {MOST_PRIMARIES} primaries, which are too many"));
                }
                nodes.insert(Arc::clone(&address));
                layout.ranges.push((first, last, address));
            }
            for replica in replicas.iter().filter_map(|replica| address(replica, host_asked)) {
                // Each range of a primary names its replicas.
                if nodes.insert(Arc::clone(&replica)) {
                    layout.replicas.push(replica);
                }
                if nodes.len() > MOST_NODES {
                    return Err(format!("more than {MOST_NODES} nodes of the Cluster, which are too many"));
                }
            }
        }
    }
    Ok(layout)
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
    if host.len() > LONGEST_HOST {
        return None;
    }
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
            let layout = layout(&Value::Array(vec![answer]));
            assert_eq!(layout.ranges.first().map(|(_, _, address)| &**address), expected);
        }
        assert!(layout(&Value::Nil).ranges.is_empty());
    }

    fn layout(answer: &Value) -> Layout {
        read(answer, "seed").unwrap_or_else(|_| unreachable!("it is a map"))
    }

    fn node(name: usize) -> Value {
        Value::Array(vec![bulk(&format!("10.0.{}.{}", name / 250, name % 250)), Value::Int(7001), bulk("id")])
    }

    fn range(first: usize, last: usize, nodes: impl Iterator<Item = usize>) -> Value {
        let slots = [first, last].map(|slot| Value::Int(slot.try_into().unwrap_or(0)));
        Value::Array(slots.into_iter().chain(nodes.map(node)).collect())
    }

    #[test]
    fn a_map_that_no_cluster_has_is_refused() {
        let read = |ranges: Vec<Value>| read(&Value::Array(ranges), "seed").map(|layout| layout.ranges.len());
        let each_slot =
            |primaries: usize| (0..16_384).map(move |at| range(at, at, [at % primaries].into_iter()));
        assert_eq!(read(each_slot(MOST_PRIMARIES).collect()), Ok(16_384));
        let words = Err("more than 512 primaries, which are too many".to_owned());
        assert_eq!(read(each_slot(MOST_PRIMARIES + 1).collect()), words);
        let replicas = |count| vec![range(0, 16_383, 0..=count)];
        assert_eq!(read(replicas(MOST_NODES - 1)), Ok(1));
        let words = Err("more than 2048 nodes of the Cluster, which are too many".to_owned());
        assert_eq!(read(replicas(MOST_NODES)), words);
        let twice = [(0, 99), (200, 299), (99, 100)].map(|(first, last)| range(first, last, 0..1));
        assert_eq!(read(twice.into()), Err("slot 99 of the Cluster twice".to_owned()));
    }

    #[test]
    fn a_replica_that_is_named_with_each_range_is_asked_once() {
        let ranges = (0..1000).map(|at| range(at, at, [0, 1, 2].into_iter())).collect();
        let layout = layout(&Value::Array(ranges));
        assert_eq!((layout.ranges.len(), layout.replicas.len()), (1000, 2));
    }

    #[test]
    fn a_host_that_is_longer_than_any_name_is_none() {
        let node = |length| Value::Array(vec![bulk(&"h".repeat(length)), Value::Int(7001)]);
        assert!(address(&node(LONGEST_HOST), "seed").is_some());
        assert!(address(&node(LONGEST_HOST + 1), "seed").is_none());
    }
}
