//! Names and ports that are free, and what the system says about a connection.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// True when a timer of TCP's keep-alive runs on a connection to this port.
#[cfg(target_os = "linux")]
pub fn keeps_alive(port: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    // The third field is the remote address, the fourth the state, the sixth which timer runs, and
    // for how long.
    let mut connections = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    connections.any(|of| of[2].ends_with(&port) && of[3] == "01" && of[5].starts_with("02:"))
}

/// A name that no other test of this run uses.
pub fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{stem}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
