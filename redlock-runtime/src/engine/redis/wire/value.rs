//! What a server answers.

/// One value of RESP.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Nil,
    Okay,
    Int(i64),
    /// A line; or a text that says of which kind it is, as `INFO` answers.
    SimpleString(String),
    BulkString(Vec<u8>),
    Array(Vec<Self>),
    Set(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Push {
        kind: PushKind,
        data: Vec<Self>,
    },
    ServerError(ServerError),
    /// A kind that no command of ours asks for: a fraction, a large number, true or false.
    Other,
}

/// The kind of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushKind {
    Message,
    SMessage,
    Invalidate,
    Subscribe,
    SSubscribe,
    SUnsubscribe,
    Other,
}

impl PushKind {
    pub(crate) fn named(name: &[u8]) -> Self {
        match name {
            b"message" => Self::Message,
            b"smessage" => Self::SMessage,
            b"invalidate" => Self::Invalidate,
            b"subscribe" => Self::Subscribe,
            b"ssubscribe" => Self::SSubscribe,
            b"sunsubscribe" => Self::SUnsubscribe,
            _ => Self::Other,
        }
    }
}

/// An error in the words of the server: a code, and what is behind the space after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerError(String);

impl ServerError {
    /// Any byte may be in them: a server repeats what it was asked.
    pub(crate) fn said(words: &[u8]) -> Self {
        Self(String::from_utf8_lossy(words).replace(['\r', '\n'], " "))
    }

    pub(crate) fn code(&self) -> &str {
        self.0.split_once(' ').map_or(&self.0, |(code, _)| code)
    }

    pub(crate) fn details(&self) -> Option<&str> {
        self.0.split_once(' ').map(|(_, details)| details)
    }
}

impl Value {
    /// The memory of its text, if it is one, in bytes.
    pub(crate) fn heap(&self) -> usize {
        match self {
            Self::SimpleString(text) | Self::ServerError(ServerError(text)) => text.capacity(),
            Self::BulkString(text) => text.capacity(),
            _ => 0,
        }
    }

    /// The text, of whichever kind.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::SimpleString(text) => Some(text),
            Self::BulkString(text) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The number, or the text of one.
    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            text => text.text()?.parse().ok(),
        }
    }

    /// The entries of a map, which before RESP3 is a list.
    pub(crate) fn entries(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Map(entries) => {
                entries.iter().filter_map(|(name, value)| name.text().zip(value.text())).collect()
            }
            Self::Array(values) => {
                let pairs = values.chunks_exact(2);
                pairs.filter_map(|pair| pair.first()?.text().zip(pair.get(1)?.text())).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The text of a bulk string.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}
