//! What a command does, and what it is allowed in spite of.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flags(u16);

impl Flags {
    pub(super) const NONE: Self = Self(0);
    pub(super) const WRITES: Self = Self(1);
    pub(super) const READS: Self = Self(2);
    /// It may need more memory.
    pub(super) const GROWS: Self = Self(4);
    pub(super) const NO_SCRIPT: Self = Self(8);
    /// Allowed while the server reads its data.
    pub(super) const LOADING: Self = Self(16);
    /// Allowed on a replica that has lost its primary.
    pub(super) const STALE: Self = Self(32);
    /// Allowed while a script runs.
    pub(super) const BUSY: Self = Self(64);
    /// Allowed to a client that has given no password.
    pub(super) const NO_AUTH: Self = Self(128);
    /// Allowed to a client of RESP2 that has subscribed.
    pub(super) const LISTENS: Self = Self(256);
    pub(super) const HAS_SUBCOMMANDS: Self = Self(512);
    /// `PING`, which tells of a server that cannot save.
    pub(super) const NEEDS_SAVES: Self = Self(1024);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn is(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
