//! Starts a redis-server on a free port and ends it when the sale is over. A process of its own, so
//! that the server does not outlive the sale, even when the sale is killed.

use std::io::{ErrorKind, Write as _, stdout};
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::Failure;
use crate::backend;
use crate::child::parent_gone;

/// The argument with which this program starts itself as keeper.
pub(crate) const COMMAND: &str = "keep-redis";

/// The answer, in place of an address, when there is no redis-server on PATH.
pub(crate) const NONE: &str = "none";

/// Prints the address of the server, and keeps it until stdin is closed.
pub(crate) async fn run() -> Result<(), Failure> {
    let mut server = None;
    let outcome = tokio::select! {
        outcome = keep(&mut server) => outcome,
        () = parent_gone() => Ok(()),
    };
    if let Some(mut server) = server {
        server.kill().await?;
    }
    outcome
}

async fn keep(place: &mut Option<Child>) -> Result<(), Failure> {
    // Another program may take the port before the server does: then try another one.
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
        let server = match start(port) {
            Ok(server) => place.insert(server),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                writeln!(stdout(), "{NONE}")?;
                return Ok(());
            }
            Err(error) => return Err(format!("redis-server cannot be started: {error}").into()),
        };
        let url = format!("redis://127.0.0.1:{port}/");
        let id = server.id();
        tokio::select! {
            _ = server.wait() => continue,
            () = answers(&url, id) => writeln!(stdout(), "{url}")?,
        }
        return Err(format!("redis-server has ended: {}", server.wait().await?).into());
    }
    Err("redis-server ends as soon as it is started; without it: `--redis memory://`".into())
}

/// A server that writes nothing to disk.
fn start(port: u16) -> std::io::Result<Child> {
    let port = port.to_string();
    let arguments = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
    Command::new("redis-server")
        .args(arguments)
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// Ready when the process `id`, and no other, answers at `url`.
async fn answers(url: &str, id: Option<u32>) {
    loop {
        let info = async {
            let mut connection = backend::connect(url).await?;
            redis::cmd("INFO").arg("server").query_async::<String>(&mut connection).await
        };
        let process =
            |info: String| info.lines().find_map(|line| line.strip_prefix("process_id:")?.parse().ok());
        if info.await.is_ok_and(|info| process(info) == id) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
