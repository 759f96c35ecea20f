//! The pages: their frame, and a file for each.

mod jobs;
mod leaders;
mod lock;
mod locks;
mod server;
mod timeline;

use std::sync::Arc;
use std::time::SystemTime;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use redlocked::LockError;

use crate::live::Seen;
use crate::state::State;
use crate::text::{ago, exact, printable};

pub(crate) use timeline::Window;

/// Which page, and of what.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    Locks { filter: String },
    Lock { key: String, window: Window },
    Leaders { filter: String },
    Jobs { filter: String },
    Server,
}

impl Page {
    /// Where its list is in the navigation, and what that is called.
    fn place(&self) -> (&'static str, &'static str) {
        match self {
            Self::Locks { .. } | Self::Lock { .. } => ("", "Locks"),
            Self::Leaders { .. } => ("leaders", "Leaders"),
            Self::Jobs { .. } => ("jobs", "Jobs"),
            Self::Server => ("server", "Server"),
        }
    }

    /// The query of its live part.
    fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        match self {
            Self::Lock { key, window } => {
                query.append_pair("page", "lock").append_pair("key", key).append_pair("last", window.name());
            }
            Self::Locks { filter } | Self::Leaders { filter } | Self::Jobs { filter } => {
                query.append_pair("page", self.place().0).append_pair("q", filter);
            }
            Self::Server => {
                query.append_pair("page", "server");
            }
        }
        query.finish()
    }

    /// The filter of a list.
    fn filter(&self) -> Option<&str> {
        match self {
            Self::Locks { filter } | Self::Leaders { filter } | Self::Jobs { filter } => Some(filter),
            Self::Lock { .. } | Self::Server => None,
        }
    }
}

/// The live part of a page, and what is around it.
pub(crate) struct Rendered {
    status: StatusCode,
    title: String,
    pub(crate) main: Markup,
    /// What does not change by itself: forms.
    below: Markup,
    is_live: bool,
}

impl Rendered {
    fn page(title: impl Into<String>, main: Markup) -> Self {
        let (status, title) = (StatusCode::OK, title.into());
        Self { status, title, main, below: html! {}, is_live: true }
    }

    pub(crate) fn message(status: StatusCode, title: &str, text: &str) -> Self {
        let kind = if status.is_success() { "note" } else { "trouble" };
        let main = html! {
            h1 { (title) }
            p.(kind) role="status" { (text) }
        };
        Self { status, title: title.to_owned(), main, below: html! {}, is_live: false }
    }

    pub(crate) fn error(title: &str, error: &LockError) -> Self {
        Self::message(status_of(error), title, &printable(&error.to_string()))
    }

    /// The whole document.
    pub(crate) fn into_document(self, base: &str, page: &Page) -> Response {
        let Self { status, title, main, below, is_live } = self;
        let live = is_live.then(|| format!("{base}/live?{}", page.query()));
        let place = page.place().0;
        let tab = |path: &str, name: &str| {
            let current = (path == place).then_some("page");
            html! { a href=(format!("{base}/{path}")) aria-current=[current] { (name) } }
        };
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if live.is_some() {
                        noscript { meta http-equiv="refresh" content="5"; }
                    }
                    title { (title) " · redlocked" }
                    link rel="stylesheet" href=(format!("{base}/style.css"));
                    script defer src=(format!("{base}/live.js")) {}
                }
                body {
                    a.skip href="#main" { "To the content" }
                    header {
                        a.name href=(home(base)) { "redlocked" }
                        nav aria-label="Pages" {
                            a href=(home(base)) aria-current=[place.is_empty().then_some("page")] { "Locks" }
                            (tab("leaders", "Leaders"))
                            (tab("jobs", "Jobs"))
                            (tab("server", "Server"))
                        }
                        @if live.is_some() {
                            span.state id="state" role="status" { "reloads every 5 s" }
                        }
                    }
                    @if let Some(filter) = page.filter().filter(|_| is_live) {
                        form.filter role="search" action=(if place.is_empty() { home(base) } else { format!("{base}/{place}") }) {
                            label for="q" { "Filter" }
                            input id="q" name="q" type="search" value=(printable(filter)) maxlength="100" placeholder="part of a key" autocomplete="off";
                            button { "Show" }
                        }
                    }
                    main id="main" tabindex="-1" data-live=[live] { (main) }
                    (below)
                }
            }
        };
        (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], document.into_string()).into_response()
    }
}

/// The address of the list of locks.
fn home(base: &str) -> String {
    if base.is_empty() { "/".to_owned() } else { base.to_owned() }
}

/// A link to the page of a key.
fn link(base: &str, key: &str) -> Markup {
    let query: String = form_urlencoded::byte_serialize(key.as_bytes()).collect();
    html! { a.key href=(format!("{base}/lock?key={query}")) { (printable(key)) } }
}

/// By the cause: the caller's, the server's, or one that passes.
fn status_of(error: &LockError) -> StatusCode {
    match error {
        LockError::InvalidKey { .. } | LockError::InvalidRequest { .. } => StatusCode::BAD_REQUEST,
        LockError::Misconfigured { .. } => StatusCode::BAD_GATEWAY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// What is shown of an answer: with a word before it where it is old, and that word alone where there
/// is none.
fn shown<T>(title: &str, seen: &Seen<T>, body: impl FnOnce(&T, SystemTime) -> Markup) -> Rendered {
    if let (None, Some(error)) = (&seen.answer, &seen.trouble)
        && status_of(error) == StatusCode::BAD_REQUEST
    {
        return Rendered::error("There is no such lock", error);
    }
    let now = SystemTime::now();
    let trouble = seen.trouble.as_ref().map(|error| {
        let text = printable(&error.to_string());
        let refuses = matches!(**error, LockError::Misconfigured { .. });
        let silence = if refuses { "Redis refuses." } else { "Redis gives no answer." };
        html! {
            div.trouble role="alert" {
                @match &seen.answer {
                    Some((_, at)) => {
                        strong { (silence) " " }
                        "What is below was seen " time datetime=(exact(*at)) title=(exact(*at)) { (ago(*at, now)) } " ago."
                    }
                    None => strong { (silence) },
                }
                " The page goes on by itself. " code { (text) }
            }
        }
    });
    let body = seen.answer.as_ref().map(|(answer, at)| body(answer, *at));
    let status = match (&body, &seen.trouble) {
        (None, Some(error)) => status_of(error),
        _ => StatusCode::OK,
    };
    let main = html! {
        @if let Some(trouble) = trouble { (trouble) }
        @if let Some(body) = &body { (body) } @else { h1 { (title) } }
    };
    Rendered { status, ..Rendered::page(title, main) }
}

/// How many rows have no room.
fn more(shown: usize, count: usize) -> Markup {
    html! {
        @if count > shown {
            p.more { "and " (count - shown) " more: a filter finds them" }
        }
    }
}

pub(crate) async fn render(state: &Arc<State>, base: &str, page: &Page) -> Rendered {
    match page {
        Page::Locks { filter } => {
            locks::render(base, state.locks.prefix(), filter, &state.list(filter).await)
        }
        Page::Lock { key, window } => {
            let seen = state.details(key).await;
            lock::render(state, base, key, *window, &seen)
        }
        Page::Leaders { filter } => leaders::render(base, filter, &state.leaders(filter).await),
        Page::Jobs { filter } => jobs::render(base, filter, &state.jobs(filter).await),
        Page::Server => server::render(state.locks.prefix(), &state.servers().await),
    }
}
