//! The answer to a request that actix-web handles.

use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, ResponseError};

use super::{Answer, PLAIN_TEXT, retry_after_seconds};
use crate::base::error::LockError;

/// The status, `Retry-After` where trying again may help, and a sentence that names no key, no
/// holder and no server: [the table](../redlocked/docs/web/index.html#status-codes). A
/// middleware that logs has the error itself from `HttpResponse::error`; with the feature
/// `tracing`, an answer of 5xx leaves a line in the log. Needs the feature `actix-web`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlocked::LockError> {
/// use actix_web::ResponseError;
/// use redlocked::LockManager;
///
/// let locks = LockManager::connect("memory://actix-example").await?;
/// let _guard = locks.lock("stock:42").acquire().await?;
///
/// let response = locks.lock("stock:42").acquire().await.unwrap_err().error_response();
/// assert_eq!(response.status(), 409);
/// assert!(response.headers().contains_key("retry-after"));
/// # Ok(())
/// # }
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "actix-web")))]
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(Answer::to(self).http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let text = Answer::given_to(self).text();
        let mut response = HttpResponse::build(self.status_code());
        if let Some(seconds) = retry_after_seconds(self) {
            response.insert_header((RETRY_AFTER, seconds));
        }
        response.content_type(PLAIN_TEXT).body(text)
    }
}

#[cfg(test)]
mod tests {
    use actix_web::ResponseError;
    use actix_web::body::MessageBody;

    use crate::base::error::tests::{SECRET, samples};
    use crate::web::tests::expected;

    #[test]
    fn each_error_has_its_status_and_tells_a_client_nothing_of_the_service() {
        for error in samples() {
            let kind = error.kind();
            let response = error.error_response();
            let (status, seconds) = expected(kind);
            assert_eq!(response.status(), status, "{kind}");
            assert_eq!(error.status_code(), status, "{kind}");
            let retry_after = response.headers().get("retry-after");
            assert_eq!(retry_after.and_then(|value| value.to_str().ok()), seconds, "{kind}");
            let headers = format!("{:?}", response.headers());
            let body = response.into_body().try_into_bytes().unwrap_or_default();
            let sent = format!("{headers} {}", String::from_utf8_lossy(&body));
            assert!(sent.contains("text/plain; charset=utf-8") && !sent.contains(SECRET), "{sent}");
        }
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn an_answer_of_5xx_leaves_a_line() {
        crate::web::lines::each_failure_leaves_one(|error| error.error_response().status().is_server_error());
    }
}
