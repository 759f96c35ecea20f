//! A TCP proxy in front of a server that can hold replies back, and cut every connection.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crate::skipped;

/// Passes all bytes on, until a test changes that.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    holds_replies: AtomicBool,
    refuses: AtomicBool,
    /// The port of the server.
    server: AtomicU16,
    /// The open connections; the threads that pump own them.
    open: Mutex<Vec<Weak<TcpStream>>>,
    /// The clients' side of these.
    clients: Mutex<Vec<Weak<TcpStream>>>,
    /// Clients that have connected.
    accepted: AtomicUsize,
    holds_requests: AtomicBool,
    /// How often clients have sent something.
    requests: AtomicU64,
}

impl Proxy {
    /// In front of a server on `port`.
    pub fn to(port: u16) -> Self {
        Self::behind(TcpListener::bind(("127.0.0.1", 0)).unwrap(), port)
    }

    /// In front of two servers, on one port of the first and the second address of `localhost`.
    /// `None` where it has not two.
    pub fn to_both(ports: [u16; 2]) -> Option<[Self; 2]> {
        let mut addresses: Vec<IpAddr> =
            ("localhost", 0).to_socket_addrs().unwrap().map(|it| it.ip()).collect();
        addresses.dedup();
        let [first, second] = addresses[..] else {
            skipped("`localhost` has not two addresses");
            return None;
        };
        if addresses.iter().any(|address| TcpListener::bind((*address, 0)).is_err()) {
            skipped("an address of `localhost` is not one of this machine");
            return None;
        }
        // Another process may have the port at the second address: then another one is tried.
        for _ in 0..50 {
            let here = TcpListener::bind((first, 0)).unwrap();
            if let Ok(there) = TcpListener::bind((second, here.local_addr().unwrap().port())) {
                return Some([Self::behind(here, ports[0]), Self::behind(there, ports[1])]);
            }
        }
        panic!("no port is free at both addresses of `localhost`");
    }

    fn behind(listener: TcpListener, port: u16) -> Self {
        let proxy = Self { port: listener.local_addr().unwrap().port(), shared: Arc::default() };
        proxy.lead_to(port);
        let shared = Arc::clone(&proxy.shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let port = shared.server.load(Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let (client, server) = (Arc::new(client), Arc::new(server));
                let mut open = shared.open.lock().unwrap();
                open.retain(|stream| stream.strong_count() > 0);
                open.extend([&client, &server].map(Arc::downgrade));
                let mut clients = shared.clients.lock().unwrap();
                clients.retain(|stream| stream.strong_count() > 0);
                clients.push(Arc::downgrade(&client));
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                let (to_server, to_client) = (Arc::clone(&server), Arc::clone(&client));
                let held = Arc::clone(&shared);
                thread::spawn(move || {
                    pump(&client, &to_server, || {
                        held.requests.fetch_add(1, Ordering::SeqCst);
                        held.holds_requests.load(Ordering::SeqCst)
                    });
                });
                let held = Arc::clone(&shared);
                thread::spawn(move || {
                    pump(&server, &to_client, || held.holds_replies.load(Ordering::SeqCst));
                });
            }
        });
        proxy
    }

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// For a client.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// From now on the server gets every request and the client no reply.
    pub fn hold_replies(&self, hold: bool) {
        self.shared.holds_replies.store(hold, Ordering::SeqCst);
    }

    /// Sends these bytes to each client, as if the server had, unless a client waits for an answer:
    /// that one could not tell them from its own. False when nothing was sent.
    pub fn say(&self, bytes: &[u8]) -> bool {
        /// So long after a request the server has answered it.
        const QUIET: Duration = Duration::from_millis(30);
        let before = self.shared.requests.load(Ordering::SeqCst);
        thread::sleep(QUIET);
        let is_idle = || self.shared.requests.load(Ordering::SeqCst) == before;
        self.shared.holds_requests.store(true, Ordering::SeqCst);
        let said = is_idle() && {
            let clients = self.shared.clients.lock().unwrap();
            let mut said = false;
            for client in clients.iter().filter_map(Weak::upgrade) {
                said |= (&*client).write_all(bytes).is_ok();
            }
            said
        };
        self.shared.holds_requests.store(false, Ordering::SeqCst);
        said
    }

    /// How many clients have connected so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// New connections lead to another server.
    pub fn lead_to(&self, port: u16) {
        self.shared.server.store(port, Ordering::SeqCst);
    }

    /// Cuts every connection; new ones are accepted.
    pub fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..).filter_map(|stream| stream.upgrade()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Cuts every connection and lets no new one through until told otherwise.
    pub fn refuse(&self, refuse: bool) {
        self.shared.refuses.store(refuse, Ordering::SeqCst);
        if refuse {
            self.cut();
        }
    }
}

/// Passes on what was read, once it is not held any more.
fn pump(mut from: &TcpStream, mut to: &TcpStream, is_held: impl Fn() -> bool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer) {
        while is_held() {
            thread::sleep(Duration::from_millis(1));
        }
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
