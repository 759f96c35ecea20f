//! Which server is simulated, and in what the versions differ.

/// A server of the matrix in `docs/servers.md`, and Redis 8.4, whose `DELEX` we use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Version {
    /// Redis 5.0.6.
    Redis5,
    /// Redis 6.2.5.
    Redis62,
    /// Redis 7.0.15.
    Redis70,
    /// Redis 8.2.3.
    Redis8,
    /// Redis 8.4: not held against a real server.
    Redis84,
    /// Valkey 8.1.8.
    Valkey8,
    /// Valkey 9.1.2.
    Valkey9,
}

impl Version {
    /// In the order of their release, Redis first.
    pub const ALL: [Self; 7] = [
        Self::Redis5,
        Self::Redis62,
        Self::Redis70,
        Self::Redis8,
        Self::Redis84,
        Self::Valkey8,
        Self::Valkey9,
    ];

    /// The version of a real server, from its answer to `INFO server`.
    #[must_use]
    pub fn read(info: &str) -> Option<Self> {
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if let Some(valkey) = field("valkey_version:") {
            return match valkey.split('.').next()? {
                "8" => Some(Self::Valkey8),
                "9" => Some(Self::Valkey9),
                _ => None,
            };
        }
        let redis = field("redis_version:")?;
        [("5.0.", Self::Redis5), ("6.2.", Self::Redis62), ("7.0.", Self::Redis70), ("8.2.", Self::Redis8)]
            .into_iter()
            .chain([("8.4.", Self::Redis84)])
            .find_map(|(start, version)| redis.starts_with(start).then_some(version))
    }

    /// As the server reports it.
    pub(super) fn number(self) -> &'static str {
        match self {
            Self::Redis5 => "5.0.6",
            Self::Redis62 => "6.2.5",
            Self::Redis70 => "7.0.15",
            Self::Redis8 => "8.2.3",
            Self::Redis84 => "8.4.0",
            Self::Valkey8 => "8.1.8",
            Self::Valkey9 => "9.1.2",
        }
    }

    pub(super) fn is_valkey(self) -> bool {
        matches!(self, Self::Valkey8 | Self::Valkey9)
    }

    /// As messages call the server.
    pub(super) fn name(self) -> &'static str {
        if self.is_valkey() { "Valkey" } else { "Redis" }
    }

    /// Redis 5 speaks only RESP2, and knows no users.
    #[must_use]
    pub fn speaks_resp3(self) -> bool {
        self != Self::Redis5
    }

    /// Redis 7.0 and later.
    #[must_use]
    pub fn has_sharded_channels(self) -> bool {
        self.is_7_or_later()
    }

    /// Redis 7.0 and later: sharded channels, subcommands as commands of their own, errors of
    /// scripts with a code.
    pub(super) fn is_7_or_later(self) -> bool {
        !matches!(self, Self::Redis5 | Self::Redis62)
    }

    /// A client gets its own message behind the reply to its command.
    pub(super) fn delivers_behind_reply(self) -> bool {
        self.is_72_or_later()
    }

    /// A client gets the message that its command has changed a watched key behind the reply.
    pub(super) fn tells_of_changes_behind_reply(self) -> bool {
        self.is_7_or_later()
    }

    /// True if the notice of a flush follows the reply. Redis 8 flushes in another thread, and replies when that is done.
    pub(super) fn tells_of_flush_behind_reply(self) -> bool {
        matches!(self, Self::Redis70 | Self::Valkey8 | Self::Valkey9)
    }

    /// Redis 7.2 and later, and Valkey.
    pub(super) fn is_72_or_later(self) -> bool {
        self.is_7_or_later() && self != Self::Redis70
    }
}
