//! A node of a Cluster: which commands it executes, and where it sends the others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Server;
use super::client::Client;
use super::errors::Refusal;
use super::flags::Flags;
use super::layout::{Layout, Node, Shard};
use super::resp::Bytes;
use super::slots::{SLOTS, slot_of};
use super::state::State;
use super::store::{Database, Value};
use super::version::Version;

/// What a node knows of its Cluster.
#[derive(Clone, Default, Debug)]
pub(super) struct ClusterView {
    pub(super) layout: Rc<Layout>,
    /// Slots on their way to another node.
    migrating: BTreeMap<u16, Node>,
    /// Slots on their way to this node.
    importing: BTreeSet<u16>,
    /// `CLUSTERDOWN`.
    is_down: bool,
}

/// A key on its way to another node.
#[derive(Clone, Debug)]
pub struct MovedKey {
    value: Value,
    /// In milliseconds: the nodes' clocks may differ.
    ttl: Option<u64>,
}

/// Why a node of a Cluster does not execute a command.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Misrouted {
    CrossSlot { command: &'static str },
    NotServed,
    Down,
    Moved { slot: u16, to: String },
    Ask { slot: u16, to: String },
    TryAgain,
}

impl Misrouted {
    pub(super) fn words(&self) -> String {
        match self {
            Self::CrossSlot { .. } => "CROSSSLOT Keys in request don't hash to the same slot".to_owned(),
            Self::NotServed => "CLUSTERDOWN Hash slot not served".to_owned(),
            Self::Down => "CLUSTERDOWN The cluster is down".to_owned(),
            Self::Moved { slot, to } => format!("MOVED {slot} {to}"),
            Self::Ask { slot, to } => format!("ASK {slot} {to}"),
            Self::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
        }
    }

    /// In the middle of a script, without a code.
    pub(super) fn words_in_script(&self, version: Version) -> String {
        match (self, version) {
            (_, Version::Redis5 | Version::Redis62) => {
                "Lua script attempted to access a non local key in a cluster node".to_owned()
            }
            (_, Version::Valkey9) => "Attempted to access a non local key in a cluster node".to_owned(),
            (Self::NotServed, _) if version.is_72_or_later() => {
                "Script attempted to access a slot not served".to_owned()
            }
            (Self::CrossSlot { command }, _) if version.is_72_or_later() => {
                format!(
                    "Command '{command}' in script attempted to access keys that don't hash to the same slot"
                )
            }
            (Self::Down, _) => "Script attempted to execute a command while the cluster is down".to_owned(),
            _ => "Script attempted to access a non local key in a cluster node".to_owned(),
        }
    }
}

impl State {
    /// This node's name for life, as the layout has it.
    pub(super) fn node_id(&self) -> String {
        let shards = self.cluster.layout.shards().iter();
        let mut nodes = shards.flat_map(|shard| [&shard.primary].into_iter().chain(&shard.replicas));
        nodes.find(|node| self.is_me(node)).map_or_else(|| "0".repeat(40), |node| node.id.clone())
    }

    fn is_me(&self, node: &Node) -> bool {
        (&*node.host, node.port) == (&*self.settings.host, self.settings.port)
    }

    fn serves(&self, slot: u16) -> bool {
        self.cluster.layout.shard_of(slot).is_some_and(|shard| self.is_me(&shard.primary))
    }

    fn is_replica_in(&self, shard: &Shard) -> bool {
        shard.replicas.iter().any(|replica| self.is_me(replica))
    }

    /// `keys`: the keys of the command, or its sharded channels.
    pub(super) fn route(
        &mut self,
        client: RouteOf,
        command: &'static str,
        flags: Flags,
        keys: &[Bytes],
        are_channels: bool,
    ) -> Result<(), Misrouted> {
        let Some(first) = keys.first() else {
            return Ok(());
        };
        let slot = slot_of(first);
        let Some(shard) = self.cluster.layout.shard_of(slot).cloned() else {
            return Err(Misrouted::NotServed);
        };
        if keys.iter().any(|key| slot_of(key) != slot) {
            return Err(Misrouted::CrossSlot { command });
        }
        if self.cluster.is_down && !are_channels {
            return Err(Misrouted::Down);
        }
        let is_mine = self.is_me(&shard.primary);
        let migrating = self.cluster.migrating.get(&slot).filter(|_| is_mine).map(Node::address);
        let is_importing = self.cluster.importing.contains(&slot);
        let may_be_missing = (migrating.is_some() || is_importing) && !are_channels;
        let missing = keys.iter().filter(|key| may_be_missing && self.get(0, key).is_none()).count();
        if let Some(to) = migrating.filter(|_| missing > 0) {
            let has_some = missing < keys.len() && self.version.is_7_or_later();
            return Err(if has_some { Misrouted::TryAgain } else { Misrouted::Ask { slot, to } });
        }
        if is_importing && client.asking {
            let are_several = keys.iter().any(|key| key != first);
            return if are_several && missing > 0 { Err(Misrouted::TryAgain) } else { Ok(()) };
        }
        let reads_here = (client.reads_replicas || are_channels) && !flags.is(Flags::WRITES);
        if is_mine || reads_here && self.is_replica_in(&shard) {
            return Ok(());
        }
        Err(Misrouted::Moved { slot, to: shard.primary.address() })
    }

    /// The channels of slots that have another owner now have no listeners. Up to Redis 7.0, that
    /// is so for the nodes of the owner before.
    fn end_moved_channels(&mut self, before: &Layout) {
        let (layout, always) = (Rc::clone(&self.cluster.layout), self.version.is_72_or_later());
        let has_moved = |slot: u16| {
            let (then, now) = (before.shard_of(slot), layout.shard_of(slot));
            then.is_some_and(|then| now.is_none_or(|now| now.primary.id != then.primary.id))
        };
        let was_mine = |slot: u16| {
            before.shard_of(slot).is_some_and(|then| self.is_me(&then.primary) || self.is_replica_in(then))
        };
        let moved: BTreeSet<u16> =
            (0..SLOTS).filter(|slot| has_moved(*slot) && (always || was_mine(*slot))).collect();
        self.end_sharded(|channel| moved.contains(&slot_of(channel)));
    }

    /// Keys of slots that another node serves now.
    fn delete_keys_elsewhere(&mut self) {
        let keys = self.databases.first().into_iter().flat_map(Database::iter).map(|(key, _)| key);
        let is_elsewhere = |slot| !self.serves(slot) && !self.cluster.importing.contains(&slot);
        let gone: Vec<Bytes> = keys.filter(|key| is_elsewhere(slot_of(key))).map(<[u8]>::to_vec).collect();
        for key in gone {
            self.remove(0, &key);
        }
    }
}

/// What of a client decides where its command goes.
#[derive(Clone, Copy)]
pub(super) struct RouteOf {
    asking: bool,
    reads_replicas: bool,
}

impl From<&Client> for RouteOf {
    fn from(client: &Client) -> Self {
        Self { asking: client.asking, reads_replicas: client.reads_replicas }
    }
}

impl From<Misrouted> for Refusal {
    fn from(misrouted: Misrouted) -> Self {
        Self::Misrouted(misrouted)
    }
}

/// Hands of a test. The settings of the server must say that it is part of a Cluster.
impl Server {
    /// From now on the node takes this for true. Slots that it has lost: keys that are left in them
    /// are deleted, and the listeners of their channels get a message.
    pub fn set_layout(&mut self, now: u64, layout: &Rc<Layout>) {
        self.state.now = now;
        let state = &mut self.state;
        let before = std::mem::replace(&mut state.cluster.layout, Rc::clone(layout));
        let mut migrating = std::mem::take(&mut state.cluster.migrating);
        migrating.retain(|slot, _| state.serves(*slot));
        let mut importing = std::mem::take(&mut state.cluster.importing);
        importing.retain(|slot| !state.serves(*slot));
        (state.cluster.migrating, state.cluster.importing) = (migrating, importing);
        state.end_moved_channels(&before);
        if state.is_primary() {
            state.delete_keys_elsewhere();
        }
    }

    /// What it takes for true.
    #[must_use]
    pub fn layout(&self) -> &Rc<Layout> {
        &self.state.cluster.layout
    }

    /// `CLUSTER SETSLOT slot MIGRATING`, or `STABLE`.
    pub fn set_migrating(&mut self, slot: u16, to: Option<Node>) {
        match to {
            Some(to) => self.state.cluster.migrating.insert(slot, to),
            None => self.state.cluster.migrating.remove(&slot),
        };
    }

    /// `CLUSTER SETSLOT slot IMPORTING`, or `STABLE`.
    pub fn set_importing(&mut self, slot: u16, is_importing: bool) {
        if is_importing {
            self.state.cluster.importing.insert(slot);
        } else {
            self.state.cluster.importing.remove(&slot);
        }
    }

    /// Too few primaries see each other: `CLUSTERDOWN`.
    pub fn set_cluster_down(&mut self, is_down: bool) {
        self.state.cluster.is_down = is_down;
    }

    /// The keys of a slot, also those that have expired.
    #[must_use]
    pub fn keys_in_slot(&self, slot: u16) -> Vec<Bytes> {
        let keys = self.state.databases.first().into_iter().flat_map(Database::iter);
        keys.filter(|(key, _)| slot_of(key) == slot).map(|(key, _)| key.to_vec()).collect()
    }

    /// `MIGRATE`, first half: the key leaves this node.
    pub fn take_key(&mut self, now: u64, key: &[u8]) -> Option<MovedKey> {
        self.state.now = now;
        let now_ms = self.state.now_ms();
        let entry = self.state.get(0, key)?;
        let ttl = entry.expires.map(|expires| expires.saturating_sub(now_ms).max(1));
        let moved = MovedKey { value: entry.value.clone(), ttl };
        self.state.remove(0, key);
        Some(moved)
    }

    /// `MIGRATE`, second half: the key arrives.
    pub fn put_key(&mut self, now: u64, key: &[u8], moved: MovedKey) {
        self.state.now = now;
        let expires = moved.ttl.map(|ttl| self.state.now_ms() + ttl);
        self.state.put(0, key, moved.value, expires);
    }

    /// What was published to plain channels here since the last call, and goes to all other nodes.
    pub fn take_broadcasts(&mut self) -> Vec<(Bytes, Bytes)> {
        std::mem::take(&mut self.state.broadcasts)
    }

    /// What was published on another node arrives.
    pub fn deliver(&mut self, now: u64, channel: &[u8], message: &[u8]) {
        self.state.now = now;
        self.state.publish(channel, message);
    }
}
