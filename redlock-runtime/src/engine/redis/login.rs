//! User and password of one connection: those of the address, or what the program's function gives now.

use std::time::Duration;

use redis::{ConnectionInfo, ErrorKind, RedisError};

use super::connect_error::ConnectError;
use super::credential_source::CredentialSource;
use crate::credentials::Credentials;

/// An address with the user and password to open one connection with.
pub(super) struct Login {
    pub(super) info: ConnectionInfo,
    /// What the function gave.
    credentials: Option<Credentials>,
    is_last: bool,
}

/// Credentials that the server has refused. They may have changed since the function gave them, so it is asked once more.
pub(super) struct RefusedLogin {
    credentials: Credentials,
    error: RedisError,
}

impl Login {
    pub(super) async fn new(
        info: &ConnectionInfo,
        source: Option<&CredentialSource>,
        refused: Option<RefusedLogin>,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let Some(source) = source else {
            return Ok(Self { info: info.clone(), credentials: None, is_last: true });
        };
        let credentials = source.ask(limit).await.map_err(ConnectError::NoCredentials)?;
        let is_last = refused.is_some();
        if let Some(RefusedLogin { error, .. }) = refused.filter(|refused| refused.credentials == credentials)
        {
            return Err(ConnectError::Failed(error));
        }
        let settings = info.redis_settings().clone().set_password(&credentials.password);
        let settings = match &credentials.user {
            Some(user) => settings.set_username(user),
            None => settings,
        };
        Ok(Self { info: info.clone().set_redis_settings(settings), credentials: Some(credentials), is_last })
    }

    /// The error of opening a connection, unless other credentials may help.
    pub(super) fn refused(self, error: ConnectError) -> Result<RefusedLogin, ConnectError> {
        match (error, self.credentials) {
            (ConnectError::Failed(error), Some(credentials))
                if !self.is_last && is_about_credentials(&error) =>
            {
                Ok(RefusedLogin { credentials, error })
            }
            (error, _) => Err(error),
        }
    }
}

fn is_about_credentials(error: &RedisError) -> bool {
    matches!(error.code(), Some("WRONGPASS" | "NOAUTH")) || error.kind() == ErrorKind::AuthenticationFailed
}
