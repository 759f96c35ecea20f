//! Child processes that end with their parent, however it ends: each watches its stdin, which only
//! its parent holds open. Both sides use this module.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::Failure;

/// How long a child may take to get ready, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts this program once more, with other arguments. Dropping the handle ends the child, because
/// it closes its stdin.
pub(crate) fn command(arguments: &[&str]) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    // Ctrl-C in a terminal reaches all processes of a group. In groups of their own the children
    // end when their parent tells them to, and in order.
    #[cfg(unix)]
    command.process_group(0);
    Ok(command)
}

/// The first line that a child prints, which it does when it is ready.
pub(crate) async fn first_line(child: &mut Child) -> Result<String, Failure> {
    let stdout = child.stdout.take().ok_or("a child process without stdout")?;
    match timeout(PATIENCE, BufReader::new(stdout).lines().next_line()).await {
        Ok(Ok(Some(line))) => Ok(line),
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(None)) => Err(format!("a child process ended early: {}", child.wait().await?).into()),
        Err(_) => Err(format!("a child process was not ready within {PATIENCE:?}").into()),
    }
}

/// Asks all children to end, and waits until they have.
pub(crate) async fn end(mut children: Vec<Child>) {
    for child in &mut children {
        drop(child.stdin.take());
    }
    for mut child in children {
        if timeout(PATIENCE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}

/// In a child: ready when the parent has closed our stdin, or has ended.
///
/// It uses a thread of its own: the end of the process would wait for tokio's stdin.
pub(crate) async fn parent_gone() {
    let (sender, gone) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(sender);
    });
    let _ = gone.await;
}
