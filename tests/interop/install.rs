//! Gets the clients of other languages, in the versions of `requirements.txt` and `package-lock.json`, below
//! `target/interop/` and nowhere else. What is there already is not fetched again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const REQUIREMENTS: &str = include_str!("requirements.txt");
const PACKAGE: &str = include_str!("package.json");
const PACKAGE_LOCK: &str = include_str!("package-lock.json");
const NODE_REDLOCK: &str = include_str!("node_redlock.mjs");

/// A Python that has redis-py, or why there is none.
pub(crate) fn redis_py() -> Result<PathBuf, String> {
    let version = run(Command::new("python3").arg("--version"))?;
    let home = once("python", &[("requirements.txt", REQUIREMENTS), ("version", &version)], |home| {
        run(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
        let mut pip = Command::new(python(home));
        pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--timeout", "15", "--retries", "1", "-r"]).arg(home.join("requirements.txt"));
        run(&mut pip).map(drop)
    })?;
    Ok(python(&home))
}

fn python(home: &Path) -> PathBuf {
    home.join("venv/bin/python")
}

/// A script beside its `node_modules`, which is where node looks for them.
pub(crate) fn node_redlock() -> Result<PathBuf, String> {
    let version = run(Command::new("node").arg("--version"))?;
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
    Ok(home.join("node_redlock.mjs"))
}

/// A directory with these files in which `install` has succeeded, now or in an earlier run.
fn once(
    name: &str,
    files: &[(&str, &str)],
    install: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let in_words = |error: std::io::Error| format!("target/interop: {error}");
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("interop");
    fs::create_dir_all(&all).map_err(in_words)?;
    // Another run of these tests may be at it, too.
    let lock = File::create(all.join(format!("{name}.lock"))).map_err(in_words)?;
    lock.lock().map_err(in_words)?;
    let (home, done) = (all.join(name), all.join(name).join("done"));
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

/// What it prints, or what it complains about.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    let said = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
    Err(format!("{} {}", name, said.trim()))
}
