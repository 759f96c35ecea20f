//! The requests that clients send to a server, as its `MONITOR` tells them.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use crate::{RedisServer, unique};

/// The commands with which this library begins a request. What follows a `SET` in one write, to draw a
/// fencing token, belongs to it.
const FIRST: [&str; 5] = ["SET", "EVALSHA", "EVAL", "DELIFEQ", "DELEX"];

/// Counts the requests from its beginning on.
pub struct Requests<'a> {
    server: &'a RedisServer,
    seen: Mutex<Seen>,
}

struct Seen {
    lines: BufReader<TcpStream>,
    count: u64,
}

impl RedisServer {
    /// Begins to count.
    #[track_caller]
    pub fn requests(&self) -> Requests<'_> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        assert_eq!(answer, "+OK\r\n");
        Requests { server: self, seen: Mutex::new(Seen { lines, count: 0 }) }
    }
}

impl Requests<'_> {
    /// How many there have been.
    #[track_caller]
    pub fn count(&self) -> u64 {
        let (mark, mut line) = (unique("counted"), String::new());
        let _: String = self.server.run(&format!("ECHO {mark}"));
        let mut seen = self.seen.lock().unwrap();
        while !line.contains(&mark) {
            line.clear();
            assert_ne!(seen.lines.read_line(&mut line).unwrap(), 0, "the server has gone");
            seen.count += u64::from(begins_a_request(&line));
        }
        seen.count
    }
}

/// A script's own commands are those of a client named `lua`.
fn begins_a_request(line: &str) -> bool {
    let Some((client, command)) = line.split_once("] \"") else { return false };
    let name = command.split('"').next();
    // A script of one key, which is a clock, draws the fencing token of the `SET` before it.
    let key = command.rsplit("\" \"1\" \"").next().and_then(|keys| keys.split('"').next());
    let draws = key.is_some_and(|key| key.ends_with("%clock"));
    !client.ends_with(" lua") && !draws && FIRST.iter().any(|first| name == Some(first))
}
