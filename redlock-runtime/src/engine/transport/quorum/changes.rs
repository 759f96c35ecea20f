//! Which nodes have told that a lock changed: the lock itself has changed once no quorum may be
//! left that holds it.

use std::sync::Arc;

use crate::ground::host::HashMap;
use foldhash::HashMapExt;

/// Each node has a bit.
type Nodes = u64;

pub(crate) const MOST_NODES: usize = Nodes::BITS as usize;

/// Locks that are remembered at most. A change that is forgotten delays a waiter, which asks again
/// from time to time.
pub(super) const MOST_CHANGES: usize = 10_000;

pub(super) struct Changes {
    /// How many nodes must tell.
    needed: usize,
    told: HashMap<Arc<str>, Nodes>,
}

impl Changes {
    pub(super) fn new(needed: usize) -> Self {
        Self { needed, told: HashMap::new() }
    }

    pub(super) fn forget(&mut self, name: &Arc<str>) {
        self.told.remove(name);
    }

    /// Of the locks that a node says have changed, those that have.
    pub(super) fn learn(&mut self, node: usize, names: Vec<Arc<str>>) -> Vec<Arc<str>> {
        let mut changed = Vec::new();
        for name in names {
            if self.told.len() >= MOST_CHANGES {
                self.told.clear();
            }
            let told = self.told.entry(Arc::clone(&name)).or_default();
            *told |= 1 << node;
            if told.count_ones() as usize >= self.needed {
                self.told.remove(&name);
                changed.push(name);
            }
        }
        changed
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.told.len()
    }
}
