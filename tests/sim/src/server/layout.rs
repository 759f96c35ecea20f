//! Which node of a Cluster has which slots.

use std::ops::RangeInclusive;

use super::slots::SLOTS;

/// A node, as the others know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its name for life, of 40 characters.
    pub id: String,
    /// Where clients reach it: it finds itself in a [`Layout`] by this.
    pub host: String,
    /// As `host`.
    pub port: u16,
}

impl Node {
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// A primary, and the replicas that may succeed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shard {
    /// It serves the slots.
    pub primary: Node,
    /// They have copies.
    pub replicas: Vec<Node>,
}

/// What one node, or all, take for true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    shards: Vec<Shard>,
    /// The number of the shard that owns each slot.
    owners: Vec<Option<usize>>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { shards: Vec::new(), owners: vec![None; usize::from(SLOTS)] }
    }
}

impl Layout {
    /// The slots are shared out in ranges of the same size.
    #[must_use]
    pub fn even(shards: Vec<Shard>) -> Self {
        let (all, count) = (usize::from(SLOTS), shards.len());
        let owners = (0..all).map(|slot| (count > 0).then(|| slot * count / all)).collect();
        Self { shards, owners }
    }

    /// Slots move to another shard, or to none.
    pub fn assign(&mut self, slots: RangeInclusive<u16>, shard: Option<usize>) {
        for slot in slots {
            if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
                *owner = shard;
            }
        }
    }

    /// A replica becomes the primary, and the primary its replica.
    pub fn promote(&mut self, shard: usize, replica: usize) {
        if let Some(shard) = self.shards.get_mut(shard)
            && let Some(replica) = shard.replicas.get_mut(replica)
        {
            std::mem::swap(&mut shard.primary, replica);
        }
    }

    /// In their order.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard that serves a slot.
    #[must_use]
    pub fn shard_of(&self, slot: u16) -> Option<&Shard> {
        self.shards.get((*self.owners.get(usize::from(slot))?)?)
    }

    /// The ranges of slots, each with its shard, in their order.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u16, u16, &Shard)> {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for (slot, owner) in (0..SLOTS).zip(&self.owners) {
            match (owner, ranges.last_mut()) {
                (Some(owner), Some((_, last, before))) if *before == *owner && *last + 1 == slot => {
                    *last = slot;
                }
                (Some(owner), _) => ranges.push((slot, slot, *owner)),
                (None, _) => {}
            }
        }
        let shard = |(first, last, owner)| Some((first, last, self.shards.get(owner)?));
        ranges.into_iter().filter_map(shard).collect()
    }
}
