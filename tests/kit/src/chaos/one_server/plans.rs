//! Who takes locks, and what is done to them and to their server.

use super::super::checker::Told;
use super::super::company::{Company, Role};
use super::super::deeds::Deeds;
use super::super::dice::Dice;
use super::OneServer;
use super::faults::{
    close_way, cut_one, delete_queue, flush, force_release, forget_scripts, inspect, kill, rest, squat,
    stand_still, stop, take_rights,
};

/// What may be missing, and is done without.
const RIGHTS: &[(u64, &str)] = &[
    (1, "-publish -subscribe"),
    (1, "-client|tracking"),
    (1, "-client|kill"),
    (1, "-client|kill -client|tracking"),
];

/// Something that is done to the server.
pub(crate) type Deed = fn(&mut OneServer, &mut Dice, &mut Deeds);

/// Who is there, and what is done to them.
#[derive(Clone, Copy)]
pub struct Plan {
    pub(crate) company: Company,
    /// Each with its weight.
    pub(crate) deeds: &'static [(u64, Deed)],
    /// So many in a hundred workers are behind a way of ours: each kind.
    pub(crate) behind_ways: [u64; 2],
    /// What is missing, each with its weight, and for how many milliseconds at most.
    pub(crate) rights: &'static [(u64, &'static str)],
    pub(crate) denied: u64,
    /// When a holder whose lock is taken away knows it: promptly, where nothing else goes wrong.
    pub(crate) told: Told,
    /// Whether a lock that is waited for is handed over at once: where nothing goes wrong at all.
    pub(crate) hands_over: bool,
}

impl Plan {
    /// Nothing goes wrong. The base of the others.
    const CALM: Self = Self {
        company: Company::CALM,
        deeds: &[(1, inspect), (20, rest)],
        behind_ways: [0; 2],
        rights: RIGHTS,
        denied: 0,
        told: Told::AtItsEnd,
        hands_over: false,
    };

    /// Nothing but a connection that is cut, scripts that are forgotten, and workers that are frozen and killed.
    pub const WELL: Self = Self {
        company: Company::ROAMERS,
        deeds: &[(24, cut_one), (20, forget_scripts), (8, stand_still), (6, rest)],
        ..Self::CALM
    };

    /// Everything that a server can suffer without forgetting a lock.
    pub const UNWELL: Self = Self {
        company: Company {
            roles: &[(Role::Roams, 8), (Role::Keeps, 1), (Role::Extends, 1)],
            ..Company::ROAMERS
        },
        deeds: &[
            (240, cut_one),
            (200, forget_scripts),
            (80, stand_still),
            (30, stop),
            (20, kill),
            (40, close_way),
            (10, squat),
            (15, take_rights),
            (30, inspect),
            (30, rest),
        ],
        behind_ways: [30, 20],
        denied: 1000,
        ..Self::CALM
    };

    /// And it forgets, and operators take locks away.
    pub const FORGETFUL: Self = Self {
        deeds: &[
            (240, cut_one),
            (200, forget_scripts),
            (80, stand_still),
            (30, stop),
            (20, kill),
            (40, close_way),
            (10, squat),
            (15, take_rights),
            (30, inspect),
            (10, flush),
            (10, delete_queue),
            (15, force_release),
            (15, rest),
        ],
        ..Self::UNWELL
    };

    /// A server that is well, behind ways over which requests arrive when their connection has long been replaced, for a
    /// user that has not the rights to do something about it.
    pub const LATE: Self = Self {
        company: Company { roles: &[(Role::Keeps, 8)], ..Company::CALM },
        deeds: &[(20, close_way), (20, take_rights), (2, squat), (1, inspect), (20, rest)],
        behind_ways: [0, 100],
        rights: &[(1, "-publish -subscribe"), (1, "-client|kill"), (10, "-client|kill -client|tracking")],
        denied: 16_000,
        ..Self::CALM
    };

    /// The same, behind ways over which no answers come, with locks that change their ttl.
    pub const SILENT: Self = Self {
        company: Company { roles: &[(Role::Extends, 8)], ..Company::CALM },
        deeds: &[(12, close_way), (1, cut_one), (2, squat), (1, inspect), (20, rest)],
        behind_ways: [90, 0],
        ..Self::LATE
    };

    /// Operators that take locks away, and workers that do it to themselves: who had one is told.
    pub const OPERATED: Self = Self {
        company: Company {
            roles: &[(Role::Roams, 4), (Role::Keeps, 2), (Role::Extends, 2)],
            ..Company::CALM
        },
        deeds: &[(20, force_release), (1, flush), (5, delete_queue), (20, inspect), (60, rest)],
        told: Told::Promptly,
        ..Self::CALM
    };

    /// Hundreds of waiters, some of whose processes die, and operators that flush and delete.
    pub const CROWDED: Self = Self {
        company: Company::CROWDS,
        deeds: &[(2, flush), (3, delete_queue), (1, force_release), (5, inspect), (150, rest)],
        ..Self::CALM
    };

    /// The process with the most waiters dies again and again, and its places stay in the queue: a flush would clear them.
    pub const ABANDONED: Self = Self {
        company: Company { roles: &[(Role::Queues, 3)], kills: 4, absence: 5000, ..Company::CALM },
        ..Self::CALM
    };

    /// Bursts of calls, while nothing goes wrong.
    pub const BURSTS: Self =
        Self { company: Company::BURSTS, told: Told::Promptly, hands_over: true, ..Self::CALM };

    /// Calls that are dropped by the thousand, while nothing goes wrong.
    pub const DROPPED: Self = Self {
        company: Company { roles: &[(Role::Drops, 2)], ..Company::CALM },
        deeds: &[(1, rest)],
        told: Told::Promptly,
        ..Self::CALM
    };

    /// Whether the server is killed: it keeps its data then.
    pub(crate) fn is_deadly(&self) -> bool {
        self.deeds.iter().any(|(_, deed)| std::ptr::fn_addr_eq(*deed, kill as Deed))
    }
}
