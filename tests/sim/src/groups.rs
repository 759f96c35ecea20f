//! Servers that belong together: a Cluster, and a primary with a replica behind a sentinel.

use std::cell::RefCell;
use std::rc::Rc;

use crate::callers::key;
use crate::faults::{Deeds, after, all_may_be_lost, at_once, disturb_all};
use crate::plan::Topology;
use crate::run::Fleet;
use crate::server::{Layout, Node, Role, Server, ServerSettings, Shard, Version, slot_of};
use crate::world::{ServerId, World};

/// As the sentinel calls the primary.
const NAME: &str = "main";

/// The server of a plan.
#[must_use]
pub fn host(number: usize) -> String {
    format!("server-{number}")
}

/// As [`host`].
#[must_use]
pub fn port(number: usize) -> u16 {
    7000 + u16::try_from(number).unwrap_or(0)
}

/// How a manager reaches the servers.
#[must_use]
pub fn url(topology: Topology) -> String {
    let places = |prefix: &str| -> Vec<_> {
        (0..topology.servers()).map(|number| format!("{prefix}{}:{}", host(number), port(number))).collect()
    };
    match topology {
        Topology::One(_) | Topology::Quorum(..) => places("redis://").join(","),
        Topology::Cluster(..) => format!("redis+cluster://{}", places("").join(",")),
        Topology::Sentinel(_) => format!("redis+sentinel://{}:{}/{NAME}", host(2), port(2)),
    }
}

/// Starts the servers of a plan.
#[must_use]
pub fn start(world: &World, topology: Topology) -> Vec<ServerId> {
    let start = |number: usize, version: Version| {
        let settings = ServerSettings {
            host: host(number),
            port: port(number),
            cluster: matches!(topology, Topology::Cluster(..)),
            sentinel: matches!((topology, number), (Topology::Sentinel(_), 2)),
            ..ServerSettings::default()
        };
        world.add_server(version, settings, i64::try_from(number).unwrap_or(0) * 300)
    };
    let servers: Vec<_> = (0..topology.servers()).map(|number| start(number, topology.version())).collect();
    match topology {
        Topology::One(_) | Topology::Quorum(..) => {}
        Topology::Cluster(..) => {
            let shards =
                (0..servers.len()).map(|number| Shard { primary: node(number), replicas: Vec::new() });
            let layout = Rc::new(Layout::even(shards.collect()));
            for server in &servers {
                world.with_server(*server, |server, now| server.set_layout(now, &layout));
            }
        }
        Topology::Sentinel(_) => {
            world.with_server(servers[1], |server, _| server.set_role(replica_of(0)));
            world.with_server(servers[2], |server, now| {
                server.set_primary(now, NAME, Some((&host(0), port(0))));
            });
        }
    }
    servers
}

fn node(number: usize) -> Node {
    Node { id: format!("{number:040}"), host: host(number), port: port(number) }
}

fn replica_of(number: usize) -> Role {
    Role::Replica { host: host(number), port: port(number), link_is_up: true, serves_stale_data: true }
}

/// The replica becomes the primary, or the slot of the first lock moves.
pub(crate) fn fail_over(to: usize, lag: u64) -> Deeds {
    let copy = Rc::new(RefCell::new(None));
    let kept = Rc::clone(&copy);
    let mut deeds = at_once(move |world, fleet| {
        if let Some(primary) = fleet.primary() {
            *kept.borrow_mut() = Some(world.with_server(primary, |server, _| server.data()));
        }
    });
    deeds.extend(after(lag, move |world, fleet| match fleet.topology {
        Topology::One(_) | Topology::Quorum(..) => {}
        Topology::Cluster(..) => move_slot(world, fleet, to),
        Topology::Sentinel(_) => {
            disturb_all(fleet);
            all_may_be_lost();
            let before = fleet.primary.get();
            let next = 1 - before;
            fleet.primary.set(next);
            let data = copy.borrow_mut().take().unwrap_or_default();
            world.with_server(fleet.servers[next], |server, now| {
                server.replace_data(now, data);
                server.set_role(Role::default());
            });
            world.with_server(fleet.servers[before], |server, now| {
                server.flush_all(now);
                server.set_role(replica_of(next));
                close_all(server);
            });
            let place = (host(next), port(next));
            world.with_server(fleet.servers[2], |server, now| {
                server.set_primary(now, NAME, Some((&place.0, place.1)));
            });
        }
    }));
    deeds
}

fn close_all(server: &mut Server) {
    for client in server.clients().collect::<Vec<_>>() {
        server.close(client);
    }
}

fn move_slot(world: &World, fleet: &Fleet, to: usize) {
    disturb_all(fleet);
    let slot = slot_of(format!("lock:{}", key(0)).as_bytes());
    let mut layout = world.with_server(fleet.servers[0], |server, _| Layout::clone(server.layout()));
    let Some(from) = layout.shard_of(slot).and_then(|shard| {
        fleet.servers.iter().enumerate().position(|(number, _)| port(number) == shard.primary.port)
    }) else {
        return;
    };
    layout.assign(slot..=slot, Some(to));
    let layout = Rc::new(layout);
    let moved = world.with_server(fleet.servers[from], |server, now| {
        let keys = server.keys_in_slot(slot);
        keys.into_iter()
            .filter_map(|key| Some((key.clone(), server.take_key(now, &key)?)))
            .collect::<Vec<_>>()
    });
    for server in &fleet.servers {
        world.with_server(*server, |server, now| server.set_layout(now, &layout));
    }
    world.with_server(fleet.servers[to], |server, now| {
        for (key, moved) in moved {
            server.put_key(now, &key, moved);
        }
    });
}
