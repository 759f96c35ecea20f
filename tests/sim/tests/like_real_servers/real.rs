//! Connections to a real server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::wire::{Said, encoded, words};

pub struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, unread: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next value, or `None` when the server has closed the connection.
    pub fn next(&mut self) -> Option<Said> {
        loop {
            if let Some((said, length)) = Said::read(&self.unread) {
                self.unread.drain(..length);
                return Some(said);
            }
            let mut buffer = [0; 16_384];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(length) => self.unread.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // This process was stopped and goes on.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("the server does not answer: {error}"),
            }
        }
    }

    /// All that comes until the answer to a `PING` with this text.
    pub fn until(&mut self, fence: &str) -> Vec<Said> {
        self.send(&encoded(&words(&["PING", fence])));
        let mut all = Vec::new();
        while let Some(said) = self.next() {
            if is_fence(&said, fence) {
                break;
            }
            all.push(said);
        }
        all
    }

    pub fn ask(&mut self, command: &[&str]) -> Said {
        self.send(&encoded(&words(command)));
        self.next().unwrap()
    }

    /// The clock of the server, in microseconds.
    pub fn time(&mut self) -> u64 {
        match self.ask(&["TIME"]) {
            Said::List(_, parts) => {
                let number = |part: &Said| match part {
                    Said::Text(_, text) => std::str::from_utf8(text).unwrap().parse::<u64>().unwrap(),
                    other => panic!("{other:?}"),
                };
                number(&parts[0]) * 1_000_000 + number(&parts[1])
            }
            other => panic!("{other:?}"),
        }
    }
}

/// To a client of RESP2 that listens, the answer is a list.
pub fn is_fence(said: &Said, fence: &str) -> bool {
    match said {
        Said::Text(_, text) => text == fence.as_bytes(),
        Said::List('*', parts) => matches!(&parts[..], [_, Said::Text(_, text)] if text == fence.as_bytes()),
        _ => false,
    }
}
