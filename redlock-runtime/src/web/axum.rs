//! The answer to a request that axum handles.

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};

use super::{Answer, PLAIN_TEXT, retry_after_seconds};
use crate::base::error::LockError;

/// The status, `Retry-After` where trying again may help, and a sentence that names no key, no
/// holder and no server: [the table](../redlocked/docs/web/index.html#status-codes). The
/// error itself is an extension of the response, for a layer that logs it; with the feature
/// `tracing`, an answer of 5xx leaves a line in the log. Needs the feature `axum`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use axum_core::response::IntoResponse;
/// use redlocked::{LockError, LockManager};
///
/// let locks = LockManager::connect("memory://axum-example").await?;
/// let _guard = locks.lock("stock:42").acquire().await?;
///
/// let response = locks.lock("stock:42").acquire().await.unwrap_err().into_response();
/// assert_eq!(response.status(), 409);
/// assert!(response.headers().contains_key("retry-after"));
/// assert!(response.extensions().get::<LockError>().is_some_and(LockError::is_busy));
/// # Ok(())
/// # }
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "axum")))]
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let answer = Answer::given_to(&self);
        let mut response = Response::new(Body::from(answer.text()));
        if let Ok(status) = answer.http_status().try_into() {
            *response.status_mut() = status;
        }
        let headers = response.headers_mut();
        if let Ok(plain_text) = PLAIN_TEXT.try_into() {
            headers.insert("content-type", plain_text);
        }
        if let Some(seconds) = retry_after_seconds(&self) {
            headers.insert("retry-after", seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use axum_core::response::IntoResponse;

    use crate::base::error::tests::{SECRET, samples};
    use crate::web::tests::expected;

    #[test]
    fn each_error_has_its_status_and_tells_a_client_nothing_of_the_service() {
        for error in samples() {
            let kind = error.kind();
            let response = error.clone().into_response();
            let (status, seconds) = expected(kind);
            assert_eq!(response.status(), status, "{kind}");
            let retry_after = response.headers().get("retry-after");
            assert_eq!(retry_after.and_then(|value| value.to_str().ok()), seconds, "{kind}");
            assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
            assert_eq!(response.extensions().get(), Some(&error));
            let sent = format!("{:?}", response.headers());
            assert!(!sent.contains(SECRET), "{sent}");
        }
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn an_answer_of_5xx_leaves_a_line() {
        crate::web::lines::each_failure_leaves_one(|error| error.into_response().status().is_server_error());
    }
}
