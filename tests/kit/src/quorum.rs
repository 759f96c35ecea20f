//! Several independent servers.

use redlocked::{LockManager, LockManagerBuilder};

use crate::{LIMIT, RedisServer, eventually};

/// The nodes of a Redlock quorum.
pub struct Quorum {
    /// In the order of the URLs.
    pub servers: Vec<RedisServer>,
}

impl Quorum {
    /// All answered writes survive a restart, so each node votes at once.
    pub fn durable(nodes: usize) -> Self {
        Self { servers: (0..nodes).map(|_| RedisServer::durable()).collect() }
    }

    /// A restart forgets everything; a node votes once it has been up for the longest ttl.
    pub fn forgetful(nodes: usize) -> Self {
        Self { servers: (0..nodes).map(|_| RedisServer::start()).collect() }
    }

    /// A manager of all nodes, not connected yet. It gives slow nodes as long as its `io_timeout`: on a
    /// busy machine, nodes that are well may need longer than the usual `node_timeout`.
    pub fn builder(&self) -> LockManagerBuilder {
        let mut urls = self.servers.iter().map(RedisServer::url);
        let first = LockManager::builder(urls.next().unwrap()).node_timeout(LIMIT);
        urls.fold(first, LockManagerBuilder::node)
    }

    /// A connected manager of all nodes.
    pub fn manager(&self) -> LockManager {
        self.builder().connect_blocking().unwrap()
    }

    /// On how many of the nodes that are up the key exists.
    pub fn copies(&self, name: &str) -> usize {
        self.servers
            .iter()
            .filter(|server| server.is_running() && server.run::<i32>(&format!("EXISTS {name}")) == 1)
            .count()
    }

    /// Waits until no node has a key.
    pub fn assert_nothing_left(&self) {
        for server in &self.servers {
            eventually("no key is left", || server.keys().is_empty());
        }
    }
}
