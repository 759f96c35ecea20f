//! The spans of a wait and of a hold.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use kit::{RedisServer, connect, eventually, unique};
use redlocked::{LockError, LockErrorKind, LockKey, LockManager, distributed_lock};
use tracing::{Instrument, Level, info, info_span};

use crate::seen::{SeenSpan, all_text, events, spans, subscribe};

const SECOND: Duration = Duration::from_secs(1);

fn memory() -> LockManager {
    subscribe();
    LockManager::connect_blocking(format!("memory://{}", unique("spans"))).unwrap()
}

fn field<'a>(span: &'a SeenSpan, name: &str) -> &'a str {
    span.fields.get(name).map_or("-", |value| value)
}

/// Each span of the key as `name(outcome) < parent`, once all of them are closed.
#[track_caller]
fn closed(key: &str) -> Vec<String> {
    eventually("the spans are closed", || spans(key).iter().all(|span| span.is_closed));
    let shown = |span: SeenSpan| {
        format!("{}({}) < {}", span.name, field(&span, "outcome"), span.parent.unwrap_or("-"))
    };
    spans(key).into_iter().map(shown).collect()
}

#[distributed_lock(key = "spans:{sku}", manager = locks, wait = "30s")]
async fn purchase(locks: &LockManager, sku: &str) -> Result<(), LockError> {
    info!(sku, "before");
    tokio::task::yield_now().await;
    info!(sku, "after");
    Ok(())
}

#[distributed_lock(key = "spans:{sku}", manager = locks, guard = guard)]
fn purchase_blocking(locks: &LockManager, sku: &str) -> Result<u64, LockError> {
    info!(sku, "inside");
    Ok(guard.fencing_token())
}

#[tokio::test]
async fn an_annotated_function_has_a_wait_and_a_hold_below_its_callers_span() {
    let (locks, sku) = (memory(), unique("async"));
    purchase(&locks, &sku).instrument(info_span!("request")).await.unwrap();
    let key = format!("spans:{sku}");
    assert_eq!(closed(&key), ["lock_wait(acquired) < request", "lock_hold(released) < request"]);
    for span in spans(&key) {
        assert_eq!(field(&span, "lock"), "spans:{sku}");
        assert_eq!(field(&span, "function"), "telemetry::spans::purchase");
    }
    let inside: Vec<_> = events("sku", &sku).into_iter().map(|event| event.within).collect();
    assert_eq!(inside, [["lock_hold", "request"], ["lock_hold", "request"]], "also after an await");
}

#[test]
fn a_sync_body_runs_inside_its_hold_which_names_the_fencing_token() {
    let (locks, sku) = (memory(), unique("sync"));
    let token = info_span!("request").in_scope(|| purchase_blocking(&locks, &sku)).unwrap();
    let key = format!("spans:{sku}");
    assert_eq!(closed(&key), ["lock_wait(acquired) < request", "lock_hold(released) < request"]);
    for span in spans(&key) {
        assert_eq!(field(&span, "fencing_token"), token.to_string());
    }
    assert_eq!(events("sku", &sku)[0].within, ["lock_hold", "request"]);
    info!(after = sku, "done");
    assert!(events("after", &sku)[0].within.is_empty(), "the span is left");
}

#[tokio::test]
async fn a_future_belongs_to_the_span_in_which_it_was_made() {
    let (locks, key) = (memory(), unique("made"));
    let made = info_span!("here").in_scope(|| locks.lock(&*key).acquire());
    drop(made.instrument(info_span!("there")).await.unwrap());
    let other = unique("polled");
    drop(locks.lock(&*other).acquire().instrument(info_span!("there")).await.unwrap());
    assert_eq!(closed(&key), ["lock_wait(acquired) < here", "lock_hold(released) < here"]);
    assert_eq!(closed(&other), ["lock_wait(acquired) < there", "lock_hold(released) < there"]);
}

#[tokio::test]
async fn a_guard_has_a_hold_that_is_not_entered() {
    let (locks, key) = (memory(), unique("guard"));
    let guard = locks.lock(&*key).label("by-hand").acquire().await.unwrap();
    info!(with = key, "meanwhile");
    assert!(events("with", &key)[0].within.is_empty());
    assert!(!spans(&key)[1].is_closed);
    thread::spawn(move || drop(guard)).join().unwrap();
    assert_eq!(closed(&key), ["lock_wait(acquired) < -", "lock_hold(released) < -"]);
    assert_eq!((field(&spans(&key)[0], "lock"), field(&spans(&key)[0], "function")), ("by-hand", "-"));
}

#[tokio::test]
async fn the_outcome_says_how_a_wait_and_a_hold_ended() {
    let (locks, key) = (memory(), unique("outcomes"));
    let held = locks.lock(&*key).acquire().await.unwrap();
    assert!(locks.lock(&*key).acquire().await.is_err());
    {
        let mut cancelled = pin!(locks.lock(&*key).wait(SECOND).acquire());
        assert!(cancelled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    locks.force_release(&key).await.unwrap();
    held.lost().await;
    let expected = [
        "lock_wait(acquired) < -",
        "lock_hold(force_released) < -",
        "lock_wait(busy) < -",
        "lock_wait(cancelled) < -",
    ];
    assert_eq!(closed(&key), expected, "while the guard of the lost lock lives");
    let lines = events("key", &key);
    assert_eq!(lines.iter().map(|line| line.level).collect::<Vec<_>>(), [Level::WARN], "the loss");
    assert_eq!(lines[0].fields["reason"], "force_released", "as in the metrics");
}

#[tokio::test]
async fn opentelemetry_is_told_of_a_span_that_failed_and_why() {
    let (locks, key) = (memory(), unique("failed"));
    let held = locks.lock(&*key).acquire().await.unwrap();
    assert!(locks.lock(&*key).acquire().await.is_err(), "busy is what callers that skip expect");
    let error = locks.lock(&*key).wait(Duration::from_millis(20)).acquire().await.unwrap_err();
    locks.force_release(&key).await.unwrap();
    held.lost().await;
    let _ = closed(&key);
    let found = spans(&key);
    let statuses: Vec<_> = found
        .iter()
        .map(|span| [span.name, field(span, "otel.status_code"), field(span, "otel.status_description")])
        .collect();
    let expected = [
        ["lock_wait", "-", "-"],
        ["lock_hold", "ERROR", "it was released by force"],
        ["lock_wait", "-", "-"],
        ["lock_wait", "ERROR", &error.to_string()],
    ];
    assert_eq!(statuses, expected);
    assert!(field(&found[3], "waited_ms").parse::<u32>().unwrap() >= 20);
    assert!(field(&found[1], "held_ms").parse::<u32>().unwrap() >= 20);
}

#[tokio::test]
async fn a_nested_call_has_a_wait_and_stays_inside_the_outer_hold() {
    let (locks, key) = (memory(), unique("nested"));
    let inner = || locks.lock(&*key).reentrant(true).run_value(async |_| info!(inside = key, "body"));
    locks.lock(&*key).run_value(async |_| inner().await.unwrap()).await.unwrap();
    assert_eq!(
        closed(&key),
        ["lock_wait(acquired) < -", "lock_hold(released) < -", "lock_wait(joined) < lock_hold"]
    );
    assert_eq!(events("inside", &key)[0].within, ["lock_hold"]);
}

#[tokio::test]
async fn several_keys_are_one_wait_and_one_hold() {
    type OfKind = fn(String) -> LockKey;
    let (locks, key) = (memory(), unique("several"));
    let keys = [format!("{key}:a"), format!("{key}:b")];
    drop(locks.lock_all(&keys).acquire().await.unwrap());
    assert_eq!(closed(&keys.join(", ")), ["lock_wait(acquired) < -", "lock_hold(released) < -"]);
    // The strictest of their kinds.
    let kinds: [(OfKind, OfKind, &str); 3] = [
        (LockKey::shared, LockKey::exclusive, "exclusive"),
        (|key| LockKey::permits(key, 5), LockKey::shared, "permits"),
        (LockKey::shared, LockKey::shared, "shared"),
    ];
    for (one, two, kind) in kinds {
        let [a, b] = ["a", "b"].map(|end| format!("{key}:{kind}:{end}"));
        let joined = format!("{a}, {b}");
        drop(locks.lock_all([one(a), two(b)]).acquire().await.unwrap());
        assert!(spans(&joined).iter().all(|span| field(span, "kind") == kind), "{kind}");
        assert_eq!(spans(&joined).len(), 2);
    }
}

#[tokio::test]
async fn a_wait_says_how_many_were_in_front() {
    subscribe();
    let (server, key) = (RedisServer::start(), unique("queue"));
    let locks = connect(&server);
    let held = locks.lock(&*key).acquire().await.unwrap();
    let mut waiting = Vec::new();
    for waiters in 1..=3 {
        waiting.push(tokio::spawn(locks.lock(&*key).wait(30 * SECOND).run_value(async |_| ())));
        while locks.inspect(&key).await.unwrap().is_none_or(|info| info.waiters() < waiters) {}
    }
    drop(held);
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
    eventually("the spans are closed", || spans(&key).iter().all(|span| span.is_closed));
    let waits = spans(&key).into_iter().filter(|span| span.name == "lock_wait");
    let in_front: Vec<_> = waits.map(|span| field(&span, "in_front").to_owned()).collect();
    assert_eq!(in_front, ["-", "0", "1", "2"]);
}

#[test]
fn the_wait_for_a_tick_and_for_a_body_that_runs_once_says_whether_this_caller_runs() {
    let (locks, key, once_key) = (memory(), unique("tick"), unique("once"));
    let week = 7 * 86_400 * SECOND;
    let tick = || locks.lock(&*key).tick(week).run_value_blocking(|_guard| ());
    assert_eq!(tick().and_then(|()| tick()).unwrap_err().kind(), LockErrorKind::TickTaken);
    assert_eq!(closed(&key), ["lock_wait(ran) < -", "lock_hold(released) < -", "lock_wait(taken) < -"]);
    for _ in 0..2 {
        let once = locks.lock(&*once_key).once(week).run_blocking(|_guard| Ok::<_, LockError>(7));
        assert_eq!(once.unwrap().into_inner(), 7);
    }
    let expected = ["lock_wait(ran) < -", "lock_hold(released) < -", "lock_wait(replayed) < -"];
    assert_eq!(closed(&once_key), expected);
    let failed = [key, once_key]
        .iter()
        .flat_map(|key| spans(key))
        .filter(|span| field(span, "otel.status_code") != "-")
        .count();
    assert_eq!(failed, 0);
}

#[tokio::test]
async fn no_span_and_no_line_has_the_secret_of_a_token() {
    subscribe();
    let (server, key) = (RedisServer::start(), unique("secret"));
    let locks = connect(&server);
    let guard = locks.lock(&*key).acquire().await.unwrap();
    let value: String = server.run(&format!("GET lock:{key}"));
    let (secret, _) = value.split_once('@').unwrap();
    assert!(locks.lock(&*key).wait(Duration::from_millis(50)).acquire().await.is_err());
    drop(guard);
    assert_eq!(closed(&key).len(), 3);
    assert!(!all_text().contains(secret));
}

/// The term is the fencing token of the hold, and the body is inside.
#[tokio::test]
async fn a_term_is_the_hold_of_its_leader_and_says_how_it_ended() {
    let (locks, key) = (memory(), unique("terms"));
    let election = locks.election(&*key).label("loop");
    let mut terms = Vec::new();
    let lead = election.lead(async |term| {
        info!(term_of = key, "leads");
        terms.push(term.fencing_token());
        if terms.len() == 1 {
            term.resign();
            tokio::task::yield_now().await;
        }
        Ok::<_, LockError>(())
    });
    lead.instrument(info_span!("main")).await.unwrap();
    let failed = election.clone().stop_on_error().lead_blocking(|term| {
        terms.push(term.fencing_token());
        Err::<(), _>("no such table")
    });
    assert!(failed.is_err());
    let expected = [
        "lock_wait(acquired) < main",
        "lock_hold(released) < main",
        "lock_wait(acquired) < main",
        "lock_hold(released) < main",
        "lock_wait(acquired) < -",
        "lock_hold(released) < -",
    ];
    assert_eq!(closed(&key), expected);
    let holds: Vec<_> = spans(&key).into_iter().filter(|span| span.name == "lock_hold").collect();
    let seen = holds.iter().map(|span| {
        ["lock", "fencing_token", "term_end", "otel.status_code", "otel.status_description"]
            .map(|name| field(span, name).to_owned())
    });
    let expected = [
        ["loop", &terms[0].to_string(), "resigned", "-", "-"],
        ["loop", &terms[1].to_string(), "returned", "-", "-"],
        ["loop", &terms[2].to_string(), "failed", "ERROR", "no such table"],
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected.map(|row| row.map(str::to_owned)));
    let within: Vec<_> = events("term_of", &key).into_iter().map(|event| event.within).collect();
    assert_eq!(within, [["lock_hold", "main"], ["lock_hold", "main"]]);
}

#[tokio::test]
async fn the_span_of_a_term_is_closed_when_its_future_is_dropped_or_the_lead_is_lost() {
    let (locks, key) = (memory(), unique("terms-lost"));
    let election = locks.election(&*key);
    let lead = election.lead(async |_| std::future::pending::<Result<(), LockError>>().await);
    let mut lead = Box::pin(lead);
    let end = |number: usize| {
        let span = spans(&key).into_iter().filter(|span| span.name == "lock_hold").nth(number)?;
        Some((field(&span, "outcome").to_owned(), field(&span, "term_end").to_owned()))
    };
    let shown = |outcome: &str, end: &str| Some((outcome.to_owned(), end.to_owned()));
    let mut leads = async |number: usize| {
        while end(number).is_none() {
            assert!(lead.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(end(number), shown("-", "-"));
    };
    leads(0).await;
    locks.force_release(&key).await.unwrap();
    leads(1).await;
    assert_eq!(end(0), shown("force_released", "lost"));
    drop(lead);
    assert_eq!(end(1), shown("released", "dropped"));
    assert!(spans(&key).iter().all(|span| span.is_closed));
}
