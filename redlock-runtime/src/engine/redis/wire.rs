//! An open stream to a server: bytes go out in their order, and values come in.

use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use redis::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::failure::Failure;
use super::resp::{Reader, Unreadable};
use super::stream::Stream;
use crate::engine::wakers::WhenWoken;

/// Room for what arrives, in bytes: it grows for a long line alone.
const SMALLEST: usize = 8 * 1024;

/// How much of a larger room for what is sent is kept.
const KEPT: usize = 64 * 1024;

/// Of what a server of another kind says.
const LONGEST_WORD: usize = 40;

/// Dropping it closes the stream at once, also with replies pending.
pub(super) struct Wire {
    stream: Stream,
    outgoing: Outgoing,
    incoming: Incoming,
    when_readable: WhenWoken,
}

struct Outgoing {
    bytes: Vec<u8>,
    /// So many of them are written.
    written: usize,
    /// The stream holds none of them back.
    is_flushed: bool,
}

struct Incoming {
    buffer: Vec<u8>,
    /// What has arrived, and is not taken yet, is from here up to there.
    from: usize,
    to: usize,
    reader: Reader,
    /// No value has arrived yet.
    is_silent: bool,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        let outgoing = Outgoing { bytes: Vec::new(), written: 0, is_flushed: true };
        let buffer = vec![0; SMALLEST];
        let incoming = Incoming { buffer, from: 0, to: 0, reader: Reader::default(), is_silent: true };
        Self { stream, outgoing, incoming, when_readable: WhenWoken::default() }
    }

    /// No value has arrived yet.
    pub(super) fn is_silent(&self) -> bool {
        self.incoming.is_silent
    }

    /// Takes what is to be written behind all that came before. The next [`write`](Self::write) does it.
    pub(super) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing.bytes
    }

    /// Writes what the stream takes now. `cx` is woken when it takes more.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Outgoing { bytes, written, is_flushed } = &mut self.outgoing;
        while let Some(rest @ [_, ..]) = bytes.get(*written..) {
            *is_flushed = false;
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => *written += count?,
                Poll::Pending => return Ok(()),
            }
        }
        if !*is_flushed {
            bytes.clear();
            bytes.shrink_to(KEPT);
            *written = 0;
            *is_flushed = Pin::new(&mut self.stream).poll_flush(cx)?.is_ready();
        }
        Ok(())
    }

    /// Hands over each value that has arrived, until `take` breaks off: then the next read goes on behind that value. Costs
    /// nothing when nothing has arrived.
    pub(super) fn read(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Value) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let Self { stream, incoming, when_readable, .. } = self;
        match when_readable.poll(cx, |cx| incoming.read(cx, stream, &mut take)) {
            Poll::Ready(read) => read,
            Poll::Pending => Ok(()),
        }
    }
}

impl Incoming {
    /// Ready at the end of the stream, or when `take` breaks off.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        take: &mut impl FnMut(Value) -> ControlFlow<()>,
    ) -> Poll<Result<(), Failure>> {
        loop {
            if self.take_all(take)?.is_break() {
                return Poll::Ready(Ok(()));
            }
            self.make_room();
            let mut room = ReadBuf::new(self.buffer.get_mut(self.to..).unwrap_or_default());
            if let Err(error) = ready!(Pin::new(&mut *stream).poll_read(cx, &mut room)) {
                return Poll::Ready(Err(self.ended(error.into())));
            }
            match room.filled().len() {
                0 => return Poll::Ready(Err(self.ended(io::Error::from(io::ErrorKind::BrokenPipe).into()))),
                arrived => self.to += arrived,
            }
        }
    }

    fn take_all(
        &mut self,
        take: &mut impl FnMut(Value) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        let mut taken = ControlFlow::Continue(());
        while taken.is_continue() {
            let arrived = self.buffer.get(self.from..self.to).unwrap_or_default();
            let mut rest = arrived;
            let value = self.reader.next(&mut rest).map_err(|unreadable| match unreadable {
                Unreadable::TooMuch(what) => Failure::TooMuch(what),
                Unreadable::Malformed if self.is_silent => stranger(arrived),
                Unreadable::Malformed => Failure::Broke("it sent what is no reply".into()),
            })?;
            self.from += arrived.len() - rest.len();
            let Some(value) = value else {
                break;
            };
            self.is_silent = false;
            taken = take(value);
        }
        Ok(taken)
    }

    fn ended(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Closed { unanswered, .. } => Failure::Closed { was_silent: self.is_silent, unanswered },
            other => other,
        }
    }

    /// At the end of the buffer, for the rest of a line or for what comes next.
    fn make_room(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            if self.buffer.len() > SMALLEST {
                self.buffer = vec![0; SMALLEST];
            }
        }
        if self.to == self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            // One line takes more than half of it.
            if self.to > self.buffer.len() / 2 {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
    }
}

/// What answers with these bytes. Of what it says only the first word is told: the rest may repeat what it was asked, and a
/// password with it.
fn stranger(bytes: &[u8]) -> Failure {
    // An alert, of any version of TLS.
    if let [0x15, 3, ..] = bytes {
        return Failure::SpeaksTls;
    }
    // The greeting of MySQL and MariaDB: its length in three bytes, the number of a packet, and the version of their protocol.
    if let [_, _, 0, 0, 10, ..] = bytes {
        return Failure::NoRedis("the greeting of MySQL".to_owned());
    }
    let word = bytes.split(|byte| !byte.is_ascii_graphic()).next().unwrap_or_default();
    let word = String::from_utf8_lossy(word.get(..LONGEST_WORD).unwrap_or(word));
    Failure::NoRedis(match &*word {
        "" => "bytes that are no reply".to_owned(),
        word => format!("`{word}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_another_kind_is_told_by_its_first_word() {
        for (bytes, expected) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n"[..],
                "it answered with `HTTP/1.1`: it is no Redis server",
            ),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "it answered with `SSH-2.0-OpenSSH_9.6`: it is no Redis server"),
            (b"J\0\0\0\x0a8.0.36\0", "it answered with the greeting of MySQL: it is no Redis server"),
            (b"502 AUTH default secret\r\n", "it answered with `502`: it is no Redis server"),
            (b"\x01\x02\x03", "it answered with bytes that are no reply: it is no Redis server"),
            (b"\x15\x03\x01\0\x02\x02\x46", "it speaks TLS on this port"),
        ] {
            assert_eq!(stranger(bytes).to_string(), expected);
        }
    }
}
