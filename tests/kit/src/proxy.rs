//! A TCP proxy in front of a server that can hold replies back, and cut every connection.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use redlock_runtime::names::set_addresses;

use crate::unique;

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
    clients: Mutex<Vec<Arc<Client>>>,
    /// Clients that have connected.
    accepted: AtomicUsize,
    holds_requests: AtomicBool,
    /// The first request with these bytes does not pass.
    stops_at: Mutex<Option<Vec<u8>>>,
}

struct Client {
    stream: Weak<TcpStream>,
    /// It is another server, which copies the data of this one.
    is_replica: AtomicBool,
    /// How often it has sent something.
    requests: AtomicU64,
    /// How often it had, when the server last sent something.
    answered: AtomicU64,
}

impl Proxy {
    /// In front of a server on `port`.
    pub fn to(port: u16) -> Self {
        Self::behind(TcpListener::bind(("127.0.0.1", 0)).unwrap(), port)
    }

    /// In front of two servers, on one port at two addresses of this machine, and the name that has
    /// both addresses for this process.
    pub fn to_both(ports: [u16; 2]) -> ([Self; 2], String) {
        let first = IpAddr::from(Ipv4Addr::LOCALHOST);
        // Not each machine has IPv6, and not each has a second address of IPv4.
        let seconds = [IpAddr::from(Ipv6Addr::LOCALHOST), IpAddr::from([127, 0, 0, 2])];
        // Another process may have the port at the second address: then another one is tried.
        for _ in 0..50 {
            let here = TcpListener::bind((first, 0)).unwrap();
            let port = here.local_addr().unwrap().port();
            for second in seconds {
                if let Ok(there) = TcpListener::bind((second, port)) {
                    let name = unique("name") + ".two.test";
                    set_addresses(&name, &[first, second]);
                    return ([Self::behind(here, ports[0]), Self::behind(there, ports[1])], name);
                }
            }
        }
        panic!("no port is free at two addresses of this machine");
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
                clients.retain(|client| client.stream.strong_count() > 0);
                let asks = Arc::new(Client {
                    stream: Arc::downgrade(&client),
                    is_replica: AtomicBool::default(),
                    requests: AtomicU64::default(),
                    answered: AtomicU64::default(),
                });
                clients.push(Arc::clone(&asks));
                let answers = Arc::clone(&asks);
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                let (to_server, to_client) = (Arc::clone(&server), Arc::clone(&client));
                let held = Arc::clone(&shared);
                thread::spawn(move || {
                    pump(&client, &to_server, |request| {
                        if contains(request, b"REPLCONF") {
                            asks.is_replica.store(true, Ordering::SeqCst);
                        }
                        if request.is_empty() || asks.is_replica.load(Ordering::SeqCst) {
                            return false;
                        }
                        asks.requests.fetch_add(1, Ordering::SeqCst);
                        let mut stops_at = held.stops_at.lock().unwrap();
                        if stops_at.take_if(|word| contains(request, word)).is_some() {
                            held.holds_requests.store(true, Ordering::SeqCst);
                        }
                        held.holds_requests.load(Ordering::SeqCst)
                    });
                });
                let held = Arc::clone(&shared);
                thread::spawn(move || {
                    pump(&server, &to_client, |_| {
                        answers.answered.store(answers.requests.load(Ordering::SeqCst), Ordering::SeqCst);
                        held.holds_replies.load(Ordering::SeqCst)
                    });
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

    /// The next request that has this word as an argument does not pass, nor do those behind it, until
    /// [`let_pass`](Self::let_pass).
    pub fn stop_at(&self, argument: &str) {
        let argument = format!("\r\n${}\r\n{argument}\r\n", argument.len());
        *self.shared.stops_at.lock().unwrap() = Some(argument.into_bytes());
    }

    /// Whether a request waits here.
    pub fn has_stopped(&self) -> bool {
        self.shared.holds_requests.load(Ordering::SeqCst)
    }

    /// What was stopped goes on, also when its client is gone, if replies were held since before that.
    pub fn let_pass(&self) {
        self.shared.holds_requests.store(false, Ordering::SeqCst);
    }

    /// Sends these bytes to each client, as if the server had, unless a client waits for an answer:
    /// that one could not tell them from its own. No request passes until all have closed their
    /// connection, or have had the time to read. False when nothing was sent, or when a client has
    /// asked meanwhile: the server does not hear of it, and the connection is cut.
    pub fn say(&self, bytes: &[u8]) -> bool {
        /// So long after a request the server has answered all of it, if it has answered at all.
        const QUIET: Duration = Duration::from_millis(30);
        const READ: Duration = Duration::from_millis(100);
        let clients = self.shared.clients.lock().unwrap().clone();
        let asked = |client: &Arc<Client>| client.requests.load(Ordering::SeqCst);
        let clients: Vec<_> = clients
            .into_iter()
            .filter(|client| !client.is_replica.load(Ordering::SeqCst))
            .map(|client| (asked(&client), client))
            .collect();
        let is_idle = || clients.iter().all(|(before, client)| *before == asked(client));
        // A server that gets no time answers later.
        let is_answered =
            || clients.iter().all(|(before, client)| *before == client.answered.load(Ordering::SeqCst));
        thread::sleep(QUIET);
        self.shared.holds_requests.store(true, Ordering::SeqCst);
        let mut is_said = false;
        if is_idle() && is_answered() {
            for client in clients.iter().filter_map(|(_, client)| client.stream.upgrade()) {
                is_said |= (&*client).write_all(bytes).is_ok();
            }
        }
        let (start, is_open) =
            (Instant::now(), || clients.iter().any(|(_, client)| client.stream.strong_count() > 0));
        while is_said && is_open() && start.elapsed() < READ {
            thread::sleep(Duration::from_millis(1));
        }
        let is_heard = is_idle();
        if is_said && !is_heard {
            self.cut();
        }
        self.shared.holds_requests.store(false, Ordering::SeqCst);
        is_said && is_heard
    }

    /// Sends these bytes to each client in front of what it waits for.
    pub fn slip_in(&self, bytes: &[u8]) {
        let clients = self.shared.clients.lock().unwrap().clone();
        for client in clients.iter().filter_map(|client| client.stream.upgrade()) {
            (&*client).write_all(bytes).unwrap();
        }
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

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// Passes on what was read, nothing at the end, once it is not held any more.
fn pump(mut from: &TcpStream, mut to: &TcpStream, is_held: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut buffer) {
        while is_held(&buffer[..read]) {
            thread::sleep(Duration::from_millis(1));
        }
        if read == 0 || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
