//! `redlocked doctor` and `redlocked ping`: what the server can do, and what is missing, in words.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use redlocked::{LockError, LockManager};
use serde_json::{Value, json};
use terminal_size::{Width, terminal_size_of};
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::args::{DoctorArgs, Format, ServerArgs};
use crate::elsewhere::LONGEST_WALK;
use crate::exit::{CONFLICT, Failure, MISCONFIGURED, OK, USAGE};
use crate::lock_text::{Span, printable};
use crate::table::{folded, styled};

/// `redlocked ping`.
pub(crate) async fn ping(locks: &LockManager) -> Result<u8, Failure> {
    let start = Instant::now();
    locks.ping().await?;
    writeln!(std::io::stdout(), "takes locks, answered in {}", Span(start.elapsed()))?;
    Ok(OK)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckResult {
    Works,
    /// Locks work without it, more slowly.
    Missing,
    Fails,
}

impl CheckResult {
    fn words(self) -> (&'static str, Style) {
        match self {
            Self::Works => ("ok", AnsiColor::Green.on_default()),
            Self::Missing => ("missing", AnsiColor::Yellow.on_default()),
            Self::Fails => ("fails", AnsiColor::Red.on_default().bold()),
        }
    }
}

struct Check {
    state: CheckResult,
    name: &'static str,
    words: String,
    /// What to do.
    remedy: String,
}

/// What was found, and the exit code that follows from it.
struct Report {
    checks: Vec<Check>,
    code: u8,
}

impl Report {
    fn works(&mut self, name: &'static str, words: impl Into<String>) {
        self.checks.push(Check {
            state: CheckResult::Works,
            name,
            words: words.into(),
            remedy: String::new(),
        });
    }

    fn missing(&mut self, name: &'static str, words: impl Into<String>, remedy: impl Into<String>) {
        self.checks.push(Check {
            state: CheckResult::Missing,
            name,
            words: words.into(),
            remedy: remedy.into(),
        });
        self.code = self.code.max(CONFLICT);
    }

    fn fails(&mut self, name: &'static str, failure: impl Into<Failure>) {
        let Failure { code, message } = failure.into();
        let words = printable(&message);
        self.checks.push(Check { state: CheckResult::Fails, name, words, remedy: String::new() });
        // Behind a failure, the next ones are of the same cause.
        self.code = if self.code > CONFLICT { self.code } else { code };
    }
}

/// `redlocked doctor`.
pub(crate) async fn doctor(server: &ServerArgs, args: &DoctorArgs) -> Result<u8, Failure> {
    let log = Arc::new(Log::default());
    // The library says there why a server lacks a feature. Nothing else listens in this process.
    let _ = tracing::subscriber::set_global_default(Arc::clone(&log));
    let mut report = Report { checks: Vec::new(), code: OK };
    examine(server, &log, &mut report).await;
    print(&report.checks, args.output)?;
    Ok(report.code)
}

async fn examine(server: &ServerArgs, log: &Log, report: &mut Report) {
    let prefix = match server.source().and_then(|source| Ok((source, server.prefix()?))) {
        Ok((source, prefix)) => {
            report.works("address", format!("that of {source}; keys start with `{}`", printable(&prefix)));
            prefix
        }
        Err(failure) => return report.fails("address", failure),
    };
    let start = Instant::now();
    let (connected, evicts) = match server.connect().await {
        // The rest of what is wrong may be seen where its policy alone is.
        Err(failure) if failure.code == MISCONFIGURED => match server.connect_to_read().await {
            Ok(locks) => (Ok(locks), Some(failure)),
            Err(_) => (Err(failure), None),
        },
        connected => (connected, None),
    };
    let locks = match connected {
        Ok(locks) => locks,
        // An address that cannot be used is not tried.
        Err(failure) if failure.code == USAGE => return report.fails("address", failure),
        Err(failure) => return report.fails("connection", failure),
    };
    report.works("connection", format!("connected in {}", Span(start.elapsed())));
    if let Some(evicts) = evicts {
        report.fails("eviction", evicts);
    }
    match locks.ping().await {
        Ok(()) => report.works("writes", "the server takes writes: it is a primary, and has room"),
        Err(error) => report.fails("writes", error),
    }
    let start = Instant::now();
    match one_lock(&locks).await {
        Ok(()) => report.works("lock", format!("taken, seen and released in {}", Span(start.elapsed()))),
        Err(error) => report.fails("lock", error),
    }
    features(&locks, &prefix, log, report).await;
    match tokio::time::timeout(LONGEST_WALK, locks.list("*")).await {
        Ok(Ok(held)) => {
            let waiters: u64 = held.iter().map(|lock| u64::from(lock.waiters())).sum();
            report.works("list", format!("locks held now: {}, callers that wait: {waiters}", held.len()));
        }
        Ok(Err(error @ LockError::Misconfigured { .. })) => {
            report.missing(
                "list",
                printable(&error.to_string()),
                "grant +scan; only `list` and `top` need it",
            );
        }
        Ok(Err(error)) => report.fails("list", error),
        Err(_) => report.missing(
            "list",
            format!("not finished after {}: the server has very many keys", Span(LONGEST_WALK)),
            "give locks a database of their own; only `list` and `top` walk over all keys",
        ),
    }
}

/// On a key that no program uses.
async fn one_lock(locks: &LockManager) -> Result<(), LockError> {
    let key = format!("redlocked-doctor:{}", std::process::id());
    let guard = locks.lock(&key).ttl(Duration::from_secs(10)).label("redlocked doctor").acquire().await?;
    locks.inspect(&key).await?;
    guard.release().await.map(drop)
}

async fn features(locks: &LockManager, prefix: &str, log: &Log, report: &mut Report) {
    let capabilities = match locks.capabilities().await {
        Ok(capabilities) => capabilities,
        Err(error) => return report.fails("hand-over", error),
    };
    if capabilities.hands_over() {
        report.works("hand-over", "a release passes the lock straight to its longest waiter");
    } else {
        let reasons = log.take();
        let words = if reasons.is_empty() {
            "waiters keep no order among processes, as on several independent servers".to_owned()
        } else {
            reasons.join("; ")
        };
        let channels = printable(prefix);
        let rules = "+subscribe +publish +pubsub|numsub +zadd +zcard +zpopmin +zrange +zrank +zrem +zscore; on a \
                     Cluster in addition +ssubscribe +spublish +pubsub|shardnumsub";
        report.missing("hand-over", words, format!("Redis 6 or later, and the rules &{channels}* {rules}"));
    }
    if capabilities.tracks_changes() {
        report.works("loss", "a holder learns at once that its lock was deleted or overwritten");
    } else {
        report.missing(
            "loss",
            "a holder learns only at its next renewal that its lock was deleted or overwritten",
            "Redis 6 or later, and the rules +client|tracking +client|caching",
        );
    }
}

fn print(checks: &[Check], format: Option<Format>) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    match format {
        Some(Format::Json) => {
            let json = |check: &Check| {
                json!({
                    "check": check.name,
                    "state": check.state.words().0,
                    "words": check.words,
                    "remedy": (!check.remedy.is_empty()).then_some(&check.remedy),
                })
            };
            writeln!(out, "{}", checks.iter().map(json).collect::<Value>())?;
        }
        Some(Format::Tsv) => {
            writeln!(out, "check\tstate\twords\tremedy")?;
            for Check { state, name, words, remedy } in checks {
                writeln!(out, "{name}\t{}\t{words}\t{remedy}", state.words().0)?;
            }
        }
        format => {
            let terminal = terminal_size_of(std::io::stdout()).filter(|_| format != Some(Format::Wide));
            let width = terminal.map_or(usize::MAX, |(Width(width), _)| width.into());
            writeln!(out, "{}", styled(&format!("{:9}{:12}WHAT", "STATE", "CHECK"), Style::new().bold()))?;
            for check in checks {
                let (state, style) = check.state.words();
                let remedy = (!check.remedy.is_empty()).then(|| format!("to do: {}", check.remedy));
                let texts = [Some(check.words.clone()), remedy].into_iter().flatten();
                let mut lines = texts.flat_map(|text| folded(&text, width.saturating_sub(21).max(20)));
                let first = lines.next().unwrap_or_default();
                writeln!(out, "{}{:12}{first}", styled(&format!("{state:9}"), style), check.name)?;
                for line in lines {
                    writeln!(out, "{:21}{line}", "")?;
                }
            }
        }
    }
    out.flush()
}

/// The warnings of the library that have a reason, in the field `error`.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn take(&self) -> Vec<String> {
        let mut lines = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // A second connection has the same.
        lines.sort();
        lines.dedup();
        lines
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "redlocked" && metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if let Some(reason) = line.reason {
            let line = printable(&format!("{} ({reason})", line.message));
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    reason: Option<String>,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "error" {
            self.reason = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}
