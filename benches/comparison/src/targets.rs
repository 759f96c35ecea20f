//! The targets, and how near the last run came.

use Aim::{AtLeast, AtMost};

/// On which side of the aim the figure should be.
#[derive(Clone, Copy)]
pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

pub struct Target {
    /// Its name in [`Report::target`](crate::report::Report::target).
    pub name: &'static str,
    /// Its description, for a reader.
    pub what: &'static str,
    pub aim: Aim,
    pub unit: &'static str,
    /// Measured only where there is a second server.
    pub needs_second: bool,
}

const fn in_unit(name: &'static str, what: &'static str, aim: Aim, unit: &'static str) -> Target {
    Target { name, what, aim, unit, needs_second: false }
}

const fn ratio(name: &'static str, what: &'static str, aim: Aim) -> Target {
    in_unit(name, what, aim, "×")
}

const fn on_second(name: &'static str, what: &'static str, aim: Aim) -> Target {
    Target { name, what, aim, unit: "×", needs_second: true }
}

/// The bare pair is `SET NX PX` and a script that compares and deletes, on a connection of the
/// caller's runtime.
pub const TARGETS: &[Target] = &[
    ratio(
        "uncontended",
        "Uncontended async call: p50 ÷ bare pair; worst of one core, two cores and two workers",
        AtMost(1.10),
    ),
    on_second(
        "uncontended, second server",
        "Uncontended async call on the second server, one core: p50 ÷ bare pair",
        AtMost(1.10),
    ),
    ratio(
        "uncontended, crates",
        "Uncontended async call: p50 ÷ best crate; worse of one and two cores",
        AtMost(1.0),
    ),
    ratio(
        "uncontended, other languages",
        "Uncontended async call: p50 ÷ best library of another language; worse of one and two cores",
        AtMost(1.0),
    ),
    ratio(
        "fenced",
        "Uncontended call with a fencing token: p50 ÷ bare pair; worse of one and two cores",
        AtMost(1.10),
    ),
    ratio(
        "background",
        "Uncontended call with `release_in_background`: p50 ÷ bare pair; worse of one and two cores",
        AtMost(0.60),
    ),
    ratio(
        "background, far",
        "Uncontended call with `release_in_background`, round trip of 1 ms: p50 ÷ bare pair",
        AtMost(0.52),
    ),
    ratio("sync", "Uncontended sync call: p50 ÷ bare pair on a blocking connection", AtMost(1.5)),
    ratio(
        "server CPU",
        "64 tasks: server CPU of a lock ÷ bare pair; worse of one and two cores",
        AtMost(1.10),
    ),
    on_second(
        "server CPU, second server",
        "64 tasks on the second server: server CPU of a lock ÷ bare pair; worse of one and two cores",
        AtMost(0.60),
    ),
    ratio(
        "server CPU, fenced",
        "64 tasks with fencing tokens: server CPU of a lock ÷ bare pair; worse of one and two cores",
        AtMost(1.35),
    ),
    on_second(
        "server CPU, fenced, second server",
        "64 tasks with fencing tokens on the second server: server CPU of a lock ÷ bare pair; worse of one and two cores",
        AtMost(0.80),
    ),
    ratio(
        "64 tasks, one thread",
        "64 tasks on one thread: locks/s ÷ bare pair; worse of one and two cores",
        AtLeast(0.85),
    ),
    ratio("64 tasks, two workers", "64 tasks on two workers: locks/s ÷ bare pair", AtLeast(1.2)),
    ratio(
        "64 tasks, peers",
        "64 tasks: locks/s ÷ best other library; worst of one core, two cores and two workers",
        AtLeast(1.0),
    ),
    on_second(
        "64 tasks, second server",
        "64 tasks on the second server: locks/s ÷ bare pair; worst of one core, two cores and two workers",
        AtLeast(1.0),
    ),
    ratio(
        "64 tasks, fenced, one thread",
        "64 tasks with fencing tokens on one thread: locks/s ÷ bare pair; worse of one and two cores",
        AtLeast(1.3),
    ),
    ratio(
        "64 tasks, fenced, two workers",
        "64 tasks with fencing tokens on two workers: locks/s ÷ bare pair",
        AtLeast(1.0),
    ),
    ratio(
        "client CPU",
        "Uncontended: client CPU of a lock ÷ bare pair; worst of one task, and of 64 tasks on one and two cores",
        AtMost(1.25),
    ),
    ratio(
        "hand-off, 2 waiters",
        "Hand-off, 2 waiters: p50 ÷ direct hand-off by hand; worse of one and two cores",
        AtMost(1.15),
    ),
    ratio(
        "hand-off, 50 waiters",
        "Hand-off, 50 waiters: p50 ÷ direct hand-off by hand; worse of one and two cores",
        AtMost(1.25),
    ),
    ratio(
        "hand-off, 500 waiters",
        "Hand-off, 500 waiters: p50 ÷ direct hand-off by hand; worse of one and two cores",
        AtMost(1.3),
    ),
    ratio(
        "hand-off, 10,000 waiters",
        "Hand-off, 10,000 waiters: p50 ÷ direct hand-off by hand; worse of one and two cores",
        AtMost(1.3),
    ),
    ratio(
        "hand-off, 50 waiters, p99",
        "Hand-off, 50 waiters: p99 ÷ python-redis-lock; worse of one and two cores",
        AtMost(1.0),
    ),
    ratio(
        "flash sale, limit",
        "Flash sale: requests/s ÷ direct hand-off by hand; worse of one and two cores",
        AtLeast(1.0),
    ),
    ratio(
        "flash sale, memory",
        "Flash sale on `memory://`: requests/s ÷ direct hand-off by hand; worse of one and two cores",
        AtLeast(1.5),
    ),
    ratio(
        "flash sale, best peer",
        "Flash sale: requests/s ÷ best other library; worse of one and two cores",
        AtLeast(2.5),
    ),
    ratio(
        "flash sale, best peer's p99",
        "Flash sale: p99 ÷ best other library; worse of one and two cores",
        AtMost(1.0 / 3.0),
    ),
    in_unit("flash sale, sent away", "Flash sale: requests that got no lock", AtMost(0.0), ""),
    in_unit("commands", "Hand-off: commands of an acquisition; most of 2 to 10,000 waiters", AtMost(3.1), ""),
    ratio(
        "counted, server CPU",
        "Uncontended permit or shared lock: server CPU ÷ exclusive lock with a fencing token; worse of the two",
        AtMost(2.0),
    ),
    ratio(
        "readers, Redisson's way",
        "64 readers of one key: locks/s ÷ Redisson's way, by hand",
        AtLeast(1.0),
    ),
    ratio(
        "readers, a writer",
        "A writer among 64 readers: p99 of its wait ÷ Redisson's way, by hand",
        AtMost(0.2),
    ),
    in_unit("permits, commands", "64 tasks, 5 permits: commands of a permit", AtMost(3.1), ""),
    ratio(
        "permits, a semaphore",
        "64 tasks, 5 permits: permits/s ÷ a semaphore within one process",
        AtLeast(0.85),
    ),
    ratio(
        "permits, Redisson's p99",
        "64 tasks, 5 permits: p99 of the wait ÷ Redisson's way, by hand",
        AtMost(1.0),
    ),
    ratio("fleet, own keys", "1,000 managers with a key each: locks/s ÷ 10 managers", AtLeast(0.75)),
    ratio("fleet, one key", "1,000 managers with one key: hand-offs/s ÷ 10 managers", AtLeast(0.85)),
    ratio(
        "fleet, a Cluster",
        "100 managers on a Cluster of three primaries: server CPU of a lock ÷ one server",
        AtMost(1.15),
    ),
    in_unit("fleet, memory", "1,000 managers: server memory of a manager", AtMost(45.0), "kB"),
    in_unit(
        "fleet, back",
        "1,000 managers whose server was killed: time until all have a lock again",
        AtMost(2500.0),
        "ms",
    ),
    in_unit(
        "fleet, connections",
        "1,000 managers whose server was killed: connections that each opened",
        AtMost(3.0),
        "",
    ),
    in_unit(
        "fleet, rolling",
        "1,000 managers, a tenth replaced each second: calls that failed",
        AtMost(0.0),
        "",
    ),
    in_unit("fleet, lost", "A million locks held by ten managers: locks lost", AtMost(0.0), ""),
    // Not worse than before the engine ran on its callers' runtime.
    ratio("quorum of 5", "Quorum of 5: acquire and release ÷ bare pair sent to all five", AtMost(1.15)),
    ratio("quorum of 5, 2 hung", "Quorum of 5, two servers stopped: p99 ÷ p99 with all five up", AtMost(1.2)),
    in_unit(
        "100,000 held, CPU",
        "100,000 held locks, TTL 30 s: CPU for renewals, of a core",
        AtMost(5.69),
        "%",
    ),
    ratio("100,000 held, server", "100,000 held locks: server CPU for renewals ÷ rlock", AtMost(0.8)),
    in_unit("100,000 held, memory", "100,000 held locks: memory of a lock", AtMost(1029.0), "bytes"),
    in_unit("100,000 held, lost", "100,000 held locks: locks lost", AtMost(0.0), ""),
    in_unit(
        "10,000 waiters, memory",
        "10,000 waiters for one lock: memory of a waiter",
        AtMost(1468.0),
        "bytes",
    ),
    in_unit("a poll", "One poll of a guarded body", AtMost(25.0), "ns"),
    ratio("program, size", "A program of a few lines: stripped size ÷ rslock", AtMost(1.0)),
    ratio(
        "program, build",
        "A program of a few lines: CPU time of a cold release build ÷ rslock",
        AtMost(0.9),
    ),
];

/// By the name of a target: why a figure is beyond its aim, where it is.
const REASONS: &[(&str, &str)] = &[
    ("uncontended, crates", "Both send the same two commands, and two runs differ by more than that"),
    (
        "server CPU",
        "Our release also checks for waiters, for the time of a grant, and for tokens that the process has passed on. On two cores it meets the aim",
    ),
    ("server CPU, second server", "Two runs differ by more than that"),
    ("server CPU, fenced, second server", "Two runs differ by more than that"),
    (
        "64 tasks, fenced, one thread",
        "On one core, client and server share the CPU, and a lock with a fencing token takes four commands where the bare pair takes two. On two cores it meets the aim",
    ),
    (
        "hand-off, 2 waiters",
        "On one core, a hand-off takes as long as both processes and the server compute. By hand, that is one short script without a lease. Our script also compares the token, chooses the next holder, limits its claim and names the next waiter. On two cores ours is faster than by hand",
    ),
    (
        "hand-off, 50 waiters, p99",
        "One hand-off in 32 goes to another process. It waits behind the requests of the 31 callers that have joined the queue again since the last one. The other 31 need no server, so our p50 is a twentieth of python-redis-lock's",
    ),
    (
        "counted, server CPU",
        "An exclusive lock with a fencing token needs no script any more, and a permit or a shared lock still needs two. Compared with the scripts that the exclusive lock needed before, it is 1.86 ×",
    ),
    ("permits, a semaphore", "A semaphore within one process sends nothing"),
    (
        "fleet, own keys",
        "1,000 managers are 1,000 threads and connections, which share two cores with the server. What a lock needs is no longer in the CPU caches, so the server takes longer for each lock, too. The other libraries slow down as well",
    ),
    ("fleet, one key", "Each hand-off wakes another one of 1,000 threads"),
    (
        "fleet, a Cluster",
        "Three servers share two cores, so each receives a third of the commands in a batch. Each lock also draws its fencing token with a script, because each slot has a clock",
    ),
    (
        "100,000 held, server",
        "Two of our three commands ask the server to report when another client changes a lock",
    ),
    (
        "a poll",
        "Each poll reads the clock, so that no poll starts after the lease has ended, and reading it takes most of the time",
    ),
];

impl Target {
    pub fn named(name: &str) -> &'static Self {
        TARGETS.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{name:?} is no target"))
    }

    /// Why a figure is beyond the aim; `None` where that is not known.
    pub fn reason(&self) -> Option<&'static str> {
        REASONS.iter().find(|(name, _)| *name == self.name).map(|(_, reason)| *reason)
    }

    pub fn aims_at(&self) -> String {
        let (sign, value) = match self.aim {
            AtMost(value) => ("≤", value),
            AtLeast(value) => ("≥", value),
        };
        format!("{sign} {}", self.in_unit(value))
    }

    pub fn in_unit(&self, value: f64) -> String {
        // Whole numbers are printed as whole numbers.
        let digits = if value.fract() == 0.0 { 0 } else { 2 };
        format!("{value:.digits$} {}", self.unit).trim_end().to_owned()
    }

    pub fn holds(&self, value: f64) -> bool {
        match self.aim {
            AtMost(aim) => value <= aim,
            AtLeast(aim) => value >= aim,
        }
    }

    pub fn verdict(&self, value: f64) -> String {
        let (by, aim) = match self.aim {
            AtMost(aim) => (value - aim, aim),
            AtLeast(aim) => (aim - value, aim),
        };
        match self.holds(value) {
            true => "holds".to_owned(),
            false if aim == 0.0 => format!("**missed** by {}", self.in_unit(by)),
            false => format!("**missed** by {:.1} %", 100.0 * by / aim),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{REASONS, TARGETS, Target};

    #[test]
    fn a_verdict_says_by_how_much_it_was_missed() {
        let verdict = |name: &str, value| Target::named(name).verdict(value);
        assert_eq!(verdict("uncontended", 1.10), "holds");
        assert_eq!(verdict("uncontended", 1.32), "**missed** by 20.0 %");
        assert_eq!(verdict("64 tasks, one thread", 0.85), "holds");
        assert_eq!(verdict("64 tasks, one thread", 0.68), "**missed** by 20.0 %");
        assert_eq!(verdict("flash sale, sent away", 0.0), "holds");
        assert_eq!(verdict("flash sale, sent away", 3.0), "**missed** by 3");
    }

    #[test]
    fn a_reason_is_that_of_a_target() {
        assert!(REASONS.iter().all(|(name, _)| Target::named(name).reason().is_some()));
    }

    #[test]
    fn no_two_have_the_same_name() {
        for target in TARGETS {
            assert_eq!(TARGETS.iter().filter(|one| one.name == target.name).count(), 1, "{}", target.name);
        }
    }
}
