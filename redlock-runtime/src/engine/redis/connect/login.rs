//! Logging in: user and password of one connection, which are those of the address or what the
//! program's function gives now, the protocol and the database.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::server_address::ServerAddress;
use crate::base::credentials::Credentials;
use crate::base::host::world::Work;
use crate::base::span::Span;
use crate::engine::redis::wire::command::Pipeline;
use crate::engine::redis::wire::error_reply::ErrorReply;
use crate::engine::redis::wire::error_reply::is_passing;
use crate::engine::redis::wire::exchange::{Exchange, Interrupted};
use crate::engine::redis::wire::failure::Failure;
use crate::engine::redis::wire::stream::ConnectError;
use crate::engine::redis::wire::value::Value;

/// An address with the user and password to open one connection with.
pub(crate) struct Login {
    pub(crate) address: ServerAddress,
    /// The credentials that the function returned.
    credentials: Option<Credentials>,
    is_last: bool,
}

/// Credentials that the server has refused. They may have changed since the function gave them, so
/// it is asked once more.
pub(crate) struct RefusedLogin {
    credentials: Credentials,
    failure: Failure,
}

impl Login {
    pub(crate) async fn new(
        address: &ServerAddress,
        source: Option<&CredentialSource>,
        refused: Option<RefusedLogin>,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let Some(source) = source else {
            return Ok(Self { address: address.clone(), credentials: None, is_last: true });
        };
        let credentials = source.ask(limit).await.map_err(ConnectError::NoCredentials)?;
        let is_last = refused.is_some();
        if let Some(RefusedLogin { failure, .. }) =
            refused.filter(|refused| refused.credentials == credentials)
        {
            return Err(ConnectError::Failed(failure));
        }
        let mut address = address.clone();
        address.password = Some(credentials.password.clone());
        address.user = credentials.user.clone().or(address.user);
        Ok(Self { address, credentials: Some(credentials), is_last })
    }

    /// The error of opening a connection, unless other credentials may help.
    pub(crate) fn refused(self, error: ConnectError) -> Result<RefusedLogin, ConnectError> {
        match (error, self.credentials) {
            (ConnectError::Failed(failure), Some(credentials))
                if !self.is_last && is_about_credentials(&failure) =>
            {
                Ok(RefusedLogin { credentials, failure })
            }
            (error, _) => Err(error),
        }
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<Credentials, String>> + Send>>;

/// The source of credentials that change while the program runs: a function of the program, which
/// is asked at each connect.
#[derive(Clone)]
pub(crate) struct CredentialSource {
    ask: Arc<dyn Fn() -> Asking + Send + Sync>,
}

impl CredentialSource {
    pub(crate) fn new<F, E>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let ask = move || -> Asking {
            let asking = ask();
            Box::pin(async move {
                asking.await.map_err(|error| {
                    let error: Box<dyn Error + Send + Sync> = error.into();
                    format!("`credentials` failed: {error}")
                })
            })
        };
        Self { ask: Arc::new(ask) }
    }

    /// The credentials, or why there are none.
    async fn ask(&self, limit: Duration) -> Result<Credentials, String> {
        // A task of its own: the locks outlive a panic there.
        let ask = Arc::clone(&self.ask);
        let (caller, answer) = oneshot::channel();
        let asking: Work = Box::pin(async move { drop(caller.send(ask().await)) });
        let _ends_with_this = Ending(tokio::spawn(asking));
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("`credentials` panicked".to_owned()),
            Err(_) => Err(format!("`credentials` gave no answer within {}", Span(limit))),
        }
    }
}

/// Ends the task when it is dropped.
struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Before Redis 6, a wrong password has no code.
fn is_about_credentials(failure: &Failure) -> bool {
    let is =
        |reply: &ErrorReply| matches!(&*reply.code, "WRONGPASS" | "NOAUTH") || reply.says("invalid password");
    matches!(failure, Failure::Said(reply) if is(reply))
}

/// The protocol that the server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speak {
    Resp3,
    Resp2,
    /// RESP2, to a server that has closed a connection upon `HELLO`: the connection counts once it
    /// answers anything at all, and it is asked for nothing else that it may not know.
    Resp2Carefully,
}

/// The server gave a reason that RESP2 changes nothing about; any other refusal of `HELLO` means
/// that it speaks no RESP3. Older servers and proxies word that in many ways, with a code or
/// without.
pub(crate) fn refuses_resp3(failure: &Failure) -> bool {
    let has_another_reason = |reply: &ErrorReply| {
        matches!(&*reply.code, "NOAUTH" | "WRONGPASS" | "NOPERM")
            || is_passing(&reply.code)
            || reply.is_a_farewell()
    };
    matches!(failure, Failure::Said(reply) if !has_another_reason(reply))
}

/// Logs in over a connection that was just opened.
pub(crate) async fn log_in(
    exchange: &mut Exchange,
    address: &ServerAddress,
    speak: Speak,
) -> Result<(), Failure> {
    let user = address.user.as_deref();
    match log_in_as(exchange, address, user, speak).await {
        // Before Redis 6 there are no users.
        Err(Failure::Said(reply))
            if user.is_some() && reply.says("wrong number of arguments for 'auth' command") =>
        {
            log_in_as(exchange, address, None, speak).await
        }
        done => done,
    }
}

async fn log_in_as(
    exchange: &mut Exchange,
    address: &ServerAddress,
    user: Option<&str>,
    speak: Speak,
) -> Result<(), Failure> {
    let password = address.password.as_deref();
    let mut commands = Pipeline::default();
    let login = match (speak, user, password) {
        (Speak::Resp3, _, None) => &["HELLO", "3"][..],
        (Speak::Resp3, user, Some(password)) => &["HELLO", "3", "AUTH", user.unwrap_or("default"), password],
        (_, Some(user), Some(password)) => &["AUTH", user, password],
        (_, None, Some(password)) => &["AUTH", password],
        (_, _, None) => &[],
    };
    if !login.is_empty() {
        commands.add(login);
    }
    if address.database != 0 {
        commands.add(&["SELECT", &address.database.to_string()]);
    }
    let needed = commands.len();
    if speak == Speak::Resp2Carefully {
        commands.add(&["PING"]);
    } else {
        // For operators. Servers before 7.2 do not know it, and nothing needs it.
        for (name, value) in [("LIB-NAME", "redlocked"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            commands.add(&["CLIENT", "SETINFO", name, value]);
        }
    }
    let (answers, interrupted) = match exchange.ask(&commands).await {
        Ok(answers) => (answers, Ok(())),
        Err(Interrupted { answers, failure }) => (answers, Err(failure)),
    };
    for (nth, answer) in answers.iter().enumerate() {
        if let Value::ServerError(error) = answer {
            let reply = ErrorReply::of(error).without(password.unwrap_or_default());
            if nth < needed || reply.code == "NOAUTH" || reply.is_a_farewell() {
                return Err(Failure::Said(reply));
            }
        }
    }
    interrupted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redis::wire::value::ServerError;

    fn said(words: &str) -> Failure {
        Failure::Said(ErrorReply::of(&ServerError::said(words.as_bytes())))
    }

    #[test]
    fn an_older_protocol_is_spoken_where_hello_is_refused_in_any_words() {
        for refused in [
            "ERR unknown command `HELLO`, with args beginning with: `3`, ",
            "ERR unknown command 'HELLO'",
            "ERR unsupported command 'HELLO'",
            // Envoy.
            "unsupported command 'HELLO'",
            "Unknown command",
            "ERR",
            "NOPROTO unsupported protocol version",
        ] {
            assert!(refuses_resp3(&said(refused)), "{refused}");
        }
        for other in [
            "ERR max number of clients reached",
            "ERR max number of clients + cluster connections reached",
            "DENIED Redis is running in protected mode because protected mode is enabled",
            "NOAUTH HELLO must be called with the client already authenticated",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'select' command",
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script.",
            "MASTERDOWN Link with MASTER is down",
        ] {
            assert!(!refuses_resp3(&said(other)), "{other}");
        }
    }

    #[test]
    fn a_server_with_too_many_clients_passes_and_one_that_denies_does_not() {
        assert!(!said("ERR max number of clients reached").is_permanent());
        assert!(said("DENIED Redis is running in protected mode").is_permanent());
    }
}
