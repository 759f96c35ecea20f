//! The feature `serde`: a ticket in a job, and a lock that an operator looks at.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::time::Duration;

use redlocked::{LockManager, Ticket};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug)]
struct Job {
    id: u64,
    ticket: Ticket,
}

#[test]
fn a_ticket_is_serialized_as_its_text_and_redeemed_from_it() {
    let locks = LockManager::connect_blocking("memory://serde").unwrap();
    let guard = locks.lock("export:7").acquire_blocking().unwrap();
    let ticket = guard.into_ticket_blocking(Duration::from_secs(60)).unwrap();
    let secret = ticket.expose();
    let job = Job { id: 7, ticket };
    let shown = format!("{job:?} {job:#?}");
    assert!(shown.contains("export:7") && !shown.contains(&secret[..30]), "{shown}");

    let json = serde_json::to_value(&job).unwrap();
    assert_eq!(json, serde_json::json!({ "id": 7, "ticket": secret }));
    let read: Job = serde_json::from_str(&json.to_string()).unwrap();
    assert_eq!((&read.ticket, read.id), (&job.ticket, 7));
    assert_eq!(secret.parse::<Ticket>().unwrap(), read.ticket);
    assert_eq!(locks.redeem(read.ticket).acquire_blocking().unwrap().key(), "export:7");
}

#[test]
fn what_is_not_the_text_of_a_ticket_is_refused_and_not_shown() {
    for json in [r#""export:7secret""#, "7", r#"{"ticket":"secret"}"#] {
        let error = serde_json::from_str::<Ticket>(json).unwrap_err().to_string();
        assert!(error.contains("the text of a ticket") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn a_lock_is_serialized_with_its_holders_and_waiters_and_without_a_token() {
    let locks = LockManager::connect_blocking("memory://serde-inspect").unwrap();
    let _readers = [1, 2].map(|_| locks.lock("catalogue").shared().label("read").acquire_blocking().unwrap());
    let lock = locks.inspect_blocking("catalogue").unwrap().unwrap();
    let json = serde_json::to_value(&lock).unwrap();

    let fields = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let expected = [
        "holder",
        "holders",
        "inside",
        "key",
        "lease_left_ms",
        "limit",
        "limit_is_central",
        "queue",
        "taken",
        "waiters",
    ];
    assert_eq!(fields(&json), expected);
    assert_eq!((&json["key"], &json["inside"], &json["limit"]), (&"catalogue".into(), &2.into(), &().into()));
    let [first, second] = json["holders"].as_array().unwrap().as_slice() else { panic!("{json}") };
    let expected =
        ["asked", "asked_epoch", "function", "granted", "granted_epoch", "lease_left_ms", "name", "taken"];
    assert_eq!(fields(first), expected);
    assert_eq!((fields(second), &first["function"]), (fields(first), &"read".into()));
    assert!(
        first["asked"].as_str().unwrap().ends_with('Z') && first["lease_left_ms"].as_u64().unwrap() <= 30_000
    );
}
