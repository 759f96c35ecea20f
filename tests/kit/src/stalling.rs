//! A TCP proxy that lets nothing through at first, and then stops a client before a word in its
//! requests: a test uses it to have a server execute one part of a batch long before the rest.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Stops its clients in front of a word.
pub struct StallingProxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    word: &'static str,
    is_open: AtomicBool,
    stalls: AtomicBool,
    goes_on: AtomicBool,
    /// Bytes that clients were sent.
    answered: AtomicUsize,
}

impl StallingProxy {
    /// To the server at this port.
    pub fn to(port: u16, word: &'static str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let shared = Arc::new(Shared {
            word,
            is_open: AtomicBool::new(false),
            stalls: AtomicBool::new(false),
            goes_on: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
        });
        let proxy = Self { port: listener.local_addr().unwrap().port(), shared: Arc::clone(&shared) };
        thread::spawn(move || {
            wait(&shared.is_open);
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (requests, replies) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || pass_requests(client, server, &requests));
                thread::spawn(move || pass_replies(from_server, to_client, &replies));
            }
        });
        proxy
    }

    /// Returns the address of the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// From now on, connections get through.
    pub fn open(&self) {
        self.shared.is_open.store(true, Ordering::SeqCst);
    }

    /// True when a client has sent the word.
    pub fn stalls(&self) -> bool {
        self.shared.stalls.load(Ordering::SeqCst)
    }

    /// How many bytes were sent to clients.
    pub fn answered(&self) -> usize {
        self.shared.answered.load(Ordering::SeqCst)
    }

    /// Lets the word and all that follows through.
    pub fn go_on(&self) {
        self.shared.goes_on.store(true, Ordering::SeqCst);
    }
}

fn pass_requests(mut client: TcpStream, mut server: TcpStream, shared: &Shared) {
    let (mut buffer, mut sent) = ([0; 16 * 1024], Vec::new());
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let before = sent.len();
        sent.extend_from_slice(&buffer[..read]);
        let word = sent.windows(shared.word.len()).position(|window| window == shared.word.as_bytes());
        let first = word.map_or(sent.len(), |at| at.max(before));
        if server.write_all(&sent[before..first]).is_err() {
            break;
        }
        if first < sent.len() {
            shared.stalls.store(true, Ordering::SeqCst);
            wait(&shared.goes_on);
            if server.write_all(&sent[first..]).is_err() {
                break;
            }
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn pass_replies(mut server: TcpStream, mut client: TcpStream, shared: &Shared) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = server.read(&mut buffer) {
        if client.write_all(&buffer[..read]).is_err() {
            break;
        }
        shared.answered.fetch_add(read, Ordering::SeqCst);
    }
    let _ = client.shutdown(Shutdown::Both);
}

fn wait(until: &AtomicBool) {
    while !until.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}
