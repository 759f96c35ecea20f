//! The settings with which a server starts.

/// How a server is called, where it is, and what it is allowed to forget.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// As `INFO server` reports it: another one after each start.
    pub run_id: String,
    /// As other servers, clients and sentinels reach it.
    pub host: String,
    /// As `host`.
    pub port: u16,
    /// When it started, in microseconds since 1970 by its own clock.
    pub started: u64,
    /// More are refused.
    pub max_clients: usize,
    /// The password of the user `default`.
    pub password: Option<String>,
    /// `maxmemory`, for `INFO memory`: nothing is evicted by itself.
    pub max_memory: u64,
    /// `maxmemory-policy`.
    pub eviction: String,
    /// `appendonly yes`, `appendfsync always`.
    pub durable: bool,
    /// `min-replicas-to-write`.
    pub replicas_to_write: usize,
    /// It is part of a Cluster.
    pub cluster: bool,
    /// It is a sentinel.
    pub sentinel: bool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            run_id: "0".repeat(40),
            host: "127.0.0.1".to_owned(),
            port: 6379,
            started: 0,
            max_clients: 10_000,
            password: None,
            max_memory: 0,
            eviction: "noeviction".to_owned(),
            durable: false,
            replicas_to_write: 0,
            cluster: false,
            sentinel: false,
        }
    }
}

impl ServerSettings {
    /// As `INFO` and `HELLO` name it.
    pub(super) fn mode(&self) -> &'static str {
        match (self.sentinel, self.cluster) {
            (true, _) => "sentinel",
            (false, true) => "cluster",
            (false, false) => "standalone",
        }
    }
}
