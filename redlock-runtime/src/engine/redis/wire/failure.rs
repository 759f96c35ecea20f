//! Why a connection has ended, or was never opened.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::error_reply::ErrorReply;
use crate::engine::redis::wire::error_reply::is_passing;

#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The words of the operating system, or those of TLS.
    Broke(Arc<str>),
    /// The server, or what is between, closed it.
    Closed {
        /// It has never said anything.
        was_silent: bool,
        /// The command that was not answered, if one was awaited.
        unanswered: Option<String>,
    },
    /// The server refused a command that the connection needs.
    Said(ErrorReply),
    /// Only their order distinguishes replies: after one too many, no other can be trusted.
    /// The words, if it is an error.
    Unasked(Option<ErrorReply>),
    /// The server sent more than any reply that a lock needs.
    TooMuch(&'static str),
    /// It answered with an alert of TLS.
    SpeaksTls,
    /// It is no Redis server: how it answered.
    NoRedis(String),
}

impl Failure {
    /// Waiting does not help.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Said(reply) => !is_passing(&reply.code) && !reply.is_of_too_many_clients(),
            Self::SpeaksTls | Self::NoRedis(_) => true,
            Self::Broke(_) | Self::Closed { .. } | Self::Unasked(_) | Self::TooMuch(_) => false,
        }
    }

    /// The reason when a connection to this server that was in use has ended.
    pub(crate) fn reason(&self, server: &str) -> Arc<str> {
        match self {
            Self::Closed { .. } => "Redis closed the connection".into(),
            Self::TooMuch(_) => format!("the connection to Redis at {server} broke: {self}").into(),
            other => format!("the connection to Redis broke: {other}").into(),
        }
    }
}

impl From<io::Error> for Failure {
    /// The end of a stream has many names: TLS misses its last message, and a system may lose the
    /// last bytes.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => Self::Closed { was_silent: false, unanswered: None },
            _ => Self::Broke(error.to_string().into()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broke(words) => f.write_str(words),
            Self::Closed { unanswered: Some(command), .. } => {
                write!(f, "it closed the connection instead of answering {command}")
            }
            Self::Closed { .. } => f.write_str("it closed the connection"),
            Self::Said(reply) => reply.fmt(f),
            Self::Unasked(None) => f.write_str("a reply came that no command had asked for"),
            Self::Unasked(Some(words)) => {
                write!(f, "an error came that no command had asked for: {words}")
            }
            Self::TooMuch(what) => write!(f, "it sent {what}, and no lock needs that"),
            Self::SpeaksTls => f.write_str("it speaks TLS on this port"),
            Self::NoRedis(answer) => write!(f, "it answered with {answer}: it is no Redis server"),
        }
    }
}
