//! The program as a test starts it.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use kit::{eventually, unique};

#[cfg(unix)]
pub(crate) const LOST: i32 = 70;

/// The program with this address, and these arguments after it.
pub(crate) fn tool(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlocked"));
    command
        .env_remove("REDIS_URL")
        .env_remove("REDLOCK_PREFIX")
        .env_remove("REDLOCK_ALLOW_EVICTION")
        .env("REDLOCK_URL", url)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Its exit code, standard output and standard error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// What it says until it ends.
pub(crate) fn said(url: &str, arguments: &[&str]) -> Said {
    tool(url, arguments).output().unwrap().into()
}

/// A program that runs beside the test, and is killed with this.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        let mut command = tool(url, arguments);
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Until it ends.
    #[track_caller]
    pub(crate) fn said(mut self) -> Said {
        let mut status = None;
        eventually("the program ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Said { code: status.unwrap().code(), out, err }
    }

    /// Reads its standard output until it ends with these words.
    #[cfg(unix)]
    pub(crate) fn until(&mut self, text: &mut String, end: &str) {
        read_until(self.0.stdout.as_mut().unwrap(), text, end);
    }

    /// Reads its standard error until it ends with these words.
    #[cfg(unix)]
    pub(crate) fn errors_until(&mut self, text: &mut String, end: &str) {
        read_until(self.0.stderr.as_mut().unwrap(), text, end);
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: &str) {
        signal_to(signal, self.id());
    }
}

#[cfg(unix)]
fn read_until(from: &mut impl Read, text: &mut String, end: &str) {
    while !text.ends_with(end) {
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file that no other test uses, and that is gone with this.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(unique("redlocked-cli")))
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// What was written so far.
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(unix)]
pub(crate) fn signal_to(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// The second process of a `run`.
#[cfg(target_os = "linux")]
pub(crate) fn watchdog_of(tool: u32) -> u32 {
    use std::fs;
    let children = fs::read_to_string(format!("/proc/{tool}/task/{tool}/children")).unwrap();
    let is_watchdog =
        |child: &&str| fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap().contains("watchdog");
    children.split_whitespace().find(is_watchdog).unwrap().parse().unwrap()
}

/// Shows a figure.
#[cfg(unix)]
pub(crate) fn report(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
