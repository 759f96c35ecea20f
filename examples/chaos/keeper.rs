//! Two processes: the first waits for signals and starts the second, which does the work. However
//! the second ends, the first ends the processes that the second started; and the second ends
//! itself when the first does.

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, setsid};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

/// The environment variable that is set for the second process.
const KEPT: &str = "REDLOCKED_CHAOS_KEPT";

/// The time limit of an orderly end: calls wait for locks, and the run waits for stopped servers.
const PEACE: Duration = Duration::from_secs(60);

/// The exit status that shells report for a program ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

pub(crate) fn is_kept() -> bool {
    std::env::var_os(KEPT).is_some()
}

/// In the second process: becomes true when the first asks it to end, or has ended.
pub(crate) fn is_to_end() -> Arc<AtomicBool> {
    // In a session of its own: Ctrl-C in a terminal reaches the first process alone, and the first
    // can end all processes that are started here at once. A group of the same session would get
    // SIGHUP at the end of the first, because some of its processes are stopped.
    let _ = setsid();
    let end = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&end);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        seen.store(true, Ordering::Relaxed);
    });
    end
}

/// In the first process: starts the second, and ends as it does.
pub(crate) fn keep() -> std::io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).env(KEPT, "1").stdin(Stdio::piped());
        let mut child = command.spawn()?;
        let id = child.id().unwrap_or(0);
        let input = child.stdin.take();
        let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        let [mut interrupt, mut terminate, mut hangup] = {
            let [a, b, c] = signals;
            [a?, b?, c?]
        };
        let mut told = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        };
        let ended = tokio::select! {
            status = child.wait() => Some(status?),
            () = told() => None,
        };
        let status = if ended.is_some() {
            ended
        } else {
            eprintln!("ending; once more to end at once");
            drop(input);
            tokio::select! {
                status = timeout(PEACE, child.wait()) => status.ok().transpose()?,
                () = told() => None,
            }
        };
        let code = status.and_then(|status| status.code());
        if code.is_none() {
            sweep(&mut child, id).await;
        }
        Ok(match code {
            Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            None if ended.is_some() => {
                eprintln!("it was killed");
                ExitCode::FAILURE
            }
            None => ExitCode::from(INTERRUPTED),
        })
    })
}

/// The second had no time to tidy up: ends every process that it had started, and removes their
/// files.
async fn sweep(child: &mut Child, id: u32) {
    if let Some(group) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait().await;
    let ours = format!("redlocked-test-{id}-");
    for topology in [std::env::temp_dir().as_path(), Path::new("/dev/shm")] {
        for entry in std::fs::read_dir(topology).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&ours) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}
