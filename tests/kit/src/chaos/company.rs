//! Who is there: worker processes, what each is for, and what happens to them.

use std::collections::BTreeSet;

/// What a process is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Short locks, a few callers of all kinds.
    Roams,
    /// Long locks, kept across whatever happens.
    Keeps,
    /// The same, each with another ttl again and again.
    Extends,
    /// A hundred waiters for one key.
    Crowds,
    /// Hundreds of waiters, all for the same key.
    Queues,
    /// A thousand calls for one key at once.
    Bursts,
    /// Thousands of calls that are dropped at once.
    Drops,
}

/// What a process of a role has.
#[derive(Clone, Copy)]
pub struct Means {
    pub(crate) role: Role,
    pub(crate) first_key: u64,
    pub(crate) keys: u64,
    pub(crate) callers: u64,
    /// What it holds ends soon when it is killed.
    pub(crate) may_die: bool,
}

/// By number, as processes are told.
pub(crate) const ROLES: [Means; 7] = [
    Means { role: Role::Roams, first_key: 0, keys: 4, callers: 3, may_die: true },
    Means { role: Role::Keeps, first_key: 4, keys: 8, callers: 4, may_die: false },
    Means { role: Role::Extends, first_key: 4, keys: 8, callers: 4, may_die: false },
    Means { role: Role::Crowds, first_key: 12, keys: 2, callers: 1, may_die: true },
    Means { role: Role::Queues, first_key: 12, keys: 1, callers: 1, may_die: true },
    Means { role: Role::Bursts, first_key: 14, keys: 1, callers: 1, may_die: false },
    Means { role: Role::Drops, first_key: 15, keys: 0, callers: 1, may_die: false },
];

impl Role {
    /// Whether its locks outlive a claim.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Self::Keeps | Self::Extends)
    }

    pub(crate) fn number(self) -> u64 {
        let found = ROLES.iter().zip(0..).find(|(means, _)| means.role == self);
        found.map(|(_, number)| number).unwrap()
    }

    pub(crate) fn means(self) -> Means {
        ROLES.into_iter().find(|means| means.role == self).unwrap()
    }
}

/// The processes, and how often something happens to one of them.
#[derive(Clone, Copy)]
pub struct Company {
    pub(crate) roles: &'static [(Role, usize)],
    /// So often in a hundred is one frozen, or killed; else it is the ground's turn.
    pub(crate) freezes: u64,
    pub(crate) kills: u64,
    /// Whether a client of another kind takes the same locks.
    pub(crate) stranger: bool,
    /// How long to the next deed, in milliseconds.
    pub(crate) pace: (u64, u64),
    /// How long until there is another one for one that was killed, in milliseconds.
    pub(crate) absence: u64,
}

impl Company {
    /// No process yet, and nothing happens to them.
    pub(crate) const CALM: Self =
        Self { roles: &[], freezes: 0, kills: 0, stranger: false, pace: (20, 60), absence: 0 };

    /// Hundreds of waiters, some of whose processes die.
    pub(crate) const CROWDS: Self =
        Self { roles: &[(Role::Crowds, 5)], kills: 5, absence: 5000, ..Self::CALM };

    /// Bursts of calls.
    pub(crate) const BURSTS: Self = Self { roles: &[(Role::Bursts, 2)], ..Self::CALM };

    pub(crate) const ROAMERS: Self = Self {
        roles: &[(Role::Roams, 8)],
        freezes: 40,
        kills: 8,
        stranger: true,
        pace: (10, 60),
        absence: 0,
    };

    /// The keys that may be taken.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let means = self.roles.iter().map(|(role, _)| role.means());
        let keys = means.flat_map(|means| means.first_key..means.first_key + means.keys);
        keys.collect::<BTreeSet<u64>>().into_iter().collect()
    }

    /// Each with its role.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Role> {
        self.roles.iter().flat_map(|(role, count)| std::iter::repeat_n(*role, *count))
    }
}
