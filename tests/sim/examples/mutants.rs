//! Puts each defect of `redlocked_sim::mutants` back into a copy of the repository, one at a time, and looks whether the
//! simulation finds it: `cargo run -p redlocked-sim --example mutants -- [--seconds 60] [NAME…]`.
//!
//! The copy and its builds are in `target/mutants`, and what each run printed, too. `NAME` is a mutant or the start of
//! its name; without one, the copy is run as it is, and then with each mutant. A mutant of scripts needs no build: the
//! simulated servers execute its scripts. The exit code is 1 when a mutant was not found, or the copy without one broke
//! a property.
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

/// A run may take so much longer than it was told, until it counts as stuck.
const GRACE: Duration = Duration::from_mins(1);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let usage = "usage: mutants [--seconds N] [NAME]...";
    let (seconds, chosen) = or_usage(arguments(Arguments::of_this_process()), usage);
    let bench = Workbench::new()?;
    bench.copy()?;
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
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} not as they should be: {}", missed.len(), missed.join(" "));
    Ok(ExitCode::FAILURE)
}

fn arguments(mut words: Arguments) -> Result<(u64, Vec<&'static Mutant>), String> {
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
    Ok((seconds.map_or(60, NonZero::get), chosen))
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
        write!(f, "{seconds:>9} {:>10}  {name}: ", schedules(output).unwrap_or("-"))?;
        match outcome {
            Outcome::Found { output, .. } => f.write_str(violation(output)),
            Outcome::Clean { .. } => f.write_str("NOTHING FOUND"),
            Outcome::DoesNotBuild => f.write_str("DOES NOT BUILD"),
            Outcome::Stuck => f.write_str("DOES NOT END"),
            Outcome::Failed(status) => write!(f, "FAILED, {status}"),
        }
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
}

impl Workbench {
    fn new() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let all = root.join("target/mutants");
        Ok(Self { root, tree: all.join("tree"), target: all.join("target"), outputs: all.join("output") })
    }

    /// Makes the copy the same as the tracked files. A file that is the same stays, so that a build may reuse what it has.
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

    /// Builds the simulation of the copy and runs it, perhaps with the scripts of a mutant.
    fn run(&self, name: &str, seconds: u64, scripts: Option<&Mutant>) -> io::Result<Outcome> {
        let log = self.outputs.join(format!("{name}.build"));
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .current_dir(&self.tree)
            .args(["build", "--release", "--locked", "-p", "redlocked-sim", "--example", "simulate"])
            .arg("--target-dir")
            .arg(&self.target)
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_INCREMENTAL", "1")
            .stdout(Stdio::null())
            .stderr(File::create(log)?)
            .status()?;
        if !built.success() {
            return Ok(Outcome::DoesNotBuild);
        }
        let output = self.outputs.join(format!("{name}.txt"));
        let start = Instant::now();
        let mut simulation = Command::new(self.target.join("release/examples/simulate"))
            .current_dir(&self.tree)
            .args(["--seconds", &seconds.to_string(), "--threads", "1"])
            .args(scripts.iter().flat_map(|mutant| ["--mutant", mutant.name]))
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(self.outputs.join(format!("{name}.stderr")))?)
            .spawn()?;
        let limit = Duration::from_secs(seconds) + GRACE;
        let status = loop {
            if let Some(status) = simulation.try_wait()? {
                break status;
            }
            if start.elapsed() > limit {
                simulation.kill()?;
                simulation.wait()?;
                return Ok(Outcome::Stuck);
            }
            thread::sleep(Duration::from_millis(20));
        };
        let output = String::from_utf8_lossy(&fs::read(output)?).into_owned();
        Ok(match status.code() {
            Some(0) => Outcome::Clean { output },
            Some(1) => Outcome::Found { after: start.elapsed(), output },
            _ => Outcome::Failed(status),
        })
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
