//! Where user and password come from when they change while the program runs: a function of the program.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::ground::credentials::Credentials;

type Asking = Pin<Box<dyn Future<Output = Result<Credentials, String>> + Send>>;

/// The function, asked at each connect.
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
    pub(super) async fn ask(&self, limit: Duration) -> Result<Credentials, String> {
        // A task of its own: the locks outlive a panic there.
        let ask = Arc::clone(&self.ask);
        let mut task = Ending(tokio::spawn(async move { ask().await }));
        match tokio::time::timeout(limit, &mut task.0).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("`credentials` panicked".to_owned()),
            Err(_) => Err(format!("`credentials` gave no answer within {limit:?}")),
        }
    }
}

/// Ends the task when it is dropped.
struct Ending<T>(JoinHandle<T>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
