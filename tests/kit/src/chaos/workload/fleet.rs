//! The worker processes: the role of each, and how often one is frozen or killed.

use std::collections::BTreeSet;

/// The role of a worker process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Short locks, a few callers of all kinds.
    Mixed,
    /// Long locks, kept across all faults.
    LongHolds,
    /// Locks of a long ttl that are held briefly, with a few waiters each.
    ShortHolds,
    /// Long locks, whose holders change the ttl again and again.
    TtlChanges,
    /// A hundred waiters for one key.
    Crowds,
    /// Hundreds of waiters, all for the same key.
    LongQueue,
    /// A thousand calls for one key at once.
    Bursts,
    /// Thousands of calls that are dropped at once.
    Drops,
    /// A lock that is given back before its process computes for seconds.
    Blocks,
    /// One try after the other, or a short wait, for the key of the long queue.
    Impatient,
    /// One call after the other for the key of the long queue, each with a long wait.
    Waits,
    /// Short locks, and pauses of all processes at the same time, in which they ask for nothing.
    Rests,
    /// Managers that end when a server has refused all that they asked for.
    EndsRefused,
    /// Short locks that are given away, and redeemed by another process of this role.
    Travels,
    /// Short locks that several hold together, and some alone.
    Shares,
    /// Callers of all processes for each tick.
    Ticks,
    /// Callers that want the results of bodies that run once.
    Once,
}

/// The keys and callers of a role.
#[derive(Clone, Copy)]
pub struct RoleSpec {
    pub(crate) role: Role,
    pub(crate) first_key: u64,
    pub(crate) keys: u64,
    pub(crate) callers: u64,
    /// Its locks end soon when it is killed.
    pub(crate) may_die: bool,
}

/// The number of a role is its place here.
pub(crate) const ROLES: [RoleSpec; 17] = [
    RoleSpec { role: Role::Mixed, first_key: 0, keys: 4, callers: 3, may_die: true },
    RoleSpec { role: Role::LongHolds, first_key: 4, keys: 8, callers: 4, may_die: false },
    RoleSpec { role: Role::TtlChanges, first_key: 4, keys: 8, callers: 4, may_die: false },
    RoleSpec { role: Role::Crowds, first_key: 12, keys: 2, callers: 1, may_die: true },
    RoleSpec { role: Role::LongQueue, first_key: 12, keys: 1, callers: 1, may_die: true },
    RoleSpec { role: Role::Bursts, first_key: 14, keys: 1, callers: 1, may_die: false },
    RoleSpec { role: Role::ShortHolds, first_key: 16, keys: 24, callers: 12, may_die: false },
    RoleSpec { role: Role::Drops, first_key: 15, keys: 0, callers: 1, may_die: false },
    RoleSpec { role: Role::Blocks, first_key: 16, keys: 24, callers: 1, may_die: false },
    RoleSpec { role: Role::Impatient, first_key: 12, keys: 1, callers: 3, may_die: false },
    RoleSpec { role: Role::Waits, first_key: 12, keys: 1, callers: 1, may_die: false },
    RoleSpec { role: Role::Rests, first_key: 0, keys: 4, callers: 3, may_die: true },
    RoleSpec { role: Role::EndsRefused, first_key: 0, keys: 4, callers: 1, may_die: true },
    RoleSpec { role: Role::Travels, first_key: 0, keys: 4, callers: 1, may_die: true },
    RoleSpec { role: Role::Shares, first_key: 40, keys: 3, callers: 3, may_die: true },
    RoleSpec { role: Role::Ticks, first_key: 43, keys: 3, callers: 3, may_die: true },
    RoleSpec { role: Role::Once, first_key: 46, keys: 3, callers: 4, may_die: true },
];

impl Role {
    /// Whether its locks outlive a claim.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::LongHolds | Self::ShortHolds | Self::TtlChanges | Self::Blocks)
    }

    pub(crate) fn number(self) -> u64 {
        let found = ROLES.iter().zip(0..).find(|(spec, _)| spec.role == self);
        found.map(|(_, number)| number).unwrap()
    }

    pub(crate) fn spec(self) -> RoleSpec {
        ROLES.into_iter().find(|spec| spec.role == self).unwrap()
    }
}

/// The processes, and how often one of them is frozen or killed.
#[derive(Clone, Copy)]
pub struct Fleet {
    pub(crate) roles: &'static [(Role, usize)],
    /// The percentage of events in which a worker is frozen, or killed; in the others the
    /// environment injects a fault.
    pub(crate) freezes: u64,
    pub(crate) kills: u64,
    /// The one with the most calls is frozen, for much longer than a claim, in milliseconds.
    pub(crate) sticks: Option<u64>,
    /// Whether a foreign client takes the same locks.
    pub(crate) foreign_client: bool,
    /// The pause between two events, from and to, in milliseconds.
    pub(crate) pace: (u64, u64),
    /// How long until a killed worker is replaced, in milliseconds.
    pub(crate) absence: u64,
}

impl Fleet {
    /// No processes, and none is frozen or killed.
    pub(crate) const CALM: Self = Self {
        roles: &[],
        freezes: 0,
        kills: 0,
        sticks: None,
        foreign_client: false,
        pace: (20, 60),
        absence: 0,
    };

    /// Hundreds of waiters, some of whose processes die.
    pub(crate) const CROWDS: Self =
        Self { roles: &[(Role::Crowds, 5)], kills: 5, absence: 5000, ..Self::CALM };

    /// Bursts of calls.
    pub(crate) const BURSTS: Self = Self { roles: &[(Role::Bursts, 2)], ..Self::CALM };

    pub(crate) const MIXED: Self = Self {
        roles: &[(Role::Mixed, 8)],
        freezes: 40,
        kills: 8,
        sticks: None,
        foreign_client: true,
        pace: (10, 60),
        absence: 0,
    };

    /// Some of whose locks travel, some of which several hold together, and some of whose bodies run
    /// once: not on a quorum, which has neither tickets nor counts nor records.
    pub(crate) const OF_ALL_KINDS: Self = Self {
        roles: &[(Role::Mixed, 2), (Role::Travels, 2), (Role::Shares, 2), (Role::Ticks, 2), (Role::Once, 2)],
        ..Self::MIXED
    };

    /// The keys that may be taken.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let spec = self.roles.iter().map(|(role, _)| role.spec());
        let keys = spec.flat_map(|spec| spec.first_key..spec.first_key + spec.keys);
        keys.collect::<BTreeSet<u64>>().into_iter().collect()
    }

    /// Each with its role.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Role> {
        self.roles.iter().flat_map(|(role, count)| std::iter::repeat_n(*role, *count))
    }
}
