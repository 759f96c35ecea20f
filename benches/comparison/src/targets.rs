//! The targets, and how near the last run came.

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
}

const fn ratio(name: &'static str, what: &'static str, aim: Aim) -> Target {
    Target { name, what, aim, unit: "×" }
}

pub const TARGETS: &[Target] = &[
    ratio(
        "uncontended, async",
        "Uncontended, async: acquire and release ÷ the two bare commands on the same kind of connection",
        Aim::AtMost(1.05),
    ),
    ratio(
        "uncontended, sync",
        "Uncontended, sync: acquire and release ÷ the two bare commands on the same kind of connection",
        Aim::AtMost(1.15),
    ),
    ratio(
        "throughput, 64 tasks",
        "Locks per second of 64 tasks on two threads ÷ the bare commands of 64 tasks, pipelined on one connection",
        Aim::AtLeast(0.85),
    ),
    ratio(
        "throughput, 64 tasks, one thread",
        "Locks per second of 64 tasks on one thread ÷ the bare commands of 64 tasks, pipelined on one connection",
        Aim::AtLeast(0.85),
    ),
    ratio(
        "client CPU",
        "Client CPU for an uncontended lock ÷ the two bare commands on the same kind of connection",
        Aim::AtMost(1.5),
    ),
    ratio(
        "client CPU, caller's runtime",
        "Client CPU for an uncontended lock ÷ the two bare commands on a connection of the caller's own runtime",
        Aim::AtMost(1.5),
    ),
    ratio(
        "hand-off, 1 ms",
        "Hand-off at a round trip of 1 ms ÷ that round trip; the worst of 2, 50 and 500 waiters",
        Aim::AtMost(1.25),
    ),
    ratio("flash sale, best peer", "Flash sale: requests per second ÷ the best peer's", Aim::AtLeast(2.5)),
    ratio("flash sale, best peer's p99", "Flash sale: p99 ÷ the best peer's", Aim::AtMost(1.0 / 3.0)),
    Target {
        name: "flash sale, sent away",
        what: "Flash sale: requests that got no lock",
        aim: Aim::AtMost(0.0),
        unit: "",
    },
    ratio(
        "flash sale, limit",
        "Flash sale: requests per second ÷ direct hand-off, written by hand",
        Aim::AtLeast(0.9),
    ),
    Target {
        name: "commands, 10,000 waiters",
        what: "Commands per acquisition while 10,000 wait",
        aim: Aim::AtMost(3.1),
        unit: "",
    },
    ratio(
        "quorum of 5",
        "Quorum of 5: acquire and release ÷ the bare commands sent to all five at once",
        Aim::AtMost(1.15),
    ),
    ratio("quorum of 5, 2 hung", "Quorum of 5, two of them hung: p99 ÷ p99 with all well", Aim::AtMost(1.2)),
    Target {
        name: "100,000 held, CPU",
        what: "100,000 held locks with ttl = 30 s: CPU for their renewals, of a core",
        aim: Aim::AtMost(5.0),
        unit: "%",
    },
    Target {
        name: "100,000 held, memory",
        what: "100,000 held locks: memory for each",
        aim: Aim::AtMost(1.0),
        unit: "KiB",
    },
    Target {
        name: "100,000 held, lost",
        what: "100,000 held locks: lost while nothing happens",
        aim: Aim::AtMost(0.0),
        unit: "",
    },
];

impl Target {
    pub fn named(name: &str) -> &'static Self {
        TARGETS.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{name:?} is no target"))
    }

    pub fn aims_at(&self) -> String {
        let (sign, value) = match self.aim {
            Aim::AtMost(value) => ("≤", value),
            Aim::AtLeast(value) => ("≥", value),
        };
        format!("{sign} {}", self.in_unit(value))
    }

    pub fn in_unit(&self, value: f64) -> String {
        // Whole numbers are printed as whole numbers.
        let digits = if value.fract() == 0.0 { 0 } else { 2 };
        format!("{value:.digits$} {}", self.unit).trim_end().to_owned()
    }

    pub fn verdict(&self, value: f64) -> String {
        let (holds, by, aim) = match self.aim {
            Aim::AtMost(aim) => (value <= aim, value - aim, aim),
            Aim::AtLeast(aim) => (value >= aim, aim - value, aim),
        };
        match holds {
            true => "holds".to_owned(),
            false if aim == 0.0 => format!("**missed** by {}", self.in_unit(by)),
            false => format!("**missed** by {:.1} %", 100.0 * by / aim),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TARGETS, Target};

    #[test]
    fn a_verdict_says_by_how_much_it_was_missed() {
        let verdict = |name: &str, value| Target::named(name).verdict(value);
        assert_eq!(verdict("uncontended, async", 1.05), "holds");
        assert_eq!(verdict("uncontended, async", 1.26), "**missed** by 20.0 %");
        assert_eq!(verdict("throughput, 64 tasks", 0.85), "holds");
        assert_eq!(verdict("throughput, 64 tasks", 0.68), "**missed** by 20.0 %");
        assert_eq!(verdict("flash sale, sent away", 0.0), "holds");
        assert_eq!(verdict("flash sale, sent away", 3.0), "**missed** by 3");
    }

    #[test]
    fn no_two_have_the_same_name() {
        for target in TARGETS {
            assert_eq!(TARGETS.iter().filter(|one| one.name == target.name).count(), 1, "{}", target.name);
        }
    }
}
