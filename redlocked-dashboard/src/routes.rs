//! The routes: pages, their live parts, and the two acts that change something.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{ConnectInfo, Form, OriginalUri, Query, Request, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use redlocked::LockError;
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::pages::{self, Page, Rendered};
use crate::state::State;
use crate::text::printable;

/// How often a live page changes.
const LIVE: Duration = Duration::from_secs(1);

const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

pub(crate) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/lock", get(page))
        .route("/leaders", get(page))
        .route("/jobs", get(page))
        .route("/server", get(page))
        .route("/live", get(live))
        .route("/release", post(release))
        .route("/clear", post(clear))
        .route("/style.css", get(async || asset("text/css; charset=utf-8", include_str!("assets/style.css"))))
        .route(
            "/live.js",
            get(async || asset("text/javascript; charset=utf-8", include_str!("assets/live.js"))),
        )
        .fallback(not_found)
        .layer(from_fn(with_headers))
        .with_state(state)
}

async fn with_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    // They change with a version of the crate only; but then at once.
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}

/// The path of the pages in the browser.
fn base(state: &State, original: &Uri, inner: &Uri) -> String {
    if let Some(path) = &state.base_path {
        return path.clone();
    }
    let (original, inner) = (original.path(), inner.path());
    original.strip_suffix(inner).unwrap_or(original).trim_end_matches('/').to_owned()
}

/// What the address of a page says.
#[derive(Deserialize, Default)]
struct Params {
    #[serde(default)]
    page: String,
    #[serde(default)]
    q: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    last: String,
}

impl Params {
    fn page(self, path: &str) -> Page {
        // A filter is a few words, and each has answers of its own.
        let q = || self.q.trim().chars().take(100).collect();
        match path.trim_matches('/') {
            "lock" => Page::Lock { key: self.key, window: pages::Window::named(&self.last) },
            "leaders" => Page::Leaders { filter: q() },
            "jobs" => Page::Jobs { filter: q() },
            "server" => Page::Server,
            _ => Page::Locks { filter: q() },
        }
    }
}

async fn page(
    Shared(state): Shared<Arc<State>>,
    OriginalUri(original): OriginalUri,
    inner: Uri,
    Query(params): Query<Params>,
) -> Response {
    let base = base(&state, &original, &inner);
    let page = params.page(inner.path());
    pages::render(&state, &base, &page).await.into_document(&base, &page)
}

/// The live part of a page, each second, as far as it has changed.
async fn live(
    Shared(state): Shared<Arc<State>>,
    OriginalUri(original): OriginalUri,
    inner: Uri,
    Query(mut params): Query<Params>,
) -> Response {
    let Ok(viewer) = Arc::clone(&state.viewers).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many browsers look at these pages").into_response();
    };
    let base = base(&state, &original, &inner);
    let path = std::mem::take(&mut params.page);
    let page = params.page(&path);
    let mut each_second = interval(LIVE);
    each_second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let start = (each_second, String::new(), viewer);
    let events = stream::unfold(start, move |(mut each_second, mut sent, viewer)| {
        let (state, base, page) = (Arc::clone(&state), base.clone(), page.clone());
        async move {
            loop {
                each_second.tick().await;
                let main = pages::render(&state, &base, &page).await.main.into_string();
                if main != sent {
                    sent.clone_from(&main);
                    let event = Ok::<_, Infallible>(Event::default().data(main));
                    return Some((event, (each_second, sent, viewer)));
                }
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

async fn not_found(
    Shared(state): Shared<Arc<State>>,
    OriginalUri(original): OriginalUri,
    inner: Uri,
) -> Response {
    // A path that is no page does not show where the pages begin.
    let base = base(&state, &original, &inner);
    let text = "There is no page of this name.";
    Rendered::message(StatusCode::NOT_FOUND, "No such page", text).into_document(&base, &Page::Server)
}

/// A form that changes something.
#[derive(Deserialize)]
struct Act {
    page_token: String,
    key: String,
    typed: String,
    /// For a release: how often the holder had changed when the page was made.
    #[serde(default)]
    change: u64,
    /// For a record: `tick` or `once`.
    #[serde(default)]
    what: String,
}

impl Act {
    /// Why it is refused.
    fn refusal(&self, state: &State, headers: &HeaderMap) -> Option<Rendered> {
        let refuse = |status, text: &str| Some(Rendered::message(status, "Nothing was changed", text));
        if !state.allow_release {
            return refuse(
                StatusCode::FORBIDDEN,
                "These pages only read: the service that serves them does not allow it.",
            );
        }
        if state.page_token.is_empty()
            || !is_equal(&self.page_token, &state.page_token)
            || is_strange(headers)
        {
            return refuse(
                StatusCode::FORBIDDEN,
                "The form is not one of this page, or of a service that has started again since: load the page again.",
            );
        }
        if self.typed != self.key {
            return refuse(StatusCode::UNPROCESSABLE_ENTITY, "What was typed is not the key.");
        }
        None
    }
}

/// In a time that does not tell where they differ.
fn is_equal(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

/// The form was sent from a page of another site.
fn is_strange(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text(HeaderName::from_static("sec-fetch-site"));
    if site.is_some_and(|site| site != "same-origin") {
        return true;
    }
    let of_origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    of_origin.is_some_and(|origin| site.is_none() && text(header::HOST) != Some(origin))
}

/// Where a request comes from, for the log.
fn from(address: Option<&ConnectInfo<SocketAddr>>, headers: &HeaderMap) -> String {
    let peer = address
        .map_or_else(|| "an address that the service does not pass on".to_owned(), |from| from.0.to_string());
    let forwarded = headers.get("x-forwarded-for").and_then(|value| value.to_str().ok());
    forwarded
        .map_or_else(|| peer.clone(), |forwarded| format!("{peer}, forwarded for {}", printable(forwarded)))
}

async fn release(
    Shared(state): Shared<Arc<State>>,
    OriginalUri(original): OriginalUri,
    inner: Uri,
    address: Option<axum::Extension<ConnectInfo<SocketAddr>>>,
    headers: HeaderMap,
    Form(act): Form<Act>,
) -> Response {
    let base = base(&state, &original, &inner);
    let page = Page::Lock { key: act.key.clone(), window: pages::Window::default() };
    if let Some(refusal) = act.refusal(&state, &headers) {
        return refusal.into_document(&base, &page);
    }
    let rendered = match release_seen(&state, &act).await {
        Ok(Ok(holder)) => {
            let from = from(address.as_deref(), &headers);
            tracing::warn!(key = %printable(&act.key), %holder, %from, "a lock was released from the dashboard");
            state.has_changed(&act.key);
            let text = format!("The lock was taken from {holder}. The next waiter has it, or it is free.");
            Rendered::message(StatusCode::OK, "Released", &text)
        }
        Ok(Err(reason)) => Rendered::message(StatusCode::CONFLICT, "Nothing was released", reason),
        Err(error) => Rendered::error("Nothing was released, as far as is known", &error),
    };
    rendered.into_document(&base, &page)
}

/// Releases the lock if the holder is still the one on the page. Returns the holder.
async fn release_seen(state: &State, act: &Act) -> Result<Result<String, &'static str>, LockError> {
    let found = state.locks.inspect(&act.key).await?;
    let Some(lock) = found else { return Ok(Err("The lock is free.")) };
    let mut history =
        state.history(&act.key).unwrap_or_else(|| crate::history::History::new(SystemTime::now()));
    history.look(SystemTime::now(), Some(&lock));
    if history.change != act.change {
        return Ok(Err("Another caller holds the lock by now: look at the page again."));
    }
    let holder = printable(&lock.holder().to_string());
    let ends = lock.holders().iter().map(|holder| state.locks.force_release_from(&act.key, holder));
    let mut was_released = false;
    for outcome in futures_util::future::join_all(ends).await {
        match outcome {
            Ok(released) => was_released |= released,
            // A client of another kind has no token that tells one holder from the next.
            Err(LockError::InvalidRequest { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if was_released {
        return Ok(Ok(holder));
    }
    Ok(Err(
        "The holder has the lock no longer, or is a client of another kind, whose lock only `redlocked release` takes away.",
    ))
}

async fn clear(
    Shared(state): Shared<Arc<State>>,
    OriginalUri(original): OriginalUri,
    inner: Uri,
    address: Option<axum::Extension<ConnectInfo<SocketAddr>>>,
    headers: HeaderMap,
    Form(act): Form<Act>,
) -> Response {
    let base = base(&state, &original, &inner);
    let page = Page::Lock { key: act.key.clone(), window: pages::Window::default() };
    if let Some(refusal) = act.refusal(&state, &headers) {
        return refusal.into_document(&base, &page);
    }
    let cleared = match &*act.what {
        "tick" => state.locks.clear_tick(&act.key).await,
        "once" => state.locks.clear_once(&act.key).await,
        _ => {
            let text = "The form does not say which record to clear.";
            return Rendered::message(StatusCode::UNPROCESSABLE_ENTITY, "Nothing was cleared", text)
                .into_document(&base, &page);
        }
    };
    let rendered = match cleared {
        Ok(true) => {
            let from = from(address.as_deref(), &headers);
            tracing::warn!(key = %printable(&act.key), record = %act.what, %from, "a record was cleared from the dashboard");
            state.has_changed(&act.key);
            Rendered::message(StatusCode::OK, "Cleared", "The record is gone: the next call runs its body.")
        }
        Ok(false) => Rendered::message(
            StatusCode::CONFLICT,
            "Nothing was cleared",
            "There is no such record any more.",
        ),
        Err(error) => Rendered::error("Nothing was cleared, as far as is known", &error),
    };
    rendered.into_document(&base, &page)
}
