//! A TCP proxy that lets every byte arrive later by a fixed time, in order.
//!
//! Two threads for each direction of a connection: one stamps what it reads, the other writes it
//! when its time has come. So the delay neither shrinks nor adds up when many bytes are under way.
//! Threads and not tasks, because a timer of the runtime counts whole milliseconds.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Cuts its connections and frees its port when it is dropped.
pub struct DelayProxy {
    port: u16,
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl DelayProxy {
    /// In front of a server on `port`; `one_way` later in each direction.
    pub fn to(port: u16, one_way: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            open: Arc::new(Mutex::new(Some(Vec::new()))),
        };
        let open = Arc::clone(&proxy.open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut open = open.lock().unwrap();
                let Some(open) = open.as_mut() else {
                    return;
                };
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to) in [(&client, &server), (&server, &client)] {
                    to.set_nodelay(true).unwrap();
                    let (stamped, due) = channel();
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || stamp(from, &stamped, one_way));
                    thread::spawn(move || deliver(to, &due));
                }
                open.extend([client, server]);
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
        format!("redis://127.0.0.1:{}/", self.port())
    }
}

impl Drop for DelayProxy {
    fn drop(&mut self) {
        for stream in self.open.lock().unwrap().take().unwrap() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Its last client: the listener looks up, and ends.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn stamp(mut from: TcpStream, stamped: &Sender<(Instant, Vec<u8>)>, one_way: Duration) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if stamped.send((Instant::now() + one_way, buffer[..read].to_vec())).is_err() {
            break;
        }
    }
}

fn deliver(mut to: TcpStream, due: &Receiver<(Instant, Vec<u8>)>) {
    for (at, bytes) in due {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
