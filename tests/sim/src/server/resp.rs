//! The wire: requests as a client sends them, and replies in RESP2 or RESP3.

/// Keys, values and arguments are bytes.
pub type Bytes = Vec<u8>;

/// What a server says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Status(&'static str),
    /// A status of a script.
    Said(Bytes),
    Error(String),
    Integer(i64),
    Bulk(Bytes),
    /// Text for humans: `INFO` and the like.
    Verbatim(String),
    Score(String),
    Nil,
    /// In RESP2, another nil than that of a value.
    NilArray,
    Array(Vec<Reply>),
    /// A flat list of keys and values.
    Map(Vec<Reply>),
    Push(Vec<Reply>),
    /// Several, as to `SUBSCRIBE`.
    Each(Vec<Reply>),
    /// The reply comes later.
    Later,
}

pub(super) const OK: Reply = Reply::Status("OK");

impl Reply {
    pub(super) fn text(text: &str) -> Self {
        Self::Bulk(text.as_bytes().to_vec())
    }

    pub(super) fn count(count: usize) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    Resp2,
    Resp3,
}

pub(super) fn write(reply: &Reply, protocol: Protocol, out: &mut Bytes) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Status(status) => line(out, b'+', status.as_bytes()),
        Reply::Said(status) => line(out, b'+', status),
        Reply::Error(error) => line(out, b'-', error.as_bytes()),
        Reply::Integer(number) => line(out, b':', number.to_string().as_bytes()),
        Reply::Bulk(bytes) => bulk(out, b'$', bytes),
        Reply::Verbatim(text) if resp3 => bulk(out, b'=', format!("txt:{text}").as_bytes()),
        Reply::Verbatim(text) => bulk(out, b'$', text.as_bytes()),
        Reply::Score(score) if resp3 => line(out, b',', score.as_bytes()),
        Reply::Score(score) => bulk(out, b'$', score.as_bytes()),
        Reply::Nil | Reply::NilArray if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Map(items) if resp3 => list(out, b'%', items.len() / 2, items, protocol),
        Reply::Push(items) if resp3 => list(out, b'>', items.len(), items, protocol),
        Reply::Array(items) | Reply::Map(items) | Reply::Push(items) => {
            list(out, b'*', items.len(), items, protocol);
        }
        Reply::Each(replies) => {
            for reply in replies {
                write(reply, protocol, out);
            }
        }
        Reply::Later => {}
    }
}

fn line(out: &mut Bytes, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Bytes, kind: u8, bytes: &[u8]) {
    line(out, kind, bytes.len().to_string().as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn list(out: &mut Bytes, kind: u8, length: usize, items: &[Reply], protocol: Protocol) {
    line(out, kind, length.to_string().as_bytes());
    for item in items {
        write(item, protocol, out);
    }
}

/// The start of what a client has sent.
#[derive(Debug, PartialEq)]
pub(super) enum Request {
    /// The words of a command, and how many bytes it had. Without words it is an empty line.
    Complete(Vec<Bytes>, usize),
    Incomplete,
    /// The client does not speak the protocol: it gets an error, and its connection is closed.
    Malformed(String),
}

pub(super) fn read(input: &[u8]) -> Request {
    match input.first() {
        None => Request::Incomplete,
        Some(b'*') => read_array(input),
        Some(_) => match line_at(input, 0) {
            Some((line, end)) => {
                let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                Request::Complete(words.map(<[u8]>::to_vec).collect(), end)
            }
            None => Request::Incomplete,
        },
    }
}

fn read_array(input: &[u8]) -> Request {
    let Some((count, mut at)) = line_at(input, 1) else {
        return Request::Incomplete;
    };
    let Some(count) = number(count) else {
        return Request::Malformed("ERR Protocol error: invalid multibulk length".to_owned());
    };
    let mut words = Vec::with_capacity(count.min(1024));
    for _ in 0..count {
        match input.get(at) {
            None => return Request::Incomplete,
            Some(b'$') => {}
            Some(other) => {
                let other = char::from(*other);
                return Request::Malformed(format!("ERR Protocol error: expected '$', got '{other}'"));
            }
        }
        let Some((length, start)) = line_at(input, at + 1) else {
            return Request::Incomplete;
        };
        let Some(length) = number(length) else {
            return Request::Malformed("ERR Protocol error: invalid bulk length".to_owned());
        };
        let end = start + length;
        if input.len() < end + 2 {
            return Request::Incomplete;
        }
        words.push(input[start..end].to_vec());
        at = end + 2;
    }
    Request::Complete(words, at)
}

/// The line that begins at `start`, and where the next one begins.
fn line_at(input: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let rest = input.get(start..)?;
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    Some((rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]), start + length + 1))
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_its_last_byte_is_there() {
        let sent = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\nPING x\r\n";
        let first = sent.len() - b"PING x\r\n".len();
        for end in 0..first {
            assert_eq!(read(&sent[..end]), Request::Incomplete, "{end} bytes");
        }
        assert_eq!(read(sent), Request::Complete(vec![b"GET".to_vec(), b"\r\n".to_vec()], first));
        assert_eq!(read(&sent[first..]), Request::Complete(vec![b"PING".to_vec(), b"x".to_vec()], 8));
        assert!(matches!(read(b"*1\r\n:1\r\n"), Request::Malformed(_)));
    }

    #[test]
    fn a_reply_is_written_in_both_protocols() {
        let written = |reply: &Reply, protocol| {
            let mut out = Vec::new();
            write(reply, protocol, &mut out);
            String::from_utf8(out).unwrap_or_default()
        };
        let reply =
            Reply::Map(vec![Reply::text("a"), Reply::Array(vec![Reply::Nil, Reply::Score("1".to_owned())])]);
        assert_eq!(written(&reply, Protocol::Resp2), "*2\r\n$1\r\na\r\n*2\r\n$-1\r\n$1\r\n1\r\n");
        assert_eq!(written(&reply, Protocol::Resp3), "%1\r\n$1\r\na\r\n*2\r\n_\r\n,1\r\n");
    }
}
