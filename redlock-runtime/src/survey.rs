//! What there is on the server: the keys that have something on it, and its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::error::LockError;
use crate::base::key::{self, CLOCK, LEADER, ONCE, PERMITS, QUEUE, TICK, is_side_name};
use crate::block_on::block_on;
use crate::engine::protocol::Listed;
use crate::inspect::escape_pattern;
use crate::manager::LockManager;

/// The state of one key on the server: from [`LockManager::keys`] and
/// [`LockManager::keys_elsewhere`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::LockManager;
/// use redlocked::inspect::KeyInfo;
///
/// let locks = LockManager::connect("memory://key-info-example").await?;
/// let _guard = locks.lock("stock:42").acquire().await?;
/// let keys: Vec<KeyInfo> = locks.keys().await?;
/// assert!(keys[0].key() == "stock:42" && keys[0].is_locked() && !keys[0].has_waiters());
/// # Ok(())
/// # }
/// ```
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key beside that of the lock, which exists or not"
)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyInfo {
    key: String,
    is_locked: bool,
    has_waiters: bool,
    has_leader: bool,
    has_tick: bool,
    has_once_record: bool,
    has_central_limit: bool,
}

impl KeyInfo {
    fn new(key: &str) -> Self {
        let key = key.to_owned();
        Self {
            key,
            is_locked: false,
            has_waiters: false,
            has_leader: false,
            has_tick: false,
            has_once_record: false,
            has_central_limit: false,
        }
    }

    /// The key, without the prefix; from [`keys_elsewhere`](LockManager::keys_elsewhere) with it.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// True when something has the name of the lock: the lock is held, or another program has
    /// stored data there, which [`inspect`](LockManager::inspect) refuses.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// True when callers wait in the queue of the lock.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.has_waiters
    }

    /// True when a leader has announced itself: [`Election::leader`](crate::Election::leader)
    /// returns it.
    #[must_use]
    pub fn has_leader(&self) -> bool {
        self.has_leader
    }

    /// True when a tick is recorded: [`last_tick`](LockManager::last_tick) returns it.
    #[must_use]
    pub fn has_tick(&self) -> bool {
        self.has_tick
    }

    /// True when something is known of a body that runs once:
    /// [`once_record`](LockManager::once_record) returns it.
    #[must_use]
    pub fn has_once_record(&self) -> bool {
        self.has_once_record
    }

    /// True when [`set_permits`](LockManager::set_permits) has set a number of permits:
    /// [`permits`](LockManager::permits) returns it.
    #[must_use]
    pub fn has_central_limit(&self) -> bool {
        self.has_central_limit
    }

    /// Notes the key of this suffix, such as `%queue%tick`.
    fn note(&mut self, suffix: &str) {
        match suffix {
            "" => self.is_locked = true,
            QUEUE => self.has_waiters = true,
            LEADER => self.has_leader = true,
            TICK => self.has_tick = true,
            ONCE => self.has_once_record = true,
            PERMITS => self.has_central_limit = true,
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::new(&self.key)
    }
}

/// The key of the user, and the suffix of what is beside its lock, of a name on the server.
fn parts<'a>(prefix: &str, name: &'a str) -> Option<(&'a str, &'a str)> {
    let key = name.strip_prefix(prefix)?;
    let Some(at) = key.find(QUEUE) else { return (!is_side_name(name)).then_some((key, "")) };
    let (key, suffix) = key.split_at(at);
    // In a Cluster the key may be at the end, behind a tag of its slot.
    Some(suffix.split_once(':').map_or((key, suffix), |(suffix, key)| (key, suffix)))
}

/// The name of the lock that is at a name on the server or beside it, and the suffix as of [`parts`].
fn lock_of(name: &str) -> Option<(String, &str)> {
    let Some(at) = name.find(QUEUE) else {
        return (!is_side_name(name)).then(|| (name.to_owned(), ""));
    };
    let (start, suffix) = name.split_at(at);
    Some(match suffix.split_once(':') {
        Some((suffix, key)) => (format!("{}{key}", without_tag(start)), suffix),
        None => (start.to_owned(), suffix),
    })
}

/// The prefix in front of the tag of a slot, such as `{4711}`, which names in a Cluster have.
fn without_tag(start: &str) -> &str {
    let tagged = start.strip_suffix('}').and_then(|start| start.rsplit_once('{'));
    let tagged = tagged.filter(|(_, tag)| !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_digit()));
    tagged.map_or(start, |(prefix, _)| prefix)
}

/// One server, as its [`INFO`](https://redis.io/docs/latest/commands/info/) describes it: from
/// [`LockManager::nodes`]. What a server does not say is `None`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use redlocked::LockManager;
/// use redlocked::inspect::NodeInfo;
///
/// let locks = LockManager::connect("memory://node-info-example").await?;
/// let nodes: Vec<NodeInfo> = locks.nodes().await?;
/// assert!(nodes.is_empty(), "there is no server");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeInfo {
    info: String,
}

impl NodeInfo {
    fn field(&self, name: &str) -> Option<&str> {
        self.info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }

    /// The program and its version: `redis 7.0.15`, `valkey 8.1.0`.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let server = self.field("server_name").unwrap_or("redis");
        let version = self.field(&format!("{server}_version")).or_else(|| self.field("redis_version"))?;
        Some(format!("{server} {version}"))
    }

    /// `master` or `slave`.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.field("role")
    }

    /// The memory in use, in bytes.
    #[must_use]
    pub fn used_memory(&self) -> Option<u64> {
        self.number("used_memory")
    }

    /// The limit of its memory, in bytes; `None` without a limit.
    #[must_use]
    pub fn max_memory(&self) -> Option<u64> {
        self.number("maxmemory").filter(|limit| *limit > 0)
    }

    /// Returns what it does when its memory is full: `noeviction` for a server of locks.
    #[must_use]
    pub fn eviction_policy(&self) -> Option<&str> {
        self.field("maxmemory_policy")
    }

    /// The open connections of clients.
    #[must_use]
    pub fn connections(&self) -> Option<u64> {
        self.number("connected_clients")
    }

    /// The commands a second, over the last seconds.
    #[must_use]
    pub fn commands_per_second(&self) -> Option<u64> {
        self.number("instantaneous_ops_per_sec")
    }

    /// Since when it runs, measured back from now.
    #[must_use]
    pub fn uptime(&self) -> Option<Duration> {
        self.number("uptime_in_seconds").map(Duration::from_secs)
    }

    /// Its clock when it answered.
    #[must_use]
    pub fn clock(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_micros(self.number("server_time_usec")?))
    }
}

impl LockManager {
    /// All keys under the prefix that have something on the server, sorted: a held lock, waiters, a
    /// leader, the record of a tick, or of a body that runs once.
    ///
    /// The call walks over all keys of the server, as [`list`](Self::list) does, and looks at no
    /// value: so it costs the server less, and [`inspect`](Self::inspect) says more about one.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing; its future can be dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    ///
    /// # let locks = redlocked::LockManager::connect("memory://keys-example").await?;
    /// locks.lock("report").tick(Duration::from_secs(3600)).run_value(async |_| ()).await?;
    /// for key in locks.keys().await?.iter().filter(|key| key.has_tick()) {
    ///     println!("{}: {:?}", key.key(), locks.last_tick(key.key()).await?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn keys(&self) -> Result<Vec<KeyInfo>, LockError> {
        let prefix = self.prefix();
        let names = self.names(Listed::Keys, format!("{}*", escape_pattern(prefix)).into()).await?;
        let mut keys = BTreeMap::new();
        for (key, suffix) in names.iter().filter_map(|name| parts(prefix, name)) {
            keys.entry(key).or_insert_with(|| KeyInfo::new(key)).note(suffix);
        }
        Ok(keys.into_values().filter(|key| !key.is_empty()).collect())
    }

    /// [`keys`](Self::keys) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`keys`](Self::keys).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://keys-blocking-example")?;
    /// assert!(locks.keys_blocking()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys_blocking(&self) -> Result<Vec<KeyInfo>, LockError> {
        block_on(self.engine(), self.keys())
    }

    /// Returns what there is for `key` under other prefixes of the same server, sorted: for an
    /// operator who does not know the prefix of a program. The [key](KeyInfo::key) of each is its
    /// whole name on the server.
    ///
    /// The call walks over all keys of the server, as [`list`](Self::list) does, and looks at no
    /// value: [`is_locked`](KeyInfo::is_locked) may be data of another program, and
    /// [`inspect_elsewhere`](Self::inspect_elsewhere) has the locks alone.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing; its future can be dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use std::time::Duration;
    /// use redlocked::LockManager;
    ///
    /// let url = "memory://keys-elsewhere-example";
    /// let shop = LockManager::builder(url).prefix("shop:").connect().await?;
    /// shop.lock("report").tick(Duration::from_secs(3600)).run_value(async |_| ()).await?;
    /// let locks = LockManager::connect(url).await?;
    /// assert!(locks.last_tick("report").await?.is_none());
    /// let elsewhere = locks.keys_elsewhere("report").await?;
    /// assert!(elsewhere[0].key() == "shop:report" && elsewhere[0].has_tick());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn keys_elsewhere(&self, key: &str) -> Result<Vec<KeyInfo>, LockError> {
        key::validate(self.prefix(), key)?;
        let own = self.name(key);
        let names = self.names(Listed::Keys, format!("*{}*", escape_pattern(key)).into()).await?;
        let mut found = BTreeMap::new();
        let others = names.iter().filter_map(|name| lock_of(name));
        for (name, suffix) in others.filter(|(name, _)| name.ends_with(key) && **name != *own) {
            found.entry(name).or_insert_with_key(|name| KeyInfo::new(name)).note(suffix);
        }
        Ok(found.into_values().filter(|key| !key.is_empty()).collect())
    }

    /// [`keys_elsewhere`](Self::keys_elsewhere) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`keys_elsewhere`](Self::keys_elsewhere).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://keys-elsewhere-blocking-example")?;
    /// assert!(locks.keys_elsewhere_blocking("report")?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys_elsewhere_blocking(&self, key: &str) -> Result<Vec<KeyInfo>, LockError> {
        block_on(self.engine(), self.keys_elsewhere(key))
    }

    /// The prefixes under which programs have locked on this server, sorted; with the prefix of this
    /// manager, if it is one of them. Each has a clock of fencing tokens, which stays when its locks
    /// are released. Callers that draw no token leave none, and neither does `memory://`.
    ///
    /// The call walks over all keys of the server, as [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing; its future can be dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// use redlocked::LockManager;
    ///
    /// let locks = LockManager::connect("redis://127.0.0.1/").await?;
    /// println!("{:?}", locks.prefixes().await?); // ["lock:", "shop:"]
    /// # Ok(())
    /// # }
    /// ```
    pub async fn prefixes(&self) -> Result<Vec<String>, LockError> {
        let names = self.names(Listed::Keys, format!("*{CLOCK}").into()).await?;
        let prefixes = names.iter().filter_map(|name| name.strip_suffix(CLOCK)).map(without_tag);
        let prefixes: BTreeSet<String> = prefixes.map(ToOwned::to_owned).collect();
        Ok(prefixes.into_iter().collect())
    }

    /// [`prefixes`](Self::prefixes) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`prefixes`](Self::prefixes).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://prefixes-blocking-example")?;
    /// assert!(locks.prefixes_blocking()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefixes_blocking(&self) -> Result<Vec<String>, LockError> {
        block_on(self.engine(), self.prefixes())
    }

    /// Returns what each server says of itself: one without a Cluster and a quorum, each primary of
    /// a Cluster, each node of a quorum that can be reached. None for `memory://`.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect); [`LockError::Misconfigured`] where the access rules do not
    /// grant `+info`.
    ///
    /// # Cancel safety
    ///
    /// The call changes nothing; its future can be dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect("memory://nodes-example").await?;
    /// for node in locks.nodes().await? {
    ///     println!("{:?}: {:?} bytes", node.version(), node.used_memory());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, LockError> {
        let texts = self.names(Listed::Nodes, "*".into()).await?;
        Ok(texts.into_iter().map(|info| NodeInfo { info }).collect())
    }

    /// [`nodes`](Self::nodes) for sync code: blocks this thread.
    ///
    /// # Errors
    ///
    /// As [`nodes`](Self::nodes).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), redlocked::LockError> {
    /// # let locks = redlocked::LockManager::connect_blocking("memory://nodes-blocking-example")?;
    /// assert!(locks.nodes_blocking()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn nodes_blocking(&self) -> Result<Vec<NodeInfo>, LockError> {
        block_on(self.engine(), self.nodes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_key_and_its_suffix_on_a_server_and_in_a_cluster() {
        for (name, expected) in [
            ("lock:a:b", Some(("a:b", ""))),
            ("lock:a:b%queue", Some(("a:b", QUEUE))),
            ("lock:a:b%queue%tick", Some(("a:b", TICK))),
            ("lock:{xyz}%queue%leader:a:b", Some(("a:b", LEADER))),
            ("lock:{a}b%queue%once", Some(("{a}b", ONCE))),
            ("lock:%clock", None),
            ("shop:a", None),
        ] {
            assert_eq!(parts("lock:", name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_has_its_lock_whatever_its_prefix_on_a_server_and_in_a_cluster() {
        for (name, expected) in [
            ("shop:a:b", Some(("shop:a:b", ""))),
            ("shop:a:b%queue%tick", Some(("shop:a:b", TICK))),
            ("shop:{4711}%queue%once:a:b", Some(("shop:a:b", ONCE))),
            ("{shop}:{7}%queue:a", Some(("{shop}:a", QUEUE))),
            ("shop:{a}b%queue%leader", Some(("shop:{a}b", LEADER))),
            ("shop:%clock", None),
        ] {
            let expected = expected.map(|(name, suffix)| (name.to_owned(), suffix));
            assert_eq!(lock_of(name), expected, "{name}");
        }
        for (start, prefix) in
            [("shop:{4711}", "shop:"), ("shop:", "shop:"), ("{shop}", "{shop}"), ("{}", "{}")]
        {
            assert_eq!(without_tag(start), prefix);
        }
    }

    #[test]
    fn a_node_says_what_its_info_has() {
        let text = |info: &str| NodeInfo { info: info.replace('\n', "\r\n") };
        let redis =
            text("# Server\nredis_version:7.0.15\nserver_time_usec:1000000\nmaxmemory:0\nrole:master\n");
        assert_eq!(redis.version().as_deref(), Some("redis 7.0.15"));
        assert_eq!((redis.max_memory(), redis.used_memory(), redis.role()), (None, None, Some("master")));
        assert_eq!(redis.clock(), Some(UNIX_EPOCH + Duration::from_secs(1)));
        let valkey = text("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.0\n");
        assert_eq!(valkey.version().as_deref(), Some("valkey 8.1.0"));
    }
}
