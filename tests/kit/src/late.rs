//! A TCP proxy that holds requests back, and delivers them long after their client has gone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Keeps requests back on demand, per connection.
pub struct LateProxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    open: Mutex<Vec<Open>>,
    /// Bytes that are kept back.
    kept: AtomicUsize,
}

struct Open {
    client: TcpStream,
    keeps: Arc<AtomicBool>,
}

impl LateProxy {
    /// In front of a server on `port`.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), shared: Arc::default() };
        let shared = Arc::clone(&proxy.shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                let keeps = Arc::new(AtomicBool::new(false));
                let open = Open { client: client.try_clone().unwrap(), keeps: Arc::clone(&keeps) };
                shared.open.lock().unwrap().push(open);
                let (from_server, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || answers(from_server, to_client));
                let shared = Arc::clone(&shared);
                thread::spawn(move || requests(client, server, &keeps, &shared.kept));
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

    /// From now on the server receives nothing over the open connections.
    pub fn keep(&self) {
        for open in self.shared.open.lock().unwrap().iter() {
            open.keeps.store(true, Ordering::SeqCst);
        }
    }

    /// Bytes that were kept back.
    pub fn kept(&self) -> usize {
        self.shared.kept.load(Ordering::SeqCst)
    }

    /// Cuts the clients' side of these connections. The server does not know.
    pub fn cut(&self) {
        for open in self.shared.open.lock().unwrap().iter() {
            if open.keeps.load(Ordering::SeqCst) {
                let _ = open.client.shutdown(Shutdown::Both);
            }
        }
    }

    /// The server gets the bytes that were kept, and then the end of the connection.
    pub fn deliver(&self) {
        self.shared.open.lock().unwrap().retain(|open| !open.keeps.swap(false, Ordering::SeqCst));
    }
}

fn requests(mut client: TcpStream, mut server: TcpStream, keeps: &AtomicBool, kept: &AtomicUsize) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        if keeps.load(Ordering::SeqCst) {
            kept.fetch_add(read, Ordering::SeqCst);
        }
        wait(keeps);
        if server.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    wait(keeps);
    let _ = server.shutdown(Shutdown::Write);
}

fn wait(keeps: &AtomicBool) {
    while keeps.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn answers(mut server: TcpStream, mut client: TcpStream) {
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Both);
}
