//! The plans for one server: which workers run, and which faults are injected how often.

use std::time::Duration;

use super::OneServer;
use super::faults::{
    cut_one, delete_queue, disrupt_proxy, do_nothing, fill, flush, force_release, forget_scripts, inspect,
    kill, refuse, say_unasked, squat, stand_still, stop, take_by_hand, take_in_front, take_rights,
};
use crate::chaos::checker::LossDetection;
use crate::chaos::event_log::EventLog;
use crate::chaos::random::Random;
use crate::chaos::workload::fleet::{Fleet, Role};

/// Optional rights that may be missing.
const RIGHTS: &[(u64, &str)] = &[
    (1, "-publish -subscribe"),
    (1, "-client|tracking"),
    (1, "-client|kill"),
    (1, "-client|kill -client|tracking"),
];

/// A fault of the server.
pub(crate) type Fault = fn(&mut OneServer, &mut Random, &mut EventLog);

/// Which workers run, and which faults are injected.
#[derive(Clone, Copy)]
pub struct Plan {
    pub(crate) fleet: Fleet,
    /// Each with its weight.
    pub(crate) faults: &'static [(u64, Fault)],
    /// The percentage of workers behind a proxy: for each kind of proxy.
    pub(crate) proxied_percent: [u64; 2],
    /// The rights that are taken, each with its weight, and for how many milliseconds at most.
    pub(crate) rights: &'static [(u64, &'static str)],
    pub(crate) denied: u64,
    /// When a holder notices that its lock was taken away: promptly, where there are no other
    /// faults.
    pub(crate) detection: LossDetection,
    /// Whether a lock with waiters is handed over at once: where there are no faults at all.
    pub(crate) hands_over: bool,
    /// How soon a lock that callers want is used, where that is known.
    pub(crate) used_within: Option<Duration>,
}

impl Plan {
    /// No faults. The base of the other plans.
    const CALM: Self = Self {
        fleet: Fleet::CALM,
        faults: &[(1, inspect), (20, do_nothing)],
        proxied_percent: [0; 2],
        rights: RIGHTS,
        denied: 0,
        detection: LossDetection::AtLeaseEnd,
        hands_over: false,
        used_within: None,
    };

    /// Only cut connections, forgotten scripts, and workers that are frozen and killed.
    pub const MINOR_FAULTS: Self = Self {
        fleet: Fleet::MIXED,
        faults: &[(24, cut_one), (20, forget_scripts), (8, stand_still), (6, do_nothing)],
        ..Self::CALM
    };

    /// Locks that travel, while their processes are frozen and killed.
    pub const TRAVELS: Self = Self {
        fleet: Fleet { roles: &[(Role::Travels, 6), (Role::Mixed, 2)], ..Fleet::MIXED },
        ..Self::MINOR_FAULTS
    };

    /// Locks that several hold together, while their processes are frozen and killed.
    pub const SHARES: Self = Self {
        fleet: Fleet { roles: &[(Role::Shares, 6)], foreign_client: false, ..Fleet::MIXED },
        ..Self::MINOR_FAULTS
    };

    /// One run for each tick, while processes are frozen and killed.
    pub const TICKS: Self = Self {
        fleet: Fleet { roles: &[(Role::Ticks, 6)], foreign_client: false, ..Fleet::MIXED },
        ..Self::MINOR_FAULTS
    };

    /// One result for all, while processes are frozen and killed.
    pub const ONCE: Self =
        Self { fleet: Fleet { roles: &[(Role::Once, 6)], ..Self::TICKS.fleet }, ..Self::TICKS };

    /// The server forgets what was run, or operators take locks away, which costs no record.
    pub const FORGOTTEN_RECORDS: Self = Self {
        fleet: Fleet { roles: &[(Role::Ticks, 3), (Role::Once, 3)], kills: 2, ..Fleet::CALM },
        faults: &[(1, flush), (8, force_release), (4, cut_one), (20, do_nothing)],
        ..Self::CALM
    };

    /// All faults in which the server forgets no lock.
    pub const NO_DATA_LOSS: Self = Self {
        fleet: Fleet {
            roles: &[
                (Role::Mixed, 4),
                (Role::Travels, 2),
                (Role::Shares, 2),
                (Role::Ticks, 2),
                (Role::Once, 2),
                (Role::LongHolds, 1),
                (Role::TtlChanges, 1),
            ],
            ..Fleet::MIXED
        },
        faults: &[
            (240, cut_one),
            (200, forget_scripts),
            (80, stand_still),
            (30, stop),
            (20, kill),
            (40, disrupt_proxy),
            (10, squat),
            (15, take_rights),
            (30, inspect),
            (30, do_nothing),
        ],
        proxied_percent: [30, 20],
        denied: 1000,
        ..Self::CALM
    };

    /// All faults, among them those in which the server forgets locks, or operators take them away.
    pub const DATA_LOSS: Self = Self {
        faults: &[
            (240, cut_one),
            (200, forget_scripts),
            (80, stand_still),
            (30, stop),
            (20, kill),
            (40, disrupt_proxy),
            (10, squat),
            (15, take_rights),
            (30, inspect),
            (10, flush),
            (10, delete_queue),
            (15, force_release),
            (15, do_nothing),
        ],
        ..Self::NO_DATA_LOSS
    };

    /// A healthy server, behind proxies that deliver requests when their connection has long been
    /// replaced, for a user without the rights to prevent it.
    pub const LATE_REQUESTS: Self = Self {
        fleet: Fleet { roles: &[(Role::LongHolds, 8)], ..Fleet::CALM },
        faults: &[(20, disrupt_proxy), (20, take_rights), (2, squat), (1, inspect), (20, do_nothing)],
        proxied_percent: [0, 100],
        rights: &[(1, "-publish -subscribe"), (1, "-client|kill"), (10, "-client|kill -client|tracking")],
        denied: 16_000,
        ..Self::CALM
    };

    /// Proxies hold replies back, and holders change their ttl.
    pub const NO_REPLIES: Self = Self {
        fleet: Fleet { roles: &[(Role::TtlChanges, 8)], ..Fleet::CALM },
        faults: &[(12, disrupt_proxy), (1, cut_one), (2, squat), (1, inspect), (20, do_nothing)],
        proxied_percent: [90, 0],
        ..Self::LATE_REQUESTS
    };

    /// Operators that take locks away, and workers that take their own away: the manager notifies
    /// the holder.
    pub const OPERATORS: Self = Self {
        fleet: Fleet {
            roles: &[(Role::Mixed, 4), (Role::LongHolds, 2), (Role::TtlChanges, 2)],
            ..Fleet::CALM
        },
        faults: &[(20, force_release), (1, flush), (5, delete_queue), (20, inspect), (60, do_nothing)],
        detection: LossDetection::Promptly,
        ..Self::CALM
    };

    /// Hundreds of waiters, some of whose processes die, and operators that flush and delete.
    pub const CROWDS: Self = Self {
        fleet: Fleet::CROWDS,
        faults: &[(2, flush), (3, delete_queue), (1, force_release), (5, inspect), (150, do_nothing)],
        ..Self::CALM
    };

    /// The process with the most waiters dies again and again, and its places stay in the queue: a
    /// flush would clear them.
    pub const DEAD_WAITERS: Self = Self {
        fleet: Fleet { roles: &[(Role::LongQueue, 3)], kills: 4, absence: 5000, ..Fleet::CALM },
        ..Self::CALM
    };

    /// The process with the most waiters is stopped for seconds, again and again, while others try
    /// once or for a moment: it costs them a claim. The other time is for a busy machine.
    pub const STUCK: Self = Self {
        fleet: Fleet {
            roles: &[(Role::LongQueue, 1), (Role::Impatient, 3)],
            freezes: 3,
            sticks: Some(20_000),
            ..Fleet::CALM
        },
        faults: &[(1, do_nothing)],
        // It may have the lock when it is stopped.
        used_within: Some(Duration::from_secs(6)),
        ..Self::CALM
    };

    /// The server is full again and again, in which holders give locks back that others wait for.
    pub const FULL: Self = Self {
        fleet: Fleet { roles: &[(Role::ShortHolds, 3)], ..Fleet::CALM },
        faults: &[(2, fill), (60, do_nothing)],
        used_within: Some(Duration::from_secs(3)),
        ..Self::CALM
    };

    /// As [`DEAD_WAITERS`](Self::DEAD_WAITERS), behind a client of another kind that takes the lock
    /// and deletes it: no release sees them.
    pub const DEAD_WAITERS_BEHIND_OTHERS: Self = Self {
        fleet: Fleet { roles: &[(Role::LongQueue, 4)], kills: 6, absence: 8000, ..Fleet::CALM },
        faults: &[(10, take_by_hand), (90, do_nothing)],
        used_within: Some(Duration::from_secs(4)),
        ..Self::DEAD_WAITERS
    };

    /// All waiters of a long queue die but a few, behind a client of another kind that deletes the
    /// lock. These few wait for so long that no newcomer finds it free.
    pub const DEAD_IN_FRONT: Self = Self {
        fleet: Fleet { roles: &[(Role::LongQueue, 2), (Role::Waits, 3)], absence: 4500, ..Fleet::CALM },
        faults: &[(10, take_in_front), (30, do_nothing)],
        used_within: Some(Duration::from_secs(3)),
        ..Self::CALM
    };

    /// Replies for which no command has asked, to clients that wait for none.
    pub const STRAY_REPLIES: Self = Self {
        fleet: Fleet { roles: &[(Role::Rests, 6)], ..Fleet::CALM },
        faults: &[(1, say_unasked)],
        proxied_percent: [100, 0],
        ..Self::CALM
    };

    /// Managers end while the server refuses each of their calls.
    pub const REFUSED: Self = Self {
        fleet: Fleet { roles: &[(Role::EndsRefused, 3), (Role::Mixed, 2)], ..Fleet::CALM },
        faults: &[(1, refuse), (10, do_nothing)],
        ..Self::CALM
    };

    /// Callers give a lock back and compute for seconds, in the thread of their runtime, while
    /// others wait for it.
    pub const BLOCKED_RUNTIMES: Self = Self {
        fleet: Fleet { roles: &[(Role::ShortHolds, 2), (Role::Blocks, 3)], ..Fleet::CALM },
        faults: &[(1, do_nothing)],
        // Sooner than most renewals are due, with which a runtime that stands still is noticed,
        // too.
        used_within: Some(Duration::from_secs(2)),
        ..Self::CALM
    };

    /// Bursts of calls, without faults.
    pub const BURSTS: Self =
        Self { fleet: Fleet::BURSTS, detection: LossDetection::Promptly, hands_over: true, ..Self::CALM };

    /// Locks of short ttls that holders overrun and extend, and that a foreign client takes,
    /// without faults.
    pub const SHORT_TTLS: Self = Self {
        fleet: Fleet { roles: &[(Role::Mixed, 6)], foreign_client: true, ..Fleet::CALM },
        ..Self::CALM
    };

    /// A few callers that wait for each of eight locks, without faults.
    pub const FEW_WAITERS: Self = Self {
        fleet: Fleet { roles: &[(Role::ShortHolds, 5)], ..Fleet::CALM },
        detection: LossDetection::Promptly,
        hands_over: true,
        ..Self::CALM
    };

    /// Calls that are dropped by the thousand, without faults.
    pub const DROPPED_CALLS: Self = Self {
        fleet: Fleet { roles: &[(Role::Drops, 2)], ..Fleet::CALM },
        faults: &[(1, do_nothing)],
        detection: LossDetection::Promptly,
        ..Self::CALM
    };

    /// Whether the server refuses for a reason of its own.
    pub(crate) fn refuses(&self) -> bool {
        self.faults.iter().any(|(_, fault)| std::ptr::fn_addr_eq(*fault, refuse as Fault))
    }

    /// Whether the server is killed: it keeps its data then.
    pub(crate) fn is_deadly(&self) -> bool {
        self.faults.iter().any(|(_, fault)| std::ptr::fn_addr_eq(*fault, kill as Fault))
    }
}
