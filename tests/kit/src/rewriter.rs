//! A TCP proxy that rewrites requests or replies: so a test breaks a script, or lies to a client,
//! without a hook in the product.
//!
//! A script goes over the wire as its source, once, and by the digest of its source from then on.
//! The server does not know the digest of a source that was rewritten, so the client sends its
//! source again, each time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Replaces one pattern by another of the same length.
pub struct Rewriter {
    port: u16,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    rewritten: AtomicU64,
    rests: AtomicBool,
}

impl Rewriter {
    /// In requests. Both of the same length: RESP sends the length of a text before it.
    pub fn to(port: u16, pattern: &'static str, replacement: &'static str) -> Self {
        Self::between(port, Some((pattern, replacement)), None)
    }

    /// In replies.
    pub fn of_answers(port: u16, pattern: &'static str, replacement: &'static str) -> Self {
        Self::between(port, None, Some((pattern, replacement)))
    }

    fn between(port: u16, requests: Option<Words>, answers: Option<Words>) -> Self {
        for (pattern, replacement) in requests.iter().chain(&answers) {
            assert_eq!(pattern.len(), replacement.len(), "{replacement:?} does not fit");
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let rewriter = Self { port: listener.local_addr().unwrap().port(), counts: Arc::default() };
        let counts = Arc::clone(&rewriter.counts);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (Ok(to_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else {
                    continue;
                };
                let (requests, answers) = (Rewrite::new(requests, &counts), Rewrite::new(answers, &counts));
                thread::spawn(move || pump(client, to_server, requests));
                thread::spawn(move || pump(server, to_client, answers));
            }
        });
        rewriter
    }

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// For a client.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// How often the pattern was found. A test whose pattern is not in the script any more tests
    /// nothing.
    pub fn rewritten(&self) -> u64 {
        self.counts.rewritten.load(Ordering::Relaxed)
    }

    /// It passes all bytes on as they are, or rewrites them again.
    pub fn rest(&self, rests: bool) {
        self.counts.rests.store(rests, Ordering::SeqCst);
    }
}

/// The pattern, and its replacement.
type Words = (&'static str, &'static str);

struct Rewrite {
    words: Option<Words>,
    counts: Arc<Counts>,
    /// The last bytes read, while they may be the start of the pattern.
    kept: Vec<u8>,
}

impl Rewrite {
    fn new(words: Option<Words>, counts: &Arc<Counts>) -> Self {
        Self { words, counts: Arc::clone(counts), kept: Vec::new() }
    }

    /// The bytes that can be sent on now.
    fn next(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.kept);
        all.extend_from_slice(bytes);
        let Some((pattern, replacement)) = self.words.filter(|_| !self.counts.rests.load(Ordering::SeqCst))
        else {
            return all;
        };
        let pattern = pattern.as_bytes();
        let mut at = 0;
        while let Some(found) = all[at..].windows(pattern.len()).position(|window| window == pattern) {
            at += found;
            all[at..at + pattern.len()].copy_from_slice(replacement.as_bytes());
            at += pattern.len();
            self.counts.rewritten.fetch_add(1, Ordering::Relaxed);
        }
        let most = (pattern.len() - 1).min(all.len() - at);
        let keep = (1..=most).rev().find(|&keep| all.ends_with(&pattern[..keep])).unwrap_or(0);
        self.kept = all.split_off(all.len() - keep);
        all
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut rewrite: Rewrite) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || to.write_all(&rewrite.next(&buffer[..read])).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
