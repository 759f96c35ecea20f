//! Gets the libraries of other languages, in fixed versions, below `benches/comparison/target/peers/` and nowhere else. What is
//! there already is not fetched again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const REQUIREMENTS: &str = include_str!("requirements.txt");
const PACKAGE: &str = include_str!("../../../../tests/interop/package.json");
const PACKAGE_LOCK: &str = include_str!("../../../../tests/interop/package-lock.json");
const NODE_REDLOCK: &str = include_str!("node_redlock.mjs");

/// How to run one of the scripts beside this.
pub fn python(script: &str) -> Result<Vec<String>, String> {
    let version = run(Command::new("python3").arg("--version"))?;
    let home = once("python", &[("requirements.txt", REQUIREMENTS), ("version", &version)], |home| {
        run(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
        let mut pip = Command::new(home.join("venv/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--timeout", "15", "--retries", "1", "-r"]).arg(home.join("requirements.txt"));
        run(&mut pip).map(drop)
    })?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/foreign").join(script);
    Ok(vec![text(&home.join("venv/bin/python")), text(&script)])
}

pub fn node_redlock() -> Result<Vec<String>, String> {
    let version = run(Command::new("node").arg("--version"))?;
    // A script finds its packages beside itself.
    let files = [
        ("package.json", PACKAGE),
        ("package-lock.json", PACKAGE_LOCK),
        ("node_redlock.mjs", NODE_REDLOCK),
        ("version", &version),
    ];
    let home = once("node", &files, |home| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.args(["--fetch-timeout", "15000", "--fetch-retries", "1"]).current_dir(home);
        run(&mut npm).map(drop)
    })?;
    Ok(vec!["node".to_owned(), text(&home.join("node_redlock.mjs"))])
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A directory with these files in which `install` has succeeded, now or in an earlier run.
fn once(
    name: &str,
    files: &[(&str, &str)],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let in_words = |error: std::io::Error| format!("could not be installed: {error}");
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers").join(name);
    let done = home.join("done");
    let up_to_date =
        |(file, text): &(&str, &str)| fs::read_to_string(home.join(file)).is_ok_and(|t| t == *text);
    if !(done.exists() && files.iter().all(up_to_date)) {
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(in_words)?;
        for (file, text) in files {
            fs::write(home.join(file), text).map_err(in_words)?;
        }
        install(&home)?;
        fs::write(done, "").map_err(in_words)?;
    }
    Ok(home)
}

/// What it prints. What it complains about goes to standard error, and only that it did is said on the page: it may name
/// directories of this machine.
fn run(command: &mut Command) -> Result<String, String> {
    let program =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        eprintln!("{command:?}: {error}");
        format!("no {program} here")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    eprintln!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Err(format!("could not be installed: {program} failed"))
}
