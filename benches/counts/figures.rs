//! `figures.txt`: one line for each figure, below lines that say of which builds they are.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ways::{BY_HAND, WAYS, Way};

/// How much a figure may grow, in thousandths.
const MORE: u64 = 20;

/// How much more is allowed where the server or the processor is another one: of the ratio to what is written by hand.
const MORE_ELSEWHERE: u64 = 50;

/// How much more is allowed for a way whose runs differ.
const MORE_WHERE_RUNS_DIFFER: u64 = 100;

const HEAD: &str = "\
# Instructions of one lock, counted by `cargo bench --bench counts`, which explains them; `-- --write` writes this file.
# by-hand and hand-…: what is indispensable, written by hand. Ratios to these are compared where the server or the processor is
# another one. A renewal is that of one of 64 locks that are due together; a poll is one of a body.
";

const BUILDS: [&str; 3] = ["compiler", "server", "processor"];

pub(crate) struct Figures {
    /// The compiler, the server and the processor, by which libraries choose their way to copy bytes.
    builds: [String; 3],
    all: Vec<Figure>,
}

struct Figure {
    way: String,
    of: String,
    count: u64,
}

impl Figures {
    /// Those of the file.
    pub(crate) fn read() -> Self {
        Self::parse(&fs::read_to_string(file()).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let build = |what: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
            line.unwrap_or("?").to_owned()
        };
        let all = text.lines().filter_map(|line| {
            let [way, of, count] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
            Some(Figure { way: way.to_owned(), of: of.to_owned(), count: count.parse().ok()? })
        });
        Self { builds: BUILDS.map(build), all: all.collect() }
    }

    /// None yet, of the builds that are here.
    pub(crate) fn none_yet() -> Self {
        let says = |program: &str| {
            let output = Command::new(program).arg("--version").output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let processor = name.map_or("?", |(_, name)| name).to_owned();
        Self { builds: [says("rustc"), says("redis-server"), processor], all: Vec::new() }
    }

    pub(crate) fn add(&mut self, way: &str, of: &str, count: u64) {
        self.all.push(Figure { way: way.to_owned(), of: of.to_owned(), count });
    }

    /// These, judged by those of the file.
    pub(crate) fn beside<'a>(&'a self, file: &'a Self) -> Judged<'a> {
        Judged { now: self, file }
    }

    /// Replaces those that were counted now.
    pub(crate) fn take(&mut self, now: Self) {
        self.builds = now.builds;
        for figure in now.all {
            match self.all.iter_mut().find(|one| (&one.way, &one.of) == (&figure.way, &figure.of)) {
                Some(one) => one.count = figure.count,
                None => self.all.push(figure),
            }
        }
    }

    pub(crate) fn write(&self) {
        let builds = BUILDS.iter().zip(&self.builds).map(|(what, build)| format!("{what}: {build}\n"));
        let builds: String = builds.collect();
        let lines = self.all.iter().map(|one| format!("{:<12} {:<7} {:>7}\n", one.way, one.of, one.count));
        let lines: String = lines.collect();
        let text = format!("{HEAD}{builds}{lines}");
        fs::write(file(), text).unwrap();
    }

    /// The server and the processor, in words.
    pub(crate) fn builds(&self) -> String {
        let server = self.builds[1].split_whitespace().nth(2).unwrap_or("?").trim_start_matches("v=");
        format!("Redis {server} on {}", self.builds[2])
    }

    fn find(&self, figure: &Figure) -> Option<u64> {
        self.count(&figure.way, &figure.of)
    }

    /// The instructions of what this way is compared with, never zero.
    fn by_hand(&self, way: &str, of: &str) -> Option<u64> {
        let beside = beside(way).filter(|_| of == "server").map_or(BY_HAND, |(name, _)| name);
        self.count(beside, of).filter(|count| *count > 0)
    }

    pub(crate) fn count(&self, way: &str, of: &str) -> Option<u64> {
        let found = self.all.iter().find(|one| one.way == way && one.of == of);
        found.map(|found| found.count)
    }
}

fn way(name: &str) -> Option<&'static Way> {
    WAYS.iter().find(|way| way.name == name)
}

fn beside(name: &str) -> Option<(&'static str, u64)> {
    way(name).and_then(|way| way.beside)
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/counts/figures.txt")
}

/// The figures of now, beside those of the file.
pub(crate) struct Judged<'a> {
    now: &'a Figures,
    file: &'a Figures,
}

impl Judged<'_> {
    pub(crate) const ADVICE: &'static str = "A lock costs more instructions than the file says. Where they are is in \
        target/tmp/counts (callgrind_annotate). Where it has to be so, `cargo bench --bench counts -- --write` \
        changes the file, and the commit says why.";

    pub(crate) fn have_grown(&self) -> bool {
        self.now.all.iter().any(|one| self.verdict(one).starts_with("GROWN"))
    }

    fn verdict(&self, now: &Figure) -> String {
        let [is_same_compiler, is_same_server, is_same_processor] =
            [0, 1, 2].map(|build| self.now.builds[build] == self.file.builds[build]);
        // The repository names the compiler: who changes it changes the figures with it.
        if !is_same_compiler {
            return "GROWN or not: the file is of another compiler".to_owned();
        }
        let Some(before) = self.file.find(now) else { return "GROWN: it is not in the file".to_owned() };
        let more = |more| {
            if way(&now.way).is_some_and(|way| way.varies) { MORE_WHERE_RUNS_DIFFER } else { more }
        };
        // A machine brings its own server, each build of which executes other instructions.
        if is_same_processor && (is_same_server || now.of == "client") {
            return judged(now.count, before, more(MORE), &before.to_string());
        }
        let [by_hand, by_hand_before] =
            [self.now, self.file].map(|figures| figures.by_hand(&now.way, &now.of));
        let (Some(by_hand), Some(by_hand_before)) = (by_hand, by_hand_before) else {
            return "GROWN or not: the file has no lock by hand".to_owned();
        };
        let here = before * by_hand / by_hand_before;
        judged(now.count, here, more(MORE_ELSEWHERE), &format!("{before}, which is {here} here"))
    }

    /// How many times it is what is indispensable; empty where nothing is compared with it.
    fn ratio(&self, now: &Figure) -> String {
        let Some((name, at_most)) = beside(&now.way).filter(|_| now.of == "server") else {
            return String::new();
        };
        let Some(by_hand) = self.now.by_hand(&now.way, &now.of) else { return String::new() };
        let hundredths = (now.count * 100).div_ceil(by_hand);
        let [ratio, aim] =
            [hundredths, at_most].map(|hundredths| format!("{}.{:02}", hundredths / 100, hundredths % 100));
        let verdict = if hundredths > at_most { "MISSED" } else { "holds" };
        format!("{ratio} × {name}, aim ≤ {aim} × {verdict}; ")
    }
}

/// What a count says beside the one that is expected, which may grow by so many thousandths.
fn judged(now: u64, expected: u64, more: u64, in_file: &str) -> String {
    if now * 1000 > expected * (1000 + more) {
        format!("GROWN by more than {} %: the file says {in_file}", more / 10)
    } else if now * (1000 + more) < expected * 1000 {
        format!("less: the file says {in_file}, --write would keep it")
    } else {
        format!("as in the file: {in_file}")
    }
}

impl Display for Judged<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.now.builds.join("\n"))?;
        for one in &self.now.all {
            let (ratio, verdict) = (self.ratio(one), self.verdict(one));
            writeln!(f, "{:<12} {:<7} {:>7}  {ratio}{verdict}", one.way, one.of, one.count)?;
        }
        Ok(())
    }
}
