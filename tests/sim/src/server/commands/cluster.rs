//! What a node of a Cluster tells of it.

use super::super::errors::ErrorReply;
use super::super::layout::{Node, Shard};
use super::super::resp::{OK, Reply};
use super::super::slots::slot_of;
use super::{Answer, Call};

fn needs_cluster(call: &Call<'_>) -> Result<(), ErrorReply> {
    if call.state.settings.cluster {
        Ok(())
    } else {
        Err("ERR This instance has cluster support disabled".into())
    }
}

pub(super) fn asking(call: &mut Call<'_>) -> Answer {
    needs_cluster(call)?;
    call.me()?.asking = true;
    Ok(OK)
}

pub(super) fn readonly(call: &mut Call<'_>) -> Answer {
    read_replicas(call, true)
}

pub(super) fn readwrite(call: &mut Call<'_>) -> Answer {
    read_replicas(call, false)
}

/// Valkey knows this outside of a Cluster, too.
fn read_replicas(call: &mut Call<'_>, reads: bool) -> Answer {
    if !call.version().is_valkey() {
        needs_cluster(call)?;
    }
    call.me()?.reads_replicas = reads;
    Ok(OK)
}

/// `CLUSTER SLOTS | KEYSLOT | MYID | COUNTKEYSINSLOT`
pub(super) fn cluster(call: &mut Call<'_>) -> Answer {
    needs_cluster(call)?;
    let with_names = call.version().is_7_or_later();
    match (&*call.keyword(1), &call.words[2..]) {
        ("SLOTS", []) => {
            let ranges = call.state.cluster.layout.ranges();
            Ok(Reply::Array(
                ranges
                    .into_iter()
                    .map(|(first, last, shard)| range(first, last, shard, with_names))
                    .collect(),
            ))
        }
        ("KEYSLOT", [key]) => Ok(Reply::Integer(slot_of(key).into())),
        ("MYID", []) => Ok(Reply::text(&call.state.node_id())),
        ("SLOTS" | "KEYSLOT" | "MYID", _) => Err(call.wrong_number_of_arguments("CLUSTER")),
        _ => Err(call.unknown_subcommand("CLUSTER")),
    }
}

fn range(first: u16, last: u16, shard: &Shard, with_names: bool) -> Reply {
    let node = |node: &Node| {
        let mut parts =
            vec![Reply::text(&node.host), Reply::Integer(node.port.into()), Reply::text(&node.id)];
        // Other names of the node, of which it has none.
        parts.extend(with_names.then(|| Reply::Map(Vec::new())));
        Reply::Array(parts)
    };
    let mut parts = vec![Reply::Integer(first.into()), Reply::Integer(last.into()), node(&shard.primary)];
    parts.extend(shard.replicas.iter().map(node));
    Reply::Array(parts)
}
