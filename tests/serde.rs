//! The feature `serde`: a ticket in a job.
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
