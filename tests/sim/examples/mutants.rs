//! Puts each defect of `redlocked_sim::mutants` back into a copy of the repository, one at a time,
//! and looks whether the simulation finds it: `cargo run -p redlocked-sim --example mutants --
//! [--seconds 60] [--about NAME] [NAME…]`.
//!
//! The copy and its builds are in `target/mutants`, and what each run printed, too. `NAME` is a
//! mutant or the start of its name; without one, the copy is run as it is, and then with each
//! mutant. A mutant of scripts needs no build: the simulated servers execute its scripts. The exit
//! code is 1 when a mutant was not found, or the copy without one broke a property.
#![allow(clippy::print_stdout, reason = "its table")]

use std::collections::HashSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kit::{Arguments, or_usage};
use redlocked_sim::mutants::{self, Mutant};
use redlocked_sim::plan::Plan;

/// A run may take so much longer than it was told, until it counts as stuck.
const GRACE: Duration = Duration::from_mins(1);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let usage = "usage: mutants [--seconds N] [--chaos | --about NAME] [NAME]...";
    let mut words = Arguments::of_this_process();
    let is_chaos = words.flag("--chaos");
    let (seconds, about, chosen) = or_usage(arguments(words), usage);
    let bench = Workbench::new(about)?;
    bench.copy()?;
    if is_chaos {
        return chaos(&bench, seconds, &chosen);
    }
    let mut missed = Vec::new();
    println!("{:>9} {:>10}  mutant", "seconds", "schedules");
    if chosen.len() == mutants::all().count() {
        let row = Row { name: "(none)", outcome: bench.run("none", seconds, None)? };
        println!("{row}");
        if !matches!(row.outcome, Outcome::Clean { .. }) {
            missed.push(row.name);
        }
    }
    // Those of scripts first: they share a build.
    let (scripts, others): (Vec<&Mutant>, Vec<&Mutant>) =
        chosen.into_iter().partition(|mutant| mutant.is_of_scripts());
    for mutant in scripts.into_iter().chain(others) {
        let outcome = if mutant.is_of_scripts() {
            bench.run(mutant.name, seconds, Some(mutant))?
        } else {
            bench.apply(mutant)?;
            let outcome = bench.run(mutant.name, seconds, None);
            bench.restore(mutant)?;
            outcome?
        };
        let row = Row { name: mutant.name, outcome };
        println!("{row}");
        if !matches!(row.outcome, Outcome::Found { .. }) {
            println!("{:>22}  {} Expected: {}.", "", mutant.wrong, mutant.violates);
            missed.push(row.name);
        }
    }
    Ok(end(&missed))
}

fn end(missed: &[&str]) -> ExitCode {
    if missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("{} not as they should be: {}", missed.len(), missed.join(" "));
    ExitCode::FAILURE
}

/// Each with its test of `tests/chaos`.
fn chaos(bench: &Workbench, seconds: u64, chosen: &[&Mutant]) -> Result<ExitCode, Box<dyn Error>> {
    let mut missed = Vec::new();
    println!("{:>9}  mutant and test", "seconds");
    for (name, test) in mutants::FOUND_BY_CHAOS {
        let Some(mutant) = chosen.iter().find(|mutant| mutant.name == *name) else { continue };
        bench.apply(mutant)?;
        let outcome = bench.chaos(mutant.name, test, seconds);
        bench.restore(mutant)?;
        let outcome = outcome?;
        let seconds = match &outcome {
            Outcome::Found { after, .. } => format!("{:.1}", after.as_secs_f64()),
            _ => "-".to_owned(),
        };
        println!("{seconds:>9}  {name}, {test}: {}", what(&outcome));
        if !matches!(outcome, Outcome::Found { .. }) {
            println!("{:>11}{}", "", mutant.wrong);
            missed.push(*name);
        }
    }
    Ok(end(&missed))
}

fn arguments(mut words: Arguments) -> Result<(u64, Option<String>, Vec<&'static Mutant>), String> {
    let names = Plan::matters().collect::<Vec<_>>().join(", ");
    let about: Option<String> = words.value("--about", &names)?;
    if let Some(about) = about.as_ref().filter(|about| Plan::about(about, 0).is_none()) {
        return Err(format!("`--about {about}` is not one of {names}"));
    }
    let seconds: Option<NonZero<u64>> = words.value("--seconds", "a whole number of seconds from 1 on")?;
    let mut chosen = Vec::new();
    for word in words.names() {
        let before = chosen.len();
        chosen.extend(mutants::all().filter(|mutant| mutant.name.starts_with(&word)));
        if chosen.len() == before {
            let names: Vec<_> = mutants::all().map(|mutant| mutant.name).collect();
            return Err(format!("no mutant is called `{word}`; there are:\n{}", names.join("\n")));
        }
    }
    words.end()?;
    if chosen.is_empty() {
        chosen.extend(mutants::all());
    }
    Ok((seconds.map_or(60, NonZero::get), about, chosen))
}

struct Row {
    name: &'static str,
    outcome: Outcome,
}

enum Outcome {
    Found { after: Duration, output: String },
    Clean { output: String },
    DoesNotBuild,
    Stuck,
    Failed(ExitStatus),
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, outcome } = self;
        let (seconds, output) = match outcome {
            Outcome::Found { after, output } => (format!("{:.1}", after.as_secs_f64()), &**output),
            Outcome::Clean { output } => ("-".to_owned(), &**output),
            Outcome::DoesNotBuild | Outcome::Stuck | Outcome::Failed(_) => ("-".to_owned(), ""),
        };
        write!(f, "{seconds:>9} {:>10}  {name}: {}", schedules(output).unwrap_or("-"), what(outcome))
    }
}

fn what(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Found { output, .. } => violation(output).to_owned(),
        Outcome::Clean { .. } => "NOTHING FOUND".to_owned(),
        Outcome::DoesNotBuild => "DOES NOT BUILD".to_owned(),
        Outcome::Stuck => "DOES NOT END".to_owned(),
        Outcome::Failed(status) => format!("FAILED, {status}"),
    }
}

/// The number in front of the word "schedules".
fn schedules(output: &str) -> Option<&str> {
    let words: Vec<&str> = output.split_whitespace().collect();
    let pair = words.windows(2).rev().find(|pair| {
        pair[1].starts_with("schedule") && pair[0].starts_with(|first: char| first.is_ascii_digit())
    })?;
    Some(pair[0])
}

/// The line that names the violation.
fn violation(output: &str) -> &str {
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    lines
        .clone()
        .find(|line| line.to_lowercase().contains("violat"))
        .or_else(|| lines.next())
        .unwrap_or("?")
        .trim()
}

/// The copy of the repository, and where it is built.
struct Workbench {
    root: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    outputs: PathBuf,
    /// Plans about this alone.
    about: Option<String>,
}

impl Workbench {
    fn new(about: Option<String>) -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let all = root.join("target/mutants");
        let [tree, target, outputs] = ["tree", "target", "output"].map(|name| all.join(name));
        Ok(Self { root, tree, target, outputs, about })
    }

    /// Makes the copy the same as the tracked files. A file that is the same stays, so that a build
    /// may reuse what it has.
    fn copy(&self) -> Result<(), Box<dyn Error>> {
        let listed = Command::new("git").current_dir(&self.root).args(["ls-files", "-z"]).output()?;
        if !listed.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)).into());
        }
        let listed = String::from_utf8(listed.stdout)?;
        let tracked: HashSet<PathBuf> = listed
            .split_terminator('\0')
            .map(PathBuf::from)
            .filter(|file| self.root.join(file).is_file())
            .collect();
        for file in &tracked {
            write_if_other(&self.tree.join(file), &fs::read(self.root.join(file))?)?;
        }
        fs::create_dir_all(&self.outputs)?;
        remove_others(&self.tree, &self.tree, &tracked)?;
        Ok(())
    }

    fn apply(&self, mutant: &Mutant) -> Result<(), Box<dyn Error>> {
        for edit in mutant.edits {
            let path = self.tree.join(edit.file);
            let text = fs::read_to_string(&path)?;
            if text.matches(edit.from).count() != 1 {
                return Err(format!("{}: not once in {}: {:?}", mutant.name, edit.file, edit.from).into());
            }
            fs::write(path, text.replace(edit.from, edit.to))?;
        }
        Ok(())
    }

    fn restore(&self, mutant: &Mutant) -> io::Result<()> {
        for edit in mutant.edits {
            write_if_other(&self.tree.join(edit.file), &fs::read(self.root.join(edit.file))?)?;
        }
        Ok(())
    }

    /// Builds something of the copy. `None` when that fails; else what cargo said.
    fn build(&self, name: &str, what: &[&str]) -> io::Result<Option<String>> {
        let log = self.outputs.join(format!("{name}.build"));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .current_dir(&self.tree)
            .args(what)
            .args(["--release", "--locked", "--target-dir"])
            .arg(&self.target)
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_INCREMENTAL", "1")
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .status()?;
        if built.success() { fs::read_to_string(log).map(Some) } else { Ok(None) }
    }

    /// Builds the simulation of the copy and runs it, perhaps with the scripts of a mutant.
    fn run(&self, name: &str, seconds: u64, scripts: Option<&Mutant>) -> io::Result<Outcome> {
        if self.build(name, &["build", "-p", "redlocked-sim", "--example", "simulate"])?.is_none() {
            return Ok(Outcome::DoesNotBuild);
        }
        let mut simulation = Command::new(self.target.join("release/examples/simulate"));
        simulation
            .args(["--seconds", &seconds.to_string(), "--threads", "1"])
            .args(self.about.iter().flat_map(|about| ["--about", about]))
            .args(scripts.iter().flat_map(|mutant| ["--mutant", mutant.name]));
        let (ended, output, _) = self.watch(name, seconds, simulation)?;
        Ok(match ended.map(|(after, status)| (after, status, status.code())) {
            None => Outcome::Stuck,
            Some((_, _, Some(0))) => Outcome::Clean { output },
            Some((after, _, Some(1))) => Outcome::Found { after, output },
            Some((_, status, _)) => Outcome::Failed(status),
        })
    }

    /// Builds the chaos suite of the copy and runs that test until it finds something.
    fn chaos(&self, name: &str, test: &str, seconds: u64) -> io::Result<Outcome> {
        let Some(said) = self.build(name, &["test", "-p", "redlocked", "--test", "chaos", "--no-run"])?
        else {
            return Ok(Outcome::DoesNotBuild);
        };
        let executable = said.lines().rev().find(|line| line.trim_start().starts_with("Executable"));
        let Some(path) = executable.and_then(|line| line.split(['(', ')']).nth(1)) else {
            return Err(io::Error::other(format!("cargo names no executable: {said}")));
        };
        let mut chaos = Command::new(self.tree.join(path));
        chaos
            .args(["--exact", test, "--nocapture"])
            .env("CHAOS_STOP", "1")
            .env("CHAOS_SECONDS", seconds.to_string());
        let (ended, output, told) = self.watch(name, seconds, chaos)?;
        // "after 4.2s: what it has found"
        let found = told.lines().find_map(|line| {
            let (after, what) = line.strip_prefix("after ")?.split_once("s: ")?;
            Some((Duration::try_from_secs_f64(after.parse().ok()?).ok()?, what.to_owned()))
        });
        let has_run = output.contains("running 1 test");
        Ok(match (ended, found) {
            (None, _) => Outcome::Stuck,
            (Some((_, status)), Some((after, what))) if status.code() == Some(101) => {
                Outcome::Found { after, output: what }
            }
            (Some((_, status)), None) if status.success() && has_run => Outcome::Clean { output },
            (Some((_, status)), _) => Outcome::Failed(status),
        })
    }

    /// Runs that program: after what time it has ended, and what it has printed. Without the
    /// former, it was killed at its limit.
    #[expect(clippy::type_complexity, reason = "read in two places")]
    fn watch(
        &self,
        name: &str,
        seconds: u64,
        mut program: Command,
    ) -> io::Result<(Option<(Duration, ExitStatus)>, String, String)> {
        let files = ["txt", "stderr"].map(|kind| self.outputs.join(format!("{name}.{kind}")));
        let start = Instant::now();
        let mut child = program
            .current_dir(&self.tree)
            .stdin(Stdio::null())
            .stdout(File::create(&files[0])?)
            .stderr(File::create(&files[1])?)
            .spawn()?;
        let limit = Duration::from_secs(seconds) + GRACE;
        let mut ended = None;
        while ended.is_none() && start.elapsed() <= limit {
            thread::sleep(Duration::from_millis(20));
            ended = child.try_wait()?.map(|status| (start.elapsed(), status));
        }
        if ended.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let [output, told] =
            files.map(|file| fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned()));
        Ok((ended, output?, told?))
    }
}

fn write_if_other(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

/// Removes what was tracked at an earlier run.
fn remove_others(tree: &Path, folder: &Path, tracked: &HashSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name() != Some(OsStr::new("target")) {
            remove_others(tree, &path, tracked)?;
        } else if path.is_file() && path.strip_prefix(tree).is_ok_and(|file| !tracked.contains(file)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
