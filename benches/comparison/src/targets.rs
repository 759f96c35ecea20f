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
        "Annotated async fn, uncontended: p50 ÷ the bare pair; the worst of one core, two cores and two workers",
        AtMost(1.10),
    ),
    on_second("uncontended, second server", "The same on the second server, one core", AtMost(1.10)),
    ratio(
        "uncontended, crates",
        "Its p50 ÷ the best crate's; the worse of one core and two cores",
        AtMost(1.0),
    ),
    ratio(
        "uncontended, other languages",
        "Its p50 ÷ the best of another language; the worse of one core and two cores",
        AtMost(1.0),
    ),
    ratio(
        "fenced",
        "With a fencing token, uncontended: p50 ÷ the bare pair; the worse of one core and two cores",
        AtMost(1.10),
    ),
    ratio(
        "background",
        "Without waiting for the release (`release_in_background`): p50 ÷ the bare pair; the worse of one core and two cores",
        AtMost(0.60),
    ),
    ratio(
        "background, far",
        "The same over a network with a round trip of a millisecond, by a proxy",
        AtMost(0.52),
    ),
    ratio("sync", "Annotated fn, uncontended: p50 ÷ the bare pair on a blocking connection", AtMost(1.5)),
    ratio(
        "server CPU",
        "Server CPU for an uncontended lock of 64 tasks ÷ the bare pair; the worse of one core and two cores",
        AtMost(1.10),
    ),
    on_second("server CPU, second server", "The same on the second server", AtMost(0.60)),
    ratio("server CPU, fenced", "The same with a fencing token", AtMost(1.35)),
    on_second(
        "server CPU, fenced, second server",
        "The same with a fencing token on the second server",
        AtMost(0.80),
    ),
    ratio(
        "64 tasks, one thread",
        "Locks per second of 64 tasks ÷ the bare pair, one thread; the worse of one core and two cores",
        AtLeast(0.85),
    ),
    ratio("64 tasks, two workers", "The same on two workers", AtLeast(1.2)),
    ratio(
        "64 tasks, peers",
        "The same ÷ the best peer's; the worst of one core, two cores and two workers",
        AtLeast(1.0),
    ),
    on_second(
        "64 tasks, second server",
        "The same ÷ the bare pair on the second server; the worst of these three places",
        AtLeast(1.0),
    ),
    ratio(
        "64 tasks, fenced, one thread",
        "Locks per second of 64 tasks with a fencing token ÷ the bare pair, one thread; the worse of one core and two cores",
        AtLeast(1.3),
    ),
    ratio("64 tasks, fenced, two workers", "The same on two workers", AtLeast(1.0)),
    ratio(
        "client CPU",
        "Client CPU for an uncontended lock ÷ the bare pair, one thread; the worst of one task and of 64 on one core and two cores",
        AtMost(1.25),
    ),
    ratio(
        "hand-off, 2 waiters",
        "Hand-off on loopback, 2 waiters: p50 ÷ direct hand-off, written by hand; the worse of one core and two cores",
        AtMost(1.15),
    ),
    ratio("hand-off, 50 waiters", "The same with 50 waiters", AtMost(1.25)),
    ratio("hand-off, 500 waiters", "The same with 500 waiters", AtMost(1.3)),
    ratio("hand-off, 10,000 waiters", "The same with 10,000 waiters", AtMost(1.3)),
    ratio(
        "hand-off, 50 waiters, p99",
        "p99 with 50 waiters ÷ that of python-redis-lock; the worse of one core and two cores",
        AtMost(1.0),
    ),
    ratio(
        "flash sale, limit",
        "Flash sale: requests per second ÷ direct hand-off, written by hand; the worse of one core and two cores",
        AtLeast(1.0),
    ),
    ratio("flash sale, memory", "The same on `memory://`", AtLeast(1.5)),
    ratio(
        "flash sale, best peer",
        "Flash sale: requests per second ÷ the best peer's; the worse of both",
        AtLeast(2.5),
    ),
    ratio("flash sale, best peer's p99", "Flash sale: p99 ÷ the best peer's", AtMost(1.0 / 3.0)),
    in_unit("flash sale, sent away", "Flash sale: requests that got no lock", AtMost(0.0), ""),
    in_unit("commands", "Commands for an acquisition; the most of 2 to 10,000 waiters", AtMost(3.1), ""),
    ratio(
        "counted, server CPU",
        "Server CPU for a lock that several may hold, which nobody disturbs ÷ an exclusive one with a fencing token; the worse of \
         shared and permits",
        AtMost(2.0),
    ),
    ratio(
        "readers, Redisson's way",
        "64 readers of one key: locks per second ÷ Redisson's way, written by hand",
        AtLeast(1.0),
    ),
    ratio("readers, a writer", "A writer beside them: p99 of its wait ÷ with Redisson's way", AtMost(0.2)),
    in_unit("permits, commands", "64 tasks on 5 permits: commands for each", AtMost(3.1), ""),
    ratio(
        "permits, a semaphore",
        "The same: permits per second ÷ a semaphore within one process",
        AtLeast(0.85),
    ),
    ratio("permits, Redisson's p99", "The same: p99 of a wait ÷ with Redisson's way", AtMost(1.0)),
    ratio("fleet, own keys", "1,000 managers: locks per second ÷ those of 10", AtLeast(0.75)),
    ratio("fleet, one key", "1,000 managers: hand-offs of one key per second ÷ those of 10", AtLeast(0.85)),
    ratio(
        "fleet, a Cluster",
        "A Cluster of three primaries: server CPU for a lock of 100 managers ÷ one server",
        AtMost(1.15),
    ),
    in_unit("fleet, memory", "1,000 managers: memory of the server for each", AtMost(45.0), "kB"),
    in_unit(
        "fleet, back",
        "1,000 managers whose server was killed: until all work again, once it is back",
        AtMost(2500.0),
        "ms",
    ),
    in_unit("fleet, connections", "The same: connections that each opened for it", AtMost(3.0), ""),
    in_unit(
        "fleet, rolling",
        "A tenth of 1,000 managers replaced each second: calls that failed",
        AtMost(0.0),
        "",
    ),
    in_unit(
        "fleet, lost",
        "A million locks held by ten managers: lost while nothing happens",
        AtMost(0.0),
        "",
    ),
    // Not worse than before the engine ran on its callers' runtime.
    ratio(
        "quorum of 5",
        "Quorum of 5: acquire and release ÷ the bare pair sent to all five at once",
        AtMost(1.15),
    ),
    ratio("quorum of 5, 2 hung", "Quorum of 5, two of them hung: p99 ÷ p99 with all well", AtMost(1.2)),
    in_unit(
        "100,000 held, CPU",
        "100,000 held locks with ttl = 30 s: CPU for their renewals, of a core",
        AtMost(5.69),
        "%",
    ),
    ratio(
        "100,000 held, server",
        "100,000 held locks: CPU of the server for their renewals ÷ rlock's",
        AtMost(0.8),
    ),
    in_unit("100,000 held, memory", "100,000 held locks: memory for each", AtMost(1029.0), "bytes"),
    in_unit("100,000 held, lost", "100,000 held locks: lost while nothing happens", AtMost(0.0), ""),
    in_unit(
        "10,000 waiters, memory",
        "10,000 waiters for one lock: memory for each",
        AtMost(1468.0),
        "bytes",
    ),
    in_unit("a poll", "A poll of a guarded body", AtMost(25.0), "ns"),
    ratio("program, size", "A program of a few lines: KiB stripped ÷ rslock's", AtMost(1.0)),
    ratio("program, build", "The same: processor time of a cold release build ÷ rslock's", AtMost(0.9)),
];

/// By the name of a target: why a figure is beyond its aim, where it is.
const REASONS: &[(&str, &str)] = &[
    ("uncontended, crates", "both send the same two commands; two runs differ by more"),
    (
        "server CPU",
        "our release also knows the mark of a lock that others wait for, the time of a grant, and the tokens that a process has passed a lock on to; with a core each it is within the aim",
    ),
    ("server CPU, second server", "two runs differ by more"),
    ("server CPU, fenced, second server", "two runs differ by more"),
    (
        "64 tasks, fenced, one thread",
        "on one core, client and server share what there is, and a lock with a fencing token has four commands where the bare pair has two; with a core each it is beyond the aim",
    ),
    (
        "hand-off, 2 waiters",
        "on one core, a step is what both processes and the server compute. By hand that is one short script without a lease. Ours compares, names the next holder, when its claim ends, and who comes next; with a core each it is quicker than by hand",
    ),
    (
        "hand-off, 50 waiters, p99",
        "one step in 32 goes from one process to another, behind the requests with which 31 callers have joined the queue again since the last one. The others need no server: the median is a twentieth of theirs",
    ),
    (
        "counted, server CPU",
        "an exclusive lock with a fencing token needs no script any more, and one that several may hold still needs two. Compared with the scripts that it needed before, it is 1.86 ×",
    ),
    ("permits, a semaphore", "a semaphore within one process sends nothing"),
    (
        "fleet, own keys",
        "a thousand managers are a thousand threads and connections, which share two cores with the server: what each lock needs is no longer in the caches of the processor, and the server, too, takes longer for it. With the peers it is the same",
    ),
    ("fleet, one key", "the same: each step wakes another one of a thousand threads"),
    (
        "fleet, a Cluster",
        "three servers share the cores of one, so each has a third of the commands in a batch; and each lock draws its fencing token by a script, because each slot has a clock",
    ),
    (
        "100,000 held, server",
        "we also have the server tell us when another client takes a lock away, which is two of three commands",
    ),
    (
        "a poll",
        "each poll reads a clock, so that none begins behind the end of the lease, and the read alone takes most of that",
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
