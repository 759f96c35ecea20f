//! An open stream to a server: bytes go out in their order, and values come in.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use redis::{ErrorKind, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::resp::{self, Malformed, ValueEnd};
use super::stream::Stream;
use crate::engine::when_woken::WhenWoken;

/// Room for what arrives, in bytes, and how much of a larger one is kept.
const SMALLEST: usize = 8 * 1024;
const KEPT: usize = 64 * 1024;

const NO_RESP: (ErrorKind, &str) = (ErrorKind::Parse, "the server does not speak the protocol of Redis");

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
    end: ValueEnd,
}

impl Wire {
    pub(super) fn new(stream: Stream) -> Self {
        let outgoing = Outgoing { bytes: Vec::new(), written: 0, is_flushed: true };
        let incoming = Incoming { buffer: vec![0; SMALLEST], from: 0, to: 0, end: ValueEnd::default() };
        Self { stream, outgoing, incoming, when_readable: WhenWoken::default() }
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

    /// Hands over each value that has arrived. Costs nothing when nothing has.
    pub(super) fn read(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Value),
    ) -> Result<(), RedisError> {
        let Self { stream, incoming, when_readable, .. } = self;
        match when_readable.poll(cx, |cx| incoming.read(cx, stream, &mut take)) {
            Poll::Ready(end) => Err(end),
            Poll::Pending => Ok(()),
        }
    }
}

impl Incoming {
    /// Ready at the end of the stream.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut Stream,
        take: &mut impl FnMut(Value),
    ) -> Poll<RedisError> {
        loop {
            self.make_room();
            let mut room = ReadBuf::new(self.buffer.get_mut(self.to..).unwrap_or_default());
            if let Err(error) = ready!(Pin::new(&mut *stream).poll_read(cx, &mut room)) {
                return Poll::Ready(error.into());
            }
            match room.filled().len() {
                0 => return Poll::Ready(io::Error::from(io::ErrorKind::BrokenPipe).into()),
                arrived => self.to += arrived,
            }
            if let Err(error) = self.take_all(take) {
                return Poll::Ready(error);
            }
        }
    }

    fn take_all(&mut self, take: &mut impl FnMut(Value)) -> Result<(), RedisError> {
        loop {
            let arrived = self.buffer.get(self.from..self.to).unwrap_or_default();
            let end = self.end.find(arrived).map_err(|Malformed| NO_RESP)?;
            let Some(value) = end.and_then(|end| arrived.get(..end)) else {
                return Ok(());
            };
            take(resp::value(value)?);
            self.from += value.len();
        }
    }

    /// At the end of the buffer, for the rest of a value or for the next ones.
    fn make_room(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            if self.buffer.len() > KEPT {
                self.buffer = vec![0; SMALLEST];
            }
        }
        if self.to == self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            // One value takes more than half of it.
            if self.to > self.buffer.len() / 2 {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
    }
}
