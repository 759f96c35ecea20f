//! Four processes send mails, at most three of them at a time. One is killed while it sends, and its
//! permit comes back when its ttl is over.
//!
//! ```text
//! cargo run --example mail_permits      # or REDIS_URL=redis://…
//! ```
//!
//! Without `REDIS_URL` it starts a `redis-server` for itself, from PATH. Each process is this
//! program again, and in real life a machine. The mail server is this program, too: it counts the
//! connections that are open at once.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to its user")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kit::RedisServer;
use redlocked::{LockError, LockManager, distributed_lock, key};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What the mail server allows.
const PERMITS: u32 = 3;

/// A killed process keeps its permit for as long.
const TTL: Duration = Duration::from_secs(2);

const MAILS: usize = 8;

/// What makes this program a sender: its name, and the address of the mail server.
const NAME: &str = "MAIL_EXAMPLE_NAME";
const SERVER: &str = "MAIL_EXAMPLE_SERVER";
const URL: &str = "REDIS_URL";

/// Its mail takes forever.
const STUCK: &str = "web-4";

type Failed = Box<dyn Error + Send + Sync>;

#[distributed_lock(key = "smtp:{host}", permits = { PERMITS }, ttl = TTL, wait = "30s")]
async fn send(host: SocketAddr, mail: &str) -> Result<(), Failed> {
    let mut server = tokio::net::TcpStream::connect(host).await?;
    server.write_all(mail.as_bytes()).await?;
    server.read_u8().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn sender(name: &str, url: &str) -> Result<(), Failed> {
    let locks = LockManager::builder(url).prefix("mail-example:").connect().await?;
    locks.clone().set_global();
    let host = std::env::var(SERVER)?.parse()?;
    for number in 0..MAILS {
        send(host, &format!("{name} {number}\n")).await?;
    }
    locks.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// The connections that are open, and the most that were.
#[derive(Default)]
struct Connections {
    open: AtomicU32,
    most: AtomicU32,
}

static CONNECTIONS: Connections = Connections { open: AtomicU32::new(0), most: AtomicU32::new(0) };

/// Takes one mail. That of [`STUCK`] is not taken until its sender is gone.
fn take_mail(mut client: TcpStream) -> io::Result<String> {
    let mut mail = String::new();
    let mut reader = BufReader::new(client.try_clone()?);
    reader.read_line(&mut mail)?;
    if mail.starts_with(STUCK) {
        return Ok(mail);
    }
    // What a mail takes.
    sleep(Duration::from_millis(30));
    // The permit is free for the next one as soon as its sender has read this.
    CONNECTIONS.open.fetch_sub(1, Ordering::SeqCst);
    client.write_all(b"!")?;
    Ok(mail)
}

/// Says who has sent a mail.
fn mail_server() -> io::Result<(SocketAddr, Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (say, said) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let open = CONNECTIONS.open.fetch_add(1, Ordering::SeqCst) + 1;
            CONNECTIONS.most.fetch_max(open, Ordering::SeqCst);
            let say = say.clone();
            std::thread::spawn(move || {
                let kept = client.try_clone();
                let Ok(mail) = take_mail(client) else { return };
                let is_stuck = mail.starts_with(STUCK);
                let _ = say.send(mail.split(' ').next().unwrap_or_default().to_owned());
                if is_stuck {
                    let _ = kept.map(|kept| BufReader::new(kept).read_line(&mut String::new()));
                    CONNECTIONS.open.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    Ok((address, said))
}

/// A process that sends.
struct Sender(Child);

impl Sender {
    fn start(name: &str, url: &str, server: SocketAddr) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(NAME, name).env(URL, url).env(SERVER, server.to_string()).stdin(Stdio::null());
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn fleet(url: &str) -> Result<(), Failed> {
    let (server, said) = mail_server()?;
    let next = || said.recv_timeout(Duration::from_secs(30));
    let stuck = Sender::start(STUCK, url, server)?;
    while next()? != STUCK {}
    println!("{STUCK} has one of {PERMITS} permits, and its mail hangs");

    let names = ["web-1", "web-2", "web-3"];
    let mut senders = Vec::new();
    for name in names {
        senders.push(Sender::start(name, url, server)?);
    }
    for _ in 0..MAILS {
        next()?;
    }
    println!("the others send with the rest");
    drop(stuck);
    let killed = Instant::now();
    for _ in MAILS..names.len() * MAILS {
        next()?;
    }
    let most = CONNECTIONS.most.load(Ordering::SeqCst);
    println!("{} mails were sent, at most {most} at a time", names.len() * MAILS);
    if most > PERMITS {
        return Err("more mails at a time than permits".into());
    }
    for sender in &mut senders {
        if !sender.0.wait()?.success() {
            return Err("a sender has failed".into());
        }
    }

    let locks = LockManager::builder(url).prefix("mail-example:").connect_blocking()?;
    let key = key!("smtp:{server}");
    let permit = || locks.lock(&key).permits(PERMITS).wait(TTL + Duration::from_secs(10)).acquire_blocking();
    let all = (0..PERMITS).map(|_| permit()).collect::<Result<Vec<_>, LockError>>()?;
    let took = killed.elapsed();
    println!("the permit of {STUCK} came back {} ms after the kill, with a ttl of {TTL:?}", took.as_millis());
    if took < TTL / 4 || took > TTL + Duration::from_secs(5) {
        return Err("the permit came back too early or too late".into());
    }
    drop(all);
    locks.shutdown_blocking(Duration::from_secs(5))?;
    Ok(())
}

fn main() -> ExitCode {
    let name = std::env::var(NAME).ok();
    if name.is_none() {
        kit::no_arguments();
    }
    let url = std::env::var(URL).ok().filter(|url| !url.is_empty());
    let outcome = match (name, url) {
        (Some(name), Some(url)) => sender(&name, &url),
        (_, Some(url)) => fleet(&url),
        (_, None) => fleet(&RedisServer::start().url()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
