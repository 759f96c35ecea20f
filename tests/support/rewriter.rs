//! A TCP proxy that rewrites what clients send: how a test breaks a script without a hook in the product.
//!
//! A script goes over the wire as its source, once, and by the digest of its source from then on. The server does
//! not know the digest of a source that was rewritten, so the client sends its source again, each time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub struct Rewriter {
    port: u16,
    rewritten: Arc<AtomicU64>,
}

impl Rewriter {
    /// Of the same length, as the protocol says the length of a text before it.
    pub fn to(port: u16, pattern: &'static str, replacement: &'static str) -> Self {
        assert_eq!(pattern.len(), replacement.len(), "{replacement:?} does not fit");
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let rewriter = Self { port: listener.local_addr().unwrap().port(), rewritten: Arc::default() };
        let rewritten = Arc::clone(&rewriter.rewritten);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let (Ok(to_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else {
                    continue;
                };
                let rewritten = Arc::clone(&rewritten);
                let mut rewrite = Rewrite { pattern, replacement, kept: Vec::new() };
                thread::spawn(move || {
                    pump(client, to_server, |bytes| {
                        let (bytes, times) = rewrite.next(bytes);
                        rewritten.fetch_add(times, Ordering::Relaxed);
                        bytes
                    });
                });
                thread::spawn(move || pump(server, to_client, <[u8]>::to_vec));
            }
        });
        rewriter
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// How often the pattern was found. A test whose pattern is not in the script any more tests nothing.
    pub fn rewritten(&self) -> u64 {
        self.rewritten.load(Ordering::Relaxed)
    }
}

struct Rewrite {
    pattern: &'static str,
    replacement: &'static str,
    /// The end of what was read, which may be the start of the pattern.
    kept: Vec<u8>,
}

impl Rewrite {
    /// What can be sent on now, and how often the pattern was in it.
    fn next(&mut self, bytes: &[u8]) -> (Vec<u8>, u64) {
        let pattern = self.pattern.as_bytes();
        let mut all = std::mem::take(&mut self.kept);
        all.extend_from_slice(bytes);
        let mut times = 0;
        let mut at = 0;
        while let Some(found) = all[at..].windows(pattern.len()).position(|window| window == pattern) {
            at += found;
            all[at..at + pattern.len()].copy_from_slice(self.replacement.as_bytes());
            at += pattern.len();
            times += 1;
        }
        let most = (pattern.len() - 1).min(all.len() - at);
        let keep = (1..=most).rev().find(|&keep| all.ends_with(&pattern[..keep])).unwrap_or(0);
        self.kept = all.split_off(all.len() - keep);
        (all, times)
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, mut change: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || to.write_all(&change(&buffer[..read])).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
