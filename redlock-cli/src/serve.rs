//! `redlocked serve`: the pages of `redlocked-dashboard` on an address of their own.
//!
//! Without a token, whoever can open a connection to this machine may look: so it listens on an
//! address of this machine alone, and answers only a browser that was given this address. A page of
//! another site could else name a host that leads here, and read the pages with the browser of
//! somebody who works here.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use redlocked_dashboard::Dashboard;
use tokio::net::TcpListener;

use crate::args::{ServeArgs, ServerArgs};
use crate::exit::{Failure, OK, OS, USAGE};

/// A shorter one can be guessed.
const SHORTEST_TOKEN: usize = 16;

/// A longer one is no password, but another file.
const LONGEST_TOKEN: usize = 1024;

/// Who may look.
enum Access {
    /// Who knows the token.
    Token(String),
    /// Who is on this machine, at one of these hosts.
    Local(SocketAddr),
}

pub(crate) async fn serve(server: &ServerArgs, args: &ServeArgs) -> Result<u8, Failure> {
    let token = args.token_file.as_deref().map(read_token).transpose()?;
    if token.is_none() && !args.listen.ip().is_loopback() {
        return Err(Failure::new(
            USAGE,
            format!(
                "--listen {} can be reached from other machines: give --token-file, or listen on 127.0.0.1",
                args.listen
            ),
        ));
    }
    let builder = server.builder()?;
    // Pages that only read do no harm on a server that may evict locks.
    let builder = if args.allow_release { builder } else { builder.allow_eviction(true) };
    // A server that is away is shown on the pages, and may come back.
    let locks = builder.connect_lazy()?;
    let cannot_listen =
        |error: io::Error| Failure::new(OS, format!("cannot listen on {}: {error}", args.listen));
    let listener = TcpListener::bind(args.listen).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    // Fails where another one is set, which there is not.
    let _ = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(tracing::Level::WARN).try_init();
    let access = Arc::new(token.map_or(Access::Local(address), Access::Token));
    let app = Dashboard::new(&locks).allow_release(args.allow_release).router();
    let app = app.layer(from_fn_with_state(access, check));
    writeln!(io::stdout(), "http://{address}/")?;
    io::stdout().flush()?;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::select! {
        outcome = async { axum::serve(listener, service).await } => outcome?,
        // Live pages never end by themselves.
        interrupted = end() => interrupted?,
    }
    // What fails here is over with the process.
    let _ = locks.shutdown(Duration::from_millis(200)).await;
    Ok(OK)
}

/// Ctrl-C, or what a service manager sends.
async fn end() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let refused = |why: String| Failure::new(USAGE, format!("--token-file {}: {why}", file.display()));
    let metadata = std::fs::metadata(file).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_file() {
        return Err(refused("it is no file".to_owned()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(refused("others than its owner can read it: chmod 600".to_owned()));
        }
    }
    let text = std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))?;
    let token = text.trim();
    if !(SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&token.len())
        || !token.chars().all(|char| char.is_ascii_graphic())
    {
        return Err(refused(format!(
            "it must have one line of {SHORTEST_TOKEN} to {LONGEST_TOKEN} visible ASCII characters, such as `openssl rand -hex 16` prints"
        )));
    }
    Ok(token.to_owned())
}

async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match &*access {
        Access::Token(token) if !is_given(request.headers(), token) => {
            let challenge = HeaderValue::from_static("Basic realm=\"redlocked\", charset=\"UTF-8\"");
            let words = "The password of these pages is in the file of --token-file.\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)], words).into_response()
        }
        Access::Local(address) if !is_local(request.headers(), *address) => {
            let words = "These pages are for this machine: open them by the address that `redlocked serve` has printed.\n";
            (StatusCode::MISDIRECTED_REQUEST, words).into_response()
        }
        _ => next.run(request).await,
    }
}

/// The request was sent to this machine by name, and not to another host whose name leads here.
fn is_local(headers: &HeaderMap, address: SocketAddr) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let (name, port) =
        host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).unwrap_or((host, "80"));
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_this =
        name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    is_this && port.parse() == Ok(address.port())
}

fn is_given(headers: &HeaderMap, token: &str) -> bool {
    let Some(given) = headers.get(header::AUTHORIZATION).and_then(|given| given.to_str().ok()) else {
        return false;
    };
    let Some((scheme, given)) = given.split_once(' ') else { return false };
    if scheme.eq_ignore_ascii_case("bearer") {
        return is_equal(given.trim().as_bytes(), token.as_bytes());
    }
    let password = scheme.eq_ignore_ascii_case("basic").then(|| decode(given.trim())).flatten();
    let password = password.and_then(|both| {
        let colon = both.iter().position(|byte| *byte == b':')?;
        Some(both.get(colon + 1..)?.to_vec())
    });
    password.is_some_and(|password| is_equal(&password, token.as_bytes()))
}

/// In a time that does not tell where they differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

/// Base64, as a browser sends a name and a password.
fn decode(text: &str) -> Option<Vec<u8>> {
    let value = |char: u8| match char {
        b'A'..=b'Z' => Some(char - b'A'),
        b'a'..=b'z' => Some(char - b'a' + 26),
        b'0'..=b'9' => Some(char - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for char in text.bytes().take_while(|char| *char != b'=') {
        bits = (bits << 6 | u32::from(value(char)?)) & 0xff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        let value = HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""));
        HeaderMap::from_iter([(name, value)])
    }

    #[test]
    fn a_host_that_only_leads_here_is_another() {
        let here = SocketAddr::from(([127, 0, 0, 1], 7380));
        for (host, expected) in [
            ("127.0.0.1:7380", true),
            ("localhost:7380", true),
            ("[::1]:7380", true),
            ("127.0.0.1", false),
            ("127.0.0.1:80", false),
            ("evil.example:7380", false),
            ("localhost.evil.example:7380", false),
            ("", false),
        ] {
            assert_eq!(is_local(&with(header::HOST, host), here), expected, "{host}");
        }
    }

    #[test]
    fn a_token_is_a_password_of_any_user() {
        let token = "0123456789abcdef";
        for (given, expected) in [
            ("Bearer 0123456789abcdef", true),
            ("Basic bWU6MDEyMzQ1Njc4OWFiY2RlZg==", true),
            ("Basic OjAxMjM0NTY3ODlhYmNkZWY=", true),
            ("Basic MDEyMzQ1Njc4OWFiY2RlZg==", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer", false),
            ("Basic !!!", false),
        ] {
            assert_eq!(is_given(&with(header::AUTHORIZATION, given), token), expected, "{given}");
        }
    }
}
