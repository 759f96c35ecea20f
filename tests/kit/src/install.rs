//! Gets the libraries of other languages, in fixed versions, only below the named directory. Files
//! that are there already are not fetched again. An error names no directory, because it may be
//! shown on a page. The details go to standard error.

use std::fs::{self, File};
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGE: &str = include_str!("install/package.json");
const PACKAGE_LOCK: &str = include_str!("install/package-lock.json");

/// A Python that has these `requirements`, or why there is none.
pub fn python(below: &Path, requirements: &str) -> Result<PathBuf, String> {
    let version = run(Command::new("python3").arg("--version"))?;
    let files = [("requirements.txt", requirements), ("version", &version)];
    let home = once(below, "python", &files, |home| {
        run(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
        let mut pip = Command::new(interpreter(home));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--timeout", "15", "--retries", "1", "-r"]).arg(home.join("requirements.txt"));
        run(&mut pip).map(drop)
    })?;
    Ok(interpreter(&home))
}

fn interpreter(home: &Path) -> PathBuf {
    home.join("venv/bin/python")
}

/// A script that uses node-redlock, beside its `node_modules`, which is where node looks for them.
pub fn node_redlock(below: &Path, script: &str) -> Result<PathBuf, String> {
    const SCRIPT: &str = "node_redlock.mjs";
    let version = run(Command::new("node").arg("--version"))?;
    let files = [
        ("package.json", PACKAGE),
        ("package-lock.json", PACKAGE_LOCK),
        (SCRIPT, script),
        ("version", &version),
    ];
    let home = once(below, "node", &files, |home| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.args(["--fetch-timeout", "15000", "--fetch-retries", "1"]).current_dir(home);
        run(&mut npm).map(drop)
    })?;
    Ok(home.join(SCRIPT))
}

/// A directory with these files in which `install` has succeeded, now or in an earlier run.
fn once(
    below: &Path,
    name: &str,
    files: &[(&str, &str)],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("could not be installed: {error}");
    fs::create_dir_all(below).map_err(failed)?;
    // Another process may install the same.
    let lock = File::create(below.join(format!("{name}.lock"))).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let (home, done) = (below.join(name), below.join(name).join("done"));
    let up_to_date =
        |(file, text): &(&str, &str)| fs::read_to_string(home.join(file)).is_ok_and(|t| t == *text);
    if !(done.exists() && files.iter().all(up_to_date)) {
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(failed)?;
        for (file, text) in files {
            fs::write(home.join(file), text).map_err(failed)?;
        }
        install(&home)?;
        fs::write(done, "").map_err(failed)?;
    }
    Ok(home)
}

/// The output of the program.
fn run(command: &mut Command) -> Result<String, String> {
    let program =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        let _ = writeln!(stderr(), "{command:?}: {error}");
        format!("no {program} here")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let _ = writeln!(stderr(), "{command:?}: {} {}", out.trim(), error.trim());
    Err(format!("could not be installed: {program} failed"))
}
